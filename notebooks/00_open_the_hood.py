# %% [markdown] id="title"
# # 00 Open the hood: what runs when you call a layer
#
# You write `F.linear(h, W, b)` and logits come back. Which code ran? The weights are small, so
# where does the memory of a training step go? And how does autograd know what you called? On this
# page you walk the whole way down once. The next twelve units, a chapter and a lab each, stop at
# one station each.
#
# *Reading: about 30 minutes.*

# %% [markdown] id="try-first"
# ## Try it first
# One call of the layer, from Python down to the kernel. Press *next stop*: each stop names its
# file. Then switch to `no_grad` and to `inference_mode`, and watch the fourth stop; switch the
# device, and watch the fifth. Every line in the grey box comes from the torch that runs this page.

# %% id="try-first-run" tags=["hide-input"]
import onelayer

head = onelayer.head()
h = onelayer.hidden("<en> she has eaten <es> ella ha")
onelayer.show_call(h, head.weight, head.bias)

# %% id="instruments"
import torch
import torch.nn.functional as F

from autograder import predict, reveal

head = onelayer.head()  # nn.Linear(64, 600), trained
W, b = head.weight, head.bias  # (600, 64), (600,)

# %% [markdown] id="the-head-speaks"
# ## One layer, 600 words
# This layer is the head of a small language model that knows English and Spanish verbs. Before it,
# the model has turned each word, with those before it, into 64 numbers. After `<es>` it says the
# English sentence again, in Spanish: *she* is *ella*, *eats* is *come*, *eating* is *comiendo*,
# *eaten* is *comido*. What will it say next?

# %% id="the-head-speaks-guess"
predict("after_ella_ha", choices=["come", "comido", "comiendo", "eaten"])

# %% id="the-head-speaks-run"
text = "<en> she has eaten <es> ella ha"
h = onelayer.hidden(text)  # (7, 64): what enters the head, a row for each word
logits = F.linear(h, W, b)  # (7, 600): a score for each of the 600 words
words = onelayer.next_words(logits)  # of the last row: what follows the whole text
onelayer.show_bars(dict(words), unit="probability")

# %% id="the-head-speaks-reveal"
reveal("after_ella_ha", words[0][0])

# %% [markdown] id="a-row-is-a-word"
# ## A row is a word
# There is no magic in it. Row k of `W` belongs to word k, and its score is a product, a sum and a
# bias. This whole course is about what happens around these 64 multiplications.

# %% id="a-row-is-a-word-run"
k = onelayer.grammar.TOKENS.index("comido")
by_hand = sum(x * w for x, w in zip(h[-1].tolist(), W[k].tolist(), strict=True)) + b[k].item()
print(f"by hand {by_hand:.4f}, by torch {logits[-1, k].item():.4f}")

# %% [markdown] id="ordinary-python"
# ## The loop is ordinary Python
# Nobody declares a graph. Each line is carried out when Python reaches it: computed, or, on a GPU,
# [put in its queue](https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution).
# So a `while` works as everywhere. The one below adds a word in each round, until that word is
# `<end>`. It begins after *they have spoken*. How often does it call the head?

# %% id="ordinary-python-guess"
predict("calls_of_the_head", choices=[1, 2, 4, 600])

# %% id="ordinary-python-run"
sentence, said = "<en> they have spoken <es>", []
while not sentence.endswith("<end>"):
    z = F.linear(onelayer.hidden(sentence), W, b)
    said.append(onelayer.next_words(z)[0])  # (word, its probability)
    sentence += " " + said[-1][0]
    print(sentence)
onelayer.show_bars(dict(said), unit="probability")

# %% id="ordinary-python-reveal"
reveal("calls_of_the_head", len(said))

# %% [markdown] id="ordinary-python-why"
# The head is called as often as it takes: its own words decided that while the loop ran. No other
# length was planned anywhere. A print, an `if` or a debugger may stand between two lines. Chapter
# 08 shows what it costs, and what a compiler does about it.

