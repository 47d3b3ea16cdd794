# %% [markdown] id="title"
# # Lab 04: contracts
#
# A `torch.autograd.Function` is a contract. You say what to keep until backward, torch keeps it;
# torch says who needs a gradient, you hand over those. In this lab you sign it for the head, for
# an edit in place, for a checkpoint, and decide what a chain of layers keeps on a byte budget.
#
# Work from top to bottom, in about two hours, after [chapter
# 04](../../notebooks/04_contracts.ipynb). Any right answer counts, also one that asks torch; you
# learn more by not asking. Each question but the last has a stub, a check that answers at once, and
# three hints. Keep helper functions inside the cell of the question that uses them: only those
# cells are graded. Sizes: N tokens, D features, V words; `dx` is dloss/dx. N may be 1, and what
# comes in float64 goes out in float64.

# %% id="setup" tags=["setup"]
from itertools import combinations

import torch
import torch.nn.functional as F

# %% id="instruments"
import onelayer
from autograder import answered, check, hint, progress

head = onelayer.head()  # nn.Linear(64, 600): weight (600, 64), bias (600,)

# %% [markdown] id="what-the-head-keeps"
# What torch keeps for the head and its loss until backward, on real tokens: x `(7, 64)`, and the
# log-probabilities `(7, 600)`, far larger than all the rest. In 4.2 you keep one number for each
# word in their place.

# %% id="what-the-head-keeps-run"
x = onelayer.hidden("<en> she has eaten <es> ella ha")  # (7, 64)
with onelayer.count_saved(ignore=head.parameters()) as saved:
    loss = F.cross_entropy(head(x), torch.arange(7))
onelayer.show_bars({str(kept.shape): kept.bytes for kept in saved.tensors}, unit="bytes")

# %% [markdown] id="worked-example"
# ## Worked example: the contract of a scale
#
# `y = x * s` scales feature d of every row by `s[d]`. A
# [Function](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/autograd/function.py) is written
# in the same four steps, whatever it computes: **save what backward will read**, **ask who needs a
# gradient**, **compute those and no other**, **answer each input of forward**, in its order, with
# `None` for whoever needs none. In 4.1 the steps are written down for you.


# %% id="worked-example-code" tags=["worked-example"]
class ScaleFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        """x (N, D), s (D,) -> (N, D). torch records nothing in here: backward is your word."""
        x_needed, s_needed = ctx.needs_input_grad
        # save what backward will read: ds reads x, dx reads s
        ctx.save_for_backward(x if s_needed else None, s if x_needed else None)
        return x * s

    @staticmethod
    def backward(ctx, dy):
        x, s = ctx.saved_tensors
        x_needed, s_needed = ctx.needs_input_grad  # ask who needs a gradient
        dx = dy * s if x_needed else None  # compute those and no other
        ds = (dy * x).sum(dim=0) if s_needed else None
        return dx, ds  # answer each input of forward


x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
s = torch.randn(3, dtype=torch.float64, requires_grad=True)
torch.autograd.gradcheck(ScaleFn.apply, (x, s))  # your backward against finite differences

# %% [markdown] id="a-linear-function"
# ## A linear Function
#
# Complete `LinearFn`. x, w and b may be frozen, and b may be `None`. Save what torch's own node
# saves, no more: nothing for a gradient that nobody needs.
#
# What was saved as `None` comes back as `None`. If only b learns, no tensor is saved, and backward
# returns `(None, None, dy.sum(dim=0))`. Stuck? `hint("linear_fn")`


# %% id="linear_fn" role="solution"
class LinearFn(torch.autograd.Function):
    """y = x @ w.T + b, with x (N, D), w (V, D), b (V,) or None."""

    @staticmethod
    def forward(ctx, x, w, b):
        # save what backward will read: dw reads x, dx reads w, db reads neither
        ### BEGIN SOLUTION
        x_needed, w_needed, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if w_needed else None, w if x_needed else None)
        return F.linear(x, w, b)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, dy):
        """dy (N, V) -> (dx (N, D), dw (V, D), db (V,)), None for each that nobody needs."""
        # ask who needs a gradient
        # compute those and no other
        # answer each input of forward
        ### BEGIN SOLUTION
        x, w = ctx.saved_tensors
        x_needed, w_needed, b_needed = ctx.needs_input_grad
        dx = dy @ w if x_needed else None
        dw = dy.T @ x if w_needed else None
        db = dy.sum(dim=0) if b_needed else None
        return dx, dw, db
        ### END SOLUTION


