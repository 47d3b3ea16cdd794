# %% [markdown] id="title"
# # Lab 08: compile
#
# `torch.compile` is one line, and behind it stand a tracer, a partitioner and a compiler. In this
# lab you take the place of each: you are the backend that Dynamo hands its graphs to, you decide
# which call compiles, you rewrite a graph, and you read the file that Inductor wrote on this
# machine.
#
# Work from top to bottom, in about two hours, after [chapter 08](../../notebooks/08_compile.ipynb).
# Any right answer counts, also one that asks torch; you learn more by not asking. Each question but
# the last has a stub, a check that answers at once, and three hints. Only the cells with answers
# are graded, all of them together: keep your helper functions in them.

# %% id="setup" tags=["setup"]
import linecache
import logging
import math
import re

import torch
import torch._dynamo
import torch.nn.functional as F
from torch import fx

from onelayer.compiler.listing import graph_of, listing_of

logging.getLogger("torch._dynamo").setLevel(logging.ERROR)  # breaks are what this lab is about


def load(source):
    """The function `step` that a text defines, before a Dynamo that has seen nothing."""
    torch._dynamo.reset()
    page = {"torch": torch, "F": F}
    linecache.cache["<step>"] = len(source), None, source.splitlines(True), "<step>"
    exec(compile(source, "<step>", "exec"), page)
    return page["step"]


# %% id="instruments"
import onelayer
from autograder import check, hint, progress

head = onelayer.head()  # nn.Linear(64, 600): weight (600, 64), bias (600,)

# %% [markdown] id="programs-are-text"
# Programs arrive here as texts that define one function, `step`, so that each check can draw a new
# one and Dynamo has never met it. `load(source)` makes the function. Graphs arrive as listings:
# `graph_of(rows)` makes an FX graph of one, `listing_of(graph)` writes it down again.

# %% [markdown] id="worked-example"
# ## Worked example: the smallest backend
#
# A backend is a function: it **receives a graph**, may **look at its nodes**, and **returns what is
# to run** in its place. Returning the graph itself is allowed, and is what `backend="eager"` does.


# %% id="worked-example-code" tags=["worked-example"]
def showing(graph_module, example_inputs):
    # receive a graph: captured once, before it has run
    for node in graph_module.graph.nodes:  # look at its nodes
        print(f"{node.op:14} {node.name:8} {node.args}")
    return graph_module  # return what is to run, here the graph as it came


SOURCE = """
def step(x, w, b):
    y = F.linear(x, w, b)
    if y.sum() > 0:
        y = y / 2
    return torch.tanh(y)
"""
compiled = torch.compile(load(SOURCE), backend=showing)
x = onelayer.hidden("<en> she has eaten <es> ella ha")  # (7, 64)
with torch.no_grad():
    compiled(x, head.weight, head.bias)
    compiled(x, head.weight, head.bias)  # prints nothing more: the graphs are there

# %% [markdown] id="count-what-you-are-given"
# ## Count what you are given
#
# Two graphs came for the program above: the `if` needs a number, so Python decides, and Dynamo
# begins anew behind it. Write a backend `counting` that appends to `given` the number of operations
# of each graph it gets (the nodes whose `op` begins with `"call_"`), and lets `ran` grow by 1 each
# time any of the graphs runs.
#
# For the program above, called twice with that x: `([3, 1], 4)`. Its sum is below 0, so the graph
# behind the `if` has no division. Stuck? `hint("given_to_backend")`


# %% id="given_to_backend" role="solution"
def given_to_backend(source, calls):
    """source (defines step), calls (lists of arguments) -> (operations of each graph, runs)."""
    given, ran = [], 0

    ### BEGIN SOLUTION
    def counting(graph_module, example_inputs):
        nodes = graph_module.graph.nodes
        given.append(sum(node.op.startswith("call_") for node in nodes))

        def run(*args):
            nonlocal ran
            ran += 1
            return graph_module(*args)

        return run

    ### END SOLUTION
    compiled = torch.compile(load(source), backend=counting)
    for arguments in calls:
        compiled(*arguments)
    return given, ran


# %% id="given_to_backend_check" role="check"
check("given_to_backend")


