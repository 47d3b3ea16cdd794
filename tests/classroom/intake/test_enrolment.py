"""Who is enrolled, from lists as five platforms export them, and whose hand-in is whose by it."""

from __future__ import annotations

import csv
import json
import stat
import zipfile

import pytest
from click.testing import CliRunner

from autograder import cli
from autograder.attacks.sample_class import NAME
from autograder.classroom.errors import UserError
from autograder.classroom.intake import enrolment
from autograder.classroom.intake.enrolment import Person, identified, read
from autograder.classroom.intake.submissions import files_in, submissions
from tests.classroom.made_class import grading_folder, record

CANVAS = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Lab 1 (77)\n"
    "    Points Possible,,,,,35\n"
    '"Lovelace, Ada",12345,s1,ada,A,\n'
    '"Nilsson, Åsa",12346,s2,asa,B and C,\n'
    '"Student, Test",99,,deadbeef,A,\n'
)
MOODLE = (
    "First name,Last name,ID number,Email address,Roles,Groups\n"
    "Ada,Lovelace,s1,ada@uni.example,Student,A\n"
    "Åsa,Nilsson,s2,asa@uni.example,Student,\n"
    "Grace,Hopper,s9,grace@uni.example,Teacher,\n"
)
WORKSHEET = (
    "Identifier,Full name,Email address,Status,Grade\n"
    "Participant 333,Ada Lovelace,ada@uni.example,Submitted,\n"
    "Participant 334,Åsa Nilsson,asa@uni.example,,\n"
)
BLACKBOARD = "Last Name\tFirst Name\tUsername\tStudent ID\nLovelace\tAda\tada\ts1\n"
GRADESCOPE = (
    "First Name,Last Name,SID,Email,Role,Section\n"
    "Ada,Lovelace,s1,ada@uni.example,Student,A\n"
    "Grace,Hopper,s9,grace@uni.example,TA,A\n"
)
GITHUB = "identifier,github_username,github_id,name\nada,countess,17,Ada Lovelace\n"
OURS = "student;name;email\nada;Ada Lovelace;ada@uni.example\n\n"


@pytest.fixture
def listed(tmp_path):
    def made(content, encoding="utf-8"):
        path = tmp_path / "list.csv"
        path.write_bytes(content.encode(encoding))
        return read(path)

    return made


@pytest.mark.parametrize(
    ("content", "encoding", "ids"),
    [
        (CANVAS, "utf-8-sig", ["ada", "asa"]),
        (MOODLE, "utf-8", ["ada@uni.example", "asa@uni.example"]),
        (WORKSHEET, "utf-8", ["ada@uni.example", "asa@uni.example"]),
        (BLACKBOARD, "utf-16", ["ada"]),
        (GRADESCOPE, "utf-8", ["ada@uni.example"]),
        (GITHUB, "utf-8", ["ada"]),
        (OURS, "utf-8", ["ada"]),
    ],
)
def test_each_export_names_its_students_and_nobody_else(listed, content, encoding, ids):
    people = listed(content, encoding)
    assert [person.folder_id for person in people] == ids
    assert people[0].name in ("Ada Lovelace", "Lovelace, Ada")


def test_what_an_export_says_of_a_student_is_kept(listed):
    ada = listed(CANVAS)[0]
    assert (ada.canvas, ada.login, ada.number, ada.section) == ("12345", "ada", "s1", "A")
    assert listed(WORKSHEET)[0].moodle == "333"
    assert listed(GITHUB)[0].github == "countess"


@pytest.mark.parametrize(
    "content",
    [
        'Student,ID,Section\n"Lovelace, Ada",12345,A\n',
        'Identifier,Full name\nParticipant 12345,"Lovelace, Ada"\n',
    ],
)
def test_a_platforms_table_cut_down_to_what_tells_it_is_still_that_platforms(listed, content):
    (ada,) = listed(content)
    assert (ada.name, ada.canvas or ada.moodle) == ("Lovelace, Ada", "12345")


def test_of_two_columns_that_are_the_same_thing_the_first_counts(listed):
    """A worksheet has a full name, and somebody adds a name of their own; grades are nobody's."""
    (ada,) = listed("student,name,grade,full name\nada,Ada Lovelace,3,Somebody Else\n")
    assert ada == Person("ada", "Ada Lovelace", folder_id="ada")