def linear_fn(x, w, b, dy):
    """-> (y, the tensors that the node saved, what backward answers)."""
    y = LinearFn.apply(x, w, b)
    saved = [t for t in y.grad_fn.saved_tensors if t is not None]
    return y, saved, LinearFn.backward(y.grad_fn, dy)  # y.grad_fn is the ctx


# %% id="linear_fn_check" role="check"
check("linear_fn")


# %% id="linear_fn_alternative" role="alternative"
class LinearInTwoSteps(torch.autograd.Function):
    """forward without a ctx; setup_context says what to keep."""

    @staticmethod
    def forward(x, w, b):
        return x @ w.T if b is None else x @ w.T + b

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, _ = inputs
        x_needed, w_needed = ctx.needs_input_grad[:2]
        ctx.save_for_backward(*[t for t, n in ((w, x_needed), (x, w_needed)) if n])

    @staticmethod
    def backward(ctx, dy):
        kept, answers = list(ctx.saved_tensors), [None, None, None]
        if ctx.needs_input_grad[0]:
            answers[0] = torch.einsum("no,oi->ni", dy, kept.pop(0))
        if ctx.needs_input_grad[1]:
            answers[1] = torch.einsum("no,ni->oi", dy, kept.pop(0))
        if ctx.needs_input_grad[2]:
            answers[2] = torch.einsum("no->o", dy)
        return tuple(answers)


def linear_fn(x, w, b, dy):
    y = LinearInTwoSteps.apply(x, w, b)
    return y, y.grad_fn.saved_tensors, LinearInTwoSteps.backward(y.grad_fn, dy)


# %% [markdown] id="a-fused-loss"
# ## The head and its loss, with one number per token
#
# Join the head and `F.cross_entropy` in one Function, as its two halves. Backward needs softmax(z),
# N times V numbers. Keep one number for each row, its log-sum-exp, and compute the logits again.
#
# Your list is all that your second half gets, and the check counts its bytes. x, w, b and target
# belong in it; they live anyway and do not count. All else may take 8 bytes for each row. As in a
# Function without `create_graph`, torch records nothing in either half.
#
# For `x = w = b = 0`, V = 2, the loss is log 2. Logits may be in the hundreds. Stuck?
# `hint("head_loss")`


# %% id="head_loss" role="solution"
@torch.no_grad()  # as inside a Function
def head_loss_forward(x, w, b, target):
    """x (N, D), w (V, D), b (V,), target (N,) -> (loss, list of tensors to save)."""
    # save what backward will read
    ### BEGIN SOLUTION
    z = F.linear(x, w, b)  # (N, V), gone when this function returns
    lse = z.logsumexp(dim=1)  # (N,)
    picked = z[torch.arange(len(x)), target]
    return (lse - picked).mean(), [x, w, b, target, lse]
    ### END SOLUTION


@torch.no_grad()  # as inside a Function
def head_loss_backward(saved, dloss, needs):
    """saved (your list), dloss (a tensor of shape ()), needs (three bools, for x, w and b)
    -> (dx (N, D), dw (V, D), db (V,)), None for each that nobody needs.
    """
    # ask who needs a gradient
    # compute those and no other
    # answer each input of forward
    ### BEGIN SOLUTION
    x, w, b, target, lse = saved
    dz = (F.linear(x, w, b) - lse[:, None]).exp()  # softmax(z), recomputed
    dz[torch.arange(len(x)), target] -= 1
    dz *= dloss / len(x)
    dx = dz @ w if needs[0] else None
    dw = dz.T @ x if needs[1] else None
    db = dz.sum(dim=0) if needs[2] else None
    return dx, dw, db
    ### END SOLUTION


# %% id="head_loss_check" role="check"
check("head_loss")


