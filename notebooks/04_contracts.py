# %% [markdown] id="title"
# # 04 Contracts: what to keep for backward, and what to make again
#
# A training step runs out of memory. Halve the batch and it fits: what fills the memory is not the
# parameters, it is what the graph keeps. You have wrapped a block in `checkpoint` and it helped, or
# copied an `autograd.Function` and hoped. After this chapter you can say what a node must keep,
# what it may compute a second time, what each costs, and which promises nobody checks.
#
# *Reading: two evenings, about 40 and 25 minutes.*

# %% [markdown] id="try-first"
# ## Try it first
# A model of 12 blocks keeps tensors for backward. Play forward and backward, and find the peak.
# Then click some of what is kept, so that backward makes it again: what becomes of the peak, and of
# the work?

# %% id="try-first-run" tags=["hide-input"]
import torch

import onelayer

gpt = onelayer.model.trained().train()  # dropout is on, as in training
words = onelayer.grammar.encode("<en> she has eaten <es> ella ha comido")
h = gpt.word(onelayer.model.padded([words] * 16)).detach().requires_grad_()  # (16, 8, 64)
with onelayer.count_saved(ignore=[h, *gpt.parameters()]) as inside:
    gpt.blocks[0](h)
onelayer.show_checkpoints([(h.nbytes, inside.bytes)] * 12)

# %% id="instruments"
import torch
import torch.nn.functional as F

from autograder import predict, reveal

head = onelayer.head()  # nn.Linear(64, 600), trained
W, b = head.weight, head.bias  # (600, 64), (600,)
words = onelayer.grammar.encode("<en> she has eaten <es> ella ha comido")
x = onelayer.hidden("<en> she has eaten <es> ella ha")  # (7, 64): what enters the head
target = torch.tensor(words[1:])  # (7,): the word that comes next

# %% [markdown] id="function-is-a-node"
# ## A Function is a node that you write
# Two static methods: `forward` computes, `backward` is the local rule. `ctx` carries what the first
# leaves for the second. `apply` runs the forward and puts one node into the graph; `ctx` is that
# node.

# %% id="function-is-a-node-run"
from torch.autograd import Function


class LinearFn(Function):
    @staticmethod
    def forward(ctx, x, w, b):
        ctx.recording = torch.is_grad_enabled()
        ctx.save_for_backward(x, w)
        return x @ w.T + b  # (N, 600)

    @staticmethod
    def backward(ctx, dz):
        x, w = ctx.saved_tensors
        return dz @ w, dz.T @ x, dz.sum(dim=0)  # one for each input of forward, in order


# %% [markdown] id="inside-forward"
# ## Is the inside recorded?
# `forward` calls `@`, `.T` and `+`, and `W` requires a gradient. Is recording on in there?

# %% id="inside-forward-guess"
predict("recording_inside_forward", choices=["on", "off"])

# %% id="inside-forward-run"
z = LinearFn.apply(x, W, b)  # (7, 600)
node = z.grad_fn
print(node.name(), "->", [after.name() if after else None for after, _ in node.next_functions])
reveal("recording_inside_forward", "on" if node.recording else "off")

# %% [markdown] id="inside-forward-why"
# Recording is off: one node stands for the whole body, and its next nodes are those of the inputs.
# Nothing inside is differentiated for you. In return you decide what is kept. The gradients are
# those of `F.linear`:

# %% id="inside-forward-same"
mine = torch.autograd.grad(F.cross_entropy(z, target), (W, b))
torchs = torch.autograd.grad(F.cross_entropy(F.linear(x, W, b), target), (W, b))
print([m.allclose(t, atol=1e-6) for m, t in zip(mine, torchs, strict=True)])
onelayer.show_graph(
    F.cross_entropy(LinearFn.apply(x, W, b), target), names={"W": W, "b": b, "x": x}
)

# %% [markdown] id="what-is-checked"
# ## The part of the contract that is checked
# As many gradients as inputs (`None` for what has none), each in a shape that fits its input and on
# its device. Torch checks that. Some differences it repairs in silence: a gradient with a
# broadcast dimension is summed, one in another dtype is cast, a `None` too many is dropped, and a
# single number (0-d) is moved to its input's device. The third class below has the first three.
# Torch checks no value.


# %% id="what-is-checked-run"
class TooFew(LinearFn):
    backward = staticmethod(lambda ctx, dz: dz)


class Transposed(LinearFn):
    backward = staticmethod(lambda ctx, dz: (None, ctx.saved_tensors[0].T @ dz, None))


class Repaired(LinearFn):  # dw in float64, db with a row for each token, a fourth answer
    backward = staticmethod(lambda ctx, dz: (None, dz.double().T @ x.double(), dz, None))


for broken in (TooFew, Transposed, Repaired):
    try:
        broken.apply(x, W, b).sum().backward()
        print(broken.__name__, "passes:", W.grad.dtype, tuple(b.grad.shape))
    except RuntimeError as error:
        print(error)
head.zero_grad()

# %% [markdown] id="save-for-backward"
# ## Why not `ctx.x = x`?
# A tensor can be left on `ctx` as an attribute, too. Below, `h` is edited in place between forward
# and backward. The Function that used `save_for_backward` raises, as chapter 03 makes you expect.
# And the other one?

# %% id="save-for-backward-guess"
predict("edit_of_an_attribute", choices=["an error", "a wrong gradient", "the right gradient"])


# %% id="save-for-backward-run"
class Square(Function):
    @staticmethod
    def forward(ctx, x, as_attribute):
        ctx.x = x if as_attribute else None
        ctx.save_for_backward(None if as_attribute else x)
        return x * x

    @staticmethod
    def backward(ctx, dy):
        (saved,) = ctx.saved_tensors
        return 2 * dy * (saved if ctx.x is None else ctx.x), None


# %% id="save-for-backward-reveal"
outcomes = {}
for as_attribute in (False, True):
    start = torch.ones(3, requires_grad=True)
    h = start * 1
    y = Square.apply(h, as_attribute)
    h.detach().add_(1)
    try:
        y.sum().backward()
        right = start.grad.eq(2).all()  # the derivative of h * h where h was 1
        outcomes[as_attribute] = "the right gradient" if right else "a wrong gradient"
    except RuntimeError:
        outcomes[as_attribute] = "an error"
reveal("edit_of_an_attribute", outcomes[True])

