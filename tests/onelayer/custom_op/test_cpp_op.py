"""load_cpp: a string of C++ becomes an operator, again and again, or says what is wrong."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest
import torch

import onelayer
from autograder.judge import Lab, State, ask, expect_close, expect_equal
from autograder.sandbox import Cell, Jail
from onelayer.custom_op import build_cache, cpp_compiler, cpp_op
from onelayer.custom_op.build_cache import cached
from onelayer.custom_op.cpp_compiler import CompileError, own_lines

pytestmark = pytest.mark.compiler

SCALE = """\
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
using torch::stable::Tensor;
struct Odd { ~Odd(); };
Tensor scale(const Tensor& x, double by) {
  STD_TORCH_CHECK(x.dim() == 2, "x has ", x.dim(), " dimensions");
  Tensor y = torch::stable::empty_like(x);
  const float* from = x.const_data_ptr<float>();
  float* to = y.mutable_data_ptr<float>();
  torch::stable::parallel_for(0, x.numel(), 1, [&](int64_t a, int64_t b) {
    for (int64_t i = a; i < b; ++i) to[i] = by * from[i];
  });
  return y;
}

STABLE_TORCH_LIBRARY(made, m) { m.def("scale(Tensor x, float by) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(made, CPU, m) { m.impl("scale", TORCH_BOX(&scale)); }
"""
TWICE = 'extern "C" long twice(long n) { return 2 * n; }\n'


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """A place for builds that nobody has built in."""
    place = tmp_path_factory.mktemp("builds")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONELAYER_CACHE", str(place))
        yield place


@pytest.fixture
def no_compiler(monkeypatch):
    def refused(*_, **__):
        raise AssertionError("the compiler was called")

    monkeypatch.setattr(cpp_op, "compile_shared", refused)


class TestAnOperator:
    def test_it_computes_what_its_source_says(self):
        ops = onelayer.load_cpp(SCALE)
        x = torch.randn(7, 33)
        assert ops.scale(x, 2.5).equal(2.5 * x)
        assert str(ops.scale.default._schema).endswith("::scale(Tensor x, float by) -> Tensor")
        assert "scale" in dir(ops)
        assert "scale(Tensor x" in repr(ops)

    def test_the_second_time_it_is_there_already_and_registered_anew(self, no_compiler):
        first, second = onelayer.load_cpp(SCALE), onelayer.load_cpp(SCALE)
        assert first.build_s == second.build_s == 0
        assert first.namespace != second.namespace
        torch.library.register_fake(f"{first.namespace}::scale", lambda x, by: x.new_empty(x.shape))
        torch.library.register_fake(f"{second.namespace}::scale", lambda x, by: x.new_empty(1))
        x = torch.ones(2, 3, device="meta")
        assert (first.scale(x, 1.0).shape, second.scale(x, 1.0).shape) == ((2, 3), (1,))

    def test_its_check_names_the_line(self):
        with pytest.raises(RuntimeError, match=r"scale, op\.cpp:7, x has 1 dimensions"):
            onelayer.load_cpp(SCALE).scale(torch.ones(3), 1.0)

    def test_what_it_does_not_define_is_said(self):
        with pytest.raises(AttributeError, match="'scael' here; defined: scale"):
            _ = onelayer.load_cpp(SCALE).scael

    def test_the_first_of_a_process_has_its_own_name(self):
        code = "import onelayer, sys; source = sys.stdin.read();" + (
            "print([onelayer.load_cpp(source).namespace for _ in range(2)])"
        )
        run = subprocess.run(
            [sys.executable, "-W", "error", "-c", code], input=SCALE, capture_output=True, text=True
        )
        assert (run.stdout, run.stderr) == ("['made', 'made_2']\n", "")


class TestCFunctions:
    def test_they_are_in_the_library(self):
        made = onelayer.load_cpp(TWICE)
        assert made.library.twice(21) == 42
        assert (made.namespace, made.names()) == ("", [])
        assert "no operator" in repr(made)

    def test_another_source_or_flag_is_another_build(self):
        thrice = onelayer.load_cpp(TWICE.replace("2 *", "3 *"))
        valued = 'extern "C" long twice(long n) { return VALUE * n; }'
        five = onelayer.load_cpp(valued, flags=["-DVALUE=5"])
        six = onelayer.load_cpp(valued, flags=["-DVALUE=6"])
        assert [made.library.twice(7) for made in (thrice, five, six)] == [21, 35, 42]
        assert onelayer.load_cpp(TWICE).library.twice(7) == 14


WRONG = {
    "a name": (SCALE.replace("x.dim() ==", "x.dimm() =="), 7, "no member named 'dimm'"),
    "a header": (SCALE.replace("stable/ops.h", "stable/opps.h"), 2, "opps.h"),
    "no return": (TWICE.replace("return", ""), 1, "non-void"),
    "what cannot be boxed": (
        SCALE.replace("double by)", "double by, Odd)"),
        18,
        "assertion failed",
    ),
    "semicolon": (TWICE.replace("n;", "n"), 1, "';' before '}'"),
}


class TestACompileError:
    @pytest.mark.parametrize("what", WRONG)
    def test_it_names_the_line_and_no_file_of_ours(self, what):
        source, line, words = WRONG[what]
        with pytest.raises(CompileError) as caught:
            onelayer.load_cpp(source, name="mine.cpp")
        said = str(caught.value)
        assert f"mine.cpp:{line}: " in said
        assert words in said
        assert f"{line:5} | {source.splitlines()[line - 1]}" in said
        assert "cpp_op.h" not in said
        assert "/include/" not in said

    def test_what_is_declared_and_never_defined(self):
        missing = "void lost();\n" + TWICE.replace("return", "lost(); return")
        with pytest.raises(CompileError, match=r"undefined reference to .lost\(\)'"):
            onelayer.load_cpp(missing)

    def test_no_more_than_three(self):
        said = "".join(f"a.cpp:{k}:1: error: wrong {k}\n" for k in range(1, 6))
        told = own_lines(said, "a.cpp", "\n".join("abcde"))
        assert told.count("wrong") == 3
        assert told.endswith("and 2 more")

    def test_an_error_in_a_header_is_told_where_the_source_led_there(self):
        """As clang orders it: the error first, then who asked for it."""
        said = (
            "In file included from a.cpp:1:\n/usr/include/x.h:9:3: error: no type named 'q'\n"
            "a.cpp:3:8: note: in instantiation of function template\n"
        )
        told = own_lines(said, "a.cpp", "#include <x.h>\n\nuse<q>();")
        assert told.endswith("a.cpp:3: no type named 'q'\n    3 | use<q>();")
        assert "/usr" not in told

    def test_an_error_after_one_in_a_header_has_its_own_line(self):
        said = (
            "In file included from a.cpp:1:\n/usr/include/x.h:9:3: error: no type named 'q'\n"
            "a.cpp:3:8: error: expected ';'\n"
        )
        told = own_lines(said, "a.cpp", "#include <x.h>\n\nuse<q>()")
        assert "a.cpp:1: no type named 'q'" in told
        assert "a.cpp:3: expected ';'" in told

    def test_a_notebook_shows_the_message_alone(self):
        assert CompileError("a.cpp:1: no")._render_traceback_() == ["CompileError: a.cpp:1: no"]


class TestARefusedRegistration:
    def test_a_schema_is_refused_with_its_line_and_nothing_is_left(self):
        names = set(torch._C._dispatch_get_all_op_names())
        with pytest.raises(RuntimeError, match=r"op\.cpp: line 17: expected \)"):
            onelayer.load_cpp(SCALE.replace("float by) ->", "float by ->"))
        assert set(torch._C._dispatch_get_all_op_names()) == names

    def test_an_operator_defined_twice(self):
        if torch.__version__.startswith("2.11."):
            pytest.skip("torch 2.11 prints it and goes on with the first")
        once = 'm.def("scale(Tensor x, float by) -> Tensor");'
        with pytest.raises(RuntimeError, match=r"^op\.cpp: "):
            onelayer.load_cpp(SCALE.replace(once, 2 * once))

    def test_two_namespaces_in_one_source(self):
        more = 'STABLE_TORCH_LIBRARY(more, m) { m.def("f(Tensor x) -> Tensor"); }\n'
        with pytest.raises(RuntimeError, match=r"one to a source"):
            onelayer.load_cpp(SCALE + more)


class TestTheCache:
    def test_a_failed_build_leaves_nothing_and_the_next_is_built(self, cache):
        bad = TWICE.replace("2 *", "two *")
        before = sorted(cache.iterdir())
        for _ in range(2):
            with pytest.raises(CompileError, match="'two' was not declared"):
                onelayer.load_cpp(bad)
        assert sorted(cache.iterdir()) == before
        assert onelayer.load_cpp(TWICE).library.twice(4) == 8

    def test_a_build_that_is_interrupted_half_way_leaves_nothing(self, cache):
        def half(out):
            out.write_bytes(b"half")
            raise KeyboardInterrupt

        before = sorted(cache.iterdir())
        with pytest.raises(KeyboardInterrupt):
            cached(["x"], ".bin", half)
        assert sorted(cache.iterdir()) == before
        assert cached(["x"], ".bin", lambda out: out.write_bytes(b"all") and None).read_bytes()

    def test_a_damaged_file_is_built_again(self):
        source = TWICE.replace("2 *", "9 *")
        parts = [source, "op.cpp", "-O2", *cpp_op._flags(source), cpp_compiler.identity()]
        parts += [cpp_op._prelude(), torch.__version__]
        place = cached(parts, ".so", lambda out: out.write_bytes(b"no library") and None)
        assert onelayer.load_cpp(source).library.twice(2) == 18
        assert place.read_bytes()[:4] == b"\x7fELF"

    def test_parts_do_not_run_into_each_other(self):
        assert build_cache.digest(["ab", "c"]) != build_cache.digest(["a", "bc"])
        assert build_cache.digest(["ab"]) == build_cache.digest([b"ab"])

    def test_what_nobody_asked_for_longest_makes_room(self, cache, monkeypatch):
        monkeypatch.setattr(build_cache, "KEPT", 2)
        made = [cached([n], ".old", lambda out: out.touch()) for n in ("a", "b")]
        for age, path in enumerate(made):
            build_cache.os.utime(path, (1000 - age, 1000 - age))
        cached(["a"], ".old", pytest.fail)
        made.append(cached(["c"], ".old", lambda out: out.touch()))
        assert [path.exists() for path in made] == [True, False, True]

    def test_several_processes_at_once_build_one_file(self, cache):
        code = (
            "import sys; from onelayer.custom_op.build_cache import cached;"
            "from onelayer.custom_op.cpp_compiler import compile_shared;"
            "build = lambda out: compile_shared(sys.argv[1], out, name='a.cpp', flags=[]);"
            "print(cached([sys.argv[1]], '.so', build))"
        )
        command = [sys.executable, "-c", code, TWICE.replace("2 *", "11 *")]
        before = set(cache.glob("*.so"))
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        (said,) = {process.communicate()[0].strip() for process in running}
        assert {str(path) for path in set(cache.glob("*.so")) - before} == {said}
        assert ctypes.CDLL(said).twice(1) == 11


class TestTheLinesThatACompilerReads:
    def test_headers_are_counted_and_comments_are_not(self):
        bare = onelayer.lines_read("int a;\n")
        assert bare == onelayer.lines_read("// no\n\nint a;  // this one\n/* nor\nthis */\n") == 1
        assert onelayer.lines_read(SCALE) > 100 * onelayer.lines_read("#include <cstdint>\n") > 100

    def test_a_header_that_is_not_there_is_said(self):
        with pytest.raises(CompileError, match=r"nowhere\.h"):
            onelayer.lines_read("#include <nowhere.h>\n")


def test_cxx_may_be_a_command_with_arguments(monkeypatch):
    """As in CXX="ccache g++"."""
    monkeypatch.setenv("CXX", "env THIS=that g++")
    cpp_compiler.compiler.cache_clear()
    assert cpp_compiler.compiler()[1:] == ("THIS=that", "g++")
    assert onelayer.load_cpp(TWICE.replace("2 *", "8 *")).library.twice(2) == 16
    cpp_compiler.compiler.cache_clear()


def test_a_compiler_that_links_its_own_standard_library_mixes_it_with_nobodys():
    """In one image g++ did: where a number went into a message, the process died."""
    program = (
        f"import onelayer, torch\nops = onelayer.load_cpp({SCALE!r})\n"
        "try: ops.scale(torch.ones(3), 2.0)\n"
        "except RuntimeError as error: print(str(error).splitlines()[0])\n"
    )
    own = {**os.environ, "CXX": "g++ -static-libstdc++"}
    done = subprocess.run([sys.executable, "-c", program], env=own, capture_output=True, text=True)
    assert "x has 1 dimensions" in done.stdout, done.stderr


def test_a_machine_without_a_compiler_is_told_what_to_install(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    cpp_compiler.compiler.cache_clear()
    with pytest.raises(RuntimeError, match="apt install"):
        cpp_compiler.compiler()


IN_JAIL = f"""
import onelayer

def scaled(x):
    return onelayer.load_cpp({SCALE!r}).scale(x, 3.0)

def wrong(x):
    try:
        onelayer.load_cpp("int f( {{ return 1; }}")
    except RuntimeError as error:
        return str(error)
"""
lab = Lab("16_operators", "Operators")


@lab.question("scaled", points=1, minutes=5, difficulty=1, hints=("a", "b", "c"), budget_s=200.0)
def scaled(student, draw):
    """3 x, by an operator in C++."""
    x = draw.tensor(7, 33)
    expect_close(student.call("scaled", x), 3 * x)
    expect_equal("op.cpp:1: " in student.call("wrong", x), True)


@pytest.mark.jail
@pytest.mark.compiler
def test_it_builds_in_the_jail():
    with Jail() as jail, jail.open([Cell("a", IN_JAIL)]) as student:
        verdict = ask(lab.questions["scaled"], student, seed=7)
        assert verdict.state is State.PASS, f"{verdict}\n{student.cells}"
