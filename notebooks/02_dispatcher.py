# %% [markdown] id="title"
# # 02 The dispatcher: one name, many kernels
#
# You write `F.linear(x, w, b)`. On a GPU another function runs than on a CPU, under autocast it
# computes in another dtype, with gradients it records a node, and no `if` in your program says so.
# After this chapter you can say which kernels a call runs, in which order, and put your own in.
#
# *Reading: about 40 minutes.*

# %% [markdown] id="try-first"
# ## Try it first
# A call asks the kernels below from top to bottom. Choose what the tensor is and what the thread is
# doing: who runs, who is skipped, who is not even reached? Try a sparse tensor, and
# `inference_mode`.

# %% id="try-first-run" tags=["hide-input"]
import onelayer

onelayer.play_dispatch("aten::addmm")

# %% id="instruments"
import torch
import torch.nn.functional as F

from autograder import predict, reveal

head = onelayer.head()  # nn.Linear(64, 600), trained: 64 features in, 600 words out
W, bias = head.weight, head.bias  # (600, 64), (600,), both require a gradient
x = onelayer.hidden("<en> she has eaten <es> ella")  # (6, 64): what enters the head

# %% [markdown] id="keys"
# ## A tensor carries more than its floats
# Every tensor carries a set of *dispatch keys*
# ([one 64-bit integer](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/DispatchKeySet.h)):
# who may want to take part when an operator gets this tensor. `x` is an ordinary float tensor on
# the CPU, it requires no gradient, and autocast is off. Whom does its set name?

# %% id="keys-guess"
predict(
    "keys_of_an_ordinary_tensor",
    choices=["the CPU alone", "the CPU and autograd", "the CPU, autograd and autocast"],
)

# %% id="keys-run"
keys = onelayer.key_set(x)
print(keys, "highest priority first")
everybody = "the CPU, autograd and autocast"
named = {"AutogradCPU": "the CPU and autograd", "AutocastCPU": everybody}
told = [said for key, said in named.items() if key in keys]
reveal("keys_of_an_ordinary_tensor", told[-1] if told else "the CPU alone")

# %% [markdown] id="keys-why"
# The set says who *may* take part; whether they do is decided at the call. One key names the
# backend, where the floats are. The others are layers above it: autocast may cast first, autograd
# may record, `ADInplaceOrView` keeps views and version counters (a tensor's number of edits in
# place) in order. `key_set` reads `torch._C._dispatch_keys`, a private name: good for looking, not
# for your library.

# %% [markdown] id="requires-grad"
# ## `W` against `x`
# `W` requires a gradient, `x` does not. What does the key set of `W` have that `x` lacks?

# %% id="requires-grad-guess"
predict("extra_keys_of_a_parameter", choices=["AutogradCPU", "ADInplaceOrView", "both", "nothing"])

# %% id="requires-grad-run"
extra = set(onelayer.key_set(W)) - set(onelayer.key_set(x))
reveal("extra_keys_of_a_parameter", " and ".join(extra) or "nothing")

# %% [markdown] id="requires-grad-why"
# The two sets are equal. Autograd's kernel runs for `x` too, looks, finds that no gradient is
# needed and calls on (these kernels are [written by a
# script](https://github.com/pytorch/pytorch/blob/v2.13.0/tools/autograd/gen_variable_type.py)). A
# tensor that is *made* in [inference
# mode](https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.inference_mode.html)
# has no version counter, no node may save it, and it lacks both keys:

# %% id="requires-grad-inference"
with torch.inference_mode():
    print("made in inference mode:", onelayer.key_set(torch.ones(2)))
with torch.no_grad():
    print("made under no_grad:    ", onelayer.key_set(torch.ones(2)))

# %% [markdown] id="thread"
# ## The thread has a say
# Modes are not stored in tensors. Each thread holds two more sets: keys *included* in every call,
# and keys *excluded* from it. The set of a call is the union of its tensors' keys and the included
# ones, minus the excluded ones.

# %% id="thread-run"
for name, mode in {
    "ordinary": torch.enable_grad(),
    "autocast": torch.autocast("cpu", torch.bfloat16),
    "inference": torch.inference_mode(),
}.items():
    with mode:
        stops = onelayer.show_dispatch("aten::addmm", bias, x, W).stops
        print(name, "excludes", [s.entry.key for s in stops if s.fate == "excluded"])
        print("   includes", torch._C._dispatch_tls_local_include_set())  # private

