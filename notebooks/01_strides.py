# %% [markdown] id="title"
# # 01 Strides: why moving nothing is free, until it is not
#
# You have written `.transpose(1, 2).reshape(B, T, C)` a hundred times. Sometimes it copies every
# activation of the batch, sometimes nothing, and the line does not say which. After this chapter
# you can say it without running it, and find the copies that a forward pass makes behind your back.
#
# *Reading: about 40 minutes.*

# %% [markdown] id="try-first"
# ## Try it first
# A *stride* says how many floats one step along a dimension skips. Change sizes, strides and offset
# below, or press an operation. Point at a cell: the storage shows where it lives, and who else
# lives there. Try to make two cells share one float.

# %% id="try-first-run" tags=["hide-input"]
import onelayer

onelayer.show_strides((3, 4))

# %% id="instruments"
import torch
import torch.nn.functional as F

from autograder import predict, reveal

head = onelayer.head()  # nn.Linear(64, 600), trained: 64 features in, 600 words out
W = head.weight.detach()  # (600, 64)

# %% [markdown] id="a-tensor-is-a-note"
# ## A tensor is a note about someone else's floats
# The floats live in a *storage*: one row of bytes with no shape. A tensor is a small note beside
# it: where to start (offset), how long each dimension is (size), and how far one step goes (stride,
# counted in elements, not bytes). In the picture a cell holds its value; the small number is its
# *address*, the place in the storage.

# %% id="a-tensor-is-a-note-run"
storage = W.untyped_storage()
print("storage:", f"{storage.nbytes():,}", "bytes, no shape")
print("note:   ", "size", tuple(W.shape), "stride", W.stride(), "offset", W.storage_offset())
onelayer.show_storage(W)

# %% [markdown] id="one-float"
# ## Finding one float
# `W[599, 63]` is the last weight of the last word. Start at the offset, add each index times its
# stride.

# %% id="one-float-run"
place = W.storage_offset() + 599 * W.stride(0) + 63 * W.stride(1)
flat = torch.empty(0).set_(storage)  # (38400,): a note about the same storage, as one row
print("float number", place, "of", len(flat), "|", flat[place].item() == W[599, 63].item())

# %% [markdown] id="transpose-moves-nothing"
# ## What does `.T` copy?
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
# It copies no byte: the transpose moved nothing. `W.T` is a second note about the same floats, with
# the two strides exchanged: one step down a column of `W.T` is one step along a row of `W`. The
# bill comes later, from whoever needs those columns side by side.

# %% [markdown] id="slices"
# ## One column
# `W[:, 5]` is feature 5 of every word. What does its note say?

# %% id="slices-guess"
predict("stride_of_a_column", choices=["(1,)", "(64,)", "(600,)", "it is a copy"])

# %% id="slices-run"
column = W[:, 5]  # (600,)
onelayer.show_storage(W, column, names=["W", "W[:, 5]"])

# %% id="slices-reveal"
reveal("stride_of_a_column", str(column.stride()))

# %% [markdown] id="slices-why"
# Offset 5, stride 64, no copy: neighbours in a column lie one row apart. The view also keeps the
# whole storage alive: hold on to one column, and 153,600 bytes stay allocated.

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
# We write 7 into `x.T[0, 2]`. What is `x[2, 0]` afterwards?

# %% id="two-names-one-float-guess"
predict("x_after_writing_the_view", choices=[0.0, 7.0])

# %% id="two-names-one-float-run"
x = torch.zeros(3, 4)
x.T[0, 2] = 7.0
reveal("x_after_writing_the_view", x[2, 0].item())

# %% [markdown] id="two-names-one-float-why"
# A view does not only read the same floats, it writes them. That is why a tensor and its views
# share one [version number](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/TensorImpl.h),
# by which autograd notices such writes. Chapter 03 comes back to it.

# %% id="two-names-one-float-version"
print("versions of x and of x.T:", x._version, x.T._version)

