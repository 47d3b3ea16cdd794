# %% [markdown] id="title"
# # Lab 06: an operator of your own
#
# The head again, written by you this time: as a C++ kernel, as an operator with a schema and
# checks, as two CUDA kernels, and with all that torch wants to know about it: what it returns
# (fake), its backward, its autocast.
#
# Work from top to bottom, in about two hours, after [chapter
# 06](../../notebooks/06_custom_op.ipynb): 6.1 to 6.3 and 6.6 to 6.8 after its first evening, those
# in CUDA after its second. You need a C++ compiler and no GPU: the `.cu` files run on your CPU, and
# the same files go through nvcc. Answers in C++ are text that a function returns. Keep helper
# functions inside the cell of the question that uses them: only those cells are graded. Sizes: N
# tokens, D features, V words; `x (N, D)`, `w (V, D)`, `b (V,)`, `y (N, V)`.

# %% id="setup" tags=["setup"]
import atexit
import ctypes
import functools
import re
import secrets
import shutil
import warnings

import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import onelayer
from onelayer import cuda_cpu, load_cpp

# %% [markdown] id="the-bench"
# The bench is folded: functions that take the *name* of an answer of yours, compile it and run it,
# as the checks do and as you may. `run_cpp("cpu_head", x, w, b)` is y by your C++, `run_cu` by your
# CUDA, and `run_cu(..., count=True)` the loads and stores of all its threads. y is full of NaN
# before, so that what a kernel does not write shows.


# %% id="bench" tags=["setup"] jupyter={"source_hidden": true}
def source_of(name):
    """The text that your function `name` returns. A stub in it is no answer yet."""
    text = eval(name)()
    if not isinstance(text, str):
        raise ValueError(f"{name}() returned {text!r:.60}, and not text")
    if stub := re.search(r'#error "(Lab [^"]*)"', text):
        raise NotImplementedError(stub[1])
    return text


def new_library():
    """A library without operators. A name can be defined once in a process, so each has its own."""
    library = torch.library.Library(f"lab6_{secrets.token_hex(4)}", "FRAGMENT")
    atexit.register(lambda: library)  # it stays: torch 2.11 compiles nothing after one that went
    return library


def strides(*tensors):
    return [stride for t in tensors for stride in t.stride()]


def run_cpp(name, x, w, b):
    """x (N, D), w (V, D), b (V,) -> y (N, V), by the extern "C" function `name` of your C++."""
    N, (V, D) = len(x), w.shape
    memory = torch.full((64 + N * V + 64,), float("nan"))
    y = memory[64 : 64 + N * V].view(N, V)
    kernel = getattr(load_cpp(source_of(name), name=f"{name}.cpp").library, name)
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, w, b, y)]
    kernel(*pointers, *map(ctypes.c_int64, [N, V, D, *strides(x, w, b)]))
    if not torch.cat([memory[:64], memory[64 + N * V :]]).isnan().all():
        raise IndexError("your kernel wrote outside of y")
    return y.clone()


@functools.cache
def operator_in(source):
    """Nobody compares a schema with the C++ behind it: a call would read wrong memory. We do."""
    op = load_cpp(source, name="head.cpp").head
    schema = op.default._schema
    says = [(str(a.type), a.alias_info) for a in [*schema.arguments, *schema.returns]]
    if says != [(kind, None) for kind in ("Tensor", "Tensor", "Optional[Tensor]", "Tensor")]:
        raise TypeError(f"your schema is {schema}")
    return op


def run_operator(name, x, w, b=None):
    """(y, "") by the operator `head` of your C++, or (None, what it says when it refuses)."""
    op = operator_in(source_of(name))
    try:
        return op(x, w, b), ""
    except RuntimeError as refusal:
        return None, str(refusal).splitlines()[0]


def run_cu(name, x, w, b, count=False):
    """As run_cpp, by the host function `launch` of your .cu file. Raises for its first fault.

    count: return instead the loads from global memory, the stores to it, and where it ran.
    """
    return run_file(source_of(name), x, w, b, count)


def run_file(source, x, w, b, count=False):
    """On the CPU, which sees each fault and counts; the values of a GPU, where there is one."""
    y = torch.full((len(x), len(w)), float("nan"))
    run = built(source).call("launch", x, w, b, y, *launch_sizes(x, w, b))
    if not run.ok:
        raise RuntimeError(f"{run.faults[0].kind}: {run.faults[0]}")
    if count:
        costs = [(launch.threads, launch.cost) for launch in run.launches]
        loads = sum(threads * cost.global_loads for threads, cost in costs)
        stores = sum(threads * cost.global_stores for threads, cost in costs)
        return [round(loads), round(stores), "a GPU" if has_gpu() else "the CPU, simulated"]
    return on_gpu(source, x, w, b) if has_gpu() else y


def written_by_neighbours(name, x, w, b):
    """The places of y, in memory, that the first 16 threads of the first block write: the same
    kernels, which every other thread leaves at once."""
    others = "threadIdx.x > 15 || threadIdx.y || threadIdx.z || blockIdx.x || blockIdx.y"
    source = re.sub(r"(__global__[^;{]*\{)", rf"\1 if ({others}) return;", source_of(name))
    y = torch.full((len(x), len(w)), float("nan"))
    built(source).call("launch", x, w, b, y, *launch_sizes(x, w, b))
    return (~y.flatten().isnan()).nonzero().flatten().tolist()


def on_gpu(source, *tensors):
    x, w, b = (t.cuda() for t in tensors)
    y = torch.full((len(x), len(w)), float("nan"), device="cuda")
    built(source, "cuda").call("launch", x, w, b, y, *launch_sizes(x, w, b))
    return y.cpu()


@functools.cache
def built(source, device="cpu"):
    return cuda_cpu.build(source, device=device)


def launch_sizes(x, w, b):
    return [len(x), *w.shape, *strides(x, w, b)]


