# %% [markdown] id="title"
# # Lab 03: autograd
#
# `loss.backward()` is one line, and it has never told you what it did. In this lab you walk the
# graph that it walks, write the local rules of the head by hand, write the engine that runs them,
# and at the end teach the real head a word with one step of your own.
#
# Work from top to bottom, in about two hours, after [chapter
# 03](../../notebooks/03_autograd.ipynb). Any right answer counts, also one that asks torch; you
# learn more by not asking. Each question but the last has a stub, a check that answers at once, and
# three hints. Only the cells with answers are graded, all of them together: keep your helper
# functions in them. Sizes: N tokens, D features, V words; `dx` is dloss/dx.

# %% id="setup" tags=["setup"]
import torch
import torch.nn.functional as F

# %% id="instruments"
import onelayer
from autograder import answered, check, hint, progress

head = onelayer.head()  # nn.Linear(64, 600): weight (600, 64), bias (600,)

# %% [markdown] id="picture-of-the-graph"
# The graph of the head and its loss. Everything below is about these boxes: what they saved, in
# which order they run, and what each hands to the next.

# %% id="picture-of-the-graph-run"
x = onelayer.hidden("<en> she has eaten <es> ella ha")  # (7, 64)
loss = F.cross_entropy(head(x), torch.arange(7))
onelayer.show_graph(loss, names={"W": head.weight, "b": head.bias, "x": x})

# %% [markdown] id="worked-example"
# ## Worked example: the local rule of a scale
#
# `y = x * s` scales feature d of every row by `s[d]`. Every rule in this lab is found in the same
# four steps: **take what arrives** (dy, with y's shape), **ask who read each input**, **multiply
# along each path and add up the paths**, **compare shapes** (a gradient has the shape of its
# tensor). In 3.2 the first two are written down for you.


# %% id="worked-example-code" tags=["worked-example"]
def scale_backward(dy, x, s):
    """dy (N, D), x (N, D), s (D,) -> (dx (N, D), ds (D,)) of y = x * s."""
    # take what arrives: dy[n, d] says how the loss moves with y[n, d]
    # ask who read each input: x[n, d] went into y[n, d] only; s[d] went into the whole column d
    dx = dy * s  # multiply along each path: one path, one product
    ds = (dy * x).sum(dim=0)  # N paths lead to s[d]: add them up
    return dx, ds  # compare shapes: (N, D) as x, (D,) as s


x, s, dy = (
    torch.randn(5, 3, requires_grad=True),
    torch.randn(3, requires_grad=True),
    torch.randn(5, 3),
)
by_torch = torch.autograd.grad(x * s, (x, s), dy)
all(mine.allclose(torchs) for mine, torchs in zip(scale_backward(dy, x, s), by_torch, strict=True))

# %% [markdown] id="walk-the-graph"
# ## Walk the real graph
#
# List every node behind a loss once, as a pair: `node.name()`, and for an `AccumulateGrad` node the
# shape of the leaf that it writes to (`node.variable`), else `None`. Any order.
# `node.next_functions` holds the way on: a pair for each input that could have a gradient, the next
# node (or `None`, where none is needed) and which of that node's inputs the gradient enters. Here
# one weight is the head and the embedding, of each token and of the one before it (of the first,
# the last).
#
# If only `b` `(7,)` requires a gradient there are four nodes: `("NllLossBackward0", None)`, two
# more like it, and `("torch::autograd::AccumulateGrad", (7,))`. Stuck? `hint("walk_graph")`


