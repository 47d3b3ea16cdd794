# %% [markdown] id="title"
# # 05 Memory and time: what a tensor costs, and when a kernel runs
#
# "`nvidia-smi` says 20 GB and my tensors are 6." "I timed it and it took 20 microseconds, whatever
# the size." "It runs out of memory at step 300." Two things between you and the device explain all
# three: an allocator that keeps what you free, and a queue that takes work and lets your program go
# on before the work is done. After this chapter you can say what each of them did, and change it.
#
# *Reading: about 50 minutes.*

# %% [markdown] id="try-first"
# ## Try it first
# A program makes a few tensors on a GPU and deletes some. Step through what torch's allocator does.
# Which tensor, when it is deleted, joins the holes on both of its sides?

# %% id="try-first-run" tags=["hide-input"]
import onelayer


def some_tensors():
    import torch

    def tensor(mib):
        return torch.empty(int(mib * 2**20), dtype=torch.uint8, device="cuda")

    a, b, c, d = tensor(3), tensor(5), tensor(4), tensor(6)
    del b  # a hole of 5 MiB between a and c
    e = tensor(2.5)  # 2 MiB are left over at the end, 5 MiB in the hole
    del a, e  # the hole grows on both sides
    f = tensor(7)
    return [c.nbytes, d.nbytes, f.nbytes]


stepped = onelayer.mocked("05_some_tensors", some_tensors)
onelayer.show_segments(stepped.history)

# %% [markdown] id="what-is-real-here"
# ## What is real on this page
# Where torch is a CUDA build, cells with `onelayer.mocked` run torch's own code over a *mocked*
# CUDA runtime: allocator, launches and streams are torch's, times follow a model. Elsewhere they
# show a recording of exactly that function, with its date. Nothing here is the speed of a GPU.
# Times of the CPU are measured on your machine. The *device* is the GPU, and the *host* is the CPU
# with your Python. A *launch* is a call that hands a kernel to the device, and a *stream* is a
# queue in which the device works in order; one is there from the beginning, the main stream.

# %% id="instruments"
import ctypes
import platform
import resource
import time

import torch
import torch.nn.functional as F

from autograder import predict, reveal
from onelayer.mock_cuda.devices import DEVICES

torch.set_num_threads(1)  # times compare better
MIB = 2**20
head = onelayer.head()  # nn.Linear(64, 600), trained

# %% [markdown] id="first-tensor"
# ## One small tensor
# The bias of our head has 600 floats, 2,400 bytes. A GPU with nothing on it gets such a tensor.
# Torch [saves calls](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management) of
# CUDA's own function for memory, `cudaMalloc`, and keeps what is left over. How many bytes does
# torch then hold on the device?

# %% id="first-tensor-guess"
predict("reserved_for_2400_bytes", choices=[2_400, 2_560, 4_096, 2_097_152])


# %% id="first-tensor-run"
def first_tensor():
    import torch

    bias = torch.empty(600, device="cuda")
    return [bias.nbytes, torch.cuda.memory_allocated(), torch.cuda.memory_reserved()]


asked, allocated, reserved = onelayer.mocked("05_first_tensor", first_tensor).result
print(f"asked for {asked:,}, allocated {allocated:,}, reserved {reserved:,} bytes")
reveal("reserved_for_2400_bytes", reserved)

# %% [markdown] id="first-tensor-why"
# One tensor has three numbers. *Asked for* is what your code wrote. *Allocated* is the size of the
# *block* that the tensor got. *Reserved* is what torch took from CUDA with `cudaMalloc`, a
# *segment*. The rest of the segment is free for the next tensor of this program, and for no other
# program on the machine.

# %% [markdown] id="three-sizes"
# ## Three sizes
# How does the allocator choose? Ask for one tensor at a time and look.


# %% id="three-sizes-run"
def sizes_of_requests():
    import torch

    rows, mib = [], 2**20
    for nbytes in (1, 512, 513, mib, mib + 1, 9 * mib, 10 * mib, 10 * mib + 1, 25 * mib):
        torch.cuda.empty_cache()
        x = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        rows.append([nbytes, torch.cuda.memory_allocated(), torch.cuda.memory_reserved()])
        del x
    return rows


seen = onelayer.mocked("05_sizes_of_requests", sizes_of_requests).result
print(f"{'asked for':>12} {'block':>12} {'segment':>12}")
for row in seen:
    print("".join(f"{n:>13,}" for n in row)[1:])