def has_gpu():
    return torch.cuda.is_available() and shutil.which("nvcc") is not None


# %% id="instruments"
from autograder import answered, check, hint, progress

# %% [markdown] id="worked-example"
# ## Worked example: a kernel is a loop over elements
#
# Scale the features of x: `y[n, d] = x[n, d] * s[d]`. Every kernel of this lab does the same four
# things: **take an element of y**, **find what it reads** (data pointer, index times stride),
# **compute**, **write it**. y comes from `torch.empty`, so it is contiguous.


# %% id="worked-example-code" tags=["worked-example"]
def scaled():
    return r"""
extern "C" void scaled(const float* x, const float* s, float* y,
                       long N, long D, long x_n, long x_d, long s_d) {
    for (long n = 0; n < N; ++n)
        for (long d = 0; d < D; ++d) {            // take an element of y
            const float* from = x + n * x_n + d * x_d;  // find what it reads
            float product = *from * s[d * s_d];   // compute
            y[n * D + d] = product;               // write it
        }
}
"""


x, s, y = torch.arange(6.0).view(2, 3).T, torch.tensor([1.0, 10.0]), torch.empty(3, 2)
kernel = load_cpp(scaled(), name="scaled.cpp").library.scaled
pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, s, y)]
kernel(*pointers, *map(ctypes.c_int64, [3, 2, *strides(x, s)]))
print(x.stride(), y)

# %% [markdown] id="a-kernel-in-cpp"
# ## The head in C++
#
# Write the loops: `y[n, v] = b[v] + sum over d of x[n, d] * w[v, d]`. `x_n` is the stride of x in
# dimension n, in elements: how far it is from `x[n, d]` to `x[n + 1, d]`. x, w and b come with any
# strides, 0 among them, and N may be 0. y is contiguous, and full of NaN.
#
# A pointer that goes astray may take the notebook's kernel with it: save first. Stuck?
# `hint("cpu_head")`


# %% id="cpu_head" role="solution"
def cpu_head():
    """-> C++ with the function cpu_head."""
    return r"""
extern "C" void cpu_head(const float* x, const float* w, const float* b, float* y,
                         long N, long V, long D,
                         long x_n, long x_d, long w_v, long w_d, long b_v) {
    // BEGIN SOLUTION
    for (long n = 0; n < N; ++n)
        for (long v = 0; v < V; ++v) {  // take an element of y
            float sum = b[v * b_v];
            for (long d = 0; d < D; ++d)  // find what it reads, compute
                sum += x[n * x_n + d * x_d] * w[v * w_v + d * w_d];
            y[n * V + v] = sum;  // write it
        }
    // END SOLUTION
}
"""


# %% id="cpu_head_check" role="check"
check("cpu_head")


# %% id="cpu_head_alternative" role="alternative"
def cpu_head():
    """One row of w at a time, read once for all tokens; the bias first."""
    return r"""
#include <cstddef>

struct Row {
    const float* at;
    long step;
    float operator[](long i) const { return at[i * step]; }
};

extern "C" void cpu_head(const float* x, const float* w, const float* bias, float* out,
                         long N, long V, long D,
                         long xn, long xd, long wv, long wd, long bv) {
    for (long v = 0; v != V; ++v) {
        const Row word{w + v * wv, wd};
        for (long n = 0; n != N; ++n) {
            const Row token{x + n * xn, xd};
            double total = 0;
            for (long d = 0; d != D; ++d) total += double(token[d]) * word[d];
            out[v + V * n] = float(total + bias[bv * v]);
        }
    }
}
"""


# %% [markdown] id="real-words"
# And on the page: your loops, on the real head and real tokens.

# %% id="real-words-run"
head = onelayer.head()  # nn.Linear(64, 600): weight (600, 64), bias (600,)
real = (
    onelayer.hidden("<en> she has eaten <es> ella"),  # (6, 64)
    head.weight.detach(),
    head.bias.detach(),
)
with answered():
    print(onelayer.next_words(run_cpp("cpu_head", *real), k=3))

# %% [markdown] id="schemas"
# ## Say what it is: schemas
#
# The dispatcher knows a function by its schema. Define three operators in the library that you are
# given, and register for the CPU the kernels that stand below:
#
# - `head`: from x, w and a bias `b` that may be left out, a new tensor. Kernel `head_kernel`.
# - `cap_`: cuts logits z off at a float `limit`, 30 by default, **in place**, and returns z. Kernel
#   `cap_kernel`.
# - `top`: from z, an int `k`, 3 by default, and a bool `largest`, true by default, that can be
#   given **by keyword only**: two new tensors. Kernel `top_kernel`.
#
# Two of torch's own show the notation: `clamp(Tensor self, Scalar? min=None, Scalar? max=None) ->
# Tensor` and `add_(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)`.
# `library.define("name(Tensor x) -> Tensor")` declares, `library.impl("name", kernel, "CPU")`
# registers: what `m.def` and `m.impl` do in C++. Stuck? `hint("declare_head")`

# %% id="kernels" tags=["setup"]


@torch.no_grad()  # as where a kernel writes through pointers: neither autograd nor autocast sees
@torch.autocast("cpu", enabled=False)  # what it does inside
def head_kernel(x, w, b=None):
    """x (N, D), w (V, D), b (V,) or None -> (N, V), column by column in memory: strides (1, N)."""
    y = w @ x.T  # (V, N)
    return (y if b is None else y + b.unsqueeze(1)).T


def cap_kernel(z, limit=30.0):
    return z.clamp_(max=limit)


def top_kernel(z, k=3, *, largest=True):
    return tuple(z.topk(k, largest=largest))


