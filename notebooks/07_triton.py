# %% [markdown] id="title"
# # 07 Triton: fusion is about bytes
#
# "Fused" sounds like fewer operators. After this chapter you can count what a fusion saves, say
# whether bytes or arithmetic limit a kernel, write a kernel in tiles with masks, and read in the
# compiler's own texts what became of them.
#
# *Reading: two evenings, about 30 and 40 minutes.*

# %% [markdown] id="try-first"
# ## Try it first
# A kernel reads the logits of 7 tokens and writes their doubles, a tile at a time. 600 words divide
# by few tiles: choose one, and see how much of it hangs over the edge. Then take the mask away.

# %% id="try-first-run" tags=["hide-input"]
import onelayer

onelayer.play_masks(n=7, v=600)

# %% id="instruments"
import os
import time

import torch
import torch.nn.functional as F

from autograder import predict, reveal
from onelayer.memory.page_faults import give_back_freed_memory, keep_freed_memory
from onelayer.mock_cuda.devices import DEVICES
from onelayer.triton_kernel.roofline import Roof, Work, show_roofline
from onelayer.triton_kernel.warp_view import show_banks, show_sectors

head = onelayer.head()  # nn.Linear(64, 600), trained
W, b = head.weight.detach(), head.bias.detach()  # (600, 64), (600,)
N, D, V = 16_384, 64, 600
torch.manual_seed(0)
x, target = torch.randn(N, D), torch.randint(V, (N,))  # (N, 64), (N,)
torch.set_num_threads(1)  # the times of this page are processor time of one thread

# %% [markdown] id="traffic"
# ## What the loss of the head moves
# The head writes logits, and the loss is one number. Here is what each operator reads and writes.


# %% id="traffic-run"
def whole(x, target):
    return F.cross_entropy(F.linear(x, W, b), target)


with onelayer.count_traffic() as traffic:
    whole(x, target)
print(traffic)
print("inputs and result:", f"{x.nbytes + W.nbytes + b.nbytes + target.nbytes + 4:,} bytes")

# %% [markdown] id="traffic-why"
# Everything but 4.5 MB of it are logits and their log-softmax, written by one operator to be read
# by the next. A *fused* kernel makes a logit, uses it and forgets it. Is that why fused is faster,
# or is it that there are fewer operators?

# %% [markdown] id="fewer-operators"
# ## Fewer operators, more operators
# Take the two apart. `one_operator` is the same loss behind one name (chapter 06): one operator for
# whoever counts, and the same work inside. `in_slices` makes the loss of 256 tokens at a time: far
# *more* operators, and a slice of logits is used while it is still near. Which one takes the least
# processor time?