# %% id="head_loss_alternative" role="alternative"
@torch.no_grad()
def head_loss_forward(x, w, b, target):
    """Row by row: no more than one row of logits at a time."""
    lse, total = x.new_empty(len(x)), x.new_zeros(())
    for n, row in enumerate(x):
        z = w @ row + b  # (V,)
        top = z.max()
        lse[n] = top + (z - top).exp().sum().log()
        total += lse[n] - z[target[n]]
    return total / len(x), [lse, target, x, w, b]


@torch.no_grad()
def head_loss_backward(saved, dloss, needs):
    lse, target, x, w, b = saved
    grads = [torch.zeros_like(t) if n else None for t, n in zip((x, w, b), needs, strict=True)]
    for n, row in enumerate(x):
        dz = torch.exp(w @ row + b - lse[n]) - F.one_hot(target[n], len(b))  # (V,)
        dz = dz * dloss / len(x)
        if needs[0]:
            grads[0][n] = w.T @ dz
        if needs[1]:
            grads[1] += torch.outer(dz, row)
        if needs[2]:
            grads[2] += dz
    return grads


# %% id="head_loss_alternative_2" role="alternative"
@torch.no_grad()
def head_loss_forward(x, w, b, target):
    """Keeps no number at all, and pays with one more pass over the logits."""
    return F.cross_entropy(F.linear(x, w, b), target), [x, w, b, target]


@torch.no_grad()
def head_loss_backward(saved, dloss, needs):
    *given, target = saved
    leaves = [t.detach().requires_grad_(n) for t, n in zip(given, needs, strict=True)]
    if not any(needs):
        return None, None, None
    with torch.enable_grad():
        loss = F.cross_entropy(F.linear(*leaves), target)
    learning = [t for t in leaves if t.requires_grad]
    found = iter(torch.autograd.grad(loss, learning, dloss))
    return tuple(next(found) if n else None for n in needs)


# %% [markdown] id="real-words"
# And on the page: your two halves, in torch's contract.


# %% id="real-words-contract"
class HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, target):
        loss, saved = head_loss_forward(x, w, b, target)
        ctx.save_for_backward(*saved)
        return loss

    @staticmethod
    def backward(ctx, dloss):
        return *head_loss_backward(ctx.saved_tensors, dloss, ctx.needs_input_grad[:3]), None


# %% [markdown] id="real-words-taught"
# Five steps of SGD teach the real head "sung" after "she has", once with torch's own nodes and once
# with yours. The words are the same, the bytes are not.


# %% id="real-words-run"
def taught_head(loss_of, steps):
    """-> the bytes that the last step saved (0 without one), and the next words after all."""
    layer, nbytes = onelayer.head(), 0
    x = onelayer.hidden("<en> she has")  # (3, 64)
    target = torch.tensor(onelayer.grammar.encode("she has sung"))
    for _ in range(steps):
        with onelayer.count_saved(ignore=layer.parameters()) as saved:
            loss = loss_of(x, layer.weight, layer.bias, target)
        grads, nbytes = torch.autograd.grad(loss, (layer.weight, layer.bias)), saved.bytes
        with torch.no_grad():
            layer.weight -= 0.001 * grads[0]
            layer.bias -= 0.001 * grads[1]
    return nbytes, onelayer.next_words(layer(x), k=3)


def torchs_loss(x, w, b, target):
    return F.cross_entropy(F.linear(x, w, b), target)


with answered():
    print("before", taught_head(torchs_loss, 0)[1], sep="\n")
    for name, loss_of in {"torch's nodes": torchs_loss, "yours": HeadLoss.apply}.items():
        nbytes, words = taught_head(loss_of, 5)
        print(f"{name}: {nbytes:,} bytes saved in a step", words, sep="\n")

# %% [markdown] id="an-edit-in-place"
# ## Two more clauses: dirty, and not differentiable
#
# `CapFn` cuts logits off at a limit, in place, and reports how much each row lost. Two clauses of
# the contract are missing: torch must learn that z now has another history (`ctx.mark_dirty`), and
# that the report is for people, without a gradient (`ctx.mark_non_differentiable`). Complete
# forward, and write backward: it gets one gradient for each output. A logit that equals the limit
# is not cut off.
#
# With limit `1.0`, z `[[3.0, 0.5]]` becomes `[[1.0, 0.5]]`, the report is `[2.0]`, and `dy` of ones
# comes out as `[[0.0, 1.0]]`. Stuck? `hint("cap_in_place")`