# %% id="declaring" tags=["setup"] jupyter={"source_hidden": true}
def declared(name, op="", *args, **kwargs):
    """Calls your operator `op`. Without one: the (schema, keys of its kernels) of each operator."""
    library = new_library()
    eval(name)(library)
    ops, namespace = getattr(torch.ops, library.ns), library.ns
    if op:
        return getattr(ops, op)(*args, **kwargs)
    found = {}
    for op in ("head", "cap_", "top"):
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        schema = str(getattr(ops, op).default._schema).removeprefix(f"{namespace}::")
        keys = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
        found[op] = (schema, [key for key in keys if has(f"{namespace}::{op}", key)])
    return found


# %% id="declare_head" role="solution"
def declare_head(library):
    """library: a torch.library.Library without operators. Defines and registers three in it."""
    ### BEGIN SOLUTION
    library.define("head(Tensor x, Tensor w, Tensor? b=None) -> Tensor")
    library.define("cap_(Tensor(a!) z, float limit=30.0) -> Tensor(a!)")
    library.define("top(Tensor z, int k=3, *, bool largest=True) -> (Tensor, Tensor)")
    library.impl("head", head_kernel, "CPU")
    library.impl("cap_", cap_kernel, "CPU")
    library.impl("top", top_kernel, "CPU")
    ### END SOLUTION


# %% id="declare_head_check" role="check"
check("declare_head")


# %% id="declare_head_alternative" role="alternative"
def declare_head(library):
    kernels = {
        "head(Tensor x, Tensor w, Tensor? b=None) -> Tensor y": head_kernel,
        "cap_(Tensor(z!) z, float limit=30.) -> Tensor(z!)": lambda z, limit=30.0: cap_kernel(
            z, limit
        ),
        "top(Tensor z, int k=3, *, bool largest=True) -> (Tensor values, Tensor indices)": (
            lambda z, k=3, largest=True: top_kernel(z, k, largest=largest)
        ),
    }
    for schema, kernel in kernels.items():
        library.impl(library.define(schema), kernel, "CPU")


# %% [markdown] id="an-operator-in-cpp"
# ## The operator, in C++
#
# Now the whole operator. What stands around the loops is the same in every kernel of torch:
# **check the arguments**, **allocate the result**, **pick the kernel of the dtype**. The loops are
# written, for any `T`; write the rest, and register `head`.
#
# It takes float32 and float64, x and w with 2 dimensions and b with 1. `STD_TORCH_CHECK(condition,
# "text ", number)` raises when the condition is false (`TORCH_CHECK`, in code that is built with
# torch). Refuse sizes that do not fit, saying both; mixed dtypes; dtypes without a kernel. Any
# strides and N = 0 are welcome, and so is no bias.
#
# `t.dim()`, `t.size(i)`, `t.scalar_type()` tell what to check, of b behind `if (b)` as `b->dim()`;
# `torch::stable::new_empty(t, {2, 3})` is `t.new_empty(2, 3)`. `m.def` takes the schema of 6.2,
# which must say what the C++ function takes: nobody compares the two. A new text costs the compiler
# about two seconds, the headers most of it. Stuck? `hint("head_operator")`


# %% id="head_operator" role="solution"
def head_operator():
    """-> C++ that defines the operator head in the library lab6 and registers it for the CPU."""
    return r"""
#include <optional>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::headeronly::ScalarType;  // ScalarType::Float is float32, ScalarType::Double float64
using torch::stable::Tensor;

template <typename T>
void loops(const Tensor& x, const Tensor& w, const std::optional<Tensor>& b, const Tensor& y) {
    const T *px = static_cast<const T*>(x.data_ptr()), *pw = static_cast<const T*>(w.data_ptr());
    const T* pb = b ? static_cast<const T*>(b->data_ptr()) : nullptr;
    T* py = static_cast<T*>(y.data_ptr());
    for (int64_t n = 0; n < y.size(0); ++n)
        for (int64_t v = 0; v < y.size(1); ++v) {
            T sum = pb ? pb[v * b->stride(0)] : T(0);
            for (int64_t d = 0; d < w.size(1); ++d)
                sum += px[n * x.stride(0) + d * x.stride(1)] *
                       pw[v * w.stride(0) + d * w.stride(1)];
            py[n * y.stride(0) + v * y.stride(1)] = sum;
        }
}

Tensor head(const Tensor& x, const Tensor& w, const std::optional<Tensor>& b) {
    // BEGIN SOLUTION
    // check the arguments
    STD_TORCH_CHECK(x.dim() == 2 && w.dim() == 2, "x and w have ", x.dim(), " and ", w.dim(),
                    " dimensions, not 2");
    STD_TORCH_CHECK(x.size(1) == w.size(1), "x has ", x.size(1), " features, w has ", w.size(1));
    STD_TORCH_CHECK(x.scalar_type() == w.scalar_type(), "x and w have two dtypes");
    if (b) {
        STD_TORCH_CHECK(b->dim() == 1, "b has ", b->dim(), " dimensions, not 1");
        STD_TORCH_CHECK(b->size(0) == w.size(0), "b has ", b->size(0), " words, w ", w.size(0));
        STD_TORCH_CHECK(b->scalar_type() == w.scalar_type(), "b and w have two dtypes");
    }
    // allocate the result
    Tensor y = torch::stable::new_empty(x, {x.size(0), w.size(0)});
    // pick the kernel of the dtype
    if (x.scalar_type() == ScalarType::Float)
        loops<float>(x, w, b, y);
    else if (x.scalar_type() == ScalarType::Double)
        loops<double>(x, w, b, y);
    else
        STD_TORCH_CHECK(false, "there are kernels for float32 and float64 alone");
    return y;
    // END SOLUTION
}

STABLE_TORCH_LIBRARY(lab6, m) {
    // BEGIN SOLUTION
    m.def("head(Tensor x, Tensor w, Tensor? b=None) -> Tensor");
    // END SOLUTION
}

STABLE_TORCH_LIBRARY_IMPL(lab6, CPU, m) { m.impl("head", TORCH_BOX(&head)); }
"""


