# %% [markdown] id="title"
# # 08 Compile: what `torch.compile` made of your function
#
# "`torch.compile` made it 1.5x faster and I don't know why." One line, a pause of some seconds, and
# then the same numbers sooner. Or no sooner at all, and you do not know why either. After this
# chapter you can follow one function from its bytecode to the code that this machine runs, and say
# at each station what was read, what was decided, and what it saved.
#
# *Reading: about 50 minutes.*

# %% [markdown] id="try-first"
# ## Try it first
# The loss of this chapter is four operators, and each reads what the one before it wrote. Join
# them, one pair after the other, and see which bytes are no longer moved. (What that saves in time
# is another question, and this chapter measures it.)

# %% id="try-first-run" tags=["hide-input"]
import onelayer

onelayer.play_fusion(n=3584)

# %% id="instruments"
import time
from collections import Counter

import torch
import torch.nn.functional as F

from autograder import predict, reveal

torch.set_num_threads(1)  # times compare better, and the generated code is shorter
device = "cuda" if torch.cuda.is_available() else "cpu"
head = onelayer.head().to(device)  # nn.Linear(64, 600), trained
W, b = head.weight, head.bias  # (600, 64), (600,)
words = onelayer.grammar.encode("<en> she has eaten <es> ella ha comido")
x = onelayer.hidden("<en> she has eaten <es> ella ha").repeat(512, 1).to(device)  # (3584, 64)
target = torch.tensor(words[1:]).repeat(512).to(device)  # (3584,)

# %% [markdown] id="the-function"
# ## The function of this chapter
# The head's loss, with the logits kept between -30 and 30 on the way.


# %% id="the-function-run"
def head_loss(x, weight, bias, target):
    z = F.linear(x, weight, bias)
    z = z.clamp(-30, 30)
    return F.cross_entropy(z, target)


compiled = torch.compile(head_loss)
print("eager   ", head_loss(x, W, b, target).item())
result = compiled(x, W, b, target)
print("compiled", result.item())

# %% [markdown] id="faster"
# ## Is it faster?
# That call compiled the forward; the first round below compiles the backward. Both functions in
# turn, the median of fifteen rounds. It is a time on your machine as it is just now: run the cell
# again, or after a restart, and the two may stand otherwise.


# %% id="faster-run"
def step(loss_of):
    return [g.sum().item() for g in torch.autograd.grad(loss_of(x, W, b, target), (W, b))]


def in_turn(prepare):
    """Median ms and median page faults of a step, eager and compiled; prepare() before each."""
    seen = {"eager": [], "compiled": []}
    for _ in range(15):
        for name, loss_of in {"eager": head_loss, "compiled": compiled}.items():
            prepare()
            with onelayer.count_page_faults() as faults:
                began = time.perf_counter()
                step(loss_of)
                ms = (time.perf_counter() - began) * 1e3
            seen[name].append((ms, faults.count))
    return {
        name: [sorted(one)[7] for one in zip(*both, strict=True)] for name, both in seen.items()
    }


as_found = in_turn(lambda: None)
onelayer.show_bars({name: ms for name, (ms, _) in as_found.items()}, unit="ms")

# %% [markdown] id="less-of-what"
# ## Less of what?
# Both give the same numbers, up to rounding. What does the compiled function do less of? This
# chapter counts three things at the stations on the way, and answers near its end. Less of
# something is not yet the reason why a program is faster: for that you will take a cause away, and
# look whether the difference goes with it.

# %% id="less-of-what-guess"
predict("compiled_does_less", choices=["matrix products", "bytes moved", "exponentials"])

# %% [markdown] id="traffic"
# ## What eager asks of the memory
# Eager runs one operator after the other. Each reads its inputs and writes its result, even where
# the next one is the only reader. So count the bytes that each asks for. A tensor counts once for
# each operator that reads it; what a cache spares is not seen.

# %% id="traffic-run"
with onelayer.count_traffic() as eager:
    torch.autograd.grad(head_loss(x, W, b, target), (W, b))
print(eager)

# %% [markdown] id="story"
# ## One story, five stations
# Three programs work in turn. *Dynamo* reads bytecode and makes a graph. *AOTAutograd* adds the
# backward to it. *Inductor* writes code. `compile_story` compiles the function once more and writes
# down what passes: bytecode, the graph read out of it, the joint graph of forward and backward,
# what was kept between the two, and the files that were generated. We visit them one by one.

