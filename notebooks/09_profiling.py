# %% [markdown] id="title"
# # 09 Profiling: a trace that you can act on
#
# "The GPU is at 40 % and I don't know why." You recorded a trace once, opened it, and saw ten
# thousand bars. After this chapter you can ask a trace a question by code: who waits for whom,
# which copies block, which launches are too small, which rank is late. And you can say what a
# repair would bring before you make it.
#
# *Reading: about 35 minutes.*

# %% [markdown] id="try-first"
# ## Try it first
# Two traces of the same loop, before and after a repair, on one scale. Zoom in: where does the
# device have nothing to do, and who waits for whom just there?

# %% id="try-first-run" tags=["hide-input"]
import onelayer
from onelayer.profiling.loop_traces import loop_trace

reads = loop_trace("reads_the_loss")
onelayer.show_traces({"before": reads.before, "after": reads.after})

# %% id="instruments"
import inspect
import json
import os
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from autograder import predict, reveal
from onelayer.profiling import slow_loops
from onelayer.profiling.loop_traces import loop_trace
from onelayer.profiling.profiled import profiled
from onelayer.profiling.waiting_rank import traces_of_two_ranks

os.environ["KINETO_LOG_LEVEL"] = "99"  # the profiler's own log stays off this page
torch.set_num_threads(1)  # times compare better, and one thread is one lane

# %% [markdown] id="the-loop"
# ## The loop of this chapter
# The whole grammar GPT trains on 64 sentences. Three regions have a name: `record_function` opens
# one, and a trace shows it as a bar.

# %% id="the-loop-run"
gpt = onelayer.model.trained()
optimizer = torch.optim.AdamW(gpt.parameters(), lr=1e-4)
sentences = onelayer.grammar.split().train[:64]
rows = torch.zeros(64, 10, dtype=torch.int64)  # (B, T); 0 is <end>
for k, sentence in enumerate(sentences):
    words = onelayer.grammar.encode(str(sentence))[:10]
    rows[k, : len(words)] = torch.tensor(words)


def train_step(number):
    with record_function("forward"):
        logits = gpt(rows[:, :-1])  # (B, T - 1, V)
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    with record_function("backward"):
        loss.backward()
    with record_function("optimizer"):
        optimizer.step()
        optimizer.zero_grad()
    return loss.detach()


# %% [markdown] id="a-trace"
# ## A trace is a list of dicts
# `schedule` says which steps are recorded: here none is skipped, one warms the profiler up, two are
# kept. `export_chrome_trace` writes JSON. Everything in this chapter is read from such a list.

# %% id="a-trace-run"
with profile(
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=0, warmup=1, active=2, repeat=1),
    record_shapes=True,
    acc_events=True,
) as seen:
    for number in range(3):
        train_step(number)
        seen.step()
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "trace.json"
    seen.export_chrome_trace(str(file))
    events = json.loads(file.read_text())["traceEvents"]
print(Counter((e["ph"], e.get("cat")) for e in events))
print(next(e for e in events if e["name"] == "aten::addmm"))

# %% [markdown] id="a-trace-why"
# `ph` is `"X"` for an event that lasts: it has a beginning `ts` and a duration `dur`, in us. `pid`
# and `tid` are process and thread, and each pair is a lane of the picture. `"s"` and `"f"` are the
# ends of an arrow, and have no duration. The arrows here lead from an operator of the forward to
# its backward.

# %% [markdown] id="nested"
# ## Bars inside bars
# Add up the durations of all operators (`cat` is `"cpu_op"`). How does the sum compare with the
# time of the two steps?

# %% id="nested-guess"
predict(
    "sum_of_operators", choices=["less than the steps", "about the steps", "more than the steps"]
)

# %% id="nested-run"
whole = [e for e in events if e["ph"] == "X"]
steps_us = sum(e["dur"] for e in whole if e["name"].startswith("ProfilerStep#"))
operators = [e for e in whole if e["cat"] == "cpu_op"]
operators_us = sum(e["dur"] for e in operators)
print(f"steps {steps_us:,.0f} us, operators {operators_us:,.0f} us")
ratio = operators_us / steps_us
about = "about the steps" if 0.9 < ratio < 1.1 else "less than the steps"
reveal("sum_of_operators", "more than the steps" if ratio >= 1.1 else about)

