# %% [markdown] id="title"
# # Lab 12: a kernel becomes software
#
# The loss of the head works on your machine. In this lab you decide where its wheel installs, which
# combinations are tested, how far a result may be off, and what the next version is called. You
# give the loss the options that people ask for, with their gradients, build it into a wheel that is
# installed and judged where nothing of yours ran, and find what is broken in a release.
#
# Work from top to bottom, in about two hours, after [chapter
# 12](../../notebooks/12_ship_it.ipynb). Any right answer counts. Keep helper functions inside the
# cell of the question that uses them: only those cells are graded. N words or tokens, D features,
# V words to choose from.

# %% id="setup" tags=["setup"]
import re
from itertools import combinations, product

import torch
import torch.nn.functional as F

# %% id="instruments"
import onelayer
from autograder import answered, check, hint, progress

head = onelayer.head()  # nn.Linear(64, 600): weight (600, 64), bias (600,)

# %% [markdown] id="worked-example"
# ## Worked example: what a version promises
#
# Every answer of this lab takes the same three steps: **read what was given**, **apply a rule that
# is written down**, **say where it ends**. Here: does a version fit `>=2.9,<2.16`?


# %% id="worked-example-code" tags=["worked-example"]
def fits_range(version, low, high):
    """version, low, high: as "2.13.0" -> whether low <= version < high."""
    read = [tuple(map(int, text.split("."))) for text in (version, low, high)]  # read
    return read[1] <= read[0] < read[2]  # integers, compared in order


for version in ("2.8.1", "2.9", "2.13.0", "2.16.0"):
    print(f"{version:7} {fits_range(version, '2.9', '2.16')}, as text {'2.9' <= version < '2.16'}")

# %% [markdown] id="wheel-names"
# ## Which wheel fits?
#
# pip reads in the name whether a wheel fits a machine:
# `name-version(-build)-python-abi-platform.whl`. Each of the three tags may be a set, with dots
# between. A wheel fits if one of each set fits, together:
#
# | Python and ABI | fits |
# |---|---|
# | `cp312-cp312`, `cp313-cp313t` | this Python alone; the `t` is for one without the GIL |
# | `cp310-abi3` | this Python 3 and all later ones, never one without the GIL |
# | `cp312-none` | this CPython alone |
# | `py3-none`, `py310-none` | every Python 3; 3.10 and later |
#
# | platform | fits |
# |---|---|
# | `any` | everywhere, with the ABI `none` |
# | `manylinux_2_28_x86_64` | Linux with glibc 2.28 or later |
# | `manylinux1_...`, `manylinux2010_...`, `manylinux2014_...` | glibc 2.5, 2.12 and 2.17 |
# | `linux_x86_64` | Linux, whatever its glibc: an index refuses it, pip does not |
# | `macosx_11_0_arm64` | macOS 11.0 or later; `universal2` is both architectures |
# | `win_amd64` | Windows |
#
# The architecture is the machine's own; `manylinux1` and `manylinux2010` are for x86_64 alone, and
# from macOS 11 on a tag's second number is 0. `musllinux` is for another C library than glibc, and
# fits none of these machines. The rules are PEP 425, PEP 600 and PEP 703; pip keeps them in the
# library `packaging`. Stuck? `hint("wheel_fits")`


# %% id="wheel_fits" role="solution"
def wheel_fits(names, machine):
    """names: list of file names. machine: a dict with "system" ("linux", "macosx" or "win"),
    "arch", "python" as (3, 12), "free_threaded", and "glibc" or "macos" as (2, 28)
    -> the names that fit, in the order given."""

    ### BEGIN SOLUTION
    def python_fits(python, abi):
        have, free = machine["python"][1], machine["free_threaded"]
        minor = int(python[3:] or 0)
        if python[2] != "3":
            return False
        if abi == "none":
            return minor == have if python.startswith("cp") else minor <= have
        if abi == "abi3":
            return minor <= have and not free
        return abi == f"cp3{have}" + ("t" if free else "")

    def platform_fits(platform, abi):
        if platform == "any":
            return abi == "none"
        system, arch = machine["system"], machine["arch"]
        if platform in (f"win_{arch}", f"linux_{arch}"):
            return platform.startswith(system)
        old = {"manylinux1": "2_5", "manylinux2010": "2_12", "manylinux2014": "2_17"}
        for name, version in old.items():
            if name == "manylinux2014" or arch == "x86_64":
                platform = platform.replace(f"{name}_", f"manylinux_{version}_")
        found = re.fullmatch(r"(manylinux|macosx)_(\d+)_(\d+)_(.*)", platform)
        if not found or not found[1].endswith(system):
            return False
        have = machine["glibc"] if system == "linux" else machine["macos"]
        major, minor = int(found[2]), int(found[3])
        if system == "macosx" and major > 10 and minor > 0:
            return False
        return (major, minor) <= tuple(have) and found[4] in (arch, "universal2")

    fit = []
    for name in names:
        sets = (part.split(".") for part in name.removesuffix(".whl").split("-")[-3:])
        if any(python_fits(p, abi) and platform_fits(one, abi) for p, abi, one in product(*sets)):
            fit.append(name)
    return fit
    ### END SOLUTION


# %% id="wheel_fits_check" role="check"
check("wheel_fits")


# %% id="wheel_fits_alternative" role="alternative"
def wheel_fits(names, machine):
    """All tags that the machine takes, as packaging.tags lists them; then a lookup."""
    have, arch = machine["python"][1], machine["arch"]
    flag = "t" if machine["free_threaded"] else ""
    pythons = {f"cp3{have}-cp3{have}{flag}", f"cp3{have}-none", "py3-none"}
    pythons |= {f"py3{minor}-none" for minor in range(have + 1)}
    if not flag:
        pythons |= {f"cp3{minor}-abi3" for minor in range(2, have + 1)}
    platforms = {"any"}
    if machine["system"] == "win":
        platforms.add(f"win_{arch}")
    elif machine["system"] == "linux":
        minors = range(machine["glibc"][1] + 1)
        platforms |= {f"linux_{arch}", *(f"manylinux_2_{minor}_{arch}" for minor in minors)}
        legacy = {17: "manylinux2014"}
        if arch == "x86_64":
            legacy |= {5: "manylinux1", 12: "manylinux2010"}
        platforms |= {f"{name}_{arch}" for minor, name in legacy.items() if minor in minors}
    else:
        versions = [(10, minor) for minor in range(17)]
        versions += [(major, 0) for major in range(11, machine["macos"][0] + 1)]
        versions = [one for one in versions if one <= tuple(machine["macos"])]
        for kind in (arch, "universal2"):
            platforms |= {f"macosx_{major}_{minor}_{kind}" for major, minor in versions}

    def fits(name):
        *_, python, abi, platform = name[: -len(".whl")].split("-")
        abis = {a for p in python.split(".") for a in abi.split(".") if f"{p}-{a}" in pythons}
        places = set(platform.split(".")) & (platforms if "none" in abis else platforms - {"any"})
        return bool(abis and places)

    return list(filter(fits, names))