# %% id="fewer-operators-ways"
@torch.library.custom_op("chapter07::loss", mutates_args=())
def one_operator(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return whole(x, target)


def in_slices(x, target, rows=256):
    pairs = zip(x.split(rows), target.split(rows), strict=True)
    losses = [F.cross_entropy(F.linear(xs, W, b), ts, reduction="sum") for xs, ts in pairs]
    return torch.stack(losses).sum() / len(x)


ways = {"three operators": whole, "one operator": one_operator, "in slices": in_slices}

# %% id="fewer-operators-guess"
predict("least_processor_time", choices=["three operators", "one operator", "in slices"])


# %% id="fewer-operators-run"
def cpu_ms(call, before=lambda: None, rounds=7):
    """-> the least processor milliseconds and page faults of a round; before() runs before each."""
    seen = []
    for _ in range(rounds):
        before()
        with onelayer.count_page_faults() as faults:
            began = time.thread_time()
            call()
            ms = 1e3 * (time.thread_time() - began)
        seen.append((ms, faults.count))
    return tuple(min(column) for column in zip(*seen, strict=True))


fresh_pages = {}
for name, loss in ways.items():
    with onelayer.count_traffic() as traffic:
        loss(x, target)
    ms, faults = cpu_ms(lambda loss=loss: loss(x, target), give_back_freed_memory)
    fresh_pages[name] = ms
    print(f"{name:16} {len(traffic.ops):4} operators {ms:6.1f} ms {faults:7,} page faults")
reveal("least_processor_time", min(fresh_pages, key=fresh_pages.get))

# %% [markdown] id="fewer-operators-why"
# One name for the same work changes nothing, and the many operators win. So the count of operators
# is not the cause. On a GPU there is a cost that goes with the count, the launches (chapter 05). It
# is another matter, and no time on this page holds it.

# %% [markdown] id="faults"
# ## Is it the bytes, then?
# Look at the other column. The slices do not only stay near: they mostly reuse the same memory,
# while the whole logits touch new pages each time. Take the page faults away: `malloc` is told to
# keep what is freed. How much of the difference is left?

# %% id="faults-guess"
predict("difference_left_without_faults", choices=["all of it", "about a half", "little or none"])

# %% id="faults-run"
kept = keep_freed_memory()
same_pages = {}
for name, loss in ways.items():
    loss(x, target)
    ms, faults = cpu_ms(lambda loss=loss: loss(x, target))
    same_pages[name] = ms
    print(f"{name:16} {ms:6.1f} ms {faults:7,} page faults")
gap = [ms["three operators"] - ms["in slices"] for ms in (fresh_pages, same_pages)]
left = gap[1] / gap[0]
print(f"left of the difference: {left:.0%}")
if not kept:
    print("This machine's allocator cannot be told: its page faults stay, and the difference.")

# %% id="faults-reveal"
near = {1.0: "all of it", 0.5: "about a half", 0.0: "little or none"}
reveal("difference_left_without_faults", near[min(near, key=lambda share: abs(share - left))])

# %% [markdown] id="faults-why"
# Much of what was won was page faults, and they are a property of this allocator and not of fusion.
# What is left may be the bytes, or may not: a product and ten million exponentials take their time
# as well. So before you fuse, ask whether a kernel waits for bytes or for arithmetic. There is a
# picture for that question.

# %% [markdown] id="roofline"
# ## The roofline
# A device can do so many FLOP a second, and move so many bytes. A kernel that does `flops` and
# moves `nbytes` needs at least the time of each. Divide: at `flops / nbytes` FLOP per byte, its
# *arithmetic intensity*, it can reach at most `intensity * bytes_s`, and never more than `flop_s`.
# Drawn on logarithmic scales this is a slope that ends in a flat roof; they meet at the
# [*ridge*](https://doi.org/10.1145/1498765.1498785).
#
# First this processor, one thread, all of it measured here: the roofs by a large product and a
# large copy, and the head under them.

# %% id="roofline-cpu"
square, plain = torch.randn(1024, 1024), torch.ones(2**24)  # 4 MiB, 64 MiB
product_s = cpu_ms(lambda: square @ square)[0] / 1e3
copy_s = cpu_ms(plain.clone)[0] / 1e3
here = Roof(flop_s=2 * 1024**3 / product_s, bytes_s=2 * plain.nbytes / copy_s)

flops = 2 * N * V * D  # of the product; the exponentials do not count as FLOP
logits_bytes = x.nbytes + W.nbytes + b.nbytes + 4 * N * V
logits_s = cpu_ms(lambda: F.linear(x, W, b))[0] / 1e3
loss_s = same_pages["three operators"] / 1e3
with onelayer.count_traffic() as traffic:
    whole(x, target)
measured = {
    "logits": Work(flops, logits_bytes, logits_s),
    "loss, three operators": Work(flops, traffic.bytes, loss_s),
}
show_roofline({"this CPU, one thread": here}, measured)

# %% [markdown] id="roofline-cpu-why"
# Look on which side of the ridge each of them stands: left of it bytes are the limit, right of it
# arithmetic. The loss stays far below its roof, and that is not explained. Is it the exponentials,
# which are no FLOP of this count? Compare operators with as many bytes or more, with exponentials
# and without:

# %% id="roofline-cpu-cause"
z = F.linear(x, W, b)
operators = {
    "-z": torch.neg,
    "exp(z)": torch.exp,
    "log_softmax(z)": lambda z: z.log_softmax(1),
    "z - its maximum": lambda z: z - z.amax(1, keepdim=True),
}
for name, operator in operators.items():
    with onelayer.count_traffic() as traffic:
        operator(z)
    ms = cpu_ms(lambda operator=operator: operator(z))[0]
    print(f"{name:15} {traffic.bytes:11,} bytes, {ms:5.1f} ms")

# %% [markdown] id="roofline-cpu-cause-why"
# With the same bytes, `exp(z)` takes about as long as `-z`, and `log_softmax` far longer than both:
# it is not the exponentials alone. The last row goes along each row for its maximum, without an
# exponential, and takes nearly as long as `log_softmax`: such ways are a part of it.

# %% [markdown] id="roofline-gpu"
# ## The head under the roofs of two GPUs
# The same head in bfloat16, from the data sheets of an H100 and an H200. **Nothing here is
# measured**: a hollow mark lies *on* the roof, where the kernel can be at best. `fused` counts what
# a kernel must move that keeps every logit to itself: it reads `x`, the targets and once `W` and
# `b`, and writes two numbers for each token. Which roof limits the logits of a million tokens on
# the H100, and which the fused loss?

# %% id="roofline-gpu-guess"
predict(
    "roofs_of_logits_and_fused",
    choices=["bandwidth, bandwidth", "bandwidth, arithmetic", "arithmetic, arithmetic"],
)


# %% id="roofline-gpu-run"
def gpu_works(n, itemsize=2):
    """What the logits, the eager loss and a fused loss of n tokens are: FLOP and bytes."""
    inputs = itemsize * (n * D + V * D + V)
    logits = itemsize * n * V
    product = 2 * n * V * D
    return {
        f"logits, N = {n:,}": Work(product, inputs + logits),
        f"loss, N = {n:,}": Work(product, inputs + 3 * logits),  # z out, z in, log p out
        f"fused, N = {n:,}": Work(product, inputs + n * (8 + 4 + 4)),
    }


h100, h200 = DEVICES["H100"], DEVICES["H200"]
roofs = {
    "H100, bf16": Roof(h100.half_flop_s, h100.hbm_bytes_s),
    "H200, bf16": Roof(h200.half_flop_s, h200.hbm_bytes_s),
}
works = {**dict(list(gpu_works(7).items())[:1]), **gpu_works(1_000_000)}
print(f"figures of the H100: {h100.source}\nof the H200: {h200.source}")
show_roofline(roofs, works)

# %% id="roofline-gpu-reveal"
ridge = h100.half_flop_s / h100.hbm_bytes_s
limits = [
    "bandwidth" if works[name].intensity < ridge else "arithmetic"
    for name in ("logits, N = 1,000,000", "fused, N = 1,000,000")
]
reveal("roofs_of_logits_and_fused", ", ".join(limits))

# %% [markdown] id="roofline-gpu-why"
# The three marks of a million tokens are the same arithmetic. Fusing moves the mark to the
# *right*, until it stands under the flat roof: that is all it does, and on this device it is a lot.
# On the H200 the slope lies higher and the ridge further left: the same arithmetic, more bytes a
# second, less to win. Seven tokens stand at the far left, whatever you do: `W` has to be read, and
# seven rows share it.

# %% [markdown] id="roofline-limits"
# ## What the picture leaves out
# In float32 there are twice the bytes and, without tensor cores, a fifteenth of the arithmetic. And
# the exponentials are not in the picture at all: an SM (one of the 132 multiprocessors) makes
# [16 a
# cycle](https://docs.nvidia.com/cuda/cuda-c-programming-guide/), and each token wants 600. As
# times, for a million tokens on the H100:

# %% id="roofline-limits-run"
exponentials_s = 16 * h100.sms * 1e3 * h100.clock_khz
for dtype, itemsize, flop_s in (("bf16", 2, h100.half_flop_s), ("float32", 4, h100.fp32_flop_s)):
    for name, work in gpu_works(1_000_000, itemsize).items():
        at_least = {
            "bytes": work.nbytes / h100.hbm_bytes_s,
            "product": work.flops / flop_s,
            "exponentials": 0 if "logits" in name else 1e6 * V / exponentials_s,
        }
        told = ", ".join(f"{what} {1e3 * s:.3f}" for what, s in at_least.items())
        print(f"{dtype:7} {name:21} {told} ms: {max(at_least, key=at_least.get)}")

# %% [markdown] id="roofline-limits-why"
# In float32 fusing the loss halves its bound, and then the product decides. In bfloat16 the fused
# loss is limited by neither roof of the picture but by its exponentials: a third roof, which only
# those see who count it. All of these are bounds. Nobody promises that you reach them.

# %% [markdown] id="triton-here"
# ## Triton on this page
# [Triton](https://github.com/triton-lang/triton/tree/v3.7.1) compiles kernels that are written in
# Python, for GPUs. There need not be one here. `@kernel` of this course does two things with a
# Triton kernel: it runs it in Triton's *interpreter*, one program after the other, in numpy, and
# watches each access; and it asks Triton's *compiler* for the machine code of a GPU that is
# elsewhere. So this page counts and reads. **It times no kernel**, but for one cell near its end
# that wants a GPU.

# %% id="triton-here-run"
from onelayer.triton_kernel import kernel, watch

words = onelayer.hidden("<en> she has eaten <es> ella ha")  # (7, 64)
z = F.linear(words, W, b)  # (7, 600)

# %% id="triton-here-import"
import triton
import triton.language as tl

os.environ["TRITON_INTERPRET"] = "1"  # the course's own kernels too, also where there is a GPU
print("Triton", triton.__version__, "| logits", tuple(z.shape))

# %% [markdown] id="program"
# ## A program has a tile
# In CUDA you write what one thread does (chapter 06). In Triton you write what one *program* does,
# with a whole *tile* of elements at once: `tl.arange` makes a row of offsets, `z + offsets` a tile
# of addresses, `tl.load` a tile of numbers. Who of the threads does what is the compiler's affair.
# The *grid* says how many programs there are, and `tl.program_id` which one this is.
#
# This one finds the highest logit of each token. Seven tokens, seven programs.


# %% id="program-run"
@kernel
def row_tops(z, tops, V, stride, BLOCK: tl.constexpr, OTHER: tl.constexpr):
    row = tl.program_id(0)
    words = tl.arange(0, BLOCK)  # (BLOCK,)
    logits = tl.load(z + row * stride + words, mask=words < V, other=OTHER)  # (BLOCK,)
    tl.store(tops + row, tl.max(logits, 0))


tops = torch.empty(7)
run = row_tops[(7,)](z, tops, V, z.stride(0), BLOCK=1024, OTHER=float("-inf"))
print(run)
print("right:", torch.equal(tops, z.amax(1)))

# %% [markdown] id="powers-of-two"
# ## Why 1,024 for 600 words?
# A tile's sides are powers of two. 600 is 8 times 75: no power of two above 8 divides it. So with
# tiles of more than 8 words the last one hangs over the edge. A place in a tile is called a *lane*.

# %% id="powers-of-two-run"
try:
    row_tops[(7,)](z, tops, V, z.stride(0), BLOCK=600, OTHER=float("-inf"))
except Exception as error:
    print(error)
for block in (8, 16, 64, 128, 256, 1024):
    tiles = -(-V // block)
    print(f"tiles of {block:5}: {tiles:3}, {tiles * block - V:4} of {tiles * block:5} lanes idle")

# %% [markdown] id="mask"
# ## What a masked lane holds
# A *mask* says which elements of a tile exist. The others are not read; `other` is what they hold
# instead, and they take part in what follows. Shift the logits down, so that all are negative, and
# let `other` be 0. What is the highest?

# %% id="mask-guess"
predict("top_of_negative_logits", choices=["the right one", "0", "nan"])

# %% id="mask-run"
low = z - 100
row_tops[(7,)](low, tops, V, low.stride(0), BLOCK=1024, OTHER=0.0)
print("with other=0:   ", tops[:3].tolist())
print("tops of z itself are above 0:", bool((z.amax(1) > 0).all()))
answer = "the right one" if torch.equal(tops, low.amax(1)) else str(int(tops.max()))
row_tops[(7,)](low, tops, V, low.stride(0), BLOCK=1024, OTHER=float("-inf"))
print("with other=-inf:", tops[:3].tolist())
reveal("top_of_negative_logits", answer)

# %% [markdown] id="mask-why"
# `other` has to be what changes nothing: 0 for a sum, minus infinity for a maximum, and for a sum
# of exponentials minus infinity again, before the `exp`. With the logits as they were, a 0 would
# have passed this test, since each token has a logit above it.

# %% [markdown] id="no-mask"
# ## And without a mask?
# `double` goes over the logits with tiles of 16 by 16. Leave the mask out, and the tile at the edge
# writes columns 600 to 607 of its rows. Does anything stop it?


# %% id="no-mask-run"
@kernel
def double(z, N, V, TILE: tl.constexpr, MASKED: tl.constexpr):
    n = tl.program_id(0) * TILE + tl.arange(0, TILE)
    v = tl.program_id(1) * TILE + tl.arange(0, TILE)
    at = z + n[:, None] * V + v[None, :]  # (TILE, TILE)
    there = (n < N)[:, None] & (v < V)[None, :]
    if MASKED:
        tl.store(at, 2 * tl.load(at, mask=there), mask=there)
    else:
        tl.store(at, 2 * tl.load(at))


room = torch.zeros(20, 600)  # more than the kernel is told of: what it damages is ours
for masked in (True, False):
    room[:7], room[7:] = z, 0
    run = double[(1, 38)](room[:7], 7, V, TILE=16, MASKED=masked)
    right = torch.equal(room[:7], 2 * z)
    print(f"mask {masked}: right {right}, accesses outside of z: {run.outside(room[:7]):,}")

# %% [markdown] id="no-mask-why"
# Nothing stops it. Column 600 of a row is column 0 of the next (chapter 06), which is doubled once
# more; the rows below belong to somebody else. It was our instrument that saw the accesses outside.
# Of the columns that hit the next row it says nothing: they lie inside `z`.

# %% [markdown] id="one-pass"
# ## A softmax that never sees its row
# For the loss of a token we need `log(sum(exp(z)))` over all 600 words. A kernel that keeps logits
# to itself has only a tile of them at a time. Two things go wrong at once: the plain sum overflows
# where a logit is above 88 (below they are ten times as large), and the usual cure, to take the
# row's maximum off first, wants the whole row.

# %% id="one-pass-run"
row = z[6] * 10
print("plain:   ", row.exp().sum().log().item(), "| torch:", row.logsumexp(0).item())
for tile in row.split(200):
    m = tile.max()
    print(f"tile: maximum {m:7.2f}, sum of exp(z - maximum) {(tile - m).exp().sum():.4f}")
total = sum((tile - tile.max()).exp().sum() for tile in row.split(200))
print("sums added, highest maximum:", (row.max() + total.log()).item())

# %% [markdown] id="one-pass-why"
# Each tile is finite now, and adding the sums is still wrong: each speaks of another maximum. A sum
# that was made against a lower maximum is too large by a known factor, and that factor can be taken
# off when the higher maximum appears. So a pair, the maximum and the sum so far, can be carried
# from tile to tile. This is the [online softmax](https://arxiv.org/abs/1805.02867), and writing it
# down is a question of lab 07.

# %% [markdown] id="fused-traffic"
# ## Count the fused loss
# The course has such a kernel, from tokens to the loss and back, for chapter 12. Here we only watch
# what its forward asks for, and what the three operators ask for.

# %% id="fused-traffic-run"
from onelayer.kernels.fused_triton import triton_head_loss


def both_ways(n):
    """Bytes that the three operators and the fused kernel ask for, for n tokens."""
    tokens, answers = x[:n], target[:n]
    with onelayer.count_traffic() as traffic:
        eager = whole(tokens, answers)
    with watch() as run:
        fused = triton_head_loss(tokens, W, b, answers)
    print(f"N = {n}: the same loss: {torch.allclose(eager, fused, atol=1e-4)}")
    return {"three operators": traffic.bytes, "fused": run.bytes}


seven, fourteen = both_ways(7), both_ways(14)
for name in seven:
    print(f"{name:16} a further token: {(fourteen[name] - seven[name]) // 7:,} bytes")
full, next_program = both_ways(64)["fused"], both_ways(65)["fused"]
print(f"fused, the 65th token: {next_program - full:,} bytes")
onelayer.show_bars(seven, unit="bytes")

# %% [markdown] id="fused-traffic-why"
# For seven tokens most of it is `W`, which both have to read. A further token costs the three
# operators three rows of logits and the fused kernel its activation, its target and two numbers.
# That is true within a program, which has 64 tokens: the next program asks for all of `W` again.

# %% [markdown] id="backward"
# ## And backward?
# The gradient of a logit is `softmax(z) - onehot(target)` (chapter 03), and eager keeps the
# log-softmax for it. The fused kernel kept no logit. What does its backward do?

# %% id="backward-guess"
predict(
    "fused_backward_without_logits",
    choices=["reads the logits after all", "makes them again", "is left to eager operators"],
)


# %% id="backward-run"
def steps(n):
    """Bytes that a step of n tokens asks for, forward and backward, in both ways."""
    leaves = [t.clone().requires_grad_() for t in (x[:n], W, b)]
    with onelayer.count_traffic() as traffic:
        eager = torch.autograd.grad(F.cross_entropy(F.linear(*leaves), target[:n]), leaves)
    with watch() as run:
        fused = torch.autograd.grad(triton_head_loss(*leaves, target[:n]), leaves)
    same = all(torch.allclose(e, f, atol=1e-5) for e, f in zip(eager, fused, strict=True))
    print(f"N = {n}: the same gradients: {same}")
    return {"eager": traffic.bytes, "fused": run.bytes}, run


(seven, _), (fourteen, run) = steps(7), steps(14)
for name in seven:
    print(f"{name:6} a further token: {(fourteen[name] - seven[name]) // 7:,} bytes")
largest = max(access.nbytes for access in run.made)
print(f"the most that one load or store touched: {largest:,} bytes; logits: {4 * 14 * V:,} bytes")

# %% id="backward-reveal"
read_again = largest >= 4 * 14 * V
choice = "reads the logits after all" if read_again else "makes them again"
reveal("fused_backward_without_logits", choice)

# %% [markdown] id="backward-why"
# It makes them again, a tile at a time, from `x` and `W`: 64 multiply-adds in place of four bytes.
# It kept one number for each token, its log-sum-exp, without which the softmax would need a pass of
# its own. Most of the fused bytes are `x`: in the kernel for the gradient of `W`, ten programs, one
# for each tile of words, ask for it. And the kernels for the gradients of `x` and of `W` make the
# logits separately: five products in place of three. Whether that is a good bargain the roofline
# says: on the right of the ridge it is none.

# %% [markdown] id="first-evening-ends"
# ## The first evening ends here
# You can count what a fusion saves, read a roofline, and write a kernel in tiles with masks. That
# stands alone, with questions 7.1, 7.3, 7.6 and 7.7 of the lab. The second evening goes down into
# the chip: sectors, banks, registers, and the texts that the compiler wrote.

# %% [markdown] id="hierarchy"
# ## Near and far
# Four places where a number can be, for one H100. Registers belong to a thread and live as long as
# it does; shared memory to a program; the second cache (L2) and the memory (HBM) to all.

# %% id="hierarchy-run"
REGISTERS_PER_SM = 65_536  # of 4 bytes each
places = {
    "registers": 4 * REGISTERS_PER_SM * h100.sms,
    "shared memory": h100.shared_per_sm * h100.sms,
    "L2 cache": h100.l2_bytes,
    "HBM": h100.memory_bytes,
}
for place, nbytes in places.items():
    print(f"{place:14} {nbytes / 2**20:>10,.1f} MiB")
print(f"W in float32   {W.nbytes / 2**20:>10,.2f} MiB")
print(f"logits, N = 1M {4e6 * V / 2**20:>10,.1f} MiB")

# %% [markdown] id="hierarchy-why"
# `W` fits into L2 three hundred times: programs that read it again need not ask HBM. The logits of
# a million tokens fit nowhere but HBM. That is the difference between *asking* for a byte and
# *moving* it, and why the roofline counts `W` once. The registers of all SMs hold more than their
# shared memory: tiles live there.

# %% [markdown] id="coalescing"
# ## 32 threads, one instruction
# Machine code is executed by *warps* of 32 threads. A load is one instruction for all of them, and
# memory answers in *sectors* of 32 bytes. Whatever is in a sector and nobody asked for was moved
# for nothing. Chapter 06 had two kernels: in the naive one, neighbouring threads have neighbouring
# words, and each goes along its own row of `w`. In the tiled one they bring one row together. How
# many sectors for one load of a naive warp?

# %% id="coalescing-guess"
predict("sectors_of_a_naive_load", choices=[1, 4, 16, 32])

# %% id="coalescing-run"
naive = [4 * (v * D + 0) for v in range(16)] * 2  # w[v * D + d]: 16 words, twice, for two rows
tiled = [4 * (v * D + d) for v in range(2) for d in range(16)]  # w[v * D + tx]
seen = show_sectors(
    {
        "32 floats in a row": [4 * lane for lane in range(32)],
        "the same, 4 bytes further": [4 + 4 * lane for lane in range(32)],
        "tiled: 2 rows of 16": tiled,
        "naive: 16 words, d = 0": naive,
        "a column of w: 32 words": [4 * D * lane for lane in range(32)],
    }
)

# %% id="coalescing-reveal"
naive_sectors = sum(hits > 0 for hits in dict(seen.rows)["naive: 16 words, d = 0"])
reveal("sectors_of_a_naive_load", naive_sectors)

# %% [markdown] id="coalescing-why"
# Sixteen sectors of 32 bytes, for sixteen numbers of 4: an eighth is used. When the loads of a warp
# fall into as few sectors as their bytes need, they are *coalesced*. In the loop over `d` the naive
# warp comes back for the next 4 bytes of the same sectors, and the first cache may still have them.
# It may: count on it where you have measured it.

# %% [markdown] id="compiler-knows"
# ## In Triton the compiler deals out the threads
# It looks at the addresses of a tile, finds the side along which they are neighbours, and deals the
# threads out along it; if the neighbours begin at a multiple of 16 bytes, one thread takes four
# floats at once. The text after that pass is called *TTGIR*: each tile has a layout there. Below,
# the same tile lies row by row, then column by column. Does the second fall apart into columns of
# sectors?


# %% id="compiler-knows-run"
@kernel
def sums(x, total, ROW: tl.constexpr, COLUMN: tl.constexpr, TILE: tl.constexpr):
    i, j = tl.arange(0, TILE), tl.arange(0, TILE)
    tile = tl.load(x + i[:, None] * ROW + j[None, :] * COLUMN)  # (TILE, TILE)
    tl.store(total, tl.sum(tile))


types = {"x": "*fp32", "total": "*fp32"}
for layout, (row_step, column_step) in {
    "rows of 64": (64, 1),
    "columns of 64": (1, 64),
    "every second float": (128, 2),
    "rows of 601": (601, 1),
}.items():
    code = sums.compiled(90, **types, ROW=row_step, COLUMN=column_step, TILE=64)
    dealt = code.lines("ttgir", "#blocked = ")[0]
    print(f"{layout:19}", code.instructions("ld.global"))
    print("   ", dealt[dealt.index("sizePerThread") : dealt.index(", warpsPerCTA")])

# %% [markdown] id="compiler-knows-why"
# The columns do not fall apart: for them the threads are dealt out along the other side, and the
# loads are as wide. So in Triton a transposed tile is no uncoalesced tile. What no dealing can
# repair is every second float. And with rows of 601 floats, only every fourth row begins at a
# multiple of 16 bytes: the loads are still neighbours, but one float each.

# %% [markdown] id="divisible"
# ## What 600 costs
# In `row_tops` the number of words and the distance of the rows are arguments, and the code is
# compiled before anybody knows their values. But Triton looks at the arguments of a launch:
# integers that 16 divides are compiled [as
# such](https://github.com/triton-lang/triton/blob/v3.7.1/python/triton/backends/compiler.py#L82-L86).
# 600 is not one of them. A vocabulary of 608, padded with words that nobody says, is. The rows of
# either begin at a multiple of 16 bytes. What does the compiler make of the 600?

# %% id="divisible-guess"
predict(
    "loads_of_600_words",
    choices=["as wide as for 608", "one float at a time", "masks only at the edge"],
)

# %% id="divisible-run"
argument_types = {"z": "*fp32", "tops": "*fp32", "V": "i32", "stride": "i32"}
constants = {"BLOCK": 1024, "OTHER": float("-inf")}
known = {
    "neither, as for 600": [],
    "only the words": ["V"],
    "only the distance": ["stride"],
    "both, as for 608": ["V", "stride"],
}
found = {}
for what, divisible in known.items():
    found[what] = row_tops.compiled(90, **argument_types, **constants, divisible=divisible)
    print(f"16 divides {what:19}", found[what].instructions("ld.global"))
unknown, padded = found["neither, as for 600"], found["both, as for 608"]

# %% id="divisible-reveal"
wide = unknown.instructions("ld.global") == padded.instructions("ld.global")
reveal("loads_of_600_words", "as wide as for 608" if wide else "one float at a time")

# %% [markdown] id="divisible-why"
# The same bytes, by four times as many load instructions. The middle lines tell the two causes
# apart: one thread can take four floats at once if the row begins at a multiple of 16 bytes *and*
# the mask is the same for the four. Knowing one of the two is not enough. Take the ignorance away,
# with `V: tl.constexpr`, and the compiler sees that 600 floats are 2,400 bytes, which 16 divides;
# the price is one compilation for each vocabulary. Inductor [keeps the same
# record](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/codegen/triton_utils.py#L289-L301)
# about the sizes in the code that it writes.


# %% id="divisible-constant"
@kernel
def row_tops_of(z, tops, V: tl.constexpr, BLOCK: tl.constexpr):
    words = tl.arange(0, BLOCK)
    at = z + tl.program_id(0) * V + words
    tl.store(tops + tl.program_id(0), tl.max(tl.load(at, mask=words < V, other=float("-inf")), 0))


of_constant = {
    v: row_tops_of.compiled(90, z="*fp32", tops="*fp32", V=v, BLOCK=1024) for v in (600, 601)
}
for v, code in of_constant.items():
    print("a constant of", v, code.instructions("ld.global"))

# %% [markdown] id="banks"
# ## Shared memory has banks
# Near memory has its own rule. It is cut into 32 *banks*, word by word: word `i` lies in bank
# `i % 32`, and a bank gives one word a turn. Threads that want the same word share a turn; threads
# that want different words of one bank wait for each other. In chapter 06 all threads of a warp
# read `ws[tx][k]`: 16 rows of 16 words, one column. How many turns does it take?

# %% id="banks-guess"
predict("turns_of_a_column", choices=[1, 2, 8, 16])

# %% id="banks-run"
banks = show_banks(
    {
        "xs[ty][k]": [4 * (ty * 16 + 3) for ty in range(2) for _ in range(16)],
        "ws[tx][k], rows of 16": [4 * (tx * 16 + 3) for tx in range(16)] * 2,
        "ws[tx][k], rows of 17": [4 * (tx * 17 + 3) for tx in range(16)] * 2,
    }
)

# %% id="banks-reveal"
reveal("turns_of_a_column", max(dict(banks.rows)["ws[tx][k], rows of 16"]))

# %% [markdown] id="banks-why"
# One column lies in two banks, eight words in each. One word more in each row, which nobody reads,
# and the column lies in sixteen: the cause was the distance between the rows, a multiple of 16.

# %% [markdown] id="swizzle"
# ## Triton reorders instead
# A tile that tensor cores are to read Triton does not pad. It *swizzles* it: the row number
# decides, by an exclusive or, in which order the row's pieces lie. Here is a kernel with a product
# in it, the likeness of each word to each: `w` by its own transpose. Its `tl.dot` takes tiles from
# shared memory. What TTGIR says of them, with tensor cores (`"tf32"`) and without:


# %% id="swizzle-kernel"
@kernel
def likeness(w, s, V, D: tl.constexpr, TILE: tl.constexpr, STEP: tl.constexpr, HOW: tl.constexpr):
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    j = tl.program_id(1) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), tl.float32)
    for first in range(0, D, STEP):
        d = first + tl.arange(0, STEP)
        a = tl.load(w + i[:, None] * D + d[None, :], mask=(i < V)[:, None], other=0.0)
        c = tl.load(w + j[:, None] * D + d[None, :], mask=(j < V)[:, None], other=0.0)
        total += tl.dot(a, tl.trans(c), input_precision=HOW)  # (TILE, TILE)
    there = (i < V)[:, None] & (j < V)[None, :]
    tl.store(s + i[:, None] * V + j[None, :], total, mask=there)


