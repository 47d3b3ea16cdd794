"""The page of a lab, as an instructor opens it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from autograder.classroom.gradebook import late_policy
from autograder.classroom.intake.enrolment import Person
from autograder.classroom.reports import charts
from autograder.classroom.reports.page import Report, environment, page
from autograder.classroom.reports.results import NOTHING, Result
from autograder.classroom.reports.rows import MARKS
from autograder.classroom.store.roster import Line
from autograder.judge import State
from tests.classroom.made_class import (
    FREE_TEXT,
    LAB,
    RELEASE,
    SCRIPT,
    class_of,
    late,
    marked,
    record,
    result,
    ungradable,
    verdict,
)

NOW = datetime(2026, 11, 21, 19, 0, tzinfo=UTC)
FIRST, SECOND, *_ = LAB.questions


def page_of(people: Sequence[Result], policy: late_policy.Policy | None = None) -> str:
    return page(Report(RELEASE, Path("grading"), people, policy, NOW))


class Tags(HTMLParser):
    """Every tag of a page, and every attribute that could run or fetch something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.acting: list[tuple[str, str, str | None]] = []
        self.ids: list[str | None] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attributes:
            if name.startswith("on") or name in ("src", "srcset", "action", "data", "ping"):
                self.acting.append((tag, name, value))
            if name in ("href", "xlink:href") and not re.match(
                r"(#|\.\./\.\./feedback/)", value or ""
            ):
                self.acting.append((tag, name, value))
            if name == "id":
                self.ids.append(value)


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 2, 1000])
def test_classes_of_every_size(size: int) -> None:
    text = page_of(class_of(size))
    tags = Tags(text)
    assert f"<b>{size}</b><span>handed in</span>" in text
    assert "script" not in tags.tags
    assert tags.acting == []
    assert len(set(tags.ids)) == len(tags.ids)
    assert text.count("<svg") == (6 if size else 0)  # each for a desk, and for a phone
    assert len(text) < 2_000_000


def test_nothing_a_student_chose_becomes_markup() -> None:
    """Not that an id could be such: it is the page's own duty."""
    wrong = verdict(FIRST, State.FAIL, got=SCRIPT, misconception=SCRIPT, sentence=SCRIPT)
    flagged = verdict(SECOND, State.FLAGGED, got=SCRIPT, sentence=SCRIPT)
    evil = result(SCRIPT, record(SCRIPT, **{FIRST: wrong, SECOND: flagged}))
    evil = replace(evil, line=replace(evil.line, note=SCRIPT, origin=SCRIPT))
    text = page_of([evil, ungradable(f"{SCRIPT}2", SCRIPT)])
    assert "alert(1)" in text
    tags = Tags(text)
    assert not tags.tags & {"script", "img"}
    assert tags.acting == []


def test_it_forbids_what_it_does_not_have() -> None:
    head = page_of([]).partition("</head>")[0]
    assert "default-src 'none'" in head
    assert head.index("Content-Security-Policy") < head.index("<style")
    assert "http" not in head.replace("http-equiv", "")


def test_control_characters_neither_reorder_nor_break() -> None:
    text = page_of([ungradable("a\u202eb", "one\nline\x1b[31m")])
    assert "\u202e" not in text
    assert "\x1b" not in text


def test_names_that_no_ascii_holds() -> None:
    text = page_of([result("李雷"), result("Łukasz_Ж"), result("\ud800x")])
    assert "<bdi>李雷</bdi>" in text
    assert "../../feedback/%E6%9D%8E%E9%9B%B7/01_strides/01_strides.html" in text
    text.encode("utf-8", "replace")


@pytest.mark.slow
def test_every_plot_is_told_in_words_and_drawn_in_the_pages_colours() -> None:
    text = page_of(class_of(12))
    labels = re.findall(r'<svg class="plot" role="img" aria-label="([^"]+)"', text)
    small = re.findall(r'<svg class="small-plot" role="img" aria-label="([^"]+)"', text)
    assert len(labels) == 3
    assert small == labels
    assert "Histogram of the points of 12 students" in labels[0]
    assert all(question in labels[1] for question in LAB.questions)
    figures = "".join(re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL))
    assert "var(--passed)" in figures
    assert set(re.findall(r"(?:fill|stroke): (#\w+)", figures)) == set()


