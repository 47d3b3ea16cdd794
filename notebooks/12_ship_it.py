# %% [markdown] id="title"
# # 12 Ship it: what a kernel owes the people who install it
#
# Your kernel is right, fast, and works on your machine. A colleague installs it, and gets an
# undefined symbol, a crash at import, a test that fails at 1e-6, or a saved model that no longer
# loads. After this chapter you can say what a wheel promises, what a schema promises, which error a
# test may allow, and you follow the fused head loss from its file into a training step.
#
# *Reading: two evenings, about 45 and 40 minutes.*

# %% [markdown] id="try-first"
# ## Try it first
# You built a wheel with torch 2.13 and Python 3.11 and gave it to others. What does its library ask
# for, and what does its METADATA say? Choose, and see on which machines it runs. Find the choice
# that runs on most of them, and one that is installed and may then fail.

# %% id="try-first-run" tags=["hide-input"]
import onelayer

onelayer.play_wheel()

# %% id="instruments"
import atexit
import ctypes
import hashlib
import itertools
import math
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from autograder import predict, reveal
from onelayer.custom_op.cpp_compiler import compile_shared
from onelayer.memory.page_faults import keep_freed_memory

os.environ["KINETO_LOG_LEVEL"] = "99"  # the profiler's own log stays off this page
head = onelayer.head()  # nn.Linear(64, 600), trained
W, b = head.weight, head.bias  # (600, 64), (600,)
lines = ["<es> ella ha comido", "<es> yo he comido", "<es> ellos han comido"]
x = onelayer.hidden("\n".join(lines))  # (12, 64)
followed = [[*onelayer.grammar.encode(line)[1:], 0] for line in lines]  # 0 is <end>
target = torch.tensor(followed).flatten()  # (12,): the word that comes next
here = Path(tempfile.mkdtemp(prefix="headloss-"))
_ = atexit.register(shutil.rmtree, here, ignore_errors=True)

# %% [markdown] id="project"
# ## Three files
# A project that is to be installed needs a kernel, a module that loads it, and a `pyproject.toml`
# that says what it is. Here is the kernel: the loss of each row of logits, in one loop, with the
# headers of the stable ABI that unit 06 used. It is a piece of the head's loss, and small enough to
# ship on this page.

# %% id="project-kernel"
KERNEL = """#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <cmath>
using torch::stable::Tensor;

Tensor token_loss(const Tensor& z, const Tensor& t) {
  Tensor loss = torch::stable::new_empty(z, {z.size(0)});
  const float* zp = z.const_data_ptr<float>();
  const int64_t *tp = t.const_data_ptr<int64_t>(), V = z.size(1);
  for (int64_t n = 0; n < z.size(0); ++n, zp += V) {
    float top = -INFINITY;
    double sum = 0;
    for (int64_t v = 0; v < V; ++v) top = std::fmax(top, zp[v]);
    for (int64_t v = 0; v < V; ++v) sum += std::exp(double(zp[v] - top));
    loss.mutable_data_ptr<float>()[n] = float(top + std::log(sum) - zp[tp[n]]);
  }
  return loss;
}
STABLE_TORCH_LIBRARY(headloss, m) { m.def("token_loss(Tensor z, Tensor t) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(headloss, CPU, m) { m.impl("token_loss", TORCH_BOX(&token_loss)); }
"""

# %% [markdown] id="project-rest"
# The module finds its library beside itself, wherever it was installed, and loads it; only then
# does it look for the operator. `pyproject.toml` says who builds, which Python and torch are
# needed, and that a file which is not Python belongs to the package.

# %% id="project-rest-run"
MODULE = '''"""The loss of each row of logits."""
from pathlib import Path
import torch

torch.ops.load_library(Path(__file__).with_name("_C.so"))

@torch.library.register_fake("headloss::token_loss")
def _(z, t):
    return z.new_empty(z.shape[0])

token_loss = torch.ops.headloss.token_loss
'''
PYPROJECT = """[build-system]
requires = ["setuptools>=77", "torch>=2.11", "ninja"]
build-backend = "setuptools.build_meta"
[project]
name = "headloss"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["torch>=2.11"]
[tool.setuptools.package-data]
headloss = ["_C.so"]
"""
print(PYPROJECT)

# %% [markdown] id="build"
# ## Compile it
# This is what a build backend does for you: compile each source, and link what comes out.
# `-DTORCH_TARGET_VERSION` names the oldest torch that the library is for. With more sources,
# [`BuildExtension`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/utils/cpp_extension.py#L749)
# writes a file for ninja, which compiles several at once, and only those whose object is older than
# the source; `CXX="ccache g++"` takes what any build on this machine has compiled before.

# %% id="build-run"
TORCH = Path(torch.__file__).parent
MAC = sys.platform == "darwin"


def build(source, to, target="0x020b000000000000"):
    """The shared library `to`, for the torch of `target` and later; None: for this torch."""
    old = [] if target is None else [f"-DTORCH_TARGET_VERSION={target}"]
    where = ["-isystem", str(TORCH / "include"), f"-L{TORCH / 'lib'}", "-ltorch_cpu"]
    began = time.perf_counter()
    compile_shared(source, to, name=f"{to.stem}.cpp", flags=["-std=c++17", "-O2", *old, *where])
    print(f"{to.name}: {to.stat().st_size:,} bytes in {time.perf_counter() - began:.1f} s")


package = here / "headloss"
package.mkdir()
(here / "pyproject.toml").write_text(PYPROJECT)
(package / "__init__.py").write_text(MODULE)
build(KERNEL, package / "_C.so")

# %% [markdown] id="wheel"
# ## A wheel is a folder in a zip
# Beside the package lie three small files: what it is, how it was built, and a hash of every file.
# Installing means unpacking it where Python looks. No code of the package runs at that moment;
# building from source runs what its author wrote for the build.

# %% id="wheel-run"
PLATFORM = sysconfig.get_platform().replace("-", "_").replace(".", "_")
wheel = here / f"headloss-0.1.0-py3-none-{PLATFORM}.whl"
files = {f"headloss/{p.name}": p.read_bytes() for p in (package / "__init__.py", package / "_C.so")}
info = "headloss-0.1.0.dist-info"
files[f"{info}/METADATA"] = b"""Metadata-Version: 2.4
Name: headloss
Version: 0.1.0
Requires-Python: >=3.11
Requires-Dist: torch>=2.11
"""
tag = f"Root-Is-Purelib: false\nTag: py3-none-{PLATFORM}\n"
files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: by hand\n{tag}".encode()


def row(name, data):
    text = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={text},{len(data)}"


record = [row(name, data) for name, data in files.items()] + [f"{info}/RECORD,,"]
files[f"{info}/RECORD"] = "\n".join(record).encode()
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as made:
    for name, data in files.items():
        made.writestr(name, data)
for each in zipfile.ZipFile(wheel).infolist():
    print(f"{each.file_size:>8,}  {each.filename}")

# %% [markdown] id="name"
# ## What its name says
# Whether a wheel fits a machine, an installer reads in its name, before it has opened the file:
# *name-version-python-abi-platform*. Each of the last three may list several, joined by dots. The
# cell asks which of five names the Python of this notebook takes. Before that: what can no part of
# a name say?

# %% id="name-guess"
predict("not_in_a_wheels_name", choices=["which Python", "which processor", "which torch"])

# %% id="name-run"
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

accepted = set(sys_tags())  # in the order of preference; a set will do here
short = f"cp{sys.version_info.major}{sys.version_info.minor}"
for tags in (
    f"py3-none-{PLATFORM}",
    f"{short}-{short}-{PLATFORM}",
    f"cp39-abi3-{PLATFORM}",
    f"cp310-cp310-{PLATFORM}",
    "py3-none-win_amd64",
):
    name = f"headloss-0.1.0-{tags}.whl"
    print(f"{'yes' if parse_wheel_filename(name)[3] & accepted else 'no':4}", name)

