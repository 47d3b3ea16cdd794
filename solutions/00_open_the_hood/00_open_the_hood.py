# %% [markdown] id="title"
# # Lab 00: open the hood
#
# The head of the model says *comido* after *ella ha*. What did that cost, and how good was it?
# Eight small functions answer: what the layer holds, what it moves, what it computes, how wrong it
# is, and what happens when a tensor is in the wrong place. A ninth answer is in words.
#
# About an hour, after [chapter 00](../../notebooks/00_open_the_hood.ipynb). Keep helper functions
# inside the cell of the question that uses them: only those cells are graded.

# %% id="setup" tags=["setup"]
import math

import torch

# %% id="instruments"
import onelayer
from autograder import answered, check, hint, predict, progress, reveal

head = onelayer.head()  # nn.Linear(64, 600): weight (600, 64), bias (600,)

# %% [markdown] id="how-a-lab-works"
# ## How a lab works
# Each question has a cell to fill in and a check below it. The check calls your function with fresh
# inputs and shows what it asked, what it expected and what came. Behind
# *why?* stands a usual mistake whose answers are the same as yours. `progress()`, at the end, says
# where you are. None of it costs points, and nothing leaves your machine.
#
# `hint("name")` gives a nudge. Run it again for the idea, and once more for the line:

# %% id="how-a-lab-works-hint"
hint("head_parameters")

# %% [markdown] id="how-a-lab-works-predict"
# A `predict` asks for a guess before a cell runs. It costs nothing either, and you will remember a
# surprise better than a sentence. Try it:

# %% id="how-a-lab-works-guess"
predict("largest_part_of_the_head", choices=["the weight", "the bias", "the 600 words' names"])

# %% id="how-a-lab-works-run"
parts = {"the weight": head.weight.nbytes, "the bias": head.bias.nbytes}
parts["the 600 words' names"] = sum(len(word.encode()) for word in onelayer.grammar.TOKENS)
onelayer.show_bars(parts, unit="bytes")

# %% id="how-a-lab-works-reveal"
reveal("largest_part_of_the_head", max(parts, key=parts.get))

# %% [markdown] id="worked-example"
# ## Worked example: the shape of the logits
#
# Most questions here go in three steps: **name the tensors**, **write down their shapes**,
# **count**.


# %% id="worked-example-code" tags=["worked-example"]
def how_many_logits(n, v):
    """How many numbers the head writes for n tokens and v words."""
    # name the tensors: the result z, one row per token, one column per word
    z_shape = (n, v)  # write down their shapes
    return math.prod(z_shape)  # count


how_many_logits(32, 600), head(torch.zeros(32, 64)).numel()

# %% [markdown] id="parameters"
# ## What the head has learned
#
# Count the numbers that `nn.Linear(d, v)` learns.
#
# Before you do, run the check as it is: it says that nothing is answered yet. Then return `v * d`,
# run both cells, and read what it says to that. `head_parameters(3, 5)` is `20`. Stuck?
# `hint("head_parameters")`


# %% id="head_parameters" role="solution"
def head_parameters(d, v):
    """d features in, v words out, both above 0 -> how many numbers nn.Linear(d, v) learns."""
    ### BEGIN SOLUTION
    return v * d + v  # the weight (v, d), and a bias for each word
    ### END SOLUTION


# %% id="head_parameters_check" role="check"
check("head_parameters")


# %% id="head_parameters_alternative" role="alternative"
def head_parameters(d, v):
    return sum(p.numel() for p in torch.nn.Linear(d, v, device="meta").parameters())


# %% [markdown] id="the-next-word"
# ## The next word
#
# Let the head speak: from the hidden states of a sentence, find the word that it thinks comes next.
# The check asks you about real sentences and the real head, and about small heads of its making.
#
# For `h = onelayer.hidden("<en> she has eaten <es> ella")` the word is `"ha"`. Stuck?
# `hint("next_word")`


# %% id="next_word" role="solution"
def next_word(h, W, b, words):
    """The likeliest word after the last position.

    h (T, D): a hidden state for each position; W (V, D), b (V,): the head;
    words: a list of V strings, row k of W belongs to words[k] -> one of the words.
    """
    ### BEGIN SOLUTION
    logits = W @ h[-1] + b  # (V, D) @ (D,) -> (V,): only the last position has read everything
    return words[logits.argmax()]
    ### END SOLUTION


# %% id="next_word_check" role="check"
check("next_word")


# %% id="next_word_alternative" role="alternative"
def next_word(h, W, b, words):
    logits = torch.nn.functional.linear(h, W, b)
    return words[logits.softmax(dim=1)[-1].topk(1).indices.item()]


