"""`autograder merge`: two who graded a half of the class each, or marked in a folder each."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from nbgrader.api import Gradebook
from rich.console import Console

from autograder import cli
from autograder.attacks.sample_class import NAME, ROOT
from autograder.classroom.commands import changes as publishing
from autograder.classroom.commands import merge as command
from autograder.classroom.gradebook.course import database
from autograder.classroom.gradebook.marks import Given, marks
from autograder.classroom.reports.rows import Row, write_ungradable
from autograder.classroom.store import changes, folder_lock, merges, roster, seed_secret, variants
from autograder.classroom.store.changes import Change
from autograder.classroom.store.journal import key_of
from autograder.classroom.store.roster import Line
from autograder.judge import State
from tests.classroom.made_class import (
    FREE_TEXT,
    LAB,
    RELEASE,
    grading_folder,
    kept,
    mark,
    record,
    verdict,
)

pytestmark = pytest.mark.whole_class

FIRST, SECOND, *_ = LAB.questions
WORTH, FULL = LAB.questions[FIRST].points, LAB.max_points
WRONG = {FIRST: verdict(FIRST, State.FAIL)}
TEXTS = {"ada": "Ada's.", "max": "Max, first."}


def folder_of(place, records, texts):
    """A grading folder with the hand-ins of these students, each with a free text of their own."""
    place.mkdir()
    sha256 = {one.student: kept(place, {FREE_TEXT: texts[one.student]}) for one in records}
    records = [
        replace(one, sha256=sha256[one.student], key=key_of(place.name, one.student, one.key))
        for one in records
    ]
    grading_folder(place, records)
    seed_secret.secret(place)
    lines = roster.read(place, NAME).values()
    roster.update(
        place, NAME, [replace(line, version=RELEASE.version, owner=line.student) for line in lines]
    )
    return place


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Here Ada, Kim, Lee and Max. There Cy and Dee, Uma with a PDF, and Kim as here, Lee with
    another verdict, Max with another hand-in."""
    place = tmp_path_factory.mktemp("class")
    texts = {name: f"{name}'s own text." for name in ("ada", "cy", "dee", "kim", "lee", "max")}
    here = [record("ada"), record("kim"), record("lee"), record("max")]
    folder_of(place / "grading", here, texts)
    there = [record("cy"), record("dee", **WRONG), record("kim"), record("lee", **WRONG)]
    texts |= {"max": "Another one of Max."}
    other = folder_of(place / "other", [*there, record("max", **WRONG)], texts)
    uma = Line("uma", "uma/report.pdf", ungradable="There is no notebook.", owner="uma")
    roster.update(other, NAME, [uma])
    mark(place / "grading", "ada", 5.0)
    mark(place / "grading", "lee", 2.0, "Too short.")
    mark(other, "dee", 3.0, "Which stride?")
    mark(other, "kim", 4.0, "Good.")
    mark(other, "lee", 1.0)
    mark(other, "max", 1.0)
    return place


@pytest.fixture
def place(whole, tmp_path, monkeypatch):
    shutil.copytree(whole, tmp_path / "both")
    monkeypatch.chdir(tmp_path / "both")
    return tmp_path / "both"


def merge(*arguments, code=0):
    done = CliRunner().invoke(cli.main, ["merge", *map(str, arguments)])
    assert done.exit_code == code, (done.output, done.exception)
    if code:
        assert len(done.output.strip().splitlines()) == 1, done.output
    return done.output


def scores(folder):
    with Gradebook(database(folder)) as book:
        return {one.student_id: one.score for one in book.find_assignment(NAME).submissions}


def files(folder):
    """What lies in a folder, but for what every command leaves."""
    passing = {".lock", "grade.log"}
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in passing
    }


MERGED = {"ada": FULL + 5, "cy": FULL, "dee": FULL - WORTH + 3, "kim": FULL + 4, "lee": FULL + 2}
MERGED |= {"max": FULL}


