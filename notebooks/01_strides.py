# %% [markdown] id="title"
# # 01 Strides: why moving nothing is free, until it is not
#
# You have written `.transpose(1, 2).reshape(B, T, C)` a hundred times. One of those two calls
# copies every activation of the batch, the other copies nothing, and the line does not say which.
# After this chapter you can say it without running it, and you can find every copy that a forward
# pass makes behind your back.

# %% id="instruments"
import torch
import torch.nn.functional as F

import onelayer
from autograder import predict, reveal

head = onelayer.head()  # nn.Linear(64, 600), trained: 64 features in, 600 words out
W = head.weight.detach()  # (600, 64)

# %% [markdown] id="a-tensor-is-a-note"
# ## A tensor is a note about someone else's floats
# The floats live in a *storage*: one row of bytes with no shape. A tensor is a small note beside
# it: where to start (offset), how long each dimension is (size), and how far one step goes (stride,
# counted in elements, not bytes).

# %% id="a-tensor-is-a-note-run"
storage = W.untyped_storage()
print("storage:", f"{storage.nbytes():,}", "bytes, no shape")
print("note:   ", "size", tuple(W.shape), "stride", W.stride(), "offset", W.storage_offset())

# %% [markdown] id="one-float"
# ## Finding one float
# `W[599, 63]` is the last weight of the last word. Start at the offset, add each index times its
# stride.

# %% id="one-float-run"
place = W.storage_offset() + 599 * W.stride(0) + 63 * W.stride(1)
flat = torch.empty(0).set_(storage)  # (38400,): the storage itself, as one row
print("float number", place, "of", len(flat), "|", flat[place].item() == W[599, 63].item())

# %% [markdown] id="transpose-moves-nothing"
# ## The transpose moved nothing
# `F.linear` multiplies by `W.T`, and `W` holds 153,600 bytes. How many of them does `.T` copy?

# %% id="transpose-moves-nothing-guess"
predict("bytes_copied_by_T", choices=[0, 8, 76_800, 153_600])

# %% id="transpose-moves-nothing-run"
with onelayer.count_bytes() as moved:
    Wt = W.T  # (64, 600), a view
onelayer.show_storage(W, Wt, names=["W", "W.T"])

# %% id="transpose-moves-nothing-reveal"
reveal("bytes_copied_by_T", moved.bytes)

# %% [markdown] id="transpose-moves-nothing-why"
# None. `W.T` is a second note over the same floats, with the two strides exchanged: one step down a
# column of `W.T` is one step along a row of `W`. The bill comes later, from whoever needs those
# columns side by side. We shall meet the bill four times.

# %% [markdown] id="the-visualizer"
# ## Play with it
# Change sizes, strides and offset below, or press an operation. Point at a cell: the storage shows
# where it lives, and who else lives there. Try to make two cells share one float.

# %% id="the-visualizer-run"
onelayer.show_strides((3, 4))

# %% [markdown] id="slices"
# ## A slice is an offset
# `W[:, 5]` is feature 5 of every word. Its 600 floats lie 64 apart. What does the note say?

# %% id="slices-guess"
predict("stride_of_a_column", choices=["(1,)", "(64,)", "(600,)", "it is a copy"])

# %% id="slices-run"
column = W[:, 5]  # (600,)
onelayer.show_storage(W, column, names=["W", "W[:, 5]"])

# %% id="slices-reveal"
reveal("stride_of_a_column", str(column.stride()))

# %% [markdown] id="slices-why"
# Offset 5, stride 64, no copy. The view also keeps the whole storage alive: hold on to one column,
# and 153,600 bytes stay allocated.

# %% id="slices-keep-alive"
column = torch.randn(600, 64)[:, 5]  # the matrix has no name any more
print(
    "bytes in the column:",
    column.nbytes,
    "| bytes it keeps alive:",
    column.untyped_storage().nbytes(),
)

# %% [markdown] id="two-names-one-float"
# ## Two notes, one float
# A view does not only read the same floats. It writes them.

# %% id="two-names-one-float-guess"
predict("x_after_writing_the_view", choices=[0.0, 7.0])

# %% id="two-names-one-float-run"
x = torch.zeros(3, 4)
x.T[0, 2] = 7.0
reveal("x_after_writing_the_view", x[2, 0].item())

