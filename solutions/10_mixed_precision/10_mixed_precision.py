# %% [markdown] id="title"
# # Lab 10: mixed precision
#
# A training run in 16 bits dies of few causes: a number is too large for its format, too small, or
# disappears in a sum. In this lab you read and round numbers of any format, predict what autocast
# makes of a program, write a `GradScaler`, repair a run that dies, and make the head's loss safe.
#
# Work from top to bottom, in about two hours, after [chapter
# 10](../../notebooks/10_mixed_precision.ipynb). No GPU is needed. Each question but the last has a
# stub, a check that answers at once, and three hints. Only the cells with answers are graded, all
# of them together: keep your helper functions in them.

# %% id="setup" tags=["setup"]
import math

import torch
import torch.nn.functional as F

# %% id="instruments"
from autograder import check, hint, progress

# %% [markdown] id="formats"
# Of a number's bits the first is its sign, then come the **exponent** and the **fraction**. How
# many of each is the format:
#
# | format | exponent | fraction | largest | smallest normal | smallest |
# |---|---|---|---|---|---|
# | `float32` | 8 | 23 | 3.4e38 | 1.2e-38 | 1.4e-45 |
# | `bfloat16` | 8 | 7 | 3.4e38 | 1.2e-38 | 9.2e-41 |
# | `float16` | 5 | 10 | 65504 | 6.1e-5 | 6.0e-8 |
# | `float8_e5m2` | 5 | 2 | 57344 | 6.1e-5 | 1.5e-5 |
#
# A **normal** number is 1.fraction times 2 to the power of exponent - bias, where the bias is 127
# of 8 exponent bits, 15 of 5. Two exponents mean something else. All bits 0: a **subnormal**
# number, 0.fraction times 2 to the power of 1 - bias. All bits 1: infinity where the fraction is 0,
# else NaN.

# %% [markdown] id="worked-example"
# ## Worked example: the number after 1
#
# The checks draw formats that torch does not have, so your functions take the format as two
# numbers. This one also works where no format of torch could tell it.


# %% id="worked-example-code" tags=["worked-example"]
def after_one(exponent_bits, fraction_bits):
    """-> (bits of 1.0, bits of the next larger number, that number)."""
    # 1.0 is 1.000... times 2 to the power of 0: its exponent field is the bias
    bias = 2 ** (exponent_bits - 1) - 1
    one = bias << fraction_bits
    # the next pattern is the next number, and its fraction is one unit
    return one, one + 1, 1 + 2.0**-fraction_bits


print(after_one(8, 7), torch.tensor(after_one(8, 7)[1], dtype=torch.int16).view(torch.bfloat16))

# %% [markdown] id="bits"
# ## What a pattern is worth
#
# Write the function that reads a pattern of bits: `bits` is a whole number, the sign its highest
# bit. There are two zeros. Stuck? `hint("value_of_bits")`


# %% id="value_of_bits" role="solution"
def value_of_bits(bits, exponent_bits, fraction_bits):
    """bits (int) of a format with so many exponent and fraction bits -> float."""
    ### BEGIN SOLUTION
    fraction = bits % 2**fraction_bits
    exponent = (bits >> fraction_bits) % 2**exponent_bits
    sign = -1.0 if bits >> (exponent_bits + fraction_bits) else 1.0
    if exponent == 2**exponent_bits - 1:
        return math.nan if fraction else sign * math.inf
    bias = 2 ** (exponent_bits - 1) - 1
    ones = fraction + 2**fraction_bits if exponent else fraction
    return sign * math.ldexp(ones, max(exponent, 1) - bias - fraction_bits)
    ### END SOLUTION


# %% id="value_of_bits_check" role="check"
check("value_of_bits")


# %% id="value_of_bits_alternative" role="alternative"
def value_of_bits(bits, exponent_bits, fraction_bits):
    """Digit by digit, on the text of the pattern."""
    text = format(bits, f"0{1 + exponent_bits + fraction_bits}b")
    sign, exponent, fraction = text[0], text[1 : 1 + exponent_bits], text[1 + exponent_bits :]
    tail = sum(int(digit) / 2**place for place, digit in enumerate(fraction, 1))
    if "0" not in exponent:
        size = math.nan if tail else math.inf
    elif "1" not in exponent:
        size = tail * 2.0 ** (2 - 2 ** (exponent_bits - 1))
    else:
        size = (1 + tail) * 2.0 ** (int(exponent, 2) - 2 ** (exponent_bits - 1) + 1)
    return torch.tensor(-size if sign == "1" else size, dtype=torch.float64)