# %% id="wheel_fits_alternative_2" role="alternative"
def wheel_fits(names, machine):
    """One pattern for each kind of tag."""
    major, minor = machine["python"]
    t = "t" if machine["free_threaded"] else ""

    def interpreter(pair):
        if pair in (f"cp{major}{minor}-cp{major}{minor}{t}", f"cp{major}{minor}-none", "py3-none"):
            return True
        at_least = re.match(r"cp3(\d+)-abi3$" if not t else r"$^", pair)
        at_least = at_least or re.match(r"py3(\d+)-none$", pair)
        return at_least is not None and int(at_least[1]) <= minor

    def platform(tag):
        tag = re.sub("^manylinux1_x86_64$", "manylinux_2_5_x86_64", tag)
        tag = re.sub("^manylinux2010_x86_64$", "manylinux_2_12_x86_64", tag)
        tag = re.sub("^manylinux2014_", "manylinux_2_17_", tag)
        kind, *version = re.match(r"(manylinux|macosx|)_?(?:(\d+)_(\d+)_)?", tag).groups()
        arch = {tag.removeprefix(f"{kind}_{version[0]}_{version[1]}_")} if kind else set()
        if kind == "":
            return tag in ("any", f"{machine['system']}_{machine['arch']}")
        wanted = {"manylinux": "linux", "macosx": "macosx"}[kind]
        if machine["system"] != wanted or not arch & {machine["arch"], "universal2"}:
            return False
        if re.match(r"macosx_(?!10_)\d+_[1-9]", tag):
            return False
        return tuple(map(int, version)) <= tuple(machine.get("glibc") or machine["macos"])

    def takes(name):
        python, abi, platforms = name[:-4].rsplit("-", 3)[1:]
        pairs = product(python.split("."), abi.split("."))
        abis = [pair[1] for pair in pairs if interpreter("-".join(pair))]
        places = [one for one in platforms.split(".") if platform(one)]
        return any(one != "any" or abi == "none" for abi in abis for one in places)

    return [name for name in names if takes(name)]


# %% [markdown] id="matrix"
# ## A matrix in which all pairs meet
#
# Five versions of torch, five of Python, three systems, three devices, four dtypes: 900 runs, if
# you test them all. Most faults need one value or two of them together. So let every two values of
# different axes meet in at least one run, if they can meet at all: `excluded` names pairs that
# cannot (no CUDA on macOS), each as `((axis, value), (axis, value))` in any order. Two values can
# also be kept apart by what is excluded around them: then no run has both, and none is asked for.
#
# At most `most` runs: a third more than the greedy choice needs, and two. Stuck?
# `hint("pairs_covered")`


# %% id="pairs_covered" role="solution"
def pairs_covered(axes, excluded, most):
    """axes: {axis: [values]} -> list of runs, each {axis: value} with a value for every axis."""

    ### BEGIN SOLUTION
    def pairs(run):
        return {frozenset(pair) for pair in combinations(run.items(), 2)}

    bad = {frozenset(pair) for pair in excluded}
    runs = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    allowed = [(run, pairs(run)) for run in runs if not pairs(run) & bad]
    left = set().union(*(covers for _, covers in allowed))
    chosen = []
    while left:
        run, covers = max(allowed, key=lambda one: len(one[1] & left))
        chosen.append(run)
        left -= covers
    return chosen
    ### END SOLUTION


# %% id="pairs_covered_check" role="check"
check("pairs_covered")


# %% id="pairs_covered_alternative" role="alternative"
def pairs_covered(axes, excluded, most):
    """Start from all runs, and throw away those whose pairs all stand elsewhere: the poorest first,
    from several orders, until there are few enough."""
    import random
    from collections import Counter

    bad = {frozenset(pair) for pair in excluded}
    allowed = []
    for values in product(*axes.values()):
        places = list(zip(axes, values, strict=True))
        covers = {frozenset(pair) for pair in combinations(places, 2)}
        if not covers & bad:
            allowed.append((dict(places), covers))
    left = Counter(pair for _, covers in allowed for pair in covers)
    best = allowed
    for seed in range(40):
        order, missing, taken = random.Random(seed), set(left), []
        while missing:
            some = order.sample(allowed, min(len(allowed), 60))
            one = max(some, key=lambda run: len(run[1] & missing))
            if not one[1] & missing:
                one = next(run for run in allowed if run[1] & missing)
            taken.append(one)
            missing -= one[1]
        best = min(best, taken, key=len)
        if len(best) <= most:
            break
    return [run for run, _ in best]


# %% id="pairs_covered_alternative_2" role="alternative"
def pairs_covered(axes, excluded, most):
    """The most new pairs first, and of several such runs the one with the rarest pairs."""
    names = list(axes)
    bad = [dict(pair) for pair in excluded]
    runs = [dict(zip(names, values, strict=True)) for values in product(*axes.values())]
    runs = [run for run in runs if not any(pair.items() <= run.items() for pair in bad)]
    covers = [[(a, run[a], b, run[b]) for a, b in combinations(names, 2)] for run in runs]
    count = {}
    for pair in (pair for pairs in covers for pair in pairs):
        count[pair] = count.get(pair, 0) + 1
    rare = {k: sum(1 / count[pair] for pair in pairs) for k, pairs in enumerate(covers)}
    chosen, missing = [], set(count)
    while missing:
        scores = {k: sum(pair in missing for pair in covers[k]) for k in rare}
        k = max(rare, key=lambda k: (scores[k], rare[k]))
        chosen.append(runs[k])
        missing.difference_update(covers[k])
    return chosen


# %% [markdown] id="how-far-off"
# ## How far off may it be?
#
# A test against float64 needs a tolerance, and 1e-3 is no reason. Derive it. Each z[n, v] is a sum
# of K products x[n, k] w[v, k], with x and w as they are, and every product and every addition is
# rounded to the nearest number of the accumulator's dtype: a relative error of at most u =
# `torch.finfo(accumulator).eps / 2`.
#
# 1. In any order of summation a term goes through at most K roundings: its product's and K - 1
#    additions'. Together they multiply it by something between 1 - gamma and 1 + gamma, where
#    gamma = K u / (1 - K u). From K u = 1 on nothing is promised: **the bound is inf**.
# 2. So the accumulator is off by at most gamma * A, where A is the sum over k of |x[n, k] w[v, k]|.
# 3. If `out` is another dtype than the accumulator, what the accumulator holds is rounded once
#    more, with v = `torch.finfo(out).eps / 2`: off by at most v * (|z| + gamma * A) more. Count it
#    also where `out` is the longer one, as a checker would that only compares names.
#
# Return the whole bound. Overflow and numbers below the smallest normal one are another matter.
# Stuck? `hint("tolerance")`


# %% id="tolerance" role="solution"
def tolerance(x, w, accumulator, out):
    """x (N, K), w (V, K), accumulator and out: dtypes -> (N, V) float64."""
    ### BEGIN SOLUTION
    x, w = x.double(), w.double()
    u, v = torch.finfo(accumulator).eps / 2, torch.finfo(out).eps / 2
    size, z = x.abs() @ w.abs().T, (x @ w.T).abs()
    roundings = x.shape[1] * u
    if roundings >= 1:
        return torch.full_like(z, torch.inf)
    error = roundings / (1 - roundings) * size
    return error if out == accumulator else error + v * (z + error)
    ### END SOLUTION


# %% id="tolerance_check" role="check"
check("tolerance")


# %% id="tolerance_alternative" role="alternative"
def tolerance(x, w, accumulator, out):
    """Term by term, with 2^-p for the roundings."""
    bits = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
    terms = x[:, None, :].double() * w[None].double()  # (N, V, K)
    k, steps = terms.shape[2], 2 ** bits[accumulator]
    if k >= steps:
        return torch.ones(terms.shape[:2], dtype=torch.float64) / 0.0
    error = k * terms.abs().sum(2) / (steps - k)
    if accumulator != out:
        error = error + (terms.sum(2).abs() + error) / 2 ** bits[out]
    return error


