# %% [markdown] id="title"
# # 03 Autograd: what `loss.backward()` walks along
#
# You call `loss.backward()` every day. It changes numbers in places that the line does not name,
# sometimes it raises about a version that you never set, and one forgotten line makes training go
# wrong without a word. After this chapter you can say which objects it visits, in which order, what
# each of them kept, and why.
#
# *Reading: about 45 minutes.*

# %% [markdown] id="try-first"
# ## Try it first
# The graph of the head's loss, as the forward left it. Click a box to see what it keeps, and which
# of it costs nothing. Then run the nodes one by one, as `backward()` does, and watch the order.

# %% id="try-first-run" tags=["hide-input"]
import torch
import torch.nn.functional as F

import onelayer

head = onelayer.head()
words = onelayer.grammar.encode("<en> she has eaten <es> ella ha comido")
x = onelayer.hidden("<en> she has eaten <es> ella ha")
loss = F.cross_entropy(head(x), torch.tensor(words[1:]))
onelayer.show_graph(loss, names={"W": head.weight, "b": head.bias, "x": x})

# %% id="instruments"
from autograder import predict, reveal

W, b = head.weight, head.bias  # (600, 64), (600,): head is nn.Linear(64, 600), trained
x = onelayer.hidden("<en> she has eaten <es> ella ha")  # (7, 64): what enters the head
target = torch.tensor(words[1:])  # (7,): the word that really comes next

# %% [markdown] id="forward-leaves-a-note"
# ## The forward left something behind
# While recording is on, a result that can have a gradient, computed from something that requires
# one, carries a `grad_fn`: an object made during the forward, that knows how to go back one step.

# %% id="forward-leaves-a-note-run"
z = head(x)  # (7, 600)
loss = F.cross_entropy(z, target)
for name, t in {"x": x, "W": W, "z": z, "loss": loss}.items():
    print(f"{name:5} requires_grad {t.requires_grad!s:6} grad_fn {t.grad_fn}")

# %% [markdown] id="leaves"
# ## Who is a leaf?
# A *leaf* is a tensor that no recorded operation made. Which of the four tensors above does torch
# call a leaf?

# %% id="leaves-guess"
predict("which_are_leaves", choices=["W", "W and x", "x", "z and loss"])

# %% id="leaves-run"
leaves = [name for name, t in {"x": x, "W": W, "z": z, "loss": loss}.items() if t.is_leaf]
reveal("which_are_leaves", " and ".join(sorted(leaves)))

# %% [markdown] id="leaves-why"
# `x` is a leaf as well, although it wants no gradient: `onelayer.hidden` computed it without
# recording. Only leaves that require a gradient get a `.grad` from a plain `backward()`; a result
# in between keeps its own if you call
# [`retain_grad()`](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.retain_grad.html) on
# it.

# %% [markdown] id="next-functions"
# ## One step back from the logits
# `z.grad_fn` has `next_functions`, one entry for each input that could have a gradient: a node and
# a *slot*, which says for which of that operation's results the gradient is. `F.linear` became one
# `addmm(b, x, W.T)`: three inputs. What is the entry for `x`?

# %% id="next-functions-guess"
predict("entry_for_x", choices=["AccumulateGrad", "None", "MmBackward0"])

# %% id="next-functions-run"
addmm = z.grad_fn
print(addmm.name())
for input_name, (node, slot) in zip(("b", "x", "W.T"), addmm.next_functions, strict=True):
    print(f"   {input_name:4} -> {node.name() if node else None}, slot {slot}")

# %% id="next-functions-reveal"
entry = addmm.next_functions[1][0]
reveal("entry_for_x", "None" if entry is None else entry.name().rpartition("::")[2])

# %% [markdown] id="next-functions-why"
# `None`: nobody behind `x` needs a gradient, so no work will be done for it. `b` is a leaf: its
# `AccumulateGrad` node will write to `b.grad`. And `W` was transposed on the way in: the view is an
# operation too, and `TBackward0` undoes it.

# %% [markdown] id="walk"
# ## Follow it to the end
# Go on from node to node, and you have listed everything that `backward()` will visit.


# %% id="walk-run"
def below(node, depth=0):
    print("  " * depth + (node.name() if node else "None"))
    for after, _ in node.next_functions if node else ():
        below(after, depth + 1)


below(loss.grad_fn)

# %% [markdown] id="no-tree"
# ## The graph is no tree
# Here `b` is used twice. The walk meets its `AccumulateGrad` twice; in the picture it is one box
# with two ways in. The lab's first question asks for a walk that knows the difference.