# %% [markdown] id="contiguous"
# ## Contiguous means: row by row, no gaps
# A tensor is contiguous when its strides are those of a fresh tensor of its size
# ([`Contiguity.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/Contiguity.h)).
# `.contiguous()` hands back the same tensor if it is, and a copy if it is not. Half of the words,
# or half of the features: which of them does it copy?

# %% id="contiguous-guess"
predict("which_half_is_copied", choices=["half of the words", "half of the features", "both"])

# %% id="contiguous-run"
halves = {"half of the words": W[:300], "half of the features": W[:, :32]}
copied = []
for name, t in {"W": W, "W.T": W.T, **halves}.items():
    with onelayer.count_bytes() as moved:
        t.contiguous()
    copied += [name] if moved.bytes else []
    print(
        f"{name:20} stride {t.stride()!s:8} {t.is_contiguous()!s:5} copies {moved.bytes:>7,} bytes"
    )

# %% id="contiguous-reveal"
paid = [name for name in halves if name in copied]
reveal("which_half_is_copied", paid[0] if len(paid) == 1 else "both")

# %% [markdown] id="contiguous-why"
# Both have the strides of `W`. The first 300 rows lie together; between the halves of two rows lies
# the other half. A small example:

# %% id="contiguous-picture"
x = torch.arange(16.0).view(4, 4)
onelayer.show_storage(x[:2], x[:, :2])

# %% [markdown] id="contiguous-one"
# A dimension of size 1 does not count: nobody ever takes a step along it, so any stride will do.
# Nor does anything count where there are no elements.

# %% id="contiguous-one-run"
for size, stride in {(1, 4): (99, 1), (4, 1): (1, 99), (0, 4): (7, 7)}.items():
    print(size, stride, torch.empty_strided(size, stride).is_contiguous())

# %% [markdown] id="clone-keeps-the-layout"
# ## In which order does a copy lie?
# `W.T.clone()` allocates 153,600 new bytes. In which order does it write them?

# %% id="clone-keeps-the-layout-guess"
predict("strides_of_a_cloned_transpose", choices=["(600, 1)", "(1, 64)"])

# %% id="clone-keeps-the-layout-run"
reveal("strides_of_a_cloned_transpose", str(W.T.clone().stride()))

# %% [markdown] id="clone-keeps-the-layout-why"
# `clone`, `empty_like`, `W.T * 2` and their kin keep the order of the dimensions in memory, and
# close gaps: [`preserve_format`](https://docs.pytorch.org/docs/stable/tensor_attributes.html).
# `contiguous()` promises row-major order, row by row. So a layout that you made by accident travels
# on through pointwise operations; where two layouts meet, here the first operand decides.

# %% id="clone-keeps-the-layout-more"
fresh = torch.zeros(64, 600)
for name, t in {
    "W.T * 2": W.T * 2,
    "W.T + fresh": W.T + fresh,
    "fresh + W.T": fresh + W.T,
    "W.T[:, ::2].clone()": W.T[:, ::2].clone(),
    "W.T.contiguous()": W.T.contiguous(),
}.items():
    print(f"{name:20} {t.stride()}")

# %% [markdown] id="clone-keeps-the-layout-seen"
# Both copies of a small transpose hold the same values, and a copied element keeps its colour. The
# first copy has them in the order of its columns, the second in the order of its rows:

# %% id="clone-keeps-the-layout-picture"
x = torch.arange(6.0).view(2, 3)
onelayer.show_storage(x, x.T.clone(), x.T.contiguous())

# %% [markdown] id="view-or-copy"
# ## `view` or `reshape`?
# Both give `W.T` a new size. What does `W.T.view(-1)` do?

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
# `view` refuses and `reshape` pays: no single stride walks down a transpose row by row, so there is
# no note to write. Follow the small addresses of `x.T`, row by row, and look for the equal step.
# Then look at those of its copy:

# %% id="view-or-copy-picture"
onelayer.show_storage(x, x.T, x.T.reshape(-1))

# %% [markdown] id="view-or-copy-cut"
# Cutting one dimension in two always works. The 600 words in 24 groups of 25:

# %% id="view-or-copy-split"
split = W.T.view(64, 24, 25)
print(split.stride(), "shares storage:", split.untyped_storage().data_ptr() == storage.data_ptr())

# %% [markdown] id="view-or-copy-rule"
# The rule: leave out sizes of 1; neighbours merge when one outer step is as long as the whole inner
# dimension (`stride[d] == size[d+1] * stride[d+1]`); merged runs may be cut anywhere. Question 1.4
# of the lab asks you for it, and torch's own version is
# [`computeStride_impl`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/TensorUtils.cpp).

# %% [markdown] id="dlpack"
# ## A note for other libraries
# The note (address, sizes, strides, dtype, device) is enough for NumPy, JAX or CuPy as well.
# [DLPack](https://docs.pytorch.org/docs/stable/dlpack.html) is the form in which it travels. What
# do we get from `np.from_dlpack(x.T)`: the floats, or a copy?

# %% id="dlpack-run"
import numpy as np

x = torch.arange(6.0).view(2, 3)
array = np.from_dlpack(x.T)
print("shape", array.shape, "strides in bytes", array.strides)
x[0, 1] = 7
print("after x[0, 1] = 7 the array has", array[1, 0])
print("and back:", torch.from_dlpack(array).data_ptr() == x.data_ptr())
for name, t in {"a tensor that requires a gradient": head.bias, "bfloat16": x.bfloat16()}.items():
    try:
        np.from_dlpack(t)
    except (BufferError, RuntimeError) as error:
        print(f"{name}: {error}")

# %% [markdown] id="dlpack-why"
# The floats, with the transpose's strides. What the note cannot say does not travel: a history in
# autograd, or a dtype that the other side does not know.

# %% [markdown] id="broadcasting"
# ## What does a broadcast allocate?
# `logits + bias` adds one bias of 600 floats to each of 32 tokens. How many bytes does the
# `bias.expand(32, 600)` behind it allocate?

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
# It allocates nothing: a step of 0 reads the same row again.
# [Broadcasting](https://docs.pytorch.org/docs/stable/notes/broadcasting.html) is no more than that:
# `expand` first, then an ordinary elementwise loop. It is also why `add_` is refused: 32 indices
# would write one float.

# %% id="broadcasting-write"
try:
    many.add_(1)
except RuntimeError as error:
    print(error)

# %% [markdown] id="overlap"
# ## Writing into windows
# `unfold` makes windows over one row. They share floats too, but no stride is 0. What happens to a
# write?

# %% id="overlap-guess"
predict(
    "writing_into_windows", choices=["an error", "the right numbers", "wrong numbers, no error"]
)

# %% id="overlap-run"
windows = torch.arange(6.0).unfold(0, 3, 1)  # (4, 3), stride (1, 1): three floats, one step apart
right = windows + 1
windows.add_(1)
print(right.tolist(), windows.tolist(), sep="\n")
onelayer.show_storage(windows)

# %% id="overlap-reveal"
reveal(
    "writing_into_windows",
    "the right numbers" if windows.equal(right) else "wrong numbers, no error",
)

# %% [markdown] id="overlap-why"
# torch tests for overlap before such a write, but only cheaply
# ([`MemoryOverlap.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/MemoryOverlap.cpp)):
# a stride of 0 along more than one index is a yes, a tensor without gaps that holds every float
# once is a no, and everything else is
# [`TooHard`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/MemoryOverlap.h) and
# passes. The detective case of the lab lives here.

# %% [markdown] id="memory-formats"
# ## Channels last is only strides
# [Some convolutions](https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html)
# run faster with the channels of one pixel side by side. torch does not reorder the dimensions for
# that, only the strides.

# %% id="memory-formats-run"
image = torch.randn(1, 3, 2, 2)  # N, C, H, W
last = image.to(memory_format=torch.channels_last)
print("size", tuple(image.shape), tuple(last.shape), "| equal values:", image.equal(last))
onelayer.show_storage(image, last)

# %% [markdown] id="memory-formats-ask"
# A larger image, channels last too. In which order does a convolution write its result?