# %% id="story-run"
story = onelayer.compile_story(head_loss, x, W, b, target)
piece = story.pieces[0]
print(len(story.frames), "function read,", len(story.pieces), "graph,", len(story.guards), "guards")

# %% [markdown] id="bytecode"
# ## Station 1: bytecode
# CPython does not run your source, it runs bytecode. Dynamo steps in where CPython is about to run
# a frame, through the door that PEP 523 opened
# ([`eval_frame.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_dynamo/eval_frame.py)),
# and reads these instructions itself.

# %% id="bytecode-run"
lines = dict(story.lines)
for number in sorted({one.line for one in story.frames[0].before if one.line in lines}):
    names = [str(one) for one in story.frames[0].before if one.line == number]
    print(f"{lines[number].strip()}\n  {', '.join(names)}")

# %% [markdown] id="captured"
# ## Station 2: the graph that Dynamo reads out of it
# Dynamo steps through those instructions with stand-ins for your tensors, *fake tensors*: a shape,
# a dtype, and no data. Python things it carries out at once. What is done to a tensor it records as
# a node of an [FX graph](https://docs.pytorch.org/docs/stable/fx.html). How many calls does that
# graph hold?

# %% id="captured-guess"
predict("calls_captured", choices=[1, 3, 5, 35])

# %% id="captured-run"
print(piece.captured)
reveal("calls_captured", len(piece.captured.calls))

# %% [markdown] id="captured-why"
# As many as your source has: `F.linear` and `F.cross_entropy` are still whole. The loads, the
# stores and the search for `linear` in `F` have vanished: they were Python, and are done.

# %% [markdown] id="backend"
# ## A backend is a function
# Dynamo hands the graph to a
# [backend](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_custom_backends.html):
# any function that takes a graph module and example inputs and returns something to call. The
# default is `"inductor"`: AOTAutograd, then Inductor. `"aot_eager"` stops before code is generated.
# This one keeps what it is given and compiles nothing.

# %% id="backend-run"
received = []


def keep(module, inputs):
    received.append(module)
    return module.forward


kept = torch.compile(head_loss, backend=keep)
kept(x, W, b, target)
print(received[0].code.strip())

# %% [markdown] id="rewritten"
# ## The bytecode that runs instead
# Dynamo then writes new bytecode for `head_loss`. When it runs, does it still call `F.linear`?

# %% id="rewritten-guess"
predict("new_bytecode_calls_linear", choices=["yes", "no"])

# %% id="rewritten-run"
after, own = story.frames[0].after, head_loss.__code__.co_varnames
print(len(after), "instructions; those that name your arguments or something compiled:")
print(*(one for one in after if "__compiled_fn" in one.argument or one.argument in own), sep="\n")
reveal("new_bytecode_calls_linear", "yes" if any("linear" in str(i) for i in after) else "no")

# %% [markdown] id="rewritten-why"
# None of your three lines is left. The new code loads the arguments and calls one compiled
# function; the other instructions are bookkeeping, and return the result. A `print` between two of
# your lines would have no place here; hold that thought.

# %% [markdown] id="guards"
# ## When is the old answer still right?
# The new bytecode holds for what was seen: this dtype, these sizes, this `F.linear`. Dynamo notes
# each such fact as a *guard*, and a version runs only when all of its guards pass. Most guards here
# ask whether you marked a size, as dynamic or as static. A `TENSOR_MATCH` for each tensor holds its
# dtype, sizes and strides. `L` is the function's locals.

# %% id="guards-run"
print(Counter(guard.kind for guard in story.guards).most_common(4))
for guard in story.guards:
    if guard.kind == "TENSOR_MATCH" and "L['x']" in guard.check:
        print(guard.check)

# %% [markdown] id="guards-ask"
# ## Which call compiles again?
# Now a smaller function, `(x * 2).sum()`, compiled for `x`. Then four more calls: other values in
# `x`; an `x` that wants a gradient; an `x` with the same sizes and other strides; `x` in float64.
# How many of the four need a new version?

# %% id="guards-guess"
predict("calls_that_recompile", choices=[0, 1, 2, 3, 4])

# %% id="guards-count"
received.clear()
total = torch.compile(lambda x: (x * 2).sum(), backend=keep)
total(x)
calls = {
    "other values": x + 1,
    "wants a gradient": x.clone().requires_grad_(),
    "other strides": x.T.contiguous().T,
    "float64": x.double(),
}
again = 0
for name, other in calls.items():
    before = len(received)
    total(other)
    again += len(received) - before
    print(f"{name:17}", "compiled again" if len(received) > before else "guards passed")

