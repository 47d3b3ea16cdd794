# %% [markdown] id="title"
# # Lab 02: the dispatcher
#
# Every operator has a table of kernels, every tensor carries a set of keys, every thread adds and
# removes some. In this lab you write the rules that join the three, then build a small dispatcher
# and run the real head through it.
#
# Work from top to bottom, in about two hours, after [chapter
# 02](../../notebooks/02_dispatcher.ipynb). Any right answer counts, also one that asks torch; you
# learn more by not asking. Names that begin with `torch._C._dispatch` are private to PyTorch: good
# for looking, never for your library. Keep helper functions inside the cell of the question that
# uses them: only those cells are graded.

# %% id="setup" tags=["setup"]
import re
import warnings

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

# %% id="instruments"
import onelayer
from autograder import answered, check, hint, progress

head = onelayer.head()  # nn.Linear(64, 600): weight (600, 64), bias (600,)

# %% [markdown] id="picture-of-one-call"
# The way of one call: every key that the tensors and the thread bring, the highest priority first,
# and what the operator's table holds for it.

# %% id="picture-of-one-call-run"
onelayer.show_dispatch("aten::addmm", head.bias, torch.ones(1, 64), head.weight.T)

# %% [markdown] id="worked-example"
# ## Worked example: the key set of a call
#
# The questions of this lab take the same three steps: **collect the keys**, **find the kernel**,
# **decide who is asked next**. Here is the first of them.


# %% id="worked-example-code" tags=["worked-example"]
def keys_of_a_call(carried, included, excluded):
    """carried: one list of keys per tensor; included, excluded: what the thread says -> a set."""
    keys = set()
    for of_one_tensor in carried:  # collect the keys: a call has those of all its tensors,
        keys |= set(of_one_tensor)
    keys |= set(included)  # and those that the thread adds to every call,
    return keys - set(excluded)  # without those that the thread has switched off


strided, sparse = torch.ones(3), torch.ones(3).to_sparse()
carried = [onelayer.key_set(strided), onelayer.key_set(sparse)]
print(sorted(keys_of_a_call(carried, ["BackendSelect"], ["AutocastCPU"])))

# %% [markdown] id="the-key-set"
# ## The key set of a tensor
#
# Say which keys a tensor carries, the highest priority first. The order of the names that occur is
# `AutocastCPU`, an autograd key, `ADInplaceOrView`, `Negative`, a backend key.
#
# - The backend key joins layout and device: `CPU`, `SparseCPU`, `SparseCsrCPU`, `Meta`,
#   `SparseMeta`, `SparseCsrMeta`.
# - The autograd key is named after the device alone: `AutogradCPU`, `AutogradMeta`.
# - A lazy `-x` (`torch._neg_view`) adds `Negative`.
# - A tensor made in `inference_mode` has neither autograd's key nor `ADInplaceOrView`.
# - Meta tensors have no autocast key.
#
# Three of the seven arguments choose no key.
#
# `tensor_keys("cpu", "strided", torch.float32, (7, 64), True, False, False)` is `["AutocastCPU",
# "AutogradCPU", "ADInplaceOrView", "CPU"]`. Stuck? `hint("tensor_keys")`


# %% id="tensor_keys" role="solution"
def tensor_keys(device, layout, dtype, shape, requires_grad, negative, made_in_inference):
    """device "cpu" or "meta", layout "strided", "sparse_coo" or "sparse_csr" -> list of keys."""
    backend = {"cpu": "CPU", "meta": "Meta"}[device]
    prefix = {"strided": "", "sparse_coo": "Sparse", "sparse_csr": "SparseCsr"}[layout]
    ### BEGIN SOLUTION
    keys = ["AutocastCPU"] if device == "cpu" else []
    if not made_in_inference:
        keys += [f"Autograd{backend}", "ADInplaceOrView"]
    if negative:
        keys.append("Negative")
    return [*keys, prefix + backend]  # dtype, shape, requires_grad: none
    ### END SOLUTION


# %% id="tensor_keys_check" role="check"
check("tensor_keys")