# %% [markdown] id="save-for-backward-why"
# A saved tensor remembers its version, and an attribute remembers nothing. The second thing that
# `save_for_backward` does is harder to see. A Function leaves its *result* on `ctx`, then we delete
# the only name of the result. Python frees an object when nobody holds it any more. Who still holds
# this one, if anybody does: are the floats freed?

# %% id="leak-guess"
predict("a_result_on_ctx", choices=["freed at once", "kept for now"])


# %% id="leak-function"
class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x.exp()
        return ctx.y

    @staticmethod
    def backward(ctx, dy):
        return dy * ctx.y


# %% id="leak-run"
import gc
import weakref

gc.collect()
y = Exp.apply(torch.ones(3, requires_grad=True))
floats = weakref.ref(y.untyped_storage())
del y
reveal("a_result_on_ctx", "freed at once" if floats() is None else "kept for now")

# %% [markdown] id="leak-why"
# The result holds its node, the node holds the result: a circle, which lives until Python's garbage
# collector happens to come. `save_for_backward` stores a result without its history, so there is no
# circle
# ([`saved_variable.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/saved_variable.cpp)).
# A hundred steps of a loop with either, and what is still held after each:


# %% id="leak-after"
class ExpSaved(Exp):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        return dy * ctx.saved_tensors[0]


def held_after_each_step(function, steps=100):
    """How many results of earlier steps are still in memory."""
    gc.collect()
    made, notes, held = [], [], []
    for step in range(steps):
        y = function.apply(torch.ones(1000, requires_grad=True))
        made.append(weakref.ref(y.untyped_storage()))
        y.sum().backward()
        del y
        notes.append([[step] for _ in range(30)])  # as a loop keeps its losses, names, batches
        held.append(sum(result() is not None for result in made))
    return held


ways = {"ctx.y = y": Exp, "save_for_backward": ExpSaved}
curves = {name: held_after_each_step(function) for name, function in ways.items()}
gc.collect()
onelayer.show_curves(curves, step="step", unit="results held")

# %% [markdown] id="seen-by-hooks"
# ## And what is not saved is not seen
# The `saved_tensors_hooks` of chapter 03, and all that is built on them, hear of saved tensors
# alone. `count_saved` adds up what they hear: each storage once. Here is what it sees of `Square`,
# which can keep its input in both ways. The checkpoints of the second evening are built on these
# hooks, too.

# %% id="seen-by-hooks-run"
seen = {}
for name, as_attribute in {"save_for_backward": False, "ctx.x = x": True}.items():
    with onelayer.count_saved() as saved:
        Square.apply(torch.ones(3, requires_grad=True), as_attribute)
    seen[name] = saved.bytes
onelayer.show_bars(seen, unit="bytes")

# %% [markdown] id="bill"
# ## The bill of a loss
# Now the head and its loss, with 896 words in place of 7. We tell `count_saved` to ignore what
# lives anyway: inputs, targets and weights. The logits take 2,150,400 bytes. To get the gradient of
# the logits, the loss needs the probability of each word. What do the head and the loss keep?

# %% id="bill-guess"
predict("saved_by_head_and_loss", choices=["nothing", "once the logits", "twice the logits"])

# %% id="bill-run"
many, answers = x.repeat(128, 1), target.repeat(128)  # (896, 64), (896,)
lives_anyway = [many, answers, W, b]
with onelayer.count_saved(ignore=lives_anyway) as eager:
    loss = F.cross_entropy(F.linear(many, W, b), answers)
print(eager)