# %% id="walk_graph" role="solution"
def walk_graph(tokens, w, b, target):
    """tokens (N,), w (V, D), b (V,), target (N,) -> list of (name, shape of the leaf or None).

    w and b may or may not require gradients; where neither does, loss.grad_fn is None: no nodes.
    """
    x = F.embedding(tokens, w) + F.embedding(tokens.roll(1), w)  # (N, D)
    loss = F.cross_entropy(F.linear(x, w, b), target)
    ### BEGIN SOLUTION
    seen, waiting = [], [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:  # None: nobody down there needs a gradient
            continue
        seen.append(node)
        waiting.extend(after for after, _ in node.next_functions)
    leaf = [getattr(node, "variable", None) for node in seen]
    shapes = [None if variable is None else tuple(variable.shape) for variable in leaf]
    return [(node.name(), shape) for node, shape in zip(seen, shapes, strict=True)]
    ### END SOLUTION


# %% id="walk_graph_check" role="check"
check("walk_graph")


# %% id="walk_graph_alternative" role="alternative"
def walk_graph(tokens, w, b, target):
    found = {}

    def enter(node):
        if node is not None and node not in found:
            variable = getattr(node, "variable", None)
            found[node] = (node.name(), None if variable is None else tuple(variable.shape))
            for after, _ in node.next_functions:
                enter(after)

    x = F.embedding(tokens, w) + F.embedding(tokens.roll(1), w)
    enter(F.cross_entropy(F.linear(x, w, b), target).grad_fn)
    return list(found.values())


# %% [markdown] id="the-linear-layer"
# ## Backward of the linear layer
#
# Write the backward of `y = x @ w.T + b` by hand: what `AddmmBackward0`, `TBackward0` and the
# engine's sum over the rows of the bias give together. dy arrives, three gradients leave.
#
# With `dy = x = w = torch.ones(1, 1)` each of the three holds a single 1. Stuck?
# `hint("linear_backward")`


# %% id="linear_backward" role="solution"
def linear_backward(dy, x, w):
    """dy (N, V), x (N, D), w (V, D) -> (dx (N, D), dw (V, D), db (V,)). N may be 0."""
    # take what arrives: dy[n, o] says how the loss moves with y[n, o]
    # ask who read each input: x[n, i] went into row n of y, w[o, i] into column o, b[o] as well
    ### BEGIN SOLUTION
    dx = dy @ w  # (N, V) @ (V, D): add up the paths through all V outputs
    dw = dy.T @ x  # (V, N) @ (N, D): add up the paths through all N rows
    db = dy.sum(dim=0)  # (V,): the same paths, with a local derivative of 1
    return dx, dw, db
    ### END SOLUTION


# %% id="linear_backward_check" role="check"
check("linear_backward")


# %% id="linear_backward_alternative" role="alternative"
def linear_backward(dy, x, w):
    dx = torch.einsum("no,oi->ni", dy, w)
    dw = torch.einsum("no,ni->oi", dy, x)
    return dx, dw, torch.einsum("no->o", dy)


# %% [markdown] id="the-loss"
# ## Backward of the loss, fused
#
# `F.cross_entropy` is two nodes, log-softmax and negative log-likelihood; together their rules
# collapse into one short formula. The chapter shows it for rows that all count. A target of -100
# means "no word here": such a row has no part in the mean, and its gradient is 0. `dloss` is the
# gradient that arrives at the loss, 1.0 in `loss.backward()`.
#
# For `z = [[0., 0.]]`, target `[0]`, dloss `1.0` it is `[[-0.5, 0.5]]`. Stuck?
# `hint("cross_entropy_backward")`


# %% id="cross_entropy_backward" role="solution"
def cross_entropy_backward(z, target, dloss):
    """z (N, V), target (N,) with -100 where a row does not count, dloss (a float) -> dz (N, V).

    At least one row counts. A logit may be as large as some hundreds.
    """
    ### BEGIN SOLUTION
    kept = target != -100
    dz = torch.softmax(z, dim=1)  # of logsumexp(z); softmax takes the maximum away first
    rows = torch.arange(len(z))[kept]
    dz[rows, target[kept]] -= 1.0  # of -z[target]
    dz[~kept] = 0.0
    return dz * (dloss / kept.sum())  # the mean runs over the rows that count
    ### END SOLUTION


# %% id="cross_entropy_backward_check" role="check"
check("cross_entropy_backward")


# %% id="cross_entropy_backward_alternative" role="alternative"
def cross_entropy_backward(z, target, dloss):
    kept = (target >= 0).to(z.dtype)[:, None]
    p = (z - z.logsumexp(dim=1, keepdim=True)).exp()
    hot = F.one_hot(target.clamp(min=0), z.shape[1]).to(z.dtype)
    return dloss * kept * (p - hot) / kept.sum()


# %% [markdown] id="the-embedding"
# ## Backward of an embedding
#
# `F.embedding(tokens, w)` reads a row of the table for each token, and the same word stands in many
# places. Write the gradient of the table.
#
# For tokens `[[1, 1]]`, dy all ones `(1, 2, 1)` and 3 rows it is `[[0.], [2.], [0.]]`. Stuck?
# `hint("embedding_backward")`


# %% id="embedding_backward" role="solution"
def embedding_backward(dy, tokens, rows):
    """dy (B, T, D) in any memory layout, tokens (B, T) int64, rows of the table -> dw (rows, D)."""
    ### BEGIN SOLUTION
    dw = torch.zeros(rows, dy.shape[-1], dtype=dy.dtype)
    return dw.index_add(0, tokens.flatten(), dy.flatten(0, 1))  # every occurrence is a path
    ### END SOLUTION


# %% id="embedding_backward_check" role="check"
check("embedding_backward")


# %% id="embedding_backward_alternative" role="alternative"
def embedding_backward(dy, tokens, rows):
    """Reading a row is a product with a one-hot row, so this is the linear layer's dw."""
    hot = F.one_hot(tokens.flatten(), rows).to(dy.dtype)  # (B T, rows)
    return hot.T @ dy.flatten(0, 1)


# %% [markdown] id="the-engine"
# ## The engine
#
# The local rules are written; now run them. A graph here is plain data: each node has a `sequence`
# (its number in the order of the forward, `None` for a leaf) and its `next` nodes, each with the
# one number that its local rule multiplies by. `None` in place of a name: nobody needs this one. A
# node that has only such is still no leaf.
#
# 1. **Take what arrives**: 1.0 at the root.
# 2. **Ask who read each input**: count, over the nodes that the root can reach (this list is
#    given), how many gradients will arrive at each. Each entry in a `next` sends one.
# 3. **Multiply along each path and add up**: run a node when all its gradients have arrived; of
#    several ready nodes the one with the highest number first (`number` is given).
# 4. **A leaf adds** what arrived to what its `.grad` holds; no entry in `grad` is a `.grad` of
#    `None`.
#
# A graph to try it on, and what is right for it:


# %% id="the-engine-graph"
graph = {
    "w": {"sequence": None, "next": []},
    "Exp": {"sequence": 0, "next": [("w", 2.0)]},
    "Mul": {"sequence": 1, "next": [("w", 0.5), ("w", 0.5)]},  # one node, two entries, one leaf
    "Sin": {"sequence": 2, "next": [("Exp", 3.0)]},
    "Add": {"sequence": 3, "next": [("Mul", 1.0), ("Sin", 1.0), (None, 1.0)]},
}
# run_backward(graph, "Add", {})         -> (["Add", "Sin", "Mul", "Exp", "w"], {"w": 7.0})
# run_backward(graph, "Mul", {"w": 1.0}) -> (["Mul", "w"], {"w": 2.0})


# %% [markdown] id="the-engine-hint"
# Stuck? `hint("run_backward")`


# %% id="run_backward" role="solution"
def run_backward(nodes, root, grad):
    """nodes (name -> {"sequence", "next"}), root (a name), grad (leaf -> float)
    -> (names in the order in which they ran, grad afterwards).
    """
    reached = [root]  # every node that the root can see; the list grows while we walk along it
    for name in reached:
        children = [child for child, _ in nodes[name]["next"] if child is not None]
        reached.extend(child for child in dict.fromkeys(children) if child not in reached)

    def number(name):  # a leaf has the highest there is: it runs as soon as it is complete
        sequence = nodes[name]["sequence"]
        return float("inf") if sequence is None else sequence

    order, grad = [], dict(grad)  # to be filled; every leaf keeps at least what it had
    arrived, ready = {root: 1.0}, [root]  # the sum of what has arrived; who has received all
    waiting = dict.fromkeys(reached, 0)  # how many gradients each node still waits for
    ### BEGIN SOLUTION
    for name in reached:
        for child, _ in nodes[name]["next"]:
            if child is not None:
                waiting[child] += 1

    while ready:
        name = max(ready, key=number)
        ready.remove(name)
        order.append(name)
        if nodes[name]["sequence"] is None:
            grad[name] = grad.get(name, 0.0) + arrived[name]
        for child, factor in nodes[name]["next"]:
            if child is None:
                continue
            arrived[child] = arrived.get(child, 0.0) + factor * arrived[name]
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)
    ### END SOLUTION
    return order, grad