# %% id="no-tree-run"
squared = (b * b).sum()
below(squared.grad_fn)
onelayer.show_graph(squared, names={"b": b})

# %% [markdown] id="saved"
# ## What did the matrix product keep?
# The gradient of `W` needs `x`, and the gradient of `x` needs `W`. So what does `AddmmBackward0`
# hold on to here?

# %% id="saved-guess"
predict("kept_by_addmm", choices=["x and W", "only x", "only W", "neither"])

# %% id="saved-run"
kept = {"x": addmm._saved_mat1, "W": addmm._saved_mat2}
for name, t in kept.items():
    print(name, "->", None if t is None else tuple(t.shape))

# %% id="saved-reveal"
held = [name for name, t in kept.items() if t is not None]
reveal("kept_by_addmm", f"only {held[0]}" if len(held) == 1 else " and ".join(held) or "neither")

# %% [markdown] id="saved-why"
# Nobody asks for the gradient of `x`, so nobody will need `W`. What a node saves is decided during
# the forward. For a matrix product, who requires a gradient then decides; some nodes, such as
# [convolution's](https://github.com/pytorch/pytorch/blob/v2.13.0/tools/autograd/derivatives.yaml),
# keep both inputs in any case. Let `x` require one, and `W` is kept as well:

# %% id="saved-both"
learning = x.clone().requires_grad_()
both = F.linear(learning, W, b).grad_fn
print("W kept:", tuple(both._saved_mat2.shape), "stride", both._saved_mat2.stride())

# %% [markdown] id="saved-bytes"
# ## What does keeping W cost?
# `W` has 153,600 bytes, and the graph now holds on to it. How many bytes did saving it copy?

# %% id="saved-bytes-guess"
predict("bytes_copied_by_saving", choices=[0, 76_800, 153_600])

# %% id="saved-bytes-run"
with onelayer.count_bytes() as moved:
    y = F.linear(learning, W, b)
onelayer.show_storage(W, y.grad_fn._saved_mat2, names=["W", "saved mat2"])
print(moved)

# %% id="saved-bytes-reveal"
reveal("bytes_copied_by_saving", moved.bytes - y.nbytes)

# %% [markdown] id="saved-bytes-why"
# Saving copied no byte: the only new bytes are the result's. Saving is a reference, here to a view
# of `W`'s own storage. So what is saved stays in memory until backward, or the end of the graph,
# frees it, and changing `W` in place can go wrong: more on both below.

# %% [markdown] id="saved-hooks"
# ## See everything that is saved
# `saved_tensors_hooks` is called for each tensor that a node saves, and again when backward reads
# it. Here it only writes down the shapes. Two of them are `(7, 600)`: are these two tables?

# %% id="saved-hooks-run"
packed, unpacked = [], []
count = torch.autograd.graph.saved_tensors_hooks(
    lambda t: packed.append(t) or t, lambda t: unpacked.append(tuple(t.shape)) or t
)
with count:
    counted = F.cross_entropy(head(x), target)
print("saved by the forward   ", [tuple(t.shape) for t in packed])
counted.backward()
print("read by the backward   ", unpacked)
tables = {t.data_ptr() for t in packed if t.shape == (7, 600)}
print("(7, 600) at", len(tables), "address")

# %% [markdown] id="saved-hooks-why"
# It is one table: log-softmax keeps its result, the loss its input, and these are the same floats.

# %% [markdown] id="seed"
# ## Where does backward begin?
# `loss.backward()` starts with a gradient of 1 for the loss itself: the *seed*. `z` has 4,200
# elements. What does `z.backward()` do?

# %% id="seed-guess"
predict("backward_of_the_logits", choices=["starts with ones", "starts with zeros", "an error"])

# %% id="seed-run"
try:
    head(x).backward()
    outcome = "starts with ones"
except RuntimeError as error:
    outcome = "an error"
    print(error)

# %% id="seed-reveal"
reveal("backward_of_the_logits", outcome)

# %% [markdown] id="seed-why"
# Only a single number has an obvious seed. For anything else you say what the gradient is:
# `z.backward(dz)` computes `dz` times the Jacobian, and never builds the Jacobian. In the middle of
# a graph every node does exactly that.

# %% [markdown] id="local-rule"
# ## A node is a function
# You can call one. Give `AddmmBackward0` a gradient of `z`, and it hands out one gradient for each
# input: its *local rule*.

# %% id="local-rule-run"
dz = torch.randn(7, 600)
for_b, for_x, for_wt = addmm(dz)
print("for W.T:", tuple(for_wt.shape), "| for x, where nobody asked:", for_x)