# %% id="bill-reveal"
logits_bytes = 896 * 600 * 4
reveal(
    "saved_by_head_and_loss",
    {0: "nothing", 1: "once the logits", 2: "twice the logits"}[eager.bytes // logits_bytes],
)

# %% [markdown] id="bill-why"
# They keep the size of the logits once: the *log-softmax*. The logits themselves are not needed
# again. (The 4 bytes are the sum of weights by which the mean divided.) Can we keep less?

# %% [markdown] id="what-would-do"
# ## What would do instead?
# The gradient of the logits is softmax minus one-hot, divided by N for the mean. Softmax is
# `exp(z - lse)`, where `lse` is one number per row: the log of the sum of exponentials. `z` is a
# product of tensors that live anyway. So keep `lse`, and make `z` again.


# %% id="what-would-do-run"
def gradient_of_logits(z, lse, target):
    """z (N, V), lse (N,), target (N,) -> (N, V), of the mean cross-entropy."""
    p = (z - lse[:, None]).exp()  # the softmax, without another pass for the sum
    p[torch.arange(len(target)), target] -= 1
    return p / len(target)


leaf = F.linear(x, W, b).detach().requires_grad_()
(want,) = torch.autograd.grad(F.cross_entropy(leaf, target), leaf)
gradient_of_logits(leaf.detach(), leaf.detach().logsumexp(1), target).allclose(want, atol=1e-7)

# %% [markdown] id="setup-context"
# ## The other form of a Function
# Here `forward` knows no `ctx`: it is a function of its inputs. `setup_context` then sees inputs
# and outputs and decides what stays. `mark_non_differentiable`, `once_differentiable` and
# `needs_input_grad` are promises: each has a step of its own below.

# %% id="setup-context-run"
from torch.autograd.function import once_differentiable


class FusedLoss(Function):
    @staticmethod
    def forward(x, w, b, target):
        z = x @ w.T + b  # (N, 600)
        lse = z.logsumexp(dim=1)  # (N,)
        return (lse - z.gather(1, target[:, None])[:, 0]).mean(), lse

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    @once_differentiable
    def backward(ctx, dloss, _):
        x, w, b, target, lse = ctx.saved_tensors
        dz = dloss * gradient_of_logits(x @ w.T + b, lse, target)
        dx = dz @ w if ctx.needs_input_grad[0] else None
        return dx, dz.T @ x, dz.sum(dim=0), None


# %% [markdown] id="fused-bytes"
# ## What does it keep?
# Inputs are kept as references, and they live anyway. What is left?

# %% id="fused-bytes-run"
with onelayer.count_saved(ignore=lives_anyway) as fused:
    fused_loss, lse = FusedLoss.apply(many, W, b, answers)
mine = torch.autograd.grad(fused_loss, (W, b))
torchs = torch.autograd.grad(loss, (W, b))
print("same gradients:", [m.allclose(t, atol=1e-5) for m, t in zip(mine, torchs, strict=True)])
onelayer.show_bars({"cross_entropy(linear)": eager.bytes, "FusedLoss": fused.bytes}, unit="bytes")

# %% [markdown] id="fused-bytes-why"
# One number per word in place of 600. Flash attention ([since its second
# version](https://arxiv.org/abs/2307.08691)) does the same, and torch's node of it saves one
# log-sum-exp for each row of scores. Here are 7 rows:

# %% id="fused-bytes-attention"
q = torch.randn(1, 1, 7, 64, requires_grad=True)
node = F.scaled_dot_product_attention(q, q, q).grad_fn
print(node.name(), "saved logsumexp", tuple(node._saved_logsumexp.shape))

# %% [markdown] id="fused-peak"
# ## And at the worst moment?
# What is *saved* is held between forward and backward. `peak_bytes` measures the most that is held
# at any moment of both. How much of it does `FusedLoss` need, against the plain way?

# %% id="fused-peak-guess"
predict("peak_of_the_fused_loss", choices=["nearly nothing", "a third", "as much"])

# %% id="fused-peak-run"
peaks = {}
for name, loss_of in {
    "cross_entropy(linear)": lambda: F.cross_entropy(F.linear(many, W, b), answers),
    "FusedLoss": lambda: FusedLoss.apply(many, W, b, answers)[0],
}.items():
    with onelayer.peak_bytes() as peak:
        torch.autograd.grad(loss_of(), (W, b))
    peaks[name] = peak.bytes
onelayer.show_bars(peaks, unit="bytes")

# %% id="fused-peak-reveal"
share = peaks["FusedLoss"] / peaks["cross_entropy(linear)"]
reveal(
    "peak_of_the_fused_loss",
    "as much" if share > 0.8 else "a third" if share > 0.2 else "nearly nothing",
)

# %% [markdown] id="fused-peak-why"
# The peak is as high: both hold a few tensors of the logits' size at once, in forward and again in
# backward. To get rid of that moment, `z` must be made and used up in pieces, as `lean` of chapter
# 00 did; with `lse` each piece can be finished by itself. Chapter 07 does that in a kernel. Saved
# bytes and peak are two questions.

# %% [markdown] id="work"
# ## What does making it again cost?
# Count the work of all matrix products, forward and backward, with an `x` that wants its gradient
# too. Read the products in `LinearFn`, and the one that `FusedLoss` has besides. How much more work
# does `FusedLoss` do?

# %% id="work-guess"
predict("work_of_making_logits_again", choices=["the same", "a third more", "twice as much"])

# %% id="work-run"
from torch.utils.flop_counter import FlopCounterMode


def flops(run):
    with FlopCounterMode(display=False) as counter:
        run().backward()
    return counter.get_total_flops()


learning = many.clone().requires_grad_()
eager_flops = flops(lambda: F.cross_entropy(F.linear(learning, W, b), answers))
fused_flops = flops(lambda: FusedLoss.apply(learning, W, b, answers)[0])
onelayer.show_bars({"cross_entropy(linear)": eager_flops, "FusedLoss": fused_flops}, unit="FLOP")

# %% id="work-reveal"
names = {1.0: "the same", 1.33: "a third more", 2.0: "twice as much"}
reveal("work_of_making_logits_again", names[round(fused_flops / eager_flops, 2)])

# %% [markdown] id="work-why"
# A product's forward is one product, its backward two: one for `dx`, one for `dW`. That is 3, and
# the forward once more makes 4. Remember the third: it comes back with checkpoints.

# %% [markdown] id="functions-of-functions"
# ## Why two forms?
# `torch.func.grad` and `vmap` transform functions. They demand `setup_context`
# ([`function.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/autograd/function.py)), and
# `vmap` a rule besides: `generate_vmap_rule = True`, or a `vmap` that you write.

# %% id="functions-of-functions-run"
for loss_of in (
    lambda w: F.cross_entropy(LinearFn.apply(x, w, b), target),
    lambda w: FusedLoss.apply(x, w, b, target)[0],
):
    try:
        gradient = torch.func.grad(loss_of)(W.detach())
        print("torch.func.grad:", tuple(gradient.shape))
    except RuntimeError as error:
        print("torch.func.grad:", str(error).split(". ")[0])

# %% [markdown] id="needs-input-grad"
# ## A gradient that nobody wants
# `LinearFn.backward` always computes `dz @ w` for `x`. Here `x` requires no gradient. What happens
# to the result?

# %% id="needs-input-grad-guess"
predict("gradient_nobody_wants", choices=["an error", "in x.grad", "thrown away"])

# %% id="needs-input-grad-run"
z = LinearFn.apply(many, W, b)
with onelayer.count_bytes() as moved:
    z.backward(torch.ones_like(z))
products = [op for op in moved.ops if op.name == "aten::mm"]
print(products)
reveal("gradient_nobody_wants", "thrown away" if many.grad is None else "in x.grad")

# %% [markdown] id="needs-input-grad-why"
# Half of backward's work was thrown away, and torch does not say so. `ctx.needs_input_grad` has one
# boolean for each input. `forward` can read it as well, and decide what to save: without a gradient
# for `x` nobody will read `w`.


# %% id="needs-input-grad-asked"
class Frugal(LinearFn):
    @staticmethod
    def forward(ctx, x, w, b):
        needs_x, needs_w, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if needs_w else None, w if needs_x else None)
        return x @ w.T + b

    @staticmethod
    def backward(ctx, dz):
        x, w = ctx.saved_tensors  # None for what was not saved
        dx = None if w is None else dz @ w
        dw = None if x is None else dz.T @ x
        return dx, dw, dz.sum(dim=0) if ctx.needs_input_grad[2] else None


work = {f.__name__: flops(lambda f=f: f.apply(many, W, b).sum()) for f in (LinearFn, Frugal)}
onelayer.show_bars(work, unit="FLOP")

# %% [markdown] id="non-differentiable"
# ## An output without a gradient
# `FusedLoss` returns `lse` and has no rule for it. It says so with `mark_non_differentiable`.
# Suppose it did not, and somebody trains with a penalty on `lse`. Look at what `backward` of
# `FusedLoss` does with its last argument, `_`. What is the gradient of `W`?

# %% id="non-differentiable-guess"
predict("gradient_through_an_unmarked_output", choices=["an error", "zeros", "the right one"])


# %% id="non-differentiable-run"
class Unmarked(FusedLoss):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output[1])


_, lse = Unmarked.apply(x, W, b, target)
(came,) = torch.autograd.grad(lse.square().mean(), W)
(right,) = torch.autograd.grad(F.linear(x, W, b).logsumexp(1).square().mean(), W)
lengths = {"the gradient of W": right.norm().item(), "what came": came.norm().item()}
onelayer.show_bars(lengths, unit="long")