# %% id="memory-formats-guess"
predict("layout_after_a_convolution", choices=["(N, C, H, W) in memory", "(N, H, W, C) in memory"])

# %% id="memory-formats-conv"
last = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
convolution = torch.nn.Conv2d(3, 6, 3)
convolved = convolution(last)  # (2, 6, 2, 3)
kept = convolved.is_contiguous(memory_format=torch.channels_last)
print("channels last in:", convolved.stride())
print("contiguous in:   ", convolution(last.contiguous()).stride())
reveal("layout_after_a_convolution", "(N, H, W, C) in memory" if kept else "(N, C, H, W) in memory")

# %% [markdown] id="memory-formats-why"
# The layout went in as strides and came out as strides: no argument named it, and the same numbers,
# contiguous, come out contiguous. Keep that thought for chapter 02, where *device* and *dtype*
# choose what runs.

# %% [markdown] id="einsum"
# ## `einsum` writes addresses
# Each letter is a loop, and each tensor contributes a stride to it. What does `einsum("ii->i", A)`
# cost?

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
# A letter twice in one input adds its two strides: 5 is one step down and one step right. When a
# letter that two inputs share is summed, `einsum` permutes strides until a [batched matrix
# product](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/Linear.cpp) fits,
# and reshapes: it copies where no view will do. Attention's scores are such a place:

# %% id="einsum-attention"
q = torch.randn(2, 10, 4, 16)  # (batch, tokens, heads, features)
with onelayer.count_bytes() as moved:
    scores = torch.einsum("bqhd,bkhd->bhqk", q, q)  # (2, 4, 10, 10)
moved

# %% [markdown] id="indexing"
# ## Two ways to take two rows
# `W[0:3:2]` and `W[[0, 2]]` give the same two rows, once as a slice, once as a list. Which of them
# copies?

# %% id="indexing-guess"
predict("which_indexing_copies", choices=["neither", "the slice", "the list", "both"])

# %% id="indexing-run"
rows = torch.tensor([0, 2])  # what the list becomes; made outside, so that it is not counted
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
# which no stride can say, so it gathers them into new memory
# ([indexing](https://docs.pytorch.org/docs/stable/tensor_view.html)).

# %% id="indexing-picture"
x = torch.arange(12.0).view(4, 3)
onelayer.show_storage(x, x[0:3:2], x[rows])

# %% [markdown] id="two-lists"
# ## A list for each dimension
# `W[rows, columns]` with two lists of two. Which shape comes back?

# %% id="two-lists-guess"
predict("shape_of_two_lists", choices=["(2, 2)", "(2,)", "(4,)"])

# %% id="two-lists-run"
columns = torch.tensor([1, 5])
picked = W[rows, columns]
reveal("shape_of_two_lists", str(tuple(picked.shape)))

# %% [markdown] id="two-lists-why"
# Two numbers come back: the lists are broadcast against one another, and each pair is one address.
# Give the rows a dimension of their own, and you get every row with every column:

# %% id="two-lists-addresses"
for r in (rows, rows[:, None]):
    address = r * W.stride(0) + columns * W.stride(1)  # broadcast, like any sum
    print(address.tolist(), W.flatten()[address].equal(W[r, columns]))

# %% [markdown] id="gather"
# ## Gather is one address per element
# A loss needs one logit per token: the right next word's. Here is `gather`, written as addresses,
# on the real head.

# %% id="gather-run"
words = onelayer.grammar.encode("<en> she has eaten <es> ella ha comido")  # (8,)
h = onelayer.hidden("<en> she has eaten <es> ella ha")  # (7, 64): what enters the head
logits = F.linear(h, W, bias)  # (7, 600)
right = torch.tensor(words[1:])[:, None]  # (7, 1): the word that really comes next
address = torch.arange(len(h))[:, None] * logits.stride(0) + right * logits.stride(1)
print(logits.flatten()[address].equal(logits.gather(1, right)))
onelayer.next_words(logits[-1])

# %% [markdown] id="scatter"
# ## Writing to computed addresses
# Now the other way round. Three additions of 1 go to one and the same element. What does it hold?