# %% [markdown] id="two-names-one-float-why"
# This is why autograd keeps a version number per storage, not per tensor. Chapter 03 comes back to
# it.

# %% [markdown] id="contiguous"
# ## Contiguous means: row by row, no gaps
# A tensor is contiguous when its strides are those of a fresh tensor of its size. `.contiguous()`
# hands back the same tensor if it is, and a copy if it is not.

# %% id="contiguous-run"
for name, t in {"W": W, "W.T": W.T, "W[:300]": W[:300], "W[:, :32]": W[:, :32]}.items():
    with onelayer.count_bytes() as moved:
        t.contiguous()
    row_major = "contiguous" if t.is_contiguous() else ""
    print(f"{name:10} stride {t.stride()!s:10} {row_major:11} copies {moved.bytes:>7,} bytes")

# %% [markdown] id="clone-keeps-the-layout"
# ## A copy need not be contiguous
# `W.T.clone()` allocates 153,600 new bytes. In which order does it write them?

# %% id="clone-keeps-the-layout-guess"
predict("strides_of_a_cloned_transpose", choices=["(600, 1)", "(1, 64)"])

# %% id="clone-keeps-the-layout-run"
reveal("strides_of_a_cloned_transpose", str(W.T.clone().stride()))

# %% [markdown] id="clone-keeps-the-layout-why"
# `clone`, `empty_like`, `W.T * 2` and their kin keep the order of the dimensions in memory
# ("preserve format"). Only `contiguous()` promises row-major order. A layout that you made by
# accident travels on through every pointwise operation.

# %% id="clone-keeps-the-layout-more"
for name, t in {
    "empty_like": torch.empty_like(W.T),
    "* 2": W.T * 2,
    "contiguous": W.T.contiguous(),
}.items():
    print(f"{name:11}{t.stride()}")

# %% [markdown] id="view-or-copy"
# ## `view` refuses, `reshape` pays
# Both give `W.T` a new size. One of them may copy. What does `W.T.view(-1)` do?

# %% id="view-or-copy-guess"
predict("flatten_a_transpose", choices=["a view", "a copy", "an error"])

# %% id="view-or-copy-run"
try:
    W.T.view(-1)
    outcome = "a view"
except RuntimeError as error:
    outcome = "an error"
    print(error)
with onelayer.count_bytes() as moved:
    W.T.reshape(-1)  # (38400,)
print("reshape copied", f"{moved.bytes:,}", "bytes")

# %% id="view-or-copy-reveal"
reveal("flatten_a_transpose", outcome)

# %% [markdown] id="view-or-copy-why"
# No single stride walks down `W.T` row by row, so there is no note to write. But cutting one
# dimension in two always works:

# %% id="view-or-copy-split"
split = W.T.view(64, 24, 25)  # the 600 words in 24 groups of 25
print(split.stride(), "shares storage:", split.untyped_storage().data_ptr() == storage.data_ptr())

# %% [markdown] id="view-or-copy-rule"
# The rule: neighbours merge when one outer step is as long as the whole inner dimension (`stride[d]
# == size[d+1] * stride[d+1]`); merged runs may be cut anywhere. Question 1.4 of the lab asks you
# for it, and torch's own version is
# [`computeStride_impl`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/TensorUtils.cpp).

# %% [markdown] id="broadcasting"
# ## Broadcasting is a stride of 0
# The head adds one bias of 600 floats to every one of 32 tokens. How many bytes does
# `bias.expand(32, 600)` allocate?

# %% id="broadcasting-guess"
predict("bytes_of_an_expand", choices=[0, 2_400, 76_800])

# %% id="broadcasting-run"
bias = head.bias.detach()  # (600,)
with onelayer.count_bytes() as moved:
    many = bias.expand(32, 600)  # (32, 600), stride (0, 1)
onelayer.show_storage(bias[:6], bias[:6].expand(3, 6), names=["bias[:6]", "expanded"])

# %% id="broadcasting-reveal"
reveal("bytes_of_an_expand", moved.bytes)

# %% [markdown] id="broadcasting-why"
# A step of 0 reads the same row again. That is all that broadcasting is: `expand` first, then an
# ordinary elementwise loop. It is also why writing is refused: 32 indices would write one float.

# %% id="broadcasting-write"
try:
    many.add_(1)