# %% id="head_operator_check" role="check"
check("head_operator")


# %% id="head_operator_alternative" role="alternative"
def head_operator():
    """The dtypes through a switch, the checks in a function of their own."""
    return r"""
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <optional>

namespace {
using torch::stable::Tensor;
namespace ho = torch::headeronly;

void fits(const Tensor& t, const char* name, int64_t dims, int64_t size, const Tensor& like) {
    STD_TORCH_CHECK(t.dim() == dims, name, ": ", dims, "-d expected, ", t.dim(), "-d given");
    STD_TORCH_CHECK(t.size(dims - 1) == size, name, ": size ", size, " expected, ",
                    t.size(dims - 1), " given");
    STD_TORCH_CHECK(t.scalar_type() == like.scalar_type(), name, ": another dtype");
}

template <class T>
Tensor product(const Tensor& x, const Tensor& w, const std::optional<Tensor>& b) {
    auto y = torch::stable::new_empty(x, {x.size(0), w.size(0)});
    const auto *from = (const T*)x.data_ptr(), *weight = (const T*)w.data_ptr();
    auto* to = (T*)y.data_ptr();
    for (int64_t n = 0; n < x.size(0); ++n)
        for (int64_t v = 0; v < w.size(0); ++v, ++to) {
            *to = b ? ((const T*)b->data_ptr())[v * b->stride(0)] : T{};
            for (int64_t d = 0; d < w.size(1); ++d)
                *to += from[n * x.stride(0) + d * x.stride(1)] *
                       weight[v * w.stride(0) + d * w.stride(1)];
        }
    return y;
}

Tensor head(Tensor x, Tensor w, std::optional<Tensor> b) {
    STD_TORCH_CHECK(w.dim() == 2, "w: 2-d expected, ", w.dim(), "-d given");
    fits(x, "x", 2, w.size(1), w);
    if (b.has_value()) fits(*b, "b", 1, w.size(0), w);
    switch (w.scalar_type()) {
        case ho::ScalarType::Float: return product<float>(x, w, b);
        case ho::ScalarType::Double: return product<double>(x, w, b);
        default: STD_TORCH_CHECK(false, "no kernel for this dtype");
    }
}
}  // namespace

STABLE_TORCH_LIBRARY(another, library) {
    library.def("head(Tensor x, Tensor w, Tensor? b=None) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(another, CPU, library) { library.impl("head", TORCH_BOX(&head)); }
"""


# %% [markdown] id="a-thread-for-each-element"
# ## A thread for each element
#
# In CUDA the loops over n and v are gone: a grid of blocks of 16 x 16 threads covers y, and each
# thread does the four steps for one element. A function marked `__global__` is what each thread
# runs. `threadIdx.x` and `.y` say which thread of its block it is, `blockIdx` which block,
# `blockDim` how large a block is; so `blockIdx.x * blockDim.x + threadIdx.x` counts on across
# blocks. The host starts it by `kernel<<<grid, block>>>(arguments)`: so many blocks, so many
# threads in each.
#
# V = 600 is no multiple of 16, and N is anything: the threads that hang over the edge must touch
# nothing. Neighbours in x are neighbours in v, because neighbours in y's memory then write
# together: the check looks what neighbouring threads write, and how many loads there are.
#
# The host function says how many blocks there are. A grid without a block is an error on a GPU, so
# N = 0 must launch nothing. Stuck? `hint("naive_head")`


# %% id="naive_head" role="solution"
def naive_head():
    """-> CUDA C++ with the host function launch."""
    return r"""
__global__ void naive_head(const float* x, const float* w, const float* b, float* y,
                           int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    // BEGIN SOLUTION
    int v = blockIdx.x * blockDim.x + threadIdx.x;  // take an element of y
    int n = blockIdx.y * blockDim.y + threadIdx.y;
    if (n >= N || v >= V) return;
    float sum = b[v * b_v];
    for (int d = 0; d < D; ++d)  // find what it reads, compute
        sum += x[n * x_n + d * x_d] * w[v * w_v + d * w_d];
    y[n * V + v] = sum;  // write it
    // END SOLUTION
}

extern "C" void launch(const float* x, const float* w, const float* b, float* y,
                       int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    dim3 block(16, 16);
    // BEGIN SOLUTION
    if (N == 0) return;
    dim3 grid((V + 15) / 16, (N + 15) / 16);
    naive_head<<<grid, block>>>(x, w, b, y, N, V, D, x_n, x_d, w_v, w_d, b_v);
    // END SOLUTION
}
"""


# %% id="naive_head_check" role="check"
check("naive_head")


# %% id="naive_head_alternative" role="alternative"
def naive_head():
    """A row of threads that walks over all elements, however few blocks there are."""
    return r"""
__global__ void walk(const float* x, const float* w, const float* b, float* y, int many,
                     int words, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < many; i += step) {
        const float *row = x + (i / words) * x_n, *word = w + (i % words) * w_v;
        float sum = 0;
        for (int d = D - 1; d >= 0; --d) sum = fmaf(row[d * x_d], word[d * w_d], sum);
        y[i] = sum + b[(i % words) * b_v];
    }
}

extern "C" void launch(const float* x, const float* w, const float* b, float* y,
                       int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    int blocks = (N * V + 127) / 128;
    if (blocks) walk<<<blocks, 128>>>(x, w, b, y, N * V, V, D, x_n, x_d, w_v, w_d, b_v);
}
"""


# %% [markdown] id="tiles"
# ## Tiles in shared memory
#
# The naive kernel reads each row of x V times from global memory. Let a block share instead: for 16
# features at a time its 256 threads load a tile of x and a tile of w into shared memory, **wait**
# for each other, add up 16 products each, and **wait** again before the next tile overwrites this
# one.
#
# Now a thread that hangs over the edge has work: it loads for others, and it must reach every
# `__syncthreads()`. What lies outside x or w counts as 0. The check counts the loads, so a tile
# that is not shared fails. The host function is written. Stuck? `hint("tiled_head")`