# %% id="guards-reveal"
reveal("calls_that_recompile", again)

# %% [markdown] id="guards-why"
# The values in a tensor are data, and no guard looks at them. What Dynamo relied on is guarded:
# each tensor's dtype, sizes, strides and wish for a gradient, but also grad mode and the number of
# threads ([`guards.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_dynamo/guards.py)).
# Old versions stay, and a call tries their guards one after the other. After eight versions Dynamo
# gives up: it warns, and what fits none of them runs in eager
# ([`recompile_limit`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_dynamo/config.py)).

# %% [markdown] id="sizes"
# ## A new batch size
# Sizes are guarded too. We compile `(x * 2).sum()` afresh and call it with 2, 2, 3, 4 and 1 rows.
# How many versions are there in the end?

# %% id="sizes-guess"
predict("versions_after_five_sizes", choices=[1, 2, 3, 4])

# %% id="sizes-run"
received.clear()
rows = torch.compile(lambda x: (x * 2).sum(), backend=keep)
for n in (2, 2, 3, 4, 1):
    rows(x[:n])
    print(f"{n} rows: {len(received)} versions")

# %% id="sizes-reveal"
reveal("versions_after_five_sizes", len(received))

# %% [markdown] id="sizes-why"
# The first size is taken for a constant. When a second one comes, Dynamo stops believing in it and
# compiles once more with a symbol: *dynamic shapes*. 4 rows then pass. 1 does not: a size of 1 may
# broadcast, so a symbol stands for 2 or more, whether or not this function broadcasts ([dynamic
# shapes](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_dynamic_shapes.html)).

# %% id="sizes-symbol"
for version in received:
    values = [node.meta.get("example_value") for node in version.graph.nodes]
    print(next(tuple(v.shape) for v in values if isinstance(v, torch.Tensor)))

# %% [markdown] id="sizes-marked"
# ## Say it beforehand
# After `mark_dynamic(x, 0)` the first size is a symbol in the first version already, so the second
# size compiles nothing ([dynamic
# shapes](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_dynamic_shapes.html)).

# %% id="sizes-marked-run"
received.clear()
marked = torch.compile(lambda x: (x * 2).sum(), backend=keep)
for n in (2, 3, 4):
    given = x[:n].clone()
    torch._dynamo.mark_dynamic(given, 0)
    marked(given)
    print(f"{n} rows, marked: {len(received)} version")

# %% [markdown] id="numbers"
# ## And a Python number?
# A `float` argument is Python. At first its value goes into the graph as a constant, and a guard on
# it into the list.


# %% id="numbers-run"
def scaled(x, factor):
    return (x * factor).sum()


small = onelayer.compile_story(scaled, x[:8], 0.5, backend="aot_eager")
print(*(code.strip() for code in small.pieces[0].captured.code.splitlines() if "mul:" in code))
print(*(guard for guard in small.guards if "factor" in guard.check))

# %% [markdown] id="numbers-again"
# So does a schedule that changes the number at each step compile at each step? No: with the second
# value Dynamo does what it did for sizes, and makes it an input.

# %% id="numbers-again-run"
received.clear()
by_factor = torch.compile(scaled, backend=keep)
for factor in (0.5, 0.7, 0.9):
    by_factor(x[:8], factor)
    inputs = [node.name for node in received[-1].graph.nodes if node.op == "placeholder"]
    print(f"factor {factor}: {len(received)} versions, inputs of the newest", inputs)

# %% [markdown] id="break"
# ## What it cannot read
# An `if` on the *value* of a tensor: Dynamo's stand-ins have no values, so it cannot know which way
# the bytecode goes. We call this function once. How many graphs does Dynamo make?


# %% id="break-function"
def careful(x, weight):
    z = F.linear(x, weight)
    if z.max() > 30:
        z = z.clamp(max=30)
    return z.logsumexp(dim=1).mean()


# %% id="break-guess"
predict("graphs_around_an_if", choices=[0, 1, 2, 3])

# %% id="break-run"
broken = onelayer.compile_story(careful, x[:8], W.detach(), backend="aot_eager")
for number, part in enumerate(broken.pieces):
    print(f"graph {number}:", [node.target for node in part.captured.calls])

# %% id="break-reveal"
reveal("graphs_around_an_if", len(broken.pieces))