def test_an_empty_cell_says_nothing(listed):
    people = listed("student,first name,last name,email\n,,Lovelace,\n,Cy,,cy@uni.example\n")
    assert [(one.student, one.name) for one in people] == [
        ("Lovelace", "Lovelace"),
        ("cy@uni.example", "Cy"),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_ends_as_any_system_ends_it(listed, end):
    assert [one.student for one in listed(f"student,name{end}ada,A{end}bob,B{end}")] == [
        "ada",
        "bob",
    ]


def test_a_list_that_breaks_off_in_a_quotation_is_not_read_in_part(listed):
    """One quotation mark too many makes one cell of all that follows."""
    with pytest.raises(UserError, match=r"list\.csv, line \d+: field larger than"):
        listed('student,name\nada,A\nbob,"' + "B\ncy,C\n" * 50_000)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "no column of its first line"),
        ("a,b\n1,2\n", "no column of its first line"),
        ("student,name\n", "There is no student on"),
        ("name,section\n,A\n", "line 2: it does not say who"),
        ("student,name\nada,Ada One\nADA,Ada Two\n", "'ada' stands for two students, 'Ada One'"),
        ("student,email\nada,a@b.c\nbob,a@b.c\n", "'a@b.c' stands for two"),
        ('student,name\n"ada', "There is no student|unexpected end|stands"),
    ],
)
def test_a_bad_list_is_one_clear_line(listed, content, says):
    if content.endswith('"ada'):
        assert [person.student for person in listed(content)] == ["ada"]
        return
    with pytest.raises(UserError, match=says) as caught:
        listed(content)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_list(tmp_path):
    (tmp_path / "list.xlsx").write_bytes(b"PK\x03\x04\xff\xfe\x80")
    for path in (tmp_path / "list.xlsx", tmp_path / "nowhere.csv", tmp_path):
        with pytest.raises(UserError, match="Cannot read the list of students"):
            read(path)


def test_what_the_folder_remembers_says_the_same(listed, tmp_path):
    people = listed(CANVAS)
    enrolment.keep(tmp_path, people)
    assert enrolment.kept(tmp_path) == people
    assert stat.S_IMODE((tmp_path / enrolment.NAME).stat().st_mode) == 0o600
    assert b"\r" not in (tmp_path / enrolment.NAME).read_bytes()


def test_a_pseudonym_is_the_same_in_each_lab_whatever_version_graded_it():
    (ada,) = enrolment.pseudonyms([Person("ada")], b"secret")
    assert ada == Person("ada", folder_id="anon-1ca624feff")


def test_who_has_a_pseudonym_keeps_it():
    """Also where the class moves to a folder of another secret."""
    first = enrolment.pseudonyms([Person("ada"), Person("bob")], b"one")
    assert len({person.folder_id for person in first}) == 2
    assert enrolment.pseudonyms(first, b"another") == first
    assert enrolment.pseudonyms([Person("ada")], b"another") != first[:1]


def whose(people, *origins):
    """By origin, the name of whom it belongs to."""
    owners = {origin.split("/")[0].removesuffix(".ipynb"): origin for origin in origins}
    found = identified(people, owners)
    return [found[owner].name if owner in found else None for owner in owners]