# %% id="name-reveal"
some_tag = next(iter(accepted))
fields = {"which Python": "interpreter", "which processor": "platform", "which torch": "torch"}
reveal("not_in_a_wheels_name", next(what for what, f in fields.items() if not hasattr(some_tag, f)))

# %% [markdown] id="name-why"
# No tag of the name can say which torch. `METADATA` says `torch>=2.11`, and the installer believes
# it. A library that fits one torch alone gets a wheel for each release, in an index of its own or
# under a version like `0.1.0+torch2.13`; there the installer cannot choose, a person does.
# `cp39-abi3` says: uses Python's own stable ABI, from 3.9 on. Our name says `py3-none`: no part of
# Python's C interface at all. Is it true? A name is a promise, and nobody checks it.

# %% [markdown] id="symbols"
# ## What the library asks for
# A shared library holds a list of names that somebody else has to bring. The system's loader, as
# Python asks it, looks each of them up at once, and refuses the library if one is missing. `nm`
# prints the list. Names of C++ are *mangled*: types of arguments are part of them, so they change
# when a type does. How many mangled names of torch does ours ask for?

# %% id="symbols-guess"
predict("cpp_names_of_torch", choices=["none", "about 10", "more than 100"])


# %% id="symbols-run"
def asked(library):
    """The names that a shared library expects others to bring."""
    told = subprocess.run(["nm", "-u" if MAC else "-uD", str(library)], capture_output=True)
    return {line.split()[-1] for line in told.stdout.decode().splitlines() if line.strip()}


def of_torch(names):
    """Those that are torch's own C functions."""
    return [name for name in names if re.match(r"_?(aoti_)?torch_", name)]


def sorted_out(names):
    mangled = [n for n in names if re.match(r"_?_Z\w*(2at|3c10|5torch)", n)]
    python = [n for n in names if re.match(r"_?Py[A-Z_]", n)]
    return {"torch, C": len(of_torch(names)), "torch, C++": len(mangled), "Python": len(python)}


ours = asked(package / "_C.so")
print("headloss/_C.so    ", sorted_out(ours))
theirs = next((TORCH / "lib").glob("libtorch_python.*"))
print(f"{theirs.name:18}", sorted_out(asked(theirs)))
print("for instance:", *sorted(n for n in ours if "dispatcher" in n or "data_ptr" in n))

# %% id="symbols-reveal"
count = sorted_out(ours)["torch, C++"]
reveal("cpp_names_of_torch", "none" if not count else "about 10" if count < 60 else "more than 100")

# %% [markdown] id="symbols-why"
# It asks for none. The stable headers turn every call into one of torch's C functions, such as
# [`torch_call_dispatcher`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/stable/c/shim.h#L25),
# which takes the name of an operator and a stack of values. Python's names are none either, so
# `py3-none` is true. `libtorch_python` is built together with its torch, and may ask for what it
# likes. Who uses torch's C++ classes asks for such names too, and needs the release that they come
# from ([note](https://docs.pytorch.org/docs/stable/notes/libtorch_stable_abi.html)).

# %% [markdown] id="target"
# ## One flag decides the oldest torch
# The headers know which function came with which release, and hide what is newer than
# `TORCH_TARGET_VERSION`
# ([`version.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/stable/version.h#L23)).
# We forget the flag and build the same source again. What changes in the list?

# %% id="target-guess"
predict("without_the_target_flag", choices=["nothing", "names are added", "names are removed"])

# %% id="target-run"
build(KERNEL, here / "forgotten.so", target=None)
more, fewer = asked(here / "forgotten.so") - ours, ours - asked(here / "forgotten.so")
print("this torch is", torch.__version__)
print("added:  ", *sorted(of_torch(more)) or ["nothing"])
print("removed:", *sorted(of_torch(fewer)) or ["nothing"])
reveal(
    "without_the_target_flag",
    "names are added" if of_torch(more) else "names are removed" if of_torch(fewer) else "nothing",
)

# %% [markdown] id="target-why"
# The added names are in the torch that built it, and not in 2.11 (on torch 2.11 itself nothing is
# added). It works here, so no test here fails. To see what the colleague sees, we ask for a name
# that no torch has:

# %% id="target-missing"
FUTURE = 'extern "C" int torch_from_the_future(); extern "C" int call() { return {}; }'
for body in ("torch_from_the_future()", "7"):
    compile_shared(
        FUTURE.replace("{};", f"{body};"),
        here / "future.so",
        name="future.cpp",
        flags=["-undefined", "dynamic_lookup"] if MAC else [],
    )
    (here / "future.so").rename(here / f"future{len(body)}.so")
    try:
        print("loaded, call() gives", ctypes.CDLL(str(here / f"future{len(body)}.so")).call())
    except OSError as error:
        print(str(error).replace(f"{here}/", ""))

# %% [markdown] id="glibc"
# ## The same for the system
# The C library names its functions with the release that brought them. The highest one that our
# library asks for says how old a system can still load it. A name with `manylinux_2_17` promises
# that it asks for nothing newer than 2.17; ours says `linux`, which promises nothing, and PyPI
# refuses it. So wheels are built on an old system, in a container, for new ones.

# %% id="glibc-run"
versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", " ".join(ours))}
print(
    "needs glibc", *(".".join(map(str, max(versions))) if versions else "of no version",), sep=" "
)
if not MAC:
    dump = ["readelf", "-d", str(package / "_C.so")]
    needed = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    print("and the libraries", *re.findall(r"\(NEEDED\).*\[(.*?)\]", needed))

# %% [markdown] id="install"
# ## Install it, and ask too early
# A fresh process, with the unpacked wheel on its path. It asks `torch.ops` for the operator before
# anybody has imported the package. What does it get?

# %% id="install-guess"
predict("operator_before_the_import", choices=["the operator", "None", "an AttributeError"])

# %% id="install-run"
installed = here / "site-packages"
zipfile.ZipFile(wheel).extractall(installed)


def in_child(code):
    """What a fresh Python with the wheel installed prints, and how it ends."""
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "ignore", "-c", "import torch\n" + code]
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return done.stdout, done.returncode


said, _ = in_child("""
def ask():
    try:
        return str(torch.ops.headloss.token_loss)
    except AttributeError as error:
        return "AttributeError: " + str(error)
print(ask())
import headloss
print(ask())
z, t = torch.randn(5, 600), torch.arange(5)
want = torch.nn.functional.cross_entropy(z, t, reduction="none")
print("right:", torch.allclose(headloss.token_loss(z, t), want, atol=1e-5))
import multiprocessing
for way in ("fork", "spawn"):
    with multiprocessing.get_context(way).Pool(1) as pool:
        has = "hasattr(__import__('torch').ops.headloss, 'token_loss')"
        print("a worker by", way, "has it:", pool.apply(eval, (has,)))
""")
print(said)
first = said.splitlines()[0]
reveal("operator_before_the_import", "an AttributeError" if "Attr" in first else "the operator")

# %% [markdown] id="install-why"
# An operator exists in a process from the moment its library is loaded, and in no other. So these
# depend on who imported what first: a program that uses `torch.ops.headloss` and relies on another
# module's import; a saved graph with this operator; a rank, which is a new process. A data loader's
# worker is a copy of its parent under `fork`, and has what the parent had loaded; under `spawn` it
# begins anew. The cure stands in the module above: code asks the *package* for the function, and
# the package loads the library when it is imported.

# %% [markdown] id="twice"
# ## Load it twice
# In notebooks modules are imported again, and in large programs two packages may bring the same
# library. We load the installed file a second time; and then a copy of it, as a second package
# would bring it. What does the copy do?

# %% id="twice-guess"
predict("a_copy_of_the_library", choices=["nothing", "raises an exception", "ends the process"])

