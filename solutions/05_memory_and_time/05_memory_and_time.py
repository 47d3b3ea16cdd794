# %% [markdown] id="title"
# # Lab 05: memory and time
#
# Two machines work for you unseen: the caching allocator, which decides what your tensors cost, and
# the launch queue, which decides what your clock shows. In this lab you build a small model of the
# first, block for block, and give plans to the second.
#
# Work from top to bottom, in about two hours. No question needs a GPU. Each question but the last
# has a stub, a check that answers at once, and three hints. Keep helper functions inside the cell
# of the question that uses them: only those cells are graded. Sizes: n rows, V words; 1 MiB is
# `2**20` bytes.

# %% id="setup" tags=["setup"]
import math
from itertools import pairwise

# %% id="instruments"
import onelayer
from autograder import answered, check, hint, progress
from onelayer.memory.timed_kernel import TimedKernel

# %% [markdown] id="worked-example"
# ## Worked example: reading a list of segments
#
# Questions 5.2 and 5.3 describe what the allocator holds as plain data. A *segment* is what one
# `cudaMalloc` returned: `(stream, pool, blocks)`. A block is `(bytes, name)`, where the name is
# that of the tensor in it, or `None` in a free one. Read such a list in three steps: **take the
# blocks that could serve**, **compare with the request**, **say what is left**.

# %% id="worked-example-code" tags=["worked-example"]
segments = [
    (0, "small", [(2560, "bias"), (512, "loss"), (2094080, None)]),
    (0, "large", [(9830400, "logits"), (11141120, None)]),
]


def largest_free(segments, pool):
    """-> bytes of the largest free block of a pool, 0 without one."""
    # take the blocks that could serve
    free = [size for _, p, blocks in segments if p == pool for size, name in blocks if name is None]
    # compare with the request: none can be larger than this one
    return max(free, default=0)


reserved = sum(size for *_, blocks in segments for size, _ in blocks)
used = sum(size for *_, blocks in segments for size, name in blocks if name is not None)
print(
    f"{used:,} bytes in use, {reserved:,} reserved; largest free:", largest_free(segments, "large")
)

# %% [markdown] id="bytes-of-a-request"
# ## What a request becomes
#
# Nothing is cached, and a tensor of `nbytes` bytes is asked for. To how many bytes is its block
# rounded, which pool is it from, and for how many bytes is `cudaMalloc` asked? The rules are in the
# chapter's section "Three sizes"; what is left over and not split off is for 5.2.
#
# `block_bytes(2400)` is `(2560, "small", 2097152)`. Stuck? `hint("block_bytes")`


