"""What views, pictures, reports and errors say in Spanish: nothing in English, from a catalogue
that lacks nothing and has nothing too much. All of chapters are shown, and in a browser every
button is pressed.
"""

import ast
import json
import re
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from PIL import Image

import onelayer
from autograder.judge import words as judge_words
from onelayer.autograd.saved_bytes import SavedTensor
from onelayer.compiler.inductor_file import InductorFile, Kernel
from onelayer.compiler.piece import GraphBreak, Kept
from onelayer.compiler.story import CompileStory, compile_story
from onelayer.cuda_cpu.cost import Cost
from onelayer.cuda_cpu.faults import KINDS, Fault
from onelayer.cuda_cpu.outcome import Launch, Run
from onelayer.cuda_cpu.places import Place
from onelayer.cuda_cpu.runtime_library import LaunchRecord, Report
from onelayer.cuda_cpu.sentences import Context, faults
from onelayer.cuda_cpu.text import Text
from onelayer.distributed.one_rank import Failed
from onelayer.distributed.rank_log import Collective, RankLog
from onelayer.distributed.rank_report import report
from onelayer.drawing import words
from onelayer.drawing.played import Played, script_of
from onelayer.drawing.sketch import Sketch
from onelayer.drawing.still import Still
from onelayer.memory.byte_count import Op
from onelayer.memory.page_faults import PageFaults
from onelayer.mock_cuda.devices import device_model
from onelayer.mock_cuda.run import MockRun
from onelayer.mock_cuda.summary import Seen, summary
from onelayer.profiling.traces_view import show_traces
from onelayer.recordings import HERE, read_recording
from onelayer.strides.strides_view import StridesView
from onelayer.triton_kernel.masks import play_masks
from onelayer.triton_kernel.roofline import Roof, Work, show_roofline
from onelayer.triton_kernel.warp_view import show_banks, show_sectors
from tests.onelayer.drawing.shown import Script, shown

ROOT = Path(onelayer.__file__).parent
SPANISH = words.catalogue("es")
# Words that Spanish does not have, and that no identifier on these pages is.
ENGLISH = re.compile(
    r"(?<![\w.])(the|of|is|are|and|with|each|from|what|which|nothing|reads?|at|on|its|that|this|by|"
    r"steps?|blocks?|threads?|layers?|keep|again|back|next|kept|address|bounds)(?![\w.(:])",
    re.IGNORECASE,
)


@pytest.fixture
def spanish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONELAYER_LANGUAGE", "es")


# ---- The language.


@pytest.mark.parametrize(
    ("named", "notebook"),
    [
        ("", ""),
        ("es", ""),
        ("en", "/home/a/es/labs/01_strides/01_strides.ipynb"),
        ("xx", ""),
        ("", "/home/a/es/labs/01_strides/01_strides.ipynb"),
        ("", "es/notebooks/01_strides.ipynb"),
        ("", "/home/es/a/notebooks/01_strides.ipynb"),
        ("", "/home/xx/labs/01_strides/01_strides.ipynb"),
    ],
)
def test_the_language_is_the_one_in_which_a_check_answers(
    named: str, notebook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONELAYER_LANGUAGE", named)
    monkeypatch.setenv("JPY_SESSION_NAME", notebook)
    assert words.language() == judge_words.language()


def test_the_languages_are_those_of_the_checks() -> None:
    theirs = {file.stem for file in judge_words.CATALOGUES.glob("*.toml")} - {"en"}
    assert {file.stem for file in words.CATALOGUES.glob("*.toml")} == theirs


def test_another_language_is_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "qq.toml").write_text('"{n} float" = "{n} flottant"\n"undo" = "annuler"\n')
    monkeypatch.setattr(words, "CATALOGUES", tmp_path)
    monkeypatch.setenv("ONELAYER_LANGUAGE", "qq")
    assert words.counted(1, "{n} float", "{n} floats") == "1 flottant"
    assert words.counted(2, "{n} float", "{n} floats") == "2 floats"  # not in the file
    assert '"undo": "annuler"' in script_of(StridesView).splitlines()[0]