# %% [markdown] id="thread-why"
# `autocast` does not switch anything on: it takes its key out of the excluded set. Inference mode
# puts autograd's key into the excluded set, and takes `ADInplaceOrView` out of the included one.
# [`BackendSelect`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/core/BackendSelectFallbackKernel.cpp)
# is included in every call; it has work where an argument names the device, as in `torch.empty(3,
# device="meta")`.

# %% [markdown] id="no-grad"
# ## And `no_grad`?
# Inference mode excludes autograd's key. A tensor made under `no_grad` has all of its keys, as you
# saw above. Which kernels does `addmm` run on the parameters inside `torch.no_grad()`?

# %% id="no-grad-guess"
predict("kernels_under_no_grad", choices=["CPU", "AutogradCPU, CPU", "ADInplaceOrView, CPU"])

# %% id="no-grad-run"
with torch.no_grad():
    way = onelayer.show_dispatch("aten::addmm", bias, x, W)

# %% id="no-grad-reveal"
reveal("kernels_under_no_grad", ", ".join(way.ran))

# %% [markdown] id="no-grad-why"
# Autograd's kernel still runs; `no_grad` is a flag that it reads. `inference_mode` excludes the
# kernel itself. Does that cost anything? On the smallest of additions a call is all that costs. The
# third row excludes autograd's keys by hand and leaves everything else of `no_grad` as it is:

# %% id="no-grad-cost"
import contextlib

from torch.utils.benchmark import Timer

tiny = torch.ones(2, requires_grad=True)


def call_ns(line, *modes, **names):
    """Nanoseconds for the line, the least of ten rounds, while the modes are on."""
    with contextlib.ExitStack() as on:
        for mode in modes:
            on.enter_context(mode)
        timer = Timer(line, globals={"torch": torch, "tiny": tiny, **names})
        return min(timer.timeit(1000).mean * 1e9 for _ in range(10))


below = torch._C._AutoDispatchBelowAutograd  # private
for name, modes in {
    "enable_grad": [],
    "no_grad": [torch.no_grad()],
    "no_grad, keys excluded": [torch.no_grad(), below()],
    "inference_mode": [torch.inference_mode()],
}.items():
    print(f"{name:23} {call_ns('tiny + tiny', *modes):6,.0f} ns for a call")

# %% [markdown] id="no-grad-cost-why"
# Compare the rows: what `inference_mode` leaves out is small beside the rest of a call. Choose it
# for what it forbids (chapter 03), not for these nanoseconds.

# %% [markdown] id="table"
# ## The table of an operator
# Each operator has a row of cells, one per key, each with a kernel or none: the dispatcher takes
# the highest key of the call and jumps. There are over a hundred keys: most kinds of device have
# some for their layouts, one for quantized tensors and one for its autograd. A registration names
# one key, or an *alias*, which stands for many. For `F.linear`, PyTorch registered a kernel that
# computes it out of other operators, whatever backend these have. How many cells does that one
# registration fill?

# %% id="table-guess"
predict("cells_of_one_registration", choices=["one", "about ten", "about a hundred"])

# %% id="table-run"
from onelayer.dispatcher.dispatch import (
    dispatch_table,  # reads torch._C._dispatch_dump_table, private
)

table = dispatch_table("aten::linear")
cells = sum(entry.composite for entry in table.values())
print(f"{cells} of {len(table)} filled cells;", table["AutogradCPU"].where)
reveal(
    "cells_of_one_registration",
    "one" if cells < 4 else "about ten" if cells < 40 else "about a hundred",
)

# %% [markdown] id="table-why"
# Its kernel was registered for the alias `CompositeImplicitAutograd`, which stands for all backends
# and their autograd keys. Question 2.3 of the lab is the rule that fills the cells from such
# registrations
# ([`OperatorEntry.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/core/dispatch/OperatorEntry.cpp)).

# %% [markdown] id="kinds"
# ## Four kinds of operators
# What stands in the cells of `AutogradCPU` and `CPU` says what kind an operator is.