except RuntimeError as error:
    print(error)

# %% [markdown] id="overlap"
# ## An overlap that nobody noticed
# `unfold` makes windows over one row. Its elements are shared too, but no stride is 0. What happens
# to a write?

# %% id="overlap-guess"
predict(
    "writing_into_windows", choices=["an error", "the right numbers", "wrong numbers, no error"]
)

# %% id="overlap-run"
windows = torch.arange(6.0).unfold(0, 3, 1)  # (4, 3), stride (1, 1)
right = windows + 1
windows.add_(1)
print(right.tolist(), windows.tolist(), sep="\n")

# %% id="overlap-reveal"
reveal(
    "writing_into_windows",
    "the right numbers" if windows.equal(right) else "wrong numbers, no error",
)

# %% [markdown] id="overlap-why"
# torch tests for overlap before an in-place write, but only cheaply: a stride of 0 is a yes, a
# dense tensor is a no, and everything else is
# [`TooHard`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/MemoryOverlap.cpp) and
# passes. The detective case of the lab lives here.

# %% [markdown] id="memory-formats"
# ## Channels last is only strides
# Convolution libraries like the channels of one pixel side by side. torch does not reorder the
# dimensions for that, only the strides.

# %% id="memory-formats-run"
image = torch.randn(2, 3, 4, 5)  # N, C, H, W
last = image.to(memory_format=torch.channels_last)
print("size  ", tuple(image.shape), tuple(last.shape), "equal values:", image.equal(last))
print("stride", image.stride(), last.stride())

# %% id="memory-formats-guess"
predict("layout_after_a_convolution", choices=["(N, C, H, W) in memory", "(N, H, W, C) in memory"])

# %% id="memory-formats-conv"
convolved = torch.nn.Conv2d(3, 6, 3)(last)  # (2, 6, 2, 3)
kept = convolved.is_contiguous(memory_format=torch.channels_last)
reveal("layout_after_a_convolution", "(N, H, W, C) in memory" if kept else "(N, C, H, W) in memory")

# %% [markdown] id="memory-formats-why"
# The layout went in as strides and came out as strides: no argument named it. The operator looked
# at its input and chose a kernel. Keep that thought for chapter 02, where the *device* and the
# *dtype* choose too.

# %% [markdown] id="einsum"
# ## `einsum` writes addresses
# Each letter is a loop, and each tensor contributes a stride to it. A letter twice in one input
# adds two strides. What does `einsum("ii->i", A)` cost?

# %% id="einsum-guess"
predict(
    "cost_of_a_diagonal", choices=["a copy of the diagonal", "a matrix product", "nothing: a view"]
)

# %% id="einsum-run"
A = torch.arange(16.0).view(4, 4)
with onelayer.count_bytes() as moved:
    diagonal = torch.einsum("ii->i", A)  # (4,), stride 4 + 1
onelayer.show_storage(A, diagonal, names=["A", 'einsum("ii->i", A)'])

# %% id="einsum-reveal"
reveal("cost_of_a_diagonal", "nothing: a view" if moved.bytes == 0 else "a copy of the diagonal")

# %% [markdown] id="einsum-why"
# Stride 5: one step down and one step right. When a letter is summed, `einsum` permutes strides
# until one batched matrix product fits; only where no view fits does it copy. Attention's scores
# are such a place:

# %% id="einsum-attention"
q = torch.randn(2, 10, 4, 16)  # (batch, tokens, heads, features)
with onelayer.count_bytes() as moved:
    scores = torch.einsum("bqhd,bkhd->bhqk", q, q)  # (2, 4, 10, 10)
moved

# %% [markdown] id="indexing"
# ## Slices look, lists copy
# `W[0:3:2]` and `W[[0, 2]]` give the same two rows. Which of them copies?

# %% id="indexing-guess"
predict("which_indexing_copies", choices=["neither", "the slice", "the list", "both"])

# %% id="indexing-run"
rows = torch.tensor([0, 2])
with onelayer.count_bytes() as by_slice:
    W[0:3:2]  # (2, 64), stride (128, 1)
with onelayer.count_bytes() as by_list:
    W[rows]  # (2, 64), new storage
print("slice", by_slice.bytes, "bytes | list", by_list.bytes, "bytes")