# %% id="run_backward_check" role="check"
check("run_backward")


# %% id="run_backward_alternative" role="alternative"
def run_backward(nodes, root, grad):
    """Numbers grow along the forward, so going down the numbers is a right order for the inner
    nodes; each leaf follows the last node that feeds it.
    """
    total, order, after = {root: 1.0}, [], dict(grad)
    inner = [name for name in nodes if nodes[name]["sequence"] is not None]
    for name in sorted(inner, key=lambda name: -nodes[name]["sequence"]):
        if name in total:
            order.append(name)
            for child, factor in nodes[name]["next"]:
                if child is not None:
                    total[child] = total.get(child, 0.0) + factor * total[name]
    for leaf in [name for name in total if nodes[name]["sequence"] is None]:
        feeds = [k for k, n in enumerate(order) if leaf in [c for c, _ in nodes[n]["next"]]]
        order.insert(max(feeds, default=-1) + 1, leaf)
        after[leaf] = after.get(leaf, 0.0) + total[leaf]
    return order, after


# %% [markdown] id="detective-case"
# ## Detective case: the batch in parts
#
# The batch does not fit into memory, so a colleague feeds it in parts and lets the gradients
# accumulate. No error is raised. But the weights are not those that whole batches give: the code
# below shows it for one step, where one of its two faults is at work. Find both, and write it
# right, still one part at a time. The check compares the steps; what they hold in memory it does
# not see. Stuck? `hint("train_in_parts")`