# %% [markdown] id="nested-why"
# `aten::linear` calls `aten::addmm`, and both have a bar: the time of the inner one is counted
# twice. Take the outermost operators alone, and the effect goes with its cause.

# %% id="nested-outermost"
outermost, until = [], 0.0
for e in sorted(operators, key=lambda e: (e["ts"], -e["dur"])):
    if e["ts"] >= until:
        outermost.append(e)
        until = e["ts"] + e["dur"]
outer_us = sum(e["dur"] for e in outermost)
print(f"{len(operators)} operators, {len(outermost)} of them outermost")
print(f"{outer_us:,.0f} us, {outer_us / steps_us:.0%} of the steps; the rest: Python, the profiler")

# %% [markdown] id="which-line"
# ## Which line?
# With `with_stack=True` each call into Python is a bar too: of a function, `file(line): function`,
# of a built-in or a module, its name. A function of four lines reads a number in its last one.
# Which line does the trace name?

# %% id="which-line-guess"
predict("line_in_the_trace", choices=["of the def", "of the call that waits"])


# %% id="which-line-run"
def read_loss(number):
    """Two lines of text,
    so that the lines differ."""
    return train_step(number).item()


called = profiled(read_loss, steps=1)
names = [e["name"] for e in called if e["cat"] == "python_function"]
name = next(name for name in names if name.endswith(": read_loss"))
line = int(name.rpartition("(")[2].partition(")")[0])
first = read_loss.__code__.co_firstlineno
print(name, "and the function begins in line", first)
reveal("line_in_the_trace", "of the def" if line == first else "of the call that waits")

# %% [markdown] id="which-line-why"
# The name is the function's. The profiler is told of a call when its frame is entered, and notes
# the line at which the frame stands then
# ([`profiler_python.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/profiler_python.cpp)).
# So give a suspect line a function of its own, or a `record_function` around it.

# %% [markdown] id="overhead"
# ## The profiler is in the picture
# Recording takes time, and with stacks it takes more. How much more processor time does a step take
# while it is recorded with stacks and shapes?

# %% id="overhead-guess"
predict(
    "longer_with_stacks", choices=["less than 1.2 times", "1.2 to 3 times", "more than 3 times"]
)


# %% id="overhead-run"
def took_ms(step=train_step, **options):
    """The least processor time of twelve steps, in ms; recorded if there are options."""
    times = []
    for number in range(12):
        recording = nullcontext()
        if options:
            recording = profile(activities=[ProfilerActivity.CPU], acc_events=True, **options)
        with recording:
            began = time.thread_time()
            step(number)
            times.append((time.thread_time() - began) * 1e3)
    return min(times)


alone, recorded = took_ms(), took_ms(record_shapes=False)
stacks = took_ms(with_stack=True, record_shapes=True)
onelayer.show_bars({"alone": alone, "recorded": recorded, "with stacks": stacks}, unit="ms")

# %% id="overhead-reveal"
factor = stacks / alone
words = "less than 1.2 times" if factor < 1.2 else "1.2 to 3 times"
reveal("longer_with_stacks", "more than 3 times" if factor > 3 else words)

# %% [markdown] id="overhead-why"
# Each call into Python and each operator is written down, so what calls most grows most. Take the
# calls away: a step of one large product, recorded in the same way. So a trace with stacks makes
# Python look slower than it is. Look for the cause in it, and measure the step without it.

# %% id="overhead-cause"
square = torch.randn(1024, 1024)


def one_product(number):
    return square @ square


bare, traced = took_ms(one_product), took_ms(one_product, with_stack=True, record_shapes=True)
print(f"one product: {traced / bare:.2f} times as long with stacks; the training step {factor:.2f}")

# %% [markdown] id="memory"
# ## Bytes over time
# `profile_memory=True` adds an event for each allocation: `Bytes` is what it asked for or gave back
# (below zero), `Total Allocated` what is held after it of all that came while it recorded. In which
# region is the most held?

# %% id="memory-guess"
predict("region_of_the_peak", choices=["forward", "backward", "optimizer"])