def test_nothing_changes_before_the_instructor_is_sure(place):
    before = files(place)
    said = merge("other")
    assert files(place) == before
    assert "students  3 come, 3 are in both" in said
    assert "marks     2 that a person gave come" in said
    assert "4 times the two differ:" in said
    worth = f"pass, {WORTH:g} points here, fail, 0 points there"
    assert f"lee: {FIRST}: {worth}; what is here stays" in said
    assert f"lee: {FREE_TEXT}: 2 points, 'Too short.' here, 1 points there" in said
    assert "max: handed in max/01_strides.ipynb here, and max/01_strides.ipynb there" in said
    assert f"max: {FREE_TEXT}: 1 points there, for another answer; what is here stays" in said
    assert "Add --yes to do it." in said


@pytest.mark.parametrize("folder", ["grading", "other"])
def test_a_lost_notebook_stops_it_before_anything_is_noted(place, folder):
    sorted((place / folder / "received").iterdir())[0].unlink()
    before = files(place)
    assert "only what is lost runs" in merge("other", "--yes", code=1)
    assert files(place) == before


def test_two_halves_become_one_class_and_every_export_agrees(place):
    other = files(place / "other")
    merge("other", "--yes")
    assert scores(place / "grading") == MERGED
    given = marks(place / "grading", RELEASE)
    assert given["dee"] == {FREE_TEXT: Given(3.0, None, "Which stride?")}
    assert given["kim"] == {FREE_TEXT: Given(4.0, None, "Good.")}
    assert given["lee"] == {FREE_TEXT: Given(2.0, None, "Too short.")}
    page = place / "grading" / "feedback" / "dee" / NAME / f"{NAME}.html"
    assert "Which stride?" in page.read_text(encoding="utf-8")
    assert files(place / "other") == other
    _expect_exports_agree(place / "grading")
    with open(place / "grading" / "ungradable.csv", encoding="utf-8") as file:
        assert [row["student"] for row in csv.DictReader(file)] == ["uma"]
    (noted,) = merges.read(place / "grading")
    assert len(noted.differed) == 4
    assert any(FREE_TEXT in line and "1 points there" in line for line in noted.differed)


def _expect_exports_agree(folder):
    """Canvas, Moodle, Gradescope, the page and nbgrader's own table, with the gradebook."""
    done = CliRunner().invoke(cli.main, ["report", NAME, "--provisional"])
    assert done.exit_code == 0, done.output
    reports = folder / "reports" / NAME
    with open(reports / "canvas.csv", encoding="utf-8") as file:
        canvas = {r["Student"]: r[NAME] for r in csv.DictReader(file) if r["Student"] in MERGED}
    want = scores(folder)
    assert {name: float(points) for name, points in canvas.items()} == want
    gradescope = {
        path.parent.name: json.loads(path.read_bytes())["score"]
        for path in reports.glob("gradescope/*/results.json")
    }
    assert gradescope == want
    export = [Path(sys.executable).parent / "nbgrader", "export", "--to", folder / "all.csv"]
    subprocess.run(export, cwd=folder, check=True, capture_output=True, timeout=300)
    with open(folder / "all.csv", encoding="utf-8") as file:
        assert {r["student_id"]: float(r["score"]) for r in csv.DictReader(file)} == want
    with open(reports / "moodle.csv", encoding="utf-8") as file:
        _, *rows = csv.reader(file)
    assert len(rows) == len(want) + 1  # Uma too
    assert {float(row[3]) for row in rows if row[3]} == set(want.values())
    text = (reports / "index.html").read_text(encoding="utf-8")
    assert all(f"<bdi>{name}</bdi>" in text for name in [*want, "uma"])


def test_the_same_folder_twice_changes_nothing_the_second_time(place):
    merge("other", "--yes")
    before = files(place / "grading")
    said = merge("other", "--yes")
    assert "students  0 come, 6 are in both" in said
    assert "marks     0 that a person gave come" in said
    after = files(place / "grading")
    changed = {path for path in before | after if before.get(path) != after.get(path)}
    assert {path.name for path in changed} <= {"gradebook.db"}
    assert scores(place / "grading") == MERGED