# %% id="value_of_bits_alternative_torch" role="alternative"
def value_of_bits(bits, exponent_bits, fraction_bits):
    """As a float64: its exponent and fraction are wider, and torch reads it."""
    fraction = bits % 2**fraction_bits
    exponent = (bits >> fraction_bits) % 2**exponent_bits
    sign = bits >> (exponent_bits + fraction_bits)
    wide = exponent - (2 ** (exponent_bits - 1) - 1) + 1023
    if exponent == 2**exponent_bits - 1:
        wide = 2047
    elif exponent == 0:
        tiny = fraction * 2.0 ** (2 - 2 ** (exponent_bits - 1) - fraction_bits)
        return -tiny if sign else tiny
    pattern = (wide << 52) | (fraction << (52 - fraction_bits))
    size = torch.tensor(pattern, dtype=torch.int64).view(torch.float64).item()
    return -size if sign else size


# %% [markdown] id="rounding"
# ## To the nearest number
#
# What happens in `x.to(torch.bfloat16)`? Round each element of a float32 tensor to the nearest
# number of a format; where two are as near, to the one whose last bit is 0. The result is float32
# again: every number of these formats is one of float32 too. x may require a gradient.
#
# What is too large becomes infinity. It is too large if it would be rounded up to a number after
# the largest. A format may be `finite`, as `float8_e4m3fn` is: the highest exponent holds numbers
# like any other, only the fraction of ones there is NaN, and what is too large becomes the largest
# number, 448, also infinity. NaN stays NaN. Stuck? `hint("rounded")`


# %% id="rounded" role="solution"
def rounded(x, exponent_bits, fraction_bits, finite):
    """x (float32, any shape) -> the nearest numbers of the format, as float32."""
    ### BEGIN SOLUTION
    bias = 2 ** (exponent_bits - 1) - 1
    wide = x.detach().double()
    exponent = torch.frexp(wide).exponent - 1
    spacing = torch.ldexp(torch.ones_like(wide), exponent.clamp(min=1 - bias) - fraction_bits)
    near = torch.where(wide.isfinite(), torch.round(wide / spacing) * spacing, wide)
    if finite:
        largest = (2 - 2.0 ** (1 - fraction_bits)) * 2.0 ** (bias + 1)
        near = near.clamp(-largest, largest)
    else:
        near = torch.where(near.abs() >= 2.0 ** (bias + 1), math.inf * near.sign(), near)
    return near.float()
    ### END SOLUTION


# %% id="rounded_check" role="check"
check("rounded")


# %% id="rounded_alternative" role="alternative"
def rounded(x, exponent_bits, fraction_bits, finite):
    """On the bits: add half of the last place, a little less where it is even, and cut."""
    bits = x.detach().contiguous().view(torch.int32)
    sign, size = bits & -(2**31), (bits & (2**31 - 1)).long()
    bias = 2 ** (exponent_bits - 1) - 1
    field = size >> 23
    ones = torch.where(field > 0, (size & (2**23 - 1)) | 2**23, size & (2**23 - 1))
    # the number is ones * 2 ** (field - 150): how many of its bits are below the last that stays?
    below = (151 - bias - fraction_bits - field.clamp(min=1)).clamp(23 - fraction_bits, 40)
    kept = (ones + (1 << (below - 1)) - 1 + ((ones >> below) & 1)) >> below
    near = torch.ldexp(kept.double(), field.clamp(min=1) + below - 150)
    largest = (2 - 2.0**-fraction_bits * (2 if finite else 1)) * 2.0 ** (bias + finite)
    too_large = (near > largest) | (field == 255)
    near = torch.where(too_large, largest if finite else math.inf, near)
    near = torch.where(x.detach().isnan(), math.nan, near).float()
    return (near.view(torch.int32) | sign).view(torch.float32)


# %% id="rounded_alternative_sums" role="alternative"
def rounded(x, exponent_bits, fraction_bits, finite):
    """By a sum that has no room for the other digits, in float64, number by number."""
    bias = 2 ** (exponent_bits - 1) - 1
    top = 2.0 ** (bias + finite) * (2 - 2.0 ** (finite - fraction_bits))

    def near(n):
        if not math.isfinite(n):
            return math.copysign(top, n) if finite and n == n else n
        _, exponent = math.frexp(n)
        anchor = math.ldexp(3.0, 51 + max(exponent - 1, 1 - bias) - fraction_bits)
        size = anchor + abs(n) - anchor
        if size > top:
            size = top if finite else math.inf
        return math.copysign(size, n)

    numbers = [near(n) for n in x.detach().double().flatten().tolist()]
    return torch.tensor(numbers, dtype=torch.float32).view(x.shape)


# %% [markdown] id="how-far-apart"
# ## How far apart
#
# Between two neighbouring powers of two, from the smallest normal number on, a format has 2 to the
# power of `fraction_bits` numbers, evenly spread. Write the function that gives the distance from
# one number to the next at x (from |x| away from zero, if x is a power of two), and the bound on
# the error of rounding x: half that distance, relative to |x|. At 0 the distance is that of the
# smallest numbers, and the bound is 0, because 0 is exact. Any x comes that is not too large for
# the format; it need not be one of its numbers. Stuck? `hint("spacing")`