# %% [markdown] id="local-rule-ask"
# The entry for `W.T` is a gradient of `(64, 600)`. Which product is it?

# %% id="local-rule-guess"
predict("gradient_of_W_T", choices=["x.T @ dz", "dz.T @ x", "dz @ W"])

# %% id="local-rule-check"
products = {"x.T @ dz": x.T @ dz, "dz.T @ x": dz.T @ x, "dz @ W": dz @ W}
same = [n for n, p in products.items() if p.shape == for_wt.shape and p.allclose(for_wt, atol=1e-3)]
reveal("gradient_of_W_T", same[0])

# %% [markdown] id="local-rule-why"
# The sum over tokens of outer products; `TBackward0` then turns it into `dz.T @ x`, in W's shape
# `(600, 64)`. The rule of a matrix product is two matrix products, one for each factor. No node
# knows the loss: it knows what arrives, and what it saved.

# %% [markdown] id="bias-rule"
# ## And for the bias?
# The bias `(600,)` was added to all 7 rows. We called the node by hand, without the engine around
# it. Which shape did it hand out for `b`?

# %% id="bias-rule-guess"
predict("shape_handed_out_for_b", choices=["(600,)", "(7, 600)"])

# %% id="bias-rule-run"
arrived = []
accumulate = addmm.next_functions[0][0]  # b's node
watch = accumulate.register_prehook(  # called with what arrives, before the node runs
    lambda gradients: arrived.append(gradients[0])
)
head(x).backward(dz)
watch.remove()
print("the node hands out", tuple(for_b.shape), "| what reaches b", tuple(arrived[0].shape))

# %% id="bias-rule-reveal"
reveal("shape_handed_out_for_b", str(tuple(for_b.shape)))

# %% [markdown] id="bias-rule-why"
# `addmm` was told nothing about broadcasting, so its rule hands `dz` on as it is. The engine sees a
# gradient that is larger than the input was, and sums it down: each row read the one bias, and
# paths add up
# ([`input_metadata.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/input_metadata.cpp)).

# %% id="bias-rule-sum"
print("the sum over rows:", arrived[0].allclose(dz.sum(dim=0), atol=1e-4))

# %% [markdown] id="fused"
# ## Two nodes, one short formula
# Log-softmax and the negative log-likelihood have a node each. Together they give the logits a
# gradient that fits on a line: softmax minus 1 at the right word, divided by the rows.

# %% id="fused-run"
(by_torch,) = torch.autograd.grad(
    F.cross_entropy(leaf := z.detach().requires_grad_(), target), leaf
)
by_hand = z.detach().softmax(dim=1)
by_hand[torch.arange(7), target] -= 1
print("equal:", torch.allclose(by_hand / 7, by_torch, atol=1e-7))
print("sum of each row:", [round(n, 6) for n in by_torch.sum(1).abs().tolist()])

# %% [markdown] id="order"
# ## Who runs first?
# Backward goes against the forward, but a graph has branches. Here `exp` was computed before `sin`,
# and both wait for the same product. Each node got a number when it was made, and by these numbers
# the engine chooses among the nodes that are ready. Which of the two runs first?

# %% id="order-guess"
predict("first_of_two_branches", choices=["ExpBackward0", "SinBackward0", "either, at random"])


# %% id="order-run"
def order_of(first, second, swapped=False):
    """The names of the nodes in the order in which they run, for first(w) * second(w)."""
    ran = []
    w = torch.tensor(0.5, requires_grad=True)
    branches = first(w), second(w)
    product = branches[1] * branches[0] if swapped else branches[0] * branches[1]
    for node in (product.grad_fn, *(t.grad_fn for t in branches)):
        name = f"{node.name()} ({node._sequence_nr()})"
        node.register_prehook(lambda _, name=name: ran.append(name))
    w.register_post_accumulate_grad_hook(lambda _: ran.append("AccumulateGrad"))
    product.backward()
    return ran


ran = order_of(torch.exp, torch.sin)
print(*ran, sep=" -> ")

# %% id="order-reveal"
reveal("first_of_two_branches", ran[1].split(" ")[0])

# %% [markdown] id="order-why"
# The number is called the sequence number. Of the nodes ready on a device, the engine takes the
# highest: the youngest. Or was it the place in the product? Change one thing at a time:

# %% id="order-cause"
print("places swapped:", *order_of(torch.exp, torch.sin, swapped=True)[1:3])
print("ages swapped:  ", *order_of(torch.sin, torch.exp)[1:3])