# %% id="tensor_keys_alternative" role="alternative"
def tensor_keys(device, layout, dtype, shape, requires_grad, negative, made_in_inference):
    backend = device.upper() if device == "cpu" else device.capitalize()
    sparse = "".join(part.capitalize() for part in layout.removesuffix("_coo").split("_"))
    present = {
        "AutocastCPU": device == "cpu",
        "Autograd" + backend: not made_in_inference,
        "ADInplaceOrView": not made_in_inference,
        "Negative": negative,
        sparse.replace("Strided", "") + backend: True,
    }
    return [key for key, there in present.items() if there]


# %% [markdown] id="who-is-asked-first"
# ## Who is asked first?
#
# One call, several tensors. Name the key whose kernel runs first, or `None` where no key is left.
# The lists come in any order; `priority` alone says who is higher.
#
# The thread's excluded keys are out, whoever brought them. A key whose entry is a *fallthrough* is
# passed over: there is no kernel to call, and the next lower key is asked.
#
# With priorities `["AutocastCPU", "AutogradCPU", "ADInplaceOrView", "CPU"]`, `first_key(priority,
# [["CPU", "AutogradCPU"]], ["ADInplaceOrView"], ["AutogradCPU"], ["ADInplaceOrView"])` is `"CPU"`.
# Stuck? `hint("first_key")`


# %% id="first_key" role="solution"
def first_key(priority, carried, included, excluded, fallthrough):
    """priority: all keys, highest first; carried: one list of keys per tensor -> a key or None."""
    ### BEGIN SOLUTION
    keys = set(included).union(*carried)  # collect the keys
    keys -= {*excluded, *fallthrough}
    return next((key for key in priority if key in keys), None)  # find the kernel
    ### END SOLUTION


# %% id="first_key_check" role="check"
check("first_key")


# %% id="first_key_alternative" role="alternative"
def first_key(priority, carried, included, excluded, fallthrough):
    brought = [*included, *(key for keys in carried for key in keys)]
    left = [key for key in brought if key not in excluded and key not in fallthrough]
    return min(left, key=priority.index, default=None)


# %% [markdown] id="fill-the-table"
# ## Fill one cell of the table
#
# Nobody registers a hundred kernels for an operator. Some registrations are for an *alias*, which
# stands for many keys, and the dispatcher fills the table from them. Which registration serves a
# key? The first of these that applies:
#
# 1. the key's own;
# 2. for a backend key, `CompositeExplicitAutograd`;
# 3. for a backend key, `CompositeImplicitAutograd`. For `AutogradCPU` too, but only if neither
#    `CPU` nor `CompositeExplicitAutograd` is registered: a composite is differentiated through its
#    parts, and a kernel of one's own has no such parts;
# 4. for `AutogradCPU`, `Autograd`;
# 5. the fallback of the key (`"fallback"`), if there is one;
# 6. none: `None`, and a call raises.
#
# Backend keys here are `CPU` and `SparseCPU`; the others asked about are `AutogradCPU`,
# `ADInplaceOrView` and `AutocastCPU`. The stub has rule 1 and the backends; `AutogradCPU`, the
# fallback and the end are yours.
#
# `serves(["CompositeImplicitAutograd"], "AutogradCPU", ["AutogradCPU"])` is
# `"CompositeImplicitAutograd"`. Stuck? `hint("serves")`


# %% id="serves" role="solution"
def serves(registered, key, fallbacks):
    """registered: names given at registration; key: the cell -> a name, "fallback" or None."""
    explicit, implicit = "CompositeExplicitAutograd", "CompositeImplicitAutograd"
    candidates = [key]  # the names that may serve this key, best first
    if key in ("CPU", "SparseCPU"):
        candidates += [explicit, implicit]
    ### BEGIN SOLUTION
    if key == "AutogradCPU":
        own_kernel = "CPU" in registered or explicit in registered
        candidates += ["Autograd"] if own_kernel else [implicit, "Autograd"]
    found = next((name for name in candidates if name in registered), None)
    return "fallback" if found is None and key in fallbacks else found
    ### END SOLUTION


# %% id="serves_check" role="check"
check("serves")