# %% id="non-differentiable-reveal"
fits = came.allclose(right, atol=1e-5)
reveal("gradient_through_an_unmarked_output", "the right one" if fits else "zeros")

# %% [markdown] id="non-differentiable-why"
# The gradient is zeros, without an error or a warning: `backward` was called, and ignored what
# arrived for `lse`. Once it is marked, the output requires no gradient, and the same line raises.

# %% id="non-differentiable-marked"
_, lse = FusedLoss.apply(x, W, b, target)
try:
    lse.square().mean().backward()
except RuntimeError as error:
    print(lse.requires_grad, "|", error)

# %% [markdown] id="materialize"
# ## What arrives for an output that nobody used?
# In ordinary training only the loss goes on, and nobody uses `lse`. `backward` still has a
# parameter for the gradient of `lse`. What does it get?

# %% id="materialize-guess"
predict("gradient_of_an_unused_output", choices=["None", "zeros", "ones"])


# %% id="materialize-run"
arrived = []  # what backward got for lse


class Watched(FusedLoss):
    @staticmethod
    def backward(ctx, dloss, dlse):
        arrived.append(dlse)
        return FusedLoss.backward(ctx, dloss, dlse)


class Bare(Watched):
    @staticmethod
    def setup_context(ctx, inputs, output):
        FusedLoss.setup_context(ctx, inputs, output)
        ctx.set_materialize_grads(False)


# %% id="materialize-reveal"
arrived.clear()
for function in (Watched, Bare):
    function.apply(x, W, b, target)[0].backward()
print(arrived)
reveal("gradient_of_an_unused_output", "None" if arrived[0] is None else "zeros")

# %% [markdown] id="materialize-why"
# It gets zeros, which torch made for this call. That spares you an `if`, and costs an allocation in
# the size of the output and the arithmetic with it. With `set_materialize_grads(False)` it gets
# `None`, and your code needs the `if`.

# %% [markdown] id="dirty"
# ## An input that was written to
# This Function doubles its input in place and returns it. Then we go on with `h`, the name that we
# had before. The derivative is 2. What does `start.grad` say if the edit is not declared?

# %% id="dirty-guess"
predict("undeclared_edit", choices=[1.0, 2.0, "an error"])


# %% id="dirty-run"
class Double(Function):
    @staticmethod
    def forward(ctx, h, declared):
        h.mul_(2)
        if declared:
            ctx.mark_dirty(h)
        return h

    @staticmethod
    def backward(ctx, dh):
        return 2 * dh, None


# %% id="dirty-reveal"
grads = {}
for declared in (False, True):
    start = torch.ones(3, requires_grad=True)
    h = start * 1
    Double.apply(h, declared)
    print("declared" if declared else "undeclared", "| h.grad_fn is", h.grad_fn.name())
    onelayer.show_graph(h.sum(), names={"start": start})
    h.sum().backward()
    grads[declared] = start.grad[0].item()
reveal("undeclared_edit", grads[False])

# %% [markdown] id="dirty-why"
# In the first picture `h` has new floats and its old history. `mark_dirty` gives `h` our node as
# its history, so whoever holds the old name passes through our node. `mark_dirty` also raises the
# version of `h`. That matters when something that torch did not see changed the bytes, such as your
# own kernel, or NumPy:


# %% id="dirty-unseen"
class DoubleInNumpy(Double):
    @staticmethod
    def forward(ctx, h, declared):
        h.detach().numpy()[:] *= 2  # the same memory, and no operator of torch
        if declared:
            ctx.mark_dirty(h)
        return h


for declared in (False, True):
    h = torch.ones(3, requires_grad=True) * 1
    DoubleInNumpy.apply(h, declared)
    print("declared" if declared else "undeclared", "| version of h:", h._version)

# %% [markdown] id="double-backward"
# ## The derivative of a derivative
# With `create_graph=True` backward itself is recorded, also yours. This Function can keep its
# result, or a copy that `forward` makes of it, and in `forward` nothing is recorded. We ask for the
# second derivative of its square, `exp(2x)`, at 0. The right one is 4. What comes with the copy?

# %% id="double-backward-guess"
predict("second_derivative_through_a_copy", choices=[2.0, 4.0, "an error"])


# %% id="double-backward-run"
class ExpKeeps(Function):
    @staticmethod
    def forward(ctx, x, copy):
        y = x.exp()
        ctx.save_for_backward(y.clone() if copy else y)
        return y

    @staticmethod
    def backward(ctx, dy):
        return dy * ctx.saved_tensors[0], None


# %% id="double-backward-reveal"
at, second = torch.zeros(1, requires_grad=True), {}
for copy in (False, True):
    (first,) = torch.autograd.grad(ExpKeeps.apply(at, copy) ** 2, at, create_graph=True)
    onelayer.show_graph(first, names={"x": at})
    second[copy] = torch.autograd.grad(first, at)[0].item()
print("keeps its result:", second[False])
reveal("second_derivative_through_a_copy", second[True])

# %% [markdown] id="double-backward-why"
# The pictures show the graph of the first derivative, with the result kept and with a copy kept. Of
# the two paths to `x`, the second picture has only one. A saved input or output comes back with its
# history; a value from the middle of `forward` comes back as a constant, and the second derivative
# is wrong without a warning. Keep inputs and outputs, or make the value again in `backward`.

# %% [markdown] id="once"
# ## Or say that you cannot
# `FusedLoss` would have the same fault: its `lse`, an output without gradient, comes back as a
# constant (`gradgradcheck` shows it, below). With `@once_differentiable` it raises. A `backward`
# that calls a kernel which writes through pointers needs the decorator, too: autograd records
# operators, and there are none inside (chapter 06 shows it).

# %% id="once-run"
(first,) = torch.autograd.grad(FusedLoss.apply(x, W, b, target)[0] ** 2, W, create_graph=True)
try:
    first.sum().backward()
except RuntimeError as error:
    print(error)

# %% [markdown] id="once-root"
# The decorator looks at the gradient that arrives. The square hands over one with a history. If you
# differentiate the loss itself, a plain 1 arrives, and then the decorator raises nothing:

# %% id="once-root-run"
(first,) = torch.autograd.grad(FusedLoss.apply(x, W, b, target)[0], W, create_graph=True)
print("can be differentiated again:", first.requires_grad)

