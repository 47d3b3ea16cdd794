# %% [markdown] id="title"
# # Lab 09: a trace that you can act on
#
# Five training loops are slow, each for one reason: they read a number in each step, copy from
# pageable memory, launch thousands of small kernels, convert and compute again what they have, or
# wait for a late rank. In this lab you write the functions that find the reason in a trace, that
# say what a repair would bring, and the repairs.
#
# Work from top to bottom, in about two hours, after [chapter
# 09](../../notebooks/09_profiling.ipynb). No GPU is needed. Each question but the last has a stub,
# a check that answers at once, and three hints. Only the cells with answers are graded, all of them
# together: keep your helper functions in them.

# %% id="setup" tags=["setup"]
from collections import defaultdict

from onelayer.profiling.tape import Tape

# %% id="instruments"
import onelayer
from autograder import check, hint, progress
from onelayer.profiling.loop_traces import loop_trace

# %% [markdown] id="events"
# A trace is a list of events, each a dict, as `torch.profiler` writes it. The checks draw theirs
# anew for each asking: the form is the profiler's, the loop is another one each time. These are the
# events that matter here:
#
# | `cat` | what it is |
# |---|---|
# | `user_annotation` | a region: `ProfilerStep#3`, or what `record_function` named |
# | `python_function` | a call into Python, named `file(its first line): function` |
# | `cpu_op` | an operator on the host |
# | `cuda_runtime` | a call of CUDA's runtime: a launch, a copy, a wait |
# | `kernel`, `gpu_memcpy`, `gpu_memset` | work on a stream of the device; `tid` is the stream |
# | `gpu_user_annotation` | a label on the device's lane, no work |
# | `ac2g` | an arrow from a call to its work: `ph` is `"s"` or `"f"`, no `dur` |
#
# Where `ph` is `"X"` an event has `ts`, its beginning, and `dur`, both in us. A call and what it
# gives to the device share `args["correlation"]`. The check's lists are in no order.

# %% id="events-run"
slow = loop_trace("reads_the_loss")
for kind in ("cuda_runtime", "kernel"):
    print(next(event for event in slow.before if event["cat"] == kind))

# %% [markdown] id="worked-example"
# ## Worked example: the longest kernel, and who launched it
#
# Every answer of this lab takes the same three steps: **choose the events**, **join those that
# belong together**, **add up**.


# %% id="worked-example-code" tags=["worked-example"]
def longest_kernel(events):
    """events -> (name of the kernel that took longest in all, us, launches of it)."""
    # choose the events
    kernels = [e for e in events if e["ph"] == "X" and e["cat"] == "kernel"]
    calls = [e for e in events if e["ph"] == "X" and e["cat"] == "cuda_runtime"]
    # join those that belong together
    launched = {e["args"]["correlation"] for e in calls}
    kernels = [e for e in kernels if e["args"]["correlation"] in launched]
    # add up
    took, times = defaultdict(float), defaultdict(int)
    for e in kernels:
        took[e["name"]] += e["dur"]
        times[e["name"]] += 1
    name = max(took, key=took.get)
    return name[:40], round(took[name], 1), times[name]


print(longest_kernel(slow.before))

# %% [markdown] id="idle"
# ## Idle
#
# Loops 1 to 3 show first as a device that has nothing to do; loop 4 keeps it busy with what nobody
# needs. Between the first thing that the device does and the last, how long is it at work, and how
# long is it idle? Streams overlap: two things at once are one busy device. Stuck? `hint("busy_us")`


# %% id="busy_us" role="solution"
def busy_us(events):
    """events -> (busy, idle), in us."""
    ### BEGIN SOLUTION
    work = ("kernel", "gpu_memcpy", "gpu_memset")
    spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["cat"] in work)
    busy, until = 0.0, spans[0][0]
    for begin, end in spans:
        busy += max(0.0, end - max(begin, until))
        until = max(until, end)
    return busy, until - spans[0][0] - busy
    ### END SOLUTION


# %% id="busy_us_check" role="check"
check("busy_us")


