# %% [markdown] id="title"
# # 06 Custom operators: what a C++ function has to promise
#
# You have a fast loop in C++ or a CUDA kernel, and you call it from PyTorch. What do a transposed
# input, `loss.backward()`, autocast and `torch.compile` make of it? After this chapter you can say
# what an operator promises that a function does not, where each promise is kept, and how one CUDA
# thread finds its one output.
#
# *Reading: two evenings, about 35 and 20 minutes.*

# %% [markdown] id="try-first"
# ## Try it first
# A kernel reads the floats at an address, as C++ does, and computes the head. A plain call is
# right. What do the four other uses make of it? Keep one promise after the other, and find the use
# that goes wrong without an error.

# %% id="try-first-run" tags=["hide-input"]
import onelayer

onelayer.play_promises()

# %% id="instruments"
import ctypes
import os
import warnings

import torch
import torch.nn.functional as F

from autograder import predict, reveal
from onelayer import cuda_cpu

head = onelayer.head()  # nn.Linear(64, 600), trained
W, b = head.weight, head.bias  # (600, 64), (600,)
x = onelayer.hidden("<en> she has eaten <es> ella ha")  # (7, 64)

# %% [markdown] id="function"
# ## The head is three loops
# `onelayer.load_cpp` compiles a string of C++ and loads it. This one knows nothing of torch: it
# gets four addresses and three sizes. `extern "C"` lets Python find the function by its name.

# %% id="function-run"
LOOPS = """
#include <cstdint>
extern "C" void linear(const float* x, const float* w, const float* b, float* z,
                       int64_t N, int64_t V, int64_t D) {
  for (int64_t n = 0; n < N; ++n)
    for (int64_t v = 0; v < V; ++v) {
      float sum = b[v];
      for (int64_t d = 0; d < D; ++d) sum += x[n * D + d] * w[v * D + d];
      z[n * V + v] = sum;
    }
}
"""
function = onelayer.load_cpp(LOOPS)
print(function)

# %% [markdown] id="function-call"
# `ctypes` calls it with `data_ptr()`, the address of a tensor's first element. The numbers are
# torch's.


# %% id="function-call-run"
def through_pointers(x, w, b):
    z = torch.empty(len(x), len(w))
    addresses = [ctypes.c_void_p(t.data_ptr()) for t in (x, w, b, z)]
    function.library.linear(*addresses, *map(ctypes.c_int64, (*z.shape, w.shape[1])))
    return z


same = torch.allclose(through_pointers(x, W, b), head(x), atol=1e-4)
print("the numbers of torch:", same)

# %% [markdown] id="address"
# ## An address is all it gets
# `turned` equals `x` in every element, and lies in memory column by column. What does the loop make
# of it?

# %% id="address-guess"
predict("loop_over_another_layout", choices=["the same logits", "wrong logits", "an error"])

# %% id="address-run"
turned = x.T.contiguous().T
print("equal:", turned.equal(x), "| strides", x.stride(), turned.stride())
small = torch.arange(6.0).view(2, 3)
onelayer.show_storage(small, small.T.contiguous().T, names=["like x", "like turned"])
z = through_pointers(turned, W, b)
right = torch.allclose(z, head(x), atol=1e-4)
reveal("loop_over_another_layout", "the same logits" if right else "wrong logits")

# %% [markdown] id="address-why"
# The logits are wrong, and nothing reported it. Sizes, strides, dtype, device and the wish for a
# gradient are in the tensor's note (chapter 01), not at its address. Somebody has to read the note.
# An *operator* is a function of tensors that the dispatcher knows by name, and it is the operator's
# business to read the note.

# %% [markdown] id="custom-op"
# ## The shortest way to an operator
# `torch.library.custom_op` gives a Python function a name and a schema, here from its annotations.
# Every call now goes through the dispatcher, and on to our pointers. What we register below for an
# operator in C++ exists for this one as well.