# %% [markdown] id="let-it-speak"
# With it the model finishes a sentence. This loop is ordinary Python: no graph was declared, and
# the head runs anew for each word. Change the first line and run it again.

# %% id="let-it-speak-run"
sentence = "<en> they have spoken <es>"
with answered():
    while not sentence.endswith("<end>"):
        h = onelayer.hidden(sentence)
        word = next_word(h, head.weight.detach(), head.bias.detach(), onelayer.grammar.TOKENS)
        sentence = f"{sentence} {word}"
    print(sentence)

# %% [markdown] id="bytes"
# ## What the head moves
#
# One forward reads the tokens' states, the weight and the bias, and writes the logits. Count the
# bytes, each tensor once.
#
# `head_bytes(5, 3, 7, 4)` is `312`: 15 numbers of x, 21 of the weight, 7 of the bias and 35 logits,
# 4 bytes each. Stuck? `hint("head_bytes")`


# %% id="head_bytes" role="solution"
def head_bytes(n, d, v, itemsize):
    """n tokens, d features, v words, bytes per number -> bytes read and written."""
    ### BEGIN SOLUTION
    x, w, b, z = n * d, v * d, v, n * v
    return (x + w + b + z) * itemsize
    ### END SOLUTION


# %% id="head_bytes_check" role="check"
check("head_bytes")


# %% id="head_bytes_alternative" role="alternative"
def head_bytes(n, d, v, itemsize):
    shapes = [(n, d), (v, d), (v,), (n, v)]
    return sum(math.prod(shape) for shape in shapes) * itemsize


# %% [markdown] id="flops"
# ## What the head computes
#
# Count the floating-point operations of the product as torch's own counter does: a multiplication
# is one, an addition is one (d of each for a logit), and the bias goes free.
#
# `head_flops(5, 3, 7)` is `210`. Stuck? `hint("head_flops")`


# %% id="head_flops" role="solution"
def head_flops(n, d, v):
    """n tokens, d features, v words -> operations of x @ W.T."""
    ### BEGIN SOLUTION
    return 2 * n * d * v  # n * v dot products, d multiplications and d additions in each
    ### END SOLUTION


# %% id="head_flops_check" role="check"
check("head_flops")


# %% id="head_flops_alternative" role="alternative"
def head_flops(n, d, v):
    logits, per_logit = n * v, 0
    for _ in range(d):
        per_logit += 1  # multiply
        per_logit += 1  # add
    return logits * per_logit


# %% [markdown] id="intensity"
# ## Work per byte
#
# A machine that computes 100 operations in the time in which it fetches one byte waits, unless each
# byte gives it work. Say how much work a byte gives: the head's *arithmetic intensity*.
#
# `flops_per_byte(5, 3, 7, 4)` is `210 / 312`, about `0.67`. Stuck? `hint("flops_per_byte")`


# %% id="flops_per_byte" role="solution"
def flops_per_byte(n, d, v, itemsize):
    """n tokens, d features, v words, bytes per number, all above 0 -> FLOPs per byte, a float."""
    ### BEGIN SOLUTION
    flops = 2 * n * d * v
    nbytes = (n * d + v * d + v + n * v) * itemsize
    return flops / nbytes
    ### END SOLUTION


# %% id="flops_per_byte_check" role="check"
check("flops_per_byte")


# %% id="flops_per_byte_alternative" role="alternative"
def flops_per_byte(n, d, v, itemsize):
    bytes_per_flop = itemsize * (1 / v + 1 / n + 1 / (n * d) + 1 / d) / 2
    return 1 / bytes_per_flop


# %% [markdown] id="intensity-picture"
# The picture of your function. A batch makes the weight pay off; then the logits themselves become
# the bill, and more tokens do not help.

# %% id="intensity-picture-run"
with answered():
    batches = (1, 8, 32, 128, 1024, 65_536)
    onelayer.show_bars(
        {f"batch {n:,}": flops_per_byte(n, 64, 600, 4) for n in batches}, unit="FLOPs per byte"
    )

# %% [markdown] id="loss"
# ## How wrong was it?
#
# The loss is the surprise at the word that really came, averaged over the rows: `-log(p)`, where
# `p` is the row's softmax at that word. Write it with `exp`, `log` and sums. Logits can be large
# and far apart: what are `exp(1000)` and `log(exp(-1000))` in float32?
#
# Two equal logits give each word one half: `loss_by_hand(torch.zeros(1, 2), torch.tensor([0]))` is
# `0.6931`. Stuck? `hint("loss_by_hand")`


# %% id="loss_by_hand" role="solution"
def loss_by_hand(logits, targets):
    """logits (N, V), targets (N,) int64: the column of each row's right word -> tensor ()."""
    ### BEGIN SOLUTION
    total = torch.zeros(())
    for z, right in zip(logits, targets, strict=True):  # z (V,)
        m = z.max()  # exp(z - m) is at most 1: nothing overflows, and the sum is at least 1
        total += m + (z - m).exp().sum().log() - z[right]
    return total / len(logits)
    ### END SOLUTION