# %% id="tiled_head" role="solution"
def tiled_head():
    """-> CUDA C++ with the host function launch."""
    return r"""
constexpr int TILE = 16;

__global__ void tiled_head(const float* x, const float* w, const float* b, float* y,
                           int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    // a column more than needed: then the 16 rows of ws begin in different banks
    __shared__ float xs[TILE][TILE + 1], ws[TILE][TILE + 1];
    int i = threadIdx.y, j = threadIdx.x;                      // my place in the tiles
    int n = blockIdx.y * TILE + i, v = blockIdx.x * TILE + j;  // my element of y
    float sum = 0;
    for (int first = 0; first < D; first += TILE) {  // features first, ..., first + 15
        // BEGIN SOLUTION
        int d = first + j, row = blockIdx.x * TILE + i;  // find what it reads
        xs[i][j] = n < N && d < D ? x[n * x_n + d * x_d] : 0;
        ws[i][j] = row < V && d < D ? w[row * w_v + d * w_d] : 0;
        __syncthreads();  // the tiles are whole
        for (int k = 0; k < TILE; ++k) sum += xs[i][k] * ws[j][k];  // compute
        __syncthreads();  // and nobody needs them any more
        // END SOLUTION
    }
    // BEGIN SOLUTION
    if (n < N && v < V) y[n * V + v] = sum + b[v * b_v];  // write it
    // END SOLUTION
}

extern "C" void launch(const float* x, const float* w, const float* b, float* y,
                       int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    dim3 block(TILE, TILE), grid((V + TILE - 1) / TILE, (N + TILE - 1) / TILE);
    if (N > 0)
        tiled_head<<<grid, block>>>(x, w, b, y, N, V, D, x_n, x_d, w_v, w_d, b_v);
}
"""


# %% id="tiled_head_check" role="check"
check("tiled_head")


# %% id="tiled_head_alternative" role="alternative"
def tiled_head():
    """Tiles of 8, whose size the host decides: in dynamic shared memory, two of them in turn."""
    return r"""
__global__ void shared_rows(const float* x, const float* w, const float* b, float* y,
                            int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    extern __shared__ float memory[];
    const int T = blockDim.x;
    int n = blockIdx.x * T + threadIdx.y, v = blockIdx.y * T + threadIdx.x;
    int word = blockIdx.y * T + threadIdx.y;
    float sum = v < V ? b[v * b_v] : 0.f;
    for (int turn = 0; turn * T < D; ++turn) {
        float* xs = memory + (turn % 2) * 2 * T * T;  // one barrier for each pair of tiles
        float* ws = xs + T * T;
        int d = turn * T + threadIdx.x, mine = threadIdx.y * T + threadIdx.x;
        xs[mine] = 0.f;
        ws[mine] = 0.f;
        if (d < D) {
            if (n < N) xs[mine] = x[n * x_n + d * x_d];
            if (word < V) ws[mine] = w[word * w_v + d * w_d];
        }
        __syncthreads();
        for (int k = 0; k < T; ++k)
            sum += xs[threadIdx.y * T + k] * ws[threadIdx.x * T + k];
    }
    if (n < N && v < V) y[n * V + v] = sum;
}

extern "C" void launch(const float* x, const float* w, const float* b, float* y,
                       int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    if (N == 0) return;
    const int T = 8;
    dim3 grid((N + T - 1) / T, (V + T - 1) / T);
    shared_rows<<<grid, dim3(T, T), 4 * T * T * sizeof(float)>>>(
        x, w, b, y, N, V, D, x_n, x_d, w_v, w_d, b_v);
}
"""


# %% [markdown] id="the-same-file-on-a-gpu"
# The same text on real tokens, on the CPU; then through nvcc, as machine code for three GPUs. Where
# there is a GPU it runs there too, here and in the checks. What the CPU cannot show is speed.

# %% id="the-same-file-on-a-gpu-run"
with answered():
    try:
        text = source_of("tiled_head")
        print(onelayer.next_words(run_cu("tiled_head", *real), k=3))
        for gpu in ("sm_75", "sm_80", "sm_90"):
            print(f"{gpu}: {len(cuda_cpu.through_nvcc(text, gpu)):,} bytes of machine code")
        if has_gpu():
            print(onelayer.next_words(on_gpu(text, *real), k=3), "on", torch.cuda.get_device_name())
    except cuda_cpu.NoCompiler as missing:
        print(missing)

# %% [markdown] id="what-it-would-return"
# ## What would it return?
#
# The compiler runs your operator without data: it asks a *fake kernel* what would come out. Write
# it for `head_kernel` of 6.2, whose result lies column by column: shape, strides, dtype and
# device must be those of the real one. It gets fake tensors, which have no numbers, perhaps of a
# GPU that is not there, and sizes that are symbols: keep them symbols.
#
# For x `(5, 64)` and w `(600, 64)` the strides are `(1, 5)`. Where N is 0 they may be any,
# and where N is 1 the first may be. Stuck? `hint("fake_head")`

# %% id="fakes" tags=["setup"] jupyter={"source_hidden": true}


def new_operator():
    """(name, library) of a new operator whose kernel on the CPU is `head_kernel`."""
    library = new_library()
    op = library.define("head(Tensor x, Tensor w, Tensor? b=None) -> Tensor")  # as in 6.2 and 6.3
    library.impl(op, head_kernel, "CPU")
    return f"{library.ns}::head", library


def operator_of(name):
    namespace, _, op = name.partition("::")
    return getattr(getattr(torch.ops, namespace), op)