def test_the_other_folder_is_right_where_the_instructor_says_so(place):
    said = merge("other", "--theirs", "LEE", "--theirs", "max", "--yes")
    assert "what is there is taken" in said
    assert scores(place / "grading") == MERGED | {"lee": FULL - WORTH + 1, "max": FULL - WORTH + 1}
    ours = roster.read(place / "other", NAME)["max"]
    assert roster.read(place / "grading", NAME)["max"].sha256 == ours.sha256
    assert "0 times" not in merge("other")
    assert "differ" not in merge("other")


STEPS = [
    (merges, "add"),
    (changes, "write"),
    (roster, "update"),
    (command, "publish_again"),
    (publishing, "give"),
]


@pytest.mark.parametrize(("module", "name"), STEPS, ids=[name for _, name in STEPS])
def test_killed_at_any_moment_the_same_command_ends_it(place, monkeypatch, module, name):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, name, killed)
        done = CliRunner().invoke(cli.main, ["merge", "other", "--yes"])
        assert done.exit_code == 1
    merge("other", "--yes")
    assert scores(place / "grading") == MERGED
    page = place / "grading" / "feedback" / "dee" / NAME / f"{NAME}.html"
    assert "Which stride?" in page.read_text(encoding="utf-8")
    assert len(merges.read(place / "grading")) == 1


def test_what_was_changed_after_the_grading_comes_too(place):
    early, late, later = (f"2026-11-2{n} 10:00 UTC" for n in (1, 2, 3))
    dropped = Change(FIRST, "Its text was wrong", late, points=0.0)
    same = Change(SECOND, "Allowed", early, student="kim", sha256="00ff")
    changes.write(place / "other", NAME, [replace(same, undone=later), dropped])
    changes.write(place / "grading", NAME, [same, Change(FIRST, "Too hard", early, points=1.0)])
    said = merge("other", "--yes")
    assert f"{FIRST}: 1 points here, 0 there; the later decision counts" in said
    found = changes.read(place / "grading", NAME)
    assert [one.reason for one in found] == ["Allowed", "Too hard", "Its text was wrong"]
    assert found[0].undone == later
    assert f"The checks are worth {FULL - WORTH:g} points in all" in said
    assert scores(place / "grading")["ada"] == FULL - WORTH + 5
    assert scores(place / "grading")["cy"] == FULL - WORTH
    merge("other", "--yes")
    assert changes.read(place / "grading", NAME) == found


def test_a_mark_comes_as_the_share_of_its_question_that_it_was(place):
    """Dee had a quarter, of a question that was worth more there, and is worth nothing here."""
    mark(place / "other", "dee", WORTH / 4, cell=f"{FIRST}_check")
    early, late = (f"2026-11-2{n} 10:00 UTC" for n in (1, 2))
    more = Change(FIRST, "Hard", early, points=8.0)
    changes.write(place / "other", NAME, [more])
    publishing.publish_again(place / "other", ROOT, RELEASE, Console(quiet=True))
    mark(place / "other", "dee", 3.0)  # her text is another one than was published before
    assert scores(place / "other")["dee"] == FULL - WORTH + 2 + 3
    changes.write(place / "grading", NAME, [Change(FIRST, "Its text", late, points=0.0)])
    said = merge("other", "--yes")
    assert f"{FIRST}: 0 points here, 8 there; the later decision counts" in said
    assert scores(place / "grading")["dee"] == FULL - WORTH + 3
    words = ["change", NAME, "undo", "2", "--reason", "It was right", "--yes"]
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 0, done.output
    assert scores(place / "grading")["dee"] == FULL - WORTH + 2 + 3


def test_what_was_judged_again_there_counts_here(place):
    key = roster.read(place / "other", NAME)["dee"].key
    again = changes.Judged("dee", key, verdict(FIRST))
    made = Change(FIRST, "The machine", "2026-11-21 10:00 UTC", student="dee", judged=(again,))
    changes.write(place / "other", NAME, [made])
    merge("other", "--yes")
    assert scores(place / "grading")["dee"] == FULL + 3


def test_an_id_that_is_somebody_elses_here_becomes_another(place):
    line = roster.read(place / "other", NAME)["cy"]
    roster.update(place / "grading", NAME, [Line("cy", "x", ungradable="No.", owner="C. Y.")])
    roster.update(place / "other", NAME, [replace(line, owner="cy ")])
    said = merge("other", "--yes")
    (renamed,) = re.findall(r"cy there is (cy-\w+) here", said)
    assert scores(place / "grading") == {
        (renamed if name == "cy" else name): points for name, points in MERGED.items()
    }
    assert roster.read(place / "grading", NAME)["cy"].ungradable == "No."


