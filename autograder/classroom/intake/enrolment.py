"""Who is enrolled, from the list that the instructor has, and whose hand-in is whose by it.

The list is a CSV file: ours (`student,name,email,section,...`), or what a platform exports. Which
one it is does not matter: each column is known by its own name.

    Canvas        Grades, Export                    Student, ID, SIS User ID, SIS Login ID, Section
    Moodle        Participants, Download; or the assignment's grading worksheet
    Blackboard    Grade Center, Download            Last Name, First Name, Username, Student ID
    Gradescope    Roster, Download Roster           First Name, Last Name, Email, SID, Role, Section
    GitHub        Classroom, Students, Download     identifier, github_username

A hand-in is somebody's by a name that is theirs alone. Where a platform gave a number and the list
has that platform's numbers, the number decides: names can be alike.
"""

import csv
import hashlib
import hmac
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from autograder import atomic_write

from ..errors import UserError
from .owners import canvas_user, moodle_participant, student_ids

NAME = "enrolled.csv"
PARTS = {
    "student": ("student", "identifier"),
    "name": ("name", "full name", "student name"),
    "first": ("first name", "given name"),
    "last": ("last name", "surname", "family name"),
    "email": ("email", "email address", "e-mail"),
    "section": ("section", "sections", "section name", "groups"),
    "login": ("login", "sis login id", "username", "user name"),
    "number": ("number", "sid", "student id", "id number", "sis user id"),
    "canvas": ("canvas",),
    "moodle": ("moodle",),
    "github": ("github", "github_username"),
    "folder_id": ("folder_id",),
    "role": ("role", "roles"),
}
"""What a column is, by its name in small letters."""
NO_STUDENT = re.compile(
    r"instructor|teacher|assistant|\bta\b|reader|manager|designer|observer", re.I
)
SPOILT = "{}, line {}: {}"
EXAMPLE = "student,name,email,section"
ANONYMOUS = "anon-"


@dataclass(frozen=True)
class Person:
    """Somebody on the list. student: what the list calls them. login, number, github: their names
    elsewhere; canvas, moodle: the platform's own numbers. folder_id: what the grading folder calls
    them, safe as a folder's name."""

    student: str
    name: str = ""
    email: str = ""
    section: str = ""
    login: str = ""
    number: str = ""
    canvas: str = ""
    moodle: str = ""
    github: str = ""
    folder_id: str = ""

    @property
    def is_anonymous(self) -> bool:
        return is_pseudonym(self.folder_id)

    @property
    def ids(self) -> Iterator[str]:
        """What may stand for them in the name of a folder, in small letters."""
        known = (self.student, self.folder_id, self.email, self.login, self.number, self.github)
        for text in known:
            if text:
                yield text.casefold()


def is_pseudonym(folder_id: str) -> bool:
    """Whether somebody's folder is called so that nobody who grades knows them."""
    return folder_id.startswith(ANONYMOUS)