# %% id="memory-run"
with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as seen:
    train_step(0)
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "trace.json"
    seen.export_chrome_trace(str(file))
    asked = json.loads(file.read_text())["traceEvents"]
changes = sorted((e["ts"], e["args"]["Bytes"]) for e in asked if e["name"] == "[memory]")
regions = [e for e in asked if e.get("cat") == "user_annotation" and "#" not in e["name"]]
held, most, peak = 0, defaultdict(int), (0, "")
for at, nbytes in changes:
    held += nbytes
    for region in regions:
        if region["ts"] <= at < region["ts"] + region["dur"]:
            most[region["name"]] = max(most[region["name"]], held)
onelayer.show_bars(dict(most), unit="bytes")
begin, lasts = next((r["ts"], r["dur"]) for r in regions if r["name"] == "backward")
largest = sorted(n for at, n in changes if begin <= at < begin + lasts)[-2:]
print("the largest requests of backward:", largest, "| the logits:", 4 * 64 * 9 * 600)

# %% id="memory-reveal"
reveal("region_of_the_peak", max(most, key=most.get))

# %% [markdown] id="memory-why"
# These are bytes above those at the beginning. Forward keeps what backward will need, and backward
# begins with all of it and adds two tables as large as the logits: the gradients of their
# log-softmax and of themselves. Chapter 05 asks the CUDA allocator the same.

# %% [markdown] id="the-device"
# ## A second clock
# On a GPU the trace has more lanes. The host calls CUDA's runtime; a stream does the work later.
# Where this machine has no GPU, the next traces come from torch's CUDA build on a *mocked* device:
# launches, copies and waits are torch's own, and the device's times are a model. No speed of a GPU
# can be read from it; `docs/mock_cuda.md` says what is real.

# %% id="the-device-run"
reads = loop_trace("reads_the_loss")
print(reads)
launch = next(e for e in reads.before if e["name"] == "cudaLaunchKernel")
number = launch["args"]["correlation"]
same = [e for e in reads.before if e.get("args", {}).get("correlation") == number]
for e in same:
    print(f"{e['cat']:13} {e['name'][:46]:46} at {e['ts']:9.1f} us, {e['dur']:6.1f} us")

# %% [markdown] id="the-device-why"
# Both have the same `correlation`, and an arrow (`ac2g`, *async CPU to GPU*) leads from the one to
# the other. The call comes back at once, and the kernel begins later: the host and the device run
# [asynchronously](https://docs.pytorch.org/docs/stable/notes/cuda.html).

# %% [markdown] id="two-threads"
# ## Who launches?
# The host's part of a trace has threads. How many of them launch kernels in this loop?

# %% id="two-threads-guess"
predict("threads_that_launch", choices=[1, 2, 3])

# %% id="two-threads-run"
launches = [e for e in reads.before if e["name"] == "cudaLaunchKernel"]
threads = Counter(e["tid"] for e in launches)
print(threads)
reveal("threads_that_launch", len(threads))

# %% [markdown] id="two-threads-why"
# Python's own thread launches the forward, the one number with which backward begins, and the
# optimizer. Backward itself runs on a thread that autograd keeps for each device
# ([`engine.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/engine.cpp)),
# while Python waits in `backward()`. Whoever looks for the region of a launch by its thread loses
# nearly all of backward: compare times instead.

# %% [markdown] id="loop-1"
# ## Loop 1: it reads a number in each step
# The code first. A step keeps its loss for a plot.

# %% id="loop-1-code"
print(inspect.getsource(slow_loops.reads_the_loss))

# %% [markdown] id="loop-1-ask"
# `repaired=False` calls `loss.item()`. In the trace that is a copy of four bytes and a call that
# waits: its name ends in `Synchronize`. How many of those are in a step of the repaired loop?

# %% id="loop-1-guess"
predict("waits_in_a_repaired_step", choices=[0, 1, 2])


# %% id="loop-1-run"
def in_steps(events):
    """The events with a duration that lie in a step: what the profiler does itself is left out."""
    whole = [e for e in events if e["ph"] == "X"]
    steps = [e for e in whole if e["cat"] == "user_annotation" and "ProfilerStep#" in e["name"]]
    return [e for e in whole if any(s["ts"] <= e["ts"] < s["ts"] + s["dur"] for s in steps)]


