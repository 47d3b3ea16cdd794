"""Reports of a lab: the numbers, the page, and the files for Canvas, Moodle and Gradescope."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest

from autograder.attacks.sample_class import NAME
from autograder.classroom.errors import UserError
from autograder.classroom.gradebook import late_policy
from autograder.classroom.intake.owners import canvas_user, moodle_participant
from autograder.classroom.intake.submissions import (
    NO_NOTEBOOK,
    Submission,
    files_in,
    submissions,
)
from autograder.classroom.reports import charts
from autograder.classroom.reports.canvas import canvas
from autograder.classroom.reports.gradescope import gradescope
from autograder.classroom.reports.items import discrimination, items, misconceptions, spread
from autograder.classroom.reports.moodle import moodle
from autograder.classroom.reports.page import Report, page
from autograder.classroom.reports.results import Result, expect_one_each
from autograder.classroom.reports.returned import give_back
from autograder.classroom.reports.rows import Row, write_ungradable
from autograder.classroom.reports.spreadsheet import inert, written
from autograder.classroom.store.roster import Line
from autograder.judge import State
from autograder.selftest import english_in
from tests.classroom.made_class import (
    FREE_TEXT,
    LAB,
    RELEASE,
    SCRIPT,
    class_of,
    marked,
    record,
    result,
    ungradable,
    verdict,
)

NOW = datetime(2026, 11, 21, 19, 0, tzinfo=UTC)
FIRST, SECOND, *OTHERS = LAB.questions


def page_of(people, policy=None):
    return page(Report(RELEASE, Path("grading"), people, policy, NOW))


def rows(data):
    return list(csv.reader(io.StringIO(data.decode())))


class TestItems:
    def test_every_state_is_counted_once(self):
        records = [
            record("a"),
            record("b", **{FIRST: verdict(FIRST, State.FAIL, got="3")}),
            record("c", **{FIRST: verdict(FIRST, State.FAIL, blank=True)}),
            record("d", **{FIRST: verdict(FIRST, State.FLAGGED)}),
            record("e", **{FIRST: verdict(FIRST, State.UNGRADABLE)}),
        ]
        item = items(LAB, records)[0]
        assert (item.passed, item.wrong, item.blank, item.open) == (1, 1, 1, 2)
        assert item.pass_rate == pytest.approx(1 / 3)

    def test_discrimination_is_the_correlation_with_all_other_questions(self):
        """Against the definition, written out."""
        records = [one.record for one in class_of(200) if one.record]
        whole = [r for r in records if {v.state for v in r.verdicts} <= {"pass", "fail"}]
        for question in LAB:
            own = [v.points for r in whole for v in r.verdicts if v.question == question.name]
            rest = [r.points - x for r, x in zip(whole, own, strict=True)]
            mx, my = sum(own) / len(own), sum(rest) / len(rest)
            top = sum((x - mx) * (y - my) for x, y in zip(own, rest, strict=True))
            below = sum((x - mx) ** 2 for x in own) * sum((y - my) ** 2 for y in rest)
            assert discrimination(question, records) == pytest.approx(top / below**0.5)

    def test_a_question_that_only_the_weak_pass_is_negative(self):
        good = [record(f"g{n}", **{FIRST: verdict(FIRST, State.FAIL, got="3")}) for n in range(4)]
        wrong = {q: verdict(q, State.FAIL, got="3") for q in LAB.questions if q != FIRST}
        weak = [record(f"w{n}", **wrong) for n in range(4)]
        assert discrimination(LAB.questions[FIRST], good + weak) == pytest.approx(-1)

    @pytest.mark.parametrize("size", [0, 1, 2, 50])
    def test_where_all_are_alike_it_does_not_exist(self, size):
        alike = [record(f"s{n}") for n in range(size)]
        assert all(item.discrimination is None for item in items(LAB, alike))

    def test_an_open_question_keeps_its_student_out(self):
        people = [record(f"s{n}") for n in range(4)]
        people += [record(f"f{n}", **{FIRST: verdict(FIRST, State.FAIL, got="3")}) for n in (1, 2)]
        people += [record("x", **{SECOND: verdict(SECOND, State.FAIL, got="3")})]
        was = discrimination(LAB.questions[FIRST], people)
        hung = record(
            "open", **{FIRST: verdict(FIRST, State.FAIL), SECOND: verdict(SECOND, "flagged")}
        )
        assert was is not None
        assert discrimination(LAB.questions[FIRST], [*people, hung]) == was

    def test_misconceptions_come_by_frequency_with_their_sentence(self):
        def mistaken(student, name):
            made = verdict(FIRST, State.FAIL, misconception=name, sentence=f"About {name}.")
            return record(student, **{FIRST: made})

        found = misconceptions(
            [mistaken("a", "rare"), mistaken("b", "often"), mistaken("c", "often")]
        )
        assert [(one.name, one.students) for one in found] == [
            ("often", ("b", "c")),
            ("rare", ("a",)),
        ]
        assert found[0].sentence == "About often."
        assert misconceptions([]) == []

    def test_a_spread_says_the_median_and_what_nearly_all_stay_below(self):
        made = spread([float(n) for n in range(1, 101)])
        assert (made.median, made.most, made.count) == (50.5, 96.0, 100)
        assert spread([3.0]) == spread([3.0, 3.0, 3.0][:1])
        assert spread([]) is None

    def test_a_process_that_was_killed_does_not_count_as_having_used_nothing(self):
        records = [record(f"s{n}", **{FIRST: verdict(FIRST, peak_bytes=n)}) for n in (0, 0, 4096)]
        assert items(LAB, records)[0].peak_bytes.median == 4096


class Tags(HTMLParser):
    """Every tag of a page, and every attribute that could run or fetch something."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.acting, self.ids, self.open = set(), [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
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