# %% id="loss_by_hand_check" role="check"
check("loss_by_hand")


# %% id="loss_by_hand_alternative" role="alternative"
def loss_by_hand(logits, targets):
    right = logits.gather(1, targets[:, None])  # (N, 1)
    return (logits - right).logsumexp(dim=1).mean()


# %% [markdown] id="devices"
# ## Who lives where
#
# "If you don't move it, neither will I": PyTorch adds two tensors on one device, and refuses two
# tensors on two. There is one exception. Say where `a + b` lives, or `None` where it is refused:
# the shapes always fit together. No GPU needed: the check asks torch's fake tensors, which have a
# device and a shape and no memory.
#
# `device_of_sum(("cuda", (3,)), ("cuda", (3,)))` is `"cuda"`; with `("cpu", (3,))` as the second it
# is `None`. Stuck? `hint("device_of_sum")`


# %% id="device_of_sum" role="solution"
def device_of_sum(a, b):
    """a, b: (device, shape) with device "cpu" or "cuda" -> "cpu", "cuda" or None."""
    ### BEGIN SOLUTION
    if a[0] == b[0]:
        return a[0]
    on_cpu = a if a[0] == "cpu" else b
    return "cuda" if on_cpu[1] == () else None  # a CPU number travels along with the call
    ### END SOLUTION


# %% id="device_of_sum_check" role="check"
check("device_of_sum")


# %% id="device_of_sum_alternative" role="alternative"
def device_of_sum(a, b):
    numbers_aside = {device for device, shape in (a, b) if (device, tuple(shape)) != ("cpu", ())}
    return None if len(numbers_aside) == 2 else (numbers_aside or {"cpu"}).pop()


# %% [markdown] id="detective-case"
# ## Detective case: the batch that stayed at home
#
# A colleague sends two tensors to another dtype; with a device it would be the same line. Nothing
# is raised, and nothing has moved. Run it, find out why, and write it right. Floats go, integers
# and masks stay as they are: nobody wants word 17.0.
#
# For a float32 x and int64 tokens y, `batch_to(x, y, torch.float64)` is x in float64, and y. Stuck?
# `hint("batch_to")`


# %% id="detective-case-code" tags=["worked-example"]
def batch_to_as_found(x, y, where):
    """Both tensors, moved."""
    for t in (x, y):
        t = t.to(where)
    return x, y


x, y = torch.zeros(2, 64), torch.tensor([3, 17])
print([t.dtype for t in batch_to_as_found(x, y, torch.float64)])


# %% id="batch_to" role="solution"
def batch_to(x, y, where):
    """x, y: tensors of any dtype; where: a floating-point dtype -> a pair, floats as `where`."""
    ### BEGIN SOLUTION
    moved = []
    for t in (x, y):
        moved.append(t.to(where) if t.is_floating_point() else t)  # .to returns; t stays as it is
    return tuple(moved)
    ### END SOLUTION


# %% id="batch_to_check" role="check"
check("batch_to")


# %% id="batch_to_alternative" role="alternative"
def batch_to(x, y, where):
    floats = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    return [torch.as_tensor(t, dtype=where) if t.dtype in floats else t for t in (x, y)]


# %% [markdown] id="the-way-down"
# ## In your own words
#
# Somebody asks you why the `grad_fn` of `F.linear(h, W, b)` is called `AddmmBackward0`, when nobody
# wrote `addmm`. In at most six sentences: name the stations between the Python line and the
# multiplication, in order, and what each of them decides or does.

# %% [markdown] id="the_way_down" role="free_text" points=4 minutes=6 difficulty=2
# `F.linear` is a built-in: its binding unpacks the Python arguments and calls the C++ operator. The
# dispatcher looks at the tensors' keys (device, gradients, modes) and finds that `linear` has no
# kernel per device but a recipe, which calls `t` and `addmm`; each of them goes through the
# dispatcher again. For `addmm` the autograd key comes first: its kernel makes the node
# `AddmmBackward0`, saves what backward will need, and dispatches once more without that key. Then
# the key of the device is the highest, and the CPU kernel calls a matrix library. Autograd met
# `addmm` and never `linear`, hence the name.
#
# **Rubric** (1 point each): the binding turns Python objects into C++ tensors; the dispatcher
# chooses by keys, not by the name alone; `linear` is taken apart into `addmm` above autograd;
# autograd records `addmm` and the device's kernel computes it.

# %% [markdown] id="where-you-are"
# ## Where you are

# %% id="where-you-are-run"
progress()
