# %% [markdown] id="title"
# # 11 Distributed: what each rank keeps, and what it sends
#
# You wrapped the model in `DistributedDataParallel`, and eight processes train it as one. With
# `fully_shard` the same model fits where it did not fit. One rank did not use one layer, and the
# job hung. After this chapter you can say when each byte leaves a process, how many leave it per
# step, and what is kept where: in DDP (`DistributedDataParallel`), FSDP (`fully_shard`), tensor and
# pipeline parallelism.
#
# *Reading: two evenings, about 30 and 35 minutes.*

# %% [markdown] id="try-first"
# ## Try it first
# Four ranks train one model, and each holds a quarter of the layers. The grey stretches are the
# *bubble*: a rank computes nothing. Add micro-batches and watch its share. Then cut the rows
# instead of the layers: press `DDP` or `FSDP`.

# %% id="try-first-run" tags=["hide-input"]
import onelayer

onelayer.show_timeline("gpipe", ranks=4, parts=4)

# %% id="instruments"
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from autograder import predict, reveal
from onelayer.distributed.rank_log import ring_bytes

os.environ["TORCH_FR_BUFFER_SIZE"] = "100"  # the flight recorder, near the end of this page
backend = "nccl" if torch.cuda.device_count() >= 4 else "gloo"  # gloo: the CPU, over sockets
here = "cuda" if backend == "nccl" else "cpu"


def on_ranks(n, function, *given, **more):
    """What `function` returned on each of `n` processes, which form one group."""
    return onelayer.run_ranks(n, function, *given, backend=backend, **more)


# %% [markdown] id="rank"
# ## A rank is a process
# `on_ranks(2, f)` calls `f` in two processes beside this notebook. They form a *group*, and each
# has a number in it: its *rank*. Rank 1 sets the head's bias to zero. Who has a zero bias
# afterwards: rank 1, rank 0, the notebook?

# %% id="rank-run"
head = onelayer.head()  # nn.Linear(64, 600), trained


def zero_on_rank_1():
    if dist.get_rank() == 1:
        nn.init.zeros_(head.bias)
    print("process", os.getpid(), "of", dist.get_world_size())
    return head.bias.count_nonzero().item() == 0


zeroed = [*on_ranks(2, zero_on_rank_1), head.bias.count_nonzero().item() == 0]
print("a zero bias:", dict(zip(("rank 0", "rank 1", "notebook"), zeroed, strict=True)))

# %% [markdown] id="rank-why"
# Rank 1 alone. Each process has its own Python and its own memory, and the head travelled to both
# as a copy. What one rank has to tell another goes as a message, and all of this chapter is about
# who sends which, when.

# %% [markdown] id="collective"
# ## A collective is a call that all make
# `all_reduce` adds up a tensor over all ranks, and leaves the sum on each. Nobody is asked whether
# they want to take part. What happens if rank 1 does not call it?

# %% id="collective-guess"
predict("one_rank_does_not_call", choices=["an error at once", "rank 0 waits", "rank 0 goes on"])

# %% id="collective-run"
from onelayer.distributed.ranks import RanksFailed


def rank_1_forgets():
    one = torch.ones(1, device=here)
    if dist.get_rank() != 1:
        dist.all_reduce(one)
    return one.item()  # a GPU's call returns at once, and the wait is here


try:
    on_ranks(2, rank_1_forgets, timeout_s=1.5)
    outcome = "rank 0 goes on"
except RanksFailed as failed:
    outcome = "rank 0 waits" if 0 in failed.waiting else "an error at once"
    print(str(failed).split("\n    ")[0])

# %% id="collective-reveal"
reveal("one_rank_does_not_call", outcome)

# %% [markdown] id="collective-why"
# It waits for its partner until the group's
# [timeout](https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.init_process_group),
# half an hour on gloo; here our own clock ended it. Rank 1 still lives, so nothing is broken yet
# and no line raises: this is what "the job hangs" looks like. Is it because rank 1 lives? Take that
# away: the same call, and the process of rank 1 ends.


# %% id="collective-ended"
def rank_1_ends():
    if dist.get_rank() == 1:
        os._exit(0)
    dist.all_reduce(torch.ones(1))


try:
    onelayer.run_ranks(2, rank_1_ends)  # over gloo
except RanksFailed as failed:
    heads = [line.split(":")[0] for line in str(failed).splitlines() if line[:1] != " "]
    print(*(head for head in heads[1:] if "rank" in head), sep="\n")

# %% [markdown] id="collective-rule"
# Now rank 0 raises: gloo saw that the connection to rank 1 was closed. A rank that lives and makes
# no call closes nothing. So the rule: all ranks make the same collectives in the same order.

# %% [markdown] id="four-of-them"
# ## Four collectives
# Each of two ranks holds two numbers. Read off what each call leaves on both. `src` is the rank
# that gives.


# %% id="four-of-them-run"
NAMES = ("has", "broadcast", "all_reduce", "all_gather", "reduce_scatter")


def four():
    rank, n = dist.get_rank(), dist.get_world_size()
    x = torch.tensor([10**rank, 2 * 10**rank], device=here)
    copied, added, slice_of_sum = x.clone(), x.clone(), x[:1].clone()
    gathered = [torch.empty_like(x) for _ in range(n)]
    dist.broadcast(copied, src=0)
    dist.all_reduce(added)
    dist.all_gather(gathered, x)
    dist.reduce_scatter(slice_of_sum, list(x.split(1)))
    after = (x, copied, added, torch.cat(gathered), slice_of_sum)
    return {name: t.tolist() for name, t in zip(NAMES, after, strict=True)}


onelayer.show_collectives(on_ranks(2, four))

# %% [markdown] id="two-halves"
# ## An all-reduce in two halves
# Look at the last three rows. If you gather what `reduce_scatter` left on each rank, what do you
# get?

# %% id="two-halves-guess"
predict("gather_after_reduce_scatter", choices=["all_gather's row", "all_reduce's row", "neither"])


# %% id="two-halves-run"
def halves():
    x = torch.arange(6.0, device=here) * (dist.get_rank() + 1)
    mine = torch.empty(2, device=here)
    dist.reduce_scatter(mine, list(x.chunk(3)))  # each rank: the sum of its third
    joined = [torch.empty_like(mine) for _ in range(3)]
    dist.all_gather(joined, mine)
    dist.all_reduce(x)
    return torch.cat(joined).equal(x)


same = all(on_ranks(3, halves))
reveal("gather_after_reduce_scatter", "all_reduce's row" if same else "neither")

# %% [markdown] id="two-halves-why"
# You get the all-reduce. The two halves matter later in this chapter: DDP makes both at once; FSDP
# makes them at two different times, and steps on its slice in between.