# %% [markdown] id="order-cause-why"
# The place changes nothing, the age does. `AccumulateGrad` ran once, with the sum: a node is ready
# only when *all* its gradients have arrived
# ([`engine.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/engine.h)).

# %% [markdown] id="leaf-order"
# ## When does a leaf run?
# In the head's graph, `AccumulateGrad` of `b` is ready at the same moment as `TBackward0`. Which of
# them goes first?

# %% id="leaf-order-guess"
predict("bias_or_transpose", choices=["AccumulateGrad of b", "TBackward0"])

# %% id="leaf-order-run"
ran = []
loss = F.cross_entropy(head(x), target)
t_node = loss.grad_fn.next_functions[0][0].next_functions[0][0].next_functions[2][0]
watched = [
    t_node.register_prehook(lambda _: ran.append("TBackward0")),
    b.register_post_accumulate_grad_hook(lambda _: ran.append("AccumulateGrad of b")),
]
loss.backward()
for hook in watched:
    hook.remove()
print(*ran, sep=" -> ")
leaf = t_node.next_functions[0][0]  # W's AccumulateGrad
print("numbers:", t_node._sequence_nr(), "and", leaf._sequence_nr(), "| 2**64 - 1:", 2**64 - 1)

# %% id="leaf-order-reveal"
reveal("bias_or_transpose", ran[0])

# %% [markdown] id="leaf-order-why"
# Leaves have the highest sequence number that 64 bits can hold, so a finished gradient is written
# at once
# ([`accumulate_grad.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/functions/accumulate_grad.cpp)).
# Chapter 11 lives on this: [DDP](https://docs.pytorch.org/docs/stable/notes/ddp.html) begins to
# send the last layer's gradients while the first layers still compute theirs. Take the number away,
# and the leaf waits for its turn:

# %% id="leaf-order-cause"
ran.clear()
loss = F.cross_entropy(head(x), target)
addmm = loss.grad_fn.next_functions[0][0].next_functions[0][0]
(b_node, _), _, (t_node, _) = addmm.next_functions
b_node._set_sequence_nr(0)  # private, like every name that begins with _
watched = [
    t_node.register_prehook(lambda _: ran.append("TBackward0")),
    b.register_post_accumulate_grad_hook(lambda _: ran.append("AccumulateGrad of b")),
]
loss.backward()
for hook in watched:
    hook.remove()
b_node._set_sequence_nr(2**64 - 1)
print(*ran, sep=" -> ")

# %% [markdown] id="accumulate"
# ## A second backward
# After one forward and backward, `W.grad` has some length. We run both a second time on the same
# batch and touch nothing else. How many times that length has it now?

# %% id="accumulate-guess"
predict("grad_after_two_backwards", choices=[1.0, 2.0, 4.0])

# %% id="accumulate-run"
head.zero_grad()
norms = []
for _ in range(2):
    F.cross_entropy(head(x), target).backward()
    norms.append(W.grad.norm().item())
reveal("grad_after_two_backwards", round(norms[1] / norms[0], 3))

# %% [markdown] id="accumulate-why"
# `AccumulateGrad` adds; nothing but you empties `.grad`. Forget `zero_grad()`, and each step walks
# along the sum of all gradients so far. That is momentum which never fades: SGD with `momentum=1`.
# On the simplest of losses, `w * w / 2`, it looks faster at first, and then it never settles:


# %% id="accumulate-forgotten"
def descended(emptied, momentum=0.0, steps=80):
    """The values of w on its way down w * w / 2."""
    w = torch.tensor(1.0, requires_grad=True)
    optimizer, path = torch.optim.SGD([w], lr=0.1, momentum=momentum), [1.0]
    for _ in range(steps):
        if emptied:
            optimizer.zero_grad()
        (w * w / 2).backward()
        optimizer.step()
        path.append(w.item())
    return path


ways = {"zero_grad() in each step": True, "forgotten": False}
paths = {name: descended(emptied) for name, emptied in ways.items()}
onelayer.show_curves(paths, step="step", unit="w")
print("momentum 1 takes the same path:", descended(True, momentum=1.0) == paths["forgotten"])

# %% [markdown] id="micro-batches"
# ## The same, on purpose
# Adding is useful when a batch does not fit: feed it in parts, step once. Below, 7 rows come as 2
# and 5, each part with its own mean. Is the accumulated gradient that of the whole batch?

# %% id="micro-batches-guess"
predict("two_parts_of_a_batch", choices=["yes", "no: too long", "no: too short"])