like = {"w": "*fp32", "s": "*fp32", "V": "i32", "D": D}
for how in ("ieee", "tf32"):
    code = likeness.compiled(80, **like, TILE=64, STEP=32, HOW=how)
    print(how, code.lines("ttgir", "#shared = ")[0])

# %% [markdown] id="swizzle-model"
# `maxPhase = 1` is as it lies. `vec = 4` and `maxPhase = 8` are pieces of 4 words, in 8 different
# orders. Rows of this tile are 32 words, exactly once around the banks: the worst distance there
# is. `ldmatrix`, the load that feeds the tensor cores, takes the same piece of eight rows at once.
# With the exclusive or and without:

# %% id="swizzle-run"
piece = 2
plain_rows = [4 * (32 * r + 4 * piece + i) for r in range(8) for i in range(4)]
swizzled = [4 * (32 * r + 4 * (piece ^ r) + i) for r in range(8) for i in range(4)]
print(code.instructions("ldmatrix"))
show_banks({"as it lies": plain_rows, "swizzled": swizzled})

# %% [markdown] id="swizzle-why"
# As it lies, one piece of eight rows falls into four banks and takes eight turns. Swizzled, the
# same bytes fall into all 32 banks and take one. Only the order differs, so the order was the
# cause.

# %% [markdown] id="reuse"
# ## A tile is used as often as it is wide
# `likeness` with a tile of 16 brings 16 rows and 16 rows, and makes 256 numbers of them. We run it
# for 128 words, in the interpreter, with three sizes. From 16 to 64: what becomes of the bytes that
# the programs ask for?