# %% id="custom-op-run"
@torch.library.custom_op("chapter06::linear", mutates_args=())
def by_pointers(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return through_pointers(x.contiguous(), w.contiguous(), b.contiguous())


print(torch.ops.chapter06.linear.default._schema)
print("right for turned:", torch.allclose(by_pointers(turned, W, b), head(x), atol=1e-4))

# %% [markdown] id="anatomy"
# ## Six parts of a kernel
# In C++ the same operator looks like torch's own. It has six parts: **1** metadata (the schema),
# **2** checks, **3** allocation, **4** dispatch on the dtype, **5** a parallel loop, **6** access
# to the data. Each has a step of its own below, so read the two cells for their numbers first. Here
# are parts 5 and 6; `T` stands for the C++ type of an element:

# %% id="anatomy-loop"
LOOP = """
template <typename T>
void fill(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& z) {
  const T *xp = x.const_data_ptr<T>(), *wp = w.const_data_ptr<T>(), *bp = b.const_data_ptr<T>();
  T* zp = z.mutable_data_ptr<T>();
  const int64_t V = w.size(0), D = w.size(1);
  torch::stable::parallel_for(0, x.size(0), 1, [&](int64_t begin, int64_t end) {  // 5: rows
    for (int64_t n = begin; n < end; ++n)
      for (int64_t v = 0; v < V; ++v) {
        double sum = bp[v * b.stride(0)];
        for (int64_t d = 0; d < D; ++d)  // 6: by strides
          sum += double(xp[n * x.stride(0) + d * x.stride(1)]) *
                 double(wp[v * w.stride(0) + d * w.stride(1)]);
        zp[n * V + v] = T(sum);
      }
  });
}
"""

# %% [markdown] id="anatomy-outside"
# ## What stands around the loop
# Checks, allocation and the choice of the dtype come before the loop. The registration, which holds
# the schema, comes behind it.

# %% id="anatomy-outside-run"
ENTRY = """
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b) {
  STD_TORCH_CHECK(x.dim() == 2, "x is (N, D), got ", x.dim(), " dimensions");  // 2
  STD_TORCH_CHECK(w.dim() == 2 && x.size(1) == w.size(1), "x and w differ in D");
  STD_TORCH_CHECK(b.dim() == 1 && b.size(0) == w.size(0), "w and b differ in V");
  STD_TORCH_CHECK(w.scalar_type() == x.scalar_type() && b.scalar_type() == x.scalar_type(),
                  "x, w and b have one dtype");
  Tensor z = torch::stable::new_empty(x, {x.size(0), w.size(0)});  // 3
  THO_DISPATCH_V2(x.scalar_type(), "linear", AT_WRAP([&] { fill<scalar_t>(x, w, b, z); }),  // 4
                  AT_EXPAND(AT_FLOATING_TYPES), ScalarType::BFloat16);
  return z;
}
STABLE_TORCH_LIBRARY(head, m) { m.def("linear(Tensor x, Tensor w, Tensor b) -> Tensor"); }  // 1
STABLE_TORCH_LIBRARY_IMPL(head, CPU, m) { m.impl("linear", TORCH_BOX(&linear)); }
"""

# %% [markdown] id="build"
# ## Build it
# An *ABI* (application binary interface) is what one built library may rely on in another: names of
# functions, and how they are called. The headers are those of torch's [stable
# ABI](https://docs.pytorch.org/docs/stable/notes/libtorch_stable_abi.html): torch promises not to
# change its C functions for at least two years, so that a library built today works in later
# releases. Elsewhere in PyTorch you meet the same macros as `TORCH_CHECK`, `AT_DISPATCH_V2`,
# `TORCH_LIBRARY` and `TORCH_LIBRARY_IMPL`. The compiler needs some seconds.

# %% id="build-run"
HEADERS = """#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Dispatch_v2.h>
using torch::headeronly::ScalarType;
using torch::stable::Tensor;
"""
SOURCE = HEADERS + LOOP + ENTRY
ops = onelayer.load_cpp(SOURCE, name="head.cpp")
print(ops)
print("right:", torch.allclose(ops.linear(turned, W, b), head(x), atol=1e-4))

# %% [markdown] id="schema"
# ## 1. The schema checks the call
# The schema is parsed when the library is loaded. From then on it names the arguments, and a call
# that does not fit is refused before any C++ of ours runs.

# %% id="schema-run"
print("by name:", ops.linear(w=W, b=b, x=x).shape)
try:
    ops.linear(x, W, 3.0)
except RuntimeError as error:
    print(str(error).splitlines()[0])

# %% [markdown] id="row"
# ## And the dispatcher gets a row
# `m.def` makes an entry for the name, `m.impl` puts the kernel into its `CPU` column: chapter 02's
# table. `TORCH_BOX` wraps our function into the one form that all kernels of this ABI have: values
# from a stack, results back onto it. One kernel of the row is ours, and the picture says from which
# file. Remember the `AutogradCPU` line.

# %% id="row-run"
onelayer.show_dispatch(f"{ops.namespace}::linear", x, W, b)

# %% [markdown] id="checks"
# ## 2. A check speaks to the caller
# A wrong shape in the loop means reading beyond the end, and with luck a crash. `STD_TORCH_CHECK`
# throws instead, and the exception arrives in Python as a `RuntimeError` with the line.

# %% id="checks-run"
for wrong in [(x[0], W, b), (x[:, :32], W, b), (x, W, b[:7])]:
    try:
        ops.linear(*wrong)
    except RuntimeError as error:
        print(error)

# %% [markdown] id="allocation"
# ## 3. Memory comes from torch
# `new_empty` gives the result the dtype and the device of `x`, and memory of torch's own allocator,
# with whatever was in it. It is an operator itself. The profiler sees what our kernel calls, and
# nothing in the list copies:

# %% id="allocation-run"
os.environ["KINETO_LOG_LEVEL"] = "99"  # the profiler's own log stays off this page
with torch.autograd.profiler.profile() as seen:
    ops.linear(turned, W, b)
print(*(event.name for event in seen.function_events), sep="\n")

# %% [markdown] id="dtype"
# ## 4. One loop, compiled for each dtype
# `T` is a template parameter: the compiler makes a loop for each dtype in the list of
# `THO_DISPATCH_V2`, and a `switch` on `scalar_type()` picks one at run time. (`AT_WRAP` lets the
# call hold commas.) The list is `AT_FLOATING_TYPES`, which are float32 and float64, and bfloat16.
# What comes back for int64?

# %% id="dtype-guess"
predict("linear_of_int64", choices=["int64 logits", "float32 logits", "an error"])

# %% id="dtype-run"
for dtype in (torch.float32, torch.float64, torch.bfloat16):
    print(dtype, ops.linear(*(t.detach().to(dtype) for t in (x, W, b))).dtype)
try:
    outcome = str(ops.linear(*(t.detach().long() for t in (x, W, b))).dtype)
except RuntimeError as error:
    outcome = "an error"
    print(error)

# %% id="dtype-reveal"
reveal("linear_of_int64", outcome)

# %% [markdown] id="dtype-why"
# Nobody converts for you: the kernel meets the dtype that the tensor has. Inside the loop it is
# free to be better. Ours adds in `double` and rounds to `T` once, at the end; `T sum` in bfloat16
# would round to 8 bits at each of 64 steps:

# %% id="dtype-sum"
xb, wb, bb = (t.detach().bfloat16() for t in (x, W, b))
exact = xb.double() @ wb.double().T + bb.double()
each = bb.expand(7, 600)
for d in range(64):
    each = each + xb[:, d : d + 1] * wb[:, d]
for rounded, logits in {"once": ops.linear(xb, wb, bb), "at each step": each}.items():
    print(f"rounded {rounded:13} largest error {(logits.double() - exact).abs().max().item():.3f}")

# %% [markdown] id="parallel"
# ## 5. Who loops over which rows?
# `parallel_for(begin, end, grain, f)` cuts the range into chunks, at most one for each thread that
# it takes. The grain says how many rows are worth a thread. Seven rows, two threads, a grain of 4:
# how many chunks?

# %% id="parallel-guess"
predict("chunks_of_seven_rows", choices=[1, 2, 7])

# %% id="parallel-build"
CHUNKS = """#include <torch/csrc/stable/ops.h>
#include <mutex>
extern "C" int chunks(int64_t rows, int64_t grain, int64_t* begins) {
  int count = 0;
  std::mutex one_at_a_time;
  torch::stable::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    std::lock_guard<std::mutex> lock(one_at_a_time);
    begins[count++] = begin;
  });
  return count;
}
"""
chunker = onelayer.load_cpp(CHUNKS).library


# %% id="parallel-call"
def chunks(rows, grain):
    begins = (ctypes.c_int64 * rows)()
    count = chunker.chunks(ctypes.c_int64(rows), ctypes.c_int64(grain), begins)
    return sorted(begins[:count])


# %% id="parallel-run"
threads = torch.get_num_threads()
torch.set_num_threads(2)
cut = {grain: chunks(7, grain) for grain in (1, 4, 7)}
torch.set_num_threads(threads)
for grain, begins in cut.items():
    print(f"grain {grain}: chunks begin at rows {begins}")
reveal("chunks_of_seven_rows", len(cut[4]))

# %% [markdown] id="parallel-why"
# It takes as many threads as there are grains in the range, rounded up, or all that there are, and
# [cuts the range
# evenly](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/ParallelOpenMP.h). So a
# chunk can be smaller than the grain: here the second has 3 rows. With a grain of at least the
# whole range nobody is woken, and the calling thread does it all. No two chunks write the same row
# of `z`, so our operator needs no lock; the one above only guards the list of beginnings.

# %% [markdown] id="layouts"
# ## 6. Any strides, no copy
# The loop reads `x[n, d]` at `n * x.stride(0) + d * x.stride(1)`. So it takes transposed, expanded
# and empty inputs as they lie; many kernels call `contiguous(x)` first, and pay for the copy.

# %% id="layouts-run"
layouts = {
    "turned": turned,
    "every second row": onelayer.hidden("<en> she has eaten <es> ella ha")[::2],
    "one row, expanded": x[:1].expand(5, 64),
    "no row": x[:0],
}
for name, rows in layouts.items():
    good = torch.allclose(ops.linear(rows, W, b), head(rows), atol=1e-4)
    print(f"{name:18} strides {rows.stride()!s:9} right: {good}")

# %% [markdown] id="no-gradient"
# ## Where is the gradient?
# `W` requires a gradient, and nobody has said how to compute it. In the picture above a fallback
# stood in the `AutogradCPU` line: torch's own function for operators without a formula. We call
# `backward()` on the operator's result. What is in `W.grad`?

# %% id="no-gradient-guess"
predict(
    "gradient_without_a_formula",
    choices=["the right gradient", "zeros", "None, and a warning", "an error"],
)

# %% id="no-gradient-run"
head.zero_grad()
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    try:
        z = ops.linear(x, W, b)
        print("requires_grad", z.requires_grad)
        z.sum().backward()
        values = "the right gradient" if W.grad is not None and W.grad.any() else "zeros"
        outcome = "None, and a warning" if W.grad is None and said else values
    except RuntimeError as error:
        outcome = "an error"
        print(error)
print(*(str(w.message).split(". ")[0] for w in said), sep="\n")

# %% id="no-gradient-reveal"
reveal("gradient_without_a_formula", outcome)

# %% [markdown] id="no-gradient-why"
# The dispatcher visits the `Autograd` column before `CPU` and finds nothing of ours there. A
# [fallback of
# torch](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/autograd_not_implemented_fallback.cpp)
# stands in. The fallback calls our kernel. Where the result then has no history, the fallback gives
# it a node that warns and passes no gradient: the training loop goes on, and neither this layer nor
# any before it learns.

# %% [markdown] id="recorded-inside"
# ## Why had it no history?
# Autograd records operators, and our kernel called none that computes: it wrote through pointers.
# Take that away. Here are two kernels that return a copy of `x`, registered alike and both without
# a gradient. One writes through pointers; the other calls an operator of torch, `clone`. What does
# the second one's `backward()` give?

# %% id="recorded-inside-guess"
predict(
    "gradient_through_called_operators",
    choices=["the right gradient, and a warning", "None, and a warning", "an error"],
)

# %% id="recorded-inside-build"
COPIES = (
    HEADERS
    + """
Tensor by_pointers(const Tensor& x) {
  Tensor z = torch::stable::new_empty(x, {x.size(0)});
  for (int64_t i = 0; i < x.size(0); ++i)
    z.mutable_data_ptr<float>()[i] = x.const_data_ptr<float>()[i];
  return z;
}
Tensor by_operators(const Tensor& x) { return torch::stable::clone(x); }
STABLE_TORCH_LIBRARY(copies, m) {
  m.def("by_pointers(Tensor x) -> Tensor");
  m.def("by_operators(Tensor x) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(copies, CPU, m) {
  m.impl("by_pointers", TORCH_BOX(&by_pointers));
  m.impl("by_operators", TORCH_BOX(&by_operators));
}
"""
)
copies = onelayer.load_cpp(COPIES, name="copies.cpp")

# %% id="recorded-inside-run"
grads, warned = {}, {}
for kernel in ("by_pointers", "by_operators"):
    learning = torch.ones(3, requires_grad=True)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        z = getattr(copies, kernel)(learning)
        z.sum().backward()
    grads[kernel], warned[kernel] = learning.grad, bool(said)
    print(f"{kernel:13} node {z.grad_fn.name():15} gradient {learning.grad}, warned {bool(said)}")

# %% id="recorded-inside-reveal"
right = grads["by_operators"] is not None and (grads["by_operators"] == 1).all()
gave = "the right gradient" if right else "None"
reveal("gradient_through_called_operators", gave + ", and a warning" * warned["by_operators"])

# %% [markdown] id="recorded-inside-why"
# The fallback leaves autograd on while it calls the kernel. So operators that the kernel calls are
# recorded, each with its own formula, in C++ as in Python; what goes through pointers is recorded
# by nobody. Autocast is the same: it casts for the operators inside. torch warns in both cases,
# because it may [end this one
# day](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/autograd_not_implemented_fallback.cpp).
# `custom_op` is stricter: without a formula its backward raises.

# %% id="recorded-inside-python"
python = torch.library.Library("chapter06_python", "FRAGMENT")
python.define("linear(Tensor x, Tensor w, Tensor b) -> Tensor")
python.impl("linear", lambda x, w, b: F.linear(x, w, b), "CPU")
print("in Python:", torch.ops.chapter06_python.linear(x, W, b).grad_fn.name())
with torch.autocast("cpu", torch.bfloat16):
    print("under autocast:", torch.ops.chapter06_python.linear(x, W, b).dtype)
try:
    by_pointers(x, W, b).sum().backward()
except RuntimeError as error:
    print("custom_op:", error)

# %% [markdown] id="autograd"
# ## Register the formula
# `setup_context` says what to save, `backward` is the formula of chapter 03, and
# `register_autograd` puts both into the `Autograd` column. We load the library anew, to register
# everything in good order.

# %% id="autograd-run"
ops = onelayer.load_cpp(SOURCE, name="head.cpp")
name = f"{ops.namespace}::linear"


def setup_context(ctx, inputs, output):
    ctx.save_for_backward(inputs[0], inputs[1])


def backward(ctx, dz):
    x, w = ctx.saved_tensors
    dx = dz @ w if ctx.needs_input_grad[0] else None
    return dx, dz.T @ x, dz.sum(0)


torch.library.register_autograd(name, backward, setup_context=setup_context)
small = [t.detach()[:5].double().requires_grad_() for t in (x, W, b)]
print("gradcheck:", torch.autograd.gradcheck(ops.linear, small))
onelayer.show_graph(ops.linear(x, W, b), names={"W": W, "b": b, "x": x})

# %% [markdown] id="autocast"
# ## Does autocast know it?
# Under `torch.autocast`, `F.linear` computes in bfloat16. And our operator, given the same
# float32 tensors?

# %% id="autocast-guess"
predict("dtype_under_autocast", choices=["torch.bfloat16", "torch.float32", "an error"])

# %% id="autocast-run"
with torch.autocast("cpu", torch.bfloat16):
    print("F.linear", F.linear(x, W, b).dtype)
    ours = ops.linear(x, W, b).dtype
reveal("dtype_under_autocast", str(ours))

# %% [markdown] id="autocast-why"
# Autocast is a column as well, and it lets the call of an operator through that it does not know.
# Our loop then meets the tensors as they are. With mixed inputs our check raises: below, `x` is in
# bfloat16, as from a layer before, and `W` is still float32. One line, `register_autocast`, says
# which dtype this operator wants on this device, whatever dtype the region names:

# %% id="autocast-register"
with torch.autocast("cpu", torch.bfloat16):
    try:
        ops.linear(x.bfloat16(), W, b)
    except RuntimeError as error:
        print(error)
torch.library.register_autocast(name, "cpu", torch.bfloat16)
with torch.autocast("cpu", torch.float16):
    print("now", ops.linear(x.bfloat16(), W, b).dtype)
    onelayer.show_dispatch(name, x, W, b)

# %% [markdown] id="fake"
# ## What is the shape of the result?
# `torch.compile` and `torch.export` run a program on tensors without data, to learn shapes, dtypes
# and strides. Our operator has a kernel in the `CPU` column. What does it answer to a `meta`
# tensor?

# %% id="fake-guess"
predict("call_without_data", choices=["a meta tensor (7, 600)", "a crash", "an error"])

# %% id="fake-run"
without_data = [t.detach().to("meta") for t in (x, W, b)]
try:
    outcome = f"a meta tensor {tuple(ops.linear(*without_data).shape)}"
except NotImplementedError as error:
    outcome = "an error"
    print(str(error).split(". ")[0])

# %% id="fake-reveal"
reveal("call_without_data", outcome)

# %% [markdown] id="fake-why"
# There is no kernel for `Meta`, and torch cannot guess a shape from C++. The *fake* kernel, in
# Python, allocates as the real one does, and computes nothing. It has to agree with part 3 for
# every input, empty ones included.


# %% id="fake-register"
@torch.library.register_fake(name)
def linear_fake(x, w, b):
    return x.new_empty(x.shape[0], w.shape[0])


print(ops.linear(*without_data))

# %% [markdown] id="compile"
# ## One node in the graph
# Now the compiler can look ahead without running the operator. `fullgraph=True` would raise if the
# compiler had to leave a line to Python. Below is the graph that it captured: the operator is one
# node, into which the compiler does not look.


# %% id="compile-run"
def show_nodes(graph, example_inputs):
    print(*(node.target for node in graph.graph.nodes if node.op == "call_function"), sep="\n")
    return graph


@torch.compile(backend=show_nodes, fullgraph=True)
def doubled_logits(x):
    return ops.linear(x, W, b) * 2


print(doubled_logits(x).shape)

# %% [markdown] id="lie"
# ## Who checks the promises?
# The schema of `doubled` promises only to read `x`. In truth the kernel doubles `x` itself, and
# returns a copy. In the alias notation of chapter 02 its argument would have to be `Tensor(a!) x`.

# %% id="lie-run"
LIE = """
Tensor doubled(const Tensor& x) {
  float* at = x.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) at[i] *= 2;
  return torch::stable::clone(x);
}
STABLE_TORCH_LIBRARY(lie, m) { m.def("doubled(Tensor x) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(lie, CPU, m) { m.impl("doubled", TORCH_BOX(&doubled)); }
"""
lie = onelayer.load_cpp(HEADERS + LIE)
torch.library.register_fake(f"{lie.namespace}::doubled", torch.empty_like)
ones = torch.ones(3)
print(lie.doubled(ones), "| and the input now:", ones)

# %% [markdown] id="opcheck"
# ## `opcheck` does
# `opcheck` calls the operator with your inputs, and compares what it does with what it promised, in
# four tests. Does it change and return what its schema says? If a result has a gradient, does that
# come from the `Autograd` column? Does its fake make the same shapes, dtypes and strides? Are
# results and gradients the same when torch's compiler has traced the call? How many of the four
# catch the lie?

# %% id="opcheck-guess"
predict("tests_that_catch_the_lie", choices=[1, 2, 3, 4])

# %% id="opcheck-run"
checked = torch.library.opcheck(lie.doubled.default, (torch.ones(3),), raise_exception=False)
for test, outcome in checked.items():
    print(f"{test:28}", str(outcome).split(".")[0])

# %% id="opcheck-reveal"
reveal("tests_that_catch_the_lie", sum(said != "SUCCESS" for said in checked.values()))

# %% [markdown] id="opcheck-why"
# Only the first test looks at the input after the call; two others compare results, which are the
# same, and one has nothing to do where no gradient is wanted. Take away what it sees: a second
# kernel puts `x` back before it returns. A third has an honest schema. And what does a compiler
# make of each, in a function that uses `x` afterwards?


# %% id="opcheck-cause"
def afterwards(x, doubled):
    doubled(x)
    return x + 0


COPY = "return torch::stable::clone(x);"
PUT_BACK = f"auto copy = [&] {{ {COPY} }}();\n for (int i = 0; i < x.numel(); ++i) at[i] /= 2;"
kernels = {
    "the lie": LIE,
    "put back": LIE.replace(COPY, PUT_BACK + "return copy;"),
    "honest": LIE.replace("Tensor x)", "Tensor(a!) x)"),
}
for kernel, source in kernels.items():
    doubled = onelayer.load_cpp(HEADERS + source).doubled.default
    torch.library.register_fake(doubled, torch.empty_like)
    said = torch.library.opcheck(doubled, (torch.ones(3),), raise_exception=False)
    caught = [test for test, outcome in said.items() if outcome != "SUCCESS"]
    compiled = torch.compile(afterwards, backend="aot_eager")(torch.ones(3), doubled)
    eager = afterwards(torch.ones(3), doubled)
    print(f"{kernel:9} caught by {caught}, x is {eager.tolist()}, compiled {compiled.tolist()}")

# %% [markdown] id="opcheck-promise"
# What is put back nobody notices. The compiler believed the lie: nobody uses what `doubled`
# returns, and its schema changes nothing, so the call was dropped. Now the same four tests for our
# own operator, once with inputs that want gradients and once with other strides. None of the four
# asks whether the formula of the gradient is right: that was `gradcheck`.

# %% id="opcheck-ours"
learning = [t.detach().clone().requires_grad_() for t in (x, W, b)]
for inputs in (learning, [turned, W.detach(), b.detach()]):
    print(torch.library.opcheck(ops.linear.default, tuple(inputs)))

# %% [markdown] id="first-evening-ends"
# ## The first evening ends here
# You have an operator: schema, checks, a C++ kernel, gradient, autocast and fake, held against its
# promises by `opcheck`. That stands alone, with questions 6.1 to 6.3 and 6.6 to 6.8 of the lab. The
# second evening writes the kernel for a GPU.

# %% [markdown] id="thread"
# ## A thread for each output
# The simplest kernel for a GPU has no loop over outputs: one thread makes one element of `z`. All
# threads run the same function, the one marked `__global__`; they come in *blocks*, and `blockIdx`
# and `threadIdx` tell a thread which element is its own. `launch` runs on the CPU, the *host*.
# Between `<<<` and `>>>` it says how many blocks there are, the *grid*, and how many threads are in
# each.

# %% id="thread-run"
NAIVE = """
__global__ void naive(const float* x, const float* w, const float* b, float* z,
                      int N, int V, int D) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;  // its column: a word
  int n = blockIdx.y * blockDim.y + threadIdx.y;  // its row: a token
  if (n >= N || v >= V) return;
  float sum = b[v];
  for (int d = 0; d < D; ++d) sum += x[n * D + d] * w[v * D + d];
  z[n * V + v] = sum;
}
extern "C" void launch(const float* x, const float* w, const float* b, float* z,
                       int N, int V, int D) {
  dim3 block(16, 16), grid((V + 15) / 16, (N + 15) / 16);
  naive<<<grid, block>>>(x, w, b, z, N, V, D);
}
"""

# %% [markdown] id="on-the-cpu"
# ## Run it here
# `onelayer.cuda_cpu` compiles the same source for this processor and runs the threads one at a
# time, as slowly as that sounds. In return it watches every access. Nothing here measures speed.


# %% id="on-the-cpu-run"
def run_cuda(source, x, w=W, b=b):
    z = torch.full((len(x), len(w)), float("nan"))
    run = cuda_cpu.build(source).call("launch", x, w.detach(), b.detach(), z, *z.shape, w.shape[1])
    return z, run


z, run = run_cuda(NAIVE, x)
print("right:", torch.allclose(z, head(x), atol=1e-4))
print(run)

# %% [markdown] id="grid"
# ## How many blocks?
# Our blocks have 16 by 16 threads. `z` is 7 by 600, and 600 is not a multiple of 16. How many
# blocks did we launch?

# %% id="grid-guess"
predict("blocks_for_the_head", choices=[17, 37, 38, 76])

# %% id="grid-run"
(launch,) = run.launches
print("grid", launch.grid, "| block", launch.block, "| threads", f"{launch.threads:,}")
print("outputs", f"{z.numel():,}")

# %% id="grid-reveal"
reveal("blocks_for_the_head", launch.grid[0] * launch.grid[1])

# %% [markdown] id="grid-why"
# The division is rounded up, along both sides. More than half of the threads have no output: nine
# of sixteen rows do not exist, and the last block hangs over by eight columns. `if (n >= N || v >=
# V) return;` sends them home. It is called the *guard*. The threads that went home count in the
# mean that was printed above: 55.69 loads a thread.

# %% [markdown] id="guard"
# ## Without the guard
# The thread for column 600 of row 0 would write `z[0 * 600 + 600]`. Is that beyond the end of `z`?

# %% id="guard-guess"
predict("column_600_of_row_0", choices=["beyond the end of z", "the first element of row 1"])

# %% id="guard-reveal"
flat = torch.zeros(7, 600)
flat.view(-1)[0 * 600 + 600] = 1
row, column = flat.nonzero()[0].tolist()
reveal("column_600_of_row_0", "the first element of row 1" if (row, column) == (1, 0) else "?")

# %% [markdown] id="guard-why"
# This is the worst kind of mistake: it damages another result. A thread beyond the edge also reads
# what `x`, `w` or `b` does not have. `cuda_cpu` stops such an access before it happens, and names
# its line and the thread:

# %% id="guard-run"
GUARD = "  if (n >= N || v >= V) return;\n"
assert GUARD in NAIVE
for fault in run_cuda(NAIVE.replace(GUARD, ""), x)[1].faults[:1]:
    print(fault)

# %% [markdown] id="grid-stride"
# ## Fewer threads than outputs
# One thread for each output is a choice. Here four blocks of 128 threads make all 4,200 elements:
# each thread goes on by the number of all threads, a [grid-stride
# loop](https://developer.nvidia.com/blog/cuda-pro-tip-write-flexible-kernels-grid-stride-loops/).

# %% id="grid-stride-run"
STRIDED = """
__global__ void strided(const float* x, const float* w, const float* b, float* z,
                        int N, int V, int D) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N * V; i += gridDim.x * blockDim.x) {
    float sum = b[i % V];
    for (int d = 0; d < D; ++d) sum += x[i / V * D + d] * w[i % V * D + d];
    z[i] = sum;
  }
}
extern "C" void launch(const float* x, const float* w, const float* b, float* z,
                       int N, int V, int D) {
  strided<<<4, 128>>>(x, w, b, z, N, V, D);
}
"""
z, run = run_cuda(STRIDED, x)
(launch,) = run.launches
right = torch.allclose(z, head(x), atol=1e-4)
print("right:", right, "| threads", launch.threads, "| outputs", f"{z.numel():,}")

# %% [markdown] id="tiles"
# ## Everybody loads the same
# All 16 threads of a row of a block read the same row of `x`, and all 16 of a column the same row
# of `w`. The tensors lie in *global memory*, which is large and far. A block has *shared memory* of
# its own, which is small and near. In the tiled kernel the block copies a *tile* of `x` and one of
# `w`, 16 by 16 elements each, into shared memory, uses each element 16 times, and goes on to the
# next tiles. Choose a block and a thread, and step through:

# %% id="tiles-run"
onelayer.show_tiles(n=7, tile=16)

# %% [markdown] id="tiled"
# ## The same as code
# Thread `(tx, ty)` brings one element of each tile, whichever its own output will be; beyond the
# edge of `x` or `w` it brings 0. The guard has moved to the last line of the kernel: a thread that
# went home early would leave a hole in the tile, and its neighbours need that element.
# `__syncthreads()` makes all threads of a block wait for each other.

# %% id="tiled-source"
TILED = """
#define T 16
__global__ void tiled(const float* x, const float* w, const float* b, float* z,
                      int N, int V, int D) {
  __shared__ float xs[T][T], ws[T][T];
  int tx = threadIdx.x, ty = threadIdx.y;
  int n = blockIdx.y * T + ty, v = blockIdx.x * T + tx, brought = blockIdx.x * T + ty;
  float sum = 0;
  for (int first = 0; first < D; first += T) {
    int d = first + tx;
    xs[ty][tx] = n < N && d < D ? x[n * D + d] : 0;
    ws[ty][tx] = brought < V && d < D ? w[brought * D + d] : 0;
    __syncthreads();  // the tiles are complete
    for (int k = 0; k < T; ++k) sum += xs[ty][k] * ws[tx][k];
    __syncthreads();  // the tiles are used up
  }
  if (n < N && v < V) z[n * V + v] = sum + b[v];
}
extern "C" void launch(const float* x, const float* w, const float* b, float* z,
                       int N, int V, int D) {
  tiled<<<dim3((V + T - 1) / T, (N + T - 1) / T), dim3(T, T)>>>(x, w, b, z, N, V, D);
}
"""

# %% id="tiled-run"
z, run = run_cuda(TILED, x)
print("right:", torch.allclose(z, head(x), atol=1e-4))
print(run)

# %% [markdown] id="loads"
# ## Count what they load
# We take 16 rows and 592 words, so that every thread has an output. A naive thread loads 64
# elements of `x`, 64 of `w`, and one of `b`. How many does a tiled one load from global memory?

# %% id="loads-guess"
predict("loads_of_a_tiled_thread", choices=[5, 9, 65, 129])

# %% id="loads-run"
sixteen = x.repeat(3, 1)[:16].contiguous()
loads = {}
for kernel, source in {"naive": NAIVE, "tiled": TILED}.items():
    cost = run_cuda(source, sixteen, W[:592], b[:592])[1].cost
    loads[f"{kernel}, global"] = cost.global_loads
    loads[f"{kernel}, shared"] = cost.shared_loads
onelayer.show_bars(loads, unit="loads a thread")

# %% id="loads-reveal"
reveal("loads_of_a_tiled_thread", round(loads["tiled, global"]))

# %% [markdown] id="loads-why"
# It loads two elements at each of four steps, and the bias: each element is used 16 times, the
# tile's width, once it is near. These are loads that threads ask for. What they cost depends on
# three things that no count here shows:
#
# - the caches of a GPU answer a part of the loads;
# - in the tiled kernel threads with neighbouring `tx` load from neighbouring addresses, because
#   `tx` runs along `d`, and a GPU makes one access of them (it *coalesces* them);
# - shared memory is cut into 32 *banks*, and threads that read different addresses of one bank wait
#   for each other. All `ws[tx][k]` of one `k` lie in two banks. (`ws[T][T + 1]` spreads them.)
#
# Chapter 07 counts the last two from these addresses, and reads from compiled kernels what
# decides how many of their threads fit on a GPU at a time, their *occupancy*.

# %% [markdown] id="neighbours"
# Neighbouring addresses matter because memory sends whole *sectors* of 32 bytes. Here is the corner
# of `w`, and the first load of `w` by one warp, 32 threads: dark is what its threads want, light is
# what memory sends along and nobody wants. To ask for neighbours is called *coalescing*.

# %% id="neighbours-run"
warp = [(lane % 16, lane // 16) for lane in range(32)]  # (tx, ty)
onelayer.show_moved(
    64,
    naive=[(tx, 0) for tx, ty in warp],  # w[v * D + d], and v runs along tx
    tiled=[(ty, tx) for tx, ty in warp],  # w[brought * D + d]: brought along ty, d along tx
)

# %% [markdown] id="barrier"
# ## What is `__syncthreads()` for?
# This *barrier* lets no thread of a block go on before all threads of the block have come. There
# are two barriers in the loop, one after the tiles are written and one after they are read. Which
# one could be left out?

# %% id="barrier-guess"
predict("barrier_to_leave_out", choices=["the first", "the second", "both", "none"])

# %% id="barrier-run"
FIRST, SECOND = (f"    __syncthreads();  // the tiles are {w}\n" for w in ("complete", "used up"))
missed = []
for which, line in {"the first": FIRST, "the second": SECOND}.items():
    assert line in TILED
    z, run = run_cuda(TILED.replace(line, ""), x)
    print(f"without {which}:", *run.faults[:1])
    missed += [] if run.faults else [which]

# %% id="barrier-reveal"
reveal("barrier_to_leave_out", missed[0] if len(missed) == 1 else "both" if missed else "none")

# %% [markdown] id="barrier-why"
# Without the first, a thread reads an element that its neighbour has not brought yet. Without the
# second, a fast thread brings the next tile while a slow one still reads this one. What a GPU then
# computes depends on which warp was ahead. A right result on one run
# proves nothing.

# %% [markdown] id="nvcc"
# ## The file for a GPU is the same
# Not a line changes. Where CUDA's compiler is installed, here is how large a file it makes for
# three generations of GPUs, such as a T4 (`sm_75`), an A100 (`sm_80`) and an H100 (`sm_90`).

# %% id="nvcc-run"
for architecture in ("sm_75", "sm_80", "sm_90"):
    try:
        print(architecture, f"{len(cuda_cpu.through_nvcc(TILED, architecture)):,} bytes")
    except cuda_cpu.NoCompiler as error:
        print(architecture, error)

# %% [markdown] id="cuda-row"
# ## One name, two kernels
# A kernel for `cuda` is one more column of the same operator. Schema, gradient formula and fake
# stay what they are: they never knew where the data was. The cell prints the columns that are
# filled. What did the CPU have that a call on a GPU does not have yet?


# %% id="cuda-row-run"
def linear_cuda(x, w, b):
    z = x.new_empty(len(x), len(w))
    kernels = cuda_cpu.build(TILED, device="cuda")
    kernels.call("launch", *(t.contiguous() for t in (x, w, b)), z, *z.shape, w.shape[1])
    return z


torch.library.register_kernel(name, "cuda", linear_cuda)
columns = [row.split(":")[0] for row in torch._C._dispatch_dump(name).splitlines()]
print(*(c for c in columns if c.startswith(("Auto", "CPU", "CUDA", "Meta"))), sep="\n")
if torch.cuda.is_available():
    on_gpu = ops.linear(*(t.cuda() for t in (x, W, b)))
    print(on_gpu.device, torch.allclose(on_gpu.cpu(), head(x), atol=1e-4))

# %% [markdown] id="cuda-row-why"
# Autocast is registered for each device, and above we named only `"cpu"`. The checks, the choice of
# the dtype and the strides lived in the C++ kernel: this one takes contiguous float32, and nobody
# compares `D`. It also waits for the whole GPU at each call; a kernel for daily use is launched on
# torch's current stream and waits for nobody.

# %% [markdown] id="headers"
# ## Why did it build so fast?
# A compiler reads every header, and what those include, before it comes to your lines. Our operator
# is a page of code and includes four headers of the stable ABI. How many lines are read in all,
# without comments, and how many would be with other headers?

# %% id="headers-run"
ways = {
    'extern "C"': "#include <cstdint>\n",
    "stable ABI": HEADERS,
    "light ATen": "#include <torch/library.h>\n#include <ATen/core/Tensor.h>\n",
}
lines = {way: onelayer.lines_read(headers) for way, headers in ways.items()}
onelayer.show_bars(lines, unit="lines")

# %% [markdown] id="headers-why"
# Lines are not all that counts: in the table below ATen's headers cost five times the processor
# time for 2.7 times the lines. Include what you use, never `torch/extension.h` out of habit, and
# keep a loop that changes often in a file that needs no header of torch at all.

# %% [markdown] id="headers-recorded"
# <details><summary>Recorded: four ways to build this operator, in compiler time</summary>
#
# | headers | processor time | against the stable ABI |
# |---|---|---|
# | `torch/extension.h` | 29.7 s | 20 |
# | `torch/library.h`, `ATen/core/Tensor.h`, `ATen/ops/empty.h` | 7.4 s | 5 |
# | `torch/csrc/stable/*.h` | 1.5 s | 1 |
# | none of torch's, `extern "C"` | 0.04 s | 0.03 |
#
# Least of three builds, g++ 12.2, `-O2`, torch 2.13.0 for the CPU, two cores of an x86-64 server,
# 21 November 2026; `python -m bench.cpp_builds` of this repository measures it again.
# </details>

# %% [markdown] id="cache"
# ## A second time
# `load_cpp` keeps what it built, by the content of the source, the flags, the compiler and torch.
# `ccache` does the same for any call of a compiler. Does `load_cpp` build again after a new
# comment?

# %% id="cache-guess"
predict("build_after_a_new_comment", choices=["compiles again", "takes what is kept"])

# %% id="cache-run"
again = onelayer.load_cpp(LOOPS)
stamp = f"// {torch.randn(3).tolist()}\n"
commented = onelayer.load_cpp(LOOPS + stamp)
print("the same source: ", again)
print("and a comment:   ", commented)

# %% id="cache-reveal"
reveal("build_after_a_new_comment", "compiles again" if commented.build_s else "takes what is kept")

# %% [markdown] id="cache-why"
# We hash the source as it is. PyTorch's own developers use ccache ([their
# notes](https://github.com/pytorch/pytorch/blob/v2.13.0/CONTRIBUTING.md)), which can hash what the
# preprocessor leaves of it, where comments are gone.
# A build that fails is not kept: the next attempt compiles.

# %% [markdown] id="own-lines"
# ## And when it does not compile
# One wrong word can make a compiler fill a screen with lines of torch's headers. `load_cpp` shows
# the line of yours that led there:

# %% id="own-lines-run"
from onelayer.custom_op.cpp_compiler import CompileError

try:
    onelayer.load_cpp(SOURCE.replace("x.dim() == 2", "x.dims() == 2"), name="head.cpp")
except CompileError as error:
    print(error)

# %% [markdown] id="what-you-can-now-say"
# ## What you can now say
# - A pointer carries no sizes, strides, dtype, device or gradient. An operator gets tensors, which
#   do; its schema tells the dispatcher what it takes and what it changes.
# - A kernel has six parts: metadata, checks, allocation, dispatch on the dtype, a parallel loop,
#   and access by strides.
# - Gradient, autocast and fake are columns of the same row. If you leave out the gradient, torch
#   warns; without autocast it says nothing; without the fake it raises. `opcheck` tests schema,
#   fake and the place of the gradient; autocast is left to you.
# - Here one CUDA thread has one output. A guard sends the threads beyond the edge home; a tile
#   brings each element near once for 16 uses; two barriers keep its writers and readers apart.
# - What a build costs is mostly headers, and a build worth keeping is kept by its content.
#
# Now write one: [Lab 06](../labs/06_custom_op/06_custom_op.ipynb).

# %% [markdown] id="sources"
# ## Where this is written in PyTorch
# - the stable ABI:
#   [`library.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/stable/library.h),
#   [`tensor_struct.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/stable/tensor_struct.h),
#   [`ops.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/stable/ops.h)
# - `TORCH_LIBRARY`: [`library.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/library.h);
#   `STD_TORCH_CHECK`:
#   [`Exception.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/headeronly/util/Exception.h)
# - registering from Python, and `opcheck`:
#   [`torch.library`](https://docs.pytorch.org/docs/stable/library.html)
# - torch's own head on the CPU:
#   [`LinearAlgebra.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/LinearAlgebra.cpp)
# - threads, blocks and shared memory: [CUDA C++ Programming
#   Guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/)
#
# Between torch 2.11 and 2.15 the operator on this page is one source. The full headers change their
# demand:
# [`torch/all.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/api/include/torch/all.h)
# asks for C++17 in 2.13 and for C++20 from 2.14 on, while those of the stable ABI stay with C++17.