# %% id="spacing" role="solution"
def spacing(x, exponent_bits, fraction_bits):
    """x (float) -> (distance to the next number of the format, bound on rounding's error)."""
    ### BEGIN SOLUTION
    smallest = 2 - 2 ** (exponent_bits - 1)
    exponent = math.frexp(x)[1] - 1 if x else smallest
    distance = 2.0 ** (max(exponent, smallest) - fraction_bits)
    return distance, distance / 2 / abs(x) if x else 0.0
    ### END SOLUTION


# %% id="spacing_check" role="check"
check("spacing")


# %% id="spacing_alternative" role="alternative"
def spacing(x, exponent_bits, fraction_bits):
    """Down from the largest power of two, a halving at a time."""
    power, smallest = 2.0 ** (2 ** (exponent_bits - 1) - 1), 2.0 ** (2 - 2 ** (exponent_bits - 1))
    while power > max(abs(x), smallest):
        power /= 2
    distance = power / 2**fraction_bits
    return [distance, 0.0 if x == 0 else distance / abs(2 * x)]


# %% id="spacing_alternative_torch" role="alternative"
def spacing(x, exponent_bits, fraction_bits):
    """The exponent from the bits of a float64."""
    size = torch.tensor(abs(x), dtype=torch.float64)
    exponent = (size.view(torch.int64) >> 52) - 1023
    lowest = torch.tensor(2 - 2 ** (exponent_bits - 1))
    one = torch.ones((), dtype=torch.float64)
    distance = torch.ldexp(one, torch.maximum(exponent, lowest) - fraction_bits)
    return distance, torch.where(size > 0, distance / (2 * size), 0.0)


# %% [markdown] id="by-chance"
# ## Up or down by chance
#
# A weight of 1 in `bfloat16` that gets an update of 0.001 stays 1: the next number is 1.0078, and 1
# is nearer. Rounded by chance it moves once in eight times, and on average the update counts. That
# is stochastic rounding.
#
# Here the chance is given, so that the result can be checked. The format has float32's exponents
# and `fraction_bits` of its 23 fraction bits. The others are the **rest**, a whole number from 0 to
# 2 ** (23 - fraction_bits) - 1, as each of `random` is. Where rest and random number together reach
# 2 ** (23 - fraction_bits), take the neighbour away from zero, else the one toward zero. Over the
# largest number there is infinity; infinity and NaN stay. x may require a gradient. Stuck?
# `hint("rounded_by_chance")`


# %% id="rounded_by_chance" role="solution"
def rounded_by_chance(x, random, fraction_bits):
    """x (float32, any shape), random (int32, that shape) -> float32, that shape."""
    ### BEGIN SOLUTION
    bits = x.detach().contiguous().view(torch.int32)
    moved = (bits + random) & -(2 ** (23 - fraction_bits))
    return torch.where(x.detach().isnan(), x.detach(), moved.view(torch.float32))
    ### END SOLUTION


# %% id="rounded_by_chance_check" role="check"
check("rounded_by_chance")


# %% id="rounded_by_chance_alternative" role="alternative"
def rounded_by_chance(x, random, fraction_bits):
    """With divisions: floor of the steps and the random share of one."""
    wide = x.detach().double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=-126)
    step = torch.ldexp(torch.ones_like(wide), exponent - fraction_bits)
    share = random.double() / 2 ** (23 - fraction_bits)
    size = torch.floor(wide.abs() / step + share) * step
    return torch.where(wide.isfinite(), torch.copysign(size, wide), wide).float()


# %% id="rounded_by_chance_alternative_remainder" role="alternative"
def rounded_by_chance(x, random, fraction_bits):
    """Take the rest away, and add a whole spacing where rest and random number reach one."""
    whole = 2 ** (23 - fraction_bits)
    bits = x.detach().clone().view(torch.int32)
    rest = torch.remainder(bits, whole)
    bits = bits - rest + whole * (rest + random >= whole).int()
    result = bits.view(torch.float32)
    result[~x.detach().isfinite()] = x.detach()[~x.detach().isfinite()]
    return result


# %% [markdown] id="sums"
# ## A sum that stands still
#
# Add ones in `bfloat16`: at 256 the next number is 258, and 257 is rounded to 256, again and again.
# Add up terms one after the other, **in their own dtype**, from 0 on. Return what the sum reaches,
# how many of the terms changed it, and, to compare, the sum of all in float64, rounded to the
# terms' dtype once at the end. Stuck? `hint("stuck_sum")`


# %% id="stuck_sum" role="solution"
def stuck_sum(terms):
    """terms (n,), bfloat16, float16 or float32 -> (sum, how many changed it, sum rounded once)."""
    ### BEGIN SOLUTION
    total, moved = torch.zeros((), dtype=terms.dtype), 0
    for term in terms.detach():
        after = total + term
        moved += (after != total).item()
        total = after
    once = terms.detach().double().sum().to(terms.dtype)
    return total.item(), moved, once.item()
    ### END SOLUTION


# %% id="stuck_sum_check" role="check"
check("stuck_sum")