class TestPage:
    @pytest.mark.slow
    @pytest.mark.parametrize("size", [0, 1, 2, 1000])
    def test_classes_of_every_size(self, size):
        text = page_of(class_of(size))
        tags = Tags(text)
        assert f"<b>{size}</b><span>handed in</span>" in text
        assert "script" not in tags.tags
        assert tags.acting == []
        assert len(set(tags.ids)) == len(tags.ids)
        assert text.count("<svg") == (6 if size else 0)  # each for a desk, and for a phone
        assert len(text) < 2_000_000

    def test_nothing_a_student_chose_becomes_markup(self):
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

    def test_it_forbids_what_it_does_not_have(self):
        head = page_of([]).partition("</head>")[0]
        assert "default-src 'none'" in head
        assert head.index("Content-Security-Policy") < head.index("<style")
        assert "http" not in head.replace("http-equiv", "")

    def test_control_characters_neither_reorder_nor_break(self):
        text = page_of([ungradable("a\u202eb", "one\nline\x1b[31m")])
        assert "\u202e" not in text
        assert "\x1b" not in text

    def test_names_that_no_ascii_holds(self):
        text = page_of([result("李雷"), result("Łukasz_Ж"), result("\ud800x")])
        assert "<bdi>李雷</bdi>" in text
        assert "../../feedback/%E6%9D%8E%E9%9B%B7/01_strides/01_strides.html" in text
        text.encode("utf-8", "replace")

    @pytest.mark.slow
    def test_every_plot_is_told_in_words_and_drawn_in_the_pages_colours(self):
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

    def test_every_shade_has_a_value_in_light_in_dark_and_on_paper(self):
        style = page_of([]).partition("<style>")[2].partition("</style>")[0]
        for variable in charts.VARIABLES.values():
            values = re.findall(rf"--{variable}: (#[0-9a-f]+)", style)
            assert len(values) == 3
            assert len(set(values)) >= 2

    def test_neighbouring_shades_differ_in_grey(self):
        """By lightness, in each of the three palettes; texture comes on top."""
        style = page_of([]).partition("<style>")[2]
        shades = [re.findall(rf"--{v}: (#\w+)", style) for v in ("passed", "wrong", "blank")]
        palettes = zip(*shades, strict=True)
        for palette in palettes:
            grey = [_lightness(colour) for colour in palette]
            assert min(abs(a - b) for a, b in pairwise(grey)) > 0.1

    def test_who_waits_for_a_person_is_there_with_the_reason(self):
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

    def test_as_many_wait_as_the_command_leaves_blank(self):
        people = [*class_of(20), ungradable("bob", "There is no notebook.")]
        blank = sum(one.counted(provisional=False) is None for one in people)
        assert blank > 0
        (shown,) = re.findall(r"<b>(\d+)</b><span>waits? for a person", page_of(people))
        assert int(shown) == blank

    def test_each_cell_names_its_column_for_a_phone(self):
        flagged = verdict(FIRST, State.FLAGGED, sentence="Too fast for this memory.")
        people = [result("ada", record("ada", **{FIRST: flagged})), *class_of(12)]
        people.append(ungradable("bob", "There is no notebook."))
        cells = re.findall(r"<td[^>]*>", page_of(people))
        assert len(cells) > 100
        assert all(re.search(r'data-head="\S', cell) for cell in cells)

    def test_the_median_lies_behind_the_bars(self):
        figure = charts.scores([1.0, 2.0, 2.0, 3.0], 4.0)
        line, bars = figure.index("stroke-dasharray"), figure.index("patch_3")
        assert line < bars  # what comes first in an SVG is painted over

    def test_lateness_is_told(self):
        one = result("ada")
        one = replace(one, grade=replace(one.grade, penalty=3.0, late_s=90_000.0))
        text = page_of([one], late_policy.Policy(timedelta(minutes=15), 0.1, 0.5))
        assert "Lateness costs 10% of the points per day begun, at most 50%" in text
        assert "1 d 1 h late" in text
        assert "\u22123" in text

    @pytest.mark.slow
    def test_the_same_class_makes_the_same_page(self):
        assert page_of(class_of(20)) == page_of(class_of(20))