# %% id="serves_alternative" role="alternative"
def serves(registered, key, fallbacks):
    if key in registered:
        return key
    if key in ("CPU", "SparseCPU"):
        for alias in ("CompositeExplicitAutograd", "CompositeImplicitAutograd"):
            if alias in registered:
                return alias
    if key == "AutogradCPU":
        parts = "CompositeImplicitAutograd" in registered
        if parts and not {"CPU", "CompositeExplicitAutograd"} & set(registered):
            return "CompositeImplicitAutograd"
        if "Autograd" in registered:
            return "Autograd"
    return "fallback" if key in fallbacks else None


# %% [markdown] id="a-small-dispatcher"
# ## A dispatcher of your own
#
# Now put the three steps together. `run_head` computes the head's logits through your own table. A
# kernel gets the arguments and `below`, a function: a kernel that calls `below(x, w, b)` has
# *redispatched*. `call` runs one call over a set of keys, and has the loop already. Write what
# happens at one key:
#
# 1. **Collect the keys**: done, the highest first.
# 2. **Find the kernel**: its name is `table[key]`, else `fallbacks[key]`. If the name is
#    `"fallthrough"`, log nothing and go on to the next key. If the key has no name at all, raise
#    `LookupError`; `run_head` then logs `"missing"`.
# 3. **Decide who is asked next**: log `"key: name"`, then return what
#    `KERNELS[name](below, *args)` returns. `below` takes three tensors, perhaps others than yours,
#    and runs a call over the `lower` keys.
#
# With keys `["CPU", "Trace"]` and table `{"CPU": "linear", "Trace": "pass"}` the log is `["Trace:
# pass", "CPU: linear"]`. Stuck? `hint("run_head")`


# %% id="run_head" role="solution"
PRIORITY = ("Trace", "Ban", "Autocast", "Autograd", "Sparse", "CPU")  # highest first


def lose_the_favourite(logits):
    """The same logits, the largest of each row at minus a thousand."""
    return logits.scatter(-1, logits.argmax(-1, keepdim=True), -1000.0)


def in_bfloat16(below, *args):
    """The call with its arguments cast as autocast does it; the result back in float32."""
    return below(*(t.bfloat16() for t in args)).float()


KERNELS = {  # name -> kernel(below, x, w, b)
    "linear": lambda below, x, w, b: x @ w.T + b,
    "pass": lambda below, *args: below(*args),
    "bfloat16": in_bfloat16,
    "ban": lambda below, *args: lose_the_favourite(below(*args)),
}


def run_head(x, w, b, keys, table, fallbacks):
    """x (N, 64), w (V, 64), b (V,), keys (in any order), table and fallbacks {key: name}
    -> (log, logits (N, V) or None)."""
    log = []

    def call(keys, args):
        """One call of the operator over `keys`; args are (x, w, b) -> logits."""
        ordered = [key for key in PRIORITY if key in keys]  # collect the keys
        for place, key in enumerate(ordered):
            lower = ordered[place + 1 :]
            ### BEGIN SOLUTION
            name = table.get(key, fallbacks.get(key))  # find the kernel
            if name is None:
                break
            if name != "fallthrough":  # decide who is asked next
                log.append(f"{key}: {name}")
                return KERNELS[name](lambda *args, keys=lower: call(keys, args), *args)
            ### END SOLUTION
        raise LookupError("no kernel")

    try:
        return log, call(keys, (x, w, b))
    except LookupError:
        return [*log, "missing"], None


# %% id="run_head_check" role="check"
check("run_head")


# %% id="run_head_alternative" role="alternative"
ORDER = ("Trace", "Ban", "Autocast", "Autograd", "Sparse", "CPU")


def run_head(x, w, b, keys, table, fallbacks):
    log = []

    def favourite_lost(logits):
        logits = logits.clone()
        logits[torch.arange(len(logits)), logits.argmax(1)] = -1000.0
        return logits

    def ask(rank, x, w, b):
        while rank < len(ORDER):
            key = ORDER[rank]
            rank += 1
            if key not in keys:
                continue
            name = table[key] if key in table else fallbacks.get(key)
            if name == "fallthrough":
                continue
            if name is None:
                break
            log.append(key + ": " + name)
            if name == "linear":
                return x @ w.T + b
            if name == "bfloat16":
                return ask(rank, x.bfloat16(), w.bfloat16(), b.bfloat16()).float()
            logits = ask(rank, x, w, b)
            return favourite_lost(logits) if name == "ban" else logits
        raise LookupError

    try:
        return log, ask(0, x, w, b)
    except LookupError:
        log.append("missing")
        return log, None