# %% id="detective-case-code" tags=["worked-example"]
def train_in_parts_as_found(w, b, batches, lr):
    """One SGD step for each batch; a batch is a list of parts (x (n, D), target (n,))."""
    w, b = w.clone().requires_grad_(), b.clone().requires_grad_()
    for batch in batches:
        for x, target in batch:
            loss = F.cross_entropy(F.linear(x, w, b), target)
            loss.backward()
        with torch.no_grad():
            w -= lr * w.grad
            b -= lr * b.grad
    return w.detach(), b.detach()


torch.manual_seed(0)
w, b, rows, words = torch.randn(5, 3), torch.zeros(5), torch.randn(8, 3), torch.arange(8) % 5
in_parts = [[(rows[:2], words[:2]), (rows[2:], words[2:])]]  # one batch of 2 + 6 rows
whole = [[(rows, words)]]  # the same batch in one piece
moved = [train_in_parts_as_found(w, b, batch, 0.1)[0] - w for batch in (in_parts, whole)]
print("the step in parts is", f"{moved[0].norm() / moved[1].norm():.2f}", "times as long")


# %% id="train_in_parts" role="solution"
def train_in_parts(w, b, batches, lr):
    """w (V, D), b (V,), batches (lists of parts x (n, D), target (n,)), lr -> (w, b) at the end.

    One step of plain SGD for each batch, on the mean over all its rows. No part is empty.
    """
    w, b = w.clone().requires_grad_(), b.clone().requires_grad_()
    ### BEGIN SOLUTION
    for batch in batches:
        total = sum(len(x) for x, _ in batch)
        w.grad = b.grad = None  # empty before the batch, and not between its parts
        for x, target in batch:
            share = len(x) / total  # a part weighs what its rows weigh
            (share * F.cross_entropy(F.linear(x, w, b), target)).backward()
        with torch.no_grad():
            w -= lr * w.grad
            b -= lr * b.grad
    return w.detach(), b.detach()
    ### END SOLUTION


# %% id="train_in_parts_check" role="check"
check("train_in_parts")


# %% id="train_in_parts_alternative" role="alternative"
def train_in_parts(w, b, batches, lr):
    for batch in batches:
        leaves = [t.detach().clone().requires_grad_() for t in (w, b)]
        rows = sum(len(target) for _, target in batch)
        for x, target in batch:
            F.cross_entropy(F.linear(x, *leaves), target, reduction="sum").backward()
        w, b = (t.detach() - lr * t.grad / rows for t in leaves)
    return w, b


# %% [markdown] id="in-place-edits"
# ## Which edits break backward?
#
# Between forward and backward somebody adds 1 in place to an input or to the output: to the tensor
# `"itself"`, to a `"view"` of it, to its `"detach"`, or to its `"data"`. Say what happens:
# `"harmless"`, `"raises"` (backward refuses), or `"silent"` (a wrong gradient, and no word).
#
# Reason, from what the node saved (its attributes whose names begin with `_saved_`) and from
# version counters, or experiment, with and without the edit. Both agree: each saved tensor that the
# check edits matters to a gradient. Whoever experiments asks for the gradients of the leaves:
# edited itself or through a view, a tensor has another `grad_fn` than before. `edit_outcome("exp",
# [a], "out", "itself")` is `"raises"`, with `0` in place of `"out"` it is `"harmless"`. Stuck?
# `hint("edit_outcome")`