# %% id="micro-batches-run"
def gradient_in_parts(sizes, weigh):
    head.zero_grad()
    for rows, words_there in zip(x.split(sizes), target.split(sizes), strict=True):
        share = len(rows) / len(x) if weigh else 1
        (F.cross_entropy(head(rows), words_there) * share).backward()
    return W.grad.clone()


whole = gradient_in_parts([7], weigh=False)
parts = gradient_in_parts([2, 5], weigh=False)
print("length against the whole batch's:", f"{parts.norm() / whole.norm():.2f}")

# %% id="micro-batches-reveal"
longer = parts.norm() > whole.norm()
exact = torch.allclose(parts, whole, atol=1e-6)
reveal("two_parts_of_a_batch", "yes" if exact else f"no: too {'long' if longer else 'short'}")

# %% [markdown] id="micro-batches-why"
# A sum of means is no mean. Weigh each part by its share of the rows, and the parts give the whole
# gradient. Dividing by the number of parts weighs them all alike, and these are not equally long:

# %% id="micro-batches-weighed"
weighed = gradient_in_parts([2, 5], weigh=True)
print("weighed, equal:", torch.allclose(weighed, whole, atol=1e-6))
print("halved, equal: ", torch.allclose(parts / 2, whole, atol=1e-6))

# %% [markdown] id="twice"
# ## Backward twice through one graph
# Without a new forward, a second `backward()` often raises: "backward through the graph a second
# time". Does it for `(a + c).sum()`?

# %% id="twice-guess"
predict("second_backward_of_a_sum", choices=["raises", "works"])

# %% id="twice-run"
a, c = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
outcomes = {}
results = {"sum": (a + c).sum(), "product": (a * c).sum(), "product, retained": (a * c).sum()}
for name, result in results.items():
    result.backward(retain_graph=name.endswith("retained"))
    try:
        result.backward()
        outcomes[name] = "works"
    except RuntimeError as error:
        outcomes[name] = "raises"
        print(name, "raises:", str(error).split(" (")[0])
print(outcomes)

# %% id="twice-reveal"
reveal("second_backward_of_a_sum", outcomes["sum"])

# %% [markdown] id="twice-why"
# The second backward of a sum works: the first one frees what the nodes *saved*
# ([`saved_variable.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/saved_variable.cpp)),
# not the nodes, and an addition saved no tensor. A product saved both factors. `retain_graph=True`
# keeps what was saved, and the memory.

# %% [markdown] id="version"
# ## An edit between forward and backward
# We add 1 in place, after the forward: once to the input of `exp`, once to its output. Which of the
# two makes backward raise?

# %% id="version-guess"
predict("edit_around_exp", choices=["the input", "the output", "both", "neither"])


# %% id="version-run"
def edited(op, place):
    inside = torch.rand(3, requires_grad=True) * 1  # no leaf: a leaf refuses the edit itself
    outside = op(inside)
    {"the input": inside, "the output": outside}[place].add_(1)
    try:
        outside.sum().backward()
    except RuntimeError as error:
        return str(error)
    return ""


said = {place: edited(torch.exp, place) for place in ("the input", "the output")}
print(said["the output"].split(" Hint")[0])

# %% id="version-reveal"
raised = [place for place, text in said.items() if text]
reveal("edit_around_exp", raised[0] if len(raised) == 1 else "both" if raised else "neither")

# %% [markdown] id="version-why"
# The derivative of exp is exp, so its node saved the *result*. `sin` needs its input instead, and
# an addition neither. Only an edit of something saved can break backward. The node's own attributes
# tell, before you run anything:

# %% id="version-saved"
for op in (torch.exp, torch.tanh, torch.sin, torch.log, torch.neg):
    node = op(torch.rand(3, requires_grad=True)).grad_fn
    print(f"{node.name():15}", [name for name in dir(node) if name.startswith("_saved_")])

# %% [markdown] id="counter"
# ## How did it notice?
# Every ordinary tensor has a version counter, and each in-place operation raises it. A node
# remembers the version that it saved. Views and `detach()` share the counter with their tensor.
# What about `.data`?

# %% id="counter-guess"
predict("edit_through_data", choices=["backward raises", "a wrong gradient", "nothing changes"])

# %% id="counter-run"
h = torch.zeros(3, requires_grad=True) * 1
print("version", h._version, "| after detach().add_(1):", (h.detach().add_(1), h._version)[1])
print("after .data.add_(1):", (h.data.add_(1), h._version)[1])

u = torch.zeros(3, requires_grad=True)
grown = u.exp()  # the derivative at 0 is 1
grown.data.add_(1)
grown.sum().backward()
print("gradient", u.grad.tolist())