CLASS = "student,name,email\n" + "".join(
    f"{name},{name.title()} X,{name}@uni.example\n" for name in [*MERGED, "uma"]
)


def enrolled(folder, text, *options):
    from autograder.classroom.commands.grading_run import Order, enrolled

    (folder.parent / "class.csv").write_text(text)
    order = Order(None, folder, Path(), roster=folder.parent / "class.csv", **dict(options))
    return enrolled(order)


def test_one_person_under_two_names_is_one_person_by_the_class_list(place, tmp_path):
    """The other one's platform called Ada by her e-mail."""
    texts = {"ada@uni.example": "ada's own text.", "eve": "Eve's."}
    other = folder_of(place / "mail", [record("ada@uni.example"), record("eve")], texts)
    mark(other, "eve", 2.0)
    enrolled(place / "grading", CLASS)
    said = merge("mail", "--yes")
    assert "ada@uni.example there is ada here" in said
    assert "students  1 come, 1 are in both" in said
    assert scores(place / "grading")["eve"] == FULL + 2
    assert "ada@uni.example" not in scores(place / "grading")


def test_pseudonyms_of_two_folders_are_matched_by_the_class_list_or_refused(place):
    people = (
        enrolled(place / "empty", CLASS, ("anonymous", True))
        if ((place / "empty").mkdir() or True)
        else []
    )
    ids = {person.student: person.folder_id for person in people}
    anonymous = folder_of(place / "anon", [record(ids["cy"])], {ids["cy"]: "Cy."})
    shutil.copy(place / "empty" / "enrolled.csv", anonymous)
    assert "knows its students by pseudonyms" in merge("anon", code=1)
    enrolled(place / "grading", CLASS)
    assert f"{ids['cy']} there is cy here" in merge("anon", "--yes")
    assert scores(place / "grading")["cy"] == FULL


def test_late_rules_and_times_are_not_forgotten(place, monkeypatch):
    late = (
        "grace_minutes = 0\nper_day_percent = 10\n[due]\n01_strides = 2026-11-20T00:00:00+00:00\n"
    )
    (place / "other" / "late.toml").write_text(late)
    with Gradebook(database(place / "other")) as book:
        from datetime import datetime, timedelta

        book.find_submission(NAME, "cy").timestamp = datetime(2026, 11, 20, 6)
        book.find_submission(NAME, "dee").extension = timedelta(days=2)
        book.db.commit()
    said = merge("other", "--yes")
    assert "late rules: nothing in " in said
    assert "due 2026-11-20 00:00 UTC, 10% of the points per day begun" in said
    assert "dee: 2 days, 0:00:00 more time there, none here: what late.toml says counts" in said
    assert roster.read(place / "grading", NAME)["cy"].submitted == "2026-11-20 06:00:00"
    with Gradebook(database(place / "grading")) as book:
        assert book.find_submission(NAME, "cy").timestamp == datetime(2026, 11, 20, 6)


def test_another_version_of_the_lab_is_said(place):
    line = roster.read(place / "other", NAME)["cy"]
    roster.update(place / "other", NAME, [replace(line, version="an older one")])
    assert "version   1 were judged by another one: autograder regrade" in merge("other")


def test_who_lost_a_verdict_there_is_named_and_does_not_come(place):
    for path in (place / "other" / "journal" / NAME).glob("cy-*.json"):
        path.write_text("torn")
    said = merge("other", "--yes")
    assert "cy: nothing comes, for the verdict there is missing or damaged" in said
    assert scores(place / "grading") == {n: p for n, p in MERGED.items() if n != "cy"}