# %% id="cap_in_place" role="solution"
class CapFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, limit):
        """z (N, V), limit (a float) -> (z itself, cut off at limit; what each row lost (N,))."""
        lost = (z - limit).clamp(min=0).sum(dim=1)
        ### BEGIN SOLUTION
        ctx.save_for_backward(z <= limit)  # before the edit: one byte for each logit
        z.clamp_(max=limit)
        ctx.mark_dirty(z)
        ctx.mark_non_differentiable(lost)
        return z, lost
        ### END SOLUTION

    @staticmethod
    def backward(ctx, dz, dlost):
        """-> one answer for each input of forward."""
        ### BEGIN SOLUTION
        (passed,) = ctx.saved_tensors
        return dz * passed, None
        ### END SOLUTION


def cap_in_place(z, limit, dy):
    """-> (z after the edit, what each row lost, dz of what z was, the name of z's node)."""
    leaf = z.detach().requires_grad_()
    h = leaf * 1  # an edit in place of a leaf is refused
    _, lost = CapFn.apply(h, limit)
    CapFn.apply(-leaf, limit)  # another cap, before the backward of this one
    (dz,) = torch.autograd.grad(h, leaf, dy)  # of h: whoever holds it holds the new z
    return h, lost, dz, h.grad_fn.name()


# %% id="cap_in_place_check" role="check"
check("cap_in_place")


# %% id="cap_in_place_alternative" role="alternative"
class CutOff(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, limit):
        over = z > limit
        lost = torch.where(over, z - limit, 0.0).sum(dim=1)
        z.masked_fill_(over, limit)
        ctx.mark_dirty(z)
        ctx.mark_non_differentiable(lost)
        ctx.save_for_backward(over.nonzero())  # the places only: few, if few were cut
        return z, lost

    @staticmethod
    def backward(ctx, dz, _):
        rows, columns = ctx.saved_tensors[0].unbind(dim=1)
        dz = dz.clone()
        dz[rows, columns] = 0.0
        return dz, None


def cap_in_place(z, limit, dy):
    leaf = z.detach().requires_grad_()
    h = leaf.clone()
    _, lost = CutOff.apply(h, limit)
    return h, lost, torch.autograd.grad(h, leaf, dy)[0], h.grad_fn.name()


# %% [markdown] id="backward-of-backward"
# ## The backward of the backward
#
# A gradient penalty differentiates a gradient. Then the backward of 4.1 is a forward like any
# other: it reads dy, x and w, and gives dx, dw and db. Write its backward, with the four steps of
# any local rule: take what arrives, ask who read each input, multiply along each path and add up,
# compare shapes. What arrives are the gradients for dx, dw and db, of whatever was made of them:
# gx, gw and gb, with their shapes. What you return are the gradients for dy, x and w.
#
# With gb `torch.ones(1)` and the other five `torch.ones(1, 1)`, d_dy is 3 and the other two are 1.
# Stuck? `hint("linear_double_backward")`


# %% id="linear_double_backward" role="solution"
def linear_double_backward(x, w, dy, gx, gw, gb):
    """x (N, D), w (V, D), dy (N, V), gx (N, D), gw (V, D), gb (V,)
    -> (d_dy (N, V), d_x (N, D), d_w (V, D)). N may be 0.
    """
    ### BEGIN SOLUTION
    # dx = dy @ w, dw = dy.T @ x, db = dy.sum(dim=0): dy was read three times, x and w once each
    d_dy = gx @ w.T + x @ gw.T + gb
    d_x = dy @ gw
    d_w = dy.T @ gx
    return d_dy, d_x, d_w
    ### END SOLUTION


# %% id="linear_double_backward_check" role="check"
check("linear_double_backward")


# %% id="linear_double_backward_alternative" role="alternative"
def linear_double_backward(x, w, dy, gx, gw, gb):
    through_dx = torch.einsum("ni,oi->no", gx, w)
    through_dw = torch.einsum("oi,ni->no", gw, x)
    through_db = gb.expand(len(dy), -1)
    d_x = torch.einsum("no,oi->ni", dy, gw)
    return through_dx + through_dw + through_db, d_x, torch.einsum("no,ni->oi", dy, gx)