# %% [markdown] id="loss"
# ## How wrong is it?
# The loss is the surprise at the word that really came: minus the logarithm of its probability. A
# head that knows nothing gives each of the 600 words the same. What is its loss?

# %% id="loss-guess"
predict("loss_of_a_clueless_head", choices=[0.0, 1.0, 6.4, 600.0])

# %% id="loss-run"
came = torch.tensor(onelayer.grammar.encode(text)[1:])  # (6,): the word after each position
clueless = F.cross_entropy(torch.zeros(6, 600), came)
trained = F.cross_entropy(logits[:-1], came)
print(f"trained {trained.item():.2f} | clueless {clueless.item():.2f}")

# %% id="loss-reveal"
reveal("loss_of_a_clueless_head", round(clueless.item(), 1))

# %% [markdown] id="loss-why"
# The loss of such a head is log(600). The trained head is not near zero either: after *she has* any
# of the 22 verbs is possible, and it is right to hesitate. It is sure where the grammar leaves one
# word: at *ella*, and at *ha*. A bar for each word that came:

# %% id="loss-each"
each = F.cross_entropy(logits[:-1], came, reduction="none")  # (6,)
onelayer.show_bars(dict(zip(text.split()[1:], each.tolist(), strict=True)), unit="loss")

# %% [markdown] id="two-numbers"
# ## The two numbers of this course
# Training needs the loss and its gradients, for many tokens at once. Here are two ways to get them.
# The first is what everybody writes.


# %% id="two-numbers-eager"
def eager(h, W, b, y):
    """Loss and gradients, as everybody writes it. h (N, 64), y (N,)."""
    loss = F.cross_entropy(F.linear(h, W, b), y)  # (N, 64) -> (N, 600) -> ()
    return (loss, *torch.autograd.grad(loss, (h, W, b)))


# %% [markdown] id="lean"
# The second is the same mathematics, 512 tokens at a time, with the gradient written out. You need
# not follow it yet. You will derive it in unit 03, pack it into a function in unit 04, and fuse it
# into one kernel in unit 07.


# %% id="two-numbers-lean"
@torch.no_grad()
def lean(h, W, b, y):
    """The same four results, holding the logits of 512 tokens at most."""
    dh, dW, db, loss = torch.empty_like(h), torch.zeros_like(W), torch.zeros_like(b), 0.0
    for x, t, dx in zip(h.split(512), y.split(512), dh.split(512), strict=True):
        z = F.linear(x, W, b)  # (512, 600)
        total, right = z.logsumexp(1, keepdim=True), t[:, None]  # (512, 1) each
        loss += (total - z.gather(1, right)).sum()
        dz = z.sub_(total).exp_().scatter_add_(1, right, torch.full_like(total, -1.0))
        db += dz.sum(0)
        dW.addmm_(dz.T, x)
        torch.mm(dz, W, out=dx)
    return tuple(t.div_(len(h)) for t in (loss, dh, dW, db))


# %% [markdown] id="memory"
# We give both functions the hidden states of 16,384 tokens. The weights are small: you will count
# their bytes in the lab. How many times the memory of `lean` does `eager` hold at its peak?

# %% id="memory-guess"
predict("peak_of_eager_over_lean", choices=["about the same", "2 to 10 times", "over 10 times"])