# %% id="twice-run"
library = installed / "headloss" / "_C.so"
copy, renamed = here / "copy.so", here / "renamed.so"
copy.write_bytes(library.read_bytes())
renamed.write_bytes(library.read_bytes().replace(b"headloss\0", b"headlos2\0"))
ends = {}
for name, second in {"the same file": library, "a copy": copy, "renamed": renamed}.items():
    said, code = in_child(f"""
import headloss
try:
    torch.ops.load_library({str(second)!r})
    print("loaded,", headloss.token_loss)
except Exception as error:
    print("raised", type(error).__name__)
""")
    does = "nothing" if said.startswith("loaded") else "raises an exception"
    ends[name] = "ends the process" if code else does
    print(f"{name:14}", said.strip() or f"the process ended with {code}")

# %% id="twice-reveal"
reveal("a_copy_of_the_library", ends["a copy"])

# %% [markdown] id="twice-why"
# The loader knows the same file again, and does nothing. A copy is another file, so its
# constructors run, and define the namespace `headloss` a second time. In the third row only the
# namespace differs, in the same bytes, and the crash is gone. But why a crash, and no exception? In
# Python a second owner gets one. In C++ we ask for the namespace as the header does, and look at
# what comes back:

# %% id="twice-refusal"
SECOND = """#include <torch/csrc/stable/library.h>
#include <cstdio>
__attribute__((constructor)) static void begin() {  // the loader calls it
  TorchLibraryHandle made = nullptr;
  int code = aoti_torch_library_init_def("headloss", __FILE__, __LINE__, &made);
  std::printf("in C++: code %d, and %s\\n", code, made ? "a library" : "no library");
  std::fflush(stdout);
}
"""
build(SECOND, here / "second.so")
said, _ = in_child(f"""
import headloss
try:
    torch.library.Library("headloss", "DEF")
except RuntimeError as error:
    print("in Python:", str(error).split(". ")[0])
torch.ops.load_library({str(here / "second.so")!r})
print("and the process goes on")
""")
print(said)

# %% [markdown] id="twice-cure"
# No exception crosses the stable ABI: torch's function returns an error code, and no library. Here
# we read the code, and nothing breaks. The header's constructor
# [does not](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/stable/library.h#L36-L49),
# and defines its operator in a library that is not there.
#
# One namespace, one library, named like the package. Who wants to add operators to somebody's
# namespace uses `STABLE_TORCH_LIBRARY_FRAGMENT`
# ([`library.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/stable/library.h#L355-L376)).

# %% [markdown] id="constructor"
# ## What runs when a library is loaded
# A library may name functions that the loader calls before it returns. This is how
# `STABLE_TORCH_LIBRARY` registers an operator without being called, and nothing limits what such a
# function does. Ours counts. We load it, and call nothing of it. How far has it counted?

# %% id="constructor-guess"
predict("counted_before_any_call", choices=[0, 1])

# %% id="constructor-run"
COUNTS = """static int ran = 0;
__attribute__((constructor)) static void begin() { ran += 1; }
extern "C" int how_often() { return ran; }
"""
counted = {}
for name, source in {
    "with": COUNTS,
    "free_of": COUNTS.replace("__attribute__((constructor))", ""),
}.items():
    compile_shared(source, here / f"{name}.so", name="counts.cpp", flags=[])
    counted[name] = ctypes.CDLL(str(here / f"{name}.so")).how_often()
print(counted)
reveal("counted_before_any_call", counted["with"])

# %% [markdown] id="constructor-why"
# The function ran before any call. So `import` of a wheel, `torch.ops.load_library(path)` ([a
# `dlopen`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_ops.py#L1510-L1519)) and a build
# from source all run what its author wrote, with your rights, and no sandbox stands between. No
# check of the *operator* comes early enough. What can be checked before is the file:

# %% id="pin"
pinned = hashlib.sha256(wheel.read_bytes()).hexdigest()
print(f"headloss==0.1.0 --hash=sha256:{pinned[:16]}...")
touched = bytearray(wheel.read_bytes())
touched[200] ^= 1  # one bit
print("after one bit:  ", "refused" if hashlib.sha256(touched).hexdigest() != pinned else "taken")

# %% [markdown] id="pin-why"
# `pip install --require-hashes` compares before it unpacks. A hash says that this is the file which
# somebody looked at; it does not say that anybody did. A path for `load_library` that comes from a
# configuration, an archive or a request is code from there. And a file in a directory that others
# can write may have changed since you looked.

# %% [markdown] id="schema"
# ## The schema is the contract
# Callers pass arguments by position and by name, and some calls were written down long ago: in
# saved graphs and on other machines. torch's own operators keep a rule for that, which torch checks
# on the old and the new schema
# ([`function_schema.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/core/function_schema.h#L286)).
# Four edits of ours. A new argument without a default breaks every call that was written before.
# Which of the other three breaks some?

# %% id="schema-guess"
predict(
    "breaks_old_calls",
    choices=["a new argument with a default", "t may be None", "t is now called target"],
)

# %% id="schema-run"
OLD = "token_loss(Tensor z, Tensor t) -> Tensor"
EDITS = {
    "a new argument with a default": "token_loss(Tensor z, Tensor t, float cap=0.0) -> Tensor",
    "a new argument without": "token_loss(Tensor z, Tensor t, float cap) -> Tensor",
    "t may be None": "token_loss(Tensor z, Tensor? t) -> Tensor",
    "t is now called target": "token_loss(Tensor z, Tensor target) -> Tensor",
}
parse = torch._C.parse_schema
for edit, new in EDITS.items():
    keeps = parse(new).is_backward_compatible_with(parse(OLD))
    print(f"{'keeps' if keeps else 'BREAKS':7} {edit}")


# %% [markdown] id="schema-calls"
# Is the rule right? We register each edit under a namespace of its own, and make the calls that
# people have made: by position, and by name.

# %% id="schema-calls-run"
defined = []  # a Library has to live as long as its operators


def outcome_of(op, *given, **named):
    try:
        op(*given, **named)
        return "works"
    except (RuntimeError, TypeError) as error:
        return "fails:" + str(error).splitlines()[0].partition("token_loss()")[2][:60]


broke = []
z, t = torch.randn(2, 3), torch.tensor([0, 1])
for edit, new in EDITS.items():
    defined.append(torch.library.Library(f"edit{len(defined)}_{time.time_ns()}", "DEF"))
    defined[-1].define(new)
    defined[-1].impl("token_loss", lambda z, *_: z.sum(1), "CompositeExplicitAutograd")
    op = getattr(torch.ops, defined[-1].ns).token_loss
    calls = [outcome_of(op, z, t), outcome_of(op, z=z, t=t)]
    broke += [edit] * any(call != "works" for call in calls)
    print(f"{edit}\n    by position {calls[0]}\n    by name     {calls[1]}")

# %% id="schema-reveal"
reveal("breaks_old_calls", next(edit for edit in broke if "argument" not in edit))

# %% [markdown] id="schema-why"
# Old calls must go on, and mean the same. What torch's rule looks at is the schema; whether the
# *numbers* mean the same, no parser sees. A change that keeps old calls is a minor version, one
# that breaks them a major one, one that leaves the contract alone a patch. There is a second
# direction: a graph that was saved with the *new* package and runs with the old one.
# `check_forward_compatible_with` asks this, and has rules of its own:

# %% id="schema-forward"
for edit, new in EDITS.items():
    forward, why = parse(new).check_forward_compatible_with(parse(OLD))
    print(f"{forward!s:6} {edit}  {why[:60]}")

# %% [markdown] id="deprecation"
# ## Take something away, slowly
# A name that shall go stays for a while: it does what it did, and says what to use instead. Where
# the warning points decides whether anybody acts on it. `stacklevel=2` names the caller's line; the
# default names the package, which the caller cannot change.