def test_every_shade_has_a_value_in_light_in_dark_and_on_paper() -> None:
    style = page_of([]).partition("<style>")[2].partition("</style>")[0]
    for variable in charts.VARIABLES.values():
        values = re.findall(rf"--{variable}: (#[0-9a-f]+)", style)
        assert len(values) == 3
        assert len(set(values)) >= 2


def test_neighbouring_shades_differ_in_grey() -> None:
    """By lightness, in each of the three palettes; texture comes on top."""
    style = page_of([]).partition("<style>")[2]
    shades = [re.findall(rf"--{v}: (#\w+)", style) for v in ("passed", "wrong", "blank")]
    palettes = zip(*shades, strict=True)
    for palette in palettes:
        grey = [_lightness(colour) for colour in palette]
        assert min(abs(a - b) for a, b in pairwise(grey)) > 0.1


def test_who_waits_for_a_person_is_there_with_the_reason() -> None:
    flagged = verdict(FIRST, State.FLAGGED, sentence="Too fast for this memory.")
    failed = verdict(SECOND, State.UNGRADABLE, sentence="The check itself failed.")
    text = page_of([result("ada", record("ada", **{FIRST: flagged, SECOND: failed})),
                    ungradable("bob", "There is no notebook.")])  # fmt: skip
    for said in (
        "Too fast for this memory.",
        "The check itself failed.",
        "There is no notebook.",
    ):
        assert said in text
    assert f"<code>{FREE_TEXT}</code>" in text


def test_as_many_wait_as_the_command_leaves_blank() -> None:
    people = [*class_of(20), ungradable("bob", "There is no notebook.")]
    blank = sum(one.counted(provisional=False) is None for one in people)
    assert blank > 0
    (shown,) = re.findall(r"<b>(\d+)</b><span>waits? for a person", page_of(people))
    assert int(shown) == blank


def test_each_cell_names_its_column_for_a_phone() -> None:
    flagged = verdict(FIRST, State.FLAGGED, sentence="Too fast for this memory.")
    people = [result("ada", record("ada", **{FIRST: flagged})), *class_of(12)]
    people.append(ungradable("bob", "There is no notebook."))
    cells = re.findall(r"<td[^>]*>", page_of(people))
    assert len(cells) > 100
    assert all(re.search(r'data-head="\S', cell) for cell in cells)


def test_lateness_is_told() -> None:
    one = late(result("ada"), 3.0, 90_000.0)
    text = page_of([one], late_policy.Policy(timedelta(minutes=15), 0.1, 0.5))
    assert "Lateness costs 10% of the points per day begun, at most 50%" in text
    assert "1 d 1 h late" in text
    assert "\u22123" in text


@pytest.mark.slow
def test_the_same_class_makes_the_same_page() -> None:
    assert page_of(class_of(20)) == page_of(class_of(20))