# %% id="stuck_sum_alternative" role="alternative"
def stuck_sum(terms):
    """All states of the sum, and then how often two neighbours differ."""
    states = [torch.tensor(0.0, dtype=terms.dtype)]
    for term in terms.detach().unbind():
        states.append((states[-1].float() + term.float()).to(terms.dtype))
    states = torch.stack(states)
    wide = math.fsum(terms.tolist())
    once = torch.tensor(wide, dtype=torch.float64).to(terms.dtype)
    return states[-1], (states[1:] != states[:-1]).sum(), once


# %% id="stuck_sum_alternative_in_place" role="alternative"
def stuck_sum(terms):
    """In place, with a copy of the sum before."""
    with torch.no_grad():
        total, moved = terms.new_zeros(1), 0
        for k in range(len(terms)):
            before = total.clone()
            total += terms[k]
            moved += not torch.equal(before, total)
        return [total[0], moved, terms.sum(dtype=torch.float64).to(terms.dtype)]


# %% [markdown] id="autocast"
# ## What autocast makes of a program
#
# A program comes as rows `(name, op, args)`, where `args` names earlier rows. An `input` has
# `[dtype, "matrix"]` or `[dtype, "number"]`: a number is a 0-d tensor. Rows without a name are the
# borders of regions: `enter` with `["bfloat16"]`, `["float16"]` or `["off"]`, which is
# `torch.autocast("cpu", enabled=False)`, and `leave`. These are the rules on the CPU:
#
# | operators | in a region |
# |---|---|
# | `mm` `linear` `addmm` | the lower list: inputs are cast to the region's dtype |
# | `mse_loss` `smooth_l1_loss` `prod` `trace` | the wider list: inputs are cast to `float32` |
# | `cat` | the widest dtype of its inputs (the other 16-bit one it refuses, and is not given) |
# | `add` `mul` `exp` `tanh` `softmax` `sum` | on no list, as without autocast |
# | `add_` `mul_` | in place, as without autocast |
#
# No list casts `float64`. Where nothing is cast, ordinary type promotion holds (products refuse two
# dtypes): the wider dtype wins, `bfloat16` and `float16` make `float32`, and a 0-d tensor has no
# say beside a matrix. The losses, `prod`, `trace` and `sum` make 0-d tensors, and a loss is given
# none; all matrices are of one size, also what `cat` makes, which is cut. Return the dtype's name
# for each operator's row, and no others. Stuck? `hint("autocast_dtypes")`

# %% id="autocast-code" tags=["worked-example"]
program = [
    ("x", "input", ["float32", "matrix"]),
    ("", "enter", ["bfloat16"]),
    ("z", "mm", ["x", "x"]),
    ("p", "softmax", ["z"]),
    ("", "leave", []),
    ("y", "add", ["p", "x"]),
]
dtypes = {"z": "bfloat16", "p": "bfloat16", "y": "float32"}  # autocast_dtypes(program)


# %% id="autocast_dtypes" role="solution"
def autocast_dtypes(program):
    """rows (name, op, args) -> {name: name of the dtype} of each operator's row."""
    ### BEGIN SOLUTION
    made, numbers, regions, results = {}, set(), ["off"], {}
    for name, op, args in program:
        if op == "enter":
            regions.append(args[0])
        elif op == "leave":
            regions.pop()
        elif op == "input":
            made[name] = args[0]
            if args[1] == "number":
                numbers.add(name)
        else:
            given = [made[arg] for arg in args]
            cast = None
            if regions[-1] != "off" and op in ("mm", "linear", "addmm"):
                cast = regions[-1]
            elif regions[-1] != "off" and op in ("mse_loss", "smooth_l1_loss", "prod", "trace"):
                cast = "float32"
            if cast:
                given = [dtype if dtype == "float64" else cast for dtype in given]
            heard = {d for d, arg in zip(given, args, strict=True) if arg not in numbers}
            heard = heard or set(given)
            if op.endswith("_"):
                heard = {given[0]}
            made[name] = max(heard)  # the names are in the order of the widths
            if heard == {"bfloat16", "float16"}:
                made[name] = "float32"
            if op in ("mse_loss", "smooth_l1_loss", "prod", "trace", "sum") or numbers >= set(args):
                numbers.add(name)
            results[name] = made[name]
    return results
    ### END SOLUTION


# %% id="autocast_dtypes_check" role="check"
check("autocast_dtypes")


# %% id="autocast_dtypes_alternative" role="alternative"
def autocast_dtypes(program):
    """With torch's own promotion, on tensors that hold nothing."""
    lists = dict.fromkeys(("mm", "linear", "addmm"), "lower")
    lists |= dict.fromkeys(("mse_loss", "smooth_l1_loss", "prod", "trace"), "wider")
    values, around, dtypes = {}, [], {}
    for name, op, args in program:
        if op in ("enter", "leave"):
            around = [*around, args[0]] if op == "enter" else around[:-1]
            continue
        if op == "input":
            sizes = (2, 2) if args[1] == "matrix" else ()
            values[name] = torch.empty(sizes, dtype=getattr(torch, args[0]), device="meta")
            continue
        region = around[-1] if around else "off"
        to = {"lower": region, "wider": "float32"}.get(lists.get(op))
        given = [values[arg] for arg in args]
        if to and region != "off":
            given = [t if t.dtype == torch.float64 else t.to(getattr(torch, to)) for t in given]
        made = given[0] if op[-1] == "_" else sum(given[1:], given[0])
        scalar = op in ("mse_loss", "smooth_l1_loss", "prod", "trace", "sum")
        values[name] = made.sum() if scalar else made
        dtypes[name] = str(made.dtype)[len("torch.") :]
    return dtypes