# %% id="reuse-guess"
predict("bytes_of_a_tile_four_times_as_wide", choices=["the same", "a quarter", "a sixteenth"])

# %% id="reuse-run"
some = W[:128].contiguous()
asked = {}
for tile in (16, 32, 64):
    s = torch.full((128, 128), float("nan"))
    side = triton.cdiv(128, tile)
    run = likeness[side, side](some, s, 128, D=D, TILE=tile, STEP=32, HOW="ieee")
    asked[tile] = run.bytes_read
    right = torch.allclose(s, some @ some.T, atol=1e-3)
    print(f"tile {tile}: {run.programs:3} programs ask for {run.bytes_read:,} bytes, right {right}")
print(f"distinct among them: {run.distinct_bytes_read:,} bytes")

# %% id="reuse-reveal"
share = asked[64] / asked[16]
shares = {1.0: "the same", 1 / 4: "a quarter", 1 / 16: "a sixteenth"}
reveal("bytes_of_a_tile_four_times_as_wide", shares[min(shares, key=lambda s: abs(s - share))])

# %% [markdown] id="reuse-why"
# Per program a tile four times as wide asks for four times as much, and there are a sixteenth as
# many programs. So why not a tile of 600?

# %% [markdown] id="registers"
# ## What a tile costs
# The sums of a tile live in registers from the first step of the loop to the last: 64 by 64 floats
# over 128 threads are 32 registers each, and the operands come on top. The assembler says how many
# it took. An SM has 65,536. What of the widest?