# %% [markdown] id="real-words"
# The same dispatcher on the real head and real tokens. One more key in the call, and the model says
# something else; nobody touched the head.


# %% id="real-words-run"
def next_words_through(run, keys):
    """The next words after "<en> she has eaten <es> ella", through a dispatcher with `keys`."""
    x = onelayer.hidden("<en> she has eaten <es> ella")  # (6, 64)
    table = {"CPU": "linear", "Ban": "ban", "Autograd": "pass"}
    log, logits = run(x, head.weight.detach(), head.bias.detach(), keys, table, {})
    return log, onelayer.next_words(logits, k=3)


with answered():
    for keys in (["CPU", "Autograd"], ["CPU", "Autograd", "Ban"]):
        log, words = next_words_through(run_head, keys)
        print(log, words, sep="\n")

# %% [markdown] id="trace"
# ## What does `F.linear` dispatch?
#
# A `TorchDispatchMode` stands at the key `Python`, below autograd: it sees what autograd's kernels
# call, in the forward and in the backward. Record `F.linear(x, w, b)` and the backward of its sum:
# every operator as `str(func)`, in order. The method notes one call and does it; after it, run what
# is to be seen.
#
# For `x (3, 64)` without gradient and no bias, the record begins with `"aten.t.default"`. Calls of
# `aten.detach.default` and `aten.alias.default` are not compared: torch versions differ in them.
# Stuck? `hint("trace_linear")`


# %% id="trace_linear" role="solution"
def trace_linear(x, w, b):
    """x (..., 64), w (V, 64), b (V,) or None -> list of names, forward then backward.

    At least one of the tensors requires a gradient.
    """

    class Record(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            ### BEGIN SOLUTION
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))
            ### END SOLUTION

    record = Record()
    ### BEGIN SOLUTION
    with record:
        F.linear(x, w, b).sum().backward()
    ### END SOLUTION
    return record.names


# %% id="trace_linear_check" role="check"
check("trace_linear")


# %% id="trace_linear_alternative" role="alternative"
def trace_linear(x, w, b):
    seen = []

    class Listen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(f"{func.namespace}.{func._opname}.{func._overloadname}")
            return func(*args, **(kwargs or {}))

    with Listen():
        loss = torch.sum(torch.nn.functional.linear(x, w, b))
        torch.autograd.backward([loss])
    return seen


# %% [markdown] id="what-decomposes"
# ## What decomposes, and what does not?
#
# Your record never held `aten.linear`, but with a bias it did hold `aten.addmm`. Say of any
# operator whether a mode below autograd sees its parts instead of itself, in ordinary mode with
# ordinary CPU tensors. One registration of 2.3 decides it, but for a few operators that have a
# kernel for the CPU as well: the check asks about none of those. An operator tells what was
# registered for it: `func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CPU)`, for instance;
# aliases are names of `torch._C.DispatchKey` too.
#
# `decomposes("aten::linear")` is `True`, `decomposes("aten::addmm")` is `False`. Stuck?
# `hint("decomposes")`


# %% id="decomposes" role="solution"
def decomposes(op):
    """op: a name such as "aten::softmax.int" (after the dot stands the overload) -> bool."""
    name, _, overload = op.removeprefix("aten::").partition(".")
    func = getattr(getattr(torch.ops.aten, name), overload or "default")
    ### BEGIN SOLUTION
    return func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
    ### END SOLUTION


# %% id="decomposes_check" role="check"
check("decomposes")


# %% id="decomposes_alternative" role="alternative"
def decomposes(op):
    table = torch._C._dispatch_dump_table(op).splitlines()
    return any(line.startswith("AutogradCPU:") and "[math kernel]" in line for line in table)