# %% id="counter-reveal"
reveal("edit_through_data", "nothing changes" if (u.grad == 1).all() else "a wrong gradient")

# %% [markdown] id="counter-why"
# `.data` gives the same floats with
# [a counter of their own](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/TensorImpl.h),
# so nobody notices, and the gradient is wrong: 2 and not 1. An error would have been kinder.
# Write `torch.no_grad()` for an update of parameters, and an out-of-place operation for an
# activation.

# %% [markdown] id="hooks"
# ## Hooks, and when they fire
# A hook on a tensor is called with its gradient, and here returns a clipped one; a post-accumulate
# hook is called last. What does the second find in `.grad`, if the gradient is 12?

# %% id="hooks-guess"
predict("grad_seen_after_clipping", choices=[1.0, 12.0])

# %% id="hooks-run"
p = torch.tensor(2.0, requires_grad=True)
fired = []
p.register_hook(lambda g: (fired.append(f"tensor hook, {g.item()}"), g.clamp(max=1))[1])
p.register_post_accumulate_grad_hook(lambda t: fired.append(f"after, .grad {t.grad.item()}"))
(p**3).backward()  # the derivative at 2 is 12
print(*fired, sep="\n")

# %% id="hooks-reveal"
reveal("grad_seen_after_clipping", p.grad.item())

# %% [markdown] id="hooks-why"
# The hook's return value took the gradient's place. It sees each backward's gradient by itself,
# before the addition: with micro-batches that is not the same as clipping the sum. And one hook
# sees one tensor: a norm over *all* parameters has to wait for the end. A second backward:

# %% id="hooks-twice"
(p**3).backward()
print(fired[-1], "| the sum, clipped at 1:", min(12 + 12, 1))

# %% [markdown] id="anomaly"
# ## Which line of the forward made the NaN?
# A gradient is NaN, and `backward()` is a single line. The node knows its name, and not your line.
# [`detect_anomaly`](https://docs.pytorch.org/docs/stable/autograd.html) keeps the traceback of each
# node's forward and looks at what each node hands out.

# %% id="anomaly-run"
import warnings


def distance(u):
    apart = u.pow(2).sum().sqrt()  # the derivative of a root at 0 is infinite
    return apart * 0


with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    try:
        with torch.autograd.detect_anomaly():
            distance(torch.zeros(3, requires_grad=True)).backward()
    except RuntimeError as error:
        print(error)
lines = [line.strip() for warning in told for line in str(warning.message).splitlines()]
print("from:", next(line for line in lines if "sqrt" in line and "Backward" not in line))

# %% [markdown] id="anomaly-why"
# The loss itself is 0, and looks healthy. The root gets a gradient of 0 and divides it by twice its
# own result, which is 0, too: 0 / 0 is NaN. Anomaly detection [slows a program
# down](https://docs.pytorch.org/docs/stable/autograd.html): switch it on to search, and off to
# train.

# %% [markdown] id="leaving"
# ## Four ways not to record
# `detach`, `no_grad`, `inference_mode` and `requires_grad_(False)` all keep something out of the
# graph, and are not the same.


# %% id="leaving-run"
def described(t):
    return f"requires_grad {t.requires_grad!s:6} inference {t.is_inference()!s:6}"


with torch.no_grad():
    quiet = head(x)
with torch.inference_mode():
    quieter = head(x)
frozen = onelayer.head().requires_grad_(False)(x)
cut = head(x).detach()
ways = {"detach": cut, "no_grad": quiet, "frozen": frozen, "inference_mode": quieter}
for name, t in ways.items():
    print(f"{name:15}{described(t)}")

# %% [markdown] id="detach"
# ## What does `detach` copy?
# `z.detach()` is a tensor outside the graph. Are its floats new?

# %% id="detach-guess"
predict("bytes_copied_by_detach", choices=[0, 16_800])

# %% id="detach-run"
with onelayer.count_bytes() as moved:
    outside = z.detach()
reveal("bytes_copied_by_detach", moved.bytes)

# %% [markdown] id="detach-why"
# They are not new: `outside` has the same floats, the same version counter, and no way back to the
# graph. `no_grad` does not cut, it never records. Inside it you may still write `p -= lr * p.grad`
# into a leaf, which is what an optimizer does.

# %% [markdown] id="inference"
# ## What else does inference mode leave out?
# [`inference_mode`](https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.inference_mode.html)
# does without version counters and the bookkeeping of views. What happens when we feed its result
# to the head and call backward?