# %% [markdown] id="gradcheck"
# ## Who checks the values?
# You do, with `gradcheck`. It moves every input that requires a gradient a millionth up and down,
# divides the difference of the results by the distance, and compares this slope with what
# `backward` says. A float32 has about seven digits. Does `torch.exp` itself pass in float32?

# %% id="gradcheck-guess"
predict("gradcheck_in_float32", choices=["a pass", "a failure"])

# %% id="gradcheck-run"
import warnings

point = torch.linspace(-1, 1, 5, requires_grad=True)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    passed = torch.autograd.gradcheck(torch.exp, point, raise_exception=False)
print(said[0].message)
reveal("gradcheck_in_float32", "a pass" if passed else "a failure")

# %% [markdown] id="gradcheck-why"
# Two float32 numbers that differ in the last digits leave no digits for a slope. Here is the slope
# of `exp` at 0.5, measured as `gradcheck` does. In float64 there are digits enough:

# %% id="gradcheck-slope"
off = {}
for dtype in (torch.float32, torch.float64):
    at, step = torch.tensor(0.5, dtype=dtype), 1e-6
    slope = ((at + step).exp() - (at - step).exp()) / (2 * step)
    off[str(dtype)] = 100 * abs(slope / at.exp() - 1).item()
onelayer.show_bars(off, unit="% off")

# %% [markdown] id="gradcheck-64"
# So give it float64, and small shapes: it runs the function twice for every single number of
# these.