# %% [markdown] id="schemas"
# ## Read a schema
#
# `Tensor(a!)` says: belongs to alias set `a`, and is written. A return in the same set may share
# memory with it. Read from a schema which arguments are written, and which ones a return may share
# memory with, both in the schema's order.
#
# `Tensor(a -> *) self` is in set `a` when the call begins; the `*` says what it may become.
# `SymInt[] size` and `Scalar alpha=1` are no tensors and have no set. The stub has cut the text and
# found the arguments that are in a set, as (letter, `"!"` or `""`, name); what stands in `returns`
# may be `Tensor(a!)`, `Tensor(a)[]` or `(Tensor(a!) values, Tensor rest)`.
#
# `read_schema("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)")`
# is `(["self"], ["self"])`. Stuck? `hint("read_schema")`


# %% id="read_schema" role="solution"
def read_schema(schema):
    """schema: text -> (names of the written arguments, names of those that a return may alias)."""
    arguments, _, returns = schema.rpartition(") -> ")  # " -> *)" has no bracket before it
    found = re.findall(r"\((\w+)(!?)(?: -> \*)?\)\S* (\w+)", arguments.partition("(")[2])
    ### BEGIN SOLUTION
    returned = set(re.findall(r"\((\w+)!?\)", returns))
    written = [name for _, bang, name in found if bang]
    return written, [name for letter, _, name in found if letter in returned]
    ### END SOLUTION


# %% id="read_schema_check" role="check"
check("read_schema")


# %% id="read_schema_alternative" role="alternative"
def read_schema(schema):
    cut = schema.rindex(") -> ")
    written, aliased = [], []
    for argument in schema[schema.index("(") + 1 : cut].split(", "):
        kind, _, name = argument.partition("=")[0].rpartition(" ")
        if "(" not in kind:
            continue
        mark = kind[kind.index("(") + 1 : kind.index(")")].split(" ->")[0]
        written += [name] if mark.endswith("!") else []
        letter = mark.rstrip("!")
        if f"({letter})" in schema[cut + 5 :] or f"({letter}!)" in schema[cut + 5 :]:
            aliased.append(name)
    return written, aliased


# %% [markdown] id="your-own-kernel"
# ## Your kernel in torch's table
#
# Replace torch's CPU kernel of `aten::addmm` by yours, for a while: it counts its calls, and rounds
# the result of the real kernel to bfloat16 and back. Run `F.linear(x, w, b)` for every x, then give
# the old kernel back.
#
# - `library.impl("addmm", my_addmm, "CPU", with_keyset=True)` registers. With the last argument
#   your kernel gets the key set in front of its arguments.
# - `original.call_boxed(keyset, *args, **kwargs)` runs the kernel from before. `torch.addmm` would
#   run yours again.
# - `library._destroy()` ends what the library registered; it is private, and a program of your own
#   would keep its kernel. Put it into a `finally`: the whole process has this table, and the
#   traceback of an error would keep your kernel in it. No call of the check raises one.
#
# `w` requires a gradient, and so must the results: autograd's kernel is above yours and records.
# The check does not see what backward gives. For one `x (2, 64)` the number of calls is 1. Stuck?
# `hint("with_my_addmm")`


# %% id="with_my_addmm" role="solution"
def with_my_addmm(xs, w, b):
    """xs: list of x (..., 64) -> (calls of your kernel, list of results, F.linear(xs[0], w, b)
    afterwards). Results are those of the real addmm, rounded to bfloat16 and back, in float32.
    """
    original = torch.library.get_kernel("aten::addmm", "CPU")
    calls, results = 0, []

    def my_addmm(keyset, *args, **kwargs):
        nonlocal calls
        # count, then return what the real kernel returns, rounded
        ### BEGIN SOLUTION
        calls += 1
        return original.call_boxed(keyset, *args, **kwargs).bfloat16().float()
        ### END SOLUTION

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():  # torch warns, once, that a kernel is replaced: it is meant
        warnings.simplefilter("ignore")
        # register; fill results; give the old kernel back
        ### BEGIN SOLUTION
        library.impl("addmm", my_addmm, "CPU", with_keyset=True)
        try:
            results = [F.linear(x, w, b) for x in xs]
        finally:
            library._destroy()  # also when a call raises: the whole process has this table
        ### END SOLUTION
    return calls, results, F.linear(xs[0], w, b)