# %% id="deprecation-run"
SHIM = """
import warnings
def row_loss(z, t, level):
    warnings.warn("use token_loss; row_loss goes in 0.4", FutureWarning, stacklevel=level)
"""
shim = {"__name__": "headloss"}
exec(compile(SHIM, "headloss/__init__.py", "exec"), shim)
for level in (1, 2):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        shim["row_loss"](None, None, level)
    place = Path(said[0].filename)
    print(
        f"stacklevel={level}: the line is in",
        "the package" if place.parent.name == "headloss" else "the call",
    )

# %% [markdown] id="tolerance"
# ## How wrong may a right kernel be?
# A test that says `atol=1e-3` because 1e-4 failed once has a number without a reason: it may fail
# for a right kernel and pass a wrong one. Here is a right one and a wrong one, each in float32,
# held against `torch.testing.assert_close` and its defaults. Which verdicts do you expect?

# %% id="tolerance-guess"
predict(
    "assert_close_on_both",
    choices=["right passes, wrong fails", "both pass", "right fails, wrong passes"],
)

# %% id="tolerance-run"
torch.manual_seed(0)
long_x, long_w = torch.randn(16, 4096), torch.randn(600, 4096)
small = F.softmax(torch.randn(16, 600), 1) / 1000  # like a gradient of a mean over 1,000 tokens
cases = {
    "right: a product of length 4096": (long_x @ long_w.T, long_x.double() @ long_w.double().T),
    "wrong: kept in bfloat16 on the way": (small.bfloat16().float(), small.double()),
}
verdicts = []
for name, (got, true) in cases.items():
    error = (got.double() - true).abs()
    try:
        torch.testing.assert_close(got, true.float())
        verdicts.append("passes")
    except AssertionError:
        verdicts.append("fails")
    relative = (error.max() / true.abs().max()).item()
    print(
        f"{name:36} {verdicts[-1]:7} largest error {error.max():.1e}, {relative:.0e} of the largest"
    )

# %% id="tolerance-reveal"
right, wrong = verdicts
both = "both pass" if right == wrong == "passes" else "right passes, wrong fails"
reveal(
    "assert_close_on_both",
    "right fails, wrong passes" if (right, wrong) == ("fails", "passes") else both,
)

# %% [markdown] id="tolerance-why"
# The
# [defaults](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/testing/_comparison.py#L83-L90)
# know the dtype. They know neither the length of the sum nor the size of the numbers: 1e-5 is
# little beside a logit of 10, and everything beside a gradient of 1e-5. A tolerance that holds has
# to be computed from the inputs.

# %% [markdown] id="bound"
# ## Derive it
# One operation rounds by at most *u*, half the distance of neighbouring numbers: `eps / 2`, if
# nothing underflows. A sum of K products, added in any order, is off by at most K u / (1 - K u)
# times the sum of the products' *absolute values* ([Higham, chapter
# 3](https://doi.org/10.1137/1.9780898718027)). The head has K = 64 products and a bias, so 65
# terms, added in float32; the result is rounded once more, to the dtype of the output. Inputs that
# were rounded before are the inputs: both sides get the same.


# %% id="bound-run"
def bound(x, w, b, added_in=torch.float32):
    """How far each logit (N, V) of a right kernel may be from float64's, given these inputs."""
    x64, w64, b64 = (one.detach().double() for one in (x, w, b))
    u_sum, u_out = torch.finfo(added_in).eps / 2, torch.finfo(x.dtype).eps / 2
    terms = w.shape[1] + 1
    gamma = terms * u_sum / (1 - terms * u_sum)
    size = x64.abs() @ w64.abs().T + b64.abs()  # (N, V)
    z = x64 @ w64.T + b64
    return z, gamma * size + u_out * (z.abs() + gamma * size)


# %% [markdown] id="measured"
# ## And hold kernels against it
# Three kernels in each dtype: torch's own; one that adds in the dtype of its inputs; one that drops
# the last of the 64 features. The number is the largest error, as a multiple of what is allowed.
# What do you expect for torch's own in bfloat16?

# %% id="measured-guess"
predict("error_over_bound", choices=["below 0.01", "between 0.1 and 1", "above 1"])


# %% id="measured-run"
def added_in_its_dtype(x, w, b):
    z = b.expand(len(x), len(w))
    for k in range(w.shape[1]):
        z = z + x[:, k : k + 1] * w[:, k]
    return z


kernels = {
    "torch's own": F.linear,
    "adds in its dtype": added_in_its_dtype,
    "drops a feature": lambda x, w, b: F.linear(x[:, :-1], w[:, :-1], b),
}
share = {}
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    given = [one.detach().to(dtype) for one in (x, W, b)]
    true, allowed = bound(*given)
    for name, kernel in kernels.items():
        error = (kernel(*given).double() - true).abs()
        share[name, dtype] = (error / allowed).max().item()
    print(f"{dtype!s:15}", *(f"{name} {share[name, dtype]:.3g}  " for name in kernels), end="")
    last = (torch.finfo(dtype).eps / 2 * true.abs() / allowed).median()
    print(f"| the last rounding is {last:.0%} of what is allowed")

# %% id="measured-reveal"
at = share["torch's own", torch.bfloat16]
reveal(
    "error_over_bound", "below 0.01" if at < 0.01 else "above 1" if at > 1 else "between 0.1 and 1"
)

# %% [markdown] id="measured-why"
# In bfloat16 the last rounding is nearly all of the error, and it does come close to its worst
# case: nothing can be taken off the bound. In float32 the sum decides, and it stays far below: a
# bound is no estimate. Two things make it smaller. Its roundings are seldom as large as they may
# be, and they cancel. How much does each do? We add one product after the other, keep every
# rounding, and add the roundings up, first without their signs:

# %% id="measured-cause"
with torch.no_grad():
    true, allowed = bound(x, W, b)
    z, unsigned, signed = b.expand(len(x), 600), torch.zeros(()), torch.zeros(())
    for k in range(64):
        product = x[:, k : k + 1] * W[:, k]
        of_product = product.double() - x[:, k : k + 1].double() * W[:, k].double()
        before, z = z, z + product
        of_sum = z.double() - (before.double() + product.double())
        unsigned = unsigned + of_product.abs() + of_sum.abs()
        signed = signed + of_product + of_sum
for name, roundings in (("without signs", unsigned), ("as they fell", signed.abs())):
    part = roundings / allowed
    print(f"roundings {name:14} largest {part.max():.3f}, median {part.median():.3f} of the bound")

# %% [markdown] id="measured-policy"
# Both count. The kernel that adds in bfloat16 is caught there, and not in float32, where it is
# right. A policy is then one sentence: *fp64 truth from the same inputs, the bound above, no other
# number; a kernel that needs more says why.* For what has no bound that one can write down, ask
# that it be no worse than the ordinary path's own error.

# %% [markdown] id="matrix"
# ## What to test, if you cannot test everything
# Our wheel claims five releases of torch, three of Python, four dtypes, two layouts, compiled or
# not, gradients or not, and N of five kinds. All combinations are the product of these numbers.
# Most faults show at *one* value of these, or at *two* together ([Kuhn, Wallace and Gallo counted
# them](https://doi.org/10.1109/TSE.2004.24)): float16 on 2.11, a transposed input under the
# compiler. How many runs cover every pair of values?

# %% id="matrix-guess"
predict("runs_for_every_pair", choices=["about 25 to 35", "about 100", "about 1,000"])

# %% id="matrix-run"
AXES = {
    "torch": ("2.11", "2.12", "2.13", "2.14", "2.15"),
    "python": ("3.11", "3.12", "3.13"),
    "dtype": ("float64", "float32", "bfloat16", "float16"),
    "layout": ("contiguous", "transposed"),
    "mode": ("eager", "compiled"),
    "gradient": (True, False),
    "N": (0, 1, 7, 64, 1000),
}
every = list(itertools.product(*AXES.values()))


