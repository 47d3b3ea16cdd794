# %% [markdown] id="title"
# # Lab 11: many ranks, one model
#
# DDP, FSDP, tensor and pipeline parallelism differ in what a rank holds and in what it sends. In
# this lab you write the step of each by hand, on real processes where the moment of sending is the
# lesson, and elsewhere as the part of one rank, with the check in the role of the network.
#
# Work from top to bottom, in about two hours, after [chapter
# 11](../../notebooks/11_distributed.ipynb): 11.1 to 11.3 after its first evening, the rest after
# its second. Any right answer counts, also one that asks torch; you learn more by not asking. Keep
# helper functions inside the cell of the question that uses them: only those cells are graded. W
# ranks are numbered from 0; N words, D features, V words to choose from.

# %% id="setup" tags=["setup"]
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.utils._pytree import tree_map_only

import onelayer

# %% [markdown] id="the-ranks"
# `on_ranks` runs a function of yours on a process for each rank. They talk over gloo, on this
# machine. Beside each answer it tells what the rank did: which collectives it started, when it
# waited for them, and when its backward went below the head of `net_loss`, the small net of 11.2.
# There the last rank takes 20 ms longer than the others: some rank is always the slowest.

# %% id="the-ranks-code" tags=["setup"]
below_head = []  # when a backward passed from the head to the adapter, in ms


def below(dh):
    below_head.append(time.monotonic() * 1e3)
    if dist.is_initialized() and dist.get_rank() == dist.get_world_size() - 1:
        time.sleep(0.02)  # the others must not read its gradients before they are sent


def net_loss(params, x, target, language):
    """The mean loss of a net with an adapter for each language (0 or 1) and one head for both.
    params: two adapters (D, D), then the head's w (V, D) and b (V,).
    """
    h = x + torch.tanh(x @ params[language])
    if h.requires_grad:
        h.register_hook(below)
    return F.cross_entropy(F.linear(h, params[2], params[3]), target)


def on_ranks(function, per_rank):
    """For each rank r: what function(*per_rank[r]) returned there, and what the rank did."""

    def one_rank():
        below_head.clear()
        with onelayer.record_collectives() as log:
            try:
                answer = function(*per_rank[dist.get_rank()])
            except NotImplementedError as blank:
                return blank
        return tree_map_only(torch.Tensor, torch.Tensor.detach, answer), done(log)

    answers = onelayer.run_ranks(len(per_rank), one_rank, timeout_s=10.0)
    for answer in answers:
        if isinstance(answer, NotImplementedError):
            raise answer
    return list(answers)


def done(log):
    """-> (what, bytes) in the order of time."""
    moments = [(ms, "below the head", 0) for ms in below_head]
    for call in log.collectives:
        moments.append((call.started_ms, call.name, call.bytes))
        if call.waited_ms:
            moments.append((call.waited_ms[0], f"wait for {call.name}", call.bytes))
    return [(what, nbytes) for _, what, nbytes in sorted(moments)]


# %% id="instruments"
from autograder import answered, check, hint, progress

head = onelayer.head()  # nn.Linear(64, 600): weight (600, 64), bias (600,)

# %% [markdown] id="picture-of-a-step"
# Where this lab goes: a step of DDP on four ranks, what is computed above, what is sent below.
# Switch to the other ways, and make a rank or the network slow.

# %% id="picture-of-a-step-run"
onelayer.show_timeline("ddp", ranks=4)

# %% [markdown] id="worked-example"
# ## Worked example: the mean of a batch that nobody holds
#
# Every answer of this lab takes the same four steps: **say who holds what**, **compute what a rank
# can alone**, **join with a collective**, **say who holds what now**.


# %% id="worked-example-code" tags=["worked-example"]
def mean_rank(x):
    """x (N, D): this rank's rows, of the whole batch (W * N, D)."""
    total = x.sum(dim=0)  # compute what a rank can alone
    dist.all_reduce(total)  # join with a collective: now each rank holds the sum of all
    return total / (len(x) * dist.get_world_size())  # (D,), the same on every rank


batch = torch.arange(12.0).view(6, 2)
for rank, (mean, did) in enumerate(on_ranks(mean_rank, [[part] for part in batch.chunk(3)])):
    print(f"rank {rank}: {mean.tolist()}, {did}")