# %% id="gradcheck-run-64"
def double(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


inputs = double(3, 4), double(5, 4), double(5), torch.tensor([0, 2, 4])
print("FusedLoss:", torch.autograd.gradcheck(FusedLoss.apply, inputs))

# %% [markdown] id="gradgradcheck"
# ## And the second derivative?
# `gradgradcheck` applies the same test to the gradient. It finds the copy that `ExpKeeps` kept,
# which `gradcheck` has no reason to complain about.

# %% id="gradgradcheck-run"
for copy in (False, True):
    once = torch.autograd.gradcheck(lambda t, copy=copy: ExpKeeps.apply(t, copy), double(4))
    twice = torch.autograd.gradgradcheck(
        lambda t, copy=copy: ExpKeeps.apply(t, copy) ** 2, double(4), raise_exception=False
    )
    print(
        "keeps", "a copy:   " if copy else "its result:", f"gradcheck {once}, gradgradcheck {twice}"
    )

# %% [markdown] id="gradgradcheck-why"
# And it finds what `@once_differentiable` forbids. Here is the backward of `FusedLoss` without the
# decorator, and without its write into `p`, at which autograd would raise. Once it takes the `lse`
# that was saved, once it makes its own. Does the second derivative pass?


# %% id="gradgradcheck-lse"
def passes(own_lse):
    class Twice(FusedLoss):
        @staticmethod
        def backward(ctx, dloss, _):
            x, w, b, target, lse = ctx.saved_tensors
            z = x @ w.T + b
            p = (z - (z.logsumexp(1) if own_lse else lse)[:, None]).exp()
            dz = dloss * (p - F.one_hot(target, len(w))) / len(target)
            return dz @ w, dz.T @ x, dz.sum(dim=0), None

    def loss_of(*given):
        return Twice.apply(*given)[0]

    return torch.autograd.gradgradcheck(loss_of, inputs, raise_exception=False)


print("with the lse that was saved:", passes(False), "| with its own:", passes(True))

# %% [markdown] id="first-evening-ends"
# ## The first evening ends here
# You can write a `Function` that keeps what it must, and say which of its promises nobody checks.
# That stands alone, with questions 4.1 to 4.5 of the lab. The second evening is about checkpoints:
# the same trade, for code that you did not write.

# %% [markdown] id="checkpoint"
# ## The same trade, for any piece of code
# `torch.utils.checkpoint` needs no rule from you: it keeps what goes in, and runs the piece again
# in backward. Our GPT has two blocks; we run them four times over, as a model of 8. What is kept?

# %% id="checkpoint-run"
from torch.utils.checkpoint import checkpoint

gpt = onelayer.model.trained().train()  # dropout is on, as in training
tokens = onelayer.model.padded([words] * 16)  # (16, 8)
blocks = [*gpt.blocks] * 4


def through(wrap):
    h = gpt.word(tokens)  # (16, 8, 64)
    for block in blocks:
        h = wrap(block, h)
    return h.square().mean()


def again(block, h):
    return checkpoint(block, h, use_reentrant=False)


# %% id="checkpoint-bytes"
with onelayer.count_saved(ignore=[*gpt.parameters(), tokens]) as plain:
    through(lambda block, h: block(h))
with onelayer.count_saved(ignore=[*gpt.parameters(), tokens]) as thrifty:
    through(again)
onelayer.show_bars({"8 blocks": plain.bytes, "8 checkpoints": thrifty.bytes}, unit="bytes")

# %% [markdown] id="checkpoint-why"
# What is left are the tensors that go from block to block. Everything inside is gone: norms,
# queries and keys, the 256 wide middle of the MLP, dropout's masks. Over a whole step, operator by
# operator, it looks like this:

# %% id="checkpoint-path"
paths = {}
for name, wrap in {"8 blocks": lambda block, h: block(h), "8 checkpoints": again}.items():
    gpt.zero_grad()
    with onelayer.peak_bytes() as peak:
        through(wrap).backward()
    paths[name] = [nbytes / 1e6 for nbytes in peak.path]
of_weights = sum(p.grad.nbytes for p in gpt.parameters() if p.grad is not None)
ends = [f"{path[-1]:.2f}" for path in paths.values()]
print("MB held at the end:", *ends, f"| gradients of the weights: {of_weights / 1e6:.2f}")
gpt.zero_grad()
onelayer.show_curves(paths, step="operator of the step", unit="MB held")

# %% [markdown] id="checkpoint-path-why"
# Without checkpoints the forward climbs, and backward comes down. With them the forward stays low,
# and backward makes a tooth for each block. What is left at the end are the gradients of the
# weights.

# %% [markdown] id="from-hooks"
# ## How it is built
# `saved_tensors_hooks` from chapter 03 can do more than look. What `pack` returns is kept *instead*
# of the tensor: here a number. The first `unpack` runs the piece again, and this time keeps what it
# saves, in the same order. That is the whole idea:

# %% id="from-hooks-run"
from torch.autograd.graph import saved_tensors_hooks


def tiny_checkpoint(piece, x):
    places, made = [], []

    def unpack(place):
        if not made:
            with torch.enable_grad(), saved_tensors_hooks(made.append, lambda _: None):
                piece(x)
        return made[place].detach()

    def pack(tensor):
        places.append(tensor.shape)
        return len(places) - 1

    with saved_tensors_hooks(pack, unpack):
        return piece(x)


# %% id="from-hooks-same"
block = gpt.blocks[0].eval()  # no dropout, for the moment
h = gpt.word(tokens).detach().requires_grad_()
(mine,) = torch.autograd.grad(tiny_checkpoint(block, h).square().mean(), h)
(plainly,) = torch.autograd.grad(block(h).square().mean(), h)
block.train()
print("same gradient:", mine.equal(plainly))

# %% [markdown] id="from-hooks-torchs"
# Torch's own has the same two hooks, `_checkpoint_hook` and `_recomputation_hook`. It also lets go
# of each tensor as soon as it was read, stops when the last one is there, may be nested, and
# compares shapes
# ([`checkpoint.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/utils/checkpoint.py)).

# %% [markdown] id="one-for-all"
# ## One checkpoint around everything?
# 64 layers, each a `sin`, which keeps its input of 4,096 bytes. Without checkpoints 64 of them are
# held at once. Put a single checkpoint around all 64: what is the peak, over forward and backward?

# %% id="one-for-all-guess"
predict("one_checkpoint_around_all", choices=["about 1", "about 8", "about 32", "about 64"])


# %% id="one-for-all-run"
def in_parts(layers, size):
    """Bytes at the peak, counted in tensors, with a checkpoint around every `size` layers."""

    def part(t):
        for _ in range(size):
            t = t.sin()
        return t

    with onelayer.peak_bytes() as peak:
        h = torch.linspace(0, 1, 1024).requires_grad_()
        for _ in range(layers // size):
            h = checkpoint(part, h, use_reentrant=False)
        h.sum().backward()
    return peak.bytes // 4096


reveal("one_checkpoint_around_all", f"about {in_parts(64, 64) // 8 * 8}")

# %% [markdown] id="one-for-all-why"
# Nothing is won: the forward keeps one tensor, and then backward makes all 64 again before it can
# use the last one. Memory is a matter of the *moment*: what is kept for later, plus the piece that
# is being made again now.

# %% [markdown] id="root"
# ## How long should a piece be?
# Short pieces: many inputs to keep. Long ones: much to make again at once. For 64 layers, which
# length has the lowest peak?

# %% id="root-guess"
predict("best_length_of_a_piece", choices=[2, 4, 8, 16])

# %% id="root-run"
peaks = {size: in_parts(64, size) for size in (1, 2, 4, 8, 16, 32, 64)}
onelayer.show_bars({f"every {size}": n for size, n in peaks.items()}, unit="tensors held")

# %% id="root-reveal"
reveal("best_length_of_a_piece", min(peaks, key=peaks.get))

# %% [markdown] id="root-why"
# L layers in pieces of k: L/k inputs, and k - 1 more for the piece at hand. The sum is lowest where
# k is the root of L, and the peak is about twice that root ([Chen et al.
# 2016](https://arxiv.org/abs/1604.06174)). (The bars count a few more: what is in flight.) So
# memory grows with the root of the depth:

# %% id="root-growth"
depths = {16: 4, 64: 8, 256: 16}
held = {}
for depth, root in depths.items():
    held[f"{depth} layers, every 1"] = in_parts(depth, 1)
    held[f"{depth} layers, every {root}"] = in_parts(depth, root)
onelayer.show_bars(held, unit="tensors held")

# %% [markdown] id="a-third"
# ## About a third more
# Each layer of a checkpoint runs once more, whatever the length of the pieces. Forward 1, backward
# 2, and now 1 again: 4 in place of 3. Counted on the 8 blocks, in forwards:

# %% id="a-third-run"
from torch.utils.checkpoint import set_checkpoint_early_stop

with FlopCounterMode(display=False) as counter:
    through(lambda block, h: block(h))
forward = counter.get_total_flops()
work = {
    "all kept": flops(lambda: through(lambda block, h: block(h))) / forward,
    "checkpoints": flops(lambda: through(again)) / forward,
}
gpt.eval()
work["no dropout"] = flops(lambda: through(again)) / forward
with set_checkpoint_early_stop(False):
    work["no dropout, to the end"] = flops(lambda: through(again)) / forward
gpt.train()
onelayer.show_bars(work, unit="forwards")

# %% [markdown] id="a-third-why"
# The counter counts the products of matrices. "About", because torch stops early: without dropout,
# the last thing that a block saves is what enters its last `nn.Linear`. So that product is not made
# again, and it is a third of the work in a block's products. Told not to stop early, torch makes
# it, and it is 4 again.

# %% [markdown] id="policy"
# ## Choose what is kept
# All or nothing is not the only choice. A *policy* is asked about each operator inside the piece,
# and says whether its result is kept or made again
# ([`create_selective_checkpoint_contexts`](https://docs.pytorch.org/docs/stable/checkpoint.html)).
# Most of a block's arithmetic is in its products, and little in norms, GELU and dropout. So
# keep the products. A checkpoint costs 4 forwards of products in place of 3. And with this policy?

# %% id="policy-guess"
predict("work_when_products_are_kept", choices=["3 forwards", "3.5 forwards", "4 forwards"])


# %% id="policy-run"
from functools import partial

from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

aten = torch.ops.aten
PRODUCTS = {aten.mm.default, aten.addmm.default, aten.bmm.default}


def keep_products(ctx, op, *args, **kwargs):
    kept = op in PRODUCTS
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


def selective(block, h):
    contexts = partial(create_selective_checkpoint_contexts, keep_products)
    return checkpoint(block, h, use_reentrant=False, context_fn=contexts)


# %% id="policy-show"
ways = {"all kept": lambda block, h: block(h), "products kept": selective, "nothing kept": again}
held = {}
for name, wrap in ways.items():
    with onelayer.peak_bytes() as peak:
        kept_loss = through(wrap)
    held[name] = peak.now  # while the loss lives
    del kept_loss
work["products kept"] = flops(lambda: through(selective)) / forward
quiet = warnings.catch_warnings(action="ignore")  # 2.15 says that hooks are to see it one day
with quiet, onelayer.count_saved(ignore=[*gpt.parameters(), tokens]) as chosen:
    through(selective)
print("the hooks see", chosen.bytes, "bytes, and of plain checkpoints", thrifty.bytes)
onelayer.show_bars(held, unit="bytes held after the forward")
print({name: round(times, 2) for name, times in work.items()})
reveal("work_when_products_are_kept", f"{round(work['products kept'] * 2) / 2:g} forwards")

# %% [markdown] id="policy-why"
# No product of a layer runs twice, and a good part of the memory is free; attention, whose kernel
# is not on our list, does. (The policy keeps results by itself, and not through
# `save_for_backward`. The hooks do not see them; so the bars count what is alive.) The compiler's
# partitioner, chapter 08, makes this choice from the graph.

# %% [markdown] id="offload"
# ## Or keep it elsewhere
# A third way neither keeps on the device nor makes again: `save_on_cpu` copies what is saved to the
# *host*, the CPU's memory, and back when backward reads it. It is the same pair of hooks once more.
# Eight layers run on a *mocked* GPU: torch's own CUDA code, on a machine without one (chapter 05
# says what is real about it). How many bytes does the device hold after the forward?


# %% id="offload-run"
def saved_here_or_there():
    import contextlib

    import torch

    layers = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(8))).cuda()
    x, told = torch.randn(4096, 256, device="cuda"), {}
    layers(x[:1])  # the workspace of cuBLAS comes, and stays
    for name, hooks in {
        "on the device": contextlib.nullcontext(),
        "on the host": torch.autograd.graph.save_on_cpu(pin_memory=True),
    }.items():
        start = torch.cuda.memory_allocated()
        with hooks:
            loss = layers(x).square().mean()
        told[name] = torch.cuda.memory_allocated() - start
        loss.backward()
        layers.zero_grad()
        del loss
    return told