# %% id="inference-guess"
predict("inference_tensor_in_training", choices=["works", "an error", "a gradient of zero"])

# %% id="inference-run"
with torch.inference_mode():
    features = onelayer.hidden("<en> she has")  # (3, 64)
try:
    head(features).sum().backward()
    outcome = "works"
except RuntimeError as error:
    outcome = "an error"
    print(str(error).split(". ")[0])
head.zero_grad()
(features.sum(1) + b[:3]).sum().backward()  # an addition saves nothing
print("an addition works:", b.grad[:4].tolist())
head(features.clone()).sum().backward()  # an ordinary copy, made outside
print("a clone works")
head.zero_grad()

# %% id="inference-reveal"
reveal("inference_tensor_in_training", outcome)

# %% [markdown] id="inference-why"
# Without a counter nobody could notice an edit, so torch refuses to *save* such a tensor. Where
# nothing is saved, as in an addition, it may take part. Features that will enter a trained layer
# are made under `no_grad`; `inference_mode` is for results that only leave. `clone()` outside makes
# an ordinary tensor of one.

# %% [markdown] id="dynamic"
# ## The graph is made by running
# A Python `if` records nothing; only operations that ran are in the graph. The same function, two
# inputs: two graphs.


# %% id="dynamic-run"
def either(t):
    return t.exp() if t.sum() > 0 else t.sin()


for start in (1.0, -1.0):
    print(start, either(torch.tensor([start], requires_grad=True)).grad_fn.name())

# %% [markdown] id="static"
# ## And a graph that is made once
# A static graph is recorded in advance and then run for every input.
# [`torch.fx`](https://docs.pytorch.org/docs/stable/fx.html) refuses to record an `if` on a
# value. So we settle it by hand, with a positive example, and record what is left. What does the
# recording do with -1?

# %% id="static-guess"
predict("recorded_if", choices=["sin", "exp", "an error"])

# %% id="static-run"
from torch.fx.experimental.proxy_tensor import make_fx

try:
    torch.fx.symbolic_trace(either)
except torch.fx.proxy.TraceError as error:
    print("torch.fx:", error)


def settled(positive):
    return lambda t: t.exp() if positive else t.sin()


example = torch.tensor([1.0])
recorded = make_fx(settled(bool(example.sum() > 0)))(example)
print(recorded.code.strip())

# %% id="static-reveal"
value = recorded(torch.tensor([-1.0]))
wrong = value.allclose(torch.tensor([-1.0]).exp())
reveal("recorded_if", "exp" if wrong else "sin")

# %% [markdown] id="static-why"
# The branch is gone: the recording holds one operation. A static graph can be optimised as a whole,
# and is right only while what was settled holds.
# [`torch.compile`](https://docs.pytorch.org/docs/stable/generated/torch.compile.html)
# leaves such an `if` to Python and records what lies before and behind it; what it did settle, such
# as sizes, it checks before each call
# ([`guards.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_dynamo/guards.py)). That is
# chapter 08.

# %% [markdown] id="other-way"
# ## The same graph the other way round
# Backward multiplies by the Jacobian from the left: one number, the loss, and its slope in every
# direction. A *JVP*, a Jacobian-vector product, goes with the forward: one direction, and the slope
# of every output along it. [`torch.func`](https://docs.pytorch.org/docs/stable/func.html) has both.
# They must agree where they meet: the slope of the loss along one direction.


# %% id="other-way-run"
def loss_of(w):
    return F.cross_entropy(F.linear(x, w, b.detach()), target)


still = W.detach()
towards = torch.randn_like(still)  # (600, 64): a direction in the space of all weights
with warnings.catch_warnings(action="ignore"):  # 2.15 warns of how torch writes some of its rules
    value, slope = torch.func.jvp(loss_of, (still,), (towards,))
backward = torch.func.grad(loss_of)(still)  # (600, 64)
print(f"jvp {slope.item():.5f}, gradient times direction {(backward * towards).sum().item():.5f}")

# %% [markdown] id="other-way-why"
# They agree. But a gradient by JVPs would take 38,400 of them, one for each weight, and backward
# takes one pass for all. That is why training goes backward.

# %% [markdown] id="each-its-own"
# ## A gradient for each row
# `backward()` adds the rows' gradients up. Sometimes you want them apart: to clip each, or to find
# the row that shouts. A loop over rows would do. `vmap` makes the loop a dimension: an operation
# inside takes all rows together. Count the matrix products of both:


# %% id="each-its-own-run"
def loss_of_row(w, row, word):
    return F.cross_entropy(F.linear(row, w, b.detach()), word)