def _lightness(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(c * 2 for c in colour[1:])
    r, g, b = (int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.fixture
def plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each plot is its name and its shape: drawing takes long, and test_charts.py asks for it."""
    for name in ("scores", "questions", "costs"):
        monkeypatch.setattr(charts, name, lambda *told, name=name: f"[{name} {told[-1].name}]")


def a_class() -> list[Result]:
    """Ada is done; Bob was a second late and waits; Cy's newest hand-in is not graded, and an
    answer is flagged; Dan's cannot be read; Eve handed in nothing."""
    flagged = verdict(FIRST, State.FLAGGED, sentence="Too fast.", torch="2.14.0")
    wrong = verdict(SECOND, State.FAIL, got="3", torch="")
    nobody = Result(Line("eve"), person=Person("eve", folder_id="eve"), enrolment=NOTHING)
    return [
        marked(result("ada", person=Person("ada", folder_id="ada")), 4.0),
        late(result("bob", record("bob", **{SECOND: wrong})), 0.0, 1.0),
        replace(result("cy", record("cy", **{FIRST: flagged})), reason="It was cut off."),
        ungradable("dan", "There is no notebook."),
        nobody,
    ]


@pytest.mark.usefixtures("plots")
def test_the_tiles_count_the_class() -> None:
    text = page_of(a_class())
    missed = sorted(LAB.questions[name].points for name in (FIRST, SECOND))
    assert re.findall(r"<li[^>]*><b>(.*?)</b><span>(.*?)</span>", text) == [
        ("4", "handed in of 2 enrolled"),
        ("3", "judged"),
        (f"{LAB.max_points - missed[0]:g}", f"median of {LAB.max_points:g} points"),
        ("4", "wait for a person"),
        ("2", "ungradable"),
        ("1", "late"),
    ]


@pytest.mark.usefixtures("plots")
def test_every_section_says_who_and_what() -> None:
    text = page_of(a_class())
    for name in ("scores", "questions", "costs"):
        assert f"<figure>[{name} plot][{name} small-plot]<figcaption>" in text
    assert "2 of 3 students count here" in text
    by_hand = text.partition("<h3>Marked by hand</h3>")[2].partition("</section>")[0]
    assert f"<code>{FREE_TEXT}</code>" in by_hand
    assert re.findall("<bdi>(.*?)</bdi>", by_hand) == ["bob", "cy"]
    assert by_hand.count("<tr>") == 2
    assert "Judged by torch 2.13.0+cpu on cpu, in bubblewrap; torch 2.14.0 on cpu" in text
    queues = text.partition("<h3>Flagged</h3>")[2].partition("<h3>Marked by hand</h3>")[0]
    flagged, _, failed = queues.partition("<h3>The grader failed</h3>")
    assert re.findall("<bdi>(.*?)</bdi>", flagged) == ["cy"]
    assert "<bdi>" not in failed
    assert "Judged by" not in page_of([])
    assert "<h1>Lab 1:" in text


def remarks(one: Result) -> str:
    return str(environment().filters["remarks"](one))


def test_the_remarks_say_what_an_instructor_should_know() -> None:
    found = {one.student: remarks(one) for one in a_class()}
    assert found == {
        "ada": "",
        "bob": "1 min late; waits for a person",
        "cy": "newest hand-in ungradable; waits for a person",
        "dan": "ungradable",
        "eve": NOTHING,
    }
    one = marked(result("ada", person=Person("ada", section="B", folder_id="ada")), 4.0)
    one = replace(one, line=replace(one.line, note="Two were there."), enrolment="not enrolled")
    assert remarks(one) == "not enrolled; B; Two were there."
    hidden = replace(one, person=Person("ada", folder_id="anon-1"))
    assert remarks(hidden) == "not enrolled"  # a note can name a file, and that its student


@pytest.mark.parametrize(
    ("late_s", "told"),
    [
        (59.0, "1 min"),
        (120.0, "2 min"),
        (3599.0, "59 min"),
        (3600.0, "1 h 0 min"),
        (3720.0, "1 h 2 min"),
        (86_399.0, "23 h 59 min"),
        (86_400.0, "1 d 0 h"),
        (190_800.0, "2 d 5 h"),
    ],
)
def test_lateness_is_told_in_two_units_at_most(late_s: float, told: str) -> None:
    assert remarks(late(marked(result("ada"), 4.0), 0.0, late_s)) == f"{told} late"


def test_marks_are_one_for_each_question() -> None:
    marks = environment().filters["marks"]
    blank = record("ada", **{FIRST: verdict(FIRST, State.FAIL, blank=True)})
    assert marks(blank) == MARKS["not yet"][0] + MARKS["pass"][0] * (len(LAB.questions) - 1)
    assert marks(None) == ""


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ none | percent }} {{ 0.5 | percent }}", "\u2013 50%"),
        ("{{ none | correlation }} {{ -0.254 | correlation }}", "\u2013 \u22120.25"),
        ("{{ 'a/b' | in_url }} {{ '\ud800' | in_url }}", "a%2Fb %3F"),
        ("{{ 2.50 | plain }} {{ said }} {{ 7 }}", "2.5 a b &lt;b&gt; 7"),
    ],
)
def test_a_value_is_shown_for_a_reader(template: str, text: str) -> None:
    assert environment().from_string(template).render(said="a\u202eb <b>") == text


def test_a_value_that_a_template_lacks_is_an_error_of_ours() -> None:
    with pytest.raises(UndefinedError):
        environment().from_string("{{ nobody }}").render()


@pytest.mark.usefixtures("plots")
def test_without_a_policy_lateness_costs_nothing() -> None:
    assert "Lateness costs nothing" in page_of(a_class())