def parts(run, size):
    """All `size` values that a run has together, with their axes."""
    return set(itertools.combinations(enumerate(run), size))


def chosen(runs):
    """Greedily: each time the run with most pairs that no run before it had."""
    left, taken = set().union(*(parts(run, 2) for run in runs)), []
    while left:
        best = max(runs, key=lambda run: len(parts(run, 2) & left))
        taken.append(best)
        left -= parts(best, 2)
    return taken


small_matrix = chosen(every)
print(f"{len(every):,} combinations, {len(small_matrix)} runs have every pair; the first three:")
print(*small_matrix[:3], sep="\n")
reveal(
    "runs_for_every_pair",
    next(
        word
        for word, most in {"about 25 to 35": 45, "about 100": 300, "about 1,000": 9_999}.items()
        if len(small_matrix) <= most
    ),
)

# %% [markdown] id="matrix-why"
# There cannot be fewer than the two longest axes need, 5 times 5. What do we give up? We plant
# every possible fault that needs one value, two or three, and count how many of them some run
# meets. Beside it stands a habit with fewer runs: a favourite, and one axis changed at a time.


# %% id="matrix-faults"
def met(runs, size):
    """The share of all faults of `size` values that at least one run has."""
    possible = set().union(*(parts(run, size) for run in every))
    return len(set().union(*(parts(run, size) for run in runs))) / len(possible)


favourite = tuple(values[0] for values in AXES.values())
changed = [
    (*favourite[:axis], value, *favourite[axis + 1 :])
    for axis, values in enumerate(AXES.values())
    for value in values
]
habit = list(dict.fromkeys(changed))
plans = {"every pair": small_matrix, "one axis": habit}
bars = {
    f"{name}, {len(runs)} runs, faults of {size}": 100 * met(runs, size)
    for size in (1, 2, 3)
    for name, runs in plans.items()
}
onelayer.show_bars(bars, unit="% met")

# %% [markdown] id="first-evening-ends"
# ## The first evening ends here
# You can build a wheel, read what it asks for, change a schema without breaking callers, derive a
# tolerance and choose what to test. That stands alone, with questions 12.1 to 12.4 of the lab. The
# second evening follows the head's loss from its file into a training step.

# %% [markdown] id="capstone"
# ## The capstone
# `onelayer.kernels.chunked.chunked_head_loss` is the loss of the head without its logits in memory.
# A few rows at a time it makes logits, loss and gradients, and lets the logits go. Its options are
# those that users of fused losses expect. Each is a term of the loss, so each can be written down
# in float64 and held against it:

# %% id="capstone-run"
from onelayer.kernels.chunked import chunked_head_loss

x64, w64, b64 = (one.detach().double().requires_grad_() for one in (x, W, b))
with_ignored = target.clone()
with_ignored[::3] = -100
z64 = F.linear(x64, w64, b64)
counts, pair = with_ignored != -100, F.cross_entropy
each = torch.linspace(0.5, 2, 600, dtype=torch.float64)  # a weight for each word
rows, sentences = x64.view(3, 4, 64), with_ignored.view(3, 4)
plain = (x64, w64, b64, with_ignored)
cases = {
    "ignore_index": ((plain, {}), pair(z64, with_ignored)),
    "reduction": ((plain, {"reduction": "sum"}), pair(z64, with_ignored, reduction="sum")),
    "label_smoothing": (
        (plain, {"label_smoothing": 0.1}),
        pair(z64, with_ignored, label_smoothing=0.1),
    ),
    "weight": ((plain, {"weight": each}), pair(z64, with_ignored, weight=each)),
    "z_loss": (
        (plain, {"z_loss": 0.1}),
        pair(z64, with_ignored) + 0.1 * z64.logsumexp(1)[counts].square().mean(),
    ),
    "softcap": ((plain, {"softcap": 8.0}), pair(8 * (z64 / 8).tanh(), with_ignored)),
    "no bias": (((x64, w64, None, with_ignored), {}), pair(x64 @ w64.T, with_ignored)),
    "shift, (B, T, D)": (
        ((rows, w64, b64, sentences), {"shift": True}),
        pair(F.linear(rows[:, :-1], w64, b64).flatten(0, 1), sentences[:, 1:].flatten()),
    ),
}

# %% id="capstone-held"
for name, ((given, options), true) in cases.items():
    ours = chunked_head_loss(*given, **options)
    leaves = [leaf for leaf in (x64, w64, b64) if name != "no bias" or leaf is not b64]
    wanted = torch.autograd.grad(true, leaves, retain_graph=True)
    made = torch.autograd.grad(ours, leaves)
    apart = max((g - t).abs().max().item() for g, t in zip(made, wanted, strict=True))
    off = abs(ours - true).item()
    print(f"{name:16} loss {ours.item():8.4f}, off by {off:.0e}, gradients off by {apart:.0e}")

# %% [markdown] id="options"
# ## Where an option enters the gradient
# All terms are functions of the logits, and the chain of chapter 03 does the rest: what a term
# gives to dz is its derivative by the *log-sum-exp* times the softmax, by the target's logit at one
# place, and by the logits themselves for what counts every word. One pair of derivatives carries
# it: which vector is the gradient of `logsumexp`?

# %% id="options-guess"
predict("gradient_of_logsumexp", choices=["one-hot of the largest", "the softmax", "the logits"])

# %% id="options-run"
z = torch.randn(600, dtype=torch.float64, requires_grad=True)
(made,) = torch.autograd.grad(z.logsumexp(0), z)
candidates = {
    "one-hot of the largest": F.one_hot(z.argmax(), 600).double(),
    "the softmax": z.softmax(0),
    "the logits": z.detach(),
}
capped = 8 * (z / 8).tanh()
(slope,) = torch.autograd.grad(capped.sum(), z)
print(
    "a cap scales dz by 1 at 0 and by",
    f"{slope[z.abs().argmax()].item():.2f}",
    "at the largest logit",
)
reveal("gradient_of_logsumexp", next(n for n, c in candidates.items() if made.allclose(c)))

# %% [markdown] id="operator"
# ## Ship it as an operator
# `onelayer/kernels/head_operator.py` gives the loss a name, a schema, a fake and a gradient. The
# course's own package is the wheel, and importing the module registers it. Its five results are the
# loss, three gradients that are not yet divided by the number of tokens, and what to divide by:
# chapter 10 says why that waits until backward.

# %% id="operator-run"
from onelayer.kernels.head_operator import head_loss

operator = torch.ops.onelayer.head_loss.default
print(operator._schema)
few = [x64[:3, :6], w64[:8, :6], b64[:8]]  # gradcheck moves each number, twice
few = [one.detach().clone().requires_grad_() for one in few]
asked_for = torch.tensor([0, 7, -100])
print("gradcheck:", torch.autograd.gradcheck(lambda *a: head_loss(*a, asked_for, softcap=8.0), few))
plain = tuple(one.detach() for one in (x, W, b))
for given in (
    tuple(one.clone().requires_grad_() for one in plain),
    tuple(p.bfloat16() for p in plain),
):
    print(torch.library.opcheck(operator, (*given, target)))

# %% [markdown] id="one-node"
# ## One node
# torch.compile can look into `chunked_head_loss`: it is Python and torch, and runs with
# `fullgraph=True`. Why then an operator? The loop over chunks of 384 rows is a loop in Python, and
# a graph has none. Count the nodes of both forward graphs at 256 rows, which are one chunk, and at
# 1,024, which are three:

# %% id="one-node-run"
from functorch.compile import aot_function