# %% id="given_to_backend_alternative" role="alternative"
def given_to_backend(source, calls):
    """With an interpreter in the graph's place, which counts while it runs."""
    given, runs = [], []

    class Counting(fx.Interpreter):
        def run(self, *args):
            runs.append(1)
            return super().run(*args)

    def interpreting(graph, _):
        given.append(len([n for n in graph.graph.nodes if n.op.partition("_")[0] == "call"]))
        return Counting(graph).run

    compiled = torch.compile(load(source), backend=interpreting)
    for arguments in calls:
        compiled(*arguments)
    return given, len(runs)


# %% [markdown] id="where-does-it-break"
# ## Where does it break?
#
# A break between operators costs a graph: nothing is fused across it. List the lines at which
# Dynamo breaks, in the order in which it comes to them, without their indentation. Beware of lines
# that only look like it. Dynamo tells: see the `break_reasons` of
# `torch._dynamo.explain(step)(*args)`.
#
# For the program above it is `["if y.sum() > 0:"]`. Stuck? `hint("where_it_breaks")`


# %% id="where_it_breaks" role="solution"
def where_it_breaks(source, args):
    """source (defines step), args (for one call) -> list of lines of the text."""
    lines = source.splitlines()
    ### BEGIN SOLUTION
    reasons = torch._dynamo.explain(load(source))(*args).break_reasons
    return [lines[reason.user_stack[-1].lineno - 1].strip() for reason in reasons]
    ### END SOLUTION


# %% id="where_it_breaks_check" role="check"
check("where_it_breaks")


# %% id="where_it_breaks_alternative" role="alternative"
def where_it_breaks(source, args):
    """With the text lent to Python's linecache, so that a frame knows its line itself."""
    import linecache

    text = [f"{line}\n" for line in source.splitlines()]
    linecache.cache["<step>"] = (len(source), None, text, "<step>")
    try:
        explained = torch._dynamo.explain(load(source))(*args)
        return [reason.user_stack[-1].line for reason in explained.break_reasons]
    finally:
        del linecache.cache["<step>"]


# %% [markdown] id="in-one-graph"
# ## In one graph
#
# This step caps its logits and averages the rows that count. It breaks twice: a number leaves the
# graph, and a result has as many rows as its values say. Write a `step` of which Dynamo makes one
# graph: same results, for every x with finite logits and every finite `limit` above 0. With
# `fullgraph=True` what fits into no graph is an error, which names the line.


# %% id="in-one-graph-code" tags=["worked-example"]
def step_as_found(x, w, b, limit):
    z = F.linear(x, w, b)  # (N, V)
    top = z.abs().max().item()
    if top > limit:
        z = z * (limit / top)
    kept = z[z.sum(dim=1) > 0]  # (as many rows as count, V)
    mean = kept.mean(dim=0) if len(kept) else torch.zeros(z.shape[1])
    return z, mean  # (N, V), (V,)


# %% [markdown] id="in-one-graph-hint"
# Stuck? `hint("one_graph")`