# %% id="tolerance_alternative_2" role="alternative"
def tolerance(x, w, accumulator, out):
    """Upwards: what the accumulator may hold at most, then what `out` may make of it."""
    roundings = x.size(1) * torch.finfo(accumulator).eps / 2
    exact = torch.einsum("nk,vk->nv", x.double(), w.double())
    if roundings >= 1:
        return exact.new_full(exact.shape, float("inf"))
    size = torch.einsum("nk,vk->nv", x.double().abs(), w.double().abs())
    gamma = roundings / (1 - roundings)
    most = exact.abs() + gamma * size
    last = torch.finfo(out).eps / 2 if out is not accumulator else 0.0
    return gamma * size + last * most


# %% [markdown] id="bound-run"
# And on the page: the head's own product in bfloat16, its error and your bound.

# %% id="bound-run-code"
x, w = torch.randn(32, 64).bfloat16(), head.weight.detach().bfloat16()
error = ((x @ w.T).double() - x.double() @ w.double().T).abs()
with answered():
    allowed = tolerance(x, w, torch.float32, torch.bfloat16)
    print(f"largest error {error.max():.4f}; at most {(error / allowed).max():.0%} of its bound")

# %% [markdown] id="schemas-change"
# ## What breaks whom?
#
# A library's operators have schemas, and people call them: by position, by keyword, with defaults
# left out. The next version may have other schemas. For every operator (an overload, as
# `head_loss.weighted`, is an operator of its own):
#
# - **It breaks** if it is gone or returns other types; if an argument is gone, renamed, of another
#   type (`int[2]` is not `int[]`), written now or no longer (`Tensor(a!)`, whose letter stays), or
#   keyword-only where it was positional; if its default was changed or taken away; if a new
#   argument has no default; or if the old positional arguments no longer come first, in the same
#   order.
# - **It is a feature** if an operator is new, an argument is new, has its first default, takes None
#   too (`T` became `T?`), or is positional now, and nothing breaks.
# - Everything else is a fix: also keyword-only arguments in another order, or results with other
#   names.
#
# A break raises the major version, a feature the minor, a fix the patch, and what stands behind
# begins at 0. Before 1.0 a break raises the minor version, and all else the patch. A renamed
# operator is one that is gone and one that is new.
#
# `torch._C.parse_schema` reads a schema; PyTorch asks much the same of its own operators in
# [`function_schema.cpp`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/core/function_schema.cpp).
# Stuck? `hint("next_version")`


# %% id="next_version" role="solution"
def next_version(version, old, new):
    """version: as "1.4.2"; old, new: lists of schemas as texts
    -> (the next version, list of the names of operators that break, with their overloads)."""

    ### BEGIN SOLUTION
    def named(schemas):
        parsed = map(torch._C.parse_schema, schemas)
        return {s.name + ("." + s.overload_name if s.overload_name else ""): s for s in parsed}

    def type_of(argument):
        writes = argument.alias_info is not None and argument.alias_info.is_write
        return str(argument.type), argument.N, writes

    def of_argument(a, b):
        if b is None:
            return 2
        if type_of(a) != type_of(b) and type_of(b) != (f"Optional[{a.type}]", *type_of(a)[1:]):
            return 2
        kept = b.has_default_value() and a.default_value == b.default_value
        if a.has_default_value() and not kept:
            return 2
        changed = type_of(a) != type_of(b) or a.kwarg_only != b.kwarg_only
        return 1 if changed or a.has_default_value() != b.has_default_value() else 0

    def effect(a, b):
        if [str(r.type) for r in a.returns] != [str(r.type) for r in b.returns]:
            return 2
        later = {argument.name: argument for argument in b.arguments}
        effects = [of_argument(one, later.pop(one.name, None)) for one in a.arguments]
        effects += [1 if one.has_default_value() else 2 for one in later.values()]
        before, after = ([x.name for x in s.arguments if not x.kwarg_only] for s in (a, b))
        return 2 if after[: len(before)] != before else max(effects, default=0)

    before, after = named(old), named(new)
    effects = {k: effect(s, after[k]) if k in after else 2 for k, s in before.items()}
    step = max([*effects.values(), *(1 for k in after if k not in before)], default=0)
    major, minor, patch = map(int, version.split("."))
    if major == 0:
        step = max(0, step - 1)
    versions = [(major, minor, patch + 1), (major, minor + 1, 0), (major + 1, 0, 0)]
    return ".".join(map(str, versions[step])), [k for k, one in effects.items() if one == 2]
    ### END SOLUTION


# %% id="next_version_check" role="check"
check("next_version")


# %% id="next_version_alternative" role="alternative"
def next_version(version, old, new):
    """From the texts alone: what an old call needs, as a set of facts that have to stay."""

    def read(text):
        name, arguments, returned = re.fullmatch(r"(\S+?)\((.*)\) -> (.*)", text).groups()
        facts, places, by_keyword = {}, [], False
        for part in filter(None, arguments.split(", ")):
            if part == "*":
                by_keyword = True
                continue
            kind, rest = part.split(" ", 1)
            argument, _, default = rest.partition("=")
            facts[argument] = (kind, default, by_keyword)
            if not by_keyword:
                places.append(argument)
        returns = [one.partition(" ")[0] for one in returned.strip("()").split(", ")]
        return name, (facts, places, returns)

    def breaks(before, after):
        if after is None or before[2] != after[2] or after[1][: len(before[1])] != before[1]:
            return True
        for argument, (kind, default, by_keyword) in before[0].items():
            if argument not in after[0]:
                return True
            new_kind, new_default, new_by_keyword = after[0][argument]
            if new_kind not in (kind, kind + "?") or (new_by_keyword and not by_keyword):
                return True
            if default and new_default != default:
                return True
        return any(not after[0][name][1] for name in after[0].keys() - before[0].keys())

    before, after = dict(map(read, old)), dict(map(read, new))
    broken = [name for name, schema in before.items() if breaks(schema, after.get(name))]
    feature = any(name not in before or before[name][0] != after[name][0] for name in after)
    numbers = [int(number) for number in version.split(".")]
    place = 0 if broken else 1 if feature else 2
    if numbers[0] == 0:
        place = min(2, place + 1)
    numbers = [*numbers[:place], numbers[place] + 1, 0, 0][:3]
    return "{}.{}.{}".format(*numbers), broken


