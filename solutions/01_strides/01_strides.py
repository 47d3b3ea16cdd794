# %% [markdown] id="title"
# # Lab 01: strides
#
# `W.T` of the head costs nothing, `W.T.reshape(-1)` costs 153,600 bytes, and neither line says so.
# In this lab you write the arithmetic that decides: ten small functions that answer what torch
# answers, and an eleventh answer in words.
#
# Work from top to bottom, in about two hours, after [chapter 01](../../notebooks/01_strides.ipynb).
# Any right answer counts, also one that asks torch; you learn more by not asking. Each question but
# the last has a stub, a check that answers at once, and three hints. Keep helper functions inside
# the cell of the question that uses them: only those cells are graded.

# %% id="setup" tags=["setup"]
import itertools
import math

import torch

# %% id="instruments"
import onelayer
from autograder import answered, check, hint, progress

head = onelayer.head()  # nn.Linear(64, 600): weight (600, 64), bias (600,)

# %% [markdown] id="picture-of-one-storage"
# One storage, two ways to walk through it. Everything below is about the numbers in the two title
# lines.

# %% id="picture-of-one-storage-run"
small = torch.arange(12.0).reshape(3, 4)
onelayer.show_storage(small, small.T, names=["x", "x.T"])

# %% [markdown] id="worked-example"
# ## Worked example: the strides of a transpose
#
# Every question here has the same four steps: **take the geometry** (size, stride, offset),
# **decide what one step means**, **build the new geometry**, **look at the awkward sizes** (0, 1,
# none at all). In 1.1 the first two are written down for you, 1.4 names all four.


# %% id="worked-example-code" tags=["worked-example"]
def transposed(size, stride, dim0, dim1):
    """Size and stride of `x.transpose(dim0, dim1)`."""
    size, stride = list(size), list(stride)  # take the geometry
    order = list(range(len(size)))  # one step along a dimension stays that step,
    order[dim0], order[dim1] = order[dim1], order[dim0]  # only its place in the list moves
    size = tuple(size[d] for d in order)  # build the new geometry
    stride = tuple(stride[d] for d in order)
    return size, stride  # awkward sizes: nothing to do, no size was looked at


w = head.weight
transposed(w.shape, w.stride(), 0, 1) == (tuple(w.T.shape), w.T.stride())

# %% [markdown] id="contiguous-strides"
# ## The strides of a fresh tensor
#
# Say which strides torch gives a new tensor.
#
# `contiguous_strides((600, 64))` is `(64, 1)`. Stuck? `hint("contiguous_strides")`


# %% id="contiguous_strides" role="solution"
def contiguous_strides(size):
    """size (any number of dimensions, zeros included) -> as many strides, in elements."""
    stride = []  # take the geometry: the new strides are found from right to left
    step = 1  # decide what one step means: along the last dimension, one element
    ### BEGIN SOLUTION
    for n in reversed(size):  # from the last dimension to the first
        stride.insert(0, step)
        step *= max(n, 1)  # a size of 0 counts as 1, or it would poison everything left of it
    ### END SOLUTION
    return tuple(stride)


# %% id="contiguous_strides_check" role="check"
check("contiguous_strides")


# %% id="contiguous_strides_alternative" role="alternative"
def contiguous_strides(size):
    padded = [max(n, 1) for n in size]
    return [math.prod(padded[d + 1 :]) for d in range(len(padded))]


# %% [markdown] id="address-of-an-index"
# ## The address of an index
#
# `x[2, -1]` is one float somewhere in the storage. Compute where.
#
# `address((1, -1), (3, 4), (4, 1), 5)` is `12`. Stuck? `hint("address")`


# %% id="address" role="solution"
def address(index, size, stride, offset):
    """index, size, stride (tuples of one length), offset -> place in the storage, in elements."""
    ### BEGIN SOLUTION
    place = offset  # the walk begins here, not at 0
    for i, n, s in zip(index, size, stride, strict=True):
        i = i + n if i < 0 else i  # a negative index counts from the end
        place += i * s
    return place
    ### END SOLUTION


# %% id="address_check" role="check"
check("address")


# %% id="address_alternative" role="alternative"
def address(index, size, stride, offset):
    reach = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    return int(torch.arange(reach).as_strided(size, stride, offset)[index])


# %% [markdown] id="is-it-contiguous"
# ## Is it contiguous?
#
# Say what `Tensor.is_contiguous()` says. Most of the work is in the sizes 1 and 0.
#
# `is_contiguous((1, 4), (99, 1))` is `True`. Stuck? `hint("is_contiguous")`