# %% id="one_graph" role="solution"
def one_graph(xs, w, b, limit):
    """xs (list of x (N, D)), w (V, D), b (V,), limit -> (list of (z, mean), graphs given)."""
    torch._dynamo.reset()
    graphs = []

    def backend(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module

    ### BEGIN SOLUTION
    def step(x, w, b, limit):
        z = F.linear(x, w, b)
        top = z.abs().max()  # stays a tensor
        z = z * torch.where(top > limit, limit / top, 1.0)
        keep = (z.sum(dim=1) > 0).to(z.dtype)  # (N,): all rows stay, with a weight of 0 or 1
        return z, keep @ z / keep.sum().clamp(min=1)

    ### END SOLUTION
    compiled = torch.compile(step, backend=backend, fullgraph=True)
    return [compiled(x, w, b, limit) for x in xs], len(graphs)


# %% id="one_graph_check" role="check"
check("one_graph")


# %% id="one_graph_alternative" role="alternative"
def one_graph(xs, w, b, limit):
    torch._dynamo.reset()
    graphs = []

    def backend(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module

    def in_one(x):
        z = x @ w.T + b
        z = z * (limit / z.abs().amax()).clamp(max=1)
        rows = (z.sum(dim=1, keepdim=True) > 0).expand(z.shape)
        return z, torch.where(rows, z, 0.0).sum(dim=0) / rows[:, 0].sum().clamp(min=1)

    compiled = torch.compile(in_one, backend=backend, fullgraph=True)
    return [compiled(x) for x in xs], len(graphs)


# %% [markdown] id="which-calls-compile"
# ## Which calls compile?
#
# A graph is kept together with what was true of the call that it was made for. The next call runs
# it if all of that still holds, and compiles otherwise. Here is a step with four things to guard:


# %% id="which-calls-compile-code" tags=["worked-example"]
def guarded_step(x, training, limit=5):  # limit is a number in the text
    y = x * 2
    if training:
        y = y + 1
    if x.shape[0] > limit:
        y = y.relu()
    return y


# %% [markdown] id="which-calls-compile-rules"
# Predict it: True for each call that compiles. Keep what each graph guards, and write down when a
# call fits. N is a plain number in the first graph. From the compile on that meets a second N, N is
# a *symbol* in every graph that is made, whichever N it is made for, and whatever its dtype; but 0
# and 1 never become one. A graph with a symbol holds one side of `limit` only.
#
# N = 2, 2, 3, 4, 1, all else equal and `limit` 5: `[True, False, True, False, True]`. You may also
# let Dynamo say it. Stuck? `hint("which_calls_compile")`


# %% id="which_calls_compile" role="solution"
def which_calls_compile(calls, limit):
    """calls (list of (n, dtype, training), x being (n, 3)), limit -> a bool for each call."""
    graphs, sizes = [], set()  # what each graph guards; every N that was compiled for
    compiles = []
    for n, dtype, training in calls:
        ### BEGIN SOLUTION
        fits = [
            same == (dtype, training)
            and (n == size if size is not None else n >= 2 and (n > limit) == above)
            for size, above, same in graphs
        ]
        compiles.append(not any(fits))
        if compiles[-1]:
            sizes.add(n)
            symbol = len(sizes) > 1 and n >= 2
            graphs.append((None if symbol else n, n > limit, (dtype, training)))
        ### END SOLUTION
    return compiles


# %% id="which_calls_compile_check" role="check"
check("which_calls_compile")


# %% id="which_calls_compile_alternative" role="alternative"
def which_calls_compile(calls, limit):
    """By experiment."""
    given = []

    def taking(graph_module, _):
        given.append(graph_module)
        return graph_module

    lines = ["y = x * 2", "if training: y = y + 1", f"if x.shape[0] > {limit}: y = y.relu()"]
    body = "".join(f"    {line}\n" for line in lines)
    compiled = torch.compile(load(f"def step(x, training):\n{body}    return y"), backend=taking)
    compiles = []
    for n, dtype, training in calls:
        before = len(given)
        compiled(torch.ones(n, 3, dtype=dtype), training)
        compiles.append(len(given) > before)
    return compiles


# %% [markdown] id="a-pass"
# ## A pass of your own
#
# A product and the addition behind it are one operator: `addmm(t, x, w)` is `t + x @ w`, and with
# `beta=` and `alpha=` it is `beta * t + alpha * x @ w`. Rewrite every `add` of a product and
# another tensor, in either order, where nobody else reads the product (`len(product.users)`). `add`
# has an `alpha` of its own, which scales its *second* argument. Arguments may also be numbers. No
# operator of these graphs writes into an argument, so a product may run later than it did.
#
# Your [tools](https://docs.pytorch.org/docs/stable/fx.html#graph-manipulation):
# `graph.inserting_before(node)` says where, `graph.call_function(target, args, kwargs)` makes,
# `old.replace_all_uses_with(new)` lets others read it, and `graph.erase_node(old)` takes away what
# nobody reads any more. The old product has to go: a graph runs every node that it has. This
# listing becomes one `addmm`:


# %% id="a-pass-example"
rows = [
    ("x", "input", [], {}),
    ("w", "input", [], {}),
    ("b", "input", [], {}),
    ("m", "aten.mm.default", ["x", "w"], {}),
    ("y", "aten.add.Tensor", ["m", "b"], {}),
    ("out", "output", ["y"], {}),
]
print(graph_of(rows))

# %% [markdown] id="a-pass-hint"
# Stuck? `hint("bias_into_product")`


# %% id="bias_into_product" role="solution"
def bias_into_product(rows):
    """rows (a listing) -> rows after the pass."""
    MM, ADD = torch.ops.aten.mm.default, torch.ops.aten.add.Tensor
    ADDMM = torch.ops.aten.addmm.default
    graph = graph_of(rows)
    for add in [node for node in graph.nodes if node.target is ADD]:
        ### BEGIN SOLUTION
        first, second = add.args
        alpha = add.kwargs.get("alpha", 1)
        for product, other, scales in (
            (first, second, {"beta": alpha}),
            (second, first, {"alpha": alpha}),
        ):
            nodes = isinstance(product, fx.Node) and isinstance(other, fx.Node)
            if not nodes or product.target is not MM or len(product.users) > 1:
                continue
            if other is product:  # add(m, m): its addmm would read m
                continue
            with graph.inserting_before(add):
                fused = graph.call_function(ADDMM, (other, *product.args), scales)
            add.replace_all_uses_with(fused)
            graph.erase_node(add)
            graph.erase_node(product)
            break
        ### END SOLUTION
    return listing_of(graph)


# %% id="bias_into_product_check" role="check"
check("bias_into_product")


# %% id="bias_into_product_alternative" role="alternative"
def bias_into_product(rows):
    """On the listing itself."""
    produced = {name: args for name, op, args, _ in rows if op == "aten.mm.default"}
    read = [arg for _, _, args, _ in rows for arg in args]
    alone = {name for name in produced if read.count(name) == 1}
    kept, gone = [], set()
    for name, op, args, kwargs in rows:
        place = next((k for k, arg in enumerate(args) if arg in alone), None)
        if op == "aten.add.Tensor" and place is not None and isinstance(args[1 - place], str):
            scale = {("beta", "alpha")[place]: kwargs["alpha"]} if kwargs else {}
            gone.add(args[place])
            args = [args[1 - place], *produced[args[place]]]
            op, kwargs = "aten.addmm.default", scale
        kept.append((name, op, args, kwargs))
    return [row for row in kept if row[0] not in gone]


# %% [markdown] id="detective-case"
# ## Detective case: the pass that loses writes
#
# A colleague's pass merges twins (two nodes with the same operator and the same arguments: 0.0 and
# -0.0 are two, and so are 1, 1.0 and True) and sweeps away what nobody reads. On their model the
# loss stayed the same and the step got faster; on yours, a running mean no longer runs. Find out
# why, and write it right: what can be merged or swept away still has to go. A graph may write into
# any of its tensors, early or late and through a view (`t`), and it may draw random numbers
# (`rand_like`): a draw that nobody reads moves the generator on for the next one, and stays. Your
# pass may be careful: twins on the two sides of a write may stay two, whichever tensor it goes
# into, and no write has to be swept away.


# %% id="detective-case-code" tags=["worked-example"]
def merge_twins_as_found(rows):
    graph, seen = graph_of(rows), {}
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        key = (node.target, node.args, tuple(node.kwargs.items()))
        if key in seen:
            node.replace_all_uses_with(seen[key])
            graph.erase_node(node)
        else:
            seen[key] = node
    for node in reversed(list(graph.nodes)):
        if node.op == "call_function" and not node.users:
            graph.erase_node(node)
    return listing_of(graph)


running_mean = [
    ("x", "input", [], {}),
    ("mean", "input", [], {}),
    ("old", "aten.mul.Tensor", ["mean", 0.9], {}),
    ("write", "aten.add_.Tensor", ["mean", "x"], {}),
    ("new", "aten.mul.Tensor", ["mean", 0.9], {}),
    ("moved", "aten.sub.Tensor", ["new", "old"], {}),
    ("out", "output", ["moved"], {}),
]
print(graph_of(merge_twins_as_found(running_mean)))

# %% [markdown] id="detective-case-hint"
# Stuck? `hint("merge_twins")`


# %% id="merge_twins" role="solution"
def merge_twins(rows):
    """rows (a listing) -> rows after the pass."""
    graph, seen = graph_of(rows), {}
    ### BEGIN SOLUTION
    operators = [node for node in graph.nodes if node.op == "call_function"]
    writes = {node for node in operators if node.target._schema.is_mutable}
    random = torch.Tag.nondeterministic_seeded  # such a draw writes into the generator
    acts = writes | {node for node in operators if random in node.target.tags}
    written = set()  # into whose memory a later node writes, perhaps through a view
    for node in reversed(operators):
        is_view = node.target._schema.returns[0].alias_info is not None
        if node in writes or (is_view and node in written):
            written.add(node.args[0])
    for node in operators:
        if node in writes:
            seen.clear()  # whatever was read before may read otherwise now, through any view
        if node in acts or node in written:
            continue
        key = str((node.target, node.args, node.kwargs))  # 1 == True: as text they differ
        if key in seen:
            node.replace_all_uses_with(seen[key])
            graph.erase_node(node)
        else:
            seen[key] = node
    for node in reversed(list(graph.nodes)):
        unread = node.op == "call_function" and not node.users
        if unread and node not in acts:
            graph.erase_node(node)
    ### END SOLUTION
    return listing_of(graph)


# %% id="merge_twins_check" role="check"
check("merge_twins")


# %% id="merge_twins_alternative" role="alternative"
def merge_twins(rows):
    """On the listing: a key carries the number of writes that came before it."""
    same, seen, kept, writes, written = {}, {}, [], 0, set()
    for name, op, args, _ in reversed(rows):
        if op.split(".")[1:] and (
            op.split(".")[1].endswith("_") or (name in written and ".t." in op)
        ):
            written.add(args[0])
    for name, op, args, kwargs in rows:
        args = [same.get(arg, arg) if isinstance(arg, str) else arg for arg in args]
        in_place = op.split(".")[1].endswith("_") if "." in op else False
        key = (writes, op, str(args), str(kwargs))
        writes += in_place
        if op in ("input", "output") or in_place or "rand" in op or name in written:
            kept.append((name, op, args, kwargs))
        elif key in seen:
            same[name] = seen[key]
        else:
            seen[key] = name
            kept.append((name, op, args, kwargs))
    live, needed = [], set()
    for name, op, args, kwargs in reversed(kept):
        in_place = "." in op and op.split(".")[1].endswith("_")
        if name in needed or in_place or "rand" in op or op in ("input", "output"):
            needed.update(arg for arg in args if isinstance(arg, str))
            live.append((name, op, args, kwargs))
    return live[::-1]


# %% [markdown] id="what-is-saved"
# ## What is kept for the backward
#
# AOTAutograd traces forward and backward into one graph, and a partitioner cuts it in two. What
# crosses the cut has to be kept in memory until the backward. One partitioner keeps all that the
# backward reads; the other keeps fewest bytes, and runs cheap operators again. In both, the forward
# graph returns the result of `step` first, then what is kept.
#
# Write `forward_compiler`: add to `saved` each node that made kept numbers, once, as `"input"` or
# `str(node.target)` with the shape of `node.meta["val"]`. A view makes no numbers; `maker` leads
# back to the node that did. Return `make_boxed_func(graph_module.forward)`. For
# `torch.tanh(F.linear(x, w, b))`, where x needs no gradient, it is `[("input", x's shape),
# ("aten.tanh.default", ...)]`, in any order. Stuck? `hint("what_is_saved")`


# %% id="what_is_saved" role="solution"
def what_is_saved(source, args, keep):
    """source (of a step with one result), args, keep ("all", "fewest") -> (maker, shape) pairs."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch import partitioners

    cuts = {
        "all": partitioners.default_partition,
        "fewest": partitioners.min_cut_rematerialization_partition,
    }
    views = ("detach", "alias", "t", "view", "permute", "expand")

    def maker(node):
        while str(node.target).removeprefix("aten.").removesuffix(".default") in views:
            node = node.args[0]
        return node

    saved = []

    ### BEGIN SOLUTION
    def forward_compiler(graph_module, example_inputs):
        *_, output = graph_module.graph.nodes
        _, *kept = output.args[0]  # the result of step, then what is kept
        for node in dict.fromkeys(map(maker, kept)):
            name = "input" if node.op == "placeholder" else str(node.target)
            saved.append((name, tuple(node.meta["val"].shape)))
        return make_boxed_func(graph_module.forward)

    ### END SOLUTION
    backend = aot_autograd(fw_compiler=forward_compiler, partition_fn=cuts[keep])
    torch.compile(load(source), backend=backend)(*args)
    return saved


# %% id="what_is_saved_check" role="check"
check("what_is_saved")


# %% id="what_is_saved_alternative" role="alternative"
def what_is_saved(source, args, keep):
    """From the other side of the cut: what the backward graph takes, besides the tangents."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch import partitioners

    cut = getattr(
        partitioners,
        {"all": "default_partition", "fewest": "min_cut_rematerialization_partition"}[keep],
    )
    nodes, taken = {}, []

    def forward(graph_module, example_inputs):
        nodes.update((node.name, node) for node in graph_module.graph.nodes)
        return make_boxed_func(graph_module.forward)

    def backward(graph_module, example_inputs):
        inputs = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
        taken.extend(name for name in inputs if not name.startswith("tangents"))
        return make_boxed_func(graph_module.forward)

    backend = aot_autograd(fw_compiler=forward, bw_compiler=backward, partition_fn=cut)
    torch.compile(load(source), backend=backend)(*args).sum().backward()
    made = {}
    for node in map(nodes.get, taken):
        while re.fullmatch(
            r"aten\.(detach|alias|t|view|permute|expand)\.default", str(node.target)
        ):
            node = node.args[0]
        made[node] = "input" if node.op == "placeholder" else str(node.target)
    return [(name, tuple(node.meta["val"].shape)) for node, name in made.items()]


# %% [markdown] id="an-opaque-step"
# ## A function that Dynamo may not see
#
# `words_needed` says for each row how many of the likeliest words it takes to reach probability p:
# a Python loop over numbers, so Dynamo breaks on it. Make it an operator, which Dynamo takes as one
# node without looking inside, and the whole step becomes one graph, for every N but 0, 1, D and V.
# Inside the step call your operator.


# %% id="an-opaque-step-code" tags=["setup"]
def words_needed(z, p):
    """z (N, V) -> (N,) int64: how many words it takes to reach probability p."""
    needed = []
    for row in z.softmax(dim=-1).tolist():
        total, words = 0.0, 0
        for q in sorted(row, reverse=True):
            total, words = total + q, words + 1
            if total >= p:
                break
        needed.append(words)
    return torch.tensor(needed, dtype=torch.int64)


# %% [markdown] id="an-opaque-step-hint"
# Stuck? `hint("opaque_step")`


# %% id="opaque_step" role="solution"
def opaque_step(xs, w, b, p):
    """xs (x (N, D), several N), w (V, D), b (V,), p -> (results, what each graph believes)."""
    believed = []  # of the operator's result: its dtype and its dims, one entry for each graph

    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if str(node.target).startswith("lab08.words_needed"):
                result = node.meta["example_value"]
                believed.append((result.dtype, result.dim()))
        return graph_module

    def step(x):
        logits = F.linear(x, w, b)  # (N, V)
        return operator(logits, p) * logits.amax(dim=1)  # (N,)

    operator = words_needed  # in place of this, make an operator "lab08::words_needed" of it

    ### BEGIN SOLUTION
    @torch.library.custom_op("lab08::words_needed", mutates_args=())
    def operator(z: torch.Tensor, p: float) -> torch.Tensor:
        return words_needed(z, p)

    @operator.register_fake
    def _(z, p):
        return z.new_empty(z.shape[0], dtype=torch.int64)

    ### END SOLUTION
    torch._dynamo.reset()
    compiled = torch.compile(step, backend=backend, fullgraph=True, dynamic=True)
    return [compiled(x) for x in xs], believed


# %% id="opaque_step_check" role="check"
check("opaque_step")


# %% id="opaque_step_alternative" role="alternative"
def opaque_step(xs, w, b, p):
    """With the older interface: a schema as text, and an implementation for each key."""
    library = torch.library.Library("lab08", "FRAGMENT")
    library.define("words_needed_too(Tensor z, float p) -> Tensor")
    library.impl("words_needed_too", words_needed, "CPU")
    library.impl("words_needed_too", lambda z, p: z[:, 0].to(torch.int64), "Meta")
    believed = []

    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if "words_needed_too" in str(node.target):
                result = node.meta["example_value"]
                believed.append((result.dtype, len(result.shape)))
        return graph_module

    try:
        torch._dynamo.reset()
        operator = torch.ops.lab08.words_needed_too

        def step(x, w, b):
            y = F.linear(x, w, b)
            return operator(y, p) * y.amax(dim=1)

        compiled = torch.compile(step, backend=backend, fullgraph=True, dynamic=True)
        return [compiled(x, w, b) for x in xs], believed
    finally:
        library._destroy()


# %% [markdown] id="read-the-file"
# ## Read what Inductor wrote
#
# Inductor writes a Python file: kernels in C++ as strings, and a function `call` that makes the
# buffers and launches the kernels. Read one: the names of what `call` launches, in order, and the
# bytes of each buffer that it makes, in order. A product is a launch too, of a library
# (`extern_kernels.addmm`). `buf1 = buf0; del buf0  # reuse` makes nothing.
#
# Here is the part that counts of a file that this machine writes; the check gives you whole ones.


# %% id="read-the-file-run"
with torch.no_grad():
    inputs = onelayer.hidden("<en> she has eaten"), head.weight, head.bias
    step = fx.symbolic_trace(lambda x, w, b: F.linear(x, w, b).relu().argmax(dim=-1))
    text = onelayer.inductor_source(step, *inputs)
print(re.search(r" *def call\(.*?^ +return .*?$", text, re.DOTALL | re.MULTILINE)[0])

# %% [markdown] id="read-the-file-hint"
# For this one: `(["extern_kernels.addmm", "cpp_fused_..._0"], [9600, 32])`. Stuck?
# `hint("read_wrapper")`


# %% id="read_wrapper" role="solution"
def read_wrapper(text):
    """text (a whole file) -> (names of what is launched, bytes of each new buffer), in order."""
    body = text[text.index("def call(") :]
    ### BEGIN SOLUTION
    launched = re.findall(r"^\s+(cpp_fused\w*|extern_kernels\.\w+)\(", body, re.MULTILINE)
    made = re.findall(r"= empty_strided_cpu\(\((.*?)\), \(.*?\), torch\.(\w+)\)", body)
    allocated = []
    for size, dtype in made:
        elements = math.prod(int(n) for n in size.split(",") if n.strip())
        allocated.append(elements * getattr(torch, dtype).itemsize)
    return launched, allocated
    ### END SOLUTION


# %% id="read_wrapper_check" role="check"
check("read_wrapper")


# %% id="read_wrapper_alternative" role="alternative"
def read_wrapper(text):
    """With Python's own parser."""
    import ast

    tree = ast.parse(text)
    (body,) = (f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and f.name == "call")
    calls = [node for node in ast.walk(body) if isinstance(node, ast.Call)]
    launched, allocated = [], []
    for node in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        name = ast.unparse(node.func)
        if name.startswith(("cpp_fused", "extern_kernels.")):
            launched.append(name)
        if name == "empty_strided_cpu":
            size, _, dtype = node.args
            nbytes = getattr(torch, dtype.attr).itemsize
            allocated.append(math.prod(ast.literal_eval(size)) * nbytes)
    return launched, allocated


# %% [markdown] id="bytes-moved"
# ## The bytes, before and after
#
# Predict what fusion buys. Eager: each operator reads its tensors, one that it is given twice once,
# and writes its result. Compiled: the pointwise operators before a product are one kernel, those
# behind it another. A fused kernel reads each tensor that comes from outside once, and writes what
# a product or the caller needs; the product is a call of a library, which reads both factors, two
# tensors, and writes all of its result. (Inductor may give an addition right behind it to that
# call; in these programs it does not.) Of what is made before the product, only its factors are
# read behind it. What nobody reads, Inductor does not compile, nor what only that would have read.
#
# For `y = x + b` then `relu(y)`, x `(2, 3)`, b `(3,)`: eager 108 bytes, compiled 60. Stuck?
# `hint("bytes_moved")`


# %% id="bytes_moved" role="solution"
def bytes_moved(rows, shapes):
    """rows (pointwise operators, at most one mm), shapes (input -> shape, float32)
    -> (eager bytes, compiled bytes).
    """
    shape_of = dict(shapes)
    for name, op, args, _ in rows:
        if op == "aten.mm.default":
            shape_of[name] = [shape_of[args[0]][0], shape_of[args[1]][1]]
        elif op not in ("input", "output"):
            shape_of[name] = max((shape_of[arg] for arg in args), key=math.prod)
    nbytes = {name: 4 * math.prod(shape) for name, shape in shape_of.items()}
    body, outputs = [row for row in rows if row[1] not in ("input", "output")], rows[-1][2]
    ### BEGIN SOLUTION
    eager = sum(nbytes[name] + sum(nbytes[arg] for arg in set(args)) for name, _, args, _ in body)

    read = set(outputs)
    for name, _, args, _ in reversed(body):  # who reads for nobody is nobody
        read |= set(args) if name in read else set()
    live = [row for row in body if row[0] in read]
    kernel, group = {}, 0
    for name, op, _, _ in live:
        group += op == "aten.mm.default"
        kernel[name] = "product" if op == "aten.mm.default" else group
    reads = set()
    for name, _, args, _ in live:
        reads |= {(arg, kernel[name]) for arg in args if kernel.get(arg) != kernel[name]}
    writes = ({name for name, _ in reads} | set(outputs)) & kernel.keys()
    return eager, sum(nbytes[name] for name, _ in reads) + sum(nbytes[name] for name in writes)
    ### END SOLUTION


# %% id="bytes_moved_check" role="check"
check("bytes_moved")


# %% id="bytes_moved_alternative" role="alternative"
def bytes_moved(rows, shapes):
    """Three kernels, one after the other."""
    size = {name: math.prod(shape) for name, shape in shapes.items()}
    *body, (_, _, outputs, _) = [row for row in rows if row[1] != "input"]
    compiled, eager, live = 0, 0, []
    for row in reversed(body):
        if row[0] in outputs or any(row[0] in args for _, _, args, _ in live):
            live.append(row)
    kernels = [[]]
    for row in body:
        name, op, args, _ = row
        product = op == "aten.mm.default"
        size[name] = shapes["x"][0] * shapes["w"][1] if product else max(size[arg] for arg in args)
        eager += size[name] + sum(size[arg] for arg in set(args))
        if product and row in live:
            kernels += [[row], []]
        elif row in live:
            kernels[-1].append(row)
    for kernel in kernels:
        others = [row for row in live if row not in kernel]
        inside = {row[0] for row in kernel}
        wanted = set(outputs) | {arg for _, _, args, _ in others for arg in args}
        outside = {arg for _, _, args, _ in kernel for arg in args} - inside
        compiled += sum(size[name] for name in outside | (inside & wanted))
    return 4 * eager, 4 * compiled


# %% [markdown] id="why-every-call"
# ## In your own words
#
# A colleague keeps the losses while training. Compiled, the step got slower; the log says that a
# recompile limit was reached, and from then on it is as slow as eager. How many graphs does each
# call bring?


# %% id="why-every-call-run"
def kept_step(x, target, history):
    loss = F.cross_entropy(F.linear(x, head.weight, head.bias), target)
    history.append(loss.item())
    return loss * 2


graphs, history, brought = [], [], []
torch._dynamo.reset()
compiled = torch.compile(kept_step, backend=lambda graph, _: graphs.append(graph) or graph)
for _ in range(10):
    before = len(graphs)
    compiled(torch.randn(8, 64), torch.arange(8), history)
    brought.append(len(graphs) - before)
print("graphs for each call:", brought)

# %% [markdown] id="why-every-call-asked"
# In at most six sentences: what breaks the graph, which guard fails at every call, what Dynamo does
# at the limit, what a break costs even where nothing recompiles, and what should they write?

# %% [markdown] id="why_every_call" role="free_text" points=5 minutes=7 difficulty=3
# `loss.item()` asks for a number that is only known when the graph has run, so Dynamo breaks there
# and Python goes on. `history` is a Python list that is traced along: the code on both sides of the
# break guards its length, which is another one at every call, so every call compiles. After the
# limit (8 by default) Dynamo gives up on that code and runs it eagerly from then on. A break alone
# already costs: two graphs in place of one, nothing fused or planned across it, the values that
# cross it written to memory, and with `item()` on a GPU a synchronization. They should return the
# loss from the step, still a tensor and detached, and append outside of it, asking for numbers once
# in a while.
#
# **Rubric** (1 point each): item() needs a value while tracing and breaks the graph; the guard on
# the list (its length or content) fails each time; at the recompile limit that code runs eagerly;
# a break costs fusion, memory traffic or a synchronization; the loss is returned as a tensor and
# kept outside.

# %% [markdown] id="where-you-are"
# ## Where you are

# %% id="where-you-are-run"
progress()