# %% id="scatter-guess"
predict("three_increments_of_one_element", choices=[0.0, 1.0, 3.0])

# %% id="scatter-run"
same = torch.tensor([1, 1, 1])
counted = torch.zeros(5)
counted[same] += 1
reveal("three_increments_of_one_element", counted[1].item())

# %% [markdown] id="scatter-why"
# `counted[same] += 1` reads three times, adds, then writes three times to one place; which write
# stays is [undefined](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_put_.html).
# `index_add_` and `scatter_add_` accumulate. An embedding's gradient needs the second kind: the
# same word occurs many times in a batch.

# %% id="scatter-add"
torch.zeros(5).index_add_(0, same, torch.ones(3)).tolist()

# %% [markdown] id="merge-heads"
# ## Does merging the heads copy?
# Split 4 heads, move them in front, do something, move them back, merge. The something is a
# stand-in here: scale by one half. Which line copies?

# %% id="merge-heads-guess"
predict("which_line_copies", choices=["view", "transpose", "reshape", "none"])

# %% id="merge-heads-run"
x = torch.randn(2, 10, 64)  # (batch, tokens, features)
split, merge = [("view", (2, 10, 4, 16)), ("transpose", (1, 2))], ("reshape", (2, 10, 64))
bill = {}
for name, arguments in [*split, ("mul", (0.5,)), ("transpose", (1, 2)), merge]:
    with onelayer.count_bytes() as moved:
        x = getattr(x, name)(*arguments)
    bill[name] = bill.get(name, 0) + moved.bytes
    print(f"{name:10} {moved.bytes:>7,} bytes   stride {x.stride()}")

# %% id="merge-heads-reveal"
copies = [name for name in ("view", "transpose", "reshape") if bill[name]]
reveal("which_line_copies", ", ".join(copies) or "none")

# %% [markdown] id="merge-heads-why"
# No line copies: `mul` allocates its result, but in the layout of its input, so the heads come back
# to where they had been and `reshape` is a view. A matrix product writes row-major. After it, the
# same `reshape` copies the batch; after torch's own attention, here, it does not:

# %% id="merge-heads-matmul"
q = torch.randn(2, 10, 64).view(2, 10, 4, 16).transpose(1, 2)  # (2, 4, 10, 16)
by_hand = torch.softmax(q @ q.mT, dim=-1) @ q  # (2, 4, 10, 16), row-major
fused = F.scaled_dot_product_attention(q, q, q)  # (2, 4, 10, 16), laid out as q
bill = {}
for name, mixed in {"by hand": by_hand, "fused": fused}.items():
    with onelayer.count_bytes() as moved:
        mixed.transpose(1, 2).reshape(2, 10, 64)
    bill[f"{name}, stride {mixed.stride()}"] = moved.bytes
onelayer.show_bars(bill, unit="bytes")

# %% [markdown] id="layout-picks-the-kernel"
# ## Layout picks the kernel
# The same `F.linear`, the same values. The batch is contiguous, or it was transposed on the way.
# What does the second one run? `addmm` is one product plus a bias, `bmm` a product for each matrix
# of a batch, `clone` a copy.

# %% id="layout-picks-the-kernel-tool"
import os

os.environ["KINETO_LOG_LEVEL"] = "99"  # the profiler's own log stays off this page


def runs(t, weight=W):
    """The products, sums and clones of F.linear(t, weight, bias), those inside kernels too."""
    with torch.autograd.profiler.profile() as seen:
        F.linear(t, weight, bias)
    names = [event.name.removeprefix("aten::") for event in seen.function_events]
    return [name for name in names if name in ("addmm", "mm", "bmm", "add", "add_", "clone")]


# %% id="layout-picks-the-kernel-guess"
predict("a_transposed_batch_runs", choices=["addmm", "bmm, add_", "clone, addmm"])

# %% id="layout-picks-the-kernel-run"
values = torch.randn(4, 16, 64)
turned = values.transpose(0, 1).contiguous().transpose(0, 1)  # equal values, other strides
print("contiguous", values.stride(), runs(values))
print("turned    ", turned.stride(), runs(turned))
reveal("a_transposed_batch_runs", ", ".join(runs(turned)))