# %% id="is_contiguous" role="solution"
def is_contiguous(size, stride):
    """size, stride (tuples of one length) -> bool."""
    ### BEGIN SOLUTION
    if 0 in size:
        return True  # no element is out of place
    step = 1
    for n, s in zip(reversed(size), reversed(stride), strict=True):
        if n != 1 and s != step:  # nobody ever steps along a dimension of size 1
            return False
        step *= n
    return True
    ### END SOLUTION


# %% id="is_contiguous_check" role="check"
check("is_contiguous")


# %% id="is_contiguous_alternative" role="alternative"
def is_contiguous(size, stride):
    if math.prod(size) == 0:
        return True
    used = [(n, s) for n, s in zip(size, stride, strict=True) if n != 1]
    return all(s == math.prod(n for n, _ in used[d + 1 :]) for d, (_, s) in enumerate(used))


# %% [markdown] id="the-rule-of-view"
# ## The rule of `view`
#
# `view` only writes a new size and stride; when no strides can do it, torch raises and `reshape`
# copies. Find the strides, or return `None` for "needs a copy". This is the question that the rest
# of PyTorch leans on: take your time.
#
# 1. **Take the geometry**, and merge neighbours that can be walked through as one: those are the
#    *runs*.
# 2. **Decide what one step means** in each run: the stride of its last dimension.
# 3. **Build the new geometry** from the right: cut each run into new sizes; no new size may cross
#    the border of a run.
# 4. **Look at the awkward sizes**: leave old sizes of 1 out before you begin; a new size of 1 takes
#    any stride.
#
# Sizes here have no zeros. The stride that you give a dimension of size 1 is not looked at.
#
# `view_strides((64, 600), (1, 64), (64, 24, 25))` is `(1, 1600, 64)`. Stuck? `hint("view_strides")`


# %% id="view_strides" role="solution"
def view_strides(size, stride, new_size):
    """size, stride, new_size with as many elements -> strides of the view, or None."""
    ### BEGIN SOLUTION
    runs = []  # [elements, step] of each run, left to right
    for n, s in zip(size, stride, strict=True):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * s:  # one outer step is the whole inner dimension
            runs[-1] = [runs[-1][0] * n, s]
        else:
            runs.append([n, s])

    strides = []
    left, step = runs.pop() if runs else (1, 1)
    for n in reversed(new_size):
        if left == 1 and n != 1 and runs:
            left, step = runs.pop()
        if left % n:
            return None  # this size would cross the border of its run
        strides.insert(0, step)
        left //= n
        step *= n
    return tuple(strides)
    ### END SOLUTION


# %% id="view_strides_check" role="check"
check("view_strides")


# %% id="view_strides_alternative" role="alternative"
def view_strides(size, stride, new_size):
    """Number the elements, lay them out anew, and see whether equal steps explain every address."""
    reach = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    addresses = torch.arange(reach).as_strided(size, stride).reshape(new_size)
    first = int(addresses.flatten()[0])
    steps = [
        int(addresses.select(d, 1).flatten()[0]) - first if n > 1 else 0
        for d, n in enumerate(new_size)
    ]
    grid = itertools.product(*map(range, new_size))
    explained = [first + sum(i * s for i, s in zip(index, steps, strict=True)) for index in grid]
    return steps if explained == addresses.flatten().tolist() else None


# %% [markdown] id="sliding-windows"
# ## Sliding windows without a copy
#
# Every window of `width` neighbours, one every `step`, as a view: not one byte may be copied.
#
# For `x = [0, 1, 2, 3, 4]`, width 3, step 1 the rows are `[0, 1, 2]`, `[1, 2, 3]`, `[2, 3, 4]`.
# Stuck? `hint("sliding_windows")`


# %% id="sliding_windows" role="solution"
def sliding_windows(x, width, step):
    """x (N,) of any stride and offset -> a view (1 + (N - width) // step, width)."""
    ### BEGIN SOLUTION
    count = 1 + (len(x) - width) // step
    apart = x.stride(0)  # neighbours of x need not be neighbours in memory
    return x.as_strided((count, width), (step * apart, apart))
    ### END SOLUTION


# %% id="sliding_windows_check" role="check"
check("sliding_windows")


# %% id="sliding_windows_alternative" role="alternative"
def sliding_windows(x, width, step):
    return x.unfold(0, width, step)