print("alone: ", batch.mean(dim=0).tolist())

# %% [markdown] id="buckets"
# ## Buckets, from the last parameter to the first
#
# A collective for each gradient would pay its fixed price many times; one for all could start only
# when backward is over. DDP sends buckets. Gradients come from the last parameter to the first, and
# a bucket fills in that order. It is closed as soon as it holds `cap` bytes or more.
#
# Return the buckets, as lists of parameter numbers, in the order in which they are full.
# `bucket_order([8, 4, 4, 8], 8)` is `[[3], [2, 1], [0]]`. Stuck? `hint("bucket_order")`


# %% id="bucket_order" role="solution"
def bucket_order(nbytes, cap):
    """nbytes[k]: of the gradient of parameter k -> list of lists of parameter numbers."""
    ### BEGIN SOLUTION
    buckets, held = [], cap
    for k in reversed(range(len(nbytes))):
        if held >= cap:
            buckets.append([])
            held = 0
        buckets[-1].append(k)
        held += nbytes[k]
    return buckets
    ### END SOLUTION


# %% id="bucket_order_check" role="check"
check("bucket_order")


# %% id="bucket_order_alternative" role="alternative"
def bucket_order(nbytes, cap):
    """By recursion: the first bucket, then the same for what is left."""
    taken = next(
        (n for n in range(1, len(nbytes)) if sum(nbytes[-n:]) >= cap),
        len(nbytes),
    )
    if not nbytes:
        return []
    left = len(nbytes) - taken
    return [list(range(left, len(nbytes)))[::-1], *bucket_order(nbytes[:left], cap)]


# %% [markdown] id="a-data-parallel-step"
# ## DDP by hand
#
# One step of SGD, the same on all ranks, though each rank starts with parameters of its own and
# sees batches of its own. The parameters come as plain tensors, and all of them learn:
#
# 1. **All start as rank 0 does.**
# 2. Gradients of all `batches` add up. Only the last backward sends, as under
#    [`no_sync`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/parallel/distributed.py).
# 3. As soon as the last gradient of a bucket is there, **its all-reduce starts**, and backward goes
#    on meanwhile. A bucket is one message: `torch.nn.utils.parameters_to_vector` makes one flat
#    tensor of a list. Buckets start in the order of `buckets`: ranks see other languages, so a full
#    bucket waits until those before it have started, or ranks would add up what does not belong
#    together.
# 4. After backward, **what has not started starts**. Nobody else knows that a parameter of yours
#    was not used: it counts with the gradient that it has, or with zeros.
# 5. **Wait, average, step**: p -= lr * gradient, with the mean over ranks.
#
# Return the four parameters. Stuck? `hint("ddp_step")`


# %% id="ddp_step" role="solution"
def ddp_rank(params, batches, buckets, lr):
    """On each rank. params: [adapter (D, D), adapter (D, D), w (V, D), b (V,)], batches: list of
    (x (N, D), target (N,), language), buckets: lists of numbers of parameters -> the four.
    """
    world = dist.get_world_size()
    # all start as rank 0 does
    # the quiet batches, then hooks, then the last batch
    # what has not started starts
    # wait, average, step
    ### BEGIN SOLUTION
    for p in params:
        dist.broadcast(p, src=0)
        p.requires_grad_()
    *quiet, last = batches
    for batch in quiet:
        net_loss(params, *batch).backward()  # no hook yet: nothing is sent

    ready, started = set(), []

    def start_full_ones():
        while len(started) < len(buckets) and ready.issuperset(buckets[len(started)]):
            members = [params[k] for k in buckets[len(started)]]
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in members]
            flat = torch.cat([g.flatten() for g in grads])
            started.append((members, flat, dist.all_reduce(flat, async_op=True)))

    for k, p in enumerate(params):

        def arrived(p, k=k):
            ready.add(k)
            start_full_ones()

        p.register_post_accumulate_grad_hook(arrived)
    net_loss(params, *last).backward()
    ready.update(range(len(params)))  # whoever is not used will not come any more
    start_full_ones()
    with torch.no_grad():
        for members, flat, work in started:
            work.wait()
            parts = flat.split([p.numel() for p in members])
            for p, part in zip(members, parts, strict=True):
                p -= lr / world * part.view_as(p)
    return params
    ### END SOLUTION