# %% id="offload-show"
offloaded = onelayer.mocked("04_offload", saved_here_or_there)
onelayer.show_bars(offloaded.result, unit="bytes")
of_steps = [call for call in offloaded.calls if call.line.startswith("loss")]
for way in ("copy to the host", "copy to the device"):
    nbytes = sum(call.bytes for call in of_steps if call.kernel == way)
    print(f"{way:18} {nbytes:,} bytes")
print("waits of the host:", sum("Synchronize" in call.api for call in of_steps))
print("streams:", len({call.stream for call in of_steps if call.begin_us is not None}))

# %% [markdown] id="offload-why"
# The memory is free, and the link between host and device pays: every saved byte travels twice.
# With `pin_memory=True` the host does not wait for the copies; without it, the way out is `.cpu()`,
# which waits ([`graph.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/autograd/graph.py)).
# But copies and layers stand in one *stream*, a queue in which the device works in order, so they
# take turns. To run beside the layers, the copies need a stream of their own, as in chapter 05.

# %% [markdown] id="real-layers"
# ## A real block is not a sine
# `sin` keeps its input and no more. What does a block keep, besides what enters it?

# %% id="real-layers-run"
h = gpt.word(tokens).detach().requires_grad_()
with onelayer.count_saved(ignore=[h, *gpt.parameters()]) as inside:
    gpt.blocks[0](h)
onelayer.show_bars({"enters": h.nbytes, "saved inside": inside.bytes}, unit="bytes")

# %% [markdown] id="real-layers-why"
# Keeping the input of a block is cheap, keeping its inside is dear. The root is the answer for
# layers that keep only their input. Here a piece of two blocks would save half of the inputs, and
# hold the inside of one more block at the peak. That is worth it only where half of the inputs are
# more than one inside: in a chain of more blocks than twice this ratio. So in practice a
# checkpoint goes around each block.

# %% [markdown] id="play"
# ## Play with it
# A GPT of 12 such blocks. Keep everything, then set a checkpoint every 1, 3 and 12 blocks; each
# time, go to the peak. Then set the bytes that each block saves inside to 0, and find the root.
# What happens if you choose by hand where a piece begins?

# %% id="play-run"
onelayer.show_checkpoints([(h.nbytes, inside.bytes)] * 12, every=3)

# %% [markdown] id="rng"
# ## The second run rolls the dice again
# Our blocks have dropout. The second run must drop the same numbers as the first.
# `preserve_rng_state` sees to that, and can be turned off. What happens if you do?

# %% id="rng-guess"
predict("dropout_without_its_state", choices=["an error", "another gradient", "the same gradient"])


# %% id="rng-run"
def gradient(run):
    torch.manual_seed(0)
    start = h.detach().requires_grad_()
    return torch.autograd.grad(run(gpt.blocks[0], start).square().mean(), start)[0]


def dice(block, h):
    return checkpoint(block, h, use_reentrant=False, preserve_rng_state=False)


plainly = gradient(lambda block, h: block(h))
off = {run.__name__: (gradient(run) - plainly).norm() / plainly.norm() for run in (again, dice)}
onelayer.show_bars({name: 100 * share.item() for name, share in off.items()}, unit="% off")

# %% id="rng-reveal"
reveal("dropout_without_its_state", "another gradient" if off["dice"] else "the same gradient")

# %% [markdown] id="rng-why"
# The gradient that arrived at the block belongs to the first run. It was multiplied with slopes of
# the second run, whose dropout had another mask, and torch did not notice. With the default, the
# state of the random generator is copied before the first run and put back for the second;
# afterwards the generator is as the second run found it. That costs one copy of the state for each
# checkpoint:

# %% id="rng-cost"
print(f"{torch.get_rng_state().nbytes:,} bytes for the CPU's generator")

# %% [markdown] id="same-again"
# ## What else must be the same
# Everything that the piece reads must be the same. Torch notices when fewer tensors are saved than
# before, or other shapes, dtypes or devices. It compares no values. Here a factor changes between
# forward and backward, then the number of layers. A piece that has become longer is not noticed:
# its second run ends as soon as the last saved tensor is there. Run to the end, it is noticed, too.


# %% id="same-again-run"
def changed(before, after):
    """The gradient of a piece that reads `settings`, which change after its forward."""
    settings = dict(before)

    def piece(t):
        for _ in range(settings["depth"]):
            t = (t * settings["factor"]).sin()
        return t

    start = torch.ones(1, requires_grad=True)
    y = checkpoint(piece, start, use_reentrant=False)
    settings.update(after)
    return torch.autograd.grad(y, start)[0].item()