class TestIdentified:
    def test_by_each_name_of_theirs(self, listed):
        people = [Person("s1", "Ada Lovelace", "ada@uni.example", login="ada", github="countess")]
        names = ("s1", "ADA", "ada@uni.example", "countess", "Ada Lovelace", "lovelace, ada")
        for name in names:
            assert whose(people, f"{name}/{NAME}.ipynb") == ["Ada Lovelace"]
        origin = "lovelaceada_12345_1_x.ipynb"
        assert identified(people, {"lovelaceada_12345": origin})["lovelaceada_12345"] is people[0]

    def test_a_number_decides_before_a_name(self, listed):
        """Another Ada Lovelace, whom the list does not know, is not ours."""
        people = listed(WORKSHEET)
        mine, other = (f"Ada Lovelace_{n}_assignsubmission_file_/x.ipynb" for n in (333, 444))
        found = identified(people, {"Ada Lovelace_333": mine, "Ada Lovelace_444": other})
        assert list(found) == ["Ada Lovelace_333"]

    def test_a_name_that_two_people_have_is_nobodys(self):
        people = [Person("a1", "Ada Lovelace"), Person("a2", "Lovelace, Ada")]
        assert whose(people, "Ada Lovelace/x.ipynb", "a1/x.ipynb") == [None, "Ada Lovelace"]
        assert whose(people, "Ada Lovelace/x.ipynb") == [None]

    @pytest.mark.parametrize("listed_as", ["Zoë King Lovelace", "Lovelace, Zoë King"])
    @pytest.mark.parametrize("shown", ["zoe king lovelace", "Lovelace Zoe-King", "lovelacezoeking"])
    def test_a_name_of_three_words_is_one_name(self, listed_as, shown):
        people = [Person("a1", "Åsa Nilsson"), Person("a2", listed_as)]
        assert whose(people, f"{shown}/x.ipynb") == [listed_as]

    @pytest.mark.parametrize("name", ["", "-", ", ", " "])
    def test_who_has_no_name_is_not_found_by_none(self, name):
        """Who keeps the list writes a dash where a name is missing."""
        assert whose([Person("a1", name)], "__/x.ipynb", "-/x.ipynb") == [None, None]

    def test_who_hands_in_by_number_does_not_get_what_lies_under_their_name_too(self):
        people = [Person("a1", "Ada Lovelace"), Person("b1", "Bob Byron")]
        origins = ("a1/x.ipynb", "Ada Lovelace/x.ipynb", "Bob Byron/x.ipynb")
        assert whose(people, *origins) == ["Ada Lovelace", None, "Bob Byron"]

    def test_what_follows_a_second_comma_is_of_the_first_name(self):
        people = [Person("a1", "Lovelace, Ada, Jr.")]
        assert whose(people, "ada jr lovelace/x.ipynb") == ["Lovelace, Ada, Jr."]

    def test_two_owners_with_one_persons_name_are_not_merged(self):
        people = [Person("a1", "Ada Lovelace")]
        twice = {f"Ada Lovelace_{n}": f"Ada Lovelace_{n}_assignsubmission_file_/x" for n in (3, 4)}
        assert identified(people, twice) == {}

    def test_a_students_own_file_name_is_not_believed(self, listed):
        """Behind the platform's mark a student writes what they like."""
        people = listed(WORKSHEET)
        origin = "Eve Else_777_assignsubmission_file_Ada Lovelace_333_assignsubmission_file_x.ipynb"
        assert identified(people, {"Eve Else_777": origin}) == {}