# %% [markdown] id="ring"
# ## What does an all-reduce send?
# The gradient of the head's weight has 153,600 bytes, and 4 ranks reduce it. Each could send all of
# its bytes to the three others. Or they take the two halves: in each half a rank sends three of the
# four slices, 38,400 bytes each. How many bytes does one rank really send?

# %% id="ring-guess"
predict("bytes_sent_by_one_rank", choices=[115_200, 153_600, 230_400, 460_800])


# %% id="ring-run"
def reduce_the_gradient():
    grad = torch.ones(600, 64, device=here)
    with onelayer.record_collectives() as log:
        dist.all_reduce(grad)
    return log


logs = on_ranks(4, reduce_the_gradient)
print(logs[0])
onelayer.show_bars(
    {"a ring": logs[0].ring_bytes, "counted by the kernel": logs[0].sent_bytes or 0}, unit="bytes"
)

# %% id="ring-reveal"
counted = logs[0].sent_bytes or logs[0].ring_bytes  # NCCL's bytes pass the kernel by
nearest = min((115_200, 153_600, 230_400, 460_800), key=lambda choice: abs(choice - counted))
reveal("bytes_sent_by_one_rank", nearest)

# %% [markdown] id="ring-why"
# The first bar is a ring's: the ranks cut the tensor into n slices, and each sends to the next one
# alone. In n - 1 turns each slice collects its sum, in n - 1 more the sums travel round. Each turn
# sends one slice: 2 (n - 1) / n of the tensor. The second bar is what Linux counted at this
# process's sockets. Does the little above it belong to the tensor, or to the messages? Reduce ten
# times as much, then the same in two calls:


# %% id="ring-above"
def above_the_ring(rows, calls):
    with onelayer.record_collectives() as log:
        for part in torch.ones(rows, 64, device=here).chunk(calls):
            dist.all_reduce(part)
    return (log.sent_bytes or log.ring_bytes) - log.ring_bytes  # NCCL's bytes are not counted


for given in ((600, 1), (6000, 1), (600, 2)):
    above = on_ranks(4, above_the_ring, *given)[0]
    print("rows and calls", given, f"{above:,} bytes above the ring's")

# %% [markdown] id="ring-above-why"
# Ten times the tensor leaves it as it was, two calls double it: it belongs to the messages, as a
# header does. Here are the turns: of how many ranks each of the four slices is the sum.

# %% id="ring-turns"
n = 4
held = [[1] * n for _ in range(n)]  # [rank][slice]: of how many ranks it is the sum
turns = [[row[:] for row in held]]
for turn in range(2 * (n - 1)):
    for rank in range(n):  # each sends one slice to the next in the ring
        place, to = (rank - turn) % n, (rank + 1) % n
        held[to][place] = turns[-1][rank][place] + (turns[-1][to][place] if turn < n - 1 else 0)
    turns.append([row[:] for row in held])
onelayer.show_ring(turns)

# %% [markdown] id="sixty-four"
# ## And with 64 ranks?
# You need no 64 GPUs to ask. `fake_group` makes this process one rank of 64 of which no other
# exists: calls and shapes are real, values are not, and what would be sent is the ring's formula.
# Does one of 64 ranks send 16 times as much as one of four?

# %% id="sixty-four-run"
sent = {}
for n in (2, 4, 8, 64):
    with onelayer.fake_group(n), onelayer.record_collectives() as log:
        dist.all_reduce(torch.ones(600, 64))
    sent[f"{n} ranks"] = log.ring_bytes
onelayer.show_bars(sent, unit="bytes")
print(f"64 ranks against 4: {sent['64 ranks'] / sent['4 ranks']:.1f} times the bytes")

# %% [markdown] id="sixty-four-why"
# Hardly more: 2 (n - 1) / n comes close to 2 and does not reach it. What grows with the ranks is
# the number of turns, 2 (n - 1), and each turn is a message with a fixed cost. How large is that
# cost?

# %% [markdown] id="alpha-beta"
# ## What does a message cost?
# Say that a collective takes *alpha*, whatever its size, and *beta* for each byte. Two measurements
# give both: a tiny tensor is all alpha, a large one nearly all beta. Then predict the gradient of
# the head, sent once and sent in 64 pieces, and hold the prediction against the clock.