def _lightness(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(c * 2 for c in colour[1:])
    r, g, b = (int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize(
    "start", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "|x", "%0"]
)
def test_no_cell_is_a_formula(start):
    [[cell, after]] = csv.reader(io.StringIO(written([[start, "x"]]).decode()))
    assert cell.startswith("'")
    assert after == "x"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1234567.0, "1234567"),
        (1234567.891, "1234567.89"),
        (100.0, "100"),
        (0.1 + 0.2, "0.3"),
        (2, "2"),
        (0.0, "0"),
        (-0.001, "0"),
        (-2.5, "-2.5"),
    ],
)
def test_a_number_is_written_as_a_person_writes_it(number, text):
    assert written([[number]]) == f"{text}\n".encode()


@pytest.mark.parametrize("start", [" =1+1", "|calc", "\u00a0=1", "=1+1", "-1"])
def test_the_list_of_the_ungradable_has_no_formula_either(tmp_path, start):
    path = tmp_path / "ungradable.csv"
    for lab in (NAME, "02_other", NAME):  # a line that was kept is not guarded twice
        write_ungradable(path, [Row(Submission(start, start), ungradable="No.")], lab)
    lines = list(csv.reader(io.StringIO(path.read_text())))
    kept = start.replace("\u00a0", " ")  # a cell holds one line of plain text
    assert [line[1:3] for line in lines[1:]] == [[f"'{kept}"] * 2] * 2


@pytest.mark.parametrize("plain", ["ada", "3", "a=b", "", "'x"])
def test_ordinary_cells_stay_as_they_are(plain):
    assert inert(plain) == plain


def from_canvas(name, user, **more):
    line = Line(f"{name}_{user}", f"submissions/{name}_LATE_{user}_67890_01_strides-1.ipynb")
    return replace(marked(result(f"{name}_{user}"), 4.0), line=line, **more)


class TestCanvas:
    """Against the rules of Canvas's own importer (`lib/gradebook_importer.rb`)."""

    def test_the_header_is_one_that_canvas_accepts(self):
        header, possible, *_ = rows(canvas("Strides", [from_canvas("ada", 12345)]))
        assert "Student" in header[0]
        assert "ID" in header[1]
        assert re.search(r"SIS\s+User\s+ID", header[2])
        assert re.search(r"SIS\s+Login\s+ID", header[3])
        assert "Section" in header[4]
        assert header[5:] == ["Strides"]
        assert "Points Possible" in possible[0]
        assert float(possible[5]) == LAB.max_points + 5

    def test_a_hand_in_from_canvas_is_found_by_canvass_own_number(self):
        *_, row = rows(canvas("Strides", [from_canvas("adalovelace", 12345)]))
        assert row == ["adalovelace", "12345", "", "", "", str(int(LAB.max_points + 4))]

    def test_a_folder_that_only_looks_like_canvass_is_found_by_login(self):
        """`smith_2` is not Canvas's user 2, whose grade it would overwrite."""
        one = marked(result("smith_2"), 4.0)
        inner = replace(one, line=replace(one.line, origin="smith_2/bob_7_8_01_strides.ipynb"))
        for made in (one, inner):
            *_, row = rows(canvas("Strides", [made]))
            assert row[:5] == ["smith_2", "", "", "smith_2", ""]

    def test_who_waits_for_a_person_gets_no_number_unless_asked_for(self):
        people = [result("ada"), ungradable("bob", "No notebook.")]
        assert [row[5] for row in rows(canvas("Strides", people))[2:]] == ["", ""]
        provisional = rows(canvas("Strides", people, provisional=True))[2:]
        assert [row[5] for row in provisional] == [f"{LAB.max_points:g}", ""]

    def test_a_newer_hand_in_that_could_not_be_graded_holds_the_grade_back(self):
        one = replace(marked(result("ada"), 4.0), reason="It was cut off.")
        assert rows(canvas("Strides", [one]))[2][5] == ""

    @pytest.mark.parametrize("size", [0, 1, 1000])
    def test_every_size(self, size):
        assert len(rows(canvas("Strides", class_of(size)))) == size + 2