# %% [markdown] id="detective-case"
# ## Detective case: the penalty that pulled askew
#
# A colleague saves the log-sum-exp, as you did, and adds a penalty on the size of dz to the loss.
# Loss and gradient are right, `gradcheck` is content, training runs, and the penalty pulls
# elsewhere than it should. Run it, find out why, and write `LossFn` right: the loss, its gradient,
# and the gradient of that. Stuck? `hint("loss_curvature")`


# %% id="detective-case-code" tags=["worked-example"]
class LossFnAsFound(torch.autograd.Function):
    """The mean cross-entropy of logits z (N, V) and target (N,)."""

    @staticmethod
    def forward(ctx, z, target):
        lse = z.logsumexp(dim=1)
        ctx.save_for_backward(z, target, lse)
        return (lse - z[torch.arange(len(z)), target]).mean()

    @staticmethod
    def backward(ctx, dloss):
        z, target, lse = ctx.saved_tensors
        p = (z - lse[:, None]).exp()  # softmax, without a second pass for the sum
        dz = p - F.one_hot(target, z.shape[1])
        return dz * (dloss / len(z)), None


torch.manual_seed(0)
z, target = torch.randn(3, 4, dtype=torch.float64, requires_grad=True), torch.tensor([1, 0, 2])
print("gradcheck:", torch.autograd.gradcheck(LossFnAsFound.apply, (z, target)))
for name, loss in (
    ("as found", LossFnAsFound.apply(z, target)),
    ("torch's ", F.cross_entropy(z, target)),
):
    (dz,) = torch.autograd.grad(loss, z, create_graph=True)
    (pull,) = torch.autograd.grad(dz.square().sum(), z)
    print(f"pull of the penalty on row 0, {name}:", [f"{p:.3f}" for p in pull[0].tolist()])


# %% id="loss_curvature" role="solution"
class LossFn(torch.autograd.Function):
    """The mean cross-entropy of logits z (N, V) and target (N,)."""

    @staticmethod
    def forward(ctx, z, target):
        ### BEGIN SOLUTION
        ctx.save_for_backward(z, target)
        return F.cross_entropy(z, target)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, dloss):
        """A second backward will differentiate every line of this."""
        ### BEGIN SOLUTION
        z, target = ctx.saved_tensors
        p = z.softmax(dim=1)  # from z itself: lse came out of a forward that recorded nothing
        return (p - F.one_hot(target, z.shape[1])) * (dloss / len(z)), None
        ### END SOLUTION


def loss_curvature(z, target, v):
    """z (N, V), target (N,), v (N, V)
    -> (loss, dz of loss ** 2, the gradient of (dz * v).sum() for z).
    """
    z = z.detach().requires_grad_()
    loss = LossFn.apply(z, target)
    LossFn.apply(-z, target)  # another loss, before the backward of this one
    (dz,) = torch.autograd.grad(loss**2, z, create_graph=True)  # squared: dloss is no plain 1
    return loss, dz, torch.autograd.grad(dz, z, v)[0]


# %% id="loss_curvature_check" role="check"
check("loss_curvature")


# %% id="loss_curvature_alternative" role="alternative"
class LossAndSum(torch.autograd.Function):
    """lse as an output: then it has a history, and whoever saved it can be differentiated."""

    @staticmethod
    def forward(ctx, z, target):
        lse = torch.logsumexp(z, dim=1)
        ctx.save_for_backward(z, target, lse)
        return (lse - z[torch.arange(len(z)), target]).mean(), lse

    @staticmethod
    def backward(ctx, dloss, dlse):
        z, target, lse = ctx.saved_tensors
        p = (z - lse[:, None]).exp()
        hot = F.one_hot(target, z.shape[1])
        return (p - hot) * dloss / len(z) + p * dlse[:, None], None


def loss_curvature(z, target, v):
    z = z.detach().requires_grad_()
    loss, _ = LossAndSum.apply(z, target)
    (dz,) = torch.autograd.grad(loss**2, z, create_graph=True)
    return loss, dz, torch.autograd.grad(dz, z, v)[0]