# %% id="kinds-run"
for op in ("linear", "t", "addmm", "relu"):
    row = dispatch_table(f"aten::{op}")
    print(f"{op:7} AutogradCPU: {row['AutogradCPU'].kind:16} CPU: {row['CPU'].kind}")

# %% [markdown] id="kinds-why"
# - *implicit composite* (`linear`, "math kernel"): calls other operators; its gradient is theirs.
# - *explicit composite* (`t`, "default backend kernel"): one kernel for all backends, and a
#   derivative formula of its own.
# - *per backend* (`addmm`, `relu`): a kernel for each, and a formula.
# - Some of these are *structured*, and the two cells do not show which. For these two operators a
#   third registration shows it, at a key that torch fills when it generates the code of a
#   structured operator (other operators have it for other reasons):

# %% id="structured-run"
alias = "CompositeExplicitAutogradNonFunctional"
for op in ("addmm", "relu"):
    print(op, torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{op}", alias))
print(torch.ops.aten.addmm.default._schema)
print(torch.ops.aten.addmm.out._schema)

# %% [markdown] id="structured-why"
# `addmm` is structured: one function checks shapes, one writes into a given output, and the
# functional, in-place and `out=` operators are generated around them
# ([`native_functions.yaml`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/native_functions.yaml),
# `structured_delegate: addmm.out`). Of `relu`, the functional and the in-place operator are each
# written by hand.

# %% [markdown] id="who-calls"
# ## Who calls the next kernel?
# The dispatcher jumps once. From then on each kernel decides. It may *redispatch*: call the
# operator again with its own key excluded, so that the next kernel below is called. Here is an
# operator of our own with a kernel at two keys.

# %% id="who-calls-define"
ours = torch.library.Library("onelayer_ch02", "DEF")
ours.define("head(Tensor x, Tensor w) -> Tensor")
log = []


def at_cpu(x, w):
    log.append("CPU begins")
    y = x @ w.T
    log.append("CPU returns")
    return y


ours.impl("head", at_cpu, "CPU")


# %% id="who-calls-autograd"
def at_autograd(x, w):
    log.append("AutogradCPU begins")
    with torch._C._AutoDispatchBelowAutograd():  # private: excludes autograd's keys
        y = torch.ops.onelayer_ch02.head(x, w)  # so this call jumps to the next one
    log.append("AutogradCPU returns")
    return y


ours.impl("head", at_autograd, "AutogradCPU")

# %% [markdown] id="who-calls-ask"
# `W` requires a gradient, and our kernel at `AutogradCPU` redispatches. What is the result's
# `grad_fn`?

# %% id="who-calls-guess"
predict("grad_fn_of_our_operator", choices=["MmBackward0", "HeadBackward0", "None"])

# %% id="who-calls-run"
y = torch.ops.onelayer_ch02.head(x, W)  # (6, 600)
onelayer.show_stack("torch.ops.onelayer_ch02.head(x, W)", log)
reveal("grad_fn_of_our_operator", y.grad_fn.name() if y.grad_fn else "None")

# %% [markdown] id="who-calls-why"
# The result has no `grad_fn`: there is no magic in the key. A node exists because a kernel at this
# key makes one, and ours makes none. Then our kernel excluded autograd for everything below, so `@`
# recorded nothing either. The kernels stand in each other like calls on a stack: the dispatcher
# called one, and that one called the dispatcher. PyTorch's own autograd kernels do both: make a
# node, then exclude autograd and call on. A kernel at the same key that excludes nothing leaves the
# recording to `@`:

# %% id="who-calls-unshielded"
ours.define("unshielded(Tensor x, Tensor w) -> Tensor")
ours.impl("unshielded", lambda x, w: x @ w.T, "AutogradCPU")
print(torch.ops.onelayer_ch02.unshielded(x, W).grad_fn.name())

# %% [markdown] id="missing"
# ## A key without a kernel
# Our operator knows `CPU` and `AutogradCPU`. What happens with a sparse tensor?

# %% id="missing-guess"
predict(
    "a_sparse_tensor_without_a_kernel",
    choices=["it runs the CPU kernel", "it becomes dense first", "an error"],
)

# %% id="missing-run"
log.clear()
try:
    torch.ops.onelayer_ch02.head(x.to_sparse(), W)
    outcome = "it runs the CPU kernel" if "CPU begins" in log else "it becomes dense first"
except NotImplementedError as error:
    outcome = "an error"
    print(str(error).partition(". ")[0])
reveal("a_sparse_tensor_without_a_kernel", outcome)

# %% [markdown] id="missing-why"
# The dispatcher never looks further down for somebody who might do. The highest key decides, and a
# hole is an error. Passing over must be asked for: by a *fallthrough*, registered for one operator
# or for a key as a whole. `ADInplaceOrView` has one, so that `addmm` need not know of it. Fill our
# hole with one, and the same call reaches `CPU`, the key that `W` brings:

# %% id="missing-fallthrough"
log.clear()
ours.impl("head", torch.library.fallthrough_kernel, "SparseCPU")
torch.ops.onelayer_ch02.head(x.to_sparse(), W)
print(log)

# %% [markdown] id="fallback"
# ## A key that our operator never heard of
# `torch._neg_view(x)` (private) is a lazy `-x`: the same floats and one more key, `Negative`. Our
# operator has no kernel for it. What comes out?

# %% id="fallback-guess"
predict("our_operator_on_a_lazy_negative", choices=["an error", "x @ W.T", "-x @ W.T"])

# %% id="fallback-run"
lazy = torch._neg_view(x)
onelayer.show_dispatch("onelayer_ch02::head", lazy, W)

# %% id="fallback-reveal"
y = torch.ops.onelayer_ch02.head(lazy, W)
right = {"-x @ W.T": y.allclose(-x @ W.T, atol=1e-4), "x @ W.T": y.allclose(x @ W.T, atol=1e-4)}
reveal("our_operator_on_a_lazy_negative", next(name for name, same in right.items() if same))

# %% [markdown] id="fallback-why"
# The key has a *fallback* for every operator without an entry of its own. It is *boxed*: one
# function, arguments as a stack of values, the schema to read them by. It negates what is lazy and
# redispatches
# ([`MathBitsFallback.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/MathBitsFallback.h)).

# %% [markdown] id="trace"
# ## Standing in the way of every call
# [`TorchDispatchMode`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/utils/_python_dispatch.py)
# puts your Python at the key `Python`, below autograd.

# %% id="trace-tool"
from torch.utils._python_dispatch import TorchDispatchMode


class Record(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func._schema.name.removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


# %% [markdown] id="trace-ask"
# Which operators does it see of `F.linear(x, W, bias)`?

# %% id="trace-guess"
predict("seen_of_a_linear", choices=["linear", "linear, t, addmm", "t, addmm", "addmm"])

# %% id="trace-run"
with Record() as forward:
    logits = F.linear(x, W, bias)  # (6, 600)
reveal("seen_of_a_linear", ", ".join(forward.names))

# %% [markdown] id="trace-why"
# `linear` is an implicit composite: its kernel stood at `AutogradCPU`, called `t` and `addmm`, and
# those came down to us. That is also why the graph has no `LinearBackward`:

# %% id="trace-backward"
total = logits.sum()
with Record() as backward:
    total.backward()
names = [name for name in backward.names if name not in ("detach", "alias")]  # versions differ
print(logits.grad_fn.name(), "| backward:", names)

# %% [markdown] id="trace-inference"
# ## The same call in inference mode
# Now autograd's keys are excluded. What does the mode see?

# %% id="trace-inference-guess"
predict("seen_in_inference_mode", choices=["t, addmm", "linear", "nothing"])

# %% id="trace-inference-run"
with torch.inference_mode(), Record() as seen:
    F.linear(x, W, bias)
reveal("seen_in_inference_mode", ", ".join(seen.names) or "nothing")

# %% [markdown] id="trace-inference-why"
# With `AutogradCPU` gone, `Python` is asked before any kernel has taken `linear` apart. What a mode
# sees depends on which keys are above it in this thread: a tool that compares op lists must fix the
# mode. Inference mode does other things as well. Exclude autograd's keys by hand and leave those
# out; and beside it `no_grad`, which excludes nothing:

# %% id="trace-inference-cause"
for name, mode in {"keys excluded": below(), "no_grad": torch.no_grad()}.items():
    with mode, Record() as seen:
        F.linear(x, W, bias)
    print(f"{name:14}", seen.names)

# %% [markdown] id="cost"
# ## What does standing there cost?
# A mode is Python, and Python is called for each operator. The same tiny addition without
# gradients: alone, and under our mode. Then take away what may be the cause: the mode stays on, and
# its key is excluded. The last two rows leave out more: autograd's C++ kernel, and the dispatcher.

# %% id="cost-run"
plain = torch.ones(2)
unheard = torch._C._DisableTorchDispatch  # private: excludes the key Python
ns = {"alone": call_ns("plain + plain", plain=plain)}
ns["under a mode"] = call_ns("plain + plain", Record(), plain=plain)
ns["mode, key excluded"] = call_ns("plain + plain", Record(), unheard(), plain=plain)
ns["without autograd"] = call_ns("plain + plain", below(), plain=plain)
ns["only the binding"] = call_ns("plain.size(0)", plain=plain)  # asks no dispatcher
onelayer.show_bars(ns, unit="ns")

# %% [markdown] id="cost-why"
# A mode that is not called takes next to nothing, so it is the Python in the way that takes the
# time. A C++ kernel in the way, autograd's, is hardly seen. The Python does the same work for
# tensors of any size, so its share of the bill falls as they grow:

# %% id="cost-sizes"
for n in (2, 20_000, 200_000):
    t = torch.ones(n)
    alone, seen = call_ns("t + t", t=t), call_ns("t + t", Record(), t=t)
    print(f"{n:7,} floats: alone {alone:7,.0f} ns, under a mode {seen / alone:4.1f} times that")

# %% [markdown] id="play"
# ## Play with it, a second time
# Now with `linear`, whose table is of another kind. Find a combination in which `linear` itself
# reaches a backend key, and one in which `addmm` (choose it first) ends in an error.

# %% id="play-run"
onelayer.play_dispatch("aten::linear")

# %% [markdown] id="autocast"
# ## Autocast is a kernel too
# It stands above autograd, so its casts are recorded. What does our mode see of `F.linear(x, W,
# bias)` under autocast?

# %% id="autocast-guess"
predict("casts_before_a_linear", choices=["1 cast", "2 casts", "3 casts"])

# %% id="autocast-run"
with torch.autocast("cpu", torch.bfloat16), Record() as seen:
    low = F.linear(x, W, bias)
print(seen.names, low.dtype)
print("the nodes before addmm's:", [n.name() for n, _ in low.grad_fn.next_functions if n])
casts = seen.names.count("_to_copy")
reveal("casts_before_a_linear", f"{casts} cast" + "s" * (casts > 1))

# %% [markdown] id="autocast-why"
# It makes three casts, of `x`, `W` and `bias`. The kernel casts, excludes its own key and calls
# `linear` again. The cast of `bias` is a node of the graph, and that of `W` stands behind its `t`.
# In the same autocast region the casts of `W` and `bias` are kept for the next call, because these
# are leaves that require a gradient, and no views; that of `x` is not. Let it require one, and it
# is kept as well; let it be the result of a recorded operation (no leaf), and it is not
# ([`autocast_mode.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/autocast_mode.cpp)).

# %% id="autocast-twice"
leaf = x.clone().requires_grad_()
for given in (x, leaf, leaf * 1):
    with torch.autocast("cpu", torch.bfloat16), Record() as seen:
        F.linear(given, W, bias)
        first = len(seen.names)
        F.linear(given, W, bias)
    print("requires a gradient:", given.requires_grad, "| leaf:", given.is_leaf, end=" | ")
    print("second call:", seen.names[first:])

# %% [markdown] id="meta"
# ## A device without floats
# `meta` is a backend like any other. Its kernels compute shapes and allocate no floats.
# `torch.compile` makes its plans with [fake
# tensors](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_subclasses/fake_tensor.py), which
# call these kernels. A million tokens through the head:

# %% id="meta-run"
many = torch.empty(1_000_000, 64, device="meta")
out = F.linear(many, W.detach().to("meta"), bias.detach().to("meta"))
print(tuple(out.shape), f"{out.nbytes:,} bytes that nobody allocated")
onelayer.show_dispatch("aten::addmm", bias.to("meta"), many, W.to("meta")).ran

# %% [markdown] id="functionalize"
# ## Take the writes out
# `Functionalize` is a key as well. Its kernels replace operators that write into an argument by
# others that return new memory; after the function, the caller's tensors must still have changed.
# [`torch.func.functionalize`](https://docs.pytorch.org/docs/stable/generated/torch.func.functionalize.html)
# adds the key around a function. What does our mode, which stands below it, see of `u.add_(1)`?

# %% id="functionalize-guess"
predict("functionalized_add_", choices=["add_", "add", "add, copy_", "clone, add_"])


# %% id="functionalize-run"
def bump(u):
    u.add_(1)
    return u


u = x.clone()
with Record() as seen:
    torch.func.functionalize(bump)(u)
reveal("functionalized_add_", ", ".join(seen.names))

# %% [markdown] id="functionalize-why"
# `add_` became `add`, whose result is new memory; at the very end one `copy_` puts it where the
# caller's `u` lies. Compilers want programs without writes in the middle: chapter 08. How did the
# kernel know that `add_` writes its first argument?

# %% [markdown] id="schemas"
# ## The schema says who writes and who shares
# Each operator has a schema. `Tensor(a)` puts an argument into alias set `a`; `!` says that it is
# written; a return in the same set may share its memory. Of these three, which may return memory
# that it got?

# %% id="schemas-guess"
predict("may_return_its_input", choices=["relu", "contiguous", "clone", "none of them"])

# %% id="schemas-run"
aten = torch.ops.aten
three = [aten.relu.default, aten.contiguous.default, aten.clone.default]
for op in (*three, aten.add_.Tensor):
    print(op._schema)
may = [op._opname for op in three if any(r.alias_info for r in op._schema.returns)]
print(aten.dropout.default._schema, "| returns its input:", torch.dropout(x, 0.5, False) is x)
reveal("may_return_its_input", ", ".join(may) or "none of them")

# %% [markdown] id="schemas-why"
# `contiguous` returns its input if that is contiguous already (chapter 01), so its schema says that
# it may. Implicit composites are not always so honest:
# [`dropout`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/Dropout.cpp)
# outside training returns its input, and its schema does not say so. In-place `add_` has `(a!)` on
# both sides. Functionalization and compilers believe these letters: if your operator's schema lies,
# what they make of your program is wrong. Here an operator of ours returns its argument and does
# not say so; `alias` does the same and says it. We write into what they return:

# %% id="schemas-lie"
from functools import partial

ours.define("same(Tensor x) -> Tensor")  # the truth would be: (Tensor(a) x) -> Tensor(a)
ours.impl("same", lambda x: x, "CompositeExplicitAutograd")


def bump_through(same, u):
    same(u).add_(1)
    return u


for same in (torch.ops.onelayer_ch02.same.default, aten.alias.default):
    bump_here = partial(bump_through, same)
    ways = bump_here, torch.func.functionalize(bump_here)
    print(f"{same!s:27} as it is, then functionalized:", *(f(torch.zeros(2)) for f in ways))

# %% [markdown] id="three-axes"
# ## Three ways to be another tensor
# The backend key joins *device* and *layout*. A row of kernels for `relu`:

# %% id="three-axes-run"
row = dispatch_table("aten::relu")
for key in ("CPU", "Meta", "SparseCPU", "SparseCsrCPU", "QuantizedCPU", "MkldnnCPU"):
    print(f"{key:13} {row[key].where if key in row else '-'}")
print(torch.eye(3).to_sparse().layout, onelayer.key_set(torch.eye(3).to_sparse())[-1])

# %% [markdown] id="three-axes-ask"
# A new chip is a new device; a new storage scheme is a new layout. And *dtype*, the third? Compared
# with a `float32` tensor, which keys does an `int64` tensor have?

# %% id="three-axes-guess"
predict("keys_of_an_integer", choices=["a key of its own", "no autograd key", "the same keys"])

# %% id="three-axes-reveal"
import warnings

whole, floats = onelayer.key_set(torch.ones(2, dtype=torch.int64)), onelayer.key_set(torch.ones(2))
dtypes = {dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
with warnings.catch_warnings(action="ignore"):  # torch warns of some: see below
    others = [d for d in dtypes if onelayer.key_set(torch.empty(2, dtype=d)) != floats]
print(len(dtypes), "dtypes, other keys for", *sorted(map(str, others)))
reveal("keys_of_an_integer", "the same keys" if whole == floats else "a key of its own")

# %% [markdown] id="three-axes-why"
# The keys are the same: ordinary dtypes are chosen *inside* the kernel by a switch
# ([`Dispatch.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/Dispatch.h)). Only a
# dtype whose numbers need other arithmetic (quantized, with scale and zero point) has a backend key
# of its own; torch 2.13 warns that these tensors will be removed.

# %% [markdown] id="subclass"
# ## A tensor that listens
# The fourth way needs no C++: a subclass with `__torch_dispatch__` carries the key `Python` itself.
# `_make_wrapper_subclass` (private, and what everybody uses) makes a tensor without floats.

# %% id="subclass-tool"
from torch.utils._pytree import tree_map


class Seen(torch.Tensor):
    def __new__(cls, plain):
        size, step = plain.shape, plain.stride()
        self = torch.Tensor._make_wrapper_subclass(cls, size, strides=step, dtype=plain.dtype)
        self.plain, cls.names = plain, []
        return self

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.names.append(func._schema.name.removeprefix("aten::"))
        args = tree_map(lambda t: t.plain if isinstance(t, cls) else t, args)  # also inside lists
        return func(*args, **(kwargs or {}))


# %% [markdown] id="subclass-ask"
# Only `x` is wrapped; `W` and `bias` are plain. What does the class see of `F.linear(Seen(x), W,
# bias)`?

# %% id="subclass-guess"
predict("seen_by_a_wrapped_input", choices=["linear", "t, addmm", "addmm"])

# %% id="subclass-run"
listening = Seen(x)
F.linear(listening, W, bias)
print(onelayer.key_set(listening))
reveal("seen_by_a_wrapped_input", ", ".join(Seen.names))

# %% [markdown] id="subclass-why"
# `t` was called on `W` alone: no `Seen` in sight, no `Python` key in the call. A mode belongs to a
# thread, a subclass travels with the data.
# [`DTensor`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/tensor/_api.py) and
# fake tensors are built so. A subclass *without* `__torch_dispatch__` carries no new key. It has
# another door, above the dispatcher: `__torch_function__`, which the function that you call asks
# first. A `__torch_dispatch__` sees the parts of `F.linear` and of a cross-entropy. What does a
# `__torch_function__` see of them?


# %% id="subclass-plain"
class Named(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.names.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


named, Named.names = x.as_subclass(Named), []
print("the same keys:", onelayer.key_set(named) == onelayer.key_set(x))
Named.names = []
z = F.linear(named, W, bias)
F.cross_entropy(z, torch.zeros(6, dtype=torch.int64))
print("seen:", Named.names, "| the result is a", type(z).__name__)

# %% [markdown] id="subclass-function"
# Whole functions, by the names that you called: `__torch_function__` overrides torch's *Python
# API*, `__torch_dispatch__` its *operators* ([extending
# torch](https://docs.pytorch.org/docs/stable/notes/extending.html)). An autograd node, a cast, a
# decomposition are not there yet.

# %% [markdown] id="functorch"
# ## Keys that wrap
# [`torch.func`](https://docs.pytorch.org/docs/stable/func.html) uses keys too. `grad` and `vmap`
# hand your function a *wrapped* tensor, and the wrapper has a key of its own. They also include two
# keys in the thread. One is above those of all tensors: its kernel asks the innermost
# transformation first. So `grad` and `vmap` nest. Here is what a function sees inside of each, and
# inside of both.


# %% id="functorch-run"
import re


def inside(w):
    thread = str(torch._C._dispatch_tls_local_include_set())  # private
    print("   ", [key for key in onelayer.key_set(w) if "Func" in key], tuple(w.shape))
    print("    in the thread:", re.findall(r"Func\w*Mode", thread))
    return w.sum()


rows = W.detach()
ways = {"grad": torch.func.grad(inside), "vmap": torch.func.vmap(inside)}
ways["vmap of grad"] = torch.func.vmap(torch.func.grad(inside))
for name, transformed in ways.items():
    print(name)
    transformed(rows)

# %% [markdown] id="functorch-why"
# Under `vmap` the tensor says `(64,)`: the 600 rows are hidden in the wrapper, and the batching
# rules of the operators carry them along. Chapter 03 uses both.

# %% [markdown] id="override"
# ## Your kernel in torch's table
# Now a kernel of ours for `addmm` on the CPU. It calls the one that was there and turns the sign of
# the logits. First the head as it is:

# %% id="override-before"
onelayer.next_words(F.linear(x, W, bias), k=3)


# %% id="override-tool"
original = torch.library.get_kernel("aten::addmm", "CPU")


def upside_down(keyset, *args, **kwargs):
    return -original.call_boxed(keyset, *args, **kwargs)


patch = torch.library.Library("aten", "IMPL")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch warns that a kernel is replaced: we mean it
    patch.impl("addmm", upside_down, "CPU", with_keyset=True)

# %% [markdown] id="override-ask"
# `F.linear` is called as before, and `W` requires a gradient. Our kernel knows nothing of
# gradients. What is the result's `grad_fn`?

# %% id="override-guess"
predict("grad_fn_through_our_kernel", choices=["None", "NegBackward0", "AddmmBackward0"])

# %% id="override-run"
logits = F.linear(x, W, bias)
print(onelayer.next_words(logits, k=3))
(said,) = torch.autograd.grad(logits.sum(), bias)  # (600,)
with torch.no_grad():
    measured = (F.linear(x, W, bias + 1) - logits).sum() / 600
print(f"slope of the sum along a bias: backward says {said[0]:.1f}, measured {measured:.1f}")
reveal("grad_fn_through_our_kernel", logits.grad_fn.name())

# %% [markdown] id="override-why"
# The words are others, the head is not. Autograd's kernel ran above ours and recorded the node of
# `addmm`, whose backward is now wrong: it trusts that a backend computes what the name says. Give
# the old kernel back (`_destroy` is private; dropping the library does the same):

# %% id="override-after"
patch._destroy()
onelayer.next_words(F.linear(x, W, bias), k=3)

# %% [markdown] id="what-you-can-now-say"
# ## What you can now say
# - The keys of a call are those of its tensors and of the thread, minus the excluded ones. The
#   highest one that does not fall through gets the call.
# - Each kernel does its part and calls again: autocast casts, autograd records, the backend
#   computes. A hole is an error, a fallback serves all operators.
# - An implicit composite is taken apart at autograd's key, or, in inference mode and without
#   `torch.func`, only at the backend's, below every mode.
# - Schemas promise who writes and who shares; others build on the promise.
# - Device and layout choose a kernel, dtype mostly inside it; a subclass brings its own.
#
# Now do it by hand: [Lab 02](../labs/02_dispatcher/02_dispatcher.ipynb).

# %% [markdown] id="sources"
# ## Where this is written in PyTorch
# - keys and their order:
#   [`DispatchKey.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/DispatchKey.h),
#   [`DispatchKeySet.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/DispatchKeySet.h);
#   included and excluded:
#   [`LocalDispatchKeySet.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/impl/LocalDispatchKeySet.h)
# - the jump:
#   [`Dispatcher.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/core/dispatch/Dispatcher.h);
#   the table:
#   [`OperatorEntry.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/core/dispatch/OperatorEntry.cpp)
# - fallthrough of autograd's helper key:
#   [`VariableFallbackKernel.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/core/VariableFallbackKernel.cpp);
#   inference mode:
#   [`InferenceMode.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/InferenceMode.h)
# - schemas and their letters:
#   [`native/README.md`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/README.md)
# - what is public: [`torch.library`](https://docs.pytorch.org/docs/stable/library.html), [extending
#   torch](https://docs.pytorch.org/docs/stable/notes/extending.html)
#
# What changed between torch 2.11 and 2.15: a recorded backward holds `detach` in one and `alias` in
# the other, so this page leaves both out; and files, cells and counts of a table move with every
# release, so it computes them.