# %% id="with_my_addmm_check" role="check"
check("with_my_addmm")


# %% id="with_my_addmm_alternative" role="alternative"
def with_my_addmm(xs, w, b):
    calls = []

    def counted(bias, left, right, *, beta=1, alpha=1):
        calls.append("addmm")
        exact = left.new_empty(left.shape[0], right.shape[1])
        torch.ops.aten.addmm.out(bias, left, right, beta=beta, alpha=alpha, out=exact)
        return exact.to(torch.bfloat16).to(torch.float32)

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.impl("addmm", counted, "CPU")
        results = [F.linear(x, w, b) for x in xs]
        library._destroy()
    return len(calls), results, F.linear(xs[0], w, b)


# %% [markdown] id="a-tensor-that-counts"
# ## A tensor that carries its bytes
#
# A mode sees the calls of its thread while it is active. A tensor subclass sees the calls that
# *its* tensors take part in, wherever they go. Let `Metered` carry `bytes`: what was allocated on
# the way to it.
#
# The steps: unwrap the arguments (done), run `func` on plain tensors, charge, wrap the tensor that
# came out. It carries what the arguments carried, plus the size of its storage in bytes, if that is
# none of the arguments' storages: a view costs nothing, wherever in the storage it begins. No call
# of these steps takes two `Metered`. `t.untyped_storage()` is the storage; it has a `data_ptr()`
# and `nbytes()`.
#
# `x (2, 64)`, then `relu`, then `t` carries 512 bytes. Stuck? `hint("carried_bytes")`


# %% id="carried_bytes" role="solution"
class Metered(torch.Tensor):
    """A wrapper without memory of its own around `plain`, with the `bytes` made on the way."""

    @staticmethod
    def __new__(cls, plain, nbytes=0):
        return torch.Tensor._make_wrapper_subclass(
            cls, plain.shape, strides=plain.stride(), dtype=plain.dtype, device=plain.device
        )

    def __init__(self, plain, nbytes=0):
        self.plain, self.bytes = plain, nbytes

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """One call, done on plain tensors -> its result as a Metered."""
        given = (args, kwargs or {})
        before = sum(t.bytes for t in tree_leaves(given) if isinstance(t, Metered))
        args, kwargs = tree_map(lambda t: t.plain if isinstance(t, Metered) else t, given)
        old = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]  # all plain
        ### BEGIN SOLUTION
        known = {t.untyped_storage().data_ptr() for t in old}
        result = func(*args, **kwargs)
        storage = result.untyped_storage()
        new = 0 if storage.data_ptr() in known else storage.nbytes()
        return cls(result, before + new)
        ### END SOLUTION


def carried_bytes(x, steps):
    """x, steps of (method name, arguments, keyword arguments), each called on the last result
    -> (the last result as a plain tensor, the bytes that it carries)."""
    y = Metered(x)
    for name, arguments, keywords in steps:
        y = getattr(y, name)(*arguments, **keywords)
    return y.plain, y.bytes


# %% id="carried_bytes_check" role="check"
check("carried_bytes")


# %% id="carried_bytes_alternative" role="alternative"
class Carrier(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, cost):
        shape, stride = inner.shape, inner.stride()  # a wrapper that lies about strides misleads
        it = torch.Tensor._make_wrapper_subclass(cls, shape, strides=stride, dtype=inner.dtype)
        it.inner, it.cost = inner, cost
        return it

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cost, storages = 0, set()

        def opened(t):
            nonlocal cost
            if isinstance(t, Carrier):
                cost, t = cost + t.cost, t.inner
            if isinstance(t, torch.Tensor):
                storages.add(t.untyped_storage()._cdata)
            return t

        args, kwargs = tree_map(opened, (args, kwargs or {}))
        result = func(*args, **kwargs)

        def closed(t):
            s = t.untyped_storage()
            return Carrier(t, cost + (s.nbytes() if s._cdata not in storages else 0))

        if isinstance(result, (list, tuple)):
            return type(result)(map(closed, result))
        return closed(result)