# %% [markdown] id="a-checkpoint"
# ## A checkpoint by hand
#
# Keep nothing of a block's inside, and run the block again when backward comes. Its dropout must
# drop the same numbers again, so keep the state of the random generator: `torch.get_rng_state()`,
# about 5 kB (on a GPU, that of its own generator). And nobody may notice: whoever draws after your
# forward, or after your backward, draws what they would draw had the block run only once.
#
# As in 4.2 your list is all that the second half gets, and the check counts it: beside the
# arguments, one state. The lines above and below yours stay. Stuck? `hint("checkpoint_block")`


# %% id="checkpoint_block" role="solution"
def block(x, w1, w2):
    """x (N, D), w1 (H, D), w2 (D, H) -> (N, D), with dropout."""
    return F.linear(F.dropout(F.gelu(F.linear(x, w1)), 0.1), w2)


@torch.no_grad()  # as inside a Function
@torch.random.fork_rng(devices=[])  # this notebook's generator stays as it is
def checkpoint_forward(x, w1, w2, seed):
    """-> (y (N, D), list of tensors to save, what the next one draws)."""
    torch.manual_seed(seed)
    torch.rand(3)  # others drew before you: the seed alone no longer says where the generator is
    ### BEGIN SOLUTION
    saved = [x, w1, w2, torch.get_rng_state()]  # before the block draws
    y = block(x, w1, w2)
    ### END SOLUTION
    return y, saved, torch.rand(2)


@torch.no_grad()
@torch.random.fork_rng(devices=[])
def checkpoint_backward(saved, dy, seed):
    """saved (your list), dy (N, D) -> ((dx, dw1, dw2), what the next one draws)."""
    torch.manual_seed(seed)  # time has passed, and others drew: the generator is elsewhere now
    torch.rand(3)
    ### BEGIN SOLUTION
    *inputs, then = saved
    now = torch.get_rng_state()
    torch.set_rng_state(then)
    leaves = [t.detach().requires_grad_() for t in inputs]
    with torch.enable_grad():  # backward records nothing, and here a graph is needed
        y = block(*leaves)
    torch.set_rng_state(now)
    grads = torch.autograd.grad(y, leaves, dy)
    ### END SOLUTION
    return grads, torch.rand(2)


# %% id="checkpoint_block_check" role="check"
check("checkpoint_block")


# %% id="checkpoint_block_alternative" role="alternative"
@torch.no_grad()
@torch.random.fork_rng(devices=[])
def checkpoint_forward(x, w1, w2, seed):
    torch.manual_seed(seed)
    torch.rand(3)
    before = torch.random.get_rng_state()
    y = F.linear(F.dropout(F.gelu(F.linear(x, w1)), 0.1), w2)
    return y, (before, w2, w1, x), torch.rand(2)


@torch.no_grad()
@torch.random.fork_rng(devices=[])
def checkpoint_backward(saved, dy, seed):
    """By hand, without a graph: the mask is what dropout makes of ones."""
    torch.manual_seed(seed)
    torch.rand(3)
    before, w2, w1, x = saved
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(before)
        mask = F.dropout(torch.ones(len(x), len(w1), dtype=x.dtype), 0.1)
    a = x @ w1.T
    da = (dy @ w2) * mask
    slope = 0.5 * (1 + torch.erf(a / 2**0.5))
    slope = slope + a * torch.exp(-a * a / 2) / (2 * torch.pi) ** 0.5
    dinner = da * slope
    return (dinner @ w1, dinner.T @ x, dy.T @ (F.gelu(a) * mask)), torch.rand(2)


# %% [markdown] id="the-price-of-a-schedule"
# ## What a schedule costs
#
# L layers in a row; layer i reads activation i, writes activation i + 1, and needs activation i in
# its backward. A schedule says which activations stay after the forward: `keep`, in rising order,
# with 0 always first. Backward runs the layers from the last to the first:
#
# 1. If activation i is missing, run forward again from the nearest one that is held below it, up to
#    activation i. All the activations on the way are back, and stay.
# 2. When layer i's backward is done, activation i goes, kept or not.
#
# Count the most bytes of activations held at once from the end of the forward on, and the FLOPs of
# the layers that ran again. Parameters, gradients and what the last layer writes do not count. (In
# [torch's own checkpoint](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/utils/checkpoint.py)
# a segment costs the same, with `use_reentrant=False`.)
#
# `schedule_cost([1, 1, 1], [5, 6, 7], [0])` is `(3, 11)`: layers 0 and 1 ran again. Stuck?
# `hint("schedule_cost")`