# %% id="registers-run"
for tile in (16, 32, 64, 128):
    code = likeness.compiled(90, **like, TILE=tile, STEP=32, HOW="ieee")
    taken = code.registers * 32 * code.warps
    print(f"tile {tile:3}: {code.registers:3} registers a thread, {taken:6,} a program; "
          f"{code.spilled_bytes:3} bytes spilled, {code.shared_bytes:6,} bytes shared")  # fmt: skip

# %% [markdown] id="registers-why"
# A thread has 255 registers at most. What does not fit is *spilled*: to an address of its own in
# memory, with loads and stores that nobody wrote. And the more registers a program takes, the fewer
# programs fit on an SM at a time. Their warps are what the SM turns to while others wait for
# memory; how many there are, of the 64 that it could hold, is its *occupancy*. Shared memory, warps
# and blocks have limits of their own, and the tightest one decides. All of them count in whole
# units: half a program does not fit, and a warp gets its registers in portions of 256. Lab 07 asks
# you for the number.

# %% [markdown] id="occupancy"
# ## So is higher occupancy faster?
# You can force it: `maxnreg` allows the assembler only so many registers, and more programs fit. We
# give `likeness` with tiles of 64 half of what it wants. What does that cost?

# %% id="occupancy-guess"
predict("price_of_half_the_registers", choices=["nothing", "spilled bytes", "shared memory"])