# %% [markdown] id="break-why"
# A [graph
# break](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.graph_breaks_index.html):
# Dynamo closes the graph before the `if`, lets Python take the branch, and begins a new graph
# behind it, in a function of its own. It made one for the branch that was taken; the other gets its
# own when a call takes it. No later station sees across a break, and what passes from one graph to
# the next has to exist in memory. `generic_jump` is Dynamo's word for an `if` on a tensor. A
# `print` between two lines breaks the graph the same way:


# %% id="break-where"
def speaks(x):
    y = x * 2
    print("said by Python")
    return y + 1


print(*broken.breaks, *broken.frames, sep="\n")
received.clear()
torch.compile(speaks, backend=keep)(x[:8])
print(len(received), "graphs around a print")

# %% [markdown] id="fullgraph"
# ## Refuse to break
# `fullgraph=True` makes the break an error that names the line. The repair is to say it with
# tensors: `torch.where`, or here a `clamp` that changes nothing when nothing is too large.


# %% id="fullgraph-run"
def repaired(x, weight):
    z = F.linear(x, weight).clamp(max=30)
    return z.logsumexp(dim=1).mean()


try:
    torch.compile(careful, fullgraph=True, backend=keep)(x[:8], W.detach())
except torch._dynamo.exc.Unsupported as error:
    told = str(error)
    print(told.splitlines()[0])
    print(told.partition("from user code:")[2].partition("\n\n")[0].strip("\n"))
whole = onelayer.compile_story(repaired, x[:8], W.detach(), backend="aot_eager")
print(len(whole.pieces), "graph,", len(whole.breaks), "breaks")

# %% [markdown] id="logs"
# ## Ask it while it works
# In your own program you have no `compile_story`. There you set
# [`TORCH_LOGS`](https://docs.pytorch.org/docs/stable/logging.html) before you start it:
# `TORCH_LOGS="recompiles,graph_breaks" python train.py`. In a notebook `set_logs` does the same. It
# writes to standard error; here we catch that, and show the lines that carry the point.

# %% id="logs-run"
import contextlib
import io
import re

with contextlib.redirect_stderr(io.StringIO()) as written:
    torch._logging.set_logs(recompiles=True, graph_breaks=True)
    watched = torch.compile(careful, backend=keep)
    watched(x[:8], W.detach())
    watched(x[:5], W.detach())  # another size
torch._logging.set_logs()
for line in written.getvalue().splitlines():
    told = line.partition("] [__")[2].partition("] ")[2]
    if told.startswith(("Recompiling", "    - ", "Graph Break Reason")):
        print(re.sub(r" in /.*/\S*", "", told))

# %% [markdown] id="logs-why"
# Each recompilation names the guard that failed, and each break its reason. Two functions were
# compiled again: the part before the break and the part behind it. For a large program set
# `TORCH_TRACE=FOLDER` instead, and read the folder with
# [`tlparse`](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_troubleshooting.html):
# it makes a page for each compilation, with the stations of this chapter.

# %% [markdown] id="joint"
# ## Station 3: forward and backward in one graph
# Next comes AOTAutograd. It runs the captured graph through autograd *and* the dispatcher, with
# fake tensors again, and records every operator that arrives below autograd, of forward and
# backward. Three calls go in. The table of eager's traffic above ended with the number of eager's
# operators, forward and backward; here the large ones among them are taken apart as well. How many
# come out?

# %% id="joint-guess"
predict("operators_in_the_joint_graph", choices=["3", "4 to 12", "13 to 30", "more than 30"])

# %% id="joint-run"
count = len(piece.joint.calls)
sides = Counter(node.side for node in piece.joint.calls)
print(dict(sides), "| inputs:", [node.name for node in piece.joint.inputs])
sizes = {3: "3", 12: "4 to 12", 30: "13 to 30"}
reveal(
    "operators_in_the_joint_graph",
    next((name for most, name in sizes.items() if count <= most), "more than 30"),
)

# %% [markdown] id="joint-why"
# `primals` are your arguments. The gradient that will arrive is an input like any other,
# `tangents_1`. Backward is operators in a graph, made before the first step runs. Autograd keeps
# its tape and its engine, but the whole function is one node to them
# ([`aot_autograd.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_functorch/aot_autograd.py)).

# %% id="joint-one-node"
print(result.grad_fn.name())

# %% [markdown] id="decomposed"
# ## Where did the operators come from?
# Inductor will join neighbouring operators into one loop: *fusion*. For that it asks for small
# ones.
# [Decompositions](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/decomposition.py)
# take the large ones apart. Each node remembers which of your calls it was made for:

# %% id="decomposed-run"
for call in piece.captured.calls:
    mine = [n for n in piece.joint.calls if call.name in n.origins]
    for side in ("forward", "backward"):
        names = [n.target.split(".")[1] for n in mine if n.side == side]
        print(f"{call.target:14} {side:9}", *names)

# %% [markdown] id="kept"
# ## Station 4: what survives the forward
# Backward needs some of what the forward computed. Eager decides node by node, and each node keeps
# what its own formula asks for: the clamp keeps its input, the loss the logarithms of its
# probabilities, and each is a table as large as the logits. AOTAutograd's *partitioner* cuts the
# joint graph into a forward and a backward, and sees both at once: it may keep one table and
# compute the other from it again. Arguments live on anyway and do not count. What share of eager's
# bytes does it keep?

# %% id="kept-guess"
predict("share_that_is_kept", choices=["all of it", "about a half", "about a third", "nothing"])

# %% id="kept-run"
with onelayer.count_saved(ignore=[x, W, b, target]) as by_eager:
    loss = head_loss(x, W, b, target)
print(by_eager)
print("\nkept by the compiled forward")
print(*piece.saved, sep="\n")

# %% id="kept-reveal"
share = piece.saved_bytes / by_eager.bytes
near = {1: "all of it", 1 / 2: "about a half", 1 / 3: "about a third", 0: "nothing"}
onelayer.show_bars({"eager": by_eager.bytes, "compiled": piece.saved_bytes}, unit="bytes kept")
reveal("share_that_is_kept", near[min(near, key=lambda fraction: abs(fraction - share))])

# %% [markdown] id="min-cut"
# ## A cut through the graph
# The logits are kept once, two numbers per row, and one number for all. What else backward needs of
# the forward it computes a second time: that is cheap, and a kept tensor has to be written and
# read. Matrix products and other expensive operators are not run twice; for the rest, a minimum cut
# through the graph chooses what to keep
# ([`partitioners.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_functorch/partitioners.py)).
# In the picture arrows cross the cut, and what backward does a second time has a colour of its own.

# %% id="min-cut-run"
repeated = [node for node in piece.backward.calls if node.side == "forward" and node.inputs]
print("computed a second time:", *(node.target.split(".")[1] for node in repeated))
onelayer.show_cut(story)

# %% [markdown] id="generated"
# ## Station 5: what Inductor wrote
# Inductor turns both graphs into loops, joins loops that fit together, and writes a file for each
# graph. A *kernel* is what the file calls to compute something: a generated function or a
# library's. The matrix products, one in each graph, stay with a library; of the rest, what walks
# along the same rows can be joined. How many kernels will forward and backward call, together?

# %% id="generated-guess"
predict("kernels_in_both_files", choices=["1", "2 to 9", "10 to 30", "more than 30"])

# %% id="generated-run"
files = [piece.forward_file, piece.backward_file]
for file in files:
    print(file)
count = sum(len(file.kernels) for file in files)
sizes = {1: "1", 9: "2 to 9", 30: "10 to 30"}
reveal(
    "kernels_in_both_files",
    next((name for most, name in sizes.items() if count <= most), "more than 30"),
)

# %% [markdown] id="call"
# ## Read the file
# The matrix products stay with a library: `extern_kernels` are ATen's. All the rest became
# generated loops. This is `call` of the forward's file, as it lies on your disk: it allocates
# buffers, calls kernels, and takes old buffers for new names.

# %% id="call-run"
source = piece.forward_file.source
body = source[source.index("def call") : source.index("return (")]
print("\n".join(line for line in body.splitlines() if "#" not in line or "reuse" in line))

# %% [markdown] id="fused"
# ## Inside the fused kernel
# One function, a few loop nests; here is the beginning of the first. It walks along a row of
# logits, and looks for the largest. The clamp has become a `maximum` and a `minimum` on the way.
# Look for what is *not* stored: the clamped logits are local variables, and no tensor ever holds
# them. The next loop, which sums the exponentials, clamps the same row again.

# %% id="fused-run"
fused = next(kernel for kernel in piece.forward_file.kernels if kernel.language != "library")
print("joined:", *(node for node in fused.nodes), end="\n\n")
code = fused.source.splitlines()
start = next(k for k, line in enumerate(code) if "for(" in line or "tl.load" in line)
print("\n".join(line.removeprefix("        ") for line in code[start : start + 18]))

# %% [markdown] id="loops"
# ## What each loop nest moves
# The file says which buffers a nest touches, and their sizes. So what it asks for can be read off,
# without a profiler. The rule is the one that we used for eager: a buffer counts once for each
# nest. The first nest walks along each row twice, and counts it once: what a cache spares is not
# seen here either.