# %% id="next_version_alternative_2" role="alternative"
def next_version(version, old, new):
    """One sweep that gathers verdicts as words."""
    read = torch._C.parse_schema
    later = {text.partition("(")[0]: read(text) for text in new}
    verdicts, broken = set(), []
    for text in old:
        name = text.partition("(")[0]
        seen = set()
        if name not in later:
            seen.add("break")
        else:
            a, b = read(text), later.pop(name)
            if [str(x.type) for x in a.returns] != [str(y.type) for y in b.returns]:
                seen.add("break")
            first = [x for x in a.arguments if not x.kwarg_only]
            for x, y in zip(first, [*b.arguments, *[None] * len(first)], strict=False):
                if y is None or y.kwarg_only or y.name != x.name:
                    seen.add("break")
            there = {y.name: y for y in b.arguments}
            for x in a.arguments:
                y = there.pop(x.name, None)
                if y is None:
                    seen.add("break")
                    continue
                rest = [(o.N, bool(o.alias_info and o.alias_info.is_write)) for o in (x, y)]
                kinds = [str(one.type) for one in (x, y)]
                if rest[0] != rest[1] or kinds[1] not in (kinds[0], f"Optional[{kinds[0]}]"):
                    seen.add("break")
                elif kinds[0] != kinds[1] or (x.kwarg_only and not y.kwarg_only):
                    seen.add("feature")
                defaults = [(one.has_default_value(), one.default_value) for one in (x, y)]
                if defaults[0] != defaults[1]:
                    seen.add("break" if defaults[0][0] else "feature")
            for y in there.values():
                seen.add("feature" if y.has_default_value() else "break")
        if "break" in seen:
            broken.append(name)
        verdicts |= seen
    verdicts |= {"feature"} if later else set()
    major, minor, patch = (int(part) for part in version.split("."))
    if "break" in verdicts:
        return (f"{major + 1}.0.0" if major else f"0.{minor + 1}.0"), broken
    if "feature" in verdicts and major:
        return f"{major}.{minor + 1}.0", broken
    return f"{major}.{minor}.{patch + 1}", broken


# %% [markdown] id="options-of-the-loss"
# ## The loss that people ask for
#
# A fused loss that has only the mean is not used for long. Write the loss of the head with its
# options, in plain torch, with all its logits in memory: the truth that a fused one is tested
# against.
#
# - logits z = x w^T + b; b may be None. `softcap`: z becomes softcap * tanh(z / softcap).
# - `weight` (V,), `ignore_index`, `label_smoothing`, `reduction`: as `F.cross_entropy` has them.
# - `z_loss`: every row that counts adds z_loss * lse^2, with lse = log-sum-exp of its (capped)
#   logits, without `weight`. For `"mean"` it is the mean over the rows that count.
# - `shift`: x is (..., T, D), t (..., T), and position k is asked for the word t[..., k + 1]. The
#   last position is asked for none.
#
# With `reduction="none"` the result has the shape of the targets that are asked for, and 0 where
# they are ignored. There may be no row at all. Stuck? `hint("loss_options")`


# %% id="loss_options" role="solution"
def loss_options(
    x, w, b, t, *, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0,
    z_loss=0.0, softcap=None, shift=False,
):  # fmt: skip
    """x (..., N, D), w (V, D), b (V,) or None, t (..., N) -> () or the shape of the targets."""
    ### BEGIN SOLUTION
    if shift:
        x, t = x[..., :-1, :], t[..., 1:]
    z = F.linear(x, w, b).flatten(0, -2)  # (N, V)
    if softcap is not None:
        z = softcap * torch.tanh(z / softcap)
    target = t.flatten()
    loss = F.cross_entropy(
        z, target, weight=weight, ignore_index=ignore_index, reduction=reduction,
        label_smoothing=label_smoothing,
    )  # fmt: skip
    counts = target != ignore_index
    squares = z_loss * z.logsumexp(1).square() * counts
    if reduction == "none":
        return (loss + squares).reshape(t.shape)
    return loss + (squares.sum() / counts.sum() if reduction == "mean" else squares.sum())
    ### END SOLUTION


# %% id="loss_options_check" role="check"
check("loss_options")


# %% id="loss_options_alternative" role="alternative"
def loss_options(x, w, b, t, **options):
    """By hand, without F.cross_entropy: log-probabilities against what each row wants to see."""
    if options.get("shift"):
        x, t = x[..., :-1, :], t[..., 1:]
    z = x.reshape(-1, x.shape[-1]) @ w.T
    z = z if b is None else z + b
    cap = options.get("softcap")
    z = z if cap is None else torch.tanh(z / cap) * cap
    lse = torch.logsumexp(z, 1)
    counts = t.reshape(-1) != options.get("ignore_index", -100)
    target = t.reshape(-1).where(counts, 0)
    every = options.get("weight")
    every = z.new_ones(len(w)) if every is None else every
    smooth = options.get("label_smoothing", 0.0)
    wanted = (
        F.one_hot(target, len(w)) * (1 - smooth) * every[target, None] + smooth / len(w) * every
    )
    loss = (wanted * (lse[:, None] - z)).sum(1) * counts
    squares = options.get("z_loss", 0.0) * lse**2 * counts
    reduction = options.get("reduction", "mean")
    if reduction == "none":
        return (loss + squares).view(t.shape)
    if reduction == "sum":
        return (loss + squares).sum()
    return loss.sum() / (every[target] * counts).sum() + squares.sum() / counts.sum()


# %% id="loss_options_alternative_2" role="alternative"
def loss_options(x, w, b, t, *, reduction="mean", shift=False, softcap=None, z_loss=0.0, **more):
    """Only the rows that count are looked at; the others stay 0."""
    if shift:
        x, t = x.narrow(-2, 0, x.shape[-2] - 1), t.narrow(-1, 1, t.shape[-1] - 1)
    counts = t != more.get("ignore_index", -100)
    z = x[counts] @ w.T + (0 if b is None else b)  # (M, V)
    z = z if softcap is None else (z / softcap).tanh() * softcap
    smooth, weight = more.get("label_smoothing", 0.0), more.get("weight")
    each = F.cross_entropy(z, t[counts], weight, reduction="none", label_smoothing=smooth)
    squares = z_loss * z.logsumexp(1).pow(2)
    if reduction == "sum":
        return each.sum() + squares.sum()
    if reduction == "none":
        return torch.zeros(t.shape, dtype=z.dtype).index_put((counts,), each + squares)
    total = len(each) if weight is None else weight[t[counts]].sum()
    return each.sum() / total + squares.mean()


# %% [markdown] id="options-back"
# ## And its gradients
#
# The fused loss makes its gradients itself. Derive them: dx, dw and db of the loss of 12.5, with
# all its options, times `dloss`, which comes from above: one number, or one for each target with
# `reduction="none"`. No autograd is needed, and most of its FLOPs are three products of
# matrices. Stuck? `hint("options_backward")`


# %% id="options_backward" role="solution"
def options_backward(
    x, w, b, t, dloss, *, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0,
    z_loss=0.0, softcap=None, shift=False,
):  # fmt: skip
    """As in 12.5; dloss () or the shape of the targets -> (dx, dw, db), db None without a bias."""
    # the rows that are asked, and their logits
    # what each row wants to see
    # dz, through the cap
    # dx, dw, db
    ### BEGIN SOLUTION
    asked, t = (x[..., :-1, :], t[..., 1:]) if shift else (x, t)
    rows, target = asked.flatten(0, -2), t.flatten()
    z = F.linear(rows, w, b)
    if softcap is not None:
        z = softcap * torch.tanh(z / softcap)
    counts = target != ignore_index
    target = target.where(counts, 0)
    every = z.new_ones(len(w)) if weight is None else weight
    at_target = (1 - label_smoothing) * every[target]
    wanted = (label_smoothing / len(w) * every).expand_as(z).clone()  # (N, V)
    wanted[torch.arange(len(z)), target] += at_target

    p, lse = z.softmax(1), z.logsumexp(1, keepdim=True)
    dz = wanted.sum(1, keepdim=True) * p - wanted
    squares = 2 * z_loss * lse * p
    if reduction == "mean":
        dz, squares = dz / (every[target] * counts).sum(), squares / counts.sum()
    above = dloss.reshape(-1, 1) if reduction == "none" else dloss
    dz = (dz + squares) * above * counts[:, None]
    if softcap is not None:
        dz = dz * (1 - (z / softcap) ** 2)

    dx = torch.zeros(x.shape, dtype=x.dtype)
    dx[..., : asked.shape[-2] if shift else None, :] = (dz @ w).view(asked.shape)
    return dx, dz.T @ rows, None if b is None else dz.sum(0)
    ### END SOLUTION