def read(path: Path) -> list[Person]:
    """The students on the list at `path`, in its order.

    Raises UserError where it is none, and where one of them stands on it twice.
    """
    rows = list(_rows(path))
    people = [person for line, row in rows if (person := _person(path, line, row))]
    if not people:
        raise UserError(f"There is no student on {path}, which needs columns as in {EXAMPLE}.")
    expect_each_once(path, people)
    ids = student_ids([person.student for person in people])
    return [replace(p, folder_id=p.folder_id or ids[p.student]) for p in people]


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Each line's number, and what it says by the part that a column is."""
    text = _text(path)
    head = text.partition("\n")[0]
    separator = max(",;\t", key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        columns = _columns(next(reader, []))
        if not {"student", "name", "last", "email", "login"} & set(columns.values()):
            raise UserError(
                f"{path}: no column of its first line says who somebody is. It needs some of: "
                f"{EXAMPLE}; or give the file that your platform exports."
            )
        for cells in reader:
            row = {columns[i]: cell.strip() for i, cell in enumerate(cells) if i in columns}
            yield reader.line_num, row
    except csv.Error as error:
        raise UserError(SPOILT.format(path, reader.line_num, error)) from error


def _text(path: Path) -> str:
    """Blackboard writes UTF-16, the others UTF-8 with or without a mark."""
    try:
        data = path.read_bytes()
        utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
        return data.decode("utf-16" if utf16 else "utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"Cannot read the list of students {path}: {error}.") from error


def _columns(head: Sequence[str]) -> dict[int, str]:
    """Which column is what. Canvas calls its own number ID, and the name Student; Moodle's
    worksheet calls its own number Identifier."""
    names = [cell.strip().casefold() for cell in head]
    known = {name: part for part, several in PARTS.items() for name in several}
    if {"student", "id", "section"} <= set(names):
        known |= {"student": "name", "id": "canvas"}
    if {"identifier", "full name"} <= set(names):
        known |= {"identifier": "moodle"}
    found: dict[str, int] = {}
    for i, name in enumerate(names):
        if name in known:
            found.setdefault(known[name], i)
    return {i: part for part, i in found.items()}


def _person(path: Path, line: int, row: Mapping[str, str]) -> Person | None:
    """Nobody for a line without a person in it: an empty one, Canvas's second and its test student,
    and who teaches."""
    told = {part: text for part, text in row.items() if text}
    names = [told[part] for part in ("first", "last") if part in told]
    if names:
        told.setdefault("name", " ".join(names))
    if "moodle" in told:
        told["moodle"] = told["moodle"].removeprefix("Participant ")
    is_student = not NO_STUDENT.search(told.pop("role", ""))
    known = {field.name for field in fields(Person)}
    told = {part: text for part, text in told.items() if part in known}
    if not is_student or told.get("name") in ("Points Possible", "Student, Test"):
        return None
    first = ("student", "login", "email", "number", "github", "canvas", "moodle", "name")
    who = next((told[part] for part in first if part in told), "")
    if not who and told:
        raise UserError(SPOILT.format(path, line, "it does not say who this is."))
    return Person(**{**told, "student": who}) if who else None


def expect_each_once(path: Path, people: Sequence[Person]) -> None:
    first: dict[str, Person] = {}
    for person in people:
        for name in set(person.ids):
            other = first.setdefault(name, person)
            if other is not person:
                raise UserError(
                    f"{path}: {name!r} stands for two students, {other.name or other.student!r} "
                    f"and {person.name or person.student!r}. Give each an id of their own."
                )


def keep(folder: Path, people: Sequence[Person]) -> None:
    """Remembers the list in the grading folder, for its owner's eyes."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [f.name for f in fields(Person)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(person) for person in people)
    atomic_write.write(folder / NAME, out.getvalue().encode("utf-8", "replace"), mode=0o600)


def kept(folder: Path) -> list[Person]:
    """The list that the grading folder remembers; [] where nobody gave one."""
    return read(folder / NAME) if (folder / NAME).exists() else []


def known_as(
    people: Sequence[Person], before: Sequence[Person], origins: Mapping[str, str]
) -> list[Person]:
    """`people` by the ids that a grading folder has for them already. before: the list that it
    remembers; origins: by id, where a hand-in of theirs lay."""
    ids = {name: old.folder_id for old in before for name in old.ids}
    ids |= {person.student.casefold(): old for old, person in identified(people, origins).items()}
    return [replace(p, folder_id=_first(ids, p.ids) or p.folder_id) for p in people]


def _first(ids: Mapping[str, str], names: Iterable[str]) -> str:
    return next((ids[name] for name in names if name in ids), "")


def pseudonyms(people: Sequence[Person], secret: bytes) -> list[Person]:
    """`people` under ids that tell nobody who they are, the same ones in each lab of a class. Who
    has such an id keeps it."""
    return [p if p.is_anonymous else replace(p, folder_id=_pseudonym(p, secret)) for p in people]


def _pseudonym(person: Person, secret: bytes) -> str:
    told = f"pseudonym|{person.student}".encode()
    return ANONYMOUS + hmac.new(secret, told, hashlib.sha256).hexdigest()[:10]


def identified(people: Sequence[Person], origins: Mapping[str, str]) -> dict[str, Person]:
    """Whose each owner's hand-ins are; who is not on the list is left out.

    origins: by owner, where one of their files lay. A name without a number that two owners bear is
    neither's.
    """
    if not people:  # most classes are graded without a list
        return {}
    by_id = {name: person for person in people for name in person.ids}
    by_name = _by_name(people)
    sure: dict[str, Person] = {}
    named: dict[str, Person] = {}
    for owner, origin in origins.items():
        number, name = _platform(people, origin)
        if number is not None:
            sure |= {owner: number} if isinstance(number, Person) else {}
        elif person := by_id.get(owner.casefold()):
            sure[owner] = person
        elif person := by_name.get(squashed(name or owner)):
            named[owner] = person
    often = Counter(named.values())
    alone = {owner: p for owner, p in named.items() if often[p] == 1 and p not in sure.values()}
    return sure | alone


def _platform(people: Sequence[Person], origin: str) -> tuple[Person | bool | None, str]:
    """By the platform's number: the person, False for nobody on the list, None where the list has
    no numbers of that platform; and the name that the platform gave."""
    for part, told in (("canvas", canvas_user(origin)), ("moodle", moodle_participant(origin))):
        name, number = told
        if number:
            numbers = {getattr(p, part): p for p in people if getattr(p, part)}
            return (numbers.get(number, False) if numbers else None), name
    return None, ""


def _by_name(people: Iterable[Person]) -> dict[str, Person]:
    """By each way to write a name; one that two people have is nobody's."""
    several: dict[str, set[Person]] = {}
    for person in people:
        for name in filter(None, _spelt(person.name)):
            several.setdefault(name, set()).add(person)
    return {name: person for name, (person, *others) in several.items() if not others}


def _spelt(name: str) -> Iterator[str]:
    """Canvas writes `Lovelace, Ada` into its tables, and `lovelaceada` before its files."""
    parts = name.split(",", 1) if "," in name else name.rsplit(maxsplit=1)
    yield squashed(name)
    yield squashed("".join(reversed(parts)))


def squashed(name: str) -> str:
    """The letters of `name` alone, small and without accents."""
    plain = unicodedata.normalize("NFKD", name.casefold())
    return "".join(c for c in plain if c.isalnum())