def nodes(loss, rows):
    """How many operators the forward graph has under AOTAutograd."""
    found = []

    def count(graph, _):
        found.append(sum(node.op == "call_function" for node in graph.graph.nodes))
        return graph

    def of(x, w, b):
        return loss(x, w, b, torch.zeros(rows, dtype=torch.long))

    leaves = [torch.randn(rows, 64), *plain[1:]]
    aot_function(of, fw_compiler=count, bw_compiler=lambda graph, _: graph)(
        *(leaf.requires_grad_() for leaf in leaves)
    )
    return found[0]


table = {rows: (nodes(chunked_head_loss, rows), nodes(head_loss, rows)) for rows in (256, 1024)}
for rows, (looked_into, one) in table.items():
    print(f"{rows:5} rows: {looked_into:4} nodes looked into, {one} as an operator")
whole = torch.compile(head_loss, backend="aot_eager", fullgraph=True)
print(
    "fullgraph:", whole(x, W, b, target).item(), "eager:", F.cross_entropy(head(x), target).item()
)

# %% [markdown] id="one-node-why"
# Looked into, each chunk brings its own nodes, and more rows make a longer graph to compile. The
# operator brings the same few nodes for any number of rows.

# %% [markdown] id="autocast"
# ## Under autocast
# Autocast gives a Linear bfloat16, and gives `F.cross_entropy` float32. A fused operator is both at
# once. Ours casts its inputs as a Linear's, keeps logits and sums in float32, and returns float32.
# The ordinary pair rounds the logits in between. Whose loss is nearer to float64's of the *same*
# bfloat16 inputs?

# %% id="autocast-guess"
predict("nearer_to_float64", choices=["the ordinary pair", "the fused loss", "equally near"])

# %% id="autocast-run"
rows = torch.cat([x] * 20)
targets = torch.cat([target] * 20)
shortened = [one.detach().bfloat16().double() for one in (rows, W, b)]
true = F.cross_entropy(F.linear(*shortened), targets).item()
with torch.autocast("cpu", torch.bfloat16):
    pair = F.cross_entropy(F.linear(rows, W, b), targets)
    fused = head_loss(rows, W, b, targets)
off = {"the ordinary pair": abs(pair.item() - true), "the fused loss": abs(fused.item() - true)}
print({name: f"{error / true:.1e}" for name, error in off.items()}, pair.dtype, fused.dtype)
kept = F.cross_entropy(F.linear(*(one.float() for one in shortened)), targets)
print(f"the pair with its logits in float32: {abs(kept.item() - true) / true:.1e}")
reveal("nearer_to_float64", min(off, key=off.get))

# %% [markdown] id="training-step"
# ## In the training step of the model
# One batch of 64 sentences. Words after the end of a sentence have no target and count for nothing.
# The loss moves *into* the model's forward: it needs the head's weight and not its output. First
# the gradients of one step, then twelve steps of training from weights that were shaken.

# %% id="training-step-run"
from onelayer.model.gpt import trained
from onelayer.model.grammar import split
from onelayer.model.train import batches


class Trainee(nn.Module):
    """The grammar model with its loss: words (B, T), targets (B, T) -> ()."""

    def __init__(self, fused):
        super().__init__()
        self.model, self.fused = trained(), fused

    def forward(self, words, targets, **options):
        states, layer = self.model.hidden(words).flatten(0, 1), self.model.head  # (B T, D)
        if self.fused:
            return chunked_head_loss(states, layer.weight, layer.bias, targets.flatten(), **options)
        return F.cross_entropy(layer(states), targets.flatten(), **options)


threads = torch.get_num_threads()
torch.set_num_threads(1)  # for matrices so small a second one costs more than it brings
words, targets = next(batches(split(0).train, size=64, seed=0))
grads, losses = {}, {}
for fused in (False, True):
    trainee = Trainee(fused)
    losses[fused] = trainee(words, targets)
    losses[fused].backward()
    grads[fused] = {name: p.grad for name, p in trainee.named_parameters()}
worst = max((grads[True][n] - g).norm() / g.norm().clamp(min=1e-8) for n, g in grads[False].items())
print(f"loss {losses[False].item():.6f} and {losses[True].item():.6f}")
print(f"{len(grads[True])} gradients, apart by at most {worst.item():.0e} of their length")

# %% id="training-run"
curves = {}
for fused in (False, True):
    trainee, stream = Trainee(fused), batches(split(0).train, size=64, seed=1)
    generator = torch.Generator().manual_seed(0)
    for p in trainee.parameters():
        p.data.add_(torch.randn(p.shape, generator=generator), alpha=0.1)  # forget a good part
    optimizer = torch.optim.AdamW(trainee.parameters(), lr=1e-3)
    curves["fused" if fused else "ordinary"] = values = []
    for batch in itertools.islice(stream, 12):
        optimizer.zero_grad()
        loss = trainee(*batch)
        loss.backward()
        optimizer.step()
        values.append(loss.item())
onelayer.show_curves(curves, step="step", unit="loss")

# %% [markdown] id="ddp"
# ## On two ranks
# Under DDP each rank takes 32 sentences, and gradients are averaged. Chapter 11: the mean of the
# parts' means is the mean *if the parts are equally long*. These parts have equally many sentences.
# Is the gradient that of the whole batch?

# %% id="ddp-guess"
predict("ddp_with_ignored_words", choices=["the same", "off a little", "zero"])


# %% id="ddp-run"
def on_two_ranks(words, targets, divide):
    rank, n = dist.get_rank(), dist.get_world_size()
    mine = targets.chunk(n)[rank]
    model = nn.parallel.DistributedDataParallel(Trainee(fused=True))
    with onelayer.record_collectives() as log:
        if divide == "each its own":
            loss = model(words.chunk(n)[rank], mine)
        else:
            count = (mine != -100).sum()
            dist.all_reduce(count)
            loss = model(words.chunk(n)[rank], mine, reduction="sum") * n / count
        loss.backward()
    return model.module.model.head.weight.grad, (mine != -100).sum().item(), log


order = (targets != -100).sum(1).argsort()  # the long sentences meet on one rank
whole = grads[True]["model.head.weight"]
apart = {}
for divide in ("each its own", "by all ranks'"):
    (grad, ones, ddp_log), (_, others, other_log) = onelayer.run_ranks(
        2, on_two_ranks, words[order], targets[order], divide
    )
    apart[divide] = ((grad - whole).norm() / whole.norm()).item()
    print(f"divided {divide:13} count ({ones} and {others} words): off by {apart[divide]:.0e}")
onelayer.show_timeline([ddp_log, other_log])

# %% id="ddp-reveal"
reveal("ddp_with_ignored_words", "the same" if apart["each its own"] < 1e-4 else "off a little")

# %% [markdown] id="ddp-why"
# The gradient is off, and nothing raises. The cause is the count: with the sum of the losses,
# divided by the words of *all* ranks, it is gone. The factor `n` undoes DDP's average. A loss that
# is to be used under DDP needs its sum, or its mean times its count, for this reason.

# %% [markdown] id="vocabulary"
# ## With the vocabulary in slices
# Cut by words, each of four ranks has 150 of the 600 columns, and none may see a whole row. What
# has to be known of a slice, to have the log-sum-exp of the row? Try it in one process: is there a
# number per slice from which the whole can be made?

# %% id="vocabulary-guess"
predict("lse_from_slices", choices=["their sum", "their maximum", "their log-sum-exp"])

# %% id="vocabulary-run"
z = head(x).detach()
of_slices = torch.stack([piece.logsumexp(1) for piece in z.chunk(4, dim=1)])  # (4, N)
joined = {
    "their sum": of_slices.sum(0),
    "their maximum": of_slices.amax(0),
    "their log-sum-exp": of_slices.logsumexp(0),
}
reveal(
    "lse_from_slices", next(n for n, j in joined.items() if j.allclose(z.logsumexp(1), atol=1e-4))
)