class TestMoodle:
    """Against Moodle's own importer (`mod/assign/feedback/offline/importgradeslib.php`)."""

    def test_a_hand_in_from_moodle_is_found_by_its_participant(self):
        origin = "submissions/Ada Lovelace_12345_assignsubmission_file_/01_strides.ipynb"
        one = marked(result("Ada_Lovelace_12345"), 4.0)
        header, row = rows(moodle([replace(one, line=replace(one.line, origin=origin))]))
        assert {"Identifier", "Grade", "Last modified (grade)"} <= set(header)
        made = dict(zip(header, row, strict=True))
        assert made["Identifier"].removeprefix("Participant ") == "12345"
        assert made["Full name"] == "Ada Lovelace"
        assert float(made["Grade"]) == LAB.max_points + 4
        assert float(made["Maximum grade"]) == LAB.max_points + 5

    def test_others_are_mapped_by_their_user_name(self):
        header, row = rows(moodle([marked(result("ada"), 4.0)]))
        made = dict(zip(header, row, strict=True))
        assert (made["Identifier"], made["Username"]) == ("", "ada")

    def test_a_name_that_is_a_formula_is_a_name(self):
        origin = "=HYPERLINK(1)_12345_assignsubmission_file_/01_strides.ipynb"
        one = result("x")
        assert rows(moodle([replace(one, line=replace(one.line, origin=origin))]))[1][1] == (
            "'=HYPERLINK(1)"
        )


@pytest.mark.parametrize("outer", ["", "submissions/"])
@pytest.mark.parametrize(
    ("name", "from_canvas", "from_moodle"),
    [
        ("adalovelace_12345_67890_01_strides.ipynb", ("adalovelace", "12345"), ("", "")),
        ("adalovelace_LATE_12345_67890_01_strides-2.ipynb", ("adalovelace", "12345"), ("", "")),
        (
            "Ada Lovelace_77_assignsubmission_file_/01_strides.ipynb",
            ("", ""),
            ("Ada Lovelace", "77"),
        ),
        (
            "Ada Lovelace_77_assignsubmission_file_01_strides.ipynb",
            ("", ""),
            ("Ada Lovelace", "77"),
        ),
        ("ada/bob_1_2_01_strides.ipynb", ("", ""), ("", "")),
        ("ada/bob_1_assignsubmission_file_/01_strides.ipynb", ("", ""), ("", "")),
        ("ada/01_strides.ipynb", ("", ""), ("", "")),
    ],
)
def test_a_platforms_number_comes_from_its_own_file_names_only(
    tmp_path, name, outer, from_canvas, from_moodle
):
    """As intake finds them; what lies in a student's folder is the student's to name."""
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        archive.writestr(f"{outer}{name}", "{}")
        archive.writestr(f"{outer}zoe_9_9_01_strides.ipynb", "{}")
    found = submissions(files_in(tmp_path / "class.zip"), NAME, [NAME])
    (one,) = [submission for submission in found if not submission.student.startswith("zoe")]
    assert canvas_user(one.origin) == from_canvas
    assert moodle_participant(one.origin) == from_moodle