# %% id="alpha-beta-run"
def took_us(nbytes, pieces=1, rounds=15):
    """The fewest us of all-reducing so many bytes on 2 ranks, in so many calls."""

    def timed():
        import time

        chunks, spans = torch.ones(nbytes // 4, device=here).chunk(pieces), []
        for _ in range(rounds):
            dist.barrier()
            began = time.perf_counter()
            for chunk in chunks:
                dist.all_reduce(chunk)
            chunks[-1][0].item()  # a GPU's calls return at once
            spans.append((time.perf_counter() - began) * 1e6)
        return min(spans)

    return max(on_ranks(2, timed))


alpha, large = took_us(4), 2**24
beta = (took_us(large) - alpha) / large
print(f"alpha {alpha:,.0f} us, beta {1e3 * beta:.2f} ns a byte")
for pieces in (1, 64):
    model_us, us = pieces * alpha + 153_600 * beta, took_us(153_600, pieces)
    print(f"153,600 bytes in {pieces:2}: predicted {model_us:8,.0f} us, measured {us:8,.0f}")

# %% [markdown] id="alpha-beta-why"
# The bytes are the same, and the many calls cost many times as much: alpha is paid for each. A
# model of two numbers is rough, and a busy machine is rougher; it tells you which of the two to
# work on: below `alpha / beta` bytes a message costs mostly alpha, above it mostly its bytes.

# %% id="alpha-beta-worth"
print(f"as many bytes as an alpha is worth: {alpha / beta:,.0f}")

# %% [markdown] id="ddp"
# ## Data parallel: one gradient from many parts
# Every rank has all the weights and some of the rows. The loss of a batch is a mean, so its
# gradient is the mean of the parts' gradients, if the parts are equally long. Four ranks try it
# with four rows each; this notebook takes all 16.

# %% id="ddp-data"
pairs = ("ella ha", "yo he", "nosotros hemos", "ellos han")
lines = [f"<es> {pair} comido" for pair in pairs]
x = onelayer.hidden("\n".join(lines))  # (16, 64)
followed = [[*onelayer.grammar.encode(line)[1:], 0] for line in lines]  # 0 is <end>
target = torch.tensor(followed).flatten()  # (16,): the word that comes next


# %% id="ddp-run"
def mean_of_parts():
    rank, n = dist.get_rank(), dist.get_world_size()
    mine = onelayer.head().to(here)
    F.cross_entropy(mine(x.chunk(n)[rank].to(here)), target.chunk(n)[rank].to(here)).backward()
    for p in mine.parameters():
        dist.all_reduce(p.grad)
        p.grad /= n
    return mine.weight.grad.cpu()


parts = on_ranks(4, mean_of_parts)
F.cross_entropy(head(x), target).backward()
print([part.allclose(head.weight.grad, atol=1e-6) for part in parts])

# %% [markdown] id="start"
# ## Same gradients, other weights
# Two ranks draw their weights from different seeds, and then share every gradient for five steps.
# How far apart are their weights at the end?

# %% id="start-guess"
predict("apart_after_five_steps", choices=["equal", "closer", "as far as at the start"])


# %% id="start-run"
def five_steps(agree):
    torch.manual_seed(dist.get_rank())
    layer = nn.Linear(64, 600).to(here)
    if agree:
        for p in layer.parameters():
            dist.broadcast(p.detach(), src=0)
    path = [layer.weight.detach().cpu().clone()]
    for _ in range(5):
        layer.zero_grad()
        F.cross_entropy(layer(x.to(here)), target.to(here)).backward()
        for p in layer.parameters():
            dist.all_reduce(p.grad)
            p.data -= 0.5 * p.grad / dist.get_world_size()
        path.append(layer.weight.detach().cpu().clone())
    return path


# %% id="start-show"
for agree in (False, True):
    one, other = on_ranks(2, five_steps, agree)
    apart = [(a - b).norm().item() for a, b in zip(one, other, strict=True)]
    print(f"broadcast first: {agree!s:6}", *(f"{distance:7.3f}" for distance in apart))
    if not agree:
        ratio = apart[-1] / apart[0]
        outcome = "as far as at the start" if abs(ratio - 1) < 1e-3 else "closer"
reveal("apart_after_five_steps", outcome)

# %% [markdown] id="start-why"
# The same step taken from two places leads to two places. So DDP's constructor checks that all
# ranks hold the same shapes, and then sends rank 0's parameters to all. Where this page gives the
# bytes of a ring, they are those that a rank sends on average; here rank 0 is the source.

# %% id="start-constructor"
DDP = nn.parallel.DistributedDataParallel


def construct():
    with onelayer.record_collectives() as log:
        DDP(onelayer.head().to(here))
    return log


print(on_ranks(2, construct)[0])

# %% [markdown] id="ready"
# ## When is a gradient ready?
# Chapter 03 said it: a leaf's gradient is written as soon as it is complete. A hook on each
# parameter notes the moment. Three layers have six gradients.

# %% id="ready-run"
three = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 600))
ready = []
for name, p in three.named_parameters():
    p.register_post_accumulate_grad_hook(lambda _, name=name: ready.append(name))
F.cross_entropy(three(x), target).backward()
print(*ready, sep=" -> ")

# %% [markdown] id="ready-why"
# The last layer's come first, and the backward of two more layers is still to come. That time is
# DDP's: what is ready may leave.

# %% [markdown] id="overlap"
# ## Send it while the rest is computed
# `async_op=True` starts an all-reduce and returns. From the hook, each gradient leaves as soon as
# it is there; the waits come at the end. Six layers without a bias have six gradients. How many
# have left before the last one is computed?


# %% id="overlap-run"
def hooked(rows):
    model = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(6))).to(here)
    work, before = [], []

    def send(p):
        before.append(len(work))
        work.append(dist.all_reduce(p.grad, async_op=True))

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(send)
    rows = rows.to(here)
    dist.barrier()  # so that both begin at the same time
    with onelayer.record_collectives() as log:
        model(rows).square().mean().backward()
        for sent in work:
            sent.wait()
    return log, before[-1]


recorded = on_ranks(2, hooked, torch.ones(256, 512))
onelayer.show_timeline([log for log, _ in recorded])
print(recorded[0][1], "gradients had left when the last one was ready")

# %% [markdown] id="overlap-why"
# All but the last, whose turn comes when nothing is left to hide behind. What you see above is this
# run: ranks as rows, operators above, all-reduces below. On a CPU, sending is work for the same
# cores. Below is a profiler's recording of one H100 alone, whose gradients leave for the host's
# memory, from the same hooks and on a stream of their own. Only the last copy has nothing to hide
# behind.

# %% id="overlap-gpu"
onelayer.show_recording("step_overlap")

# %% [markdown] id="buckets"
# ## Few large messages
# Every message has its alpha. So DDP's reducer, the C++ behind its hooks, copies gradients into
# *buckets*, and sends a bucket when its last gradient is there and the buckets before it have left.
# A bucket is full at half a MiB. A layer of 64 KiB and five of 257 KiB are registered in this order
# and run in the opposite one. What goes into which bucket depends on the order in which gradients
# come, and before the **first** backward DDP has not seen it. Compare the first two steps:


# %% id="buckets-run"
class FromTheEnd(nn.Sequential):
    def forward(self, x):
        for layer in reversed(self):
            x = layer(x)
        return x


def two_steps():
    layers = nn.Linear(256, 64), *(nn.Linear(256, 256) for _ in range(5))
    model = DDP(FromTheEnd(*layers).to(here), bucket_cap_mb=0.5)
    logs = []
    for _ in range(2):
        with onelayer.record_collectives() as log:
            model(torch.ones(4, 256, device=here)).sum().backward()
        logs.append(log)
    return logs


def reduced(log):
    return [call.bytes for call in log.collectives if call.name == "all_reduce"]


steps = [reduced(log) for log in on_ranks(2, two_steps)[0]]
for step, sizes in enumerate(steps, start=1):
    print(f"step {step}: {len(sizes)} of", *(f"{size:,}" for size in sizes), "bytes")

# %% [markdown] id="buckets-why"
# The first step sends one bucket with everything. DDP does not know yet in which order gradients
# come, so it watches a whole step. Then it makes the buckets anew, in the order that it saw: the
# first one holds the small layer, which ran last, and the two that ran before it. All ranks take
# rank 0's order, since all make the same collectives in the same order. With
# `find_unused_parameters=True`, which comes soon, it guesses the order and keeps its guess
# ([`distributed.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/parallel/distributed.py)).

# %% [markdown] id="play"
# ## Play with the buckets
# A model of the step: 8 layers of 4 MiB on 4 ranks. How much of the sending is hidden? Make the
# buckets smaller, the network faster, one rank slow. Which bucket can never be hidden, however
# small it is?

# %% id="play-run"
onelayer.show_timeline("ddp", ranks=4)

# %% [markdown] id="play-why"
# The last bucket can never be hidden: it waits for the first layer's gradient, and then nothing is
# left to compute. A slow rank delays all of them, because a collective begins when the last one
# comes.

# %% [markdown] id="no-sync"
# ## Do not send yet
# A batch that is too large goes through in *micro-batches*, one after the other, and their
# gradients add up in `.grad`. You want to send once, at the end. Under `model.no_sync()` nothing is
# sent. Three micro-batches, the first two in it:

# %% id="no-sync-run"
from contextlib import nullcontext


def three_parts():
    model = DDP(onelayer.head().to(here))
    rows = x[dist.get_rank() :: 2].to(here)  # (8, 64): every other row
    with onelayer.record_collectives() as log:
        for i, part in enumerate(rows.split(3)):
            with model.no_sync() if i < 2 else nullcontext():
                model(part).sum().backward()
    return log, model.module.weight.grad.cpu()


(log, one), (_, other) = on_ranks(2, three_parts)
print("same on both ranks:", one.equal(other), "| all-reduces:", len(reduced(log)))

# %% [markdown] id="no-sync-why"
# There is one all-reduce, of what the three added up, and DDP takes the mean over the ranks. Must
# the forward be inside as well? Put one of the two alone inside:


# %% id="no-sync-forward"
def one_inside(forward):
    model = DDP(onelayer.head().to(here))
    with onelayer.record_collectives() as log:
        with model.no_sync() if forward else nullcontext():
            loss = model(x.to(here)).sum()
        with nullcontext() if forward else model.no_sync():
            loss.backward()
    return len(reduced(log))


print("all-reduces with the backward alone inside:", on_ranks(2, one_inside, False)[0])
print("all-reduces with the forward alone inside:", on_ranks(2, one_inside, True)[0])

# %% [markdown] id="no-sync-forward-why"
# The forward must, and it alone: there DDP decides whether this backward will send.

# %% [markdown] id="unused"
# ## A layer that nobody used
# A bucket leaves when its last gradient is ready. Here one layer takes no part in the forward, on
# any rank. What does the first backward do?

# %% id="unused-guess"
predict("a_layer_without_gradient", choices=["raises", "hangs", "sends nothing", "sends zeros"])


# %% id="unused-run"
class Spare(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.spare = nn.Linear(64, 8), nn.Linear(64, 8)

    def forward(self, x):
        return self.used(x)


def with_a_spare(find):
    model = DDP(Spare().to(here), find_unused_parameters=find)
    with onelayer.record_collectives() as log:
        model(torch.full((2, 64), 1.0 + dist.get_rank(), device=here)).sum().backward()
    grad = model.module.used.weight.grad[0, 0].item()
    try:
        model(torch.ones(2, 64, device=here))
        after = "nothing said"
    except RuntimeError as error:
        after = str(error).split(".")[0]
    return reduced(log), grad, after


# %% id="unused-show"
for find in (False, True):
    (sent, *first), (_, *second) = on_ranks(2, with_a_spare, find)
    print(f"find_unused_parameters={find}: all-reduces of {sent} bytes")
    print("   gradients on the ranks:", first[0], second[0])
    print("   the next forward:", first[1].split(" before")[0])
    if not find:
        outcome = "sends nothing" if not sent else "sends zeros"
reveal("a_layer_without_gradient", outcome)

# %% [markdown] id="unused-why"
# Nothing leaves, and nothing is said: each rank keeps its own gradient, and an optimizer's step
# here would part the ranks for good. The next forward raises. With `find_unused_parameters=True`
# DDP walks the graph after each forward and counts the absent ones as ready; a second, small
# all-reduce tells all ranks which were used anywhere.

# %% [markdown] id="skipped"
# ## And if one rank alone skips it?
# Rank 0 uses both layers, rank 1 one of them. Each makes one forward and one backward. Who waits
# for ever?

# %% id="skipped-guess"
predict("who_waits_for_ever", choices=["rank 0", "rank 1", "both", "nobody"])


# %% id="skipped-run"
class SkippedOnRank1(Spare):
    def forward(self, x):
        return self.used(x) + self.spare(x) if dist.get_rank() == 0 else self.used(x)


def one_step():
    model = DDP(SkippedOnRank1().to(here))
    model(torch.ones(2, 64, device=here)).sum().backward()
    return model.module.used.weight.grad.sum().item()


try:
    on_ranks(2, one_step, timeout_s=3)
    waiting = ()
except RanksFailed as failed:
    waiting = failed.waiting
    told = [line for line in str(failed).splitlines() if not line.startswith(" ")]
    print(*told[1:], sep="\n")
reveal("who_waits_for_ever", {0: "nobody", 2: "both"}.get(len(waiting)) or f"rank {waiting[0]}")

# %% [markdown] id="skipped-why"
# Rank 0 waits for ever: its bucket is full and leaves, and nobody answers. Rank 1 is innocent by
# its own account: its bucket never filled, so its backward returned. Look for the cause of a hang
# on the ranks that do not hang.

# %% [markdown] id="first-evening-ends"
# ## The first evening ends here
# You can say what a rank is, what the four collectives leave and send, when DDP's gradients leave,
# and who waits when one does not come. That stands alone, with questions 11.1 to 11.3 of the lab.
# The second evening shards: FSDP, tensor and pipeline parallelism.

# %% [markdown] id="uneven"
# ## 600 rows for 7 ranks
# DDP keeps all weights everywhere. The alternative is a slice for each rank: FSDP, *fully sharded*
# data parallel. After `fully_shard` a parameter is a `DTensor`: its `shape` still says (600, 64),
# and `to_local()` is the slice that this rank holds. FSDP cuts as `torch.chunk` does, and 7 does
# not divide 600. Look at the slices of the first rank and of the last two, and at the bytes that a
# forward gathers:

# %% id="uneven-run"
from torch.distributed.fsdp import fully_shard


def slice_of(rank, n):
    """The shape of rank's slice of the head, and what a forward gathers."""
    with onelayer.fake_group(n, rank=rank), onelayer.record_collectives() as log:
        mine = fully_shard(onelayer.head())
        shape = tuple(mine.weight.to_local().shape)
        mine(x)
    return shape, log.collectives[0].bytes


sevenths = [slice_of(rank, 7) for rank in (0, 5, 6)]
print(sevenths, "| the head has", sum(p.nbytes for p in head.parameters()), "bytes")
# %% [markdown] id="uneven-why"
# Six times 86, and 84 remain. FSDP's all-gather wants equal parts, so the last slice is padded: the
# forward gathers 602 rows, and two of them belong to nobody. The parameter that you see has no
# padding.

# %% [markdown] id="empty"
# ## And for 64 ranks?
# A chunk has 10 rows now, and 60 chunks are all.

# %% id="empty-run"
print("rank 59:", slice_of(59, 64), "| rank 60:", slice_of(60, 64))
print("ranks without a row:", 64 - len(torch.empty(600).chunk(64)))
print("the mean of no rows:", torch.empty(0, 64).mean().item())

# %% [markdown] id="empty-why"
# Four ranks own nothing of this layer, and still gather, compute and reduce with the others. The
# padding is 40 rows now. Code that takes a slice's mean, or its first row, goes wrong on them
# alone.

# %% [markdown] id="fsdp"
# ## FSDP: whole only while it is used
# `fully_shard` leaves a slice of each parameter on each rank. But a matrix product needs all of
# `W`. On 2 ranks, the shape of `self.weight` that a rank holds before the forward, inside of it,
# and after:


# %% id="fsdp-run"
class Watched(nn.Linear):
    def forward(self, x):
        self.seen = tuple(self.weight.shape)
        return super().forward(x)


def through_a_forward():
    layer = Watched(64, 600)
    model = nn.Sequential(nn.Linear(64, 64), layer).to(here)
    for part in (*model, model):
        fully_shard(part)
    before = tuple(layer.weight.to_local().shape)
    model(x.to(here))
    return before, layer.seen, tuple(layer.weight.to_local().shape)


print(*on_ranks(2, through_a_forward)[0])

# %% [markdown] id="fsdp-why"
# A hook before the forward gathers the slices into a whole weight, a hook after it frees the whole
# and puts the slice back. So each wrapped layer is whole in turn, and only one or two at once. What
# belongs to the outermost module alone stays whole until its backward, unless you ask for
# `reshard_after_forward=True`
# ([`fully_shard`](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)).

# %% [markdown] id="fsdp-calls"
# ## What does a step call?
# Backward computes `dz @ W`, and makes a whole gradient of which a rank keeps its slice. Which
# collectives does one layer cost in a step?

# %% id="fsdp-calls-guess"
predict(
    "collectives_of_a_layer",
    choices=["1 gather, 1 reduce", "2 gathers, 1 scatter", "1 gather, 1 scatter"],
)


# %% id="fsdp-calls-run"
from torch.distributed.device_mesh import init_device_mesh


def a_step(reshard=True):
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64), onelayer.head()).to(here)
    mesh = init_device_mesh(here, (dist.get_world_size(),))
    for part in model:
        fully_shard(part, mesh=mesh, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh)
    with onelayer.record_collectives() as log:
        F.cross_entropy(model(x.to(here)), target.to(here)).backward()
    return log