# %% id="indexing-reveal"
paid = {"the slice": by_slice.bytes, "the list": by_list.bytes}
reveal(
    "which_indexing_copies",
    " and ".join(name for name, nbytes in paid.items() if nbytes) or "neither",
)

# %% [markdown] id="indexing-why"
# A slice is arithmetic: rows 0 and 2 lie one equal step apart. A list of indices can name any rows,
# which no stride can say, so it gathers them into new memory.

# %% [markdown] id="gather"
# ## Gather is one address per element
# The loss needs one logit per token: the right word's. Here is `gather`, written as addresses, on
# the real head.

# %% id="gather-run"
text = "<en> she has eaten"
h = onelayer.hidden(text)  # (tokens, 64)
logits = F.linear(h, W, bias)  # (tokens, 600)
best = logits.argmax(dim=1, keepdim=True)  # (tokens, 1)
address = torch.arange(len(h))[:, None] * logits.stride(0) + best * logits.stride(1)
print(logits.flatten()[address].equal(logits.gather(1, best)))
onelayer.next_words(logits[-1])

# %% [markdown] id="scatter"
# ## Scatter has a race in it
# Now the other way: write to computed addresses. Three writes go to one place. What remains?

# %% id="scatter-guess"
predict("three_increments_of_one_element", choices=[0.0, 1.0, 3.0])

# %% id="scatter-run"
same = torch.tensor([1, 1, 1])
counted = torch.zeros(5)
counted[same] += 1
reveal("three_increments_of_one_element", counted[1].item())

# %% [markdown] id="scatter-why"
# `counted[same] += 1` reads three times, adds, then writes three times: the last write wins.
# `index_add_` and `scatter_add_` accumulate. An embedding's gradient needs the second kind: the
# same word occurs many times in a batch.

# %% id="scatter-add"
torch.zeros(5).index_add_(0, same, torch.ones(3)).tolist()

# %% [markdown] id="merge-heads"
# ## The copy in every attention layer
# Split 4 heads, move them in front, do the attention, move them back, merge. Which line copies?

# %% id="merge-heads-guess"
predict("which_line_copies", choices=["view", "transpose", "reshape", "none"])

# %% id="merge-heads-run"
x = torch.randn(2, 10, 64)  # (batch, tokens, features)
path = [
    ("view", (2, 10, 4, 16)),
    ("transpose", (1, 2)),
    ("mul", (0.5,)),
    ("transpose", (1, 2)),
    ("reshape", (2, 10, 64)),
]
bill = {}
for name, arguments in path:
    with onelayer.count_bytes() as moved:
        x = getattr(x, name)(*arguments)
    bill[name] = bill.get(name, 0) + moved.bytes
    print(f"{name:10} {moved.bytes:>7,} bytes   stride {x.stride()}")

# %% id="merge-heads-reveal"
copies = [name for name in ("view", "transpose", "reshape") if bill[name]]
reveal("which_line_copies", ", ".join(copies) or "none")

# %% [markdown] id="merge-heads-why"
# None, this time: `mul` kept the layout of its input, so the heads came back to where they had been
# and `reshape` was a view. Put an operation in between that writes row-major, as a matrix product
# does, and the same `reshape` copies the batch:

# %% id="merge-heads-matmul"
x = torch.randn(2, 10, 64).view(2, 10, 4, 16).transpose(1, 2)  # (2, 4, 10, 16)
mixed = torch.softmax(x @ x.mT, dim=-1) @ x  # (2, 4, 10, 16), row-major
with onelayer.count_bytes() as moved:
    mixed.transpose(1, 2).reshape(2, 10, 64)
moved

# %% [markdown] id="layout-picks-the-kernel"
# ## Layout picks the kernel
# One `F.linear`, three inputs with the same values and other strides. What did each run?

# %% id="layout-picks-the-kernel-run"
values = torch.randn(4, 16, 64)
inputs = {
    "(64, 64) contiguous": values.view(64, 64),
    "(4, 16, 64) contiguous": values,
    "(4, 16, 64) transposed": values.transpose(0, 1).contiguous().transpose(0, 1),
}
for name, t in inputs.items():
    with onelayer.count_bytes() as moved:
        F.linear(t, W, bias)
    print(f"{name:24} {moved.bytes:>9,} bytes  {[op.name for op in moved.ops]}")