class TestOnePersonsNumber:
    """A platform gives each number to one person: a second hand-in with it is a forgery."""

    def people(self, *origins: str) -> list[Result]:
        return [
            Result(replace(result(f"s{n}").line, origin=origin)) for n, origin in enumerate(origins)
        ]

    @pytest.mark.parametrize(
        ("honest", "forged"),
        [
            (
                "Somebody Else_333_assignsubmission_file_01_strides.ipynb",
                "Some Body_333_assignsubmission_file_01_strides.ipynb",
            ),
            ("ada_12345_1_01_strides.ipynb", "eve_12345_2_01_strides.ipynb"),
        ],
    )
    def test_a_second_one_stops_the_export(self, honest, forged):
        with pytest.raises(UserError) as stopped:
            expect_one_each(self.people(honest, "zoe_9_9_01_strides.ipynb", forged))
        assert honest in str(stopped.value)
        assert forged in str(stopped.value)

    def test_others_pass(self):
        expect_one_each(
            self.people(
                "ada_12345_1_01_strides.ipynb",
                "bob_12346_1_01_strides.ipynb",
                "ada/01_strides.ipynb",
                "bob/01_strides.ipynb",
            )
        )


GRADESCOPE = {
    "type": "object",
    "additionalProperties": False,
    "anyOf": [{"required": ["score"]}, {"required": ["tests"]}],
    "properties": {
        "score": {"type": "number", "minimum": 0},
        "execution_time": {"type": "number", "minimum": 0},
        "output": {"type": "string"},
        "output_format": {"enum": ["text", "html", "simple_format", "md", "ansi"]},
        "visibility": {"enum": ["hidden", "after_due_date", "after_published", "visible"]},
        "stdout_visibility": {"enum": ["hidden", "after_due_date", "after_published", "visible"]},
        "extra_data": {"type": "object"},
        "leaderboard": {"type": "array"},
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "score": {"type": "number"},
                    "max_score": {"type": "number"},
                    "status": {"enum": ["passed", "failed"]},
                    "name": {"type": "string"},
                    "number": {"type": "string"},
                    "output": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "visibility": {"type": "string"},
                    "extra_data": {"type": "object"},
                },
            },
        },
    },
}
"""What https://gradescope-autograders.readthedocs.io/en/latest/specs/ lists under Output format."""


class TestGradescope:
    @pytest.mark.parametrize(
        "one",
        [
            result("ada"),
            marked(result("ada"), 4.0),
            replace(result("ada"), reason="It was cut off."),
            *(one for one in class_of(3) if one.grade),
        ],
    )
    def test_it_is_what_gradescope_takes(self, one):
        jsonschema.validate(json.loads(gradescope(one)), GRADESCOPE)

    def test_the_schema_would_catch_what_is_not(self):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"tests": [{"points": 3}]}, GRADESCOPE)

    def test_it_adds_up_and_lateness_is_told(self):
        one = marked(result("ada", record("ada", **{FIRST: verdict(FIRST, State.FAIL)})), 4.0)
        one = replace(one, grade=replace(one.grade, penalty=2.0))
        made = json.loads(gradescope(one))
        assert sum(test["score"] for test in made["tests"]) - 2.0 == made["score"]
        assert made["tests"][-1] == {"name": FREE_TEXT, "score": 4.0, "max_score": 5.0}
        assert made["output"] == "Handed in late: 2 points less, already taken off."
        assert made["tests"][0]["number"] == "1.1"

    def test_in_spanish_no_word_of_it_is_english(self):
        """Lateness, an earlier hand-in, an open text, and each kind of verdict."""
        wrong = LAB.questions[FIRST].wrong_answers[0]
        failed = verdict(FIRST, State.FAIL, misconception=wrong.name, sentence=wrong.sentence)
        blank = verdict(SECOND, State.FAIL, blank=True)
        looked_at = dict(zip(OTHERS, (State.FLAGGED, State.UNGRADABLE), strict=False))
        held = {name: verdict(name, state) for name, state in looked_at.items()}
        one = result("ada", record("ada", **{FIRST: failed, SECOND: blank, **held}))
        one = replace(one, grade=replace(one.grade, penalty=2.0), reason=NO_NOTEBOOK)
        for language in ("es", "en"):
            made = json.loads(gradescope(one, language))
            told = [made["output"], *(test["output"] for test in made["tests"])]
            texts = "\n".join(told).replace(FREE_TEXT, "")
            left = [word for word in english_in(texts) if word not in LAB.questions]
            assert (left == []) is (language == "es"), left
            assert len(set(told)) == len(told)

    def test_no_seed_is_in_it(self):
        assert b"77777" in record("ada").to_json().encode()
        assert b"77777" not in gradescope(result("ada"))

    def test_what_a_person_gave_counts(self):
        one = result("ada", record("ada", **{FIRST: verdict(FIRST, State.FLAGGED)}))
        marks = dict(one.grade.marks)
        marks[f"{FIRST}_check"] = replace(marks[f"{FIRST}_check"], points=2.0)
        made = json.loads(gradescope(replace(one, grade=replace(one.grade, marks=marks))))
        assert made["tests"][0]["score"] == 2.0