def test_a_script_says_its_texts(spanish: None) -> None:
    js = Script(StridesView)
    assert js.value_of("say('no floats')") == SPANISH["no floats"]
    assert js.value_of("counted(1, '{n} float', '{n} floats', '1')") == "1 float"
    assert js.value_of("counted(0, '{n} size', '{n} sizes')") == "0 tamaños"
    assert js.value_of("say('of our own: {a}, {b}', { a: 0, b: '{a}' })") == "of our own: 0, {a}"


def test_english_has_no_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONELAYER_LANGUAGE", "en")
    assert script_of(StridesView).startswith("const WORDS = {};\n")


# ---- The catalogue.


def _python_texts() -> tuple[set[str], set[str]]:
    """All texts of the package, and those that `say` and `counted` of `words` are given."""
    every, asked = set(), set()
    for file in ROOT.rglob("*.py"):
        source = file.read_text("utf-8")
        speaks = "drawing.words import" in source or "from .words import" in source
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                every.add(node.value)
            called = isinstance(node, ast.Call) and getattr(node.func, "id", "")
            if speaks and called in ("say", "counted"):
                assert isinstance(node, ast.Call)
                given = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
                asked.update(text for text in given if isinstance(text, str))
    return every, asked


def _script_texts() -> tuple[set[str], set[str]]:
    text = r'"(?:[^"\\\n]|\\.)*"'
    every, asked = set(), set()
    for file in ROOT.rglob("*.js"):
        source = file.read_text("utf-8")
        every.update(json.loads(found) for found in re.findall(text, source))
        for call in re.findall(rf"\bsay\(({text})", source):
            asked.add(json.loads(call))
        for call in re.findall(rf"\bcounted\([^\"]*({text}), ({text})", source):
            asked.update(map(json.loads, call))
    return every, asked


def test_every_text_that_is_asked_for_has_its_spanish() -> None:
    asked = _python_texts()[1] | _script_texts()[1]
    assert len(asked) > 300
    assert sorted(asked - SPANISH.keys()) == []


def test_every_text_of_the_catalogue_is_used() -> None:
    used = _python_texts()[0] | _script_texts()[0]
    assert sorted(SPANISH.keys() - used) == []


TWO_WORDS = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")
NOT_SAID = {
    "__init__.py": "Python's own words for a name that is not there",
    "kernels/": "an operator's errors, as torch words its own",
    "model/__init__.py": "Python's own words for a name that is not there",
    "model/train.py": "an author's command",
    "model/weights/model_card.py": "a file",
    "mock_cuda/devices.py": "where figures come from",
    "recordings/__init__.py": "an author's: a file that is no recording",
    "recordings/head_code.py": "an author's: a file that is no recording",
    "recordings/head_times.py": "an author's: a file that is no recording",
    "recordings/storing.py": "an author's: what is not kept",
    "triton_kernel/__init__.py: module ": "Python's own words for a name that is not there",
    "autograd/graph.py: modified by ": "torch's words",
    "compiler/unbuilt.py: this file ": "nobody calls it",
    "custom_op/cpp_compiler.py: undefined reference": "a linker's words",
    "custom_op/promises.py: the kernel ": "nobody reads it: that it is raised is the outcome",
    "mock_cuda/calls.py: copy to ": "data",
    "mock_cuda/kernels.py: a kernel of ": "data",
    "mock_cuda/recording.py: mocked device": "a file",
    "mock_cuda/values.py: ": "torch's words",
    "model/grammar/clauses.py: am are": "words of the grammar",
    "model/grammar/vocabulary.py: the grammar has": "an author's",
    "quiet.py: ": "torch's words",
}
"""Where English stays, as a file or a text's beginning in it, and why."""