# %% id="edit_outcome" role="solution"
def edit_outcome(op, inputs, edited, way):
    """op (a name in torch), inputs (one or two leaves in any memory layout, of which at least one
    requires a gradient), edited (0, 1 or "out"), way ("itself", "view", "detach" or "data")
    -> "harmless", "raises" or "silent".
    """
    used = [leaf.clone() for leaf in inputs]  # a leaf that learns refuses in-place edits
    out = getattr(torch, op)(*used)
    target = out if edited == "out" else used[edited]  # the tensor that is edited
    ### BEGIN SOLUTION
    node, address = out.grad_fn, target.untyped_storage().data_ptr()
    saved = [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]
    tensors = [t for t in saved if isinstance(t, torch.Tensor)]
    if all(t.untyped_storage().data_ptr() != address for t in tensors):
        return "harmless"  # backward never looks there
    return "silent" if way == "data" else "raises"  # .data has a version counter of its own
    ### END SOLUTION


# %% id="edit_outcome_check" role="check"
check("edit_outcome")


# %% id="edit_outcome_alternative" role="alternative"
def edit_outcome(op, inputs, edited, way):
    """By experiment: run it without and with the edit."""

    def gradients(spoil):
        leaves = [t.detach().clone().requires_grad_(t.requires_grad) for t in inputs]
        used = [t.clone() for t in leaves]
        out = getattr(torch, op)(*used)
        target = out if edited == "out" else used[edited]
        if spoil:
            ways = {"itself": target, "view": target[:], "detach": target.detach()}
            ways.get(way, target.data).add_(1)
        return torch.autograd.grad(out.sum(), [t for t in leaves if t.requires_grad])

    try:
        pairs = zip(gradients(False), gradients(True), strict=True)
        return "harmless" if all(a.equal(b) for a, b in pairs) else "silent"
    except RuntimeError:
        return "raises"


# %% [markdown] id="clip-in-hooks"
# ## Clip in hooks
#
# Let each gradient be clipped on its way into the leaf: every gradient of every backward is scaled
# down to a norm (over all its elements) of at most `limit` *before* it is added to `.grad`. Each of
# the two tensors for itself. Register the hooks, with `tensor.register_hook(f)`: what `f(gradient)`
# returns takes the gradient's place. The loop is written. Neither tensor holds a `.grad` at first.
# `clip_grad_norm_` adds 1e-6 to a norm, and so may you.
#
# A gradient of norm 3 arrives as norm 1 when the limit is 1; one of norm 0.5 stays as it is. Stuck?
# `hint("clip_in_hooks")`


# %% id="clip_in_hooks" role="solution"
def clip_in_hooks(w, b, batches, limit):
    """w (V, D), b (V,) that require gradients, batches (x, target) -> (w.grad, b.grad)."""

    ### BEGIN SOLUTION
    def clipped(gradient):
        return gradient * (limit / gradient.norm()).clamp(max=1)  # never longer than before

    for p in (w, b):
        p.register_hook(clipped)  # what it returns takes the gradient's place
    ### END SOLUTION
    for x, target in batches:
        F.cross_entropy(F.linear(x, w, b), target).backward()
    return w.grad, b.grad


# %% id="clip_in_hooks_check" role="check"
check("clip_in_hooks")


# %% id="clip_in_hooks_alternative" role="alternative"
def clip_in_hooks(w, b, batches, limit):
    """Without hooks: take each gradient out, shorten it, add it up."""
    total = [torch.zeros(t.shape) for t in (w, b)]
    for x, target in batches:
        grads = torch.autograd.grad(F.cross_entropy(F.linear(x, w, b), target), (w, b))
        for kept, g in zip(total, grads, strict=True):
            kept += torch.where(g.norm() > limit, limit * g / g.norm(), g)
    return total


# %% [markdown] id="finite-differences"
# ## Believe nobody: finite differences
#
# A formula for a gradient can be wrong, the loss itself is hard to get wrong. Compute the gradient
# of the loss, `F.cross_entropy(z, target)`, without any derivative: by central differences, in
# float64. Move one logit by `h`, up and down, and see how far the loss moves.
#
# For `z = [[0., 0.]]`, target `[0]` and `h = 1e-4` it is `[[-0.5, 0.5]]`, to about twelve digits.
# Stuck? `hint("numeric_gradient")`


# %% id="numeric_gradient" role="solution"
def numeric_gradient(z, target, h):
    """z (N, V) float32 in any memory layout, target (N,), h (the step) -> dz (N, V) float64."""
    z = z.detach().to(torch.float64)  # a copy: float32 has too few digits for a difference
    dz = torch.zeros_like(z)
    ### BEGIN SOLUTION
    for n in range(z.shape[0]):
        for v in range(z.shape[1]):
            up, down = z.clone(), z.clone()
            up[n, v] += h
            down[n, v] -= h
            dz[n, v] = (F.cross_entropy(up, target) - F.cross_entropy(down, target)) / (2 * h)
    ### END SOLUTION
    return dz