# %% id="autocast_dtypes_alternative_run" role="alternative"
def autocast_dtypes(program):
    """Run, and look."""
    operators = {
        "linear": F.linear,
        "mse_loss": F.mse_loss,
        "smooth_l1_loss": F.smooth_l1_loss,
        "cat": lambda a, b: torch.cat([a, b])[: len(a)],
        "softmax": lambda a: a.softmax(0),
        "add_": torch.Tensor.add_,
        "mul_": torch.Tensor.mul_,
    }
    values, dtypes, regions = {}, {}, []
    for name, op, args in program:
        if op == "enter":
            dtype = None if args == ["off"] else getattr(torch, args[0])
            regions.append(torch.autocast("cpu", dtype=dtype, enabled=dtype is not None))
            regions[-1].__enter__()
        elif op == "leave":
            regions.pop().__exit__(None, None, None)
        elif op == "input":
            shape = (3, 3) if args[1] == "matrix" else ()
            values[name] = torch.ones(shape, dtype=getattr(torch, args[0]))
        else:
            run = operators.get(op) or getattr(torch, op)
            values[name] = run(*(values[arg] for arg in args))
            dtypes[name] = str(values[name].dtype).split(".")[1]
    return dtypes


# %% [markdown] id="scaling"
# ## A GradScaler
#
# In `float16` a gradient below 2.98e-8 is zero. So the loss is multiplied by a scale, backward
# multiplies every gradient by it, and before the optimizer steps they are divided again. If one
# element of one scaled gradient is not finite, the step is left out, and the scale was too large:
# it becomes `scale * backoff`. After `interval` good steps in a row, counted anew from each growth,
# it becomes `scale * growth`. The scale is a number of float32: where growth would make it
# infinite, it stays. `growth` and `backoff` are powers of two, so that nothing else is rounded.
#
# `steps` has for each step the **scaled** gradients of all parameters, in float32 or float64 as the
# weights are: torch's own refuses to divide those of float16. Return for each step whether the
# optimizer steps, the gradients divided, each in its dtype (also of a step that is left out), and
# the scale after it. Stuck? `hint("loss_scale")`


# %% id="loss_scale" role="solution"
def loss_scale(steps, scale, growth, backoff, interval):
    """steps (lists of tensors), ... -> list of (steps?, unscaled gradients, scale after)."""
    ### BEGIN SOLUTION
    said, count = [], 0
    for grads in steps:
        unscaled = [grad / scale for grad in grads]
        good = all(grad.isfinite().all().item() for grad in grads)
        count = count + 1 if good else 0
        if not good:
            scale *= backoff
        elif count == interval:
            count = 0
            if scale * growth < 2.0**128:
                scale *= growth
        said.append((good, unscaled, scale))
    return said
    ### END SOLUTION


# %% id="loss_scale_check" role="check"
check("loss_scale")


# %% id="loss_scale_alternative" role="alternative"
def loss_scale(steps, scale, growth, backoff, interval):
    """With tensors of float32, as torch has them, and the steps until growth counted down."""
    scale, left, said = torch.tensor(scale), interval, []
    for grads in steps:
        found = torch.stack([(~torch.isfinite(grad)).any() for grad in grads]).any()
        unscaled = [grad * (1 / scale).to(grad.dtype) for grad in grads]
        left = interval if found or left == 0 else left
        left -= 0 if found else 1
        larger = scale * growth
        if found:
            scale = scale * backoff
        elif left == 0 and larger.isfinite():
            scale = larger
        said.append([~found, unscaled, scale.clone()])
    return said


# %% id="loss_scale_alternative_torch" role="alternative"
def loss_scale(steps, scale, growth, backoff, interval):
    """torch's own, on an optimizer that does nothing."""

    class Steps(torch.optim.SGD):
        taken = False

        def step(self):
            self.taken = True

    scaler = torch.amp.GradScaler("cpu", scale, growth, backoff, interval)
    said = []
    for grads in steps:
        params = []
        for grad in grads:
            params.append(torch.zeros(grad.shape, dtype=grad.dtype, requires_grad=True))
            params[-1].grad = grad.clone(memory_format=torch.contiguous_format)
        optimizer = Steps(params)
        scaler.scale(torch.zeros(()))
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        said.append((optimizer.taken, [p.grad for p in params], scaler.get_scale()))
    return said