# %% id="options_backward_check" role="check"
check("options_backward")


# %% id="options_backward_alternative" role="alternative"
def options_backward(x, w, b, t, dloss, **options):
    """By asking autograd, of the loss without F.cross_entropy."""
    shift, cap = options.get("shift"), options.get("softcap")
    leaves = [one.detach().clone().requires_grad_() for one in (x, w, b) if one is not None]
    h = leaves[0][..., :-1, :] if shift else leaves[0]
    z = F.linear(h, *leaves[1:]).flatten(0, -2)
    z = z if cap is None else cap * torch.tanh(z / cap)
    target = (t[..., 1:] if shift else t).flatten()
    ignored = options.get("ignore_index", -100)
    reduction = options.get("reduction", "mean")
    named = {k: options[k] for k in ("weight", "label_smoothing") if k in options}
    loss = F.cross_entropy(z, target, ignore_index=ignored, reduction=reduction, **named)
    squares = options.get("z_loss", 0.0) * z.logsumexp(1)[target != ignored] ** 2
    if reduction == "none":
        loss = loss.masked_scatter(target != ignored, loss[target != ignored] + squares)
    else:
        loss = loss + (squares.mean() if reduction == "mean" else squares.sum())
    found = torch.autograd.grad(loss, leaves, dloss.reshape(loss.shape))
    return (*found, None) if b is None else found


# %% id="options_backward_alternative_2" role="alternative"
def options_backward(x, w, b, t, dloss, **more):
    """Row by row, as a kernel does it: only rows that count, and each adds to dw and db."""
    weight, cap = more.get("weight"), more.get("softcap")
    smooth, factor = more.get("label_smoothing", 0.0), more.get("z_loss", 0.0)
    reduction, ignored = more.get("reduction", "mean"), more.get("ignore_index", -100)
    every = w.new_ones(len(w)) if weight is None else weight
    dx, dw, db = torch.zeros(x.shape, dtype=x.dtype), torch.zeros_like(w), w.new_zeros(len(w))
    inputs, outputs, targets = (
        (x[..., :-1, :], dx[..., :-1, :], t[..., 1:]) if more.get("shift") else (x, dx, t)
    )
    counts = targets != ignored
    total, number = every[targets[counts]].sum(), counts.sum()
    for place in counts.nonzero().tolist():
        row, word = inputs[tuple(place)], int(targets[tuple(place)])
        z = w @ row if b is None else w @ row + b
        z = z if cap is None else cap * torch.tanh(z / cap)
        lse, p = z.logsumexp(0), z.softmax(0)
        wanted = smooth / len(w) * every
        wanted[word] += (1 - smooth) * every[word]
        first, second = wanted.sum() * p - wanted, 2 * factor * lse * p
        if reduction == "mean":
            first, second = first / total, second / number
        dz = (first + second) * (dloss[tuple(place)] if reduction == "none" else dloss)
        dz = dz if cap is None else dz * (1 - (z / cap) ** 2)
        outputs[tuple(place)] = dz @ w
        dw += dz[:, None] * row
        db += dz
    return dx, dw, None if b is None else db


# %% [markdown] id="shards-of-words"
# ## One message for the loss of shards
#
# The vocabulary is spread over W ranks. In lab 11 the ranks agreed on a maximum first, and sent
# their sums afterwards. One all-gather is enough: each rank sends three numbers for each row, its
# **maximum**, its **sum of exp(z - its own maximum)**, and the **logit of the target**, or 0 if it
# does not hold it. A rank without a column sends -inf, 0 and 0.
#
# From what all sent and your own logits, return the loss and your columns of dz. A target of -100
# does not count; the mean is over the others. Stuck? `hint("sharded_loss")`


# %% id="sharded_loss" role="solution"
def sharded_loss(stats, z, target, first):
    """stats (W, 3, N): what every rank sent. z (N, Vr): this rank's logits, target (N,), first: the
    number of z's first column -> (the loss, dz (N, Vr))."""
    ### BEGIN SOLUTION
    top = stats[:, 0].amax(0)  # (N,)
    total = (stats[:, 1] * (stats[:, 0] - top).exp()).sum(0)
    lse = top + total.log()
    counts = target != -100
    loss = ((lse - stats[:, 2].sum(0)) * counts).sum() / counts.sum()
    dz = (z - lse[:, None]).exp()
    mine = ((target >= first) & (target < first + z.shape[1])).nonzero()[:, 0]
    dz[mine, target[mine] - first] -= 1
    return loss, dz * counts[:, None] / counts.sum()
    ### END SOLUTION


# %% id="sharded_loss_check" role="check"
check("sharded_loss")


# %% id="sharded_loss_alternative" role="alternative"
def sharded_loss(stats, z, target, first):
    """By logsumexp of the shards' log-sum-exps, and a comparison in place of an index."""
    tops, sums, picked = stats.transpose(0, 1)
    lse = torch.logsumexp(tops + sums.log(), 0)
    counts = target >= 0
    loss = (lse - picked.sum(0))[counts].mean()
    columns = first + torch.arange(z.shape[1])
    hit = (target[:, None] == columns).to(z.dtype)
    share = counts[:, None] / counts.sum()
    return loss, (torch.exp(z - lse[:, None]) - hit) * share


# %% id="sharded_loss_alternative_2" role="alternative"
def sharded_loss(stats, z, target, first):
    """By F.nll_loss and one-hot vectors of which this shard keeps its part."""
    lses = stats[:, 0] + torch.log(stats[:, 1])  # (W, N)
    whole = torch.logsumexp(lses, 0)
    p = torch.exp(z - whole[:, None])
    loss = F.nll_loss(torch.stack([stats[:, 2].sum(0) - whole], 1), (target < 0).long() * -100)
    wanted = F.one_hot(target.clamp(0) - first + 10_000, 20_000)[:, 10_000 : 10_000 + z.shape[1]]
    rows = (target != -100).to(p.dtype)
    return loss, (p - wanted) * (rows / rows.sum())[:, None]


# %% [markdown] id="an-installable-loss"
# ## A wheel of your own
#
# Now all of it: the head's loss as a package that somebody else installs. You return four texts,
# and the bench is the build backend. It compiles `csrc/headloss.cpp` to `headloss/_C.so` with the
# headers of torch's stable ABI and no flag of yours, packs what the texts say into a wheel, unpacks
# that wheel in an empty folder, and lets a fresh process that started somewhere else import it.
# Your functions and variables are not there: the texts are all that travels.
#
# - `pyproject.toml`: `requires` with torch, for the build; the name `headloss`, a version,
#   `requires-python` and `dependencies`; and which files of the package are not Python: `_C.so`.
# - `headloss/__init__.py` loads the library and registers a fake, with nothing but torch and
#   `pathlib` or `os.path`. A second import does no harm.
# - `csrc/headloss.cpp` has the kernel for the CPU, with the schema below.
# - `WHEEL` has `Wheel-Version: 1.0`, `Root-Is-Purelib`, and the tag. You are given the `platform`.
#
# `headloss::head_loss(Tensor x, Tensor w, Tensor b, Tensor t) -> Tensor`
#
# is the loss of each row, as `F.cross_entropy(x @ w.T + b, t, reduction="none")`: x (N, D), w
# (V, D), b (V,) in float32, t (N,) int64, all with any strides, and a target of -100 gives 0. It
# needs no gradient. One wheel is to serve Python 3.11 to 3.13 and torch 2.11 and all later ones;
# so the library may ask for no name that torch 2.11 does not have. Stuck? `hint("head_wheel")`