# %% id="loops-run"
for file in files:
    for kernel in file.kernels:
        print(kernel.name[:60])
        for loop in kernel.loops:
            print(f"  reads {loop.bytes_read:>11,} writes {loop.bytes_written:>11,}", loop.reads)

# %% [markdown] id="bytes"
# ## Less of what: the answer
# Count all three on both sides. Eager's `_log_softmax` and its backward each take one exponential
# for each logit; in the compiled graphs `exp` is a node of its own.

# %% id="bytes-run"
moved = sum(file.bytes_read + file.bytes_written for file in files)
library = [kernel.name for file in files for kernel in file.kernels]
nodes = [node.target for graph in (piece.forward, piece.backward) for node in graph.calls]
names = [op.name for op in eager.ops]
logits = len(x) * len(W)
counts = {
    "matrix products": (
        sum(name in {"aten::addmm", "aten::mm"} for name in names),
        sum(name.endswith(("addmm", "mm")) for name in library),
    ),
    "exponentials": (
        logits * sum(name.startswith("aten::_log_softmax") for name in names),
        logits * nodes.count("aten.exp.default"),
    ),
    "bytes moved": (eager.bytes, moved),
}
for name, (was, now) in counts.items():
    print(f"{name:15} {was:>12,} eager {now:>12,} compiled")
onelayer.show_bars({"eager": eager.bytes, "compiled": moved}, unit="bytes")

# %% id="bytes-reveal"
reveal("compiled_does_less", ", ".join(name for name, (was, now) in counts.items() if now < was))

# %% [markdown] id="bytes-why"
# Fusion is not about less arithmetic, but about results that never become tensors. Gone are eager's
# `clamp`, `ge`, `le` and `where` as operators, each of which read and wrote whole tensors. The
# matrix products and the exponentials are as many as before.

# %% [markdown] id="cause"
# ## Is that why it is faster?
# A result that never becomes a tensor saves something else too: memory. Linux hands memory out in
# pages of 4 KiB, when they are touched for the first time. Each such *page fault* takes time. On a
# CPU, torch's memory comes [from
# `malloc`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/impl/alloc_cpu.h), which may
# keep what was freed or give it back to Linux. After that, the next result faults again.

# %% [markdown] id="cause-ask"
# So there are two candidates: the bytes, and the new pages. Take one away. First everything that is
# free goes back before each step. Then `malloc` is told to keep it: no new pages, and every
# operator moves the bytes that it moved before. How much of eager's extra time is left?

# %% id="cause-guess"
predict("left_without_page_faults", choices=["all of it", "about a half", "hardly any"])

# %% id="cause-run"
from onelayer.memory.page_faults import give_back_freed_memory, keep_freed_memory

states = {"given back": in_turn(give_back_freed_memory)}
if not keep_freed_memory():
    print("this C library cannot be told to keep memory: all rows below are the same case")
in_turn(lambda: None)  # until the heap is as large as a step needs
states["kept"] = in_turn(lambda: None)
for state, found in states.items():
    for name, (ms, faults) in found.items():
        print(f"memory {state:10} {name:8} {ms:6.1f} ms {faults:>7,} page faults")

# %% id="cause-reveal"
bars = {f"{s}, {name}": ms for s, found in states.items() for name, (ms, _) in found.items()}
onelayer.show_bars(bars, unit="ms")
extra = {s: found["eager"][0] - found["compiled"][0] for s, found in states.items()}
left = extra["kept"] / extra["given back"]
near = {1: "all of it", 1 / 2: "about a half", 0: "hardly any"}
reveal("left_without_page_faults", near[min(near, key=lambda share: abs(share - left))])

# %% [markdown] id="cause-why"
# What went away with the faults was theirs. Only what is left can be the bytes', or the generated
# code's, which may also be slower than eager's. Count how long the bytes would take if an operator
# moved them as fast as a copy does: copy a table of logits, read off the bytes per second, and
# divide the bytes that fusion saved.

# %% id="cause-bytes"
table = torch.randn(len(x), len(W), device=device)
other = torch.empty_like(table)


def copied_ms():
    began = time.perf_counter()
    other.copy_(table)[0, 0].item()
    return (time.perf_counter() - began) * 1e3


bytes_per_ms = 2 * table.nbytes / min(copied_ms() for _ in range(20))
print(f"the bytes that fusion saved, as a copy: {(eager.bytes - moved) / bytes_per_ms:.1f} ms")
print(*(f"eager's extra time, memory {s}: {ms:.1f} ms" for s, ms in extra.items()), sep="\n")