# %% id="schedule_cost" role="solution"
def schedule_cost(nbytes, flops, keep):
    """nbytes[i]: of activation i; flops[i]: of layer i's forward; keep: kept activations, rising
    -> (peak bytes, recomputed FLOPs), two integers.
    """
    ### BEGIN SOLUTION
    held, again = set(keep), 0
    peak = sum(nbytes[k] for k in held)
    for i in reversed(range(len(nbytes))):
        while i not in held:
            nearest = max(k for k in held if k < i)
            again += flops[nearest]  # layer k makes activation k + 1
            held.add(nearest + 1)
        peak = max(peak, sum(nbytes[k] for k in held))
        held.discard(i)
    return peak, again
    ### END SOLUTION


# %% id="schedule_cost_check" role="check"
check("schedule_cost")


# %% id="schedule_cost_alternative" role="alternative"
def schedule_cost(nbytes, flops, keep):
    """Segment by segment: what is kept up to its start, and all of its inside."""
    keep, peak = sorted(keep), 0
    for start, end in zip(keep, [*keep[1:], len(nbytes)], strict=True):
        below = sum(nbytes[k] for k in keep if k <= start)
        peak = max(peak, below + sum(nbytes[start + 1 : end]))
    dropped = set(range(len(nbytes))) - set(keep)
    return peak, sum(flops[i - 1] for i in dropped)


# %% [markdown] id="the-best-schedule"
# ## The best schedule for a budget
#
# Given the bytes that you have, keep what makes recomputation cheapest. The peak of 4.7 may reach
# the budget and not exceed it. Among the schedules that fit, return one with the fewest recomputed
# FLOPs, or `None` if none fits. There are at most 10 layers, so you may look at every schedule, and
# you may call your `schedule_cost`, once its check passes.
#
# `best_schedule([1, 1, 1], [5, 6, 7], 2)` is `[0, 2]`; with budget 3 it is `[0, 1, 2]`, with budget
# 1 `None`. Stuck? `hint("best_schedule")`


# %% id="best_schedule" role="solution"
def best_schedule(nbytes, flops, budget):
    """-> the kept activations as a list, 0 among them, or None."""
    L = len(nbytes)
    ### BEGIN SOLUTION

    def peak(keep):
        ends = [*keep[1:], L]
        inside = [sum(nbytes[s + 1 : e]) for s, e in zip(keep, ends, strict=True)]
        below = [sum(nbytes[k] for k in keep[: j + 1]) for j in range(len(keep))]
        return max(b + i for b, i in zip(below, inside, strict=True))

    def again(keep):
        return sum(flops[i - 1] for i in range(1, L) if i not in keep)

    every = [[0, *rest] for n in range(L) for rest in combinations(range(1, L), n)]
    fitting = [keep for keep in every if peak(keep) <= budget]
    return min(fitting, key=again, default=None)
    ### END SOLUTION


# %% id="best_schedule_check" role="check"
check("best_schedule")


# %% id="best_schedule_alternative" role="alternative"
def best_schedule(nbytes, flops, budget):
    """From left to right, by segments: the cheapest way to each (start, bytes kept so far)."""
    L = len(nbytes)
    ways = {(0, nbytes[0]): (0, [0])}  # kept bytes up to and with the start -> (FLOPs, keep)
    finished = []
    for start in range(L):
        for (at, below), (cost, keep) in list(ways.items()):
            if at != start:
                continue
            for end in range(start + 1, L + 1):
                if below + sum(nbytes[start + 1 : end]) > budget:
                    break
                reached = cost + sum(flops[start : end - 1])
                if end == L:
                    finished.append((reached, keep))
                    continue
                place = (end, below + nbytes[end])
                if place not in ways or reached < ways[place][0]:
                    ways[place] = (reached, [*keep, end])
    return min(finished, default=(0, None))[1]