# %% [markdown] id="broadcasting"
# ## Broadcasting is stride 0
#
# `logits + bias` with logits `(32, 600)` reads every bias 32 times and copies it never. Give the
# strides of `x.expand(to)`, or `None` where the sizes do not fit. Nobody steps along a dimension of
# size 1: any number will do there.
#
# `broadcast_strides((600,), (1,), (32, 600))` is `(0, 1)`. Stuck? `hint("broadcast_strides")`


# %% id="broadcast_strides" role="solution"
def broadcast_strides(size, stride, to):
    """size, stride, to (at least as many dimensions) -> strides of the expanded view, or None."""
    ### BEGIN SOLUTION
    new = len(to) - len(size)
    strides = [0] * new  # dimensions that appear on the left read the same thing again
    for n, s, m in zip(size, stride, to[new:], strict=True):
        if n not in (1, m):
            return None
        strides.append(s if n == m else 0)
    return tuple(strides)
    ### END SOLUTION


# %% id="broadcast_strides_check" role="check"
check("broadcast_strides")


# %% id="broadcast_strides_alternative" role="alternative"
def broadcast_strides(size, stride, to):
    out = []
    for d in range(1, len(to) + 1):
        n, s = (size[-d], stride[-d]) if d <= len(size) else (1, 0)
        if n != to[-d] and n != 1:
            return None
        out.append(0 if n != to[-d] else s)
    return tuple(reversed(out))


# %% [markdown] id="overlap"
# ## Do two indices share a float?
#
# Windows and expanded tensors reach one float by several indices. Reading is fine; writing is not.
# Say whether a geometry overlaps. The sizes are small, so a slow and certain answer is a good
# answer.
#
# `overlaps((4, 3), (1, 1))` is `True`, `overlaps((2, 3), (3, 2))` is `False`. Stuck?
# `hint("overlaps")`


# %% id="overlaps" role="solution"
def overlaps(size, stride):
    """size, stride (tuples of one length) -> True when two different indices have one address."""
    ### BEGIN SOLUTION
    addresses = [
        sum(i * s for i, s in zip(index, stride, strict=True))
        for index in itertools.product(*map(range, size))
    ]
    return len(set(addresses)) < len(addresses)
    ### END SOLUTION


# %% id="overlaps_check" role="check"
check("overlaps")


# %% id="overlaps_alternative" role="alternative"
def overlaps(size, stride):
    at = torch.zeros(size, dtype=torch.int64)
    for d, (n, s) in enumerate(zip(size, stride, strict=True)):
        at += (torch.arange(n) * s).reshape([-1 if k == d else 1 for k in range(len(size))])
    ordered = at.flatten().sort().values
    return bool((ordered.diff() == 0).any())


# %% [markdown] id="copies-you-do-not-see"
# ## The copies you do not see
#
# A forward path is a list of steps, each called on the result of the one before: `("transpose", (1,
# 2))` means `x.transpose(1, 2)`. Charge each step for the bytes it copied: 0 for a view, the size
# of the new storage otherwise.
#
# On `x (2, 3, 64)`, splitting 4 heads, moving them and laying each head's tokens in a row costs
# `copied_bytes(x, [("view", (2, 3, 4, 16)), ("transpose", (1, 2)), ("reshape", (2, 4, 48))])` =
# `[0, 0, 1536]`. Stuck? `hint("copied_bytes")`


# %% id="copied_bytes" role="solution"
def copied_bytes(x, steps):
    """x, steps of (method name, arguments) -> a list with the bytes that each step copied."""
    bill = []
    for name, arguments in steps:
        y = getattr(x, name)(*arguments)
        ### BEGIN SOLUTION
        before, after = x.untyped_storage(), y.untyped_storage()
        bill.append(0 if after.data_ptr() == before.data_ptr() else after.nbytes())
        ### END SOLUTION
        x = y
    return bill


# %% id="copied_bytes_check" role="check"
check("copied_bytes")


# %% id="copied_bytes_alternative" role="alternative"
def copied_bytes(x, steps):
    bill, seen = [], x
    for name, arguments in steps:
        result = getattr(seen, name)(*arguments)
        shared = result.untyped_storage()._cdata == seen.untyped_storage()._cdata
        bill.append(0 if shared else result.untyped_storage().size())
        seen = result
    return bill


# %% [markdown] id="gather-by-addresses"
# ## Gather is address arithmetic
#
# A loss picks one number per row: the right word's. `gather` finds it; so do you, given only the
# storage as one flat row, the two strides and the offset.
#
# `gather_flat(torch.arange(6.0), (3, 1), 0, torch.tensor([[2], [0]]))` is `[[2.0], [3.0]]`. Stuck?
# `hint("gather_flat")`