# %% [markdown] id="vocabulary-ranks"
# ## Four ranks, one loss
# torch's own `loss_parallel` sends what chapter 11 counted: three numbers per row. Here it is
# beside the fused loss of the whole. The gradient of a slice needs no more: softmax minus one-hot,
# with the row's log-sum-exp, of its own 150 words.


# %% id="vocabulary-ranks-run"
def in_slices():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, loss_parallel, parallelize_module

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    layer = parallelize_module(onelayer.head(), mesh, ColwiseParallel(use_local_output=False))
    with loss_parallel(), onelayer.record_collectives() as log:
        loss = F.cross_entropy(layer(x), target)
        loss.backward()
    return loss.to_local().item(), layer.weight.grad.to_local(), log


ranks = onelayer.run_ranks(4, in_slices)
fused_head = onelayer.head()
fused_loss = chunked_head_loss(x, fused_head.weight, fused_head.bias, target)
fused_loss.backward()
together = torch.cat([grad for _, grad, _ in ranks])
print(f"in slices {ranks[0][0]:.6f}, fused {fused_loss.item():.6f}")
print(
    "the slices' gradients are the fused one's:",
    together.allclose(fused_head.weight.grad, atol=1e-6),
)
per_row = sum(c.bytes for c in ranks[0][2].collectives) // 4 // len(x)
print("numbers per row, forward and backward:", per_row)

# %% [markdown] id="time"
# ## What it costs
# 16,384 rows, forward and backward, one thread, the processor's time. The peers take turns, the
# first turn is not counted, the least of four counts, and the ratio is against the ordinary pair in
# this run. Memory is the most that torch's operators held at once. How many times as fast is the
# fused loss as the ordinary pair?

# %% id="time-guess"
predict("fused_against_ordinary", choices=["slower", "1 to 1.5 times", "more than 1.5 times"])

# %% id="time-run"
N = 16_384
many, many_t = torch.randn(N, 64, requires_grad=True), torch.randint(600, (N,))
peers = {"ordinary": lambda x, w, b, t: F.cross_entropy(F.linear(x, w, b), t)}
peers["fused"], peers["fused, operator"] = chunked_head_loss, head_loss
if hasattr(nn, "LinearCrossEntropyOptions"):
    own_options = nn.LinearCrossEntropyOptions()
    peers["torch's own"] = lambda x, w, b, t: F.linear_cross_entropy(
        x, w, t, linear_bias=b, options=own_options
    )
else:
    print("torch", torch.__version__, "has no linear_cross_entropy: 2.13 has")


def step_ms(loss):
    for leaf in (many, W, b):
        leaf.grad = None
    began = time.thread_time()
    loss(many, W, b, many_t).backward()
    return (time.thread_time() - began) * 1e3


turns = [{name: step_ms(loss) for name, loss in peers.items()} for _ in range(5)][1:]
ms = {name: min(turn[name] for turn in turns) for name in peers}
held = {}
for name, loss in peers.items():
    with onelayer.peak_bytes() as peak:
        step_ms(loss)
    held[name] = peak.bytes
for name in peers:
    print(
        f"{name:16} {ms['ordinary'] / ms[name]:5.2f} x"
        f"   {held[name] / held['ordinary']:6.1%} of the bytes"
    )

# %% id="time-reveal"
ratio = ms["ordinary"] / ms["fused"]
reveal(
    "fused_against_ordinary",
    "slower" if ratio < 1 else "1 to 1.5 times" if ratio <= 1.5 else "more than 1.5 times",
)

# %% [markdown] id="time-cause"
# ## Why is it faster?
# The fused loss holds two tables of 384 rows, and the ordinary pair three of 16,384. It is
# tempting to say that fewer bytes move. Chapters 07 and 08 knew another candidate: new pages of
# memory. Take them away: `malloc` keeps what is freed. How much of the lead is left?

# %% id="time-cause-guess"
predict("lead_without_page_faults", choices=["all of it", "about a half", "little or nothing"])


# %% id="time-cause-run"
def ms_and_faults(loss):
    """The least of four turns in ms, and the page faults of that turn."""
    seen = []
    for _ in range(5):
        with onelayer.count_page_faults() as faults:
            spent = step_ms(loss)
        seen.append((spent, faults.count))
    return min(seen[1:])


pages = {}
for state in ("as found", "memory kept"):
    if state == "memory kept" and not keep_freed_memory():
        print("This machine's allocator cannot be told to keep memory: both are the same case.")
    for name in ("ordinary", "fused"):
        pages[state, name] = ms_and_faults(peers[name])
        print("{:12} {:9} {:6.1f} ms {:>7,} page faults".format(state, name, *pages[state, name]))

# %% id="time-cause-reveal"
was, now = (pages[s, "ordinary"][0] / pages[s, "fused"][0] for s in ("as found", "memory kept"))
print(f"ordinary against fused: {was:.2f} x as found, {now:.2f} x with memory kept")
left = (now - 1) / (was - 1) if was > 1.05 else 1.0
near = {1.0: "all of it", 0.5: "about a half", 0.0: "little or nothing"}
reveal("lead_without_page_faults", near[min(near, key=lambda share: abs(share - left))])

# %% [markdown] id="time-cause-why"
# Compare the two ratios. What went away with the faults was theirs, on this kind of machine about
# half of the lead. What is left, this run does not tell apart: the ordinary pair goes over its
# tables more often, and takes each exponential twice, forward and
# [backward](https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/cpu/SoftMaxKernel.cpp).
# So say of this loss on a CPU: *it needs less memory*, and it is faster, half of that where memory
# has to be fetched anew. On a GPU torch keeps freed memory itself, and under
# its roofline (chapter 07) it is bytes that limit the ordinary pair.

# %% [markdown] id="roofline"
# ## Is that good?
# Faster than eager is no measure: eager is slow. A floor is one. Three products of N V D
# multiply-adds cannot be avoided, nor can reading x and writing dx. We measure in this run how fast
# this machine multiplies and copies when it does nothing else, and divide.

# %% id="roofline-run"
a, copied = torch.randn(1024, 1024), torch.ones(2**24, dtype=torch.int8)


def least_ms(work):
    spans = []
    for _ in range(8):
        began = time.thread_time()
        work()
        spans.append((time.thread_time() - began) * 1e3)
    return min(spans)


flops_per_ms = 2 * 1024**3 / least_ms(lambda: a @ a)
bytes_per_ms = 2 * copied.nbytes / least_ms(copied.clone)
torch.set_num_threads(threads)
products_ms, traffic_ms = 6 * N * 600 * 64 / flops_per_ms, 2 * N * 64 * 4 / bytes_per_ms
floor_ms = max(products_ms, traffic_ms)
print(f"products {products_ms:.1f} ms, traffic {traffic_ms:.2f} ms: bound by", end=" ")
print("the products" if products_ms > traffic_ms else "memory")
onelayer.show_bars(
    {name: 100 * floor_ms / spent for name, spent in ms.items()}, unit="% of the floor"
)

# %% [markdown] id="roofline-why"
# What is missing to 100? There are two candidates: products of 384 rows are slower than those of a
# large square, and the exponentials of 600 words a row are in no count of multiply-adds. We run
# each alone, in the same chunks, and add them up.


# %% id="roofline-parts"
@torch.no_grad()
def products():
    for chunk in many.split(384):
        z = chunk @ W.T
        _ = z @ W, z.T @ chunk


@torch.no_grad()
def exponentials(z):
    for _ in many.split(384):
        z.softmax(1)


torch.set_num_threads(1)
own_parts = {
    "the floor": floor_ms,
    "products in chunks": least_ms(products),
    "softmax in chunks": least_ms(lambda: exponentials(torch.randn(384, 600))),
    "the fused loss": ms["fused"],
}
torch.set_num_threads(threads)
onelayer.show_bars(own_parts, unit="ms")

# %% [markdown] id="roofline-parts-why"
# Add the second and the third bar, and compare with the fourth: what is left is the loop, two
# maxima over each table, the bias and small sums.