# %% id="busy_us_alternative" role="alternative"
def busy_us(events):
    """With a count of what is at work, which changes at each beginning and each end."""
    from itertools import pairwise

    changes = []
    for e in events:
        if e["ph"] == "X" and e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset"):
            changes += [(e["ts"], 1), (e["ts"] + e["dur"], -1)]
    changes.sort()
    busy = running = 0
    for (at, change), (after, _) in pairwise(changes):
        running += change
        busy += (after - at) * (running > 0)
    return busy, changes[-1][0] - changes[0][0] - busy


# %% [markdown] id="who-waits"
# ## Loop 1: it reads a number in each step
#
# `loss.item()` copies four bytes and waits until all that was launched before on the same stream is
# done. In the trace the wait is a call of the runtime whose name ends in `Synchronize`. Which
# functions of the program wait in its steps, how often, how long in all?
#
# A function is the innermost `python_function` around the wait, on the same thread (`tid`), that is
# the program's own: names that begin with `torch/`, `nn.Module: ` or `<built-in ` are torch's. A
# wait in no function of the program does not count. A wait is in a step if it lies in the step's
# time, on whatever thread: autograd's own may wait too. When a profiler stops it waits as well;
# that wait is in no step and does not count. Return the longest first. Stuck? `hint("host_waits")`


# %% id="host_waits" role="solution"
def host_waits(events):
    """events -> list of (function as the trace names it, times, us), the longest first."""
    ### BEGIN SOLUTION
    whole = [e for e in events if e["ph"] == "X"]
    torchs = ("torch/", "nn.Module: ", "<built-in ")
    calls = [e for e in whole if e["cat"] == "python_function" and not e["name"].startswith(torchs)]
    notes = [e for e in whole if e["cat"] == "user_annotation"]
    steps = [e for e in notes if e["name"].startswith("ProfilerStep#")]
    found = defaultdict(list)
    for wait in whole:

        def around(e, wait=wait):
            return e["ts"] < wait["ts"] < e["ts"] + e["dur"]

        if wait["name"].endswith("Synchronize") and any(map(around, steps)):
            mine = [e for e in calls if e["tid"] == wait["tid"] and around(e)]
            if mine:
                found[max(mine, key=lambda e: e["ts"])["name"]].append(wait["dur"])
    rows = [(name, len(durs), sum(durs)) for name, durs in found.items()]
    return sorted(rows, key=lambda row: -row[2])
    ### END SOLUTION


# %% id="host_waits_check" role="check"
check("host_waits")


# %% id="host_waits_alternative" role="alternative"
def host_waits(events):
    """With a stack for each thread: walk through beginnings and look at what is still open."""
    stacks, total, times = defaultdict(list), defaultdict(float), defaultdict(int)
    whole = [e for e in events if e["ph"] == "X"]
    notes = [e for e in whole if e["cat"] == "user_annotation"]
    steps = [e for e in notes if "ProfilerStep#" in e["name"]]
    for e in sorted(whole, key=lambda e: (e["ts"], -e["dur"])):
        stack = stacks[e["tid"]]
        while stack and stack[-1]["ts"] + stack[-1]["dur"] < e["ts"] + e["dur"] - 0.01:
            stack.pop()
        if e["cat"] == "cuda_runtime" and "Synchronize" in e["name"]:
            calls = [o["name"] for o in stack if o["cat"] == "python_function"]
            torchs = ("torch/", "nn.Module: ", "<built-in ")
            own = [name for name in calls if not name.startswith(torchs)]
            if own and any(o["ts"] <= e["ts"] < o["ts"] + o["dur"] for o in steps):
                total[own[-1]] += e["dur"]
                times[own[-1]] += 1
        elif e["cat"] == "python_function":
            stack.append(e)
    return [(name, times[name], total[name]) for name in sorted(total, key=total.get)[::-1]]


# %% [markdown] id="what-would-it-bring"
# ## Before you repair it: what would it bring?
#
# If no call waited, how long would the same steps take? Not the whole less all waits: while the
# host waited, the device was busy, and it still has its work to do. Play the trace again:
#
# - A call of the host is earlier by all waits that ended before it.
# - A kernel, a copy or a fill (`gpu_memset`) begins `latency` us after its call began, or when its
#   stream is free, whichever is later. It takes as long as it took. Calls come in the order of
#   their `ts`. One call may bring several, the kernels of a CUDA graph.
#
# Return the time from the beginning of the first `ProfilerStep#` to the end of the last work on the
# device. Stuck? `hint("time_without_waits")`