# %% [markdown] id="layout-picks-the-kernel-why"
# The contiguous batch folds into one matrix and takes one `addmm`
# ([`Linear.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/Linear.cpp)).
# The turned one takes a batched product, and the bias is a second pass. And not only layout
# chooses: here `W` is frozen. Let it require a gradient, and `matmul` copies the input to get back
# to one product (`should_fold` in
# [`LinearAlgebra.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/LinearAlgebra.cpp)).

# %% id="layout-picks-the-kernel-trainable"
runs(turned, weight=head.weight)

# %% [markdown] id="copies-inside-a-kernel"
# ## The copy inside a kernel
# Three inputs of 256 rows: contiguous, a transpose, every second column of a wider matrix. All go
# into `addmm`, which hands them to a matrix library. For which of them is a copy made first?

# %% id="copies-inside-a-kernel-guess"
predict(
    "who_copies_inside_addmm",
    choices=["nobody", "the transposed input", "the every-second input", "both"],
)


# %% id="copies-inside-a-kernel-run"
layouts = {
    "contiguous": torch.randn(256, 64),
    "transposed": torch.randn(64, 256).T,
    "every second": torch.randn(256, 128)[:, ::2],
}
for name, t in layouts.items():
    with onelayer.count_bytes() as moved:
        F.linear(t, W, bias)
    counted = [op.name for op in moved.ops]
    print(f"{name:13} stride {t.stride()!s:9} count_bytes {counted}, profiler {runs(t)}")

# %% id="copies-inside-a-kernel-reveal"
payers = [
    f"the {name.replace(' ', '-')} input" for name, t in layouts.items() if "clone" in runs(t)
]
reveal("who_copies_inside_addmm", payers[0] if len(payers) == 1 else "both" if payers else "nobody")

# %% [markdown] id="copies-inside-a-kernel-why"
# The library wants one stride of each matrix to be 1, and the other not shorter than what it steps
# over; a transpose is then only a flag. Anything else is cloned inside `addmm` (`addmm_impl_cpu_`
# in
# [`LinearAlgebra.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/LinearAlgebra.cpp)).
# `count_bytes` is a
# [mode](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/utils/_python_dispatch.py) that
# stands in front of the kernel and is off while it runs, so it does not see that clone. The
# profiler does. Two instruments, two depths. One row, expanded, has a stride of 1 and one of 0:

# %% id="copies-inside-a-kernel-expanded"
one_row = torch.randn(1, 64).expand(256, 64)
print("expanded", one_row.stride(), runs(one_row))

# %% [markdown] id="what-layout-costs"
# ## What does a layout cost in time?
# Adding two matrices reads each of their floats once. `a + b` and `a + b.T` do the same number of
# additions; only the order of one operand differs. How many times as long does the second take?

# %% id="what-layout-costs-guess"
predict("time_of_the_other_order", choices=["the same", "up to 2 times", "over 2 times"])

# %% id="what-layout-costs-run"
from torch.utils.benchmark import Timer

a, b = torch.randn(2000, 2000), torch.randn(2000, 2000)


def best_ms(a, b):
    """The fastest of ten runs: whatever else this machine does only adds to it."""
    return min(Timer("a + b", globals={"a": a, "b": b}).timeit(1).mean * 1e3 for _ in range(10))


same_order, other_order = best_ms(a, b), best_ms(a, b.T)
onelayer.show_bars({"a + b": same_order, "a + b.T": other_order}, unit="ms")

# %% id="what-layout-costs-reveal"
ratio = other_order / same_order
named = [(1.15, "the same"), (2, "up to 2 times"), (float("inf"), "over 2 times")]
reveal("time_of_the_other_order", next(name for most, name in named if ratio < most))

# %% [markdown] id="what-layout-costs-why"
# Each order of the two loops suits one of `a` and `b.T`, and none suits both: one of them is walked
# with a step of a whole row. Why does that take time? Take causes away, one at a time. *Every
# second float* keeps the order, but no step is 1 any more. *Padded rows* keep the other order, and
# the step is 16 floats longer. Nanoseconds for each element:


# %% id="what-layout-costs-causes"
def ns_each(a, b):
    """Nanoseconds for each element of a + b into memory that is there: the best of ten."""
    given = {"torch": torch, "a": a, "b": b, "out": torch.empty(a.shape)}
    timer = Timer("torch.add(a, b, out=out)", globals=given)
    runs = max(1, 200_000 // a.numel())
    return min(timer.timeit(runs).mean * 1e9 / a.numel() for _ in range(10))


for n in (96, 1000, 1024):
    ways = {
        "same order": torch.randn(n, n),
        "every second float": torch.randn(n, 2 * n)[:, ::2],
        "other order": torch.randn(n, n).T,
        "other order, padded rows": torch.randn(n, n + 16)[:, :n].T,
    }
    each = {name: ns_each(torch.randn(n, n), t) for name, t in ways.items()}
    print(f"{n} x {n}:", ", ".join(f"{name} {ns:.2f}" for name, ns in each.items()))

# %% [markdown] id="what-layout-costs-named"
# There is more than one cause. With steps of 1 the kernel adds [several floats with one
# instruction](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/cpu/Loops.h).
# Every second float is enough to lose that, and at 96 x 96, where all lies in a near cache, nothing
# else is lost. At 1,024 the step is a power of two: the floats of a column fall into a few *sets*
# of the cache and drive each other out, until the padding parts them. What is left at 1,000 fits a
# third cause: memory comes in *lines* of many bytes, and down a column each line serves one float.

# %% [markdown] id="iterator"
# ## One loop for all pointwise operators
# `a + b`, `exp`, `where` and well over a hundred others share one piece of C++:
# [`TensorIterator`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/TensorIterator.cpp).
# It broadcasts, promotes dtypes, allocates the result, orders the dimensions by stride and merges
# those that can be one loop. If that is so, five dimensions in any order cost what one row costs,
# as long as all operands have the *same* order:

# %% id="iterator-run"
square = torch.randn(512, 512)
five = square.view(8, 8, 8, 16, 32).permute(4, 2, 0, 3, 1)  # one row of floats, in disguise
print("one row        ", f"{ns_each(square.view(-1), square.view(-1)):.2f} ns an element")
given = {"torch": torch, "t": five, "out": torch.empty_like(five)}
timer = Timer("torch.add(t, t, out=out)", globals=given)
ns = min(timer.timeit(20).mean * 1e9 / five.numel() for _ in range(10))
print("five dimensions", f"{ns:.2f} ns an element, strides {five.stride()}")
print("the result lies as the input:", (five + 1).stride() == five.stride())

# %% [markdown] id="iterator-why"
# The five were merged to one. And the result gets its strides from that order, or, where all inputs
# have one dense layout, from theirs: that is why it keeps the layout of its input.

# %% [markdown] id="what-you-can-now-say"
# ## What you can now say
# - A tensor is an offset, sizes and strides over a storage; `transpose`, slices, `expand`, `unfold`
#   and a possible `view` only write a new note.
# - `reshape` copies exactly when no strides can say the new shape, `contiguous()` exactly when the
#   tensor is not contiguous; a list of indices always copies.
# - A stride of 0 is broadcasting. Two indices with one address can make in-place writes wrong,
#   and torch notices only the easy cases.
# - Operators keep and choose by layout: the same `F.linear` runs different kernels for different
#   strides, and may copy where no call of yours shows it. A layout that does not fit costs time.
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
#   [the tutorial](https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html);
#   overlap:
#   [`MemoryOverlap.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/MemoryOverlap.cpp)
# - who folds, who copies:
#   [`Linear.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/Linear.cpp),
#   [`LinearAlgebra.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/LinearAlgebra.cpp)
# - views, and which operations make them: [Tensor
#   Views](https://docs.pytorch.org/docs/stable/tensor_view.html)
#
# Nothing on this page was seen to change between torch 2.11 and 2.15.