def carried_bytes(x, steps):
    y = Carrier(x, 0)
    for name, arguments, keywords in steps:
        y = getattr(y, name)(*arguments, **keywords)
    return y.inner, y.cost


# %% [markdown] id="detective-case"
# ## Detective case: the observer that changed the training
#
# A colleague's tracer "only looks". With it, the head unlearns. Run it and find out why: print what
# the method gets and what `func` gets. Then write it right.


# %% id="detective-case-code" tags=["worked-example"]
class LookAsFound(TorchDispatchMode):
    """Prints nothing, changes nothing, says its author."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args)


def loss_after_one_step(observed):
    """The loss of the head on one real sentence after a step of plain SGD."""
    words = onelayer.grammar.encode("<en> she has eaten <es> ella ha comido")  # 8 words
    x = onelayer.hidden("<en> she has eaten <es> ella ha")  # (7, 64)
    layer = onelayer.head()
    F.cross_entropy(layer(x), torch.tensor(words[1:])).backward()
    with torch.no_grad():
        for p in layer.parameters():
            if observed:
                with LookAsFound():
                    p.add_(p.grad, alpha=-0.5)
            else:
                p.add_(p.grad, alpha=-0.5)
    return F.cross_entropy(layer(x), torch.tensor(words[1:])).item()


print("loss after the step, alone:   ", f"{loss_after_one_step(False):.4f}")
print("loss after the step, observed:", f"{loss_after_one_step(True):.4f}")


# %% id="observed_step" role="solution"
def observed_step(w, g, lr):
    """One step w - lr * g, written in place by w.add_(g, alpha=-lr) under a mode that only looks.

    w, g (any shape) -> (list of the operators seen, as str(func); w after the step)
    """
    names = []

    class Look(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            ### BEGIN SOLUTION
            return func(*args, **(kwargs or {}))  # alpha is a keyword: dropped, it becomes 1
            ### END SOLUTION

    with torch.no_grad(), Look():
        w.add_(g, alpha=-lr)
    return names, w


# %% id="observed_step_check" role="check"
check("observed_step")


# %% id="observed_step_alternative" role="alternative"
def observed_step(w, g, lr):
    class Look(TorchDispatchMode):
        seen = ()

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen += (str(func),)
            return func(*args, **kwargs) if kwargs else func(*args)

    look = Look()
    with look, torch.no_grad():
        w.add_(g, alpha=-lr)
    return list(look.seen), w


# %% [markdown] id="one-call-in-words"
# ## In your own words
#
# `F.linear(x, head.weight, head.bias)` runs under `autocast("cpu", torch.bfloat16)`, on the CPU. In
# at most seven sentences: which keys are in the call's set, which kernels run and in which order,
# who calls the next one, and why does the backward not pass through a kernel of `aten::linear`?

# %% [markdown] id="one_call_in_words" role="free_text" points=5 minutes=8 difficulty=3
# The tensors carry AutocastCPU, AutogradCPU, ADInplaceOrView and CPU, the thread adds BackendSelect
# and ADInplaceOrView, and autocast's key is no longer excluded. AutocastCPU is the highest: its
# kernel casts the arguments to bfloat16, excludes its own key and calls `linear` again. Now
# AutogradCPU is the highest. `linear` is CompositeImplicitAutograd, so that cell holds the
# composite kernel itself: it calls `t` and `addmm`, two calls with key sets of their own. Each of
# them has an autograd kernel, which records a node and redispatches below itself: `t`, a view, to a
# kernel at ADInplaceOrView and then CPU, `addmm` past the fallthroughs to CPU. So the graph is made
# of the nodes of the parts, such as AddmmBackward0, and the backward never needs a formula for
# `linear`.
#
# **Rubric** (1 point each): the key set with autocast's key in it; the order autocast, autograd,
# backend; each kernel calls the next one itself (redispatch), and fallthrough entries are passed
# over; `linear` is composite and calls `t` and `addmm` through the dispatcher; autograd records the
# parts.

# %% [markdown] id="where-you-are"
# ## Where you are

# %% id="where-you-are-run"
progress()