# %% [markdown] id="three-sizes-why"
# A block is a multiple of 512 bytes. Blocks up to 1 MiB live in segments of 2 MiB, the *small
# pool*. Larger ones live in the *large pool*: below 10 MiB in segments of 20 MiB, from there on a
# new segment has their size, as a multiple of 2 MiB. (The last block is its whole segment: no more
# than 1 MiB would be left over, and the large pool does not split that off.) The constants stand in
# [`AllocatorConfig.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/AllocatorConfig.h).

# %% [markdown] id="why-a-cache"
# ## Why not ask CUDA each time?
# A loop makes a tensor of logits `(4096, 600)`, 9.4 MiB, a hundred times. Each replaces the one
# before, which is freed when the new one is there. How many calls of `cudaMalloc` does it make?

# %% id="why-a-cache-guess"
predict("mallocs_of_100_tensors", choices=[1, 2, 100, 200])


# %% id="why-a-cache-run"
def hundred_logits():
    import torch

    for _ in range(100):
        z = torch.empty(4096, 600, device="cuda")
    return list(z.shape)


def hundred_logits_uncached():
    import os

    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"  # read when the allocator is first used
    import torch

    for _ in range(100):
        z = torch.empty(4096, 600, device="cuda")
    return list(z.shape)


# %% id="why-a-cache-count"
def calls_of(run, *apis):
    return {api: sum(call.api == api for call in run.calls) for api in apis}


cached = onelayer.mocked("05_hundred_logits", hundred_logits)
plain = onelayer.mocked("05_hundred_logits_uncached", hundred_logits_uncached)
for name, run in {"with the cache": cached, "without it": plain}.items():
    print(f"{name:15}", calls_of(run, "cudaMalloc", "cudaFree"))
reveal("mallocs_of_100_tensors", calls_of(cached, "cudaMalloc", "cudaFree")["cudaMalloc"])

# %% [markdown] id="why-a-cache-why"
# It calls `cudaMalloc` once: a segment of 20 MiB holds the new tensor and the one that it replaces,
# and the two take turns. Without the cache each tensor costs a `cudaMalloc` and a `cudaFree`, and
# [`cudaFree`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html) may wait
# for the device. So freeing a tensor gives CUDA nothing back: the allocator keeps the block for the
# next tensor.

# %% [markdown] id="split-and-join"
# ## Split, best fit, join
# Step through what happens to a few tensors. Watch three things: the tensor takes the beginning of
# a free block and leaves the rest; a request takes the *smallest* free block that is large enough;
# two free blocks side by side become one.

# %% id="split-and-join-run"
onelayer.show_segments(stepped.history, at=1)

# %% [markdown] id="a-model"
# ## These rules are all of it
# Rounding, two pools, three sizes of segments, best fit, splitting and joining: written down
# without CUDA, they are a few dozen lines. Lab 05 asks you for them, and compares your segments
# with a model of ours. Is that model right? A test of this course plays drawn sequences of requests
# to torch's real allocator, on the mocked device, and to the model. All their blocks are equal.

# %% [markdown] id="streams-have-their-own"
# ## A block belongs to a stream
# `del x` frees a block while the device may still be reading it. On one stream that is safe:
# whoever gets the block next writes *behind* that read in the same queue. So the allocator gives a
# block only to the stream that it came from. The allocator knows where a tensor was made, and does
# not see who reads it.
#
# Below, `x` was made on the main stream. A second stream reads `x` for a long time; meanwhile the
# host deletes `x`, and asks for a tensor of the same size on the main stream. Is the memory of `x`
# given away, or kept back?

# %% id="streams-have-their-own-guess"
predict("memory_of_x_while_it_is_read", choices=["given away", "kept back"])


# %% id="streams-have-their-own-run"
def read_on_a_side_stream():
    import torch

    side, given_away = torch.cuda.Stream(), []
    for recorded in (False, True):
        x = torch.empty(2**20, device="cuda")
        at = x.data_ptr()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.empty(2**28, device="cuda").zero_()  # long
            x * 2  # reads x behind that
        if recorded:
            x.record_stream(side)
        del x
        after = torch.empty(2**20, device="cuda")
        given_away.append(after.data_ptr() == at)
        torch.cuda.synchronize()
    return given_away


# %% id="streams-have-their-own-reveal"
without, with_record = onelayer.mocked("05_side_stream", read_on_a_side_stream).result
print("without record_stream: same memory,", without)
print("with record_stream:    same memory,", with_record)
reveal("memory_of_x_while_it_is_read", "given away" if without else "kept back")

# %% [markdown] id="streams-have-their-own-why"
# It is given away, while the side stream still reads it. The allocator keeps the order of the main
# stream only, and the reader is on another one: a race that nobody reports.
# [`record_stream`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.record_stream.html)
# tells the allocator of the second reader. Then the block waits for an *event* on that stream, a
# mark in the queue that says when the device has come so far.