# %% [markdown] id="cause-malloc"
# In which of the two states a program runs, nobody chose: `malloc` [moves its own
# thresholds](https://man7.org/linux/man-pages/man3/mallopt.3.html) by the blocks that it sees
# freed. On a GPU torch keeps freed memory itself
# ([CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html)),
# so this candidate falls away. Before you say why something is faster, take the cause away and
# measure again.

# %% [markdown] id="side-by-side"
# ## All stations side by side
# Step through the calls, or click any entry: what belongs to the same call lights up at every
# station. Click a kernel to read its source.

# %% id="side-by-side-run"
onelayer.show_compile(story)

# %% [markdown] id="gpu"
# ## The same on a GPU
# There Inductor writes Triton in place of C++, and the matrix products again go to a library
# ([`triton.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/codegen/triton.py)).
# Run this page where there is a GPU, and every station above shows what was generated for it. For
# readers without one, here is a recording from an H100.

# %% id="gpu-run"
onelayer.show_recording("head_loss")

# %% [markdown] id="cuda-graph"
# ## Many launches in one
# The compiled code still launches each of its kernels from the host. A *CUDA graph* is recorded
# once, with all arguments, and then started as a whole. Ten small products below, launched one by
# one, then replayed. How many calls does the host make for the ten of a replay? (On the mocked
# device, whose numbers the CPU computes.)

# %% id="cuda-graph-guess"
predict("host_calls_of_a_replay", choices=[1, 2, 10])


# %% id="cuda-graph-run"
def launched_and_replayed():
    import torch

    x = torch.ones(600, device="cuda")

    def ten_products():
        y = x
        for _ in range(10):
            y = y * 2
        return y

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        ten_products()  # what a first call makes must not be captured
    torch.cuda.current_stream().wait_stream(side)
    graph, seen = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        y = ten_products()
    z = ten_products()
    graph.replay()
    seen.append(y[0].item())
    x.fill_(3)  # the same memory, other numbers
    graph.replay()
    seen.append(y[0].item())
    x = torch.full((600,), 5.0, device="cuda")  # other memory
    graph.replay()
    return [*seen, y[0].item(), z[0].item()]