# %% id="occupancy-run"
free = likeness.compiled(90, **like, TILE=64, STEP=32, HOW="ieee")
tight = likeness.compiled(90, **like, TILE=64, STEP=32, HOW="ieee", maxnreg=64)
for code in (free, tight):
    spills = len(code.lines("sass", "STL", "LDL"))
    print(f"{code}\n    instructions that only spill and bring back: {spills}")

# %% id="occupancy-reveal"
dearer = "spilled bytes" if tight.spilled_bytes > free.spilled_bytes else "nothing"
shared_grew = tight.shared_bytes > free.shared_bytes
reveal("price_of_half_the_registers", "shared memory" if shared_grew else dearer)

# %% [markdown] id="occupancy-why"
# Registers for twice the warps, of which shared memory lets in one and a half times as many, and
# each of them does more: traffic that the algorithm does not have. The tile of 16 takes the fewest
# registers of all, and asks for four times the bytes of the tile of 64. Occupancy is a means
# against waiting. It is not speed, and neither number says what is faster: the roofline says what
# to look for, a clock decides.

# %% [markdown] id="way-down"
# ## Five texts of one kernel
# `row_tops` on its way to an H100. *TTIR*: tiles, as you wrote them. *TTGIR*: tiles with layouts,
# for so many warps. *LLIR*: one thread, in LLVM's language. *PTX*: NVIDIA's portable assembly.
# *SASS*: what the chip executes, read back from the machine code. We follow the load.

# %% id="way-down-run"
code = padded
print("ttir ", code.lines("ttir", "tt.load")[0].split(" loc(")[0])
print("ttgir", code.lines("ttgir", "tt.load")[0].split(" loc(")[0])
print("llir ", next(line for line in code.lines("llir", "ld.global"))[:100], "...")
print("ptx  ", code.lines("ptx", "ld.global")[0])
print("sass ", code.lines("sass", "LDG")[0])

# %% [markdown] id="ptx-words"
# ## A line of PTX, word by word
# `@%p1` is for whom it counts, `ld.global` what it does and where, `.v4` how many values, `.b32`
# how many bits each has: 16 bytes a thread. Registers are declared on top, `.reg .b32 %r<53>` for
# `%r0` to `%r52`. Are those the registers of the chip? Here are `likeness` as it was, and with half
# of its registers.

# %% id="ptx-words-guess"
predict("registers_declared_in_ptx", choices=["those of the chip", "as many in both", "half"])

# %% id="ptx-words-run"
declared = {}
for name, code in {"free": free, "tight": tight}.items():
    (declared[name],) = code.lines("ptx", ".reg .b32 \t%r<")
    print(f"{name:5} {declared[name]:24} on the chip: {code.registers}")

# %% id="ptx-words-reveal"
same = declared["free"] == declared["tight"]
reveal("registers_declared_in_ptx", "as many in both" if same else "those of the chip")

# %% [markdown] id="ptx-words-why"
# PTX is a language for a machine with as many registers as you like: each value gets one. The
# assembler then puts them into those of the chip, and spills what is left over. So the one count
# follows from your kernel, and only the other one decides what fits on an SM.

# %% [markdown] id="predicates"
# ## Where the mask went
# In TTIR the mask is a tile of bits, the second thing given to `tt.load`. In PTX it is a
# *predicate*: `@%p1` says that a thread whose bit is not set does not load. There is no branch. And
# where the compiler can prove the mask? `row_tops_of` knows that V is 600, and each of 128
# threads takes four floats twice: of words 0 to 511, then of 512 to 1,023.