log = on_ranks(2, a_step)[0]
print(log)
calls = [call.name for call in log.collectives]
gathers, scatters = calls.count("all_gather") // 3, calls.count("reduce_scatter") // 3

# %% id="fsdp-calls-reveal"
said = f"{gathers} gather{'s' * (gathers > 1)}, {scatters} scatter"
reveal("collectives_of_a_layer", said)

# %% [markdown] id="fsdp-calls-why"
# Gathered for the forward, gathered again for the backward, and the gradient leaves by a
# reduce-scatter: that is the first half of an all-reduce, and after it each rank has what it needs
# to step its own slice. The other half is the next forward's all-gather, of weights that have
# stepped.

# %% [markdown] id="fsdp-bytes"
# ## What does it cost on the wire?
# DDP: one all-reduce of every gradient. FSDP: two all-gathers and a reduce-scatter of the same
# size. How many times DDP's bytes does a rank send?

# %% id="fsdp-bytes-guess"
predict("fsdp_against_ddp", choices=[1.0, 1.5, 2.0, 3.0])

# %% id="fsdp-bytes-run"
bill = {}
with onelayer.fake_group(8):
    bill["FSDP"] = a_step().ring_bytes
    bill["FSDP, kept after forward"] = a_step(reshard=False).ring_bytes
    with onelayer.record_collectives() as log:
        for p in (*three.parameters(),):
            dist.all_reduce(p.grad)
    bill["DDP"] = log.ring_bytes
onelayer.show_bars(bill, unit="bytes")

# %% id="fsdp-bytes-reveal"
reveal("fsdp_against_ddp", round(bill["FSDP"] / bill["DDP"], 2))

# %% [markdown] id="fsdp-bytes-why"
# A rank sends half as much again: a ring's all-reduce is two turns round, and FSDP makes three.
# With `reshard_after_forward=False` the weights stay whole until backward, one gather is saved, and
# the bytes are DDP's.

# %% [markdown] id="gloos-scatter"
# ## Predicted, and counted
# A formula is a promise of the best. What does *this* gloo send for a reduce-scatter of the head's
# gradient?


# %% id="gloos-scatter-run"
def each_alone():
    whole, mine = torch.ones(600, 64, device=here), torch.empty(150, 64, device=here)
    with onelayer.record_collectives() as reduced:
        dist.all_reduce(whole)
    with onelayer.record_collectives() as gathered:
        dist.all_gather(list(whole.chunk(4)), mine)
    with onelayer.record_collectives() as scattered:
        dist.reduce_scatter(mine, list(whole.chunk(4)))
    return reduced, gathered, scattered


for log in on_ranks(4, each_alone)[0]:
    counted = "not counted here" if log.sent_bytes is None else f"{log.sent_bytes:>9,} counted"
    print(f"{log.collectives[0].name:15} {log.ring_bytes:>9,} predicted, {counted}")

# %% [markdown] id="gloos-scatter-why"
# If the last line shows about twice the promise, your gloo all-reduces each slice for all ranks,
# and a rank keeps one of the results
# ([`ProcessGroupGloo.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupGloo.cpp)).
# NCCL has a real one. Count before you believe, also what this course predicts.

# %% [markdown] id="keeps"
# ## What does a rank keep?
# In float32 with Adam, a parameter costs 16 bytes: itself, its gradient and two averages. Adam
# makes the averages like the parameter, so a slice gets averages of a slice. Count them after a
# step, for the whole GPT:

# %% id="keeps-run"
from torch.distributed.tensor import DTensor


def kept(model):
    """Bytes of the parameters, their gradients and Adam's averages on this rank."""
    adam = torch.optim.Adam(model.parameters())
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    adam.step()
    held = [t for p in model.parameters() for t in (p, p.grad, *adam.state[p].values()) if t.dim()]
    return sum((t.to_local() if isinstance(t, DTensor) else t).nbytes for t in held)


keeps = {"DDP, any n": kept(onelayer.model.trained())}
for n in (8, 64):
    with onelayer.fake_group(n):
        mine = onelayer.model.trained()
        for part in (*mine.blocks, mine):
            fully_shard(part)
        keeps[f"FSDP, {n} ranks"] = kept(mine)
onelayer.show_bars(keeps, unit="bytes")

# %% [markdown] id="keeps-why"
# One nth, plus what is whole at the moment, plus the activations, of which FSDP shards nothing.
# That is the trade: half as many bytes again on the wire, for room. DDP's bar is still too short:
# its buckets are a second copy of the gradients, unless you set
# [`gradient_as_bucket_view`](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html).