def test_nothing_is_judged_again_after_a_merge(place, monkeypatch):
    from autograder.classroom.intake.rebuild import rebuild
    from autograder.classroom.intake.submissions import Submission
    from autograder.classroom.intake.taking import Entry
    from autograder.classroom.run import grading
    from autograder.sandbox import Tier

    monkeypatch.setattr(grading, "probe", lambda: Tier("made", "for a test", safe=True))
    told = RELEASE.version, grading.TORCH
    seeds = {n: seed_secret.name_of(seed_secret.secret(place / n)) for n in ("grading", "other")}
    sha256 = roster.read(place / "other", NAME)["cy"].sha256
    data = (place / "other" / "received" / f"{sha256}.ipynb").read_bytes()
    entry = Entry(Submission("cy", "cy"), rebuild(data, RELEASE), sha256)
    key = key_of(sha256, *told, seeds["other"], "made")
    line = roster.read(place / "other", NAME)["cy"]
    from autograder.classroom.store.journal import Journal

    journal = Journal(place / "other" / "journal" / NAME)
    journal.write(replace(journal.read("cy", line.key), key=key))
    roster.update(place / "other", NAME, [replace(line, key=key)])
    here = grading.Grading(place / "grading", RELEASE, grading.Means())
    assert [job.student for job in here.look_up({"cy": entry})[1]] == ["cy"]
    merge("other", "--yes")
    here = grading.Grading(place / "grading", RELEASE, grading.Means())
    (found,), jobs = here.look_up({"cy": entry})
    assert (found.key, jobs) == (key, [])
    (place / "grading" / "seed").unlink()  # the instructor wants fresh inputs for everybody
    for _ in range(2):
        here = grading.Grading(place / "grading", RELEASE, grading.Means())
        assert [job.student for job in here.look_up({"cy": entry})[1]] == ["cy"]
    merge("other", "--yes")  # and then the other folder's verdicts after all
    here = grading.Grading(place / "grading", RELEASE, grading.Means())
    assert here.look_up({"cy": entry})[1] == []


def test_verdicts_on_other_numbers_than_were_given_out_do_not_come(place, monkeypatch):
    """Lab 01 has none: what each folder knows of them is made up."""
    given = {"cy": {FIRST: {"n": 3}}}
    monkeypatch.setattr(
        variants, "read", lambda folder, lab: given if folder.name == "grading" else {}
    )
    before = files(place)
    assert "cy was asked for other numbers of 01_strides" in merge("other", "--yes", code=1)
    assert files(place) == before
    monkeypatch.setattr(variants, "read", lambda folder, lab: given)
    assert "students  3 come" in merge("other")


def test_who_is_at_work_in_either_folder_is_named(place):
    for folder in ("grading", "other"):
        with folder_lock.alone(place / folder, "grade"):
            assert "`autograder grade` of " in merge("other", "--yes", code=1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere",), "There is no grading folder"),
        (("grading",), "is the same folder"),
        (("link",), "is the same folder"),
        (("empty",), "No lab has been graded in"),
        (("other", "--out", "nowhere"), "There is no grading folder"),
        (("other", "--theirs", "eve"), "There is no student 'eve'"),
        (("foreign",), "There is no lab '77_foreign' in the course"),
        (("torn",), "is damaged"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_changes_nothing(place, arguments, says):
    (place / "link").symlink_to(place / "grading")
    (place / "empty").mkdir()
    for name, text in (("foreign/roll/77_foreign.json", "[]"), (f"torn/roll/{NAME}.json", "[{")):
        (place / name).parent.mkdir(parents=True)
        (place / name).write_text(text)
    before = files(place / "grading")
    assert says in merge(*arguments, code=1)
    assert files(place / "grading") == before


def test_a_second_run_keeps_who_was_ungradable_in_the_first(tmp_path):
    from autograder.classroom.intake.submissions import Submission

    path = tmp_path / "ungradable.csv"
    ungradable = [Row(Submission(name, f"{name}.pdf"), ungradable="No.") for name in ("ada", "bob")]
    write_ungradable(path, ungradable, NAME)
    again = Row(Submission("bob", "bob.ipynb"), record("bob"))
    write_ungradable(path, [again, Row(Submission("cy", "c"), ungradable="No.")], NAME)
    with open(path, encoding="utf-8") as file:
        assert [row["student"] for row in csv.DictReader(file)] == ["ada", "cy"]