def test_a_number_here_and_an_email_there_are_one_person(listed, tmp_path):
    people = listed(CANVAS)
    for name in ("lovelaceada_12345_1_01_strides.ipynb", "nilssonsa_LATE_12346_2_x.ipynb"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text("{}")
    (tmp_path / "in" / "eve_777_3_x.ipynb").write_text("{}")
    found = submissions(files_in(tmp_path / "in"), NAME, [NAME], people)
    assert [one.student for one in found] == ["ada", "asa", "eve_777"]


@pytest.fixture
def autograder(tmp_path, monkeypatch, nothing_begins):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.csv").write_text(CANVAS + '"Cole, Cy",12347,s3,cy,A,\n', encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "submissions.zip", "w") as archive:
        archive.writestr("lovelaceada_12345_1_notes.pdf", "%PDF")
        archive.writestr("nilssonsa_LATE_12346_2_01_strides.ipynb", "{")
        archive.writestr("strangersam_777_3_01_strides.ipynb", "{")

    def run(*arguments, code=0):
        done = CliRunner(env={"COLUMNS": "150"}).invoke(cli.main, list(map(str, arguments)))
        assert done.exit_code == code, done.output
        return done.output

    return run


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


GRADE = ("grade", "submissions.zip", "--lab", NAME)


def test_every_enrolled_person_has_a_row_and_who_is_not_enrolled_is_named(autograder, tmp_path):
    said = autograder(*GRADE, "--roster", "list.csv")
    assert "absent      1 of 3 handed in nothing" in said
    assert "unknown     1 not enrolled: strangersam_777" in said
    for student in ("ada", "asa", "cy", "strangersam_777"):
        assert f"│ {student} " in said
    assert "absent      1 of 4 handed in nothing" in autograder("report")
    canvas = rows_of(tmp_path / "grading" / "reports" / NAME / "canvas.csv")[1:]
    assert [(r["Student"], r["ID"], r["SIS Login ID"], r["Section"]) for r in canvas] == [
        ("Lovelace, Ada", "12345", "ada", "A"),
        ("Nilsson, Åsa", "12346", "asa", "B and C"),
        ("Cole, Cy", "12347", "cy", "A"),
        ("strangersam", "777", "", ""),
    ]
    page = (tmp_path / "grading" / "reports" / NAME / "index.html").read_text(encoding="utf-8")
    for text in ("handed in nothing", "not enrolled", "Nilsson, Åsa", "B and C", "of 3 enrolled"):
        assert text in page
    assert "absent      1 of 3" in autograder(*GRADE)  # it is remembered


def test_nobody_can_tell_from_a_pseudonym_who_it_is_and_exports_know(autograder, tmp_path):
    said = autograder(*GRADE, "--roster", "list.csv", "--anonymous")
    autograder("report")
    people = {p.name: p.folder_id for p in enrolment.kept(tmp_path / "grading")}
    assert all(name.startswith("anon-") and name in said for name in people.values())
    page = (tmp_path / "grading" / "reports" / NAME / "index.html").read_text(encoding="utf-8")
    for name in ("ada", "asa", "Lovelace", "Nilsson", "lovelaceada", "12345", "notes.pdf"):
        assert f">{name}" not in page
        assert f"{name}<" not in page
    canvas = rows_of(tmp_path / "grading" / "reports" / NAME / "canvas.csv")[1:]
    assert {(row["Student"], row["ID"]) for row in canvas} >= {("Lovelace, Ada", "12345")}
    more = tmp_path / "more.csv"
    more.write_text((tmp_path / "list.csv").read_text() + '"New, Nora",12348,s4,nora,A,\n')
    autograder(*GRADE, "--roster", "more.csv")
    later = {p.name: p.folder_id for p in enrolment.kept(tmp_path / "grading")}
    assert later.items() > people.items(), "stable, and a newcomer gets one too"
    assert later["New, Nora"].startswith("anon-")


def test_a_class_that_goes_by_name_does_not_become_anonymous(autograder, tmp_path):
    said = autograder(*GRADE, "--anonymous", code=1)
    assert "--anonymous needs to know who is enrolled: --roster FILE" in said
    autograder(*GRADE)
    said = autograder(*GRADE, "--roster", "list.csv", "--anonymous", code=1)
    assert "knows its students by name already" in said


def test_who_was_graded_before_there_was_a_list_keeps_their_id(autograder, tmp_path):
    autograder(*GRADE)
    autograder(*GRADE, "--roster", "list.csv")
    ids = [person.folder_id for person in enrolment.kept(tmp_path / "grading")]
    assert ids == ["lovelaceada_12345", "nilssonsa_12346", "cy"]
    lines = json.loads((tmp_path / "grading" / "roll" / f"{NAME}.json").read_text())
    assert len(lines) == 3, "nobody became two"


@pytest.mark.slow
def test_nbgraders_export_has_a_row_for_each(tmp_path):
    from nbgrader.api import Gradebook

    from autograder.classroom.gradebook.course import database, enrol

    folder = grading_folder(tmp_path / "grading", [record("ada")])
    ada, asa = Person("ada", "Lovelace, Ada", "a@b.c", folder_id="ada"), Person("x", "Åsa Nilsson")
    enrol(folder, [ada, enrolment.pseudonyms([asa], b"secret")[0]])
    with Gradebook(database(folder)) as gradebook:
        students = {one.id: (one.first_name, one.last_name) for one in gradebook.students}
        assert len(gradebook.find_assignment(NAME).submissions) == 1
    hidden = next(name for name in students if name.startswith("anon-"))
    assert students == {"ada": ("Ada", "Lovelace"), hidden: (None, None)}