# %% [markdown] id="layout-picks-the-kernel-why"
# The contiguous batch is folded into one matrix and takes one fused `addmm`. The transposed one
# cannot be folded without a copy, so torch takes a batched product and adds the bias afterwards:
# twice the bytes written for the same numbers. The order of the batch chose the kernel
# ([`linear`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/Linear.cpp)).

# %% [markdown] id="copies-inside-a-kernel"
# ## The copy that even the dispatcher does not see
# A matrix library wants one stride of each matrix to be 1. `W.T` is fine: it passes a "transposed"
# flag. Every second column of a wider matrix is not. Who pays?

# %% id="copies-inside-a-kernel-guess"
predict(
    "who_copies_inside_addmm",
    choices=["nobody", "the transposed input", "the every-second input", "both"],
)


# %% id="copies-inside-a-kernel-run"
import os

os.environ["KINETO_LOG_LEVEL"] = "99"  # the profiler's own log stays off this page


def runs_inside(t):
    """The operators that F.linear(t, W, bias) runs, those called from inside a kernel too."""
    with torch.autograd.profiler.profile() as seen:
        F.linear(t, W, bias)
    return [event.name for event in seen.function_events]


layouts = {
    "contiguous": torch.randn(256, 64),
    "transposed": torch.randn(64, 256).T,
    "every second": torch.randn(256, 128)[:, ::2],
}
cloned = {name: "aten::clone" in runs_inside(t) for name, t in layouts.items()}
cloned

# %% id="copies-inside-a-kernel-reveal"
payers = [
    f"the {name.replace(' ', '-')} input" for name in ("transposed", "every second") if cloned[name]
]
reveal("who_copies_inside_addmm", payers[0] if len(payers) == 1 else "both" if payers else "nobody")

# %% [markdown] id="copies-inside-a-kernel-why"
# The clone happens below the dispatcher's last call, inside `addmm`'s own kernel
# ([`prepare_matrix_for_cublas`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/cuda/Blas.cpp)
# does the same on a GPU). `count_bytes` cannot see it, the profiler can. Two instruments, two
# depths.

# %% [markdown] id="what-layout-costs"
# ## What a layout costs in time
# Adding two matrices reads each float once, in whatever order. Here only the order differs.

# %% id="what-layout-costs-run"
from torch.utils.benchmark import Timer

big = torch.randn(2000, 2000)
same_order = Timer("a + b", globals={"a": big, "b": big}).timeit(20)
other_order = Timer("a + b", globals={"a": big, "b": big.T}).timeit(20)
ratio = other_order.median / same_order.median
print(f"here a + a.T takes {ratio:.1f} times as long as a + a")

# %% [markdown] id="what-you-can-now-say"
# ## What you can now say
# - A tensor is an offset, sizes and strides over a storage; `transpose`, slices, `expand`, `unfold`
#   and a possible `view` only write a new note.
# - `reshape` copies exactly when no strides can say the new shape; `contiguous()` copies exactly
#   when the strides are not row-major; a list of indices always copies.
# - A stride of 0 is broadcasting; two indices with one address make in-place writes wrong, and
#   torch notices only the easy cases.
# - Operators keep and choose by layout: the same `F.linear` runs different kernels for different
#   strides, and may copy where no call shows it.
#
# Now do it by hand: [Lab 01](../labs/01_strides/01_strides.ipynb).

# %% [markdown] id="sources"
# ## Where this is written in PyTorch
# - `view` and its rule:
#   [`TensorUtils.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/TensorUtils.cpp),
#   `reshape`:
#   [`TensorShape.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/TensorShape.cpp)
# - storages and strides:
#   [`TensorImpl.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/TensorImpl.h),
#   [`StorageImpl.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/StorageImpl.h)
# - memory formats:
#   [`MemoryFormat.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/MemoryFormat.h),
#   [the tutorial](https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html)
# - views, and which operations make them: [Tensor
#   Views](https://docs.pytorch.org/docs/stable/tensor_view.html)
#
# Between torch 2.11 and 2.15 nothing in this chapter changed that a reader would see, except one
# name: for a contiguous 3-D input autograd records `UnsafeViewBackward0` in 2.15 where it records
# `ViewBackward0` before. Chapter 03 shows it.