# %% id="time_without_waits" role="solution"
def time_without_waits(events, latency):
    """events, latency (us) -> us."""
    ### BEGIN SOLUTION
    whole = sorted(events, key=lambda e: e["ts"])
    begin = next(e["ts"] for e in whole if e["name"].startswith("ProfilerStep#"))
    work = defaultdict(list)
    for e in whole:
        if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset"):
            work[e["args"]["correlation"]].append(e)
    calls = [e for e in whole if e["cat"] == "cuda_runtime"]
    waits = [e for e in calls if e["name"].endswith("Synchronize")]
    free = defaultdict(float)
    for call in calls:
        saved = sum(w["dur"] for w in waits if w["ts"] + w["dur"] <= call["ts"])
        for given in work[call["args"]["correlation"]]:
            start = max(call["ts"] - saved + latency, free[given["tid"]])
            free[given["tid"]] = start + given["dur"]
    return max(free.values()) - begin
    ### END SOLUTION


# %% id="time_without_waits_check" role="check"
check("time_without_waits")


# %% id="time_without_waits_alternative" role="alternative"
def time_without_waits(events, latency):
    """Backwards: the last work ends after the longest chain of a launch and all that follows it."""
    whole = [e for e in events if e["ph"] == "X"]
    begin = min(e["ts"] for e in whole if "ProfilerStep" in e["name"])
    waits = [e for e in whole if e["name"].endswith("Synchronize")]
    ends = []
    device = [e for e in whole if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
    for stream in {e["tid"] for e in device}:
        work = [e for e in device if e["tid"] == stream]
        calls = {e["args"]["correlation"]: e["ts"] for e in whole if e["cat"] == "cuda_runtime"}
        work.sort(key=lambda e: -calls[e["args"]["correlation"]])
        behind = 0.0
        for e in work:
            at = calls[e["args"]["correlation"]]
            behind += e["dur"]
            saved = sum(w["dur"] for w in waits if w["ts"] + w["dur"] <= at)
            ends.append(at - saved + latency + behind)
    return max(ends) - begin


# %% [markdown] id="pageable"
# ## Loop 2: it copies from pageable memory
#
# How many copies come to the device from pageable memory, how many bytes are they together, and how
# long does the host stand in the calls that ask for them, whatever those are called? Small ones
# count too, and one call may ask for several. A copy's `name` says where it comes from and where it
# goes. Stuck? `hint("pageable_copies")`


# %% id="pageable_copies" role="solution"
def pageable_copies(events):
    """events -> (copies, bytes, us of the host)."""
    ### BEGIN SOLUTION
    name = "Memcpy HtoD (Pageable -> Device)"
    copies = [e["args"] for e in events if e["name"] == name]
    numbers = {args["correlation"] for args in copies}
    stood = [
        e["dur"]
        for e in events
        if e["cat"] == "cuda_runtime" and e["args"]["correlation"] in numbers
    ]
    return len(copies), sum(args["bytes"] for args in copies), sum(stood)
    ### END SOLUTION


# %% id="pageable_copies_check" role="check"
check("pageable_copies")


# %% id="pageable_copies_alternative" role="alternative"
def pageable_copies(events):
    """By the arrows: from the end on a stream back to the beginning on the host."""
    starts = {e["id"]: (e["tid"], e["ts"]) for e in events if e["ph"] == "s"}
    calls = {(e["tid"], e["ts"]): e["dur"] for e in events if e.get("cat") == "cuda_runtime"}
    count, nbytes, stood = 0, 0, {}
    for e in events:
        if e["ph"] == "X" and "HtoD (Pageable" in e["name"]:
            count += 1
            nbytes += e["args"]["bytes"]
            start = starts[e["args"]["correlation"]]
            stood[start] = calls[start]  # once for a graph's call, however many copies it asks for
    return count, nbytes, sum(stood.values())


# %% [markdown] id="small-kernels"
# ## Loop 3: thousands of small kernels
#
# A launch costs the host a few us. If the device is done sooner than that, the host is the limit,
# and fewer launches of larger kernels save its time: `foreach` puts many tensors into one,
# `torch.compile` many operators, a CUDA graph many launches into one call.
#
# For each region, an outermost `user_annotation` inside a `ProfilerStep#`: how many calls launch
# kernels, how many kernels come of them, and how long do those take on the device? Sum over all
# steps, and leave out regions that launch none. The region is where **the host** is at the launch,
# on whatever thread. Stuck? `hint("launches")`


# %% id="launches" role="solution"
def launches(events):
    """events -> {region: (launches, kernels, us of the device)}."""
    ### BEGIN SOLUTION
    kernels = defaultdict(list)
    for e in events:
        if e["cat"] == "kernel":
            kernels[e["args"]["correlation"]].append(e["dur"])
    notes = [e for e in events if e["cat"] == "user_annotation"]
    steps = [e for e in notes if "ProfilerStep#" in e["name"]]
    inside = [e for s in steps for e in notes if s["ts"] < e["ts"] < s["ts"] + s["dur"]]
    found = defaultdict(lambda: (0, 0, 0.0))
    for call in events:
        durs = kernels[call["args"]["correlation"]] if call["cat"] == "cuda_runtime" else []
        around = [e for e in inside if e["ts"] < call["ts"] < e["ts"] + e["dur"]]
        if durs and around:
            name = max(around, key=lambda e: e["dur"])["name"]
            calls, many, took = found[name]
            found[name] = calls + 1, many + len(durs), took + sum(durs)
    return dict(found)
    ### END SOLUTION


# %% id="launches_check" role="check"
check("launches")


# %% id="launches_alternative" role="alternative"
def launches(events):
    """Region by region, and only then the calls in it."""
    whole = sorted((e for e in events if e["ph"] == "X"), key=lambda e: (e["ts"], -e["dur"]))
    calls = {e["args"]["correlation"]: e["ts"] for e in whole if e["cat"] == "cuda_runtime"}
    found, until, step_ends = {}, 0.0, 0.0
    for note in whole:
        if note["cat"] != "user_annotation":
            continue
        if "ProfilerStep#" in note["name"]:
            step_ends = note["ts"] + note["dur"]
            continue
        if note["ts"] < until or note["ts"] > step_ends:
            continue  # inside the one before, or in no step
        until = note["ts"] + note["dur"]
        mine = [
            e
            for e in whole
            if e["cat"] == "kernel" and note["ts"] <= calls[e["args"]["correlation"]] < until
        ]
        if mine:
            before = found.get(note["name"], (0, 0, 0.0))
            here = len({e["args"]["correlation"] for e in mine}), len(mine)
            took = sum(e["dur"] for e in mine)
            found[note["name"]] = before[0] + here[0], before[1] + here[1], before[2] + took
    return found


# %% [markdown] id="three-repairs"
# ## Loops 1 to 3, repaired
#
# The loop below has all three faults: it reads each loss, copies from pageable memory, and gives
# each parameter operators of its own. It is written for a `Tape`, which runs nothing: each call
# writes a row, and gives the name of what it would make. The check runs the rows. So it sees every
# wait and every call, and computes the losses.
#
# | call | what it does |
# |---|---|
# | `tape.copy(batch)` | to the device: if pinned and `non_blocking=True`, nobody waits |
# | `tape.pin(batch)` | the batch in pinned memory: a loader does that in a thread of its own |
# | `tape.op(name, ...)` | an operator: one launch, a view none |
# | `tape.op("aten._foreach_mul.Scalar", list, number)` | one launch for a list of values |
# | `tape.op("aten._foreach_add.List", list, list, alpha=1)` | one launch for two lists |
# | `tape.gradients(loss, weights)` | a backward |
# | `tape.read(value)` | one value to the host, as `.item()` and `.tolist()`: the host waits |
#
# Run it and look at the rows, then repair it: **the same losses and weights, bit for bit; one wait
# in all; one call for each operator of the optimizer**. Names stand for values: an operator writes
# into nothing, it makes a new value. The losses come back in the order of the steps, as one name or
# several. Stuck? `hint("mended_loop")`


# %% id="three-repairs-code" tags=["worked-example"]
def as_found(batches, weights, moments):
    """Names of batches on the host, of weights and moments on the device
    -> (rows, losses on the host, names of the last weights)."""
    tape, losses = Tape(), []
    weights, moments = list(weights), list(moments)
    for batch in batches:
        x = tape.copy(batch)
        for w in weights[:-1]:
            x = tape.op("aten.tanh.default", tape.op("aten.mm.default", x, w))
        z = tape.op("aten.mm.default", x, weights[-1])
        loss = tape.op("aten.mean.default", tape.op("aten.mul.Tensor", z, z))
        losses.append(tape.read(loss))
        for k, g in enumerate(tape.gradients(loss, weights)):
            moments[k] = tape.op("aten.add.Tensor", tape.op("aten.mul.Tensor", moments[k], 0.9), g)
            weights[k] = tape.op("aten.add.Tensor", weights[k], moments[k], alpha=-0.1)
    return tape.rows, losses, weights


rows, losses, weights = as_found(["batch0", "batch1"], ["w0", "w1"], ["m0", "m1"])
for row in rows[: len(rows) // 2]:
    print(*row)


# %% id="mended_loop" role="solution"
def mended_loop(batches, weights, moments):
    """As `as_found`, repaired. `aten.stack.default` takes a list."""
    ### BEGIN SOLUTION
    tape, losses = Tape(), []
    for batch in batches:
        x = tape.copy(tape.pin(batch), non_blocking=True)
        for w in weights[:-1]:
            x = tape.op("aten.tanh.default", tape.op("aten.mm.default", x, w))
        z = tape.op("aten.mm.default", x, weights[-1])
        losses.append(tape.op("aten.mean.default", tape.op("aten.mul.Tensor", z, z)))
        grads = tape.gradients(losses[-1], weights)
        scaled = tape.op("aten._foreach_mul.Scalar", moments, 0.9)
        moments = tape.op("aten._foreach_add.List", scaled, grads)
        weights = tape.op("aten._foreach_add.List", weights, moments, alpha=-0.1)
    return tape.rows, tape.read(tape.op("aten.stack.default", losses)), weights
    ### END SOLUTION


# %% id="mended_loop_check" role="check"
check("mended_loop")


# %% id="mended_loop_alternative" role="alternative"
def mended_loop(batches, weights, moments):
    """Pinned ahead, and copied one step ahead; the losses come back as a list of one name."""
    tape = Tape()
    pinned = [tape.pin(batch) for batch in batches]
    following = tape.copy(pinned[0], non_blocking=True)
    kept = []
    for step in range(len(batches)):
        x = following
        if step + 1 < len(batches):
            following = tape.copy(pinned[step + 1], non_blocking=True)
        *inner, last = weights
        for w in inner:
            x = tape.op("aten.mm.default", x, w)
            x = tape.op("aten.tanh.default", x)
        x = tape.op("aten.mm.default", x, last)
        x = tape.op("aten.mul.Tensor", x, x)
        kept += [tape.op("aten.mean.default", x)]
        grads = tape.gradients(kept[-1], weights)
        moments = tape.op("aten._foreach_mul.Scalar", list(moments), 0.9)
        moments = tape.op("aten._foreach_add.List", grads, moments)
        weights = tape.op("aten._foreach_add.List", list(weights), moments, alpha=-0.1)
    together = tape.op("aten.stack.default", kept)
    return tape.rows, [tape.read(together)], weights


# %% [markdown] id="a-repair-as-data"
# ## Loop 4: it converts there and back, and computes again what it has
#
# Here the repair is the answer. The step comes as a listing, as in lab 08: a row
# `(name, op, args, kwargs)` for each operator, where a string in `args` names an earlier row,
# and no argument is a list. `fixed` are the inputs that are the same in each step, all others
# change, and with them the one result of the step. Return two listings:
#
# - `once`, run before the loop: rows that depend on `fixed` inputs alone. Its output row names what
#   the step reads of them, and may name more.
# - `every`, run in each step: the other rows. What comes from `once` is an input here, under its
#   name there.
#
# From bfloat16 to float32 and back is the same value, and so is a conversion to the dtype that a
# value has already: take such detours out, and whatever nobody reads afterwards. The other way
# round digits are lost, and the result has to stay the same bit for bit. The check runs both
# listings itself and counts the operators of `every`.


# %% id="a-repair-as-data-code" tags=["worked-example"]
example = [
    ("x", "input", [], {}),
    ("w", "input", [], {}),
    ("half", "aten.mul.Tensor", ["w", 0.5], {}),
    ("wide", "aten._to_copy.default", ["x"], {"dtype": "float32"}),
    ("back", "aten._to_copy.default", ["wide"], {"dtype": "bfloat16"}),
    ("z", "aten.add.Tensor", ["back", "half"], {}),
    ("out", "output", ["z"], {}),
]
example_dtypes = dict.fromkeys(("x", "w", "half", "back", "z"), "bfloat16") | {"wide": "float32"}
tidied = (
    [
        ("w", "input", [], {}),
        ("half", "aten.mul.Tensor", ["w", 0.5], {}),
        ("ahead", "output", ["half"], {}),
    ],
    [
        ("x", "input", [], {}),
        ("half", "input", [], {}),
        ("z", "aten.add.Tensor", ["x", "half"], {}),
        ("out", "output", ["z"], {}),
    ],
)  # a right tidy(example, example_dtypes, ["w"])

# %% [markdown] id="a-repair-as-data-hint"
# Stuck? `hint("tidy")`


# %% id="tidy" role="solution"
def tidy(rows, dtypes, fixed):
    """rows, dtypes (name -> "float32" or "bfloat16"), fixed (names) -> (once, every)."""
    ### BEGIN SOLUTION
    came_from, same, replaced = {}, {}, []
    for name, op, args, kwargs in rows:
        args = [same.get(arg, arg) for arg in args]
        if op == "aten._to_copy.default":
            is_itself = dtypes[args[0]] == dtypes[name]
            before = args[0] if is_itself else came_from.get(args[0], args[0])
            if dtypes[before] == dtypes[name]:
                same[name] = before
            elif dtypes[name] == "float32":  # no digit is lost on this way
                came_from[name] = args[0]
        replaced.append((name, op, args, kwargs))

    read, needed = set(), []
    for row in reversed(replaced):
        if row[1] in ("input", "output") or row[0] in read:
            needed.insert(0, row)
            read |= set(row[2])

    constant, once, every = set(fixed), [], []
    for name, op, args, kwargs in needed:
        depends = [arg for arg in args if isinstance(arg, str) and arg not in constant]
        if op == "input":
            every.append((name, op, args, kwargs))
            if name in constant:
                once.append((name, op, args, kwargs))
        elif not depends:
            constant.add(name)
            once.append((name, op, args, kwargs))
            every.append((name, "input", [], {}))
        else:
            every.append((name, op, args, kwargs))
    ahead = [row[0] for row in once]
    return [*once, ("ahead", "output", ahead, {})], every
    ### END SOLUTION


# %% id="tidy_check" role="check"
check("tidy")


# %% id="tidy_alternative" role="alternative"
def tidy(rows, dtypes, fixed):
    """From the result backwards: each value asks for what it needs."""
    table = {name: (op, args, kwargs) for name, op, args, kwargs in rows}

    def plain(name):
        """The earliest name of the same value."""
        op, args, _ = table[name]
        if op != "aten._to_copy.default":
            return name
        source = plain(args[0])
        if dtypes[source] == dtypes[name]:
            return source
        up_op, up_args, _ = table[source]
        if up_op == op and dtypes[source] == "float32" and dtypes[up_args[0]] == dtypes[name]:
            return plain(up_args[0])
        return name

    def names(name):
        return [plain(arg) for arg in table[name][1] if isinstance(arg, str)]

    def constant(name):
        if table[name][0] == "input":
            return name in fixed
        return all(map(constant, names(name)))

    parts = {True: [], False: []}

    def need(name):
        op, args, kwargs = table[name]
        home = parts[constant(name)]
        if any(row[0] == name for row in home):
            return
        for other in names(name):
            need(other)
        given = [plain(arg) if isinstance(arg, str) else arg for arg in args]
        home.append((name, op, given, kwargs))

    need(rows[-1][0])
    ahead = [row[0] for row in parts[True]]
    inputs = [(name, "input", [], {}) for name in ahead]
    return [*parts[True], ("ahead", "output", ahead, {})], [*inputs, *parts[False]]


# %% [markdown] id="a-late-rank"
# ## Loop 5: a rank that waits
#
# An all-reduce ends on all ranks together, and begins on each when it comes to it. So on the rank
# that comes last it is short, and on the others it contains their waiting. Each rank has written a
# trace of its own, with a clock of its own: durations can be compared, moments cannot.
#
# The collectives are events called `gloo:all_reduce`; the k-th in time of each rank belong
# together. What lasts longer than the shortest of them is waiting for that rank. Return the rank
# for which the others wait longest in all, and how long each rank waits.
# Stuck? `hint("late_rank")`


# %% id="late_rank" role="solution"
def late_rank(traces):
    """traces: the events of each rank -> (rank, [us that each rank waits])."""
    ### BEGIN SOLUTION
    spans = [
        sorted((e for e in events if e["name"] == "gloo:all_reduce"), key=lambda e: e["ts"])
        for events in traces
    ]
    waited, kept = [0] * len(traces), [0] * len(traces)
    for together in zip(*spans, strict=True):
        durs = [e["dur"] for e in together]
        for rank, dur in enumerate(durs):
            waited[rank] += dur - min(durs)
            kept[durs.index(min(durs))] += dur - min(durs)
    return kept.index(max(kept)), waited
    ### END SOLUTION


# %% id="late_rank_check" role="check"
check("late_rank")


# %% id="late_rank_alternative" role="alternative"
def late_rank(traces):
    """As a table: a row for each rank, a column for each collective."""
    import torch

    table = []
    for events in traces:
        mine = [(e["ts"], e["dur"]) for e in events if e["name"] == "gloo:all_reduce"]
        table.append([dur for _, dur in sorted(mine)])
    durs = torch.tensor(table, dtype=torch.float64)  # (ranks, collectives)
    shortest, late = durs.min(dim=0)
    waits = durs - shortest
    kept = torch.zeros(len(traces), dtype=torch.float64).index_add_(0, late, waits.sum(dim=0))
    return kept.argmax().item(), waits.sum(dim=1).tolist()


# %% [markdown] id="dealt-out"
# ## Loop 5, repaired
#
# Why is a rank late? Here its sentences are longer. Deal a batch out: return for each rank the
# numbers of its sentences. A rank takes as long as its tokens are many, so deal evenly: if you
# moved any one sentence from the rank with most tokens to another rank, that other rank would then
# have as many tokens as the longest rank has now, or more.
#
# Then the loss. Each rank computes the mean over its own tokens, and the all-reduce takes the mean
# over the ranks. Return a factor for each rank's mean with which the result is the mean over all
# tokens of the batch; for a rank that gets no sentence it is 0. Stuck? `hint("dealt_out")`


# %% id="dealt_out" role="solution"
def dealt_out(lengths, ranks):
    """lengths: tokens of each sentence -> (for each rank its sentences, for each rank a factor)."""
    ### BEGIN SOLUTION
    shares, tokens = [[] for _ in range(ranks)], [0] * ranks
    for k in sorted(range(len(lengths)), key=lambda k: -lengths[k]):
        rank = tokens.index(min(tokens))
        shares[rank].append(k)
        tokens[rank] += lengths[k]
    return shares, [ranks * mine / sum(tokens) for mine in tokens]
    ### END SOLUTION


# %% id="dealt_out_check" role="check"
check("dealt_out")


# %% id="dealt_out_alternative" role="alternative"
def dealt_out(lengths, ranks):
    """From any deal, moves from the longest rank to the shortest while one helps."""
    shares = [list(range(r, len(lengths), ranks)) for r in range(ranks)]

    def tokens(share):
        return sum(lengths[k] for k in share)

    while True:
        shortest, longest = min(shares, key=tokens), max(shares, key=tokens)
        helps = [k for k in longest if tokens(shortest) + lengths[k] < tokens(longest)]
        if not helps:
            break
        longest.remove(helps[0])
        shortest.append(helps[0])
    mean = sum(lengths) / ranks
    return [tuple(share) for share in shares], [tokens(share) / mean for share in shares]


# %% [markdown] id="detective-case"
# ## Detective case: the table that goes below zero
#
# A colleague wants to know which operators cost the host most, without the operators that they
# call. Their table has negative times in it. On traces of two levels and one thread, where no two
# events coincide, the function was right. Find out why it is wrong, and write it right: each name
# has a time, also where that is 0. Two may begin together, or end together; both at once is not
# asked.


# %% id="detective-case-code" tags=["worked-example"]
def self_times_as_found(events):
    ops = [e for e in events if e["ph"] == "X" and e["cat"] == "cpu_op"]
    own = defaultdict(float)
    for e in ops:
        own[e["name"]] += e["dur"]
        for inner in ops:
            ends = inner["ts"] + inner["dur"] <= e["ts"] + e["dur"]
            if inner is not e and e["ts"] <= inner["ts"] and ends:
                own[e["name"]] -= inner["dur"]
    return dict(own)


table = self_times_as_found(loop_trace("converts_and_recomputes").before)
for name in sorted(table, key=table.get)[:3]:
    print(f"{table[name]:9.1f} us  {name}")

# %% [markdown] id="detective-case-hint"
# Stuck? `hint("self_times")`


# %% id="self_times" role="solution"
def self_times(events):
    """events -> {name of a cpu_op: us of its own, summed over its calls}."""
    ### BEGIN SOLUTION
    ops = [e for e in events if e["cat"] == "cpu_op"]
    own, open_on = defaultdict(float), defaultdict(list)
    for e in sorted(ops, key=lambda e: (e["ts"], -e["dur"])):
        stack = open_on[e["tid"]]
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= e["ts"]:
            stack.pop()
        own[e["name"]] += e["dur"]
        if stack:
            own[stack[-1]["name"]] -= e["dur"]  # its parent's, and nobody else's
        stack.append(e)
    return dict(own)
    ### END SOLUTION


# %% id="self_times_check" role="check"
check("self_times")


# %% id="self_times_alternative" role="alternative"
def self_times(events):
    """The parent is the shortest operator around this one on its thread."""
    ops = [e for e in events if e.get("cat") == "cpu_op"]
    own = defaultdict(float)
    for e in ops:
        own[e["name"]] += e["dur"]
        around = [
            o
            for o in ops
            if o is not e
            and o["tid"] == e["tid"]
            and o["ts"] <= e["ts"]
            and e["ts"] + e["dur"] <= o["ts"] + o["dur"] + 0.002
        ]
        if around:
            own[min(around, key=lambda o: o["dur"])["name"]] -= e["dur"]
    return dict(own)


# %% [markdown] id="the-unknown-trace"
# ## In your own words
#
# A colleague sends two traces of one loop, before and after a change, and asks whether it was
# worth it. Both come from a mocked device where this machine has no GPU: launches, waits and copies
# are torch's own, the times are a model.

# %% id="the-unknown-trace-run"
case = loop_trace("converts_and_recomputes")
onelayer.show_traces({"before": case.before, "after": case.after})

# %% [markdown] id="the-unknown-trace-asked"
# In at most six sentences: what did the host and the device do in a step before, and where was the
# device idle; what changed, by names and numbers of events; is a step now limited by the host, by
# bandwidth or by compute, and how do you know; what would you try next, and what could that bring
# at most? Say also what these two traces cannot tell.

# %% [markdown] id="the_unknown_trace" role="free_text" points=5 minutes=10 difficulty=4
# Before, each step begins with a list of 600 numbers that becomes a tensor: a copy from pageable
# memory and a `cudaStreamSynchronize` behind it, so the host waits for the device at the start of
# every step and the device is idle while the host prepares the next launches. Then the logits go
# from bfloat16 to float32 and back around the clamp, forward and backward. After the change the
# copy, the wait and the conversions are gone: there are no `Memcpy HtoD (Pageable -> Device)`, and
# fewer launches in a step. In the part of a step in which the streams are full the large
# elementwise kernels take most of the time, and they move bytes and compute little, so there it is
# bandwidth that limits; where the device is idle it is the host. Next I would fuse what is left of
# the loss, with `torch.compile`: if those kernels are a share p of the step, it brings at most
# 1 / (1 - p). On a mocked device the durations are a model, so I would measure the ratio on a real
# GPU before I believe it.
#
# **Rubric** (1 point each): the wait or the pageable copy, named as the trace names it, and the
# idle device with it; the conversions, and what of all this is gone, with numbers; host, bandwidth
# or compute as a decision that follows from something in the trace; a next step with an upper
# bound; that the times are modelled, or that one trace of two steps is no measurement.

# %% [markdown] id="where-you-are"
# ## Where you are

# %% id="where-you-are-run"
progress()