of_one = torch.func.grad(loss_of_row)
with onelayer.count_bytes() as together:
    each = torch.func.vmap(of_one, in_dims=(None, 0, 0))(still, x, target)  # (7, 600, 64)
with onelayer.count_bytes() as in_turn:
    loop = [of_one(still, row, word) for row, word in zip(x, target, strict=True)]
products = [sum("mm" in op.name for op in moved.ops) for moved in (together, in_turn)]
print("matrix products, vmap and loop:", *products)
print("as in a loop:", torch.allclose(each, torch.stack(loop), atol=1e-6))
print("their mean is the batch's:", torch.allclose(each.mean(0), backward, atol=1e-6))
read = onelayer.grammar.TOKENS
lengths = {read[word]: g.norm().item() for word, g in zip(words[1:], each, strict=True)}
onelayer.show_bars(lengths)

# %% [markdown] id="one-step"
# ## One step on the real head
# After "she has" the model expects a participle. We raise "sung" by a single step of gradient
# descent, with the formula from above and no `backward()`. How many of the other 599 words become
# less likely?

# %% id="one-step-guess"
predict("words_that_lose", choices=["none", "about a dozen", "all 599"])


# %% id="one-step-run"
def raised(word, lr):
    """The logits after "she has", before and after one step towards `word`."""
    state = onelayer.hidden("<en> she has")[-1:]  # (1, 64): the activation after "has"
    with torch.no_grad():
        dz = head(state).softmax(1)  # (1, 600)
        dz[0, onelayer.grammar.encode(word)] -= 1  # softmax minus one-hot
        return head(state), F.linear(state, W - lr * dz.T @ state, b - lr * dz[0])


before, after = raised("sung", lr=0.001)
print(onelayer.next_words(before), onelayer.next_words(after), sep="\n\n")

# %% id="one-step-reveal"
lost = int((after.softmax(1) < before.softmax(1)).sum())
reveal("words_that_lose", {0: "none", 599: "all 599"}.get(lost, "about a dozen"))

# %% [markdown] id="one-step-why"
# All 599 lose. They need not: what one word gains the others lose together, but not alike. The
# gradient of a logit is the probability that its word has too much, so the likely words are pushed
# down hardest. Raise a word that had almost nothing, as "ha", and nearly all the others gain what
# the likely ones lose:

# %% id="one-step-rare"
before, after = raised("ha", lr=0.001)
print("less likely now:", int((after.softmax(1) < before.softmax(1)).sum()), "of 599")

# %% [markdown] id="what-you-can-now-say"
# ## What you can now say
# - The forward makes a graph of nodes; each knows the next nodes and keeps what its local rule
#   reads, as references. What is kept may depend on who requires a gradient.
# - Backward starts with a seed, runs each node once, when all its gradients have arrived, the
#   youngest ready node first and a leaf as soon as it is complete. Paths add up, and so does
#   `.grad`.
# - An in-place edit breaks backward when it hits something saved; a version counter notices, and
#   `.data` goes behind its back.
# - `detach` cuts, `no_grad` does not record, `inference_mode` gives tensors that no node may save,
#   `requires_grad_(False)` takes a leaf out.
#
# Now do it by hand: [Lab 03](../labs/03_autograd/03_autograd.ipynb).

# %% [markdown] id="sources"
# ## Where this is written in PyTorch
# - the engine, its ready queue and its dependency counts:
#   [`engine.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/engine.cpp),
#   [`engine.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/engine.h)
# - nodes, edges and sequence numbers:
#   [`node.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/node.h)
# - the local rules of nearly all operators, and with them what is saved:
#   [`derivatives.yaml`](https://github.com/pytorch/pytorch/blob/v2.13.0/tools/autograd/derivatives.yaml)
# - saved tensors and their versions:
#   [`saved_variable.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/autograd/saved_variable.cpp);
#   `VariableVersion`, and why `detach` shares it and `.data` does not:
#   [`TensorImpl.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/c10/core/TensorImpl.h)
# - leaves, grad modes, in-place checks: [Autograd
#   mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html); hooks and their order:
#   [`torch.autograd.graph`](https://docs.pytorch.org/docs/stable/autograd.html)
#
# Between torch 2.11 and 2.15 one thing on this page's subject moves: for a contiguous batch of
# sentences `(B, T, 64)` the `grad_fn` of `F.linear` with a bias is `ViewBackward0` up to 2.13 and
# `UnsafeViewBackward0` in 2.15, over the same `AddmmBackward0`. This page uses two dimensions,
# where all agree.