def faked(name, n, v, d, *, dtype=torch.float32, device="cpu", bias=True, symbols=False):
    """What your fake kernel says of head: (sizes, strides, dtype, device). symbols: trace it with
    symbols as sizes, and say for each size whether it still is one."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    full_name, library = new_operator()
    torch.library.register_fake(full_name, eval(name), lib=library)
    shapes = [(n, d), (v, d), (v,)]
    if symbols:
        graph = make_fx(operator_of(full_name), tracing_mode="symbolic")(*map(torch.ones, shapes))
        (node,) = (node for node in graph.graph.nodes if "lab6" in str(node.target))
        return [isinstance(size, torch.SymInt) for size in node.meta["val"].shape]
    with FakeTensorMode():
        x, w, b = (torch.empty(s, dtype=dtype, device=device) for s in shapes)
        y = operator_of(full_name)(x, w, b if bias else None)
        return tuple(y.shape), y.stride(), y.dtype, y.device.type


# %% id="fake_head" role="solution"
def fake_head(x, w, b=None):
    """x (N, D), w (V, D), b (V,) or None, all fake -> y (N, V), fake."""
    ### BEGIN SOLUTION
    return x.new_empty(w.shape[0], x.shape[0]).T
    ### END SOLUTION


# %% id="fake_head_check" role="check"
check("fake_head")


# %% id="fake_head_alternative" role="alternative"
def fake_head(x, w, b=None):
    (n, _), (v, _) = x.shape, w.shape
    return torch.empty_strided((n, v), (1, n), dtype=x.dtype, device=x.device)


# %% [markdown] id="backward-and-autocast"
# ## Its backward, and its autocast
#
# `head_kernel` shows autograd and autocast nothing of what it does inside, like a kernel that
# writes through pointers. So no gradient passes your operator, and autocast passes it by. Register
# both. `op` is the operator's name, as in `"lab6_7::head"`:
#
# - `torch.library.register_autograd(op, backward, setup_context=keep)`. `keep(ctx, inputs, output)`
#   is called after the kernel; save what backward reads with `ctx.save_for_backward`. If somebody
#   then writes into x or w, backward must not go on with the new numbers: it raises, unless a copy
#   was saved. `backward(ctx, dy)` answers for x, w and b: what `ctx.needs_input_grad` asks for,
#   else `None`. b may be `None` itself: the dispatcher does not pass on what equals its default,
#   and `needs_input_grad` then has two entries. Between a forward and its backward the operator may
#   be called again, with a bias or without one.
# - `torch.library.register_autocast(op, device, dtype)` casts what comes in: on the `"cpu"`, to
#   bfloat16.
#
# Under autocast y is bfloat16, and the gradients of float32 tensors stay float32. Stuck?
# `hint("teach_head")`

# %% id="teaching" tags=["setup"] jupyter={"source_hidden": true}


class Products(TorchDispatchMode):
    """Counts the matrix products that run inside."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func._opname in ("mm", "bmm", "addmm", "baddbmm")
        return func(*args, **(kwargs or {}))


def taught(name, x, w, b, dy, autocast=False, written=False):
    """(y, [dx, dw, db], products in the backward) of a new operator that your function taught.
    written: into what of x and w does not learn, before the backward; [] where that then raises."""
    x, w = (t.detach().clone().requires_grad_(t.requires_grad) for t in (x, w))
    op, _ = new_operator()
    eval(name)(op)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        y = operator_of(op)(x, w, b)
        operator_of(op)(x + 1, w, b)  # what this forward keeps is not for the backward below
    learn = [t is not None and t.requires_grad for t in (x, w, b)]
    inputs = [t for t, one in zip((x, w, b), learn, strict=True) if one]
    for t in (x, w):
        if written and not t.requires_grad:
            t.zero_()
    try:
        with Products() as products, warnings.catch_warnings(action="ignore"):
            found = iter(torch.autograd.grad(y, inputs, dy.to(y.dtype), allow_unused=True))
    except RuntimeError:
        if not written:
            raise
        return y.detach().contiguous(), [], 0
    answers = [next(found) if one else None for one in learn]
    answers = [dt if dt is None else dt.contiguous() for dt in answers]
    return y.detach().contiguous(), answers, products.count


# %% id="teach_head" role="solution"
def teach_head(op):
    """op: an operator's name, "namespace::head". Registers its backward and what autocast does."""
    ### BEGIN SOLUTION

    def keep(ctx, inputs, output):
        x, w, _ = inputs
        ctx.save_for_backward(x, w)

    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        x_needed, w_needed, *b_needed = ctx.needs_input_grad  # [] where b was left out
        dx = dy @ w if x_needed else None
        dw = dy.T @ x if w_needed else None
        return dx, dw, dy.sum(dim=0) if any(b_needed) else None

    torch.library.register_autograd(op, backward, setup_context=keep)
    torch.library.register_autocast(op, "cpu", torch.bfloat16)
    ### END SOLUTION


# %% id="teach_head_check" role="check"
check("teach_head")


# %% id="teach_head_alternative" role="alternative"
def teach_head(op):
    def setup(ctx, inputs, output):
        learning = ctx.needs_input_grad
        ctx.save_for_backward(*(inputs[1 - i] if learning[i] else None for i in (0, 1)))

    def gradients(ctx, dy):
        w, x = ctx.saved_tensors
        answers = (
            lambda: dy.matmul(w),
            lambda: torch.einsum("nv,nd->vd", dy, x),
            lambda: dy.sum(0),
        )
        needed = (*ctx.needs_input_grad, False)  # without a bias there are two
        return tuple(f() if n else None for f, n in zip(answers, needed, strict=False))

    torch.library.register_autocast(op, "cpu", torch.bfloat16)
    torch.library.register_autograd(op, gradients, setup_context=setup)