def ddp_step(per_rank):
    """per_rank[r]: the arguments of rank r -> for each rank its parameters, and what it did."""
    return on_ranks(ddp_rank, per_rank)


# %% id="ddp_step_check" role="check"
check("ddp_step")


# %% id="ddp_step_alternative" role="alternative"
class Bucket:
    """A buffer that the gradients lie in from the start: DDP's gradient_as_bucket_view."""

    def __init__(self, members):
        self.missing, self.work = set(members), None
        self.buffer = torch.zeros(sum(p.numel() for p in members))
        parts = self.buffer.split([p.numel() for p in members])
        for p, part in zip(members, parts, strict=True):
            p.grad = part.view_as(p)

    def start(self):
        self.work = dist.all_reduce(self.buffer, async_op=True)


def ddp_rank(params, batches, buckets, lr):
    with torch.no_grad():
        flat = torch.cat([p.flatten() for p in params])  # one broadcast for all
        dist.broadcast(flat, src=0)
        for p, part in zip(params, flat.split([p.numel() for p in params]), strict=True):
            p.copy_(part.view_as(p))
    for p in params:
        p.requires_grad_()
    order = [Bucket([params[k] for k in members]) for members in buckets]
    for batch in batches[:-1]:
        net_loss(params, *batch).backward()

    def arrived(p):
        for bucket in order:
            bucket.missing.discard(p)
        for bucket in order:
            if bucket.missing:
                break
            if bucket.work is None:
                bucket.start()

    for p in params:
        p.register_post_accumulate_grad_hook(arrived)
    net_loss(params, *batches[-1]).backward()
    for bucket in order:
        if bucket.work is None:
            bucket.start()
    for bucket in order:
        bucket.work.wait()
    with torch.no_grad():
        for p in params:
            p.add_(p.grad, alpha=-lr / dist.get_world_size())
    return [p.detach() for p in params]


def ddp_step(per_rank):
    return on_ranks(ddp_rank, per_rank)


# %% [markdown] id="against-ddp"
# And on the page: the same step by torch's own `DistributedDataParallel`, three ranks, one of which
# sees Spanish.


# %% id="against-ddp-run"
class Net(torch.nn.Module):
    def __init__(self, params):
        super().__init__()
        self.params = torch.nn.ParameterList([p.clone() for p in params])

    def forward(self, *batch):
        return net_loss(list(self.params), *batch)


def torchs_ddp(params, batches, buckets, lr):
    net = torch.nn.parallel.DistributedDataParallel(Net(params), find_unused_parameters=True)
    for batch in batches:
        net(*batch).backward()
    torch.optim.SGD(net.parameters(), lr=lr).step()
    return [p.detach() for p in net.module.params]


torch.manual_seed(0)
per_rank = []
for language in (0, 0, 1):
    params = [torch.randn(4, 4), torch.randn(4, 4), torch.randn(9, 4), torch.randn(9)]
    batch = torch.randn(5, 4), torch.randint(9, (5,)), language
    per_rank.append([params, [batch], [[3, 2], [1], [0]], 0.5])
with answered():
    theirs = on_ranks(torchs_ddp, per_rank)
    answers = ddp_step(per_rank)
    for rank, (mine, _) in enumerate(answers):
        error = max((p - q).abs().max() for p, q in zip(mine, theirs[rank][0], strict=True))
        print(f"rank {rank}: largest difference from DDP {error:.1e}")
    for what, nbytes in answers[0][1]:
        print(f"    {what} {nbytes or ''}")

# %% [markdown] id="detective-case"
# ## Detective case: the loss that depends on who reads what
#
# Sentences differ in length, so batches are padded, and the padding's target is -100, which
# `F.cross_entropy` leaves out. A colleague averages gradients as DDP does. One rank or many, the
# gradient of the mean loss of all words should be the same. It is not.
#
# Run it, find out why, and write `every_word_rank` right, on any number of ranks, some of which may
# hold padding alone. Stuck? `hint("every_word")`


# %% id="detective-case-code" tags=["worked-example"]
def every_word_rank_as_found(w, x, target):
    """w (V, D), the same on all ranks; x (N, D), target (N,) of this rank -> dw (V, D)."""
    w = w.clone().requires_grad_()
    F.cross_entropy(F.linear(x, w), target, ignore_index=-100).backward()
    dist.all_reduce(w.grad)
    return w.grad / dist.get_world_size()