def _unsaid_texts() -> set[str]:
    """Each text of the package with English words that are not code, and that no `say` knows: of an
    error, any two words; of others, those with a word of ENGLISH."""
    found = set()
    for file in ROOT.rglob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        nodes = list(ast.walk(tree))
        raised = {part for node in nodes if isinstance(node, ast.Raise) for part in ast.walk(node)}
        passed = {node.value for node in nodes if isinstance(node, ast.Expr)}  # a docstring
        passed |= {
            part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values
        }
        for node in set(nodes) - passed:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [one.value for one in parts if isinstance(one, ast.Constant)]
            text = "…".join(one for one in texts if isinstance(one, str))
            in_words = TWO_WORDS.search(text) and (node in raised or ENGLISH.search(text))
            if in_words and text not in SPANISH and "(?" not in text and "\\w" not in text:
                found.add(f"{file.relative_to(ROOT).as_posix()}: {text}")
    return found


def test_no_text_that_a_student_reads_is_english_alone() -> None:
    unsaid = _unsaid_texts()
    assert sorted(one for one in unsaid if not one.startswith(tuple(NOT_SAID))) == []
    assert [left for left in NOT_SAID if not any(one.startswith(left) for one in unsaid)] == []


@pytest.mark.parametrize("code", sorted(f.stem for f in words.CATALOGUES.glob("*.toml")))
def test_fields_and_outer_spaces_stay(code: str) -> None:
    def frame(text: str) -> tuple[list[str], str, str]:
        ends = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        return (sorted(re.findall(r"\{[^}]*\}", text)), *ends)

    said = words.catalogue(code)
    assert [one for one, other in said.items() if frame(one) != frame(other)] == []


# ---- What is shown.


def _head() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.rand(7, 4), torch.rand(6, 4, requires_grad=True), torch.rand(6, requires_grad=True)