BACK = {
    "adalovelace_LATE_12345_67890_01_strides-1.ipynb": (
        "adalovelace_LATE_12345_67890_01_strides-1.html"
    ),
    "Ada Lovelace_12345_assignsubmission_file_/mine/01_strides.ipynb": (
        f"Ada Lovelace_12345_assignsubmission_file_/{NAME}.html"
    ),
    "submissions/ada/01_strides.ipynb": f"ada/{NAME}.html",
    "ada/../../bob_7_8_x.ipynb": f"ada/{NAME}.html",
    "assignment_7_export/submission_12/01_strides.ipynb": f"submission_12/{NAME}.html",
    "lab-1-submissions/lab-1-ada/labs/x/01_strides.ipynb": f"lab-1-ada/{NAME}.html",
    "lab-1-submissions/bob_7_8_x.ipynb": f"lab-1-submissions/{NAME}.html",
    "assignment_7_export/Bob_12345_assignsubmission_file_/x.ipynb": (
        f"assignment_7_export/{NAME}.html"
    ),
}


class TestReturned:
    """By the names that Canvas and Moodle gave, which lead them back to the student."""

    @pytest.fixture
    def sent(self, tmp_path):
        """The archive's contents by name, for results whose pages are there."""

        def send(*graded, **options):
            for one in graded:
                page = tmp_path / "feedback" / one.student / NAME / f"{NAME}.html"
                page.parent.mkdir(parents=True, exist_ok=True)
                page.write_text(f"for {one.student}")
            give_back(tmp_path / "feedback.zip", tmp_path, NAME, graded, **options)
            with zipfile.ZipFile(tmp_path / "feedback.zip") as archive:
                return {name: archive.read(name).decode() for name in archive.namelist()}

        return send

    @pytest.mark.parametrize("origin", BACK)
    def test_a_page_lies_where_the_hand_in_lay(self, sent, origin):
        one = marked(result("ada"), 4.0)
        made = sent(replace(one, line=replace(one.line, origin=origin)))
        assert made == {BACK[origin]: "for ada"}

    def test_canvas_and_moodle_find_their_student_by_it(self):
        canvass, moodles = list(BACK.values())[:2]
        assert canvas_user(canvass.replace(".html", ".ipynb")) == ("adalovelace", "12345")
        assert moodle_participant(moodles) == ("Ada Lovelace", "12345")

    def test_who_waits_for_a_person_waits_for_the_page_too(self, sent):
        ada, bob = marked(result("ada"), 4.0), result("bob")
        assert set(sent(ada, bob)) == {f"ada/{NAME}.html"}
        assert set(sent(ada, bob, provisional=True)) == {f"ada/{NAME}.html", f"bob/{NAME}.html"}

    @pytest.mark.parametrize("folders", [("ada", "ada"), ("Ada", "ada")])
    def test_two_who_handed_in_at_the_same_place_get_a_page_each(self, sent, folders):
        """From the folders of two assistants; and where capitals are the same, one file."""
        first, second = (
            replace(one, line=replace(one.line, origin=f"{folder}/01_strides.ipynb"))
            for folder, one in zip(
                folders, [marked(result(name), 4.0) for name in ("ada", "ada-5f0c2e")], strict=True
            )
        )
        assert sent(first, second) == {
            f"ada/{NAME}.html": "for ada",
            f"ada-5f0c2e/{NAME}.html": "for ada-5f0c2e",
        }

    def test_who_has_no_page_is_left_out(self, tmp_path):
        give_back(tmp_path / "feedback.zip", tmp_path, NAME, [marked(result("ada"), 4.0)])
        assert zipfile.ZipFile(tmp_path / "feedback.zip").namelist() == []

    def test_the_same_pages_make_the_same_bytes_for_the_instructor_alone(self, sent, tmp_path):
        made = []
        for _ in range(2):
            sent(marked(result("ada"), 4.0))
            made.append((tmp_path / "feedback.zip").read_bytes())
        assert made[0] == made[1]
        assert (tmp_path / "feedback.zip").stat().st_mode & 0o077 == 0