# %% [markdown] id="detective-case"
# ## Detective case: a run that dies
#
# A colleague trains two groups of weights in float16, each with an optimizer of its own, on two or
# three batches per step. The step comes as rows, a verb and its arguments:
#
# | row | what it does |
# |---|---|
# | `("weights", dtype)` | the optimizers keep their weights in this dtype |
# | `("forward", batch)` | the loss of a batch, in float16 |
# | `("backward", batch, "plain")` | adds the gradients of that loss |
# | `("backward", batch, "scaled")` | the same with `scaler.scale(loss)` |
# | `("unscale", name)` | `scaler.unscale_(optimizer)` |
# | `("clip", name, norm)` | `clip_grad_norm_` of this optimizer's weights |
# | `("step", name)` | `scaler.step(optimizer)`: unscales, if nobody has; may do nothing |
# | `("step_always", name)` | `optimizer.step()` |
# | `("update",)` | `scaler.update()` |
#
# In the third step one target is wrong, and a gradient overflows. A run may have several faults: a
# row at the wrong place, a wrong one, one missing, one too many. This one dies:

# %% id="detective-case-code" tags=["worked-example"]
found = [
    ("weights", "float16"),
    ("forward", "first_tokens"),
    ("backward", "first_tokens", "plain"),
    ("forward", "last_tokens"),
    ("backward", "last_tokens", "scaled"),
    ("clip", "body", 4e-6),
    ("unscale", "body"),
    ("step", "body"),
    ("update",),
    ("clip", "head", 2e-6),
    ("step_always", "head"),
]

# %% [markdown] id="detective-case-asked"
# Write the function that takes the rows of a step and returns them without their faults: every
# batch counts, each norm stays, and the losses, the weights and the scale of each step are what
# they should be. The check draws steps with other batches, optimizers and norms, and with one
# fault, several or none. It runs what you return with torch's own optimizers and its GradScaler.
# Stuck? `hint("mended_run")`


# %% id="mended_run" role="solution"
def mended_run(rows):
    """rows of a training step -> the rows without their faults."""
    ### BEGIN SOLUTION
    batches = dict.fromkeys(row[1] for row in rows if row[0] in ("forward", "backward"))
    clips = dict(row[1:] for row in rows if row[0] == "clip")
    mended = [("weights", "float32")]
    for batch in batches:
        mended += [("forward", batch), ("backward", batch, "scaled")]
    for name, norm in clips.items():
        mended += [("unscale", name), ("clip", name, norm), ("step", name)]
    return [*mended, ("update",)]
    ### END SOLUTION


# %% id="mended_run_check" role="check"
check("mended_run")


# %% id="mended_run_alternative" role="alternative"
def mended_run(rows):
    """Sorted by what may come when; what is missing is added first."""
    order = ["weights", "forward", "backward", "unscale", "clip", "step", "update"]
    groups = [row[1] for row in rows if row[0] == "clip"]
    mended = {("weights", "float32"), ("update",)}
    mended |= {(verb, name) for verb in ("unscale", "step") for name in groups}
    first = [row[1] for row in rows if row[0] in ("forward", "backward")]
    mended |= {("forward", name) for name in first} | {("backward", n, "scaled") for n in first}
    mended |= {tuple(row) for row in rows if row[0] == "clip"}
    place = {name: first.index(name) for name in first}
    return sorted(
        mended, key=lambda row: (order.index(row[0]), place.get(str(row[-1]), 0), row[1:2])
    )


# %% id="mended_run_alternative_clip_last" role="alternative"
def mended_run(rows):
    """All backwards, then all unscales, all clips, the steps in reverse."""
    named = {}
    for verb, *arguments in rows:
        named.setdefault(verb, []).append(arguments)
    clips = dict(named["clip"])
    batches = list(dict.fromkeys(one[0] for one in [*named["forward"], *named["backward"]]))
    body = [["weights", "float32"]]
    body += [["forward", batch] for batch in batches]
    body += [["backward", batch, "scaled"] for batch in batches]
    body += [["unscale", name] for name in clips]
    body += [["clip", *pair] for pair in clips.items()]
    body += [["step", name] for name in reversed(clips)]
    return [*body, ["update"]]


# %% [markdown] id="a-safe-loss"
# ## The head's loss, safe
#
# `x`, `w` and `b` have one dtype, perhaps of 16 bits. Compute the mean cross-entropy of the head
# (`F.cross_entropy(F.linear(x, w, b), t)`) and the gradients of `scale` times that loss, so that
# gradients in 16 bits are as near the truth as float32 and one rounding at the end allow: with
# logits of a hundred thousand, with thousands of rows, with gradients that only the scale lifts
# over float16's smallest number. A gradient beyond its largest is infinite after that rounding: a
# scaler looks for it.
#
# The loss comes back unscaled, in float32; the gradients in the dtype of `x`. If that is `float64`,
# all of it is `float64`. Stuck? `hint("safe_head_loss")`