# %% [markdown] id="opcheck"
# ## What opcheck finds
#
# `temper` divides logits by a temperature. It works, says its author, and
# [`torch.library.opcheck`](https://docs.pytorch.org/docs/stable/library.html) says otherwise. It
# tests one call at a time, so try more: another t, another floating dtype, a transposed z, a z that
# requires a gradient. Then write the operator right. The schema stays. Stuck?
# `hint("clean_temper")`


# %% id="opcheck-as-found" tags=["worked-example"]
def temper_as_found(library):
    """Its author has seen it work."""
    library.define("temper(Tensor z, float t) -> Tensor")

    def kernel(z, t):
        return z if t == 1.0 else z.div_(t)  # nothing is copied

    def fake(z, t):
        return torch.empty(z.shape)

    library.impl("temper", kernel, "CPU")
    torch.library.register_fake(f"{library.ns}::temper", fake, lib=library)


library = new_library()
temper_as_found(library)
op = getattr(torch.ops, library.ns).temper.default
z = torch.randn(2, 3)
with warnings.catch_warnings(action="ignore"):  # torch warns of the same faults, at length
    for test, result in torch.library.opcheck(op, (z, 2.0), raise_exception=False).items():
        print(f"{test}: {str(result).splitlines()[0]}")

# %% id="tempering" tags=["setup"] jupyter={"source_hidden": true}


def tempered(name, z, t, dy=None):
    """(your z / t, z afterwards, dz or None, {test of opcheck: "SUCCESS" or its error})."""
    library = new_library()
    eval(name)(library)
    op = operator_of(f"{library.ns}::temper").default
    if dy is not None:
        z = z.clone().requires_grad_()
    with warnings.catch_warnings(action="ignore"):
        tests = torch.library.opcheck(op, (z, t), raise_exception=False)
        z = z.detach().clone().requires_grad_(dy is not None)
        y = op(z, t)
        if dy is not None:
            op(z + 1, t + 1)  # what this forward keeps is not for the backward below
        # Without a backward torch records the operators that a kernel calls inside, and opcheck of
        # torch 2.15 is content with that. A kernel that writes through pointers calls none.
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        keys = ("Autograd", "AutogradCPU", "CompositeImplicitAutograd")
        if dy is not None and not any(has(f"{library.ns}::temper", key) for key in keys):
            failed = AssertionError("no backward")
            tests |= dict.fromkeys(
                ("test_autograd_registration", "test_aot_dispatch_dynamic"), failed
            )
        dz = None if dy is None or y.grad_fn is None else torch.autograd.grad(y, z, dy)[0]
    said, faults = {}, 0  # what comes after the first fault follows from it, or not, as it happens
    for test, result in tests.items():
        said[test] = "after a fault" if faults else "SUCCESS"
        if result != "SUCCESS" and not faults:
            said[test], faults = type(result).__name__, 1
    return y.detach().clone(), z.detach().clone(), dz, said


# %% id="clean_temper" role="solution"
def clean_temper(library):
    """library: a torch.library.Library. Defines temper(Tensor z, float t), a new z / t."""
    op = f"{library.ns}::temper"
    library.define("temper(Tensor z, float t) -> Tensor")
    ### BEGIN SOLUTION

    def kernel(z, t):
        return z / t  # always a new tensor: the schema says so

    def fake(z, t):
        return torch.empty_like(z)

    def keep(ctx, inputs, output):
        ctx.t = inputs[1]

    def backward(ctx, dy):
        return dy / ctx.t, None  # an answer for t, too

    library.impl("temper", kernel, "CPU")
    torch.library.register_fake(op, fake, lib=library)
    torch.library.register_autograd(op, backward, setup_context=keep, lib=library)
    ### END SOLUTION


# %% id="clean_temper_check" role="check"
check("clean_temper")


# %% id="clean_temper_alternative" role="alternative"
def clean_temper(library):
    """A kernel made of torch's operators needs no more: each part has a fake and a backward."""
    library.define("temper(Tensor z, float t) -> Tensor")
    library.impl("temper", lambda z, t: torch.div(z, t), "CompositeImplicitAutograd")


# %% [markdown] id="detective-case"
# ## Detective case: three kernels that look right
#
# Three colleagues wrote the head in CUDA, and for each it has given the right logits. Find sizes
# for which it does not: the bench reports what a thread does wrong, and so do sanitizers
# (`cuda_cpu.build(text, sanitize="thread")` for races, `"address"` for what is out of bounds).
#
# Then say for each suspect the kind of its fault, one of `out_of_bounds`, `unwritten_shared`,
# `race`, `divergent_barrier`, `impossible_launch`, and repair it with at most four edits: text of
# one line as it stands there, in one place, and what to put instead, at most 100 characters. Stuck?
# `hint("repair")`

# %% id="suspects" tags=["setup"]
HOST = """
extern "C" void launch(const float* x, const float* w, const float* b, float* y,
                       int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    dim3 block(16, 16), grid((V + 15) / 16, (N + 15) / 16);
    if (N > 0)
        suspect<<<grid, block>>>(x, w, b, y, N, V, D, x_n, x_d, w_v, w_d, b_v);
}
"""
HEADING = """
__global__ void suspect(const float* x, const float* w, const float* b, float* y,
                        int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    int tx = threadIdx.x, ty = threadIdx.y;
    int v0 = blockIdx.x * 16, v = v0 + tx, n = blockIdx.y * 16 + ty;
"""
SUSPECTS = {
    "Ada": HEADING
    + """\
    if (n > N || v > V) return;
    float acc = 0;
    for (int d = 0; d < D; ++d)
        acc = acc + x[x_n * n + x_d * d] * w[w_v * v + w_d * d];
    y[V * n + v] = acc + b[b_v * v];
}
"""
    + HOST,
    "Bo": HEADING
    + """\
    __shared__ float left[16][16], right[16][17];
    float acc = 0;
    for (int d0 = 0; d0 < D; d0 += 16) {
        bool inside = d0 + tx < D;
        left[ty][tx] = inside && n < N ? x[x_n * n + x_d * (d0 + tx)] : 0.f;
        right[ty][tx] = inside && v0 + ty < V ? w[w_v * (v0 + ty) + w_d * (d0 + tx)] : 0.f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) acc = acc + left[ty][k] * right[tx][k];
    }
    if (n < N && v < V) y[V * n + v] = acc + b[b_v * v];
}
"""
    + HOST,
    "Cy": HEADING
    + """\
    __shared__ float left[16][16], right[16][17];
    float acc = 0;
    for (int d0 = 0; d0 < D; d0 += 16) {
        if (v >= V || n >= N) return;
        bool inside = d0 + tx < D;
        left[ty][tx] = inside ? x[x_n * n + x_d * (d0 + tx)] : 0.f;
        right[ty][tx] = inside && v0 + ty < V ? w[w_v * (v0 + ty) + w_d * (d0 + tx)] : 0.f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) acc = acc + left[ty][k] * right[tx][k];
        __syncthreads();
    }
    y[V * n + v] = acc + b[b_v * v];
}
"""
    + HOST,
}