@cache  # it holds no words: they are said when it is shown
def _story() -> CompileStory:
    def head(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.linear(x, w).exp().sum()

    return compile_story(head, *_head()[:2], backend="aot_eager")


def _loss() -> torch.Tensor:
    x, w, b = _head()
    return F.linear(x, w, b).exp().sum()


def _history() -> Any:
    return read_recording("step_memory").content


def _events() -> Any:
    loop = read_recording("loop_reads_the_loss", folder=HERE / "loops").content
    return loop.before  # type: ignore[union-attr]


VIEWS: dict[str, Callable[[], Played]] = {
    "strides": lambda: onelayer.show_strides((3, 4)),
    "overlapping strides": lambda: onelayer.show_strides((2, 2, 3), stride=(1, 0, 1), offset=4),
    "dispatch": lambda: onelayer.play_dispatch("aten::linear"),
    "call": lambda: onelayer.show_call(*_head()),
    "graph": lambda: onelayer.show_graph(_loss()),
    "checkpoints": lambda: onelayer.show_checkpoints([(1024, 2048)] * 4, every=2),
    "tiles": lambda: onelayer.show_tiles(n=7, v=20, d=8, tile=4),
    "compile": lambda: onelayer.show_compile(_story()),
    "ddp": lambda: onelayer.show_timeline("ddp", ranks=2),
    "pipeline": lambda: onelayer.show_timeline("1f1b", ranks=3),
    "segments": lambda: onelayer.show_segments(_history()),
    "traces": lambda: show_traces({"uno": _events()}),
    "bits": lambda: onelayer.show_bits(13.13, numbers={"logit": 3.5}),
    "promises": onelayer.play_promises,
    "wheel": onelayer.play_wheel,
    "fusion": lambda: onelayer.play_fusion(n=64),
    "masks": lambda: play_masks(n=3, v=20),
}
LOG = ["Autograd begins", "CPU begins", "CPU returns", "Autograd returns"]
ONE = torch.arange(12.0).view(3, 4)
PICTURES: dict[str, Callable[[], Any]] = {
    "storage": lambda: onelayer.show_storage(
        ONE, ONE.T, ONE.expand(2, 3, 4), names=["a", "b", "c"]
    ),
    "bytes": lambda: onelayer.show_storage(ONE, ONE.view(torch.int16), names=["a", "b"]),
    "nothing": lambda: onelayer.show_storage(torch.empty(0), names=["a"]),
    "many": lambda: onelayer.show_storage(torch.ones(1).expand(9, 2, 900), names=["a"]),
    "meta": lambda: onelayer.show_storage(torch.empty(2, device="meta"), names=["a"]),
    "dispatch": lambda: onelayer.show_dispatch("aten::addmm", *_head()),
    "stack": lambda: onelayer.show_stack("head(x, W)", LOG),
    "cut": lambda: onelayer.show_cut(_story()),
    "ring": lambda: onelayer.show_ring([[[1, 1], [1, 1]], [[1, 2], [2, 1]], [[2, 2], [2, 2]]]),
    "collectives": lambda: onelayer.show_collectives([{"x": [1]}, {"x": [2]}]),
    "bars": lambda: onelayer.show_bars({"uno": 3, "dos": 4}, unit="bytes"),
    "curves": lambda: onelayer.show_curves({"uno": [1.0, 2.0]}, step="paso", unit="coste"),
    "regimes": lambda: onelayer.show_regimes({"uno": [(1, 9.0), (64, 30.0)]}, size="N"),
    "moved": lambda: onelayer.show_moved(64, uno=[(0, 0), (1, 0)]),
    "sectors": lambda: show_sectors({"uno": range(0, 128, 4), "dos": [0]}),
    "banks": lambda: show_banks({"uno": range(0, 128, 4), "dos": [0, 128]}),
    "roofline": lambda: show_roofline({"GPU": Roof(1e12, 1e11)}, {"k": Work(1e9, 1e8, 0.1)}),
    "memory": lambda: read_recording("step_memory"),
    "overlap": lambda: read_recording("step_overlap"),
    "code": lambda: read_recording("head_loss"),
    "mocked run": lambda: read_recording("05_first_tensor", folder=HERE / "mocked"),
    "loop": lambda: read_recording("loop_reads_the_loss", folder=HERE / "loops"),
    "no recording": lambda: read_recording("nobody_made_it"),
}


def _counted(count: Any, *, ops: int) -> Any:
    """The same count as if it had seen so many operators."""
    count.ops = [Op("aten::mm", 4096)] * ops
    return count


def _saved() -> Any:
    saved = onelayer.count_saved()
    saved.tensors = [SavedTensor((7, 600), torch.float32, 16800)] * 20
    return saved


def _inductor_file() -> InductorFile:
    kernel = Kernel("extern_kernels.mm", "library", ("a",), ("b",), 4096, 512)
    return InductorFile((), (), (kernel,), (), "")


def _log(*names: str) -> RankLog:
    calls = [Collective(name, 4096, 2048, 2, "cpu", "", 1.0, 2.0) for name in names]
    return RankLog(0, "gloo", calls, sent_bytes=2112)


def _ranks(*, failed: bool) -> str:
    stack = f'File "{__file__}", line 7 in step'
    raised = {2: Failed("ValueError", "x", ((__file__, 7, "step"),)), 3: Failed("", "código", ())}
    answers: dict[int, Any] = {0: None, 1: None, 4: b""} | (raised if failed else {})
    return report(answers, {0: stack, 1: stack}, 2.0)


def _faults() -> str:
    """Every fault of a kernel, each way in which it can be told."""
    launch = LaunchRecord(name=b"k", grid=(1, 1, 1), block=(32, 1, 1))
    places = [Place("y", 4096, 8192, 4), Place("tile", 9000, 9064, 4, shared=True)]
    told = []
    for kind, name in enumerate(KINDS):
        for a in range(1, 10) if name == "impossible_launch" else range(-1, 5):
            for address in (0, 4100, 8196, 9004, 9070, 1 << 40):
                for line, c in ((0, 0), (3, 1), (3, 2)):
                    one = Report(kind=kind, line=5, other_line=line, address=address, size=4)
                    one.a, one.b, one.c, one.text = a, 7, c, b"n < N"
                    context = Context(Text("k<<<1, 32>>>()\n"), places, [launch])
                    told += map(str, faults([one], context))
    assert len(told) > 1000
    return "\n".join(dict.fromkeys(told))


def _run() -> Run:
    launch = Launch("k", 1, (1, 1, 1), (32, 1, 1), 0, 32, Cost(32, 1.0, 2.0, 3.0, 4.0, 5.0))
    return Run.of(None, [Fault("leak", 0, "x", "k", code="c")], (launch,))


def _page() -> str:
    counters = {"allocated_bytes.all.peak": 2**29, "reserved_bytes.all.peak": 2**30}
    model = device_model("L4", "1 GiB")
    ran_out = summary(Seen(model, False, [], [counters], "CUDA", "bien"))
    return ran_out + summary(Seen(model, False, [], [counters], "", "bien"))


REPORTS: dict[str, Callable[[], object]] = {
    "story": _story,
    "frame": lambda: _story().frames[0],
    "break": lambda: GraphBreak("call_function", "f", 3, "print(x)"),
    "kept": lambda: [
        str(Kept("x", (7,), "float32", 28, kind))
        for kind in ("input", "computed", "view of an input")
    ],
    "Inductor's file": _inductor_file,
    "bytes": lambda: _counted(onelayer.count_bytes(), ops=20),
    "no bytes": onelayer.count_bytes,
    "traffic": onelayer.count_traffic,
    "page faults": lambda: [PageFaults(1), PageFaults(2)],
    "peak": onelayer.peak_bytes,
    "saved": _saved,
    "nothing saved": onelayer.count_saved,
    "collectives": lambda: _log("all_reduce", *["send"] * 30),
    "no collective": _log,
    "failed ranks": lambda: _ranks(failed=True),
    "waiting ranks": lambda: _ranks(failed=False),
    "faults of a kernel": _faults,
    "a clean kernel": _run,
    "a mocked run": lambda: MockRun(device_model("H100"), 1, None, "", [], {}, {}),
    "a mocked script": _page,
}


ERRORS: dict[str, Callable[[], object]] = {
    "view": lambda: onelayer.show_strides((3,), stride=(1, 2)),
    "storage": onelayer.show_storage,
    "graph": lambda: onelayer.show_graph(torch.ones(2)),
    "ranks": lambda: onelayer.run_ranks(0, print),
    "word": lambda: onelayer.hidden("la cabezza"),
    "device": lambda: device_model("H1000"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_speaks_spanish(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {}
    for code in ("en", "es"):
        monkeypatch.setenv("ONELAYER_LANGUAGE", code)
        told[code] = str(REPORTS[name]()).splitlines()
    assert {one: english(one) for one in told["es"] if english(one)} == {}
    assert told["en"] != told["es"]


def test_a_chapter_prints_its_report_in_spanish(
    spanish: None, capsys: pytest.CaptureFixture[str]
) -> None:
    chapter = json.loads((ROOT.parent / "es/notebooks/03_autograd.ipynb").read_text("utf-8"))
    (cell,) = (one for one in chapter["cells"] if one["id"] == "saved-bytes-run")
    x, w, b = _head()
    x.requires_grad_()
    exec("".join(cell["source"]), {"onelayer": onelayer, "F": F, "learning": x, "W": w, "b": b})
    told = capsys.readouterr().out.splitlines()
    assert told[-2:] == ["168 bytes asignados o copiados", "           168  aten::addmm"]
    assert {one: english(one) for one in told if english(one)} == {}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_speaks_spanish(name: str, spanish: None) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        ERRORS[name]()
    assert english(str(error.value)) == []
    assert str(error.value) not in SPANISH


def english(text: str) -> list[str]:
    """What of a text is English: itself, where it stands in the catalogue and in Spanish reads
    otherwise; or the words of ENGLISH in it."""
    text = text.strip()
    known = [one for one, said in SPANISH.items() if one.strip() == text and one != said]
    return known or ENGLISH.findall(text)


def test_english_is_found() -> None:
    assert english("undo") == ["undo"]
    assert english("Two of them") == ["of"]
    assert not english("x.view(3, 4) necesita una copia, fp32.read()")


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_speaks_spanish(
    name: str, spanish: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    put, dot = Sketch.text, BytesIO()
    Image.new("RGBA", (1, 1)).save(dot, format="png")

    def text(self: Sketch, x: float, y: float, words: str, **style: Any) -> None:
        drawn.append(words)
        put(self, x, y, words, **style)

    monkeypatch.setattr(Sketch, "text", text)
    monkeypatch.setattr(Sketch, "png", lambda self: dot.getvalue())  # its words are enough
    picture = PICTURES[name]()
    drawn += [picture.alt] if isinstance(picture, Still) else []
    bundle = picture.bundle()
    page = re.sub(
        r"(?s:<style>.*?</style>|<pre>.*?</pre>)|<[^>]*>", "\n", bundle.get("text/html", "")
    )
    plain = "" if name == "code" else bundle["text/plain"]  # what Inductor wrote is code
    drawn += page.splitlines() + plain.splitlines()
    drawn = [one for one in drawn if one.strip()]
    assert drawn
    assert {one: english(one) for one in drawn if english(one)} == {}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_speaks_spanish(name: str, spanish: None) -> None:
    view = VIEWS[name]()
    assert {one: english(one) for one in repr(view).splitlines() if english(one)} == {}


# All that a reader sees or hears, but for code and arguments' names: at first, and after each press
# of what there is to press. A field is given what is no number, and what cannot be.
_SEEN = """(most) => {
  const view = document.querySelector(".ol-view");
  const found = new Set();
  const look = () => {
    for (const e of [view, ...view.querySelectorAll("*")]) {
      if (e.closest("code, pre.full, .form .field, .ol-traces .bars")) continue;
      for (const name of ["aria-label", "title", "placeholder", "alt"])
        if (e.getAttribute(name)) found.add(e.getAttribute(name));
      for (const node of e.childNodes)
        if (node.nodeType === Node.TEXT_NODE) found.add(node.textContent);
    }
  };
  const press = (e) => {
    const tell = (name) => e.dispatchEvent(new Event(name, { bubbles: true }));
    const type = (text) => {
      e.value = text;
      for (const name of ["input", "change"]) tell(name);
      look();
    };
    if (e.tagName === "SELECT") type(e.options[e.options.length - 1].value);
    else if (e.type === "text") for (const text of ["1, 1.5", "-9", "2, 2"]) type(text);
    else if (e.type === "range") type((Number(e.min) + Number(e.max)) / 2);
    else {
      tell("pointerenter");
      e.click ? e.click() : tell("click"); // a box of an SVG has no click()
    }
    look();
  };
  look();
  for (let k = 0; k < most; k++) {
    const e = view.querySelectorAll("button, [role=button], .cell, input, select")[k];
    if (e) press(e);
  }
  return [...found];
}"""
_MOST_PRESSES = 60


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shows_no_english(name: str, spanish: None, browser: Any, tmp_path: Path) -> None:
    with shown(browser, tmp_path, VIEWS[name]().html()) as page:
        seen = page.evaluate(_SEEN, _MOST_PRESSES)
    assert len(seen) > 5
    assert {one: english(one) for one in seen if english(one)} == {}