# %% id="safe_head_loss" role="solution"
def safe_head_loss(x, w, b, t, scale):
    """x (N, D), w (V, D), b (V,), t (N,), scale -> (loss, dx, dw, db), the last three scaled."""
    ### BEGIN SOLUTION
    wide = torch.promote_types(x.dtype, torch.float32)
    leaves = [one.detach().to(wide).requires_grad_() for one in (x, w, b)]
    loss = F.cross_entropy(F.linear(*leaves), t)
    grads = torch.autograd.grad(loss * scale, leaves)
    dx, dw, db = (grad.to(x.dtype) for grad in grads)
    return loss.detach(), dx, dw, db
    ### END SOLUTION


# %% id="safe_head_loss_check" role="check"
check("safe_head_loss")


# %% id="safe_head_loss_alternative" role="alternative"
def safe_head_loss(x, w, b, t, scale):
    """By hand: softmax less one at the target."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    with torch.no_grad():
        z = x.to(wide) @ w.to(wide).T + b.to(wide)
        logs = z - torch.logsumexp(z, dim=1, keepdim=True)
        loss = -logs.gather(1, t[:, None]).mean()
        dz = (logs.exp() - F.one_hot(t, len(w))) * (scale / len(t))
        dx, dw, db = dz @ w.to(wide), dz.T @ x.to(wide), dz.sum(0)
        return [loss, dx.to(x.dtype), dw.to(w.dtype), db.to(b.dtype)]


# %% id="safe_head_loss_alternative_chunks" role="alternative"
def safe_head_loss(x, w, b, t, scale):
    """In chunks of rows, which never hold all logits; the sums in float64, to be sure."""
    wide = x.dtype if x.dtype == torch.float64 else torch.float32
    with torch.no_grad():
        m, c = w.to(wide), b.to(wide)
        loss = torch.zeros((), dtype=torch.float64)
        dw, db, dxs = torch.zeros_like(m).double(), torch.zeros_like(c).double(), []
        for rows in torch.arange(len(t)).split(512):
            a = x[rows].to(wide)
            z = F.linear(a, m, c)
            loss += F.cross_entropy(z, t[rows], reduction="sum")
            dz = z.softmax(1)
            dz[torch.arange(len(rows)), t[rows]] -= 1
            dxs.append((dz @ m * (scale / len(t))).to(x.dtype))
            dw += dz.T @ a
            db += dz.sum(0)
        dw, db = (grad * scale / len(t) for grad in (dw, db))
        return (loss / len(t)).to(wide), torch.cat(dxs), dw.to(x.dtype), db.to(x.dtype)


# %% [markdown] id="a-custom-op"
# ## What a custom operation receives
#
# An operation of your own is on none of autocast's lists. There are four ways to write it (`way`):
#
# - `"custom_op"`: `torch.library.custom_op`, without a word about autocast.
# - `"register_autocast"`: the same, with `op.register_autocast("cpu", cast)`. In a region its
#   inputs, but for float64, are cast to `cast`, and autocast is off inside.
# - `"Function"`: a `torch.autograd.Function`, without a word about autocast.
# - `"custom_fwd"`: a Function with `custom_fwd` and `custom_bwd`. With `cast_inputs=cast` it does
#   in a region what `register_autocast` does; if `cast` is None, nothing is cast, and autocast
#   stays as it is. Its backward runs in the autocast state that its forward had inside.
#
# A case is a dict. `inputs` are the dtypes of five matrices, `region` is the dtype of the region
# around the call, or `"off"`. With `i, j = case["product"]` the operation computes
# `inputs[i] @ inputs[j]`, adds `inputs[case["added"]]`, and saves what it received. `backward()` is
# called **after** the region, and computes there the product of the incoming gradient, which has
# the result's dtype, and the saved `inputs[case["backward"]]`.
#
# A product is on the lower list; outside of regions it wants two equal dtypes, and torch refuses
# others. Return what the operation received, the dtype of its product, of its result, and of the
# product in backward, or `"error"` there. Stuck? `hint("custom_op_under_autocast")`

# %% id="a-custom-op-code" tags=["worked-example"]
case = {
    "way": "Function",
    "cast": None,
    "region": "bfloat16",
    "inputs": ["float32", "float32", "bfloat16", "float32", "float64"],
    "product": [0, 1],
    "added": 2,
    "backward": 3,
}
said = {
    "received": ["float32", "float32", "bfloat16", "float32", "float64"],
    "product": "bfloat16",
    "result": "bfloat16",
    "backward": "error",
}  # custom_op_under_autocast(case)


# %% id="custom_op_under_autocast" role="solution"
def custom_op_under_autocast(case):
    """case -> {"received": [...], "product": ..., "result": ..., "backward": ...}."""

    ### BEGIN SOLUTION
    def product(a, b, region):
        a, b = (d if region == "off" or d == "float64" else region for d in (a, b))
        return a if a == b else "error"

    region, received = case["region"], case["inputs"]
    if case["cast"] and region != "off":
        received = [d if d == "float64" else case["cast"] for d in received]
        region = "off"  # inside
    made = product(*(received[k] for k in case["product"]), region)
    pair = [made, received[case["added"]]]
    result = max(pair)  # the names are in the order of the widths
    if set(pair) == {"bfloat16", "float16"}:
        result = "float32"
    later = region if case["way"] == "custom_fwd" else "off"
    back = product(result, received[case["backward"]], later)
    return {"received": received, "product": made, "result": result, "backward": back}
    ### END SOLUTION


# %% id="custom_op_under_autocast_check" role="check"
check("custom_op_under_autocast")


# %% id="custom_op_under_autocast_alternative" role="alternative"
def custom_op_under_autocast(case):
    """A Function that is run, and looks."""
    from contextlib import nullcontext

    from torch.amp import custom_bwd, custom_fwd

    seen = {}

    def name(t):
        return str(t.dtype).removeprefix("torch.")

    def forward(ctx, *xs):
        i, j = case["product"]
        seen["received"] = [name(x) for x in xs]
        made = xs[i] @ xs[j]
        result = made + xs[case["added"]]
        seen["product"], seen["result"] = name(made), name(result)
        ctx.save_for_backward(*xs)
        return result

    def backward(ctx, dy):
        try:
            seen["backward"] = name(dy @ ctx.saved_tensors[case["backward"]])
        except RuntimeError:
            seen["backward"] = "error"
        return tuple(torch.zeros_like(x) for x in ctx.saved_tensors)

    cast = case["cast"] and getattr(torch, case["cast"])
    if cast or case["way"] == "custom_fwd":
        forward = custom_fwd(forward, device_type="cpu", cast_inputs=cast)
        if case["way"] == "custom_fwd":
            backward = custom_bwd(backward, device_type="cpu")
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    Looked = type("Looked", (torch.autograd.Function,), members)
    xs = [torch.ones(2, 2, dtype=getattr(torch, d), requires_grad=True) for d in case["inputs"]]
    region = nullcontext()
    if case["region"] != "off":
        region = torch.autocast("cpu", dtype=getattr(torch, case["region"]))
    with region:
        y = Looked.apply(*xs)
    y.sum().backward()
    return seen


# %% id="custom_op_under_autocast_alternative_meta" role="alternative"
def custom_op_under_autocast(case):
    """With torch's own promotion and refusals, on tensors that hold nothing."""
    xs = [torch.empty(2, 2, dtype=getattr(torch, d), device="meta") for d in case["inputs"]]
    on = case["region"] != "off"
    low = getattr(torch, case["region"]) if on else None

    def to(t, dtype):
        return t if dtype is None or t.dtype == torch.float64 else t.to(dtype)

    if on and case["cast"]:
        xs, low = [to(x, getattr(torch, case["cast"])) for x in xs], None

    def mm(a, b, dtype):
        a, b = to(a, dtype), to(b, dtype)
        return a @ b if a.dtype == b.dtype else None

    i, j = case["product"]
    made = mm(xs[i], xs[j], low)
    result = made + xs[case["added"]]
    back = mm(result, xs[case["backward"]], low if case["way"] == "custom_fwd" else None)
    text = [str(t.dtype)[6:] if t is not None else "error" for t in (made, result, back, *xs)]
    return {
        "received": text[3:],
        **dict(zip(("product", "result", "backward"), text, strict=False)),
    }