torch.manual_seed(0)
w, x = torch.randn(5, 3), torch.randn(8, 3)
target = torch.tensor([0, 1, 2, -100, 3, -100, -100, -100])
for world in (1, 2, 4):
    parts = zip(x.chunk(world), target.chunk(world), strict=True)
    answers = on_ranks(every_word_rank_as_found, [[w, *part] for part in parts])
    print(f"{world} ranks: dw[0] = {[round(g, 4) for g in answers[0][0][0].tolist()]}")


# %% id="every_word" role="solution"
def every_word_rank(w, x, target):
    """On each rank: w (V, D), the same on all; x (N, D), target (N,) -> all words' dw (V, D)."""
    ### BEGIN SOLUTION
    w = w.clone().requires_grad_()
    loss = F.cross_entropy(F.linear(x, w), target, ignore_index=-100, reduction="sum")
    (dw,) = torch.autograd.grad(loss, w)
    words = (target != -100).sum()
    dist.all_reduce(dw)
    dist.all_reduce(words)
    return dw / words
    ### END SOLUTION


def every_word(per_rank):
    """per_rank[r]: (w, x, target) of rank r -> for each rank dw, and what it did."""
    return on_ranks(every_word_rank, per_rank)


# %% id="every_word_check" role="check"
check("every_word")


# %% id="every_word_alternative" role="alternative"
def every_word_rank(w, x, target):
    """The count first: then each rank scales its own loss, and a sum is all that is left."""
    count = (target >= 0).sum().float()
    dist.all_reduce(count)
    w = w.detach().requires_grad_()
    nll = F.cross_entropy(x @ w.T, target, ignore_index=-100, reduction="none")
    (nll.sum() / count).backward()
    dist.all_reduce(w.grad)
    return w.grad


def every_word(per_rank):
    return on_ranks(every_word_rank, per_rank)


# %% [markdown] id="seven-shards"
# ## 600 rows on 7 ranks
#
# 600 rows do not divide by 7, and gloo's collectives want equal parts. `fully_shard` gives each
# rank R = ceil(V / W) rows, in order; whoever has fewer fills up with zeros: 86 rows each, the last
# rank 84 and two of padding. With 8 rows on 7 ranks R is 2, and three ranks hold zeros alone.
#
# Write both ways, for tensors of any number of dimensions: the shard of a rank, and the whole
# tensor from all shards. What stands in the padding is nobody's business. Stuck?
# `hint("shard_rows")`