def waits(events):
    return [e for e in in_steps(events) if e["name"].endswith("Synchronize")]


for name, side in (("before", reads.before), ("after", reads.after)):
    found = waits(side)
    print(f"{name:7} {len(found)} waits, {sum(e['dur'] for e in found):9.1f} us")
reveal("waits_in_a_repaired_step", len(waits(reads.after)) // 2)

# %% [markdown] id="side-by-side"
# ## Before and after, side by side
# Both loops on one scale. Red is the host that waits. Choose a call, and its kernel is marked; zoom
# in on one launch. Where is the device idle before, and what fills that place after?

# %% id="side-by-side-run"
onelayer.show_traces({"before": reads.before, "after": reads.after})

# %% [markdown] id="side-by-side-why"
# `item()` needs the number, so the host waits until all that was launched before on its stream is
# done, and only then goes on to launch. Until the next launch nothing is queued, and the device
# runs empty. The repaired loop adds the loss up on the device, and the host runs ahead. The one
# wait that it still has stands behind the steps: it is the profiler's own, when it stops.

# %% [markdown] id="same-loss"
# ## And the same loss?
# A repair that changes the numbers is none. Each of the four loops on the CPU, three steps slow and
# three repaired: are the losses the same, bit for bit?

# %% id="same-loss-run"
for name, make in slow_loops.LOOPS.items():
    three = []
    for repaired in (False, True):
        step = make("cpu", repaired=repaired)
        three.append(torch.stack([step(k) for k in range(3)]))
    print(f"{name:24} equal: {torch.equal(*three)}  {three[0].tolist()}")

# %% [markdown] id="loop-2"
# ## Loop 2: it copies from pageable memory
# Each batch comes from the host. A GPU reads the host's memory by itself, and for that the pages
# must stay where they are (*pinned*). Pageable memory is copied twice: the driver brings it into
# pinned memory of its own first. How long does the host stand in the calls that copy, for the same
# bytes, once the batch is pinned and the copy asynchronous?

# %% id="loop-2-guess"
predict("host_in_pinned_copies", choices=["a hundredth or so", "a half", "as long"])

# %% id="loop-2-run"
copies = loop_trace("copies_each_batch")
stood = {}
for name, side in (("before", copies.before), ("after", copies.after)):
    whole = in_steps(side)
    calls = [e for e in whole if e["name"] == "cudaMemcpyAsync"]
    moved = [e for e in side if e.get("cat") == "gpu_memcpy"]
    stood[name] = sum(e["dur"] for e in calls)
    kinds = {e["name"] for e in moved}
    print(f"{name:7} {sum(e['args']['bytes'] for e in moved):,} bytes, {kinds}")
    print(f"        host {stood[name]:.1f} us, device {sum(e['dur'] for e in moved):.1f} us")
share = stood["after"] / stood["before"]
reveal(
    "host_in_pinned_copies",
    "a hundredth or so" if share < 0.25 else "a half" if share < 0.75 else "as long",
)

# %% [markdown] id="loop-2-why"
# The call comes back as soon as the copy is queued. Both parts of the repair are needed: from
# pageable memory `non_blocking` has nothing to hand to the device, and from pinned memory a
# blocking copy still waits. All four are measured in
# [torch's tutorial](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html). The
# mocked device keeps CUDA's rules; how fast a link is, it cannot say.

# %% id="loop-2-view"
onelayer.show_traces({"before": copies.before, "after": copies.after})

# %% [markdown] id="loop-3"
# ## Loop 3: thousands of small kernels
# Adam takes eight operations on the device for each parameter, and the GPT has 30 parameters. With
# `foreach=False` each operation on each parameter is a launch. How many launches does the optimizer
# make in one step, about?

# %% id="loop-3-guess"
predict("launches_of_the_optimizer", choices=[30, 60, 250, 1000])

# %% id="loop-3-run"
each = loop_trace("steps_each_parameter")


def launched_in(events, name):
    """The launches while the host is in the region `name`, and the us of their kernels."""
    regions = [e for e in events if e.get("cat") == "user_annotation" and e["name"] == name]
    calls = [
        e["args"]["correlation"]
        for e in events
        if e["name"] == "cudaLaunchKernel"
        and any(r["ts"] <= e["ts"] < r["ts"] + r["dur"] for r in regions)
    ]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    return len(calls), sum(e["dur"] for e in kernels if e["args"]["correlation"] in calls)


for name, side in (("before", each.before), ("after", each.after)):
    calls, device_us = launched_in(side, "optimizer")
    host_us = sum(e["dur"] for e in side if e["name"] == "optimizer" and e["pid"] != 0)
    print(f"{name:7} {calls} launches: host {host_us:,.0f} us, device {device_us:,.0f} us")
    inside = [e for e in in_steps(side) if e["name"] == "cudaLaunchKernel"]
    each_us = sum(e["dur"] for e in inside) / len(inside)
    print(f"        of the host's time, {calls * each_us:,.0f} us in cudaLaunchKernel itself")
calls, _ = launched_in(each.before, "optimizer")
reveal("launches_of_the_optimizer", min((30, 60, 250, 1000), key=lambda n: abs(n - calls)))

# %% [markdown] id="loop-3-why"
# The launches went, and most of the host's time went with them. The last lines say that the launch
# itself is the smaller part of it: each kernel also had an operator around it, with its Python, its
# dispatch and its allocation, and those went too. (A real driver's launch takes some us; count with
# five, and it is still the smaller part.) `foreach` hands a list of tensors to one kernel
# ([`adam.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/optim/adam.py) has both ways,
# `_single_tensor_adam` and `_multi_tensor_adam`). Two other ways to the same end are
# `torch.compile` and CUDA graphs.

# %% id="loop-3-view"
onelayer.show_traces({"before": each.before, "after": each.after})

# %% [markdown] id="loop-4"
# ## Loop 4: it converts there and back
# Read the code: a table is made again in each step, and the logits go to float32 and back around a
# clamp. Both show in the operators of a step. Which differ?

# %% id="loop-4-run"
print(inspect.getsource(slow_loops.converts_and_recomputes).partition("once = ")[2])
converts = loop_trace("converts_and_recomputes")
count = [
    Counter(e["name"] for e in in_steps(side) if e["cat"] in ("cpu_op", "cuda_runtime"))
    for side in (converts.before, converts.after)
]
for name in sorted(count[0] | count[1]):
    if count[0][name] != count[1][name] and "Backward" not in name:
        print(f"{name:32} {count[0][name]:3} -> {count[1][name]:3}")

# %% [markdown] id="loop-4-why"
# The table was a Python list: a copy from pageable memory and a wait behind it, in each step. The
# two conversions read and write all logits, in backward once more. Is nothing lost without the
# detour? The losses above were equal, and the bounds, -30 and 30, are numbers of bfloat16, too.
# Take a bound that is none:


# %% id="loop-4-bounds"
def clamped(bound, detour):
    z = torch.arange(29, 31, 0.125).bfloat16().requires_grad_()
    capped = (z.float() if detour else z).clamp(-bound, bound).bfloat16()
    capped.sum().backward()
    return capped, z.grad


for bound in (30, 30.1):
    (there, grad), (direct, other) = clamped(bound, True), clamped(bound, False)
    differ = int((grad != other).sum())
    print(f"bound {bound}: clamped alike {there.equal(direct)}, gradients that differ {differ}")

# %% [markdown] id="loop-4-bounds-why"
# In bfloat16 30.1 is 30.125. What is clamped comes out the same, rounded before or after; a logit
# of 30.125 is over the one bound and not over the other, and its gradient differs.

# %% [markdown] id="loop-5"
# ## Loop 5: a rank that waits
# Two real processes, gradients averaged over gloo, on the CPU of this machine. Rank 1 has eight
# times as many rows as rank 0. On which rank does the *all-reduce* last longer?

# %% id="loop-5-guess"
predict(
    "longer_all_reduce", choices=["rank 0, which has less to do", "rank 1, which has more to do"]
)

# %% id="loop-5-run"
uneven = traces_of_two_ranks("cpu", repaired=False)
lasted = []
for rank, events in enumerate(uneven):
    spans = [e["dur"] for e in events if e["name"] == "gloo:all_reduce"]
    compute = sum(e["dur"] for e in events if e["name"] in ("forward", "backward"))
    lasted.append(sum(spans))
    print(f"rank {rank}: forward and backward {compute / 1e3:6.1f} ms", end=", ")
    print(f"all-reduce {sum(spans) / 1e3:6.1f} ms")
more, less = "rank 1, which has more to do", "rank 0, which has less to do"
reveal("longer_all_reduce", more if lasted[1] > lasted[0] else less)

# %% [markdown] id="loop-5-why"
# An all-reduce ends on all ranks together. Who comes first waits inside it, so the long bar is on
# the rank that is *not* slow. Take the cause away: deal the same rows out evenly.

# %% id="loop-5-repaired"
for name, traces in (("uneven", uneven), ("even", traces_of_two_ranks("cpu", repaired=True))):
    for rank, events in enumerate(traces):
        spans = sum(e["dur"] for e in events if e["name"] == "gloo:all_reduce") / 1e3
        compute = sum(e["dur"] for e in events if e["name"] in ("forward", "backward")) / 1e3
        print(f"{name:7} rank {rank}: compute {compute:6.1f} ms, in all-reduce {spans:6.1f} ms")

# %% [markdown] id="loop-5-even"
# The rows are even now. If one rank still waits much, look at the other one's compute: another
# program may have had its core.

# %% [markdown] id="regime"
# ## Overhead, bandwidth or compute?
# An operator is late for one of three reasons. It has to be called (overhead), its bytes have to
# move (bandwidth), its arithmetic has to be done (compute). The decision needs three numbers of the
# machine, and two of the operator. First the machine, measured now.


# %% id="regime-machine"
def best_s(act, rounds=30):
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
    return min(times)


one, small, big = torch.ones(1, 1), torch.ones(32 * 2**10), torch.ones(16 * 2**20)
a, out = torch.randn(256, 256), torch.empty(256, 256)
with torch.no_grad():
    call_s = best_s(lambda: F.linear(one, one, one[0]), 2000)  # the same call, with nothing to do
cache_s = 2 * small.nbytes / best_s(small.neg_, 200)  # bytes per second, from the cache
memory_s = 2 * big.nbytes / best_s(big.neg_, 5)
flops_s = 2 * 256**3 / best_s(lambda: torch.mm(a, a, out=out), 500)
print(f"a call {call_s * 1e6:.1f} us, {flops_s / 1e9:.0f} GFLOP/s")
print(f"{memory_s / 1e9:.1f} GB/s from memory, {cache_s / 1e9:.1f} GB/s from the cache")

# %% [markdown] id="regime-ask"
# Now the head, for N rows. It computes 2 N D V FLOPs, reads its weight and its input,
# and writes its output. Which of the three is the limit at N = 1?

# %% id="regime-guess"
predict("limit_at_one_row", choices=["overhead", "bandwidth", "compute"])

# %% id="regime-run"
head = onelayer.head()
limits = {}
with torch.no_grad():
    for n in (1, 16, 256, 4096):
        x = torch.randn(n, 64)
        flops, nbytes = 2 * n * 64 * 600, 4 * (600 * 64 + 600 + n * 64 + n * 600)
        bytes_s = cache_s if nbytes < 2**20 else memory_s
        bound = {"overhead": call_s, "bandwidth": nbytes / bytes_s, "compute": flops / flops_s}
        limits[n] = max(bound, key=bound.get)
        took = best_s(lambda x=x: F.linear(x, head.weight, head.bias))
        parts = ", ".join(f"{name} {s * 1e6:8.1f}" for name, s in bound.items())
        print(f"N {n:5}: {parts}, measured {took * 1e6:8.1f} us -> {limits[n]}")
reveal("limit_at_one_row", limits[1])

# %% [markdown] id="regime-why"
# The largest of the three lower bounds is the limit, and what makes *that* smaller helps most:
# fewer calls against overhead, fewer bytes (fusion, smaller dtypes) against bandwidth, less
# arithmetic or faster units against compute. If the measured time is far above all three, the model
# misses something: look at the trace.

# %% [markdown] id="amdahl"
# ## Before you touch anything
# A region with a share p of a step cannot save more than p. If it becomes s times as fast, the step
# becomes `1 / (1 - p + p / s)` times as fast (Amdahl). The optimizer of our loop: what would it
# bring at most?

# %% id="amdahl-run"
again = profiled(train_step, steps=4)
spent = defaultdict(float)
for e in again:
    if e["cat"] == "user_annotation":
        spent["step" if e["name"].startswith("ProfilerStep#") else e["name"]] += e["dur"] / 4
share = spent["optimizer"] / spent["step"]
print({name: f"{us:,.0f} us" for name, us in spent.items() if "Optimizer" not in name})
twice, free = 1 / (1 - share / 2), 1 / (1 - share)
print(
    f"optimizer: {share:.0%} of a step. Twice as fast, it makes the step {twice:.2f} times as fast;"
)
print(f"if it took no time, {free:.2f} times")

# %% [markdown] id="amdahl-ask"
# That is a promise for one lane. In loop 1 the host waited, and the device worked meanwhile. If all
# waits vanish, is a step shorter by all of the time that was waited?

# %% id="amdahl-guess"
predict("saved_without_waits", choices=["all of the waiting", "less than the waiting"])


# %% id="amdahl-device"
def span_us(events):
    """From the beginning of the first step to the end of the last work of the device."""
    begin = min(e["ts"] for e in in_steps(events))
    ends = [e["ts"] + e["dur"] for e in events if e.get("cat") in ("kernel", "gpu_memcpy")]
    return max(ends) - begin


waited = sum(e["dur"] for e in waits(reads.before))
work = sum(e["dur"] for e in reads.before if e.get("cat") in ("kernel", "gpu_memcpy"))
print(f"two steps took {span_us(reads.before):,.0f} us, {waited:,.0f} of them waiting")
print(f"the device's work alone takes {work:,.0f} us, and stays")
left = span_us(reads.before) - waited
reveal("saved_without_waits", "all of the waiting" if left > work else "less than the waiting")

# %% [markdown] id="amdahl-why"
# While the host waits, the device is busy with what it waits for. That work remains, so the step
# cannot fall below it. What a repair brings is found by playing the trace again without the waits:
# you write that function in the lab.

# %% [markdown] id="what-you-can-now-say"
# ## What you can now say
# - A trace is a list of events on lanes. Bars nest, so durations add up only on one level of one
#   thread. `correlation` joins a call and its work; a region is found by time, not by thread.
# - A wait is a call of the runtime whose name ends in `Synchronize`, or a copy from pageable
#   memory; the Python bar around it names the function by the line where it begins.
# - Pageable copies stop the host, pinned and asynchronous ones do not. Small kernels cost a launch
#   each. A long collective may be a rank that waits for another one.
# - Overhead, bandwidth, compute: three lower bounds, and the largest is what to change.
# - Before a repair: how large is the share, and on which lane? After it: the same loss, and the
#   event that is gone.
#
# Now do it by hand: [Lab 09](../labs/09_profiling/09_profiling.ipynb).

# %% [markdown] id="sources"
# ## Where this is written in PyTorch
# - `profile`, `schedule`, `record_function`:
#   [`profiler.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/profiler/profiler.py),
#   [`autograd/profiler.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/autograd/profiler.py)
# - what is collected, and how the events of host and device meet:
#   [`collection.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/profiler/collection.cpp),
#   [`profiler_kineto.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/profiler_kineto.cpp)
# - calls into Python:
#   [`profiler_python.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/profiler_python.cpp)
# - what runs asynchronously, and what makes the host wait:
#   [CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html)
# - lists of tensors in one call:
#   [`_foreach_utils.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/utils/_foreach_utils.py)
# - gloo's all-reduce:
#   [`ProcessGroupGloo.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/ProcessGroupGloo.cpp)
# - which parts of a step to look at first:
#   [the profiler's recipe](https://docs.pytorch.org/tutorials/recipes/recipes/profiler_recipe.html)
#
# `seen.export_chrome_trace` also writes what Perfetto (ui.perfetto.dev) opens in a browser.
#
# Between torch 2.11 and 2.15 the events keep their names and fields. Torch 2.11 warns that events
# of another cycle are lost unless `acc_events` is set, which is why it is set here.