# %% id="head_wheel" role="solution"
def head_wheel(platform):
    """platform: the last part of the tag, as "linux_x86_64" -> {path: text}, the four of them."""
    ### BEGIN SOLUTION
    kernel = """#define TORCH_TARGET_VERSION 0x020b000000000000
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <cmath>
#include <vector>
using torch::stable::Tensor;

Tensor head_loss(const Tensor& x_, const Tensor& w_, const Tensor& b_, const Tensor& t_) {
  Tensor x = torch::stable::contiguous(x_), w = torch::stable::contiguous(w_);
  Tensor b = torch::stable::contiguous(b_), t = torch::stable::contiguous(t_);
  const int64_t N = x.size(0), D = x.size(1), V = w.size(0);
  Tensor loss = torch::stable::new_empty(x, {N});
  const float *xp = x.const_data_ptr<float>(), *wp = w.const_data_ptr<float>();
  const float *bp = b.const_data_ptr<float>();
  const int64_t *tp = t.const_data_ptr<int64_t>();
  float *out = loss.mutable_data_ptr<float>();
  std::vector<double> z(V);
  for (int64_t n = 0; n < N; ++n) {
    double top = -INFINITY, sum = 0;
    for (int64_t v = 0; v < V; ++v) {
      z[v] = bp[v];
      for (int64_t d = 0; d < D; ++d) z[v] += double(xp[n * D + d]) * wp[v * D + d];
      top = std::fmax(top, z[v]);
    }
    for (int64_t v = 0; v < V; ++v) sum += std::exp(z[v] - top);
    out[n] = tp[n] == -100 ? 0 : float(top + std::log(sum) - z[tp[n]]);
  }
  return loss;
}
STABLE_TORCH_LIBRARY(headloss, m) {
  m.def("head_loss(Tensor x, Tensor w, Tensor b, Tensor t) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(headloss, CPU, m) { m.impl("head_loss", TORCH_BOX(&head_loss)); }
"""
    module = """from pathlib import Path

import torch

if not hasattr(torch.ops.headloss, "head_loss"):  # a notebook imports again
    torch.ops.load_library(Path(__file__).with_name("_C.so"))

    @torch.library.register_fake("headloss::head_loss")
    def _(x, w, b, t):
        return x.new_empty(x.shape[0])
"""
    project = """[build-system]
requires = ["setuptools>=77", "torch>=2.11"]
build-backend = "setuptools.build_meta"
[project]
name = "headloss"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["torch>=2.11"]
[tool.setuptools.package-data]
headloss = ["_C.so"]
"""
    wheel = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"
    return {
        "pyproject.toml": project,
        "headloss/__init__.py": module,
        "csrc/headloss.cpp": kernel,
        "WHEEL": wheel,
    }
    ### END SOLUTION


# %% id="head_wheel_check" role="check"
check("head_wheel")


# %% id="head_wheel_alternative" role="alternative"
def head_wheel(platform):
    """Python's own stable ABI as the tag, one pass over the words, and os.path."""
    loss = r"""// for torch 2.11 and all later ones
#define TORCH_TARGET_VERSION (((0ULL + 2) << 56) | ((0ULL + 11) << 48))
#include <cmath>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

namespace {
using torch::stable::Tensor;

struct Running {  // the log-sum-exp of what came so far
  float top = -INFINITY, sum = 0;
  void add(float z) {
    if (z > top) { sum *= std::exp(top - z); top = z; }
    sum += std::exp(z - top);
  }
};

Tensor head_loss(Tensor x, Tensor w, Tensor b, Tensor t) {
  Tensor loss = torch::stable::new_zeros(x, {x.size(0)});
  auto* out = static_cast<float*>(loss.mutable_data_ptr());
  auto* xs = static_cast<const float*>(x.const_data_ptr());
  auto* ws = static_cast<const float*>(w.const_data_ptr());
  auto* bs = static_cast<const float*>(b.const_data_ptr());
  auto* ts = static_cast<const int64_t*>(t.const_data_ptr());
  for (int64_t n = 0; n < x.size(0); ++n) {
    const int64_t target = ts[n * t.stride(0)];
    if (target == -100) continue;
    Running all;
    float mine = 0;
    for (int64_t v = 0; v < w.size(0); ++v) {
      float z = bs[v * b.stride(0)];
      for (int64_t d = 0; d < x.size(1); ++d)
        z += xs[n * x.stride(0) + d * x.stride(1)] * ws[v * w.stride(0) + d * w.stride(1)];
      all.add(z);
      if (v == target) mine = z;
    }
    out[n] = all.top + std::log(all.sum) - mine;
  }
  return loss;
}
}  // namespace

STABLE_TORCH_LIBRARY(headloss, lib) {
  lib.def("head_loss(Tensor x, Tensor w, Tensor b, Tensor t) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(headloss, CPU, lib) { lib.impl("head_loss", TORCH_BOX(&head_loss)); }
"""
    return {
        "csrc/headloss.cpp": loss,
        "headloss/__init__.py": '''"""The loss of the head, for each row."""
import os

import torch

__all__ = ["head_loss"]


def _shape(x: torch.Tensor, w, b, t) -> torch.Tensor:
    return torch.empty(len(x), device=x.device)


if not hasattr(torch.ops.headloss, "head_loss"):
    torch.ops.load_library(os.path.join(os.path.dirname(os.path.abspath(__file__)), "_C.so"))
    torch.library.register_fake("headloss::head_loss", _shape)
head_loss = torch.ops.headloss.head_loss
''',
        "pyproject.toml": """[project]
name = "headloss"
version = "0.1.dev1"
requires-python = ">=3.9"
dependencies = ["numpy", "torch >= 2.11, != 2.12.0"]
[build-system]
requires = ["torch"]
[tool.setuptools]
package-data = { "*" = ["*.so", "py.typed"] }
""",
        "WHEEL": "\n".join(
            [
                "Wheel-Version: 1.0",
                "Generator: by hand",
                "Root-Is-Purelib: false",
                f"Tag: cp311-abi3-{platform}",
                "",
            ]
        ),
    }