# %% [markdown] id="why-bf16-lives"
# ## In your own words
#
# A colleague writes: "`bfloat16` has 8 bits of precision, `float16` has 11. So float16 is the
# better format, and people use the other one because it is fashionable." Answer in at most six
# sentences: why training in `bfloat16` needs no GradScaler, what it pays for that, and where that
# price is seen; what has to stay in float32 in both cases, and why; and one measurement with which
# your colleague could decide for a model of theirs.

# %% [markdown] id="why_bf16_lives" role="free_text" points=5 minutes=10 difficulty=3
# Gradients are small numbers: they have a wide range of sizes and need few digits. `bfloat16` has
# the 8 exponent bits of float32, so but for the last steps at either end what float32 can hold is
# neither zero nor infinite in it, and no loss scale is needed; `float16` ends at 65504 and at 6e-8.
# For that `bfloat16` pays with three bits of fraction: its numbers are `2**-7` apart at 1, so a
# running sum of ones stands still at 256, and an update of less than a 512th of a weight
# disappears. So in both the weights of the optimizer and its moments, and the sums inside products,
# means and the loss stay in float32: 16 bits are for what is read often and used once. To decide,
# train the same seed in float32, in `bfloat16` and in `float16` with a GradScaler, and compare the
# loss after a few thousand steps with the difference between two seeds; beside it, the share of
# gradients that are zero and of steps left out.
#
# **Rubric** (1 point each): range against precision, with the number of exponent bits or the two
# ends of float16; no scaler, because nearly nothing that float32 holds leaves the range; the price,
# shown at a sum or an update with a number; what stays in float32 and why; a measurement with
# something to compare it with, such as the spread between seeds or the share of zero gradients.

# %% [markdown] id="where-you-are"
# ## Where you are

# %% id="where-you-are-run"
progress()