# %% [markdown] id="real-schedule"
# And on the page: ten thin layers `x + x @ a`, all `a` zero at first, between the model and its
# head. Each saves its input and nothing else of its own. A `Segment` is your checkpoint of 4.6 over
# several of them; without dropout it needs no generator.


# %% id="real-schedule-segment"
def run(x, layers):
    for a in layers:
        x = torch.addmm(x, x, a)  # (N, 64)
    return x


class Segment(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, *layers):
        ctx.save_for_backward(x, *layers)
        return run(x, layers)

    @staticmethod
    def backward(ctx, dy):
        x, *layers = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        with torch.set_grad_enabled(True):
            y = run(x, layers)
        return torch.autograd.grad(y, (x, *layers), dy)


# %% [markdown] id="real-schedule-taught"
# Your schedule decides where a segment begins, while eight steps teach the ten layers to make the
# head say "sung". The budget shrinks, the bytes with it, and the words stay the same.


# %% id="real-schedule-run"
def taught_layers(keep, steps):
    """-> the bytes that the ten layers saved in a step (0 without one), and the next words."""
    layers, nbytes = [torch.zeros(64, 64, requires_grad=True) for _ in range(10)], 0
    target = torch.tensor(onelayer.grammar.encode("she has sung"))
    for _ in range(steps):
        y = x  # (3, 64)
        with onelayer.count_saved(ignore=layers) as saved:
            for start, end in zip(keep, [*keep[1:], 10], strict=True):
                part = layers[start:end]
                y = Segment.apply(y, *part) if len(part) > 1 else run(y, part)
        grads = torch.autograd.grad(F.cross_entropy(head(y), target), layers)
        with torch.no_grad():
            for a, da in zip(layers, grads, strict=True):
                a -= 0.0005 * da
        nbytes = saved.bytes
    return nbytes, onelayer.next_words(head(run(x, layers)), k=3)


x = onelayer.hidden("<en> she has")
with answered():
    print("before", taught_layers([0], 0)[1], sep="\n")
    for budget in (10 * x.nbytes, 7 * x.nbytes, 4 * x.nbytes):
        keep = sorted(best_schedule([x.nbytes] * 10, [2 * x.numel() * 64] * 10, budget))
        nbytes, words = taught_layers(keep, 8)
        print(f"budget {budget:,} bytes: keeps {keep}, saves {nbytes:,}", words, sep="\n")

# %% [markdown] id="attributes-are-no-contract"
# ## In your own words
#
# A colleague writes `ctx.x = x` in forward instead of `ctx.save_for_backward(x)`: "shorter, and all
# tests pass". In at most seven sentences: what does torch do for a saved tensor that it cannot do
# for an attribute, what happens in each of the two cases when somebody edits x in place before
# backward, why must an output never be an attribute, why is the log-sum-exp of 4.2 good to save and
# yet a trap under double backward, and which test would have found the fault of 4.5?

# %% [markdown] id="attributes_are_no_contract" role="free_text" points=5 minutes=8 difficulty=3
# A saved tensor is known to the graph: torch notes its version, frees it when backward has run, and
# passes it through the hooks of saved tensors, so that its bytes can be counted or moved elsewhere.
# After an edit of x in place, backward with a saved x sees a newer version and refuses; with an
# attribute it uses the changed numbers and returns a wrong gradient without a word. An output kept
# on ctx holds its own node alive, the node is the ctx, and so the memory waits for Python's
# collector of cycles. The log-sum-exp takes N numbers where softmax takes N times V, and the logits
# can be computed again. But it was computed inside forward, where nothing is recorded, so a second
# backward takes it for a constant and the second derivative lacks a term. `gradcheck` compares
# first derivatives only; `gradgradcheck` compares the second ones and would have failed.
#
# **Rubric** (1 point each): what save_for_backward adds (version, freeing, hooks; two of them
# suffice); the edit in place raises with it and is silent without; an output on ctx is a cycle and
# leaks; log-sum-exp takes N numbers for N times V, and is a constant for the second backward;
# `gradgradcheck`.

# %% [markdown] id="where-you-are"
# ## Where you are

# %% id="where-you-are-run"
progress()