# %% id="predicates-run"
for name, code in {"an argument": padded, "a constant": of_constant[600]}.items():
    jumps = [line for line in code.lines("sass", "BRA") if line.startswith("@")]
    print(f"V is {name}; jumps that depend on something: {len(jumps)}")
    print(*("    " + line for line in code.lines("sass", "LDG")), sep="\n")

# %% [markdown] id="predicates-why"
# The load without `@` is the first half: its mask is true for every thread, the compiler proved it,
# and the predicate is gone. Take the reason away, that is the knowledge of V, and it is back. A
# mask costs a comparison, and lanes that idle; no thread jumps.

# %% [markdown] id="other-is-there"
# And `other`? It is in the registers before the load comes, and stays where the predicate says no.
# The bits of minus infinity, read as an integer, are -8388608:

# %% id="other-is-there-run"
lines = [line.strip() for line in padded.texts["ptx"].splitlines()]
first = next(n for n, line in enumerate(lines) if "ld.global" in line)
set_before = [line for line in lines[:first] if "-8388608" in line][-1:]
print(*set_before, *lines[first - 4 : first + 1], sep="\n")

# %% [markdown] id="dot"
# ## What becomes of `tl.dot`
# Tensor cores multiply tiles: `mma` on Turing and Ampere, `wgmma` for four warps at once on Hopper,
# `tcgen05` on Blackwell. They do not take float32: it would have to be rounded to *tf32*, 10 bits
# of fraction instead of 23. `likeness` with `HOW="ieee"` forbids it. Which instruction multiplies
# then, on the H100?

# %% id="dot-guess"
predict("dot_of_float32_ieee_on_h100", choices=["wgmma", "mma", "fma"])

# %% id="dot-run"
MULTIPLY = ("fma.", "mma.", "wgmma.mma", "tcgen05.mma")
used = {}
for how in ("ieee", "tf32"):
    for capability in (75, 80, 90, 100):
        code = likeness.compiled(capability, **like, TILE=64, STEP=32, HOW=how)
        used[how, capability] = code.instructions(*MULTIPLY)
        print(how, f"sm_{capability:<3}", used[how, capability])
for capability in (75, 80):
    short = like | {"w": "*fp16"}
    code = likeness.compiled(capability, **short, TILE=64, STEP=32, HOW="ieee")
    print("float16", f"sm_{capability}", code.instructions(*MULTIPLY))

# %% id="dot-reveal"
(instruction,) = used["ieee", 90]
reveal("dot_of_float32_ieee_on_h100", instruction.split(".")[0])

# %% [markdown] id="dot-why"
# Each thread makes 1,024 multiply-adds in each step of the loop, one by one: in the roofline's
# terms, the flat roof of 67 TFLOP/s instead of 495. One word decides it, and Triton's own default
# for float32 [is
# `"tf32"`](https://github.com/triton-lang/triton/blob/v3.7.1/third_party/nvidia/backend/compiler.py#L123).
# A T4 (sm_75) has no tf32. It has tensor cores for float16, and the last lines show that this
# Triton does not use them.

# %% [markdown] id="stages"
# ## Loads ahead: `num_stages`
# A loop that loads, waits and multiplies leaves the one idle while the other works. With
# `num_stages` the compiler *pipelines* it: loads for later steps are begun now, go straight to
# shared memory (`cp.async`), and are waited for when they are needed. What does a stage cost?

# %% id="stages-run"
for stages in (1, 2, 3, 4):
    code = likeness.compiled(
        80, **like | {"D": 256}, TILE=64, STEP=32, HOW="tf32", num_stages=stages
    )
    loads = code.instructions("ld.global", "cp.async.cg", "cp.async.wait")
    print(f"{stages} stages: {code.shared_bytes:7,} bytes shared, {loads}")

# %% [markdown] id="stages-why"
# With one stage the loads are ordinary. From two stages on they are `cp.async`; four stages keep
# three pairs of tiles at a time, and that shared memory is missing for other programs: again
# occupancy against something else.

# %% [markdown] id="autotune"
# ## Searching costs
# Tile, step, warps, stages: which is best depends on the device and on the sizes, and nobody can
# say it from the text. `triton.autotune` tries: it compiles each configuration, measures each, and
# keeps the best *for each key*. Here is the real one with four configurations; only the clock is
# taken out, for there is nothing to time. `key=["V"]` says that another V is another problem. We
# launch it for 7, 8, 9 and again 7 words. How many trials?

# %% id="autotune-guess"
predict("trials_of_four_configurations", choices=[4, 8, 12, 16])

# %% id="autotune-run"
from onelayer.kernels.triton_jit import Interpreted

trials = []


def no_clock(call, quantiles):
    """In place of a benchmark: the call runs once, and every configuration is as good."""
    call()
    trials.append(call)
    return [1.0, 1.0, 1.0]


configurations = [
    triton.Config({"TILE": tile, "STEP": 32}, num_warps=warps)
    for tile in (16, 32)
    for warps in (4, 8)
]
tuned = triton.autotune(configurations, key=["V"], do_bench=no_clock)
tuned = tuned(Interpreted(likeness.function))
for v in (7, 8, 9, 7):
    tuned[lambda chosen, v=v: (triton.cdiv(v, chosen["TILE"]),) * 2](
        W, torch.empty(v, v), v, D=D, HOW="ieee"
    )
    print(f"V = {v}: {len(trials)} trials so far")
reveal("trials_of_four_configurations", len(trials))

# %% [markdown] id="autotune-price"
# Each new key is a whole search. If the key is the number of tokens in a batch, each number that
# is new makes one. And one trial costs at least its compilation, measured here:

# %% id="autotune-price-run"
spent = []
for tile in (16, 64):
    for stages in (2, 3):
        code = likeness.compiled(
            90, **like, TILE=tile, STEP=32, HOW="tf32", num_stages=stages, fresh=True
        )
        spent.append(code.seconds)
        print(f"tile {tile}, {stages} stages: {code.seconds:.2f} s to compile")
print(f"36 configurations for one key: {36 * sum(spent) / len(spent):.0f} s, before any is timed")

# %% [markdown] id="autotune-why"
# So a search is pruned first, by what can be known without a clock: configurations that need more
# shared memory than there is, or that spill. Inductor's tuner [skips its own that spill
# much](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/runtime/triton_heuristics.py#L1213-L1227),
# and keeps its choices [on
# disk](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/runtime/triton_heuristics.py#L419-L422).
# And choose keys that do not change with each batch.