# %% id="cuda-graph-show"
replayed = onelayer.mocked("08_graph", launched_and_replayed, values=True)
one, three, five, alone = replayed.result
print(f"launched {alone:,.0f}, replayed {one:,.0f}; x filled with 3: {three:,.0f}", end="; ")
print(f"x made anew with 5: {five:,.0f}")
starts = {call.start_us for call in replayed.calls if call.api == "cudaGraphLaunch"}
reveal("host_calls_of_a_replay", len(starts) // 3)

# %% [markdown] id="cuda-graph-why"
# The host makes one call for ten kernels. The price stands in the numbers: a graph holds
# *addresses*. New numbers in the same memory are seen; a new `x` is not. `mode="reduce-overhead"`
# lets Inductor record such graphs, and it [copies your inputs, except for the
# parameters](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/cudagraph_trees.py),
# to the addresses that it recorded. What each mode sets:

# %% id="cuda-graph-modes"
for mode in ("default", "reduce-overhead", "max-autotune"):
    print(f"{mode:16}", torch._inductor.list_mode_options()[mode])

# %% [markdown] id="custom-op"
# ## Your own operator inside
# A `custom_op` is a box that Dynamo does not look into. All it needs is what comes out: shape,
# strides, dtype and device. Without that, what happens under `fullgraph=True`?

# %% id="custom-op-guess"
predict("operator_without_fake", choices=["an error", "a graph break", "it runs"])


# %% id="custom-op-run"
@torch.library.custom_op("chapter08::cap", mutates_args=())
def cap(z: torch.Tensor, limit: float) -> torch.Tensor:
    return z.clamp(-limit, limit)


def capped(x):
    return (cap(x * 2, 30.0) + 1).relu()


try:
    torch.compile(capped, fullgraph=True, backend=keep)(x)
    outcome = "it runs"
except Exception as error:
    outcome = "an error"
    print(type(error).__name__)

# %% id="custom-op-reveal"
reveal("operator_without_fake", outcome)

# %% [markdown] id="fake"
# ## Say what comes out
# A *fake* kernel is what the operator does to fake tensors: it returns an empty one of the right
# kind ([`register_fake`](https://docs.pytorch.org/docs/stable/library.html)). With it there is one
# graph, and the operator is one node in it.


# %% id="fake-run"
@cap.register_fake
def _(z, limit):
    return torch.empty_like(z)


with torch.no_grad():
    boxed = onelayer.compile_story(capped, x, fullgraph=True)
print([node.target for node in boxed.pieces[0].forward.calls])

# %% [markdown] id="opaque"
# ## Around the box
# `x * 2` in front of it, `+ 1` and `relu` behind it, all elementwise. Into how many generated
# kernels do they go?

# %% id="opaque-guess"
predict("kernels_around_a_box", choices=[1, 2, 3, 4])

# %% id="opaque-run"
print(boxed.pieces[0].forward_file)
own = [k for k in boxed.pieces[0].forward_file.kernels if k.language != "library"]
reveal("kernels_around_a_box", len(own))

# %% [markdown] id="opaque-cause"
# ## Without the box, and what compiling costs
# Was it the box? Write its `clamp` in its place, and compile that. And while we are at it: how long
# does compiling take, and how long after Dynamo has forgotten all that it made?

# %% id="opaque-cause-run"
from torch._dynamo.utils import counters
from torch._inductor import metrics
from torch._inductor.utils import fresh_cache


def unboxed(x):
    return ((x * 2).clamp(-30.0, 30.0) + 1).relu()


with fresh_cache(), torch.no_grad():
    for attempt in ("first", "after a reset"):
        torch._dynamo.reset()  # Dynamo's versions are gone; what lies on disk stays
        counters.clear()
        metrics.reset()
        began = time.perf_counter()
        torch.compile(unboxed)(x)
        seconds = time.perf_counter() - began
        hits = counters["inductor"]["fxgraph_cache_hit"]
        print(
            f"{attempt:14} {seconds:6.2f} s, {metrics.generated_kernel_count} kernel, {hits} found"
        )

# %% [markdown] id="opaque-why"
# One kernel without the box, two with it: nothing is fused through it. Its input is written for it,
# and its output read back. An operator of yours has to be worth that: chapter 06 builds one. And
# the seconds: Inductor keeps what it made on disk, by a hash of the graph
# ([compile-time caching](https://docs.pytorch.org/tutorials/recipes/torch_compile_caching_tutorial.html)).
# What the reset threw away, and what a new process does not have either, are Dynamo's versions.

# %% [markdown] id="what-you-can-now-say"
# ## What you can now say
# - Dynamo reads bytecode with stand-ins for tensors. Calls on tensors become a graph, Python is
#   carried out, and what was assumed becomes guards. When no version's guards pass, a new one is
#   compiled, up to a limit; a second size, or a second float, makes it a dynamic one.
# - What needs a value ends the graph. `fullgraph=True` makes that an error, and `TORCH_LOGS` names
#   each break and each guard that failed.
# - AOTAutograd records forward and backward as one graph of small operators; the partitioner cuts
#   it, and decides what is kept and what is computed twice. Autograd sees one node.
# - Inductor joins loops. What is fused away never becomes a tensor, and is neither written nor
#   read. Matrix products, unless you ask for more, and custom operators stay whole.
# - Fewer bytes are counted, a cause is tested: on a CPU new pages of memory can be the larger part
#   of what compiling saves.
#
# Now do it by hand: [Lab 08](../labs/08_compile/08_compile.ipynb).

# %% [markdown] id="sources"
# ## Where this is written in PyTorch
# - reading bytecode:
#   [`symbolic_convert.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_dynamo/symbolic_convert.py);
#   guards: [`guards.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_dynamo/guards.py)
# - the joint graph and its cut:
#   [`aot_autograd.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_functorch/aot_autograd.py),
#   [`partitioners.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_functorch/partitioners.py)
# - from operators to loops:
#   [`lowering.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/lowering.py);
#   which loops are joined:
#   [`scheduler.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/scheduler.py);
#   C++: [`cpp.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/codegen/cpp.py),
#   Triton:
#   [`triton.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/codegen/triton.py)
# - where the CPU's memory comes from:
#   [`alloc_cpu.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/impl/alloc_cpu.h)
# - to use it day by day:
#   [`torch.compiler`](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler.html)
#
# Between torch 2.11 and 2.15 the stations stay the same, and their prints move. The list of guards
# is longer from 2.13 on, where each tensor is also checked for marks of dynamic sizes; the new
# bytecode grows in 2.15; and the generated files of 2.15 check several inputs with one
# `assert_size_stride_grouped`.