# %% id="memory-run"
lines = [" ".join(s.words[:-1]) for s in onelayer.grammar.split().held_out[:200]]
states = onelayer.hidden("\n".join(lines))  # what the model thinks in 200 sentences
N = 16_384
x = states.repeat(N // len(states) + 1, 1)[:N].requires_grad_()  # (N, 64)
y = torch.randint(600, (N,))  # any words will do for the bill
with onelayer.peak_bytes() as eager_peak:
    want = eager(x, W, b, y)
with onelayer.peak_bytes() as lean_peak:
    got = lean(x, W, b, y)
print(f"at most: eager {eager_peak.bytes:,} bytes, lean {lean_peak.bytes:,}")


# %% id="memory-over-time"
def over_time(path):
    """100 points of what was held after each operator, in MB: the two ways differ in operators."""
    return [path[k * len(path) // 100] / 1e6 for k in range(100)]


curves = {"eager": over_time(eager_peak.path), "lean": over_time(lean_peak.path)}
onelayer.show_curves(curves, step="% of its operators", unit="MB held")

# %% id="memory-reveal"
ratio = eager_peak.bytes / lean_peak.bytes
named = [(1.5, "about the same"), (10, "2 to 10 times"), (float("inf"), "over 10 times")]
reveal("peak_of_eager_over_lean", next(name for most, name in named if ratio < most))

# %% [markdown] id="memory-why"
# The logits are 600 numbers for each token: a table larger than all else here. The ordinary way
# holds more than one at its peak, the lean way a slice of one. Both give the same loss and the same
# gradients, but for rounding:

# %% id="memory-same"
table = N * 600 * 4  # bytes of the logits of all tokens
held = [peak.bytes / table for peak in (eager_peak, lean_peak)]
print("tables of logits held: eager {:.1f}, lean {:.2f}".format(*held))
for name, a, c in zip(["loss", "dh", "dW", "db"], want, got, strict=True):
    print(f"{name:5} largest difference {(a - c).abs().max() / a.abs().max():.0e} of the largest")
print(f"at its peak, eager holds {ratio:.0f} times the bytes of lean")

# %% [markdown] id="time"
# ## And the time?
# Both do the same matrix products. Does the memory that the lean way saves cost time? Measured on
# this machine, now:

# %% id="time-guess"
predict("which_is_faster", choices=["eager", "lean", "about the same"])

# %% id="time-run"
from torch.utils.benchmark import Timer

names = {"x": x, "W": W, "b": b, "y": y, "eager": eager, "lean": lean}
runs = {f: Timer(f"{f}(x, W, b, y)", globals=names).timeit(5) for f in ("eager", "lean")}
speedup = runs["eager"].mean / runs["lean"].mean
onelayer.show_bars({f: t.mean * 1e3 for f, t in runs.items()}, unit="ms")

# %% id="time-reveal"
faster = "lean" if speedup > 1.15 else "eager" if speedup < 0.87 else "about the same"
reveal("which_is_faster", faster)

# %% id="time-number"
print(f"eager takes {speedup:.1f} times as long as lean: these are the numbers to beat in unit 12")

# %% [markdown] id="time-why"
# Both multiply the same matrices. Where they differ is what happens to the logits in between: how
# often they are allocated, written and read again, and from where. The first of these can be taken
# away here. A new table of logits has no memory yet: Linux adds it page by page, when each is
# touched for the first time, a *page fault*. So we fill a new table, and then one that was filled
# before.

# %% id="time-pages"
filled = torch.empty(N, 600).fill_(1)
with onelayer.count_page_faults() as faults:
    torch.empty(N, 600).fill_(1)
lines = {"a new table": "torch.empty(N, 600).fill_(1)", "the same again": "filled.fill_(1)"}
given = {"torch": torch, "N": N, "filled": filled}
ms = {name: Timer(line, globals=given).timeit(10).mean * 1e3 for name, line in lines.items()}
fault_ms = (ms["a new table"] - ms["the same again"]) / max(faults.count, 1)
onelayer.show_bars(ms, unit="ms")

# %% [markdown] id="time-pages-share"
# The difference is the price of the faults. How many faults does each way have, and how much of the
# time that it took above do they explain, at this price?

# %% id="time-pages-count"
for name, way in {"eager": eager, "lean": lean}.items():
    with onelayer.count_page_faults() as faults:
        way(x, W, b, y)
    mean_ms = runs[name].mean * 1e3
    print(f"{name:5} {faults.count:>7,} faults, {faults.count * fault_ms:.0f} of {mean_ms:.0f} ms")

# %% [markdown] id="time-rest"
# So on a CPU a good part of the time can be new memory. Chapter 08 takes the faults away from a
# whole training step, and looks at what is left. To go further, you need to know what runs.

# %% [markdown] id="no-source"
# ## Open the hood
# Python can show the source of a function. Ask it for `F.linear`. What comes?

# %% id="no-source-guess"
predict("source_of_linear", choices=["one line", "about twenty lines", "an error"])

# %% id="no-source-run"
import inspect

try:
    lines = inspect.getsource(F.linear).splitlines()
    outcome = "one line" if len(lines) == 1 else "about twenty lines"
except TypeError as error:
    outcome = "an error"
    print(type(F.linear).__name__, "|", error)

# %% id="no-source-reveal"
reveal("source_of_linear", outcome)

# %% [markdown] id="no-source-why"
# `F.linear` is no Python: it is a *binding*, a C++ function that unpacks Python objects, [written
# by a
# script](https://github.com/pytorch/pytorch/blob/v2.13.0/tools/autograd/gen_python_functions.py)
# when torch is built. Behind it lies a runtime of [four
# rooms](https://github.com/pytorch/pytorch/blob/v2.13.0/CONTRIBUTING.md#codebase-structure):
# `torch` is the Python you import; `torch/csrc` C++ around the operators, with autograd and the
# bindings; `aten` the operators and their kernels; `c10` the core that all share.

# %% [markdown] id="rooms"
# ## Which room is the largest?
# They are on your disk: Python files, and three libraries. Guess before you look.

# %% id="rooms-guess"
predict(
    "largest_room",
    choices=["the Python files", "libtorch_python", "libtorch_cpu", "libc10"],
)

# %% id="rooms-run"
from pathlib import Path

home = Path(torch.__file__).parent
sizes = {"the Python files": sum(p.stat().st_size for p in home.rglob("*.py"))}
for name in ("libtorch_python", "libtorch_cpu", "libc10"):
    found = [p for p in (home / "lib").iterdir() if p.name.split(".")[0] in (name, name[3:])]
    sizes[name] = max((p.stat().st_size for p in found), default=0)
onelayer.show_bars({name: size / 1e6 for name, size in sizes.items()}, unit="MB")

# %% id="rooms-reveal"
reveal("largest_room", max(sizes, key=sizes.get))

# %% [markdown] id="rooms-why"
# `libtorch_cpu` holds `aten`: the operators and their CPU kernels, many of them [compiled several
# times](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/cpu/README.md) for
# different processors. `libc10` is the small core. A CUDA build has `libtorch_cuda` beside them.
# The variant that runs on your processor:

# %% id="rooms-kernels"
print(torch.backends.cpu.get_cpu_capability(), "| a CUDA build:", torch.version.cuda is not None)

# %% [markdown] id="symbols"
# ## Folders are not libraries
# `torch/csrc` went into two of the three. Where is autograd's *engine*, the loop behind
# `backward()`?

# %% id="symbols-guess"
predict("library_of_the_engine", choices=["libtorch_python", "libtorch_cpu", "libc10"])

# %% id="symbols-tool"
import ctypes


class Found(ctypes.Structure):  # what dladdr tells of an address: the first field is the file
    _fields_ = [("file", ctypes.c_char_p), *((name, ctypes.c_void_p) for name in "abc")]


def library_of(symbol):
    """The loaded library that defines a C++ name, given as compilers write it."""
    address, found = getattr(ctypes.CDLL(torch._C.__file__), symbol), Found()
    ctypes.CDLL(None).dladdr(ctypes.cast(address, ctypes.c_void_p), ctypes.byref(found))
    return Path(found.file.decode()).name.split(".")[0]


# %% [markdown] id="symbols-ask"
# `library_of` asks the system's loader; the command `nm` would read each file's table. Compilers
# write a name with the lengths of its parts: `5torch8autograd6Engine` is `torch::autograd::Engine`.

# %% id="symbols-run"
PARTS = {
    "bindings of tensors": "_Z16THPVariable_WrapRKN2at10TensorBaseE",
    "autograd's engine": "_ZTVN5torch8autograd6EngineE",
    "AccumulateGrad": "_ZTVN5torch8autograd14AccumulateGradE",
    "graphs of the JIT": "_ZN5torch3jit5Graph4copyEv",
    "the reducer of DDP": "_ZN4c10d7Reducer13autograd_hookEm",
    "the tensor itself": "_ZTVN3c1010TensorImplE",
}
where = {part: library_of(symbol) for part, symbol in PARTS.items()}
for part, library in where.items():
    print(f"{part:20} {library}")
reveal("library_of_the_engine", where["autograd's engine"])

# %% [markdown] id="symbols-why"
# `libtorch_python` holds what speaks to Python. The engine, the JIT and the reducer are C++ that
# needs no Python: a program in C++ alone can train, through [headers of its
# own](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/api/include/torch/all.h).

# %% [markdown] id="grad-fn"
# ## What did autograd see?
# `W` requires a gradient, so somebody on the way wrote down what to do in backward: the result's
# `grad_fn`, an object with a name. Three operators come into question: `linear`, which you called;
# `mm`, a matrix product; `addmm`, a product plus a bias. Which operator is `grad_fn` named after?

# %% id="grad-fn-guess"
predict(
    "grad_fn_of_linear",
    choices=["LinearBackward0", "AddmmBackward0", "MmBackward0", "nothing"],
)

# %% id="grad-fn-run"
logits = F.linear(h, W, b)
node = type(logits.grad_fn).__name__
reveal("grad_fn_of_linear", node)

# %% [markdown] id="grad-fn-why"
# You called `linear`, and autograd wrote `addmm`: bias plus matrix product. So the name changed on
# the way down, *before* autograd wrote. Walk down once more in the view at the top of this page, to
# the fourth stop, and read there who calls whom.

# %% [markdown] id="the-path-why"
# ## Who stands in the middle?
# A [*dispatcher*](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/core/dispatch/Dispatcher.h)
# does. It looks at the tensors (where do they live?) and at the thread (which modes
# are on?). What it finds is a set of *keys*, such as `CPU` or `AutogradCPU`, and it calls one
# function, that of the highest key. For `linear` that is [a
# recipe](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/Linear.cpp), which
# calls `t` and `addmm`. For `addmm` it is autograd's function, and no other: that one calls the
# dispatcher again, without autograd's key, and only then the device's kernel is called. Chapter 02
# is about this.

# %% id="the-path-calls"
path = onelayer.show_dispatch("aten::addmm", b, h, W.T)
print("each called by the one before it:", *path.ran, sep="  ")

# %% [markdown] id="devices"
# ## Who moves it?
# The device picks the kernel. Now `h` is on another device than `W` and `b`: a GPU if you have one,
# else `meta`, a device for tensors that have a shape and no numbers. What does `F.linear` do?

# %% id="devices-guess"
predict("two_devices", choices=["h comes to W", "W and b go to h", "an error"])

# %% id="devices-run"
elsewhere = "cuda" if torch.cuda.is_available() else "meta"
try:
    z = F.linear(h.to(elsewhere), W, b)
    moved = "h comes to W" if z.device == W.device else "W and b go to h"
except RuntimeError as error:
    moved = "an error"
    print(error)

# %% id="devices-reveal"
reveal("two_devices", moved)

# %% [markdown] id="devices-why"
# If you don't move it, neither will PyTorch. A few places take a CPU tensor beside others: a number
# without dimensions [in a pointwise
# operation](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/TensorIterator.cpp),
# [indices](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/TensorAdvancedIndexingUtils.h),
# and what is copied into place, by `copy_` or an assignment.

# %% id="devices-mixed"
there = torch.zeros(4, 3, device=elsewhere)
mixed = {
    "there + a number without dimensions": lambda: there + torch.tensor(2.0),
    "there + one number in a row": lambda: there + torch.ones(1),
    "there[indices]": lambda: there[torch.tensor([0, 2])],
    "there.copy_(rows)": lambda: there.copy_(torch.ones(4, 3)),
    "there[0] = row": lambda: there.__setitem__(0, torch.ones(3)),
}
for line, call in mixed.items():
    try:
        call()
        print(f"{line:36} works")
    except RuntimeError:
        print(f"{line:36} an error")

# %% [markdown] id="devices-to-why"
# `.to` moves nothing either: if the device differs, it returns a new tensor, and `here` stays.

# %% id="devices-to"
here = torch.arange(6.0).view(2, 3)
onelayer.show_storage(here, here.to(elsewhere), names=["here", "here.to(...)"])

# %% [markdown] id="modules"
# ## And a whole model?
# For a tensor you must write `x = x.to(device)`. Many people write `model = model.to(device)`, too.
# Here only `layer.to("meta")` is called, and its result gets another name. On which device are the
# weights of `layer` afterwards?

# %% id="modules-guess"
predict("weights_after_to", choices=["cpu", "meta"])

# %% id="modules-run"
layer = torch.nn.Linear(64, 600)
answer = layer.to("meta")
print("the same layer came back:", answer is layer)
reveal("weights_after_to", layer.weight.device.type)

# %% [markdown] id="modules-why"
# [A module](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html) is a container:
# its `.to` puts the new tensors in the place of the old ones and returns the module itself. So
# nobody needs `model = model.to(device)`. A tensor has no such place: drop what its `.to` returns,
# and nothing has happened. That is the detective case of the lab.

# %% [markdown] id="doctor"
# ## Your machine
# What this course finds here. A missing GPU is no fault: every point of every lab can be earned
# without one.

# %% id="doctor-run"
from autograder.notebook import doctor

doctor()

# %% [markdown] id="what-you-can-now-say"
# ## What you can now say
# - `F.linear` is a binding; behind it a dispatcher picks, by the tensors and the thread's modes,
#   one function to call: here autograd's, which asks the dispatcher again and so reaches a kernel.
# - `linear` is a recipe. Autograd and the kernel see `addmm`, and that is why `grad_fn` says so.
# - The memory of a loss is tables of logits, not weights. Whoever holds fewer of them needs a
#   fraction of it, for the same loss and the same gradients.
# - Each line is carried out when Python reaches it. A tensor stays on its device: `.to` returns
#   another one.
#
# Now count it yourself: [Lab 00](../labs/00_open_the_hood/00_open_the_hood.ipynb), about an hour.
# Then ask what a tensor really is, and why `W.T` costs nothing: [chapter 01](01_strides.ipynb).

# %% [markdown] id="sources"
# ## Where this is written in PyTorch
# - the Python line:
#   [`linear.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/modules/linear.py); the
#   script that writes the bindings:
#   [`gen_python_functions.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/tools/autograd/gen_python_functions.py)
# - the dispatcher:
#   [`Dispatcher.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/core/dispatch/Dispatcher.h),
#   its keys:
#   [`DispatchKey.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/DispatchKey.h)
# - the recipe of `linear`:
#   [`Linear.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/Linear.cpp);
#   what autograd does for `addmm`:
#   [`derivatives.yaml`](https://github.com/pytorch/pytorch/blob/v2.13.0/tools/autograd/derivatives.yaml);
#   its CPU kernel:
#   [`LinearAlgebra.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/LinearAlgebra.cpp)
# - what lies in which folder:
#   [`CONTRIBUTING.md`](https://github.com/pytorch/pytorch/blob/v2.13.0/CONTRIBUTING.md#codebase-structure)
# - which devices may mix:
#   [`TensorIterator.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/TensorIterator.cpp);
#   [`Tensor.to`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html), [devices and
#   their queues](https://docs.pytorch.org/docs/stable/notes/cuda.html)
#
# In torch 2.11, 2.13 and 2.15 the `grad_fn` of a 2-D `F.linear` with bias is `AddmmBackward0`;
# sizes of files and numbers of lines differ. From 2.13 on there is a ready-made loss, lean if
# you give it `options`, `F.linear_cross_entropy`: unit 12 races against it.