# %% [markdown] id="on-an-h100"
# ## On an H100
# The same loss in bfloat16, forward and backward, as `make bench-gpu` measures it where there is a
# GPU. Before you look: is the fused one the fastest at every size?

# %% id="on-an-h100-guess"
predict("fused_wins_on_an_h100", choices=["at every size", "with many tokens only", "at no size"])

# %% id="on-an-h100-run"
h100 = onelayer.show_recording("head_loss_times").content
fastest = {}
for row in sorted(h100.rows, key=lambda row: -row.ms):
    fastest[row.tokens] = row.peer  # the last one to write is the fastest
print(fastest)
sizes = {n for n, peer in fastest.items() if peer == "triton"}
answers = {0: "at no size", len(fastest): "at every size"}
reveal("fused_wins_on_an_h100", answers.get(len(sizes), "with many tokens only"))

# %% [markdown] id="on-an-h100-why"
# With a million tokens the fused kernel in Triton takes 3.2 ms and 142 MiB, eager 8.3 ms and 3.5
# GiB. With 16,384, and still with 131,072, eager is ahead, and all of them are far from the floor.
# Our version in CUDA C++ takes as little memory and uses no tensor cores: 27 ms. What the small
# batch spends its time on, this table does not say; a trace on that GPU would.

# %% [markdown] id="whole-way"
# ## One training step, from Python to the network
# Here is everything at once: one step of the grammar model, and at each floor what this run shows
# of it. First the floors that this process can see.

# %% id="whole-way-measure"
from torch.utils._python_dispatch import TorchDispatchMode


class Seen(TorchDispatchMode):
    """The operators that arrive below autograd, and which of their results are views."""

    def __init__(self):
        super().__init__()
        self.names, self.views = [], 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        self.names.append(func._schema.name)
        self.views += func.is_view
        return made


def nodes_below(loss):
    """The nodes that backward will visit."""
    found, stack = set(), [loss.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node not in found:
            found.add(node)
            stack += [following for following, _ in node.next_functions]
    return len(found)


trainee = Trainee(fused=True)
with Seen() as seen:
    loss = trainee(words, targets)
    forward_ops = len(seen.names)
    graph_nodes = nodes_below(loss)
    loss.backward()
with onelayer.count_saved() as saved:
    trainee(words, targets)
with onelayer.peak_bytes() as peak:
    trainee(words, targets).backward()
with torch.autocast("cpu", torch.bfloat16), Seen() as cast:
    trainee(words, targets)
with torch.autograd.profiler.profile() as profiled:
    trainee(words, targets).backward()
longest = max(profiled.key_averages(), key=lambda event: event.self_cpu_time_total)

# %% [markdown] id="ptx"
# ## Down to PTX
# The same loss exists as a Triton kernel. Triton brings its own assembler, so a kernel for an H100
# can be compiled here, where there is none, in a process that does not interpret it.

# %% id="ptx-run"
PTX = """
import re
try:
    from onelayer.kernels.offline import compiled_kernels
    name, stages = next(iter(compiled_kernels(90).items()))
    text = stages["ptx"].splitlines()
    mma = [line for line in text if re.search(r"mma[._]", line) and "fence" not in line]
    print(f"{name}: {len(text)} lines of PTX, {len(mma)} for tensor cores")
    print(*(line.strip()[:70] for line in mma[:1]))
except ImportError as why:
    print(f"no PTX here: {why}")
"""
root = str(Path(onelayer.__file__).parents[1])
told = subprocess.run(
    [sys.executable, "-W", "ignore", "-c", PTX],
    capture_output=True,
    text=True,
    env=os.environ | {"PYTHONPATH": root, "TRITON_INTERPRET": "0"},
).stdout.strip()
ptx = told.splitlines()[0] if told else "no PTX here"
print(told)

# %% [markdown] id="walk"
# ## Read it from the top
# Every line was computed above, in this run. The unit is where you opened it.

# %% id="walk-table"
sent = sum(call.bytes for call in ddp_log.collectives[1:])  # the first is the count of words
walk = [
    ("00", "Python calls the model", f"{sum(1 for _ in trainee.modules())} modules, 1 loss"),
    (
        "01",
        "tensors get new strides",
        f"{seen.views} of {len(seen.names)} operators only made views",
    ),
    (
        "02",
        "the dispatcher routes",
        f"{forward_ops} operators forward, {len(seen.names) - forward_ops} backward",
    ),
    ("03", "autograd keeps a graph", f"{graph_nodes} nodes from the loss to the leaves"),
    ("04", "which saves tensors", f"{saved.bytes:,} bytes until backward"),
    ("05", "the allocator serves", f"{peak.bytes:,} bytes at once"),
    (
        "06",
        "an operator of our own",
        f"onelayer::head_loss, {len(operator._schema.returns)} results",
    ),
    ("07", "a kernel's machine code", ptx),
    (
        "08",
        "the compiler's graph",
        f"{table[1024][1]} nodes for the loss, {table[1024][0]} without an operator",
    ),
    ("09", "the profiler's longest", f"{longest.key}, {longest.count} calls"),
    ("10", "autocast converts", f"{sum('_to_copy' in n for n in cast.names)} casts in forward"),
    (
        "11",
        "ranks share gradients",
        f"{sent:,} bytes in all-reduces, {len(grads[True])} gradients",
    ),
    ("12", "a wheel brings it", f"{wheel.stat().st_size:,} bytes, py3-none, torch 2.11 and later"),
]
print(*(f"{unit}  {what:24} {measured}" for unit, what, measured in walk), sep="\n")

# %% [markdown] id="end"
# ## The end of the course
# It began with `F.linear` and one question: what runs when you call it? You can now go down from
# any of these lines to the source that decides it, and up from a symptom to the line. [The
# diagnosis sheet](../docs/diagnosis.md) is one page to print: symptom, first look, unit.

# %% [markdown] id="what-you-can-now-say"
# ## What you can now say
# - A wheel is a folder in a zip. Its name promises a Python, an ABI and a system; the torch stands
#   in the symbols that its library asks for, and `TORCH_TARGET_VERSION` decides which those are.
# - An operator exists in a process from the load of its library on. The package loads it; one
#   library owns one namespace.
# - Loading native code runs it. A hash says which file it is, before.
# - Old calls decide whether a schema may change. A default keeps them; a new name breaks them.
# - A tolerance follows from K, the dtype of the sum, the dtype of the result and the sizes of the
#   inputs. Pairs of values cover most of what a product would.
# - A fused loss is right against float64 with each option, clean under `opcheck`, one operator
#   under `fullgraph=True`; under DDP it is divided by the words of all ranks. Its speed is a share
#   of a floor, and on a CPU about half of its lead over the ordinary pair is page faults.
#
# Now ship it: [Lab 12](../labs/12_ship_it/12_ship_it.ipynb).

# %% [markdown] id="sources"
# ## Where this is written in PyTorch
# - the stable ABI's [note](https://docs.pytorch.org/docs/stable/notes/libtorch_stable_abi.html),
#   its
#   [`version.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/stable/version.h#L23),
#   and how an error crosses it:
#   [`macros.h`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/stable/macros.h#L36)
# - building extensions:
#   [`cpp_extension.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/utils/cpp_extension.py)
# - `load_library`: [`_ops.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_ops.py#L1492)
# - `opcheck`, `custom_op`: [`torch.library`](https://docs.pytorch.org/docs/stable/library.html)
# - the loss that torch fuses itself:
#   [`functional.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/functional.py#L3698)
# - `loss_parallel`:
#   [`loss.py`](https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/tensor/parallel/loss.py)
#
# Between torch 2.11 and 2.15 the wheel of this page is one file. `F.linear_cross_entropy` came with
# 2.13. From 2.14 on the full headers ask for C++20, and those of the stable ABI stay with C++17.