# %% id="numeric_gradient_check" role="check"
check("numeric_gradient")


# %% id="numeric_gradient_alternative" role="alternative"
def numeric_gradient(z, target, h):
    """All steps at once: one copy of z for each of its elements."""
    z = z.detach().to(torch.float64)
    steps = h * torch.eye(z.numel(), dtype=torch.float64).view(-1, *z.shape)  # (N V, N, V)

    def losses(many):
        picked = many.log_softmax(-1)[:, torch.arange(len(z)), target]  # (N V, N)
        return -picked.mean(dim=1)

    return ((losses(z + steps) - losses(z - steps)) / (2 * h)).view(z.shape)


# %% [markdown] id="one-step"
# ## One step that raises the right words
#
# Put your rules together: one step of SGD on the real head, without `backward()`. The loss is
# `F.cross_entropy(F.linear(x, w, b), target)`; return new tensors. You may call what you wrote in
# 3.2 and 3.3.
#
# After the step the mean loss is lower than before, if lr is not too large; a single target may
# still lose when another row pulls against it. Stuck? `hint("raise_the_words")`


# %% id="raise_the_words" role="solution"
def raise_the_words(w, b, x, target, lr):
    """w (V, D), b (V,), x (N, D), target (N,), lr (a float) -> (w, b) after one step.

    A logit may be as large as some hundreds.
    """
    ### BEGIN SOLUTION
    dz = F.softmax(F.linear(x, w, b), dim=1)
    dz[torch.arange(len(x)), target] -= 1
    dz /= len(x)
    return w - lr * dz.T @ x, b - lr * dz.sum(dim=0)
    ### END SOLUTION


# %% id="raise_the_words_check" role="check"
check("raise_the_words")


# %% id="raise_the_words_alternative" role="alternative"
def raise_the_words(w, b, x, target, lr):
    p = torch.nn.Parameter(w.clone()), torch.nn.Parameter(b.clone())
    F.cross_entropy(F.linear(x, *p), target).backward()
    torch.optim.SGD(p, lr=lr).step()
    return p[0].detach(), p[1].detach()


# %% [markdown] id="real-words"
# And with real words: after "she has" the model finds many participles about equally likely. Teach
# it one of them with one step of yours, and look at the words around it.


# %% id="real-words-run"
def next_words_after_a_step(step, lr):
    """The likeliest words after "<en> she has" once `step` has seen the word "sung" there."""
    hidden = onelayer.hidden("<en> she has")[-1:]  # (1, 64): the activation after "has"
    word = torch.tensor(onelayer.grammar.encode("sung"))
    w, b = head.weight.detach(), head.bias.detach()
    if lr:
        w, b = step(w, b, hidden, word, lr)
    return onelayer.next_words(F.linear(hidden, w, b))


with answered():
    for lr in (0.0, 0.001, 0.002):
        print(f"lr {lr}:", next_words_after_a_step(raise_the_words, lr), sep="\n")

# %% [markdown] id="data-is-no-cure"
# ## In your own words
#
# A colleague's `h.clamp_(min=0)` after `h = torch.tanh(z)` made backward say that a variable "has
# been modified by an inplace operation". They wrote `h.data.clamp_(min=0)` instead, and the error
# is gone. In at most six sentences: what did backward compare when it raised, why was it right to,
# what happens now, why would `h.clamp_(min=0)` after `h = z + 1` have been harmless, and what
# should they write?

# %% [markdown] id="data_is_no_cure" role="free_text" points=5 minutes=7 difficulty=3
# tanh's node saved its result, because its derivative is 1 - h * h, and with it the version that
# h's counter showed. The in-place clamp raised the counter, so backward found a newer version than
# the one that was saved, and refused to use changed numbers. `.data` gives a tensor over the same
# floats with a counter of its own: the saved numbers change all the same, nobody notices, and the
# gradient is that of another function. An addition saves nothing, as its derivative reads neither
# input nor output, so no edit can spoil it. They should write `h = h.clamp(min=0)`, which leaves
# the saved result as it is and puts the clamp into the graph.
#
# **Rubric** (1 point each): a version counter is compared with the version at saving; tanh saved
# its result; `.data` does not share the counter, so the edit goes unnoticed; the gradient is now
# silently wrong, while addition saves nothing; the out-of-place operation as the cure.

# %% [markdown] id="where-you-are"
# ## Where you are

# %% id="where-you-are-run"
progress()