# %% id="head_wheel_alternative_2" role="alternative"
def head_wheel(platform):
    """A tag for each Python, the fake only where there is none yet, and one name for the texts."""
    texts = {}
    texts["WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\n"
    for minor in (11, 12, 13):
        texts["WHEEL"] += f"Tag: cp3{minor}-none-{platform}\n"
    texts["pyproject.toml"] = """
build-system = { requires = ["setuptools", "torch>=2.11"] }
project.name = "headloss"
project.version = "1.0.0rc1"
project.requires-python = "~=3.11"
project.dependencies = ["torch>=2.11"]
tool.setuptools.package-data.headloss = ["_C*"]
"""
    texts["headloss/__init__.py"] = """
from pathlib import Path

import torch

if not hasattr(torch.ops.headloss, "head_loss"):
    torch.ops.load_library(next(Path(__file__).parent.glob("_C*.so")))

    @torch.library.register_fake("headloss::head_loss")
    def rows(x, w, b, t):
        return torch.empty_like(t, dtype=torch.float32)
"""
    texts["csrc/headloss.cpp"] = """
#define TORCH_TARGET_VERSION 0x020b000000000000
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <cmath>

static torch::stable::Tensor rows(const torch::stable::Tensor& x, const torch::stable::Tensor& w,
                                  const torch::stable::Tensor& b, const torch::stable::Tensor& t) {
  auto loss = torch::stable::new_empty(x, {x.size(0)});
  const float *X = x.const_data_ptr<float>(), *W = w.const_data_ptr<float>();
  const float *B = b.const_data_ptr<float>();
  auto logit = [&](int64_t n, int64_t v) {
    double sum = B[v * b.stride(0)];
    for (int64_t d = 0; d < x.size(1); ++d)
      sum += double(X[n * x.stride(0) + d * x.stride(1)]) * W[v * w.stride(0) + d * w.stride(1)];
    return sum;
  };
  for (int64_t n = 0; n < x.size(0); ++n) {
    int64_t target = t.const_data_ptr<int64_t>()[n * t.stride(0)];
    double above = 0, own = target == -100 ? 0 : logit(n, target), most = own;
    for (int64_t v = 0; v < w.size(0); ++v) most = std::fmax(most, logit(n, v));
    for (int64_t v = 0; v < w.size(0); ++v) above += std::exp(logit(n, v) - most);
    loss.mutable_data_ptr<float>()[n] = target == -100 ? 0.f : float(most + std::log(above) - own);
  }
  return loss;
}
STABLE_TORCH_LIBRARY(headloss, m) {
  m.def("head_loss(Tensor x, Tensor w, Tensor b, Tensor t) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(headloss, CPU, m) { m.impl("head_loss", TORCH_BOX(&rows)); }
"""
    return texts


# %% [markdown] id="detective-case"
# ## Detective case: the release that was out for an hour
#
# A release came out, and an hour later it was withdrawn. You get its files as texts: what was
# built, what installs it, what registers its operators. Nothing is run. Which of these is it?
#
# | kind | what is wrong | place |
# |---|---|---|
# | `not_loaded` | `__init__.py` does not load the library when it is imported | path |
# | `no_kernel` | an operator has a schema, and no kernel | operator |
# | `no_fake` | an operator has no fake kernel | operator |
# | `no_gradient` | an operator has no gradient, and needs one | operator |
# | `undeclared_write` | a kernel writes into an argument, against its schema | operator |
# | `torch_unpinned` | it may install beside another torch than it was built with | path |
# | `file_left_out` | the shared library is not among the package's files | path |
# | `wrong_tag` | the wheel's tag promises platforms on which compiled code cannot run | path |
# | `whole` | nothing is wrong | `""` |
#
# An operator is named as torch does, `library::name`; its kernel has the same name, and the
# arguments of that have those of the schema. An operator needs a gradient unless its name ends in
# `_backward` or it writes its argument and returns nothing. A write is a method whose name ends in
# `_`, called on the argument by its own name, as in `x.mul_(p)`. No line has more than one fault,
# and no release either. What stands in a comment does not count. Here is a whole one. Stuck?
# `hint("broken_release")`

# %% id="a-release" tags=["worked-example"]
whole = {
    "pyproject.toml": """[build-system]
requires = ["setuptools>=77", "torch==2.13.*"]
build-backend = "setuptools.build_meta"

[project]
name = "headloss"
version = "0.3.1"
requires-python = ">=3.12"
dependencies = ["numpy>=2", "torch==2.13.*"]

[tool.setuptools.package-data]
headloss = ["py.typed", "_C*.so"]
""",
    "headloss/__init__.py": """from pathlib import Path

import torch

torch.ops.load_library(next(Path(__file__).parent.glob("_C*.so")))

from . import ops
""",
    "headloss/ops.py": """import torch

@torch.library.register_fake("headloss::temper")
def _(x, p):
    return torch.empty_like(x)

def temper_inputs(ctx, inputs, output):
    x, p = inputs
    ctx.p = p

def temper_formula(ctx, dy):
    return torch.ops.headloss.temper_backward(dy, ctx.p), None

torch.library.register_autograd("headloss::temper", temper_formula,
                                setup_context=temper_inputs)

@torch.library.register_fake("headloss::temper_backward")
def _(dy, p):
    return torch.empty_like(dy)
""",
    "csrc/headloss.cpp": """#include <torch/extension.h>

at::Tensor temper(const at::Tensor& x, double p) {
  at::Tensor y = x.mul(p);
  return y;
}

at::Tensor temper_backward(const at::Tensor& dy, double p) {
  at::Tensor dx = dy.mul(p);
  return dx;
}

TORCH_LIBRARY(headloss, m) {
  m.def("temper(Tensor x, float p) -> Tensor");
  m.def("temper_backward(Tensor dy, float p) -> Tensor");
}

TORCH_LIBRARY_IMPL(headloss, CPU, m) {
  m.impl("temper", &temper);
  m.impl("temper_backward", &temper_backward);
}
""",
    "headloss-0.3.1.dist-info/WHEEL": """Wheel-Version: 1.0
Generator: setuptools (80.9.0)
Root-Is-Purelib: false
Tag: cp312-cp312-manylinux_2_28_x86_64
""",
}


# %% id="broken_release" role="solution"
def broken_release(files):
    """files: texts by path -> (kind of fault, path or operator), or ("whole", "")."""

    ### BEGIN SOLUTION
    def the_file(end):
        return next(path for path in files if path.endswith(end))

    init, wheel = the_file("__init__.py"), the_file("WHEEL")
    project = re.sub(r"#.*", "", files["pyproject.toml"])
    ops = re.sub(r"#.*", "", files[the_file("ops.py")])
    cpp = re.sub(r"//[^\n]*|/\*.*?\*/", "", files[the_file(".cpp")], flags=re.DOTALL)
    library = re.search(r"TORCH_LIBRARY\((\w+), m\)", cpp)[1]

    if not re.search(r"^torch\.ops\.load_library", files[init], re.MULTILINE):
        return "not_loaded", init
    for name, arguments, back in re.findall(r'm\.def\("(\w+)\((.*?)\) -> (.*?)"', cpp):
        full = f"{library}::{name}"
        if f'm.impl("{name}"' not in cpp:
            return "no_kernel", full
        if f'register_fake("{full}"' not in ops:
            return "no_fake", full
        needs = back != "()" and not name.endswith("_backward")
        if needs and f'register_autograd("{full}"' not in ops:
            return "no_gradient", full
        body = re.search(rf"^\S+ {name}\(.*?^}}", cpp, re.MULTILINE | re.DOTALL)[0]
        for argument in re.findall(r"Tensor (\w+)", arguments):
            if re.search(rf"\b{argument}\.\w+_\(", body):
                return "undeclared_write", full
    built, runs = re.findall(r'"(torch\b[^"]*)"', project)
    if built != runs or "==" not in runs:
        return "torch_unpinned", "pyproject.toml"
    if '"_C*.so"' not in project and '"*.so"' not in project:
        return "file_left_out", "pyproject.toml"
    if "-any\n" in files[wheel]:
        return "wrong_tag", wheel
    return "whole", ""
    ### END SOLUTION


# %% id="broken_release_check" role="check"
check("broken_release")


# %% id="broken_release_alternative" role="alternative"
def broken_release(files):
    """Line by line, with Python's own readers for Python and TOML."""
    import ast
    import fnmatch
    import tomllib

    by_end = {path.rpartition("/")[2].rpartition(".")[2]: path for path in files}
    init = next(path for path in files if path.endswith("__init__.py"))
    cpp = re.sub(r"/\*.*?\*/", "", files[by_end["cpp"]], flags=re.DOTALL)
    cpp = [line.partition("//")[0].strip() for line in cpp.splitlines()]
    ops = next(text for path, text in files.items() if path.endswith("ops.py"))
    project = tomllib.loads(files["pyproject.toml"])

    def called(source, whole):
        found = []
        for part in ast.walk(ast.parse(source)) if whole else ast.parse(source).body:
            part = part.value if isinstance(part, ast.Expr) else part
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
                first = part.args[0] if part.args else None
                found.append((part.func.attr, getattr(first, "value", None)))
        return found

    if "load_library" not in [name for name, _ in called(files[init], False)]:
        return "not_loaded", init
    library = next(line[14:].split(",")[0] for line in cpp if line.startswith("TORCH_LIBRARY("))
    registered = called(ops, True)
    for line in cpp:
        if not line.startswith('m.def("'):
            continue
        name, _, rest = line[7:].partition("(")
        schema = rest.partition(") ->")[0]
        full = f"{library}::{name}"
        if f'm.impl("{name}", &{name});' not in cpp:
            return "no_kernel", full
        if ("register_fake", full) not in registered:
            return "no_fake", full
        makes_a_new_one = not rest.endswith('-> ()");') and not name.endswith("_backward")
        if makes_a_new_one and ("register_autograd", full) not in registered:
            return "no_gradient", full
        begin = next(k for k, one in enumerate(cpp) if one.partition("(")[0].endswith(f" {name}"))
        for one in cpp[begin : cpp.index("}", begin)]:
            receiver, dot, method = one.partition("(")[0].rpartition(" ")[2].partition(".")
            if dot and method.endswith("_") and f"Tensor {receiver}" in schema.split(", "):
                return "undeclared_write", full
    needed = {
        text
        for text in [*project["build-system"]["requires"], *project["project"]["dependencies"]]
        if re.match(r"torch\b", text)
    }
    if len(needed) > 1 or not any(text.startswith("torch==") for text in needed):
        return "torch_unpinned", "pyproject.toml"
    (patterns,) = project["tool"]["setuptools"]["package-data"].values()
    if not any(fnmatch.fnmatch("_C.so", pattern) for pattern in patterns):
        return "file_left_out", "pyproject.toml"
    for path, text in files.items():
        if path.endswith("/WHEEL") and re.search("^Tag: .*-any$", text, re.MULTILINE):
            return "wrong_tag", path
    return "whole", ""


# %% id="broken_release_alternative_2" role="alternative"
def broken_release(files):
    """A table of questions, asked in one go; the first that is answered with a place is it."""
    texts = {re.split(r"[/.]", path)[-1]: (path, text) for path, text in files.items()}
    toml = re.sub(r"#.*", "", files["pyproject.toml"])
    init = next(path for path in files if path.endswith("__init__.py"))
    python = next(text for path, text in files.items() if path.endswith("ops.py"))
    python = [line for line in python.splitlines() if not line.startswith("#")]
    lines = [line.split("//")[0] for line in texts["cpp"][1].splitlines()]
    lines = re.sub(r"/\*[^*]*\*/", "", "\n".join(lines)).splitlines()
    library = next(line for line in lines if line.startswith("TORCH_LIBRARY("))[14:].split(",")[0]
    schemas = [line.split('"')[1] for line in lines if "m.def(" in line]
    operators = {schema.split("(")[0]: schema.split("(", 1)[1] for schema in schemas}

    def body(name):
        begin = next(k for k, line in enumerate(lines) if f" {name}(" in line and line[0] != " ")
        return lines[begin + 1 : lines.index("}", begin)]

    def writes(name):
        quiet = re.findall(r"Tensor (\w)", operators[name])
        return any(re.search(rf"\b{one}\w*\.\w+_\(", line) for one in quiet for line in body(name))

    def said(what, where):
        return any(what in line for line in where)

    def exact(key):
        found = next(line for line in toml.splitlines() if line.startswith(key))
        return re.search(r'"(torch\b.*?)"', found)[1]

    learns = [
        name
        for name, rest in operators.items()
        if not name.endswith("_backward") and rest.endswith("-> Tensor")
    ]
    questions = [
        ("no_kernel", operators, lambda n: not said(f'impl("{n}"', lines)),
        ("no_fake", operators, lambda n: not said(f'fake("{library}::{n}"', python)),
        ("no_gradient", learns, lambda n: not said(f'autograd("{library}::{n}"', python)),
        ("undeclared_write", operators, writes),
    ]
    for kind, names, missing in questions:
        for name in filter(missing, names):
            return kind, f"{library}::{name}"
    if not said("\ntorch.ops.load_library(", ["\n" + files[init]]):
        return "not_loaded", init
    if exact("requires =") != exact("dependencies") or "==" not in exact("dependencies"):
        return "torch_unpinned", "pyproject.toml"
    if not re.search(r'"(_C)?\*\.so"', toml):
        return "file_left_out", "pyproject.toml"
    tag = texts["WHEEL"]
    return ("wrong_tag", tag[0]) if "-any" in tag[1] else ("whole", "")


# %% [markdown] id="what-to-refuse"
# ## In your own words
#
# A colleague wants to release the head's loss today. It is three times as fast as eager on their
# GPU, and all of its tests are green, on that GPU. The tests compare with `allclose` at its default
# tolerances. The wheel was built on their laptop against the torch that is there, and is called
# `headloss-1.0.0-py3-none-any.whl`. Which four things would you refuse to ship, why, and what would
# you ask for instead?

# %% [markdown] id="what_to_refuse" role="free_text" points=4 minutes=8 difficulty=3
# **The wheel's name.** `py3-none-any` promises every Python on every platform, and inside is
# compiled code for one. I would ask for a tag that says what it needs (`cp312-cp312` or
# `cp310-abi3`, `manylinux_2_28_x86_64`), built where the glibc is as old as the tag says.
#
# **The torch that it was built with.** torch's C++ ABI does not hold from one minor version to the
# next, so the import fails, or worse. I would ask for the same exact version in `requires` and
# `dependencies`, or a wheel for each torch, or only what torch calls stable.
#
# **The tolerance.** `allclose` at its defaults is neither derived nor relative to the sum of the
# products: it passes a wrong small result, and fails a right one that cancels. I would ask for a
# bound from K, the accumulator's rounding and the last one, against float64.
#
# **One machine.** Green on one GPU says nothing of the CPU, of other dtypes, of `fullgraph=True`
# and autocast, of the oldest torch that is promised. I would ask for a matrix in which every two of
# them meet, `opcheck` and `gradcheck`, and the same tests on the installed wheel.
#
# **And 1.0.0.** It promises that no call will break. Until others have used the schema,
# 0.1.0 is honest.
#
# **Rubric** (1 point each, for the fault, what it does to a user, and what to ask for): the tag;
# the torch that it is built for; the tolerance; the matrix. The version may stand in for one of
# them. The speed is no reason to refuse, and no answer.

# %% [markdown] id="where-you-are"
# ## Where you are

# %% id="where-you-are-run"
progress()