# %% [markdown] id="fragmentation"
# ## Free, and of no use
# Sixty steps; each makes three tensors of logits for a batch of another length, and keeps a small
# result for six more steps. A free block serves the next tensor only if it is large enough, and a
# small result can lie in the middle of a segment. Compare what torch reserves with the most that
# was in use, and step through:


# %% id="fragmentation-run"
def lengths_that_differ():
    import random

    import torch

    lengths, kept = random.Random(0), []
    for _ in range(60):
        n = lengths.randrange(1000, 9000)
        step = [torch.empty(n, 600, device="cuda") for _ in range(3)]
        kept = [*kept[-5:], torch.empty(n // 8, 600, device="cuda")]
        del step
    return [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]


torn = onelayer.mocked("05_lengths_that_differ", lengths_that_differ)
most, reserved = torn.result
print(f"at most {most / MIB:.0f} MiB allocated, {reserved / MIB:.0f} MiB reserved")
onelayer.show_segments(torn.history)

# %% [markdown] id="fragmentation-why"
# Go to the later places where the light curve rises by 20 MiB: bytes are free, but no free block
# holds the next tensor, so torch asks CUDA for another segment. That is *fragmentation*: one reason
# why `nvidia-smi` says more than the sum of your tensors. It begins in the first step, and builds
# up as new lengths come. Are the different lengths the cause? Take them away in the first run
# below. The second run keeps them, and lets a segment grow in place of opening another one.


# %% id="fragmentation-cause-run"
def one_length():
    import torch

    kept = []
    for _ in range(60):
        step = [torch.empty(9000, 600, device="cuda") for _ in range(3)]  # padded to the longest
        kept = [*kept[-5:], torch.empty(9000 // 8, 600, device="cuda")]
        del step
    return [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]


def segments_that_grow():
    import random

    import torch

    # as PYTORCH_ALLOC_CONF=expandable_segments:True in the environment
    torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
    lengths, kept = random.Random(0), []
    for _ in range(60):
        n = lengths.randrange(1000, 9000)
        step = [torch.empty(n, 600, device="cuda") for _ in range(3)]
        kept = [*kept[-5:], torch.empty(n // 8, 600, device="cuda")]
        del step
    return [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]


# %% id="fragmentation-cause-show"
cures = {
    "lengths differ": torn.result,
    "one length": onelayer.mocked("05_one_length", one_length).result,
    "segments that grow": onelayer.mocked("05_segments_that_grow", segments_that_grow).result,
}
for name, (most, reserved) in cures.items():
    print(f"{name:18} {most / MIB:4.0f} MiB allocated, {reserved / MIB:4.0f} reserved")

# %% [markdown] id="fragmentation-cause-why"
# With one length almost nothing is lost, although each step is larger. *Expandable segments* put
# more memory behind a segment in place of opening another one ([notes on
# memory](https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-alloc-conf)):
# they lose less, and not nothing.

# %% [markdown] id="out-of-memory"
# ## An error message, read
# A device of 256 MiB. Ten tensors of 20 MiB are held, every second one is deleted, and then 60 MiB
# are asked for. 100 MiB are free, and no free block has 60. When `cudaMalloc` fails, the
# allocator gives those segments back to CUDA in which nothing is in use, and asks again. Does the
# tensor fit?

# %% id="out-of-memory-guess"
predict("sixty_mib_fit", choices=["yes", "no"])


# %% id="out-of-memory-run"
def every_second_one():
    import torch

    def tensor(mib):
        return torch.empty(mib * 2**20, dtype=torch.uint8, device="cuda")

    told = []
    for mib in (20, 5):  # a segment of their own; four to a segment
        held = [tensor(mib) for _ in range(200 // mib)]
        held = held[::2]
        try:
            tensor(60)
            told.append("it fits")
        except torch.OutOfMemoryError as error:
            told.append(str(error).partition(" If reserved")[0])
        del held
        torch.cuda.empty_cache()
    return told


# %% id="out-of-memory-reveal"
whole, parts = onelayer.mocked("05_every_second_one", every_second_one, memory="256 MiB").result
print("tensors of 20 MiB:", whole)
print("tensors of 5 MiB: ", parts)
reveal("sixty_mib_fit", "yes" if whole == "it fits" else "no")

# %% [markdown] id="out-of-memory-why"
# It fits: tensors of 20 MiB have segments of their own, so five segments can go back. With tensors
# of 5 MiB as many bytes are free, but each segment still holds two tensors, and nothing can go
# back. The message says so: more is "reserved by PyTorch but unallocated" than was asked for.

# %% [markdown] id="beside-the-tensors"
# ## What else is on the device
# One product of two small matrices. How much does it add?


# %% id="beside-the-tensors-run"
def one_product():
    import torch

    x = torch.empty(64, 64, device="cuda")
    before = torch.cuda.memory_allocated()
    y = x @ x
    torch._C._cuda_clearCublasWorkspaces()
    return [before, torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated(), y.nbytes]


before, peak, after, own = onelayer.mocked("05_one_product", one_product).result
print(f"{before:,} bytes, then {peak:,}; without cuBLAS's workspace {after:,} (y has {own:,})")

# %% [markdown] id="beside-the-tensors-why"
# cuBLAS, the library of matrix products, gets a *workspace* from torch's allocator, once for each
# thread and stream. When the workspace is freed, what is left is the two tensors. On top of all
# that, `nvidia-smi` counts the CUDA context of the process. The mocked device has no context, so
# this page has no number for it.

# %% [markdown] id="a-step"
# ## What a training step holds
# The head alone, 4,096 tokens, AdamW. One tensor of logits has 9.4 MiB, all parameters together
# 0.15 MiB. Forward makes the logits and their log-softmax, and the graph keeps the log-softmax
# (chapter 04). Backward makes a gradient for each of the two. How high is the peak of a step, in
# tensors of logits?

# %% id="a-step-guess"
predict("logits_at_the_peak", choices=[1, 2, 3, 4])


# %% id="a-step-run"
def a_training_step():
    import torch
    from torch.nn import functional as F

    held = []

    def note(name):
        held.append([name, torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()])
        torch.cuda.reset_peak_memory_stats()

    x = torch.empty(4096, 64, device="cuda")
    target = torch.zeros(4096, dtype=torch.int64, device="cuda")
    head = torch.nn.Linear(64, 600, device="cuda")
    F.cross_entropy(head(x[:1]), target[:1]).backward()  # the workspaces of cuBLAS come, and stay
    head.zero_grad()
    note("parameters, batch")
    optimizer = torch.optim.AdamW(head.parameters())
    for step in ("first", "second"):
        loss = F.cross_entropy(head(x), target)
        note(f"{step} forward")
        loss.backward()
        note(f"{step} backward")
        optimizer.step()
        note(f"{step} step")
        optimizer.zero_grad()
    return held


# %% id="a-step-table"
held = onelayer.mocked("05_training_step", a_training_step).result
logits = 4096 * 600 * 4
start = held[0][1]
print(f"{'':18} {'MiB at the end':>15} {'at most':>9}   without what was there before")
for name, now, most in held:
    print(f"{name:18} {(now - start) / MIB:15.2f} {(most - start) / MIB:9.2f}")
reveal("logits_at_the_peak", round((max(most for _, _, most in held[1:]) - start) / logits))

# %% [markdown] id="a-step-why"
# It holds three, and it does so in the *backward*, twice: when it begins, the log-softmax that the
# forward left, the gradient for it, and the gradient for the logits; and, a little higher, when the
# gradient of the bias is summed, with scratch as large as two. The logits themselves were freed
# before. From step to step 3 numbers stay for each parameter: itself, and two that AdamW makes in
# the first step. A fourth, the gradient, stays until `zero_grad`.

# %% [markdown] id="moves-the-peak"
# ## What moves the peak
# Each of these changes one thing: gradients that are freed by `zero_grad`, a checkpoint around the
# whole loss, and a loss that is computed for 512 tokens at a time, backward included. Which of them
# lowers the peak of this step most?

# %% id="moves-the-peak-guess"
predict("lowers_the_peak_most", choices=["zero_grad to None", "checkpoint", "loss in pieces"])


# %% id="moves-the-peak-run"
def three_changes():
    import torch
    from torch.nn import functional as F
    from torch.utils.checkpoint import checkpoint

    x = torch.empty(4096, 64, device="cuda")
    target = torch.zeros(4096, dtype=torch.int64, device="cuda")
    head = torch.nn.Linear(64, 600, device="cuda")

    def loss(rows, labels):
        return F.cross_entropy(head(rows), labels, reduction="sum") / len(x)

    def backward(kind):
        if kind == "loss in pieces":  # backward of each piece before the next: gradients add up
            for rows, labels in zip(x.split(512), target.split(512), strict=True):
                loss(rows, labels).backward()
        elif kind == "checkpoint":
            checkpoint(loss, x, target, use_reentrant=False).backward()
        else:
            loss(x, target).backward()

    told = {}
    for kind in ("warm-up", "gradients stay", "zero_grad to None", "checkpoint", "loss in pieces"):
        head.zero_grad(set_to_none=kind != "gradients stay")
        torch.cuda.reset_peak_memory_stats()
        start = torch.cuda.memory_allocated()
        backward(kind)
        told[kind] = torch.cuda.max_memory_allocated() - start
    return told


# %% id="moves-the-peak-show"
peaks = onelayer.mocked("05_three_changes", three_changes).result
del peaks["warm-up"]
onelayer.show_bars({name: round(n / MIB, 2) for name, n in peaks.items()}, unit="MiB")
reveal("lowers_the_peak_most", min(peaks, key=peaks.get))

# %% [markdown] id="moves-the-peak-why"
# The gradients of this head take 0.15 MiB, so `zero_grad` matters little *here*. A checkpoint
# around the whole loss brings everything back at once, when backward begins: the same peak. A loss
# in pieces never holds more than a piece of the logits. `lean` of chapter 00 worked so, and torch's
# own [fused
# loss](https://docs.pytorch.org/docs/stable/generated/torch.nn.LinearCrossEntropyLoss.html) does it
# inside one operator, if you give it `options`. (`FusedLoss` of chapter 04 does not: it keeps
# little for backward, and its peak is as high.)

# %% [markdown] id="a-launch"
# ## A launch returns at once
# Now time. Five kernels on 256 MiB each, then a *sync*: the host waits until the device has done
# everything in its queue. The host calls, the device works. When does `x.mul_(2)` return: before
# its kernel ends, or after that?

# %% id="a-launch-guess"
predict("mul_returns", choices=["before its kernel ends", "after its kernel ended"])


# %% id="a-launch-run"
def five_kernels():
    import torch

    x = torch.empty(2**26, device="cuda")
    x.mul_(2)  # the first call of a kernel loads its code
    torch.cuda.synchronize()
    for _ in range(5):
        x.mul_(2)
    torch.cuda.synchronize()


launched = onelayer.mocked("05_five_kernels", five_kernels)
print("microseconds, modelled    host: called  returned   device: begins     ends")
start = launched.calls[3].start_us
for call in launched.calls[3:]:
    host = f"{call.start_us - start:9.1f} {call.returned_us - start:9.1f}"
    work = [us - start for us in (call.begin_us, call.finish_us) if us is not None]
    print(f"{call.api:22} {host}" + "".join(f"{us:14.1f}" for us in work))

# %% id="a-launch-reveal"
kernels = [call for call in launched.calls[3:] if call.kernel]
early = sum(call.returned_us < call.finish_us for call in kernels)
reveal("mul_returns", "before its kernel ends" if early == 5 else "after its kernel ended")

# %% [markdown] id="a-launch-why"
# It returns before its kernel ends. The host puts the kernel into a queue and goes on; after five
# calls it is far ahead, and only the last line makes it wait. A clock around `x.mul_(2)` shows what
# the *launch* costs, the same few microseconds for any size. (Kernel times are modelled as bytes
# over bandwidth; the host's are those of the machine that ran this.)

# %% [markdown] id="who-waits"
# ## Which lines make the host wait?
# Below are twelve lines on tensors of a device; each begins with `y =`. The host has to wait where
# its next line cannot go on without something that only the device knows: a number, or how many
# numbers there are. It also waits where it copies, unless it is told not to. (*Pinned* memory is
# memory of the host that stays where it is, so that the device can read it by itself.)


# %% id="who-waits-run"
def twelve_lines():
    import torch

    x = torch.randn(2**16, device="cuda")
    mask, index = x > 0, torch.arange(1000, device="cuda")
    host, pinned = torch.randn(2**16), torch.randn(2**16).pin_memory()
    torch.cuda.synchronize()
    y = x * 2
    y = x.sum()
    y = x.sum().item()
    y = x[index]
    y = x[mask]
    y = torch.where(mask, x, 0.0)
    y = mask.nonzero()
    y = host.cuda()
    y = pinned.to("cuda", non_blocking=True)
    y = x.cpu()
    y = torch.tensor([1.0, 2.0], device="cuda")
    y = bool((x > 3).any())
    return list(x.shape) if y is None else None


# %% [markdown] id="who-waits-ask"
# Go through the lines one by one. How many of them wait?

# %% id="who-waits-guess"
predict("lines_that_wait", choices=[3, 5, 7, 9])

# %% id="who-waits-show"
waited = onelayer.mocked("05_twelve_lines", twelve_lines, values=True)
lines = list(dict.fromkeys(call.line for call in waited.calls if call.line.startswith("y = ")))
synced = {call.line for call in waited.calls if call.api == "cudaStreamSynchronize"}
for line in lines:
    print("waits  " if line in synced else "goes on", line)
reveal("lines_that_wait", len(synced.intersection(lines)))

# %% [markdown] id="who-waits-why"
# Every line waits whose *result in Python* depends on a number on the device: `.item()`, printing,
# and also `x[mask]` and `nonzero`, whose result has a size that only the device knows.
# `torch.where` does the same work with a size known beforehand. Copies between host and device wait
# too: torch queues the copy and then waits for it, unless you say `non_blocking`. (From memory that
# is not pinned CUDA's own call may wait in any case: the section after the next.)
# [`set_sync_debug_mode`](https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html)
# warns at such lines on a real GPU.

# %% [markdown] id="a-sync-in-the-loop"
# ## What one wait costs
# Twenty steps of forty small kernels. One loop reads its loss in every step; the other one adds the
# losses up on the device and reads the sum once. When is the device idle?


# %% id="a-sync-in-the-loop-run"
def read_every_step():
    import torch

    x, total = torch.randn(2**20, device="cuda"), 0.0
    for _ in range(20):
        for _ in range(40):
            x.mul_(1.0)
        total += x.sum().item()


def read_once():
    import torch

    x, total = torch.randn(2**20, device="cuda"), torch.zeros((), device="cuda")
    for _ in range(20):
        for _ in range(40):
            x.mul_(1.0)
        total += x.sum()
    total.item()


# %% id="a-sync-in-the-loop-show"
for name, function in {"05_read_every_step": read_every_step, "05_read_once": read_once}.items():
    run = onelayer.mocked(name, function)
    syncs = calls_of(run, "cudaStreamSynchronize")
    print(f"{name[3:]:16} {len([c for c in run.calls if c.kernel])} launches and copies, {syncs}")

# %% [markdown] id="a-sync-in-the-loop-why"
# There are twenty waits against one. (The second loop adds 20 times where the first one copies 20
# times; it also sets the sum to zero, and copies it once.) What each wait costs depends on how far
# ahead the host is, and that is arithmetic. Say that the host needs 3 us for a launch, a kernel
# takes 6, and between two steps the host has 100 us of work of its own. (These three numbers are
# made up.)

# %% id="a-sync-in-the-loop-model"
launch, kernel, own, steps = 3, 6, 100, 20
busy = 40 * kernel  # of the device, in each step
host = 40 * launch + own  # of the host, in each step
print(f"a step costs the host {host} us and the device {busy} us: the host stays ahead")

# After a wait the device has nothing: it stands still while the host works and launches again.
waiting = steps * (launch + busy) + (steps - 1) * own
ahead = launch + steps * busy
for name, us in {"sync in each step": waiting, "sync at the end": ahead}.items():
    print(f"{name:17} {us:5} us, the device is busy for {steps * busy / us:.0%}")

# %% [markdown] id="copy-beside"
# ## A copy beside a kernel
# 16 MiB go to the device on a side stream, while a kernel runs on the main one. Both programs say
# `non_blocking=True`. They differ in the host's memory: ordinary in one, pinned in the other. When
# does the call return?


# %% id="copy-beside-run"
def copy_from_ordinary_memory():
    import torch

    host, there = torch.empty(2**22), torch.empty(2**22, device="cuda")
    x, side = torch.empty(2**26, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    x.mul_(2)
    with torch.cuda.stream(side):
        there.copy_(host, non_blocking=True)
    torch.cuda.synchronize()


def copy_from_pinned_memory():
    import torch

    host, there = torch.empty(2**22).pin_memory(), torch.empty(2**22, device="cuda")
    x, side = torch.empty(2**26, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    x.mul_(2)
    with torch.cuda.stream(side):
        there.copy_(host, non_blocking=True)
    torch.cuda.synchronize()


# %% id="copy-beside-show"
for name, function in {
    "05_copy_ordinary": copy_from_ordinary_memory,
    "05_copy_pinned": copy_from_pinned_memory,
}.items():
    (copy,) = [c for c in onelayer.mocked(name, function).calls if c.api == "cudaMemcpyAsync"]
    took = copy.finish_us - copy.begin_us
    when = "before" if copy.returned_us < copy.finish_us else "after"
    print(f"{name[8:]:9} the copy takes {took:.0f} us, modelled; the call returns {when} its end")

# %% [markdown] id="copy-beside-why"
# From ordinary memory the call returns when the data have left `host`, `non_blocking` or not, and
# the copy is slower: CUDA copies through a pinned buffer of its own, and promises no more than that
# the call *may* wait ([the
# rules](https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html)). From pinned memory
# it returns at once. Then nobody may write into `host` before an event says that the copy is over.
# Lab 05 asks for a plan of streams and events that is safe, and as short as it can be.

# %% [markdown] id="honest"
# ## A clock that tells the truth
# Four habits: run a few times before you measure; read *events*, which stand in the queue beside
# the kernels, or sync before and after; report a median and a spread, not a mean; and before each
# run fill the cache with something else, as a real step would. All but the second hold for a CPU as
# well. Here are the first and the third, on yours:

# %% id="honest-run"
x = torch.randn(4096, 64)
times_us = []
for _ in range(60):
    began = time.perf_counter()
    F.linear(x, head.weight, head.bias)
    times_us.append((time.perf_counter() - began) * 1e6)
ordered = sorted(times_us[5:])
print(f"first {times_us[0]:,.0f} us; then median {ordered[27]:,.0f}", end=", ")
print(f"10 % below {ordered[5]:,.0f}, 10 % above {ordered[49]:,.0f}, longest {ordered[-1]:,.0f}")

# %% [markdown] id="regimes"
# ## Three regimes
# How long does the head take for N tokens? Three floors: what a call costs at all, the bytes over
# the bandwidth, the FLOPs over the peak. The largest one decides. Where does the line of *this* CPU
# bend, and where would a GPU's? (Measured up to 100,000: a million rows of logits take 2.4 GB.)

# %% id="regimes-measure"
measured = []
with torch.inference_mode():
    for n in (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 100_000):
        x, out = torch.randn(n, 64), torch.empty(n, 600)
        rounds = max(3, min(200, 40_000 // n))
        took = []
        for _ in range(rounds):
            began = time.perf_counter()
            torch.addmm(head.bias, x, head.weight.T, out=out)
            took.append((time.perf_counter() - began) * 1e6)
        measured.append((n, sorted(took)[rounds // 2]))


# %% id="regimes-show"
def floors(n, flop_s, bytes_s, launch_us=4.0):
    """Modelled: microseconds of overhead, of bandwidth, of compute, for n rows of float32."""
    nbytes = 4 * (n * 64 + 600 * 64 + 600 + n * 600)
    return launch_us, nbytes / bytes_s * 1e6, 2 * n * 64 * 600 / flop_s * 1e6


h100 = DEVICES["H100"]
sizes = [10 ** (k / 6) for k in range(37)]
series = {"this CPU, one thread, measured": measured}
for name, flop_s in {"float32": h100.fp32_flop_s, "tf32": h100.tf32_flop_s}.items():
    points = [(n, max(floors(n, flop_s, h100.hbm_bytes_s))) for n in sizes]
    series[f"H100 in {name}: a model, nothing measured"] = points
onelayer.show_regimes(series, size="N tokens")
print(f"H100: {h100.fp32_flop_s / 1e12:.1f} TFLOP/s in float32, {h100.hbm_bytes_s / 1e12} TB/s")

# %% [markdown] id="regimes-ask"
# A token more costs the head 2 * 64 * 600 FLOP, and 600 floats to write and 64 to read, 4 bytes
# each. Divide FLOP and bytes by the speeds that were printed. In the model of the H100, which floor
# decides for a batch of a million tokens, in plain float32?

# %% id="regimes-guess"
predict("regime_of_a_million", choices=["overhead", "bandwidth", "compute"])

# %% id="regimes-reveal"
names, decides = ("overhead", "bandwidth", "compute"), {}
for precision, flop_s in {"float32": h100.fp32_flop_s, "tf32": h100.tf32_flop_s}.items():
    for n in (1, 1000, 1_000_000):
        us = floors(n, flop_s, h100.hbm_bytes_s)
        decides[precision] = names[us.index(max(us))]
        told = ", ".join(f"{name} {t:,.2f}" for name, t in zip(names, us, strict=True))
        print(f"{precision:7} N = {n:>9,}: {told} us, {decides[precision]}")
reveal("regime_of_a_million", decides["float32"])

# %% [markdown] id="regimes-why"
# The H100's lines are flat first: a launch costs what it costs, and a batch of 1 takes as long as
# one of a thousand. Then they rise with N. Your CPU's line is hardly flat anywhere: its call costs
# a few microseconds, and it is so much slower that 16 rows are work already. In float32 the H100's
# arithmetic is the limit. In tf32 its tensor cores do seven times as much, and then the same head
# at the same N is limited by bandwidth: writing the logits is the cost. In the flat part fewer
# launches help, in the steep one fewer bytes *or* cheaper arithmetic, depending on which floor you
# stand.

# %% [markdown] id="cpu-heap"
# ## The CPU's own version
# A CPU has an allocator too: glibc's heap. The logits of 16,384 tokens are 37.5 MiB. `malloc` gets
# such a block from the kernel with `mmap` and gives it back when it is freed. Each page of 4 KiB is
# then mapped on the first write, by a *page fault*. How many faults does one call cost?

# %% id="cpu-heap-guess"
predict("faults_of_one_call", choices=["almost none", "about 100", "about 10,000"])

# %% id="cpu-heap-run"
x = torch.randn(16_384, 64)
out = torch.empty(16_384, 600)


def faults_and_ms(call, rounds=5):
    """-> the median of page faults and of milliseconds, over a few calls."""
    seen = []
    for _ in range(rounds):
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        began = time.perf_counter()
        call()
        ms = (time.perf_counter() - began) * 1e3
        seen.append((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults, ms))
    return tuple(sorted(column)[rounds // 2] for column in zip(*seen, strict=True))


@torch.inference_mode()
def fresh():
    return torch.addmm(head.bias, x, head.weight.T)


@torch.inference_mode()
def reused():
    return torch.addmm(head.bias, x, head.weight.T, out=out)


# %% id="cpu-heap-show"
before = {"a fresh result": faults_and_ms(fresh), "the same buffer": faults_and_ms(reused)}
for name, (faults, ms) in before.items():
    print(f"{name:16} {faults:6,} page faults, {ms:6.1f} ms")
count = before["a fresh result"][0]
word = "almost none" if count < 10 else "about 100" if count < 1000 else "about 10,000"
reveal("faults_of_one_call", word)

# %% [markdown] id="cpu-heap-why"
# The same arithmetic, in the same operator. Are the faults the cause of the difference, or is it
# something else about a fresh result? Take them away, and leave the result fresh:
# [`mallopt`](https://man7.org/linux/man-pages/man3/mallopt.3.html) tells glibc to serve large
# blocks from its heap and to keep what is freed. After some calls the heap has been touched
# everywhere.

# %% id="cpu-heap-cause"
if platform.libc_ver()[0] == "glibc":
    libc, TRIM_THRESHOLD, MMAP_THRESHOLD = ctypes.CDLL(None), -1, -3
    libc.mallopt(MMAP_THRESHOLD, 2**30)
    libc.mallopt(TRIM_THRESHOLD, 2**30)
    for _ in range(30):
        fresh()
    faults, ms = faults_and_ms(fresh)
    print(f"a fresh result, heap kept: {faults:,} page faults, {ms:.1f} ms")
else:
    print("Not glibc: this machine's allocator has other rules, and no mallopt.")

# %% [markdown] id="cpu-heap-cause-why"
# The faults are gone, and most of the difference with them. So a fused function that makes fewer
# large tensors can win on a CPU even where it moves no byte less: it faults less. A part of the
# speed-ups in chapters 00, 08 and 12 is that. The two allocators are alike: both keep what you
# free, so that the next request does not pay the system. CUDA's keeps everything, until a
# `cudaMalloc` fails or you call `empty_cache`; glibc's, by default, only what is below its
# threshold for `mmap`, at most 32 MiB.

# %% [markdown] id="what-you-can-say"
# ## What you can now say
# - *Allocated* is blocks in use, *reserved* is segments held. Between them lie free blocks, for the
#   next tensor or too small for it. `nvidia-smi` adds the context.
# - The peak of this head's step lies in the backward, and the logits decide it.
# - The host runs ahead. It stops where Python needs a number or a size from the device.
# - A time is a claim about a queue: say what was in it, and who waited.
# - On a CPU, look at page faults before you praise a fusion.
#
# Now do it by hand: [Lab 05](../labs/05_memory_and_time/05_memory_and_time.ipynb).

# %% [markdown] id="sources"
# ## Where it is written
# - [`CUDACachingAllocator.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/cuda/CUDACachingAllocator.cpp):
#   the comment on top, `get_free_block`, `should_split`, `free_block`, `release_cached_blocks`
# - [`CUDACachingAllocator.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/cuda/CUDACachingAllocator.h)
# - [`torch/cuda/memory.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/cuda/memory.py):
#   `memory_stats`, `_snapshot`
# - [`CUDAStream.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/cuda/CUDAStream.h),
#   [`streams.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/cuda/streams.py)
# - [`CPUAllocator.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/CPUAllocator.cpp),
#   [`Nonzero.cu`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/cuda/Nonzero.cu)
# - [Understanding CUDA memory usage](https://docs.pytorch.org/docs/stable/torch_cuda_memory.html)
#
# The numbers of the allocator were recorded with torch 2.13. With torch 2.11 and 2.15 they were not
# compared: with another version, take the sizes from your own snapshot.