# %% id="repairing" tags=["setup"] jupyter={"source_hidden": true}
def repaired(name, suspect, x, w, b):
    """(the kind of fault that you name, y by the suspect as you edited it)."""
    kind, edits = eval(name)(suspect)
    text = SUSPECTS[suspect]
    if len(edits) > 4:
        raise ValueError(f"{len(edits)} edits: this is another kernel")
    for line, instead in edits:
        if "\n" in line.strip() or len(instead) > 100:
            more = line if "\n" in line.strip() else instead
            raise ValueError(f"{more[:40]!r}...: this edit is more than a line")
        if text.count(line) != 1 or len(line.strip()) < 5:
            raise ValueError(f"{suspect} has not one place that says {line!r}")
        text = text.replace(line, instead)
    return kind, run_file(text, x, w, b)


# %% [markdown] id="run-the-suspects"
# What each author saw: one block, one tile, and nothing to complain about. Now you.

# %% id="run-the-suspects-run"
N, V, D = 16, 16, 16
x, w, b, y = torch.randn(N, D), torch.randn(V, D), torch.randn(V), torch.empty(N, V)
for suspect, text in SUSPECTS.items():
    print(suspect, cuda_cpu.build(text).call("launch", x, w, b, y, *launch_sizes(x, w, b)))


# %% id="repair" role="solution"
def repair(suspect):
    """suspect: "Ada", "Bo" or "Cy" -> (kind of fault, list of (line as it stands, instead))."""
    ### BEGIN SOLUTION
    return {
        "Ada": ("out_of_bounds", [("if (n > N || v > V)", "if (n >= N || v >= V)")]),
        "Bo": (
            "race",
            [
                (
                    "acc = acc + left[ty][k] * right[tx][k];",
                    "acc = acc + left[ty][k] * right[tx][k];\n        __syncthreads();",
                )
            ],
        ),
        "Cy": (
            "divergent_barrier",
            [
                ("if (v >= V || n >= N) return;", ""),
                ("= inside ? x", "= inside && n < N ? x"),
                ("    y[V * n + v] =", "    if (n < N && v < V) y[V * n + v] ="),
            ],
        ),
    }[suspect]
    ### END SOLUTION


# %% id="repair_check" role="check"
check("repair")


# %% id="repair_alternative" role="alternative"
def repair(suspect):
    if suspect == "Ada":
        return "out_of_bounds", [("n > N || v > V", "!(n < N && v < V)")]
    if suspect == "Bo":
        return "race", [("bool inside", "__syncthreads();\n        bool inside")]
    guarded = "if (n >= N || v >= V) acc = 0; else y[V * n + v] = acc"
    return "divergent_barrier", [
        ("        if (v >= V || n >= N) return;\n", "        bool here = n < N;\n"),
        ("left[ty][tx] = inside ? x", "left[ty][tx] = inside && here ? x"),
        ("y[V * n + v] = acc", guarded),
    ]


# %% [markdown] id="what-an-operator-owes"
# ## In your own words
#
# A colleague calls a CUDA kernel through `ctypes` from an `nn.Module`: "it gives the right logits,
# why make an operator of it?" In at most seven sentences: what does a schema tell whom, what breaks
# under `torch.compile` without a fake kernel and why must that one know the strides, what happens
# in backward and under autocast without a registration, why must the tile's threads beyond the edge
# stay alive, and what can a run on the CPU not tell about the kernel?

# %% [markdown] id="what_an_operator_owes" role="free_text" points=5 minutes=8 difficulty=3
# The schema tells the dispatcher, autograd and the compiler what is read, what is written and what
# may share memory, so that they can reorder, functionalize and save; a function called through
# ctypes is invisible to all of them. `torch.compile` runs the program without data and asks the
# fake kernel what comes out: without it tracing stops there, and with wrong strides the code that
# it generates for the next operator reads the wrong elements. Without a backward the graph ends at
# the operator, which writes through pointers, so nothing before it learns, and without an autocast
# rule it meets mixed dtypes or runs in float32. The threads beyond the edge load parts of the tile
# for the others, and a barrier that some threads never reach is undefined: so they stay and only
# the write is masked. A run on the CPU finds faults of logic (bounds, races, barriers); it says
# nothing of speed, coalescing, bank conflicts or occupancy.
#
# **Rubric** (1 point each): a schema says what is read, written and aliased, and who uses that; the
# fake kernel stands in for the data while tracing, and wrong strides make wrong reads; the graph
# ends without a backward, and autocast passes by; all threads of the block must reach the barrier,
# and they load for others; the CPU shows no speed, coalescing, bank conflicts or occupancy.

# %% [markdown] id="where-you-are"
# ## Where you are

# %% id="where-you-are-run"
progress()