# %% id="gather_flat" role="solution"
def gather_flat(flat, stride, offset, index):
    """x.gather(1, index) (N, K), without x.

    flat: every element of x's storage; stride: two numbers; offset; index (N, K) int64.
    """
    ### BEGIN SOLUTION
    rows = torch.arange(len(index))[:, None]  # (N, 1)
    return flat[offset + rows * stride[0] + index * stride[1]]  # (N, 1) with (N, K) -> (N, K)
    ### END SOLUTION


# %% id="gather_flat_check" role="check"
check("gather_flat")


# %% id="gather_flat_alternative" role="alternative"
def gather_flat(flat, stride, offset, index):
    """Rebuild x as the largest view that fits, then gather."""
    n = len(index)
    width = int(index.max()) + 1 if n else 0
    return flat.as_strided((n, width), tuple(stride), offset).gather(1, index)


# %% [markdown] id="real-words"
# The same function on the real head: what probability does the model give to the word that really
# comes next?


# %% id="real-words-run"
def probability_of_the_next_word(gather):
    """Probability (1, 1) that the trained model gives to "comido" after "ella ha"."""
    hidden = onelayer.hidden("<en> she has eaten <es> ella ha")  # (7, 64)
    with torch.no_grad():
        p = head(hidden)[-1:].softmax(dim=1)  # (1, 600)
    word = torch.tensor([onelayer.grammar.encode("comido")])  # (1, 1)
    return gather(p.flatten(), p.stride(), 0, word)


with answered():
    print(probability_of_the_next_word(gather_flat))

# %% [markdown] id="detective-case"
# ## Detective case: the windows that moved
#
# A colleague takes the mean out of every window. The code raises nothing, and the numbers are
# wrong. Run it, find out why, and write it right.


# %% id="detective-case-code" tags=["worked-example"]
def centre_windows_as_found(x, width):
    """Every window of x minus its own mean. x (N,) -> (N - width + 1, width)."""
    windows = x.unfold(0, width, 1)
    windows -= windows.mean(dim=1, keepdim=True)
    return windows


x = torch.tensor([0.0, 3.0, 0.0, 3.0, 0.0])
print(
    "row means afterwards, all of which should be 0:",
    centre_windows_as_found(x, 2).mean(dim=1).tolist(),
)
print("x afterwards:", x.tolist())


# %% id="centre_windows" role="solution"
def centre_windows(x, width):
    """x (N,) -> (N - width + 1, width), every window minus its own mean; x stays as it is."""
    ### BEGIN SOLUTION
    windows = x.unfold(0, width, 1)
    return windows - windows.mean(
        dim=1, keepdim=True
    )  # a fresh tensor: nothing is written into the windows
    ### END SOLUTION


# %% id="centre_windows_check" role="check"
check("centre_windows")


# %% id="centre_windows_alternative" role="alternative"
def centre_windows(x, width):
    rows = [x[k : k + width] - x[k : k + width].mean() for k in range(len(x) - width + 1)]
    return torch.stack(rows)


# %% [markdown] id="why-silent"
# ## In your own words
#
# `torch.zeros(1, 3).expand(4, 3).add_(1)` raises. `x.unfold(0, 2, 1).sub_(1)` does not, and is
# wrong. In at most six sentences: what do the two tensors have in common, why does torch refuse the
# one and let the other pass, and what would you tell the colleague to look for in a review?

# %% [markdown] id="why_silent" role="free_text" points=5 minutes=8 difficulty=3
# Both are views in which several indices share one address, so an in-place operation reads floats
# that it has already changed, or writes one float several times. Before an in-place write torch
# asks whether a tensor overlaps itself, but only with a quick test: a stride of 0 in a dimension
# larger than 1 is a certain yes, a dense tensor that holds every float once is a certain no, and
# everything else is "too hard" and passes. `expand` has stride 0, `unfold` has strides (1, 1). In a
# review: any in-place operation (`_`, `+=`, `out=`) on the result of `unfold`, `as_strided` or
# `expand`.
#
# **Rubric** (1 point each): several indices share one address; the write is read or written again
# by another index; torch tests for overlap before in-place writes; the test is a cheap one that
# knows stride 0 and gives up on others; a sensible rule for a review.

# %% [markdown] id="where-you-are"
# ## Where you are

# %% id="where-you-are-run"
progress()