# %% id="block_bytes" role="solution"
def block_bytes(nbytes):
    """nbytes (int, at least 1) -> (bytes of block, "small" or "large", bytes of segment)."""
    ### BEGIN SOLUTION
    block = -(-nbytes // 512) * 512
    if block <= 2**20:
        return block, "small", 2 * 2**20
    shared = block < 10 * 2**20
    return block, "large", 20 * 2**20 if shared else -(-block // 2**21) * 2**21
    ### END SOLUTION


# %% id="block_bytes_check" role="check"
check("block_bytes")


# %% id="block_bytes_alternative" role="alternative"
def block_bytes(nbytes):
    def up(n, step):
        return n + -n % step

    block, mib = up(nbytes, 512), 1 << 20
    segment = next(
        size
        for limit, size in ((mib, 2 * mib), (10 * mib - 1, 20 * mib), (block, up(block, 2 * mib)))
        if block <= limit
    )
    return [block, "small" if segment == 2 * mib else "large", segment]


# %% [markdown] id="a-model-of-the-allocator"
# ## The allocator, block for block
#
# Carry out a sequence of requests, and return the segments that are held afterwards.
#
# - `("alloc", name, bytes, stream)`: round as in 5.1. Take the smallest free block that is large
#   enough, of the same stream and pool; of equal ones the one in the oldest segment (for CUDA, at
#   the lowest address), there the first. Without one, append a new segment. Split the block if
#   enough is left over: 512 bytes in the small pool, *more than* 1 MiB in the large one. The tensor
#   takes the beginning.
# - `("free", name)`: the block is free, and joined with free blocks before and behind it.
# - `("empty_cache",)`: segments that are one free block go back to CUDA.
#
# A test of this course plays drawn sequences to torch's real allocator, and the model behind this
# check gives the same blocks. Stuck? `hint("replay")`


# %% id="replay" role="solution"
def replay(requests):
    """-> list of (stream, "small" or "large", [(bytes, name or None), ...]), oldest first."""
    ### BEGIN SOLUTION
    small, segments = 2**20, []

    def alloc(name, nbytes, stream):
        size = -(-nbytes // 512) * 512
        pool = "small" if size <= small else "large"
        # take the blocks that could serve
        fitting = [
            (blocks[k][0], age, k)
            for age, (s, p, blocks) in enumerate(segments)
            if (s, p) == (stream, pool)
            for k in range(len(blocks))
            if blocks[k][1] is None and blocks[k][0] >= size
        ]
        if not fitting:
            own = -(-size // 2**21) * 2**21
            wanted = 2 * small if pool == "small" else 20 * small if size < 10 * small else own
            segments.append((stream, pool, [(wanted, None)]))
            fitting = [(wanted, len(segments) - 1, 0)]
        # compare with the request
        held, age, k = min(fitting)
        left = held - size
        # say what is left
        if left >= 512 if pool == "small" else left > small:
            segments[age][2][k : k + 1] = [(size, name), (left, None)]
        else:
            segments[age][2][k] = (held, name)

    def free(name):
        for _, _, blocks in segments:
            for k, (size, held) in enumerate(blocks):
                if held == name:
                    blocks[k] = (size, None)
            for k in reversed(range(len(blocks) - 1)):
                if blocks[k][1] is None and blocks[k + 1][1] is None:
                    blocks[k : k + 2] = [(blocks[k][0] + blocks[k + 1][0], None)]

    for verb, *rest in requests:
        if verb == "alloc":
            alloc(*rest)
        elif verb == "free":
            free(*rest)
        else:
            segments = [s for s in segments if len(s[2]) > 1 or s[2][0][1] is not None]
    return segments
    ### END SOLUTION


# %% id="replay_check" role="check"
check("replay")


# %% id="replay_alternative" role="alternative"
def replay(requests):
    """Cuts instead of blocks: a segment is its length and the tensors in it, by their offset."""
    segments, where = [], {}

    def holes(length, tensors):
        """(offset, bytes) of each stretch that nobody holds."""
        at = 0
        for offset, (size, _) in sorted(tensors.items()):
            if offset > at:
                yield at, offset - at
            at = offset + size
        if at < length:
            yield at, length - at

    for verb, *rest in requests:
        if verb == "free":
            tensors, offset = where.pop(rest[0])
            del tensors[offset]
        elif verb == "empty_cache":
            segments = [s for s in segments if s[3]]
        else:
            name, nbytes, stream = rest
            size = (nbytes + 511) // 512 * 512
            pool = "large" if size > 1 << 20 else "small"
            found = None
            for _, _, length, tensors in (s for s in segments if s[:2] == (stream, pool)):
                for offset, room in holes(length, tensors):
                    if room >= size and (found is None or room < found[1]):
                        found = offset, room, tensors
            if found is None:
                length = {"small": 2 << 20, "large": 20 << 20}[pool]
                if size >= 10 << 20:
                    length = (size + (2 << 20) - 1) // (2 << 20) * (2 << 20)
                segments.append((stream, pool, length, {}))
                found = 0, length, segments[-1][3]
            offset, room, tensors = found
            whole = room - size < 512 if pool == "small" else room - size <= 1 << 20
            tensors[offset] = (room if whole else size, name)
            where[name] = tensors, offset

    told = []
    for stream, pool, length, tensors in segments:
        parts = [(offset, size, name) for offset, (size, name) in tensors.items()]
        parts += [(offset, size, None) for offset, size in holes(length, tensors)]
        told.append([stream, pool, [[size, name] for _, size, name in sorted(parts)]])
    return told


# %% [markdown] id="your-model-at-work"
# And on the page: two batches of other lengths, and your model says what stays reserved.

# %% id="your-model-at-work-run"
with answered():
    for rows in (4096, 4000):
        logits = 4 * 600 * rows
        story = [("alloc", "z", logits, 0), ("alloc", "p", logits, 0), ("free", "z"), ("free", "p")]
        held = replay([*story, ("alloc", "next", 4 * 600 * 4100, 0)])
        print(rows, "rows:", [sum(size for size, _ in blocks) for *_, blocks in held])

# %% [markdown] id="one-more-request"
# ## One more request
#
# Given what the allocator holds, and what the device has left for `cudaMalloc`: how is a request of
# `nbytes` on stream 0 served? The four outcomes, in the order in which the allocator tries them:
#
# `"cached"`, a free block; `"new segment"`, from `cudaMalloc`; `"after release"`, when `cudaMalloc`
# fails, every segment that is one free block goes back, and then it works; `"out of memory"`.
#
# With `segments = [(0, "small", [(2097152, None)])]`, `left = 0`: 100 bytes are `"cached"`, 3 MiB
# are `"out of memory"`. Stuck? `hint("how_served")`


# %% id="how_served" role="solution"
def how_served(segments, left, nbytes):
    """segments (all of stream 0), left (bytes), nbytes -> one of the four words."""
    # take the blocks that could serve
    # compare with the request
    # say what is left
    ### BEGIN SOLUTION
    mib = 2**20
    size = -(-nbytes // 512) * 512
    pool = "small" if size <= mib else "large"
    free = [b for _, p, blocks in segments if p == pool for b, name in blocks if name is None]
    if max(free, default=0) >= size:
        return "cached"
    own = -(-size // (2 * mib)) * 2 * mib
    wanted = 2 * mib if pool == "small" else 20 * mib if size < 10 * mib else own
    if wanted <= left:
        return "new segment"
    whole = sum(b[0][0] for *_, b in segments if len(b) == 1 and b[0][1] is None)
    return "after release" if wanted <= left + whole else "out of memory"
    ### END SOLUTION


# %% id="how_served_check" role="check"
check("how_served")


# %% id="how_served_alternative" role="alternative"
def how_served(segments, left, nbytes):
    block, (small, step) = max(1, math.ceil(nbytes / 512)) * 512, (1 << 20, 2 << 20)
    pool = ("large", "small")[block <= small]
    new = step if pool == "small" else 20 << 20 if block < 10 << 20 else block + -block % step

    def could(parts, kind):
        return kind == pool and any(name is None and size >= block for size, name in parts)

    if any(could(parts, kind) for _, kind, parts in segments):
        return "cached"
    given_back = [parts[0][0] for *_, parts in segments if [n for _, n in parts] == [None]]
    for room, words in ((left, "new segment"), (left + sum(given_back), "after release")):
        if new <= room:
            return words
    return "out of memory"


# %% [markdown] id="a-second-reader"
# ## Who else reads it?
#
# A freed block goes to whoever asks next on the tensor's *own* stream. If another stream still
# reads the tensor, that is a race, unless the tensor's own stream has waited for the reader, or the
# allocator was told: `x.record_stream(s)`. Say which calls a program needs, one for each stream
# that may still be reading, and no other: a record that is not needed keeps the block for longer.
#
# Streams are 0, 1 and 2. Steps, in the order of the host: `("alloc", tensor, stream)`, `("use",
# tensor, stream)`, `("record", event, stream)`, `("wait", event, stream)`, `("sync",)`, after which
# all work is over, and `("free", tensor)`. An event is over when what its stream was given *before
# it* is over, and is recorded before a stream waits for it. A name is allocated once.
#
# `recorded_streams([("alloc", "a", 0), ("use", "a", 1), ("free", "a")])` is `[("a", 1)]`. Stuck?
# `hint("recorded_streams")`


# %% id="recorded_streams" role="solution"
def recorded_streams(program):
    """-> list of (tensor, stream): record_stream calls before the frees."""
    ### BEGIN SOLUTION
    over, home, uses, at_event, pairs = {}, {}, {}, {}, set()
    everything = set()
    for n, (verb, *rest) in enumerate(program):
        if verb == "alloc":
            home[rest[0]], uses[rest[0]] = rest[1], []
        elif verb == "use":
            uses[rest[0]].append((rest[1], n))
            over.setdefault(rest[1], set()).add(n)
            everything.add(n)
        elif verb == "record":
            at_event[rest[0]] = set(over.setdefault(rest[1], set()))
        elif verb == "wait":
            over.setdefault(rest[1], set()).update(at_event[rest[0]])
        elif verb == "sync":
            for stream in range(3):
                over.setdefault(stream, set()).update(everything)
        else:
            known = over.get(home[rest[0]], set())
            pairs |= {(rest[0], stream) for stream, use in uses[rest[0]] if use not in known}
    return sorted(pairs)
    ### END SOLUTION


# %% id="recorded_streams_check" role="check"
check("recorded_streams")


# %% id="recorded_streams_alternative" role="alternative"
def recorded_streams(program):
    """Clocks: of each stream, up to which step of every stream it knows that all is over."""
    clocks, events, home, last, found = {}, {}, {}, {}, []

    def clock(stream):
        return clocks.setdefault(stream, {})

    def merge(mine, theirs):
        for stream, step in theirs.items():
            mine[stream] = max(mine.get(stream, -1), step)

    for n, (verb, *rest) in enumerate(program):
        match verb:
            case "alloc":
                home[rest[0]] = rest[1]
            case "use":
                last[rest[0], rest[1]] = clock(rest[1])[rest[1]] = n
            case "record":
                events[rest[0]] = dict(clock(rest[1]))
            case "wait":
                merge(clock(rest[1]), events[rest[0]])
            case "sync":
                for stream in (0, 1, 2):
                    merge(clock(stream), dict.fromkeys((0, 1, 2), n))
            case "free":
                known = clock(home[rest[0]])
                used = [(s, step) for (name, s), step in last.items() if name == rest[0]]
                found += [[rest[0], s] for s, step in used if known.get(s, -1) < step]
    return found


# %% [markdown] id="bytes-of-a-step"
# ## What a step holds
#
# A chain of `nn.Linear` layers with `nn.ReLU` between them, `F.cross_entropy` on top, AdamW. How
# many bytes does its *second* step hold: before it (gradients set to `None`), when the forward is
# over, at the peak of forward and backward, and when the backward is over?
#
# Count float32 tensors of more than one number that the model, the optimizer and the step make;
# not the batch, and before any rounding. Rows and widths are such that the peak lies where the
# backward begins: a wide layer over few words can hold more later on.
#
# `bytes_held([7, 11], 40)` is `(1056, 2816, 6336, 1408)`. Stuck? `hint("bytes_held")`


# %% id="bytes_held" role="solution"
def bytes_held(widths, n):
    """widths: of the layers, from the input to V, each above 1; n rows
    -> bytes (before the step, after the forward, at the peak, after the backward).
    """
    ### BEGIN SOLUTION
    parameters = 4 * sum(a * b + b for a, b in pairwise(widths))
    hidden, logits = 4 * n * sum(widths[1:-1]), 4 * n * widths[-1]
    before = 3 * parameters  # the parameter, and AdamW's two
    forward = before + hidden + logits  # what ReLU returned; log-probabilities
    return before, forward, forward + 2 * logits, before + parameters
    ### END SOLUTION


# %% id="bytes_held_check" role="check"
check("bytes_held")


# %% id="bytes_held_alternative" role="alternative"
def bytes_held(widths, n):
    """Of tensors of the same shapes, on the meta device, where they have no bytes."""
    import torch

    with torch.device("meta"):
        layers = [torch.nn.Linear(a, b) for a, b in pairwise(widths)]
        held = [t for layer in layers for t in layer.parameters()]
        x = torch.empty(n, widths[0])
        saved = []
        for layer in layers[:-1]:
            x = layer(x).relu()
            saved.append(x)
        logits = layers[-1](x).log_softmax(dim=1)
    parameters = sum(t.nbytes for t in held)
    forward = 3 * parameters + sum(t.nbytes for t in saved) + logits.nbytes
    return [3 * parameters, forward, forward + 2 * logits.nbytes, 4 * parameters]


# %% [markdown] id="out-of-memory-avoided"
# ## The same work, and it fits
#
# A step runs out of memory. Its author made the logits of all batches, then all probabilities, then
# all gradients, and freed nothing. Write the plan anew so that it fits a device which has room for
# the tensors of two or three batches, on torch's allocator. The arithmetic stays the same: each
# piece of work runs once, and none is left out, since all of it leads to `result`. What adds to a
# running sum reads that sum first.
#
# `work` is a list of `(name, names of the tensors that it reads, bytes of its result)`, in the
# author's order; `result` is the tensor that is wanted at the end. Return a list of `("run", name)`
# and `("free", name)`. A tensor that is free cannot be read any more.
#
# With `work = [("a", [], 9), ("b", ["a"], 9), ("c", ["b"], 9)]` and `result = "c"`, a right plan is
# `[("run", "a"), ("run", "b"), ("free", "a"), ("run", "c"), ("free", "b")]`. Stuck?
# `hint("plan_that_fits")`


# %% id="plan_that_fits" role="solution"
def plan_that_fits(work, result):
    """work: list of (name, reads, bytes), result: name -> list of ("run" | "free", name)."""
    ### BEGIN SOLUTION
    reads = {name: list(needed) for name, needed, _ in work}
    order = []

    def make(name):
        if name not in order:
            for read in reads[name]:
                make(read)
            order.append(name)

    make(result)
    waiting = {name: [other for other in order if name in reads[other]] for name in order}
    plan = []
    for name in order:
        plan.append(("run", name))
        for read in dict.fromkeys(reads[name]):  # a name may stand there twice
            waiting[read].remove(name)
            plan += [("free", read)] * (not waiting[read])
    return plan
    ### END SOLUTION


# %% id="plan_that_fits_check" role="check"
check("plan_that_fits")


# %% id="plan_that_fits_alternative" role="alternative"
def plan_that_fits(work, result):
    """The order first, with a stack; then the frees, found from the end: the last reader is met
    first."""
    needs = {name: list(reads) for name, reads, _ in work}
    order, seen, stack = [], set(), [(result, False)]
    while stack:
        name, ready = stack.pop()
        if ready:
            order.append(name)
        elif name not in seen:
            seen.add(name)
            stack += [(name, True), *((read, False) for read in reversed(needs[name]))]
    plan, met = [], {result}
    for name in reversed(order):
        last = [read for read in dict.fromkeys(needs[name]) if read not in met]
        met.update(last)
        plan += [*(["free", read] for read in last), ["run", name]]
    return plan[::-1]


# %% [markdown] id="the-launch-queue"
# ## Two clocks
#
# The host launches kernels and runs ahead. Each launch costs it `launch_us`; a kernel begins when
# its launch is over and the device is free. Say when the host is done, when the device is done, and
# how long the device had nothing to do between its first kernel's begin and its last kernel's end.
#
# `queue_times([("launch", 40), ("launch", 90)], 5)` is `(10, 135, 0)`. Stuck? `hint("queue_times")`


# %% id="queue_times" role="solution"
def queue_times(steps, launch_us):
    """steps: list of ("host", us), ("launch", us of the kernel), ("sync",), with a launch or more
    -> (host us, device us, idle us of the device).
    """
    ### BEGIN SOLUTION
    host = device = idle = 0
    begun = False
    for verb, *us in steps:
        if verb == "host":
            host += us[0]
        elif verb == "sync":
            host = max(host, device)
        else:
            host += launch_us
            idle += max(0, host - device) if begun else 0
            begun, device = True, max(host, device) + us[0]
    return host, device, idle
    ### END SOLUTION


# %% id="queue_times_check" role="check"
check("queue_times")


# %% id="queue_times_alternative" role="alternative"
def queue_times(steps, launch_us):
    clock, kernels = 0, []  # of the host; (begin, end) of each kernel
    for step in steps:
        over = kernels[-1][1] if kernels else 0
        if step[0] == "sync":
            clock = max(clock, over)
        elif step[0] == "host":
            clock += step[1]
        else:
            clock += launch_us
            kernels.append((max(clock, over), max(clock, over) + step[1]))
    gaps = [after[0] - before[1] for before, after in pairwise(kernels)]
    return [clock, kernels[-1][1] if kernels else 0, sum(gaps)]


# %% [markdown] id="waits-in-a-log"
# ## The waits in a log
#
# A log of CUDA's calls, as the mocked device writes it: each call is `(line of the program, name,
# called, returned, over)`, in microseconds; `over` is when the work that it gave to the device is
# over, `None` for a call without work. All work is on one stream. Most names and their order
# are those that torch's lines of the chapter made; the times are drawn.
#
# Which lines make the host wait for the device? A synchronisation does, and a copy that returns
# only after its own work is over, as from ordinary memory here. A wait that finds nothing to wait
# for does not count, and a call that is slow for another reason is no wait. Return `(line, us in
# such calls)`, the longest first.
#
# `waiting_lines([(7, "cudaLaunchKernel", 0, 5, 90), (8, "cudaDeviceSynchronize", 6, 91, None)])` is
# `[(8, 85)]`. Stuck? `hint("waiting_lines")`


# %% id="waiting_lines" role="solution"
def waiting_lines(log):
    """log: list of (line, name, called us, returned us, us at which its work is over, or None)
    -> list of (line, us of waiting), the longest first.
    """
    ### BEGIN SOLUTION
    waited, over = {}, 0
    for line, api, called, returned, own in log:
        over = max(over, own or 0)
        copied = api == "cudaMemcpyAsync" and own <= returned
        if ("Synchronize" in api or copied) and called < over:
            waited[line] = waited.get(line, 0) + returned - called
    return sorted(waited.items(), key=lambda pair: -pair[1])
    ### END SOLUTION


# %% id="waiting_lines_check" role="check"
check("waiting_lines")


# %% id="waiting_lines_alternative" role="alternative"
def waiting_lines(log):
    from itertools import accumulate

    busy = accumulate((row[4] or 0 for row in log), max)
    waits = [
        (row[0], row[3] - row[2])
        for row, over in zip(log, busy, strict=True)
        if row[2] < over <= row[3]
        if row[1].endswith("Synchronize") or (row[1].startswith("cudaMemcpy") and row[4] <= row[3])
    ]
    lines = {line for line, _ in waits}
    sums = [[line, sum(us for other, us in waits if other == line)] for line in lines]
    return sorted(sums, key=lambda pair: pair[1], reverse=True)


# %% [markdown] id="copies-beside-kernels"
# ## Copies beside kernels
#
# Batches are copied in, computed, and their results copied out. Each kind of work has an engine of
# its own, and the inputs lie in two buffers in turn: the copy in of batch i + 2 overwrites what the
# kernel of batch i reads. Return a plan of streams and events that is safe whatever the durations,
# and takes the shortest time that there is.
#
# Steps: `("in", i, stream)`, `("kernel", i, stream)`, `("out", i, stream)`, `("record", event,
# stream)` and `("wait", event, stream)`, in the order in which the host gives them. For one batch
# `[("in", 0, 0), ("kernel", 0, 0), ("out", 0, 0)]` is right. Stuck? `hint("overlap_plan")`


# %% id="overlap_plan" role="solution"
def overlap_plan(batches):
    """batches: list of (us in, us of the kernel, us out) -> list of steps."""
    ### BEGIN SOLUTION
    plan = []
    for i in range(len(batches)):
        if i >= 2:
            plan.append(("wait", f"kernel{i - 2}", 0))
        plan += [("in", i, 0), ("record", f"in{i}", 0)]
        plan += [("wait", f"in{i}", 1), ("kernel", i, 1), ("record", f"kernel{i}", 1)]
        plan += [("wait", f"kernel{i}", 2), ("out", i, 2)]
    return plan
    ### END SOLUTION


# %% id="overlap_plan_check" role="check"
check("overlap_plan")


# %% id="overlap_plan_alternative" role="alternative"
def overlap_plan(batches):
    """Two streams for copies in, one for each buffer; results go out on a stream for each batch."""
    plan = []
    for i in range(len(batches)):
        plan += [["wait", ("computed", i - 2), i % 2]] * (i >= 2)
        plan += [["in", i, i % 2], ["record", ("copied", i), i % 2], ["wait", ("copied", i), 2]]
        plan += [["kernel", i, 2], ["record", ("computed", i), 2]]
        plan += [["wait", ("computed", i), 3 + i], ["out", i, 3 + i]]
    return plan


# %% [markdown] id="a-benchmark-that-lies"
# ## Detective: the benchmark that lies
#
# A colleague times a kernel and finds 5 us, for any kernel and any size. Here is the plan, and a
# modelled kernel to try it on (`TimedKernel`: its numbers are made up, its rules are those of the
# chapter). The kernel takes 80 us when its data lie in memory, which is how a training step finds
# them. Run the cell, find what lies, then write a plan that tells the truth.
#
# Steps: `("run",)`, `("flush",)`, which empties the cache, `("sync",)`, `("clock", name)`, which
# reads the host's clock, and `("record", name)`, which puts an event into the stream. Events can be
# read when the host has waited for them. At most the first ten runs are slow. A flush takes at
# least 60 us, and every launch or record costs the host 5 us.


# %% id="a-benchmark-that-lies-run"
def as_found(repeats):
    times = [(f"a{k}", f"b{k}") for k in range(repeats)]
    return [s for a, b in times for s in (("clock", a), ("run",), ("clock", b))], times


steps, times = as_found(3)
kernel = TimedKernel(cold_us=80.0, hot_us=30.0).play(steps)
print("measured:", [kernel.elapsed_us(*pair) for pair in times])
print("on the device:", kernel.took_us)


# %% id="honest_timing" role="solution"
def honest_timing(repeats):
    """-> (list of steps, list of `repeats` pairs of names: the two ends of each interval)."""
    ### BEGIN SOLUTION
    steps = [("run",)] * 10
    for k in range(repeats):
        # the flush keeps the device busy while the host launches what comes behind it
        steps += [("flush",), ("record", f"a{k}"), ("run",), ("record", f"b{k}")]
    return [*steps, ("sync",)], [(f"a{k}", f"b{k}") for k in range(repeats)]
    ### END SOLUTION


# %% id="honest_timing_check" role="check"
check("honest_timing")


# %% id="honest_timing_alternative" role="alternative"
def honest_timing(repeats):
    """A sync after every repeat, and ends with names of their own."""
    steps = [("run",), ("sync",)] * 12
    ends = []
    for k in range(repeats):
        ends.append([f"begin of {k}", f"end of {k}"])
        steps += [("flush",), ("record", ends[-1][0]), ("run",), ("record", ends[-1][1]), ("sync",)]
    return steps, ends


# %% [markdown] id="an-incident"
# ## In your own words: an incident
#
# A training job dies at step 300: "Tried to allocate 1.50 GiB. GPU has a total capacity of 23.49
# GiB, of which 1.02 GiB is free. 14.10 GiB is allocated by PyTorch, and 7.90 GiB is reserved by
# PyTorch but unallocated." The batches are sentences, padded to the longest one of each batch.
# Write a report in at most eight sentences: what happened, how the numbers show it, why at step 300
# and not at step 1, why `empty_cache()` after each step is a bad cure, and which two changes you
# would try, and how you would see in a picture of the segments that they helped.

# %% [markdown] id="an_incident" role="free_text" points=5 minutes=9 difficulty=3
# The allocator was asked for 1.5 GiB in one piece and found no free block of that size, although
# 7.9 GiB of what it has reserved are free: they lie in splinters between tensors that live, and a
# segment that holds one tensor cannot go back to CUDA. The device itself has 1.02 GiB left, so a
# new segment does not fit either: 14.1 in use, 7.9 splintered and 1.0 free, about 0.5 for the
# context and libraries. Batches of other lengths ask for other sizes; each length leaves blocks
# that the next one does not fit, so the splinters grow with the number of lengths seen, and the
# first steps have plenty of room. empty_cache gives back whole free segments only, waits for the
# device, and the next step pays for cudaMalloc again. I would round the padded length up to a few
# lengths, so that sizes repeat, and set expandable_segments:True, so that one segment grows in
# place of many. In the picture, reserved then stays close to the most that was allocated, and the
# large free stretches join into one.
#
# **Rubric** (1 point each): free but splintered, no block of 1.5 GiB; the numbers add up (in use,
# reserved and free, left on the device); other lengths make other sizes, and that takes steps;
# empty_cache helps whole segments only and costs synchronisation and cudaMalloc; two cures that fit
# (few lengths, expandable segments, allocating the longest batch first, smaller peaks) and what a
# picture would show.

# %% [markdown] id="where-you-are"
# ## Where you are

# %% id="where-you-are-run"
progress()