# %% id="same-again-show"
first = {"factor": 1.0, "depth": 2}
print(f"nothing changed: {changed(first, {}):.3f}")
print(f"factor changed:  {changed(first, {'factor': 3.0}):.3f}")
print(f"deeper:          {changed(first, {'depth': 3}):.3f}")
try:
    changed(first, {"depth": 1})
except RuntimeError as error:
    print("less deep:", *str(error).splitlines()[:3], sep="\n  ")
with set_checkpoint_early_stop(False):
    try:
        changed(first, {"depth": 3})
    except RuntimeError as error:
        print("deeper, to the end:", str(error).splitlines()[0], sep="\n  ")

# %% [markdown] id="reentrant"
# ## The older way
# `use_reentrant=True` is no pair of hooks but a Function: its forward runs unrecorded, its backward
# runs the piece again and calls `backward` inside. Here it stands around the head:

# %% id="reentrant-graph"
learning = x.clone().requires_grad_()
z = checkpoint(head, learning, use_reentrant=True)
onelayer.show_graph(z.sum(), names={"x": learning, "W": W, "b": b})

# %% [markdown] id="reentrant-ask"
# The weights are no inputs of this node. They get their gradients inside, when it runs. Now let `x`
# want no gradient, as features from a frozen layer do not. What is `W.grad`?

# %% id="reentrant-guess"
predict("weight_in_a_reentrant_checkpoint", choices=["as always", "None", "zeros"])


# %% id="reentrant-run"
def weight_grad(given, reentrant):
    """What is in `W.grad` after forward and backward, and what torch said."""
    head.zero_grad()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        z = checkpoint(head, given, use_reentrant=reentrant)
    if z.requires_grad:
        z.sum().backward()
    return "None" if W.grad is None else "as always", *(str(w.message) for w in said)


print("use_reentrant=False:", *weight_grad(x, False))
found, *said = weight_grad(x, True)
print("use_reentrant=True: ", found, "|", *said)
print("and x wants one:    ", *weight_grad(learning, True))
reveal("weight_in_a_reentrant_checkpoint", found)

# %% [markdown] id="reentrant-why"
# A Function's result requires a gradient if one of its *inputs* does. With an `x` that wants none
# this layer does not learn, and one warning says so; with an `x` that wants one it does. Write
# `use_reentrant=False`: the documentation recommends it, too.

# %% [markdown] id="one-step"
# ## A step of training, on the thrifty path
# Each block in a checkpoint, and the fused loss at the end: the whole model, keeping little. One
# step on all its parameters, towards "cantado" after "ella ha".

# %% id="one-step-run"
gpt = onelayer.model.trained()


def thrifty_loss(tokens, target):
    h = gpt.word(tokens) + gpt.place.weight[: tokens.shape[1]]  # (1, 7, 64)
    for block in gpt.blocks:
        h = checkpoint(block, h, use_reentrant=False)
    return FusedLoss.apply(gpt.norm(h)[0], gpt.head.weight, gpt.head.bias, target)[0]


# %% id="one-step-words"
sentence = torch.tensor([words[:-1]])  # (1, 7)
wish = torch.tensor([*words[1:-1], *onelayer.grammar.encode("cantado")])  # (7,)
parameters = list(gpt.parameters())
mine = torch.autograd.grad(thrifty_loss(sentence, wish), parameters)
torchs = torch.autograd.grad(F.cross_entropy(gpt(sentence)[0], wish), parameters)
print("same gradients:", all(m.allclose(t, atol=1e-5) for m, t in zip(mine, torchs, strict=True)))
print(onelayer.next_words(gpt(sentence)[0], k=3), end="\n\n")
with torch.no_grad():
    for p, grad in zip(parameters, mine, strict=True):
        p -= 0.05 * grad
print(onelayer.next_words(gpt(sentence)[0], k=3))

# %% [markdown] id="allocator"
# ## What a GPU's allocator saw
# On this page bytes were counted at the dispatcher. On a GPU, the allocator itself
# [keeps a trace](https://docs.pytorch.org/docs/stable/torch_cuda_memory.html) of every block that
# it hands out. Here is a recording of it, from an H100: two steps of this GPT with AdamW, 1,024
# sentences each, and no checkpoint. What it held before is the
# [workspaces of cuBLAS](https://docs.pytorch.org/docs/stable/notes/cuda.html#cublas-workspaces):
# one for the thread of forward, one for the thread of backward, and in torch 2.11 one MiB more for
# products with a bias.

# %% id="allocator-run"
onelayer.show_recording("step_memory")

# %% [markdown] id="what-you-can-now-say"
# ## What you can now say
# - A Function is one node. Torch checks how many gradients it hands out, their shapes and their
#   devices; values, wasted work, undeclared edits and outputs are your part of the contract.
#   `gradcheck` in float64 tests it.
# - Keep inputs and outputs, by `save_for_backward`: versions are checked, no circle leaks, hooks
#   and a second derivative work. What cannot be differentiated twice should say so.
# - Whatever can be made from what lives anyway need not be kept. The head's loss needs one number
#   per word.
# - A checkpoint keeps what goes in and runs its piece again: a third more work. The peak is what is
#   kept plus one piece; for bare layers about twice the root of their number.
#
# Now do it by hand: [Lab 04](../labs/04_contracts/04_contracts.ipynb).

# %% [markdown] id="sources"
# ## Where this is written in PyTorch
# - `Function`, its context and both forms:
#   [`function.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/autograd/function.py); the
#   node behind it, and the count of its gradients:
#   [`python_function.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/python_function.cpp);
#   their shapes and devices, `validate_outputs` in
#   [`engine.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/engine.cpp)
# - `gradcheck` and `gradgradcheck`:
#   [`gradcheck.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/autograd/gradcheck.py)
# - both checkpoints, with a long note on nesting:
#   [`checkpoint.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/utils/checkpoint.py);
#   the hooks: [`graph.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/autograd/graph.py)
# - [Extending PyTorch](https://docs.pytorch.org/docs/stable/notes/extending.html) and
#   [`torch.utils.checkpoint`](https://docs.pytorch.org/docs/stable/checkpoint.html)
#
# Between torch 2.11 and 2.15 the numbers on this page stay, but for one bar chart: in 2.15 the
# counter of FLOP also counts attention on a CPU, so a little is added to 3 and 4 forwards. A
# checkpoint keeps its inputs by other means inside: a Function that does nothing in 2.11, a saved
# tensor of its own in 2.13. In all of them a call without `use_reentrant` warns and takes the older
# way; in 2.11 and 2.13 the warning says that it raises from 2.9 on, and it does not.