# %% id="shard_rows" role="solution"
def shard(t, rank, world):
    """t (V, ...) -> the rows of `rank`, (R, ...), padded with zeros."""
    ### BEGIN SOLUTION
    rows = -(-len(t) // world)
    padded = t.new_zeros(world * rows, *t.shape[1:])
    padded[: len(t)] = t
    return padded[rank * rows : (rank + 1) * rows]
    ### END SOLUTION


def unshard(shards, v):
    """shards: one (R, ...) for each rank, v: the rows of the whole -> (V, ...)."""
    ### BEGIN SOLUTION
    return torch.cat(shards)[:v]
    ### END SOLUTION


# %% id="shard_rows_check" role="check"
check("shard_rows")


# %% id="shard_rows_alternative" role="alternative"
def shard(t, rank, world):
    """With torch.chunk, which cuts in the same places, and is silent about ranks without rows."""
    parts = t.chunk(world)
    rows = len(parts[0])
    mine = parts[rank] if rank < len(parts) else t[:0]
    padding = (0, 0) * (t.dim() - 1) + (0, rows - len(mine))
    return F.pad(mine, padding)


def unshard(shards, v):
    rows = len(shards[0])
    whole = shards[0].new_empty(v, *shards[0].shape[1:])
    for k in range(v):
        whole[k] = shards[k // rows][k % rows]
    return whole


# %% [markdown] id="a-sharded-step"
# ## FSDP by hand
#
# Each rank holds a shard of the head's w, R rows as in 11.4, and a batch of its own. For its
# forward it **gathers** all of w, and afterwards it **lets go**. Your list `saved` is all that
# backward gets, and the check counts its bytes: the shard, x, target, and two numbers for each row
# of x. So backward **gathers** w again, computes, and **reduce-scatters** the gradient: each rank
# receives the sum of its own rows alone, and divides by W.
#
# `dist.all_gather(list of W tensors to fill, shard)` and `dist.reduce_scatter(tensor to fill, list
# of W tensors)` are the two collectives. Padding is no row of w. Stuck? `hint("fsdp_step")`


# %% id="fsdp_step" role="solution"
def fsdp_forward_rank(shard, x, target, v):
    """On each rank. shard (R, D), x (N, D), target (N,), v: the rows of w
    -> (this rank's mean loss, list of tensors to save).
    """
    world = dist.get_world_size()
    ### BEGIN SOLUTION
    shards = [torch.empty_like(shard) for _ in range(world)]
    dist.all_gather(shards, shard)
    w = torch.cat(shards)[:v]  # (V, D), gone when this function returns
    return F.cross_entropy(x @ w.T, target), [shard, x, target]
    ### END SOLUTION


def fsdp_backward_rank(saved, v):
    """On each rank. saved: your list -> this rank's rows of dw (R, D), zeros in the padding."""
    world = dist.get_world_size()
    ### BEGIN SOLUTION
    shard, x, target = saved
    shards = [torch.empty_like(shard) for _ in range(world)]
    dist.all_gather(shards, shard)
    w = torch.cat(shards)[:v].requires_grad_()
    (dw,) = torch.autograd.grad(F.cross_entropy(x @ w.T, target), w)
    padded = F.pad(dw, (0, 0, 0, world * len(shard) - v))
    mine = torch.empty_like(shard)
    dist.reduce_scatter(mine, list(padded.chunk(world)))
    return mine / world
    ### END SOLUTION


def fsdp_forward(per_rank):
    """per_rank[r]: the arguments of rank r -> for each rank its answer, and what it did."""
    return on_ranks(fsdp_forward_rank, per_rank)


def fsdp_backward(per_rank):
    return on_ranks(fsdp_backward_rank, per_rank)


# %% id="fsdp_step_check" role="check"
check("fsdp_step")


# %% id="fsdp_step_alternative" role="alternative"
def gathered(shard, v):
    """(R, D) of this rank -> (V, D)."""
    whole = shard.new_empty(dist.get_world_size() * len(shard), shard.shape[1])
    dist.all_gather(list(whole.split(len(shard))), shard)  # filled in place: no second copy
    return whole[:v]


def fsdp_forward_rank(shard, x, target, v):
    """Saves the log-sum-exp besides, as in 4.2."""
    z = F.linear(x, gathered(shard, v))
    lse = z.logsumexp(dim=1)
    hit = z[torch.arange(len(x)), target]
    return (lse - hit).mean(), [shard, x, target, lse]


def fsdp_backward_rank(saved, v):
    shard, x, target, lse = saved
    dz = (F.linear(x, gathered(shard, v)) - lse[:, None]).exp()  # (N, V)
    dz[torch.arange(len(x)), target] -= 1
    world = dist.get_world_size()
    whole = torch.zeros(world * len(shard), x.shape[1])
    whole[:v] = dz.T @ x / (len(x) * world)
    mine = torch.empty_like(shard)
    dist.reduce_scatter(mine, list(whole.split(len(shard))))
    return mine


def fsdp_forward(per_rank):
    return on_ranks(fsdp_forward_rank, per_rank)


def fsdp_backward(per_rank):
    return on_ranks(fsdp_backward_rank, per_rank)


# %% [markdown] id="against-fully-shard"
# And on the page: the real head on seven ranks, and what each of the two sent. Your rows of the
# gradient stand beside those of
# [`fully_shard`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/fsdp/_fully_shard/_fully_shard.py).


# %% id="against-fully-shard-run"
def torchs_fsdp(w, x, target):
    from torch.distributed.fsdp import fully_shard

    layer = torch.nn.Linear(64, 600, bias=False)
    layer.weight = torch.nn.Parameter(w.clone())
    fully_shard(layer, reshard_after_forward=True)  # a root would keep it
    F.cross_entropy(layer(x), target).backward()
    return layer.weight.grad.to_local()


w = head.weight.detach()
x = onelayer.hidden("<en> she has eaten <es> ella ha")  # (7, 64): a word for each rank
batches = [(x[[r]], torch.tensor([100 + r])) for r in range(7)]
with answered():
    forwards = fsdp_forward([[shard(w, r, 7), *batches[r], 600] for r in range(7)])
    mine = fsdp_backward([[saved, 600] for (_, saved), _ in forwards])
    theirs = on_ranks(torchs_fsdp, [[w, *batch] for batch in batches])
    for rank in (0, 6):
        (dw, did), (torchs, torch_did) = mine[rank], theirs[rank]
        error = (dw[: len(torchs)] - torchs).abs().max()
        print(f"rank {rank}: {len(torchs)} rows, largest difference {error:.1e}")
        print("  you:   ", [each for each in forwards[rank][1] + did if "wait" not in each[0]])
        print("  torch: ", [each for each in torch_did if "wait" not in each[0]])

# %% [markdown] id="the-head-in-parts"
# ## The head in columns and in rows
#
# Tensor parallelism cuts the layer itself, and all ranks see the same words. Cut w by its rows,
# which are columns of the logits: each rank holds x and computes some logits. Cut it the other way:
# each rank holds some features of x, and all logits are sums over ranks.
#
# Write forward and backward of one rank for both cuts. Return four pairs, for z, dx, dw, db: the
# tensor, and what completes it: `"keep"` if this is what the rank must hold, `"sum"` if it is a
# part of a sum over all ranks. Each rank must end with dw and db of what it holds.
#
# - Columns: z is cut as w is, and every rank must end with all of dx.
# - Rows: every rank must end with all of z; dx is cut as x is. b is whole on every rank, and z
#   contains it once.
#
# Stuck? `hint("parallel_head")`


# %% id="parallel_head" role="solution"
def column_parallel(x, w, b, dz):
    """x (N, D), and of this rank: w (Vr, D), b (Vr,), dz (N, Vr) -> four pairs."""
    ### BEGIN SOLUTION
    return [
        (F.linear(x, w, b), "keep"),
        (dz @ w, "sum"),
        (dz.T @ x, "keep"),
        (dz.sum(dim=0), "keep"),
    ]
    ### END SOLUTION


def row_parallel(x, w, b, dz, rank):
    """b (V,), dz (N, V), and of this rank: x (N, Dr), w (V, Dr) -> four pairs."""
    ### BEGIN SOLUTION
    return [
        (F.linear(x, w, b if rank == 0 else None), "sum"),
        (dz @ w, "keep"),
        (dz.T @ x, "keep"),
        (dz.sum(dim=0), "keep"),
    ]
    ### END SOLUTION


# %% id="parallel_head_check" role="check"
check("parallel_head")


# %% id="parallel_head_alternative" role="alternative"
def pieces(x, w, b, dz):
    """torch's own nodes, on what one rank holds -> z, dx, dw, db."""
    leaves = [t.detach().clone().requires_grad_() for t in (x, w, b)]
    z = F.linear(*leaves)
    return z.detach(), *torch.autograd.grad(z, leaves, dz)


def column_parallel(x, w, b, dz):
    return list(zip(pieces(x, w, b, dz), ["keep", "sum", "keep", "keep"], strict=True))


def row_parallel(x, w, b, dz, rank):
    alone = b * (rank == 0)
    return list(zip(pieces(x, w, alone, dz), ["sum", "keep", "keep", "keep"], strict=True))


# %% [markdown] id="a-loss-in-parts"
# ## The loss of logits that nobody holds
#
# After a column-parallel head each rank holds the logits of its own words: z `(N, Vr)`, those from
# number `first` on. Joining them would send N times V numbers. Three functions send at most three
# for each row, and the check plays the network between them:
#
# 1. `vocab_top`: what the ranks take the **maximum** of, at most N numbers.
# 2. `vocab_sums`: what they **add up**, at most 2 N numbers.
# 3. `vocab_loss`: with both, each rank has the mean loss of all words, and its own columns of dz.
#
# Logits may be in the hundreds. For two ranks with z `[[0.]]` each, the loss is log 2. Stuck?
# `hint("vocab_loss")`


# %% id="vocab_loss" role="solution"
def vocab_top(z):
    """z (N, Vr) of this rank -> a tensor; every rank receives the maximum of all ranks'."""
    ### BEGIN SOLUTION
    return z.max(dim=1).values
    ### END SOLUTION


def vocab_sums(z, target, first, top):
    """target (N,): numbers of words, of all V; top: that maximum -> a tensor; every rank receives
    the sum of all ranks'.
    """
    ### BEGIN SOLUTION
    total = (z - top[:, None]).exp().sum(dim=1)
    mine = (target >= first) & (target < first + z.shape[1])
    picked = z[torch.arange(len(z)), torch.where(mine, target - first, 0)]
    return torch.stack([total, torch.where(mine, picked, 0.0)])
    ### END SOLUTION


def vocab_loss(z, target, first, top, sums):
    """-> (the mean loss of all words, this rank's columns of dz (N, Vr))."""
    ### BEGIN SOLUTION
    total, picked = sums
    lse = top + total.log()
    dz = (z - lse[:, None]).exp()
    mine = (target >= first) & (target < first + z.shape[1])
    dz[mine, target[mine] - first] -= 1
    return (lse - picked).mean(), dz / len(z)
    ### END SOLUTION


# %% id="vocab_loss_check" role="check"
check("vocab_loss")


# %% id="vocab_loss_alternative" role="alternative"
def hot(z, target, first):
    """(N, Vr): 1 where the target is one of this rank's columns."""
    columns = first + torch.arange(z.shape[1])
    return (columns == target[:, None]).to(z.dtype)


def vocab_top(z):
    return z.amax(dim=1, keepdim=True)


def vocab_sums(z, target, first, top):
    z = z - top
    return torch.cat([z.exp().sum(1, keepdim=True), (z * hot(z, target, first)).sum(1, True)], 1)


def vocab_loss(z, target, first, top, sums):
    total, picked = sums[:, :1], sums[:, 1:]
    p = (z - top).exp() / total
    return (total.log() - picked).mean(), (p - hot(z, target, first)) / len(z)


# %% [markdown] id="a-stage"
# ## One forward, one backward
#
# P stages hold a slice of the layers each; M micro-batches pass through them. Stage s can run
# `("F", m)` when stage s - 1 has, and `("B", m)` when it ran `("F", m)` itself and stage s + 1 has
# run `("B", m)`. Write the order of one stage in the 1F1B schedule: some forwards to warm up, then
# a forward and a backward in turn, then the backwards that are left; micro-batches in rising order
# throughout.
#
# The check runs your orders, one action after the other on each stage. None may wait for ever; the
# run is as short as it can be; and stage s holds the activations of at most P - s micro-batches at
# once. Then say which share of that run an average stage is idle, if a backward takes as long as
# two forwards. `stage_order(0, 1, 2)` is `[("F", 0), ("B", 0), ("F", 1), ("B", 1)]`. Stuck?
# `hint("stage_order")`


# %% id="stage_order" role="solution"
def stage_order(s, p, m):
    """s: this stage, of p; m micro-batches -> list of ("F" or "B", number of the micro-batch)."""
    ### BEGIN SOLUTION
    warm = min(p - s - 1, m)
    order = [("F", k) for k in range(warm)]
    for k in range(m - warm):
        order += [("F", warm + k), ("B", k)]
    return order + [("B", k) for k in range(m - warm, m)]
    ### END SOLUTION


def bubble(p, m):
    """-> the share of the run in which a stage is idle, on average, a float."""
    ### BEGIN SOLUTION
    return (p - 1) / (m + p - 1)
    ### END SOLUTION


# %% id="stage_order_check" role="check"
check("stage_order")


# %% id="stage_order_alternative" role="alternative"
def stage_order(s, p, m):
    """A backward whenever as many micro-batches are held as may be, or no forward is left."""
    order, forward, backward = [], 0, 0
    while backward < m:
        if forward < m and forward - backward < p - s:
            order.append(("F", forward))
            forward += 1
        else:
            order.append(("B", backward))
            backward += 1
    return order


def bubble(p, m):
    length, work = (p - 1) + 3 * m + 2 * (p - 1), 3 * m
    return 1 - work / length


# %% [markdown] id="the-bill"
# ## Bytes per rank and step
#
# Predict what a rank sends in one training step of a head w `(V, D)` without a bias, in float32, on
# W ranks with N words each. In a ring a rank sends (W - 1) / W of a whole tensor for an all-gather
# or a reduce-scatter, and twice that for an all-reduce.
#
# - `"ddp"`: 11.2, without the broadcast.
# - `"fsdp"`: 11.5, padding and all.
# - `"fsdp_kept"`: the same, but each rank keeps the gathered w until backward is done.
# - `"columns"`: the N words are the same on all ranks; 11.6 by columns, joined with the three
#   numbers a row of 11.7.
#
# One rank sends nothing. A fraction of a byte may be rounded, wherever you like, or stay.
# `step_bytes("ddp", 600, 64, 32, 2)` is 153,600: half of w, twice, four bytes each. Stuck?
# `hint("step_bytes")`


# %% id="step_bytes" role="solution"
def step_bytes(plan, v, d, n, w):
    """plan: one of the four; w: the number of ranks -> bytes that one rank sends."""
    ### BEGIN SOLUTION
    share = 4 * (w - 1) / w
    padded = -(-v // w) * w
    if plan == "ddp":
        return 2 * share * v * d
    if plan == "columns":
        return 2 * share * (n * d + 3 * n)
    gathers = 1 if plan == "fsdp_kept" else 2
    return (gathers + 1) * share * padded * d
    ### END SOLUTION


# %% id="step_bytes_check" role="check"
check("step_bytes")


# %% id="step_bytes_alternative" role="alternative"
def step_bytes(plan, v, d, n, w):
    """As (collective, numbers in the whole tensor), one line for each."""
    rows = (v + w - 1) // w * w
    calls = {
        "ddp": [("all_reduce", v * d)],
        "fsdp": [("all_gather", rows * d)] * 2 + [("reduce_scatter", rows * d)],
        "fsdp_kept": [("all_gather", rows * d), ("reduce_scatter", rows * d)],
        "columns": [("all_reduce", n * d), ("all_reduce", n), ("all_reduce", 2 * n)],
    }
    turns = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
    return sum(turns[name] * 4 * numbers * (w - 1) // w for name, numbers in calls[plan])


# %% [markdown] id="counted"
# Predicted, then counted: `fully_shard` on 64 ranks of torch's fake backend, which calls everything
# and moves nothing.


# %% id="counted-run"
def sharded_head_step(w, reshard):
    from torch.distributed.fsdp import fully_shard

    with onelayer.fake_group(w), onelayer.record_collectives() as log:
        layer = torch.nn.Linear(64, 600, bias=False)
        fully_shard(layer, reshard_after_forward=reshard)
        layer(torch.ones(32, 64)).sum().backward()
    return log


with answered():
    for plan, reshard in (("fsdp", True), ("fsdp_kept", False)):
        log = sharded_head_step(64, reshard)
        predicted = step_bytes(plan, 600, 64, 32, 64)
        print(f"{plan}: predicted {predicted:,.0f} bytes, counted {log.ring_bytes:,}")

# %% [markdown] id="in-two-sentences"
# ## In your own words
#
# A colleague asks which of the four to use. Say in two sentences each what DDP, FSDP, tensor
# parallelism and pipeline parallelism cut, what they send and when, and what that costs.

# %% [markdown] id="in_two_sentences" role="free_text" points=4 minutes=8 difficulty=3
# **DDP**: every rank holds all of the model and sees a batch of its own; nothing is cut but the
# batch. Gradients are averaged by all-reduce, bucket by bucket, while backward still runs, so a
# rank sends about twice the model's bytes in a step and hides most of it.
#
# **FSDP**: parameters, gradients and optimizer states are cut by rows, and a rank holds one part of
# W. Each layer's weight is all-gathered before its forward and again before its backward, and its
# gradient reduce-scattered: half as many bytes again as DDP, for one W-th of the memory.
#
# **Tensor parallelism**: the matrices themselves are cut, by columns or by rows, and all ranks
# compute on the same words. Activations are all-reduced within each layer, in forward and backward,
# and compute waits for it: it wants the fastest links, and few ranks.
#
# **Pipeline parallelism**: the layers are cut into stages, and micro-batches pass from stage to
# stage; only the activations at the borders and their gradients are sent, point to point. The price
# is the bubble, (P - 1) / (M + P - 1) of the time, and the activations of the batches on the way.
#
# **Rubric** (1 point each, for what is cut, what is sent and when, and one cost): DDP; FSDP; tensor
# parallelism; pipeline parallelism. A colleague who reads it can tell which of them saves memory.

# %% [markdown] id="where-you-are"
# ## Where you are

# %% id="where-you-are-run"
progress()