# %% [markdown] id="zero"
# ## The same under other names
# *ZeRO* is the paper that cut these 16 bytes one after the other ([arXiv
# 1910.02054](https://arxiv.org/abs/1910.02054)). Stage 1 shards Adam's averages, stage 2 the
# gradients too, stage 3 the weights as well: that is FSDP, `FULL_SHARD`. *HSDP*, `HYBRID_SHARD`,
# shards within a machine and copies between machines. Bytes for each parameter on 8 ranks:

# %% id="zero-run"
sharded = {"DDP": 0, "ZeRO-1": 8, "ZeRO-2": 12, "ZeRO-3, FSDP": 16}  # bytes that are cut
for name, cut_bytes in sharded.items():
    print(f"{name:13} {16 - cut_bytes + cut_bytes / 8:5.1f} bytes a parameter")


def hybrid():
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("copies", "slices"))
    layer = fully_shard(onelayer.head(), mesh=mesh)
    with onelayer.record_collectives() as log:
        layer(x).sum().backward()
    return tuple(layer.weight.to_local().shape), log


with onelayer.fake_group(8):
    print("HSDP, 2 machines of 4:", *hybrid())

# %% [markdown] id="zero-why"
# A mesh of 2 by 4 makes HSDP of the same `fully_shard`. Gathers and scatters stay among the 4 ranks
# with the fast wires; between the machines one all-reduce of a *slice* of the gradient goes.

# %% [markdown] id="fsdp-play"
# ## Play with FSDP
# One layer is gathered ahead. Slow the network down until the gathers are no longer hidden. What
# helps more: keeping the weights after the forward, or a faster network? What changes with two
# ranks?

# %% id="fsdp-play-run"
onelayer.show_timeline("fsdp", ranks=4)

# %% [markdown] id="saved-in-slices"
# ## Save on two ranks, go on with three
# No rank has the whole model. `torch.distributed.checkpoint`, DCP, lets each rank write its slices,
# and a small table of what lies where. Who loads asks for the slices it has now.

# %% id="saved-in-slices-run"
import tempfile
from pathlib import Path


def save_slices(folder):
    import torch.distributed.checkpoint as dcp

    layer = fully_shard(onelayer.head())
    dcp.save(layer.state_dict(), checkpoint_id=folder)
    torch.save(layer.state_dict(), Path(folder) / f"torch_save_{dist.get_rank()}.pt")
    return tuple(layer.weight.to_local().shape)


def load_slices(folder):
    import torch.distributed.checkpoint as dcp

    layer = fully_shard(nn.Linear(64, 600))  # other numbers, until they are loaded
    wanted = layer.state_dict()
    dcp.load(wanted, checkpoint_id=folder)
    layer.load_state_dict(wanted)
    return tuple(layer.weight.to_local().shape), layer.weight.full_tensor().equal(head.weight)


with tempfile.TemporaryDirectory() as folder:
    print("saved: ", onelayer.run_ranks(2, save_slices, folder))
    print({file.name: file.stat().st_size for file in sorted(Path(folder).iterdir())})
    print("loaded:", onelayer.run_ranks(3, load_slices, folder))

# %% [markdown] id="saved-in-slices-why"
# DCP writes a file for each rank, and none holds the whole
# ([DCP](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html)). `torch.save` writes
# what one rank has: its slices, and no more.

# %% [markdown] id="tensor-parallel"
# ## Cut the product itself
# FSDP gathers the weight to where the rows are. *Tensor parallelism* leaves the weight in slices
# and sends activations. The head can be cut by words, 150 columns of the logits for each rank, or
# by features, 16 of the 64. PyTorch names a cut by the columns and rows of the product's second
# matrix, which is `W.T`: by words is `ColwiseParallel`. Which cut ends its forward with finished
# logits, without a message?

# %% id="tensor-parallel-guess"
predict("forward_without_a_message", choices=["by words", "by features", "both", "neither"])

# %% id="tensor-parallel-run"
from torch.distributed.tensor import Replicate, init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)


def cut(by, given):
    mesh = init_device_mesh(here, (dist.get_world_size(),))
    styles = {
        "by words": ColwiseParallel(),
        "by features": RowwiseParallel(input_layouts=Replicate()),
    }
    mine = parallelize_module(onelayer.head().to(here), mesh, styles[by])
    learning = given.to(here).requires_grad_()
    with onelayer.record_collectives() as log:
        z = mine(learning)
        z.sum().item()  # whoever needs the numbers waits for them
        forward = len(log.collectives)
        z.sum().backward()
    return tuple(mine.weight.to_local().shape), tuple(z.shape), forward, log


# %% id="tensor-parallel-show"
ways = ("by words", "by features")
cuts = on_ranks(4, lambda: {by: cut(by, x) for by in ways})[0]
for by, (w, z, forward, log) in cuts.items():
    calls = [f"{call.name} of {call.bytes:,} bytes" for call in log.collectives]
    print(f"{by:12} W {w}, logits {z}")
    print("   forward:", calls[:forward], "backward:", calls[forward:])
free = [by for by, (_, _, forward, _) in cuts.items() if not forward]
reveal("forward_without_a_message", free[0] if len(free) == 1 else "both" if free else "neither")

# %% [markdown] id="tensor-parallel-why"
# The cut by words does: each rank has some logits, complete. By features, each has a part of all of
# them, and an all-reduce adds them up. In backward it is the other way round. By words, `x` fed all
# the slices, so its gradient is a sum over ranks. By features, each rank has its 16 columns of that
# gradient, and they are gathered. Cut a pair of layers first by columns, then by rows, and what the
# first leaves on a rank is what the second wants there:


# %% id="tensor-parallel-pair"
def cut_pair():
    mesh = init_device_mesh(here, (dist.get_world_size(),))
    pair = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).to(here)
    parallelize_module(pair, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    with onelayer.record_collectives() as log:
        pair(x.to(here).requires_grad_()).sum().backward()
    return [call.name for call in log.collectives]


print("a pair, forward and backward:", on_ranks(4, cut_pair)[0])

# %% [markdown] id="vocabulary"
# ## The loss without the logits
# Cut by words, no rank has a whole row of logits, and softmax wants a maximum and a sum over all
# 600. `loss_parallel` computes `F.cross_entropy` without gathering them. How many numbers per row
# does it reduce?

# %% id="vocabulary-guess"
predict("numbers_per_row_for_the_loss", choices=[2, 3, 150, 600])


# %% id="vocabulary-run"
def vocabulary_parallel():
    mesh = init_device_mesh(here, (dist.get_world_size(),))
    style = ColwiseParallel(use_local_output=False)  # the logits stay a DTensor
    z = parallelize_module(onelayer.head().to(here), mesh, style)(x.to(here))
    with loss_parallel(), onelayer.record_collectives() as log:
        loss = F.cross_entropy(z, target.to(here))
        loss.backward()
        loss = loss.to_local().item()
    return loss, log


loss, log = on_ranks(4, vocabulary_parallel)[0]
print(f"in slices {loss:.6f}, at once {F.cross_entropy(head(x), target).item():.6f}")
print(log)

# %% id="vocabulary-reveal"
reveal("numbers_per_row_for_the_loss", sum(call.bytes for call in log.collectives) // 4 // len(x))

# %% [markdown] id="vocabulary-why"
# It reduces three numbers per row: the maximum, the sum of the exponentials, and the right word's
# log-probability, which one rank has and the others count as zero. The backward is in this record,
# too: the gradient of the logits, softmax minus one at the right word, needs no message.

# %% [markdown] id="more-cuts"
# ## Three more things to cut
# *Sequence parallel* goes with tensor parallel: between the cut layers each rank keeps some of the
# tokens, and an all-reduce becomes a reduce-scatter and an all-gather, of the same bytes
# ([`SequenceParallel`](https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html)).
# *Context parallel* cuts the tokens everywhere, attention included, where keys and values travel
# round a ring
# ([tutorial](https://docs.pytorch.org/tutorials/unstable/context_parallel.html)). *Expert parallel*
# puts each expert of a mixture on a rank of its own: every token goes to its expert, and back. That
# is a fifth collective, `all_to_all_single`:


# %% id="more-cuts-run"
def to_the_experts():
    """Each rank's tokens go to the rank of their expert: here token k to rank k % n."""
    rank, n = dist.get_rank(), dist.get_world_size()
    tokens = torch.tensor([10.0 * rank + k for k in range(4)], device=here)
    out = tokens.view(-1, n).T.contiguous()  # row k is for rank k
    came = torch.empty_like(out)
    dist.all_to_all_single(came, out)
    return tokens.tolist(), came.flatten().tolist()


for rank, (had, has) in enumerate(on_ranks(2, to_the_experts)):
    print(f"rank {rank} had {had}, and its expert gets {has}")

# %% [markdown] id="pipeline"
# ## Cut between the layers
# *Pipeline parallelism* gives each rank some layers, and sends what flows between them. To have all
# ranks busy, the batch goes through in micro-batches. Two stages, 16 rows of 64 features in 4
# parts:

# %% id="pipeline-run"
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe


def piped(schedule, parts=4):
    rank, did = dist.get_rank(), []
    layer = (nn.Linear(64, 64), onelayer.head())[rank].to(here)

    def note(layer, given, z):
        did.append("F")
        if z.requires_grad:
            z.register_hook(lambda _: did.append("B"))

    layer.register_forward_hook(note)
    stage = PipelineStage(layer, rank, 2, torch.device(here))
    run = schedule(stage, n_microbatches=parts, loss_fn=F.cross_entropy)
    for _ in range(2):  # in the first step the stages tell each other their shapes
        did.clear()
        with onelayer.record_collectives() as log:
            run.step(x.to(here)) if rank == 0 else run.step(target=target.to(here))
    return "".join(did), log


schedules = {"GPipe": ScheduleGPipe, "1F1B": Schedule1F1B}
pipes = on_ranks(2, lambda: {name: piped(schedule) for name, schedule in schedules.items()})
_, first_stage = pipes[0]["GPipe"]

# %% id="pipeline-reveal"
print(first_stage)
sends = [call.bytes for call in first_stage.collectives if call.name == "send"]
print(f"the first stage sends {sum(sends):,} bytes in a step")

# %% [markdown] id="pipeline-why"
# Only the activations, 16 rows of 256 bytes, and as much comes back as their gradient. These are
# messages from one rank to one other, `send` and `recv`: no collective, and no ring. No weight and
# no weight's gradient ever moves. The price is time: a stage cannot begin a micro-batch before the
# stage in front of it has sent it.

# %% [markdown] id="bubble"
# ## The bubble
# The time in which a rank waits is the *bubble*. At the top of this page it was 43 percent, for 4
# stages and 4 micro-batches, if messages take no time. How many percent are left with 12?

# %% id="bubble-guess"
predict("bubble_in_percent", choices=[14, 20, 25, 43])

# %% id="bubble-run"
stages, parts = 4, 12
through = {}  # [stage, part]: the turn after which it is through
for part in range(parts):
    for stage in range(stages):  # it begins when stage and part are both free
        free = through.get((stage, part - 1), 0), through.get((stage - 1, part), 0)
        through[stage, part] = 1 + max(free)
reveal("bubble_in_percent", round(100 * (1 - parts / max(through.values()))))

# %% id="bubble-play"
onelayer.show_timeline("gpipe", ranks=4, parts=12)

# %% [markdown] id="bubble-why"
# A stage works for `parts` turns and all is done after `parts + stages - 1`: a share of
# `(stages - 1) / (parts + stages - 1)` is lost, whoever waits. The backwards go the same way in
# reverse, with longer turns. Take micro-batches away above, until 43 percent are back. More of them
# make the bubble smaller. What do they cost?

# %% [markdown] id="one-f-one-b"
# ## One forward, one backward
# The schedule above is *GPipe*: all forwards, then all backwards. *1F1B* begins a backward as soon
# as it can. A micro-batch that has gone forward and not back keeps its activations. The two stages
# ran both schedules for real and wrote down what they did. How many of the 4 micro-batches does
# stage 0 hold at once under 1F1B?

# %% id="one-f-one-b-guess"
predict("held_under_1f1b", choices=[1, 2, 4])


# %% id="one-f-one-b-run"
def most_held(did):
    held = [did[: i + 1].count("F") - did[: i + 1].count("B") for i in range(len(did))]
    return max(held)


for name in schedules:
    for stage, ran in enumerate(pipes):
        did, _ = ran[name]
        print(f"{name:6} stage {stage}  {did}  holds at most {most_held(did)}")
reveal("held_under_1f1b", most_held(pipes[0]["1F1B"][0]))

# %% [markdown] id="one-f-one-b-why"
# As many as there are stages behind it, itself included: two. GPipe holds all four. Does the number
# of micro-batches change that?

# %% id="one-f-one-b-parts"
for many in (2, 4, 8):
    first, _ = on_ranks(2, lambda n=many: {name: piped(s, n)[0] for name, s in schedules.items()})
    print(f"{many} micro-batches, stage 0:", {name: most_held(did) for name, did in first.items()})

# %% [markdown] id="one-f-one-b-buys"
# Not for 1F1B: it holds two of any number, and GPipe holds all of them. Switch the view of the
# bubble to 1F1B. If messages take no time, the bubble is the same: 1F1B buys memory, and with it
# the right to take more micro-batches. Then slow the network down: which schedule suffers more?

# %% [markdown] id="side-by-side"
# ## Side by side
# One step of the head on these 16 rows, on 4 ranks: what a rank sends. Say what happens to each bar
# with 16,000 rows, then change the first line.

# %% id="side-by-side-run"
batch = x.repeat(1, 1)  # 16 rows; with x.repeat(1000, 1) they are 16,000
sends = {"pipeline, a stage before it": batch.nbytes}
with onelayer.fake_group(4):
    for by in ways:
        sends[f"tensor parallel, {by}"] = cut(by, batch)[3].ring_bytes
    with onelayer.record_collectives() as log:
        fully_shard(onelayer.head(), reshard_after_forward=True)(batch).sum().backward()
    sends["FSDP"] = log.ring_bytes
    sends["DDP"] = sum(ring_bytes("all_reduce", p.nbytes, 4) for p in head.parameters())
onelayer.show_bars(sends, unit="bytes")

# %% [markdown] id="side-by-side-why"
# DDP and FSDP send gradients and weights, whatever the batch; the others send activations, and grow
# with it. With few rows for many weights, cut the layers (tensor and pipeline parallel). With many
# rows, cut the rows (DDP and FSDP).

# %% [markdown] id="torchrun"
# ## Who starts the ranks?
# On this page `on_ranks` does. Elsewhere `torchrun` starts your script once for each rank and tells
# each, by environment variables, which one it is and where they meet. If one ends with an error, it
# stops the others and starts all of them again, if you allow it. The script below fails on rank 1,
# the first time.

# %% id="torchrun-run"
import subprocess
import sys

SCRIPT = """import os, sys
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT")
rank, size, local, again = (os.environ[name] for name in names)
said = f"rank {rank} of {size}, number {local} on this machine, restart {again}"
print(said + "\\n", end="", flush=True)  # one write: the two do not mix
sys.exit(rank == "1" and again == "0")
"""
with tempfile.TemporaryDirectory() as folder:
    script = Path(folder) / "train.py"
    script.write_text(SCRIPT)
    flags = ["--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *flags, str(script)],
        capture_output=True, text=True,
    )  # fmt: skip
print(*sorted(done.stdout.splitlines(), key=lambda line: line[-1]), sep="\n")
print("torchrun ended with", done.returncode)

# %% [markdown] id="torchrun-why"
# All start again as new processes, also the one that had not failed; what they had learned in
# memory is gone. So training has to begin at its last checkpoint
# ([torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html)).

# %% [markdown] id="flight-recorder"
# ## And a job that hangs?
# Until the timeout nobody ends, so nobody is started again. The *flight recorder* is for that: each
# rank keeps its last collectives (`TORCH_FR_BUFFER_SIZE`, set before the group is made, says how
# many), with sizes and a number. NCCL dumps them when a collective times out
# ([tutorial](https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html)). We ask
# for the record ourselves:


# %% id="flight-recorder-run"
def recorded_calls():
    import json

    from torch._C import _distributed_c10d as c10d

    dist.all_reduce(torch.ones(600, 64))
    dist.broadcast(torch.ones(5), src=0)
    if not hasattr(c10d, "_dump_fr_trace_json"):  # private
        return ["this torch keeps no such record"]
    calls = json.loads(c10d._dump_fr_trace_json()).get("entries", [])
    return [(c["collective_seq_id"], c["profiling_name"], c["input_sizes"][0]) for c in calls]


for rank, calls in enumerate(onelayer.run_ranks(2, recorded_calls)):
    print(f"rank {rank}:", *calls)

# %% [markdown] id="flight-recorder-why"
# Lay the lists side by side: the first number where they differ is the call that somebody did not
# make, or made with other sizes. It is what our runner said of the two ranks above, for a thousand.

# %% [markdown] id="two-sentences"
# ## Four ways, in two sentences each
# **DDP.** Every rank keeps all parameters, gradients and optimizer states, and takes its own rows.
# During backward, gradients leave in buckets by all-reduce as soon as they are ready, so that each
# rank takes the same step.
#
# **FSDP.** Every rank keeps a slice of each parameter, of its gradient and of its optimizer state;
# a layer is all-gathered before its forward and again before its backward, and dropped after. Its
# gradient leaves by reduce-scatter, so a step sends half as much again as DDP's and keeps one nth.
#
# **Tensor parallel.** Every rank keeps a slice of a layer's matrix and computes its part of the
# product for all rows. Activations are summed or gathered inside the layer, in forward and in
# backward, so it sends with each layer and wants the fastest wires.
#
# **Pipeline parallel.** Every rank keeps some consecutive layers and sends its neighbour only the
# activations, and back their gradients. Micro-batches keep the ranks busy but for a bubble of
# `(stages - 1) / (parts + stages - 1)`; 1F1B has the same bubble and holds fewer activations.

# %% [markdown] id="what-you-can-now-say"
# ## What you can now say
# - A collective is a call that all ranks make, in the same order. If one rank lives and does not
#   make it, the others hang, and no line raises.
# - Gradients are ready from the last layer to the first, and a hook at the leaf can send them while
#   the rest is computed. Buckets trade the start of that against the number of messages.
# - An unused parameter keeps its bucket from leaving. On one rank alone, it makes the others wait.
#   Different starting weights stay different.
# - An all-reduce is a reduce-scatter and an all-gather; DDP does both at once, FSDP far apart, and
#   lives on a slice in between. 600 rows over 7 ranks are padded to 602.
# - Bytes per rank and step can be said before they are sent, and then counted. A backend may send
#   more.
#
# Now do it by hand: [Lab 11](../labs/11_distributed/11_distributed.ipynb).

# %% [markdown] id="sources"
# ## Where this is written in PyTorch
# - DDP:
#   [`distributed.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/parallel/distributed.py),
#   its hooks and buckets:
#   [`reducer.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/reducer.cpp),
#   and the note [Distributed Data Parallel](https://docs.pytorch.org/docs/stable/notes/ddp.html)
# - `fully_shard`: its slices and padding in
#   [`_fsdp_param.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/fsdp/_fully_shard/_fsdp_param.py),
#   its collectives in
#   [`_fsdp_collectives.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py)
# - column, row and loss:
#   [`style.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/tensor/parallel/style.py),
#   [`loss.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/tensor/parallel/loss.py)
# - GPipe and 1F1B:
#   [`schedules.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/pipelining/schedules.py)
# - the operators that `record_collectives` stands behind:
#   [`Ops.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/Ops.cpp)
#
# Between torch 2.11 and 2.15 the calls and bytes of this page stay. Torch 2.13 warns that
# `all_gather_into_tensor` and `reduce_scatter_tensor` are now called `all_gather_single` and
# `reduce_scatter_single`; the forms with a list, used here, bring no warning.