# %% [markdown] id="interpreter"
# ## What the interpreter cannot see
# It runs [one program after the
# other](https://github.com/triton-lang/triton/blob/v3.7.1/python/triton/runtime/interpreter.py#L1343-L1349).
# `count` counts words: it reads a number, adds one, writes it back. Six programs, one for each of
# six tokens. On a GPU they run at the same time, and two that read the same number both write the
# same sum. What does the interpreter say?


# %% id="interpreter-kernels"
@kernel
def count(t, counts):
    word = tl.load(t + tl.program_id(0))
    tl.store(counts + word, tl.load(counts + word) + 1)


@kernel
def count_atomically(t, counts):
    word = tl.load(t + tl.program_id(0))
    tl.atomic_add(counts + word, 1)


# %% id="interpreter-guess"
predict("interpreted_race", choices=["the right counts", "wrong counts", "an error"])

# %% id="interpreter-run"
tokens = torch.tensor([3, 5, 3, 3, 7, 3])
true_counts, right = torch.bincount(tokens, minlength=V), {}
for counting in (count, count_atomically):
    counts = torch.zeros(V, dtype=torch.int64)
    run = counting[(6,)](tokens, counts)
    right[counting] = torch.equal(counts, true_counts)
    print(f"{counting.function.__name__:16} right: {right[counting]}, "
          f"stored by several programs: {run.raced}")  # fmt: skip
reveal("interpreted_race", "the right counts" if right[count] else "wrong counts")

# %% [markdown] id="interpreter-why"
# The interpreter says the right counts, every time. So a test in the interpreter proves nothing
# about races. Our instrument counts elements that more than one program stored; `tl.atomic_add`
# takes the cause away.

# %% [markdown] id="interpreter-numbers"
# ## And its numbers are not the GPU's
# `tl.dot` is [numpy's
# product](https://github.com/triton-lang/triton/blob/v3.7.1/python/triton/runtime/interpreter.py#L631-L638)
# there. With `"tf32"` a GPU rounds its inputs to 10 bits. Does the interpreter?

# %% id="interpreter-numbers-run"
product = some[:16].double() @ some[:16].double().T


def error_of(w, how):
    s = torch.empty(16, 16)
    likeness[1, 1](w, s, 16, D=D, TILE=16, STEP=32, HOW=how)
    return (s - product).abs().max().item()


def to_tf32(w):
    """Rounded to 10 bits of fraction, half away from zero."""
    return ((w.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


print(f"ieee, interpreted:         {error_of(some[:16], 'ieee'):.1e}")
print(f"tf32, interpreted:         {error_of(some[:16], 'tf32'):.1e}")
print(f"inputs rounded beforehand: {error_of(to_tf32(some[:16]), 'ieee'):.1e}")
print(f"bfloat16, interpreted:     {error_of(some[:16].bfloat16(), 'ieee'):.1e}")

# %% [markdown] id="interpreter-numbers-why"
# The interpreter does not round: expect an error like the third line's from a GPU, and the
# interpreter shows the first. bfloat16 is worse. numpy has no such type; the interpreter keeps its
# bits as integers, and multiplies those. It is for logic, with float32 and float16. Rounding, races
# and speed want a GPU.

# %% [markdown] id="on-a-gpu"
# ## On a GPU
# The same kernel, compiled and launched by Triton itself. `do_bench` warms up, clears the second
# cache between the runs, and waits (chapter 05). And the [way into
# PyTorch](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_library/triton.py#L297) is that of
# chapter 06: `torch.library.triton_op` makes an operator of a launch, with a schema, into which the
# compiler can still look.

# %% id="on-a-gpu-run"
if torch.cuda.is_available():
    w, s = W.cuda(), torch.empty(V, V, device="cuda")
    for tile in (16, 32, 64):
        launch = likeness.jit[(triton.cdiv(V, tile),) * 2]

        def call(launch=launch, tile=tile, w=w, s=s):
            launch(w, s, V, D=D, TILE=tile, STEP=32, HOW="ieee")

        ms = triton.testing.do_bench(call)
        right = torch.allclose(s.cpu(), W @ W.T, atol=1e-3)
        print(f"tile {tile}: {1e3 * ms:.1f} us on {torch.cuda.get_device_name()}, right: {right}")
else:
    print("No GPU here: no kernel of this page was timed.")

# %% [markdown] id="what-you-can-now-say"
# ## What you can now say
# - Fusion saves bytes that are written to be read again. Fewer operators is another matter, and on
#   a CPU much of what looks like fusion is page faults.
# - FLOP per byte says which roof a kernel stands under. Fusing moves it to the right.
# - A program has a tile, its sides are powers of two, and `other` has to change nothing.
# - Sectors: what a warp asks of far memory should lie together. Banks: what it asks of near memory
#   should lie apart. The compiler arranges both, from what it knows: 600 is less known than 608.
# - Wide tiles reuse more and take registers; occupancy is what is left. Spills are traffic.
# - A mask becomes a predicate, `tl.dot` what the precision allows, `num_stages` shared memory.
# - A search is paid for each key. The interpreter knows no races, no rounding and no time.
#
# Now write some: [Lab 07](../labs/07_triton/07_triton.ipynb).

# %% [markdown] id="sources"
# ## Where this is written
# - the passes from TTIR to machine code, in order:
#   [`compiler.py`](https://github.com/triton-lang/triton/blob/v3.7.1/third_party/nvidia/backend/compiler.py#L235-L300)
# - who deals out the threads:
#   [`Coalesce.cpp`](https://github.com/triton-lang/triton/blob/v3.7.1/lib/Dialect/TritonGPU/Transforms/Coalesce.cpp);
#   what becomes of `tl.dot`:
#   [`AccelerateMatmul.cpp`](https://github.com/triton-lang/triton/blob/v3.7.1/lib/Dialect/TritonGPU/Transforms/AccelerateMatmul.cpp);
#   pipelines:
#   [`SoftwarePipeliner.cpp`](https://github.com/triton-lang/triton/blob/v3.7.1/lib/Dialect/TritonGPU/Transforms/Pipeliner/SoftwarePipeliner.cpp)
# - powers of two:
#   [`semantic.py`](https://github.com/triton-lang/triton/blob/v3.7.1/python/triton/language/semantic.py#L589);
#   the search:
#   [`autotuner.py`](https://github.com/triton-lang/triton/blob/v3.7.1/python/triton/runtime/autotuner.py#L212-L261)
# - Inductor's use of all this:
#   [`triton_heuristics.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/runtime/triton_heuristics.py),
#   [`triton.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/codegen/triton.py)
# - the roofline: [Williams, Waterman, Patterson](https://doi.org/10.1145/1498765.1498785); sectors,
#   banks, registers and their limits: [CUDA C++ Programming
#   Guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/)
#
# torch 2.13 goes with Triton 3.7, torch 2.11 with Triton 3.6; what was compiled here was not
# compared with other versions, nor with torch 2.15. Instruction counts are those of one compiler:
# expect yours to differ, and read them.
