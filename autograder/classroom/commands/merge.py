"""`autograder merge`: what another grading folder holds comes into this one, so that two who graded
or marked half of a class each give back the grades of the whole. It says first what comes and where
the two differ; with --yes it is done. The other folder stays as it is.

It can be killed and typed again: the roster points to a record only when that is there, and marks
come last.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console

from autograder import atomic_write

from ..errors import UserError, the_one
from ..gradebook import late_policy
from ..gradebook.course import enrol, in_one_line, quiet
from ..gradebook.lateness import times
from ..intake import enrolment
from ..intake.enrolment import Person
from ..intake.owners import LATE, student_ids
from ..intake.release import Release, releases
from ..reports.rows import Row, write_ungradable
from ..store import changes, merges, roster, seed_secret, variants
from ..store.journal import Journal, Record, key_of
from .changes import (
    AGAIN,
    differences,
    expect_kept,
    late_rules,
    moment,
    overrides_of,
    publish_again,
    say,
)
from .grading_run import handed_in, origins
from .merge_plan import Plan, expect_one_each, held, plan
from .report import alone

NAMELESS = (
    "{other} knows its students by pseudonyms, and {folder} has no class list that could say who "
    "they are. Grade into {folder} with --roster first."
)
VARIANTS = (
    "{student} was asked for other numbers of {lab} in {other} than was given out here. Copy the "
    "folder variants/ from the grading folder that gave the lab out, and grade there once more."
)
LATER = "{}: {} more time there, {} here: what late.toml says counts"
Times = Mapping[str, tuple[datetime | None, timedelta | None]]
"""When somebody handed in, and how much more time they had; by student."""


@dataclass(frozen=True)
class Merging:
    """What the instructor asked for: what `other` holds comes into `folder`. theirs: students of
    whom the other folder is right where the two differ. sure: do it."""

    folder: Path
    other: Path
    course: Path
    theirs: tuple[str, ...] = ()
    sure: bool = False


def merge(merging: Merging, console: Console) -> None:
    """Shows what comes, and makes it so. Raises UserError for what the instructor can put right."""
    folder, other = merging.folder.absolute(), merging.other.absolute()
    merging = replace(merging, folder=folder, other=other)
    roster.labs(folder)
    _expect_readable(other)
    labs = roster.labs(other)
    if folder.samefile(other):
        raise UserError(f"{other} is the same folder. Name the one of your colleague.")
    if not labs:
        raise UserError(f"No lab has been graded in {other}, so nothing can come from there.")
    known = releases(merging.course)
    chosen = [known[the_one(lab, list(known), "lab", " in the course")] for lab in labs]
    with alone(folder, "merge"), _undisturbed(other):
        people, ids = _people(merging)
        expect_one_each(ids)
        every = sorted(ids.values())
        theirs = (the_one(name, every, "student", f" in {other}") for name in merging.theirs)
        merging = replace(merging, theirs=tuple(theirs))
        for release in chosen:
            _expect_same_variants(merging, release, ids)
        plans = [_planned(merging, release, ids) for release in chosen]
        for one in plans:
            for place in (folder, other):  # what is noted can be published
                expect_kept(place, one.here.release)
            say(console, _said(merging, one))
        say(console, _renamed(ids))
        if not merging.sure:
            say(console, [AGAIN])
            return
        _note(merging, plans)
        if people != enrolment.kept(folder):
            enrolment.keep(folder, people)
            enrol(folder, people)
        for one in plans:
            _bring(merging, one)
            publish_again(folder, merging.course, one.here.release, console, one.marks)


def _expect_readable(other: Path) -> None:
    """Grading folders are for their owner's eyes."""
    try:
        for path in (other, *(other / name for name in ("roll", "journal", "received"))):
            if path.is_dir():
                list(path.iterdir())
        for path in (*other.glob("roll/*.json"), *other.glob("gradebook.db")):
            path.open("rb").close()
    except OSError as error:
        raise UserError(
            f"Cannot read {error.filename}: {error.strerror}. Ask its owner for a copy of {other}."
        ) from error


def _undisturbed(other: Path) -> AbstractContextManager[None]:
    """Nobody grades there meanwhile; where we may not write, we cannot say that we read."""
    return alone(other, "merge") if os.access(other, os.W_OK) else nullcontext()


def _people(merging: Merging) -> tuple[list[Person], dict[str, str]]:
    """Who is enrolled, and by what ids the students of the other folder go here. Who hands in under
    an id that is somebody else's here gets another one. Raises UserError."""
    folder, other = merging.folder, merging.other
    here, there = enrolment.kept(folder), enrolment.kept(other)
    if any(person.is_anonymous for person in there) and not here:
        raise UserError(NAMELESS.format(other=other, folder=folder))
    known = enrolment.known_as(there, here, origins(folder))
    ids = {old.folder_id: new.folder_id for old, new in zip(there, known, strict=True)}
    lines = {
        name: line
        for lab in roster.labs(other)
        for name, line in roster.read(other, lab).items()
        if name not in ids
    }
    found = enrolment.identified(here, {name: line.origin for name, line in lines.items()})
    ids |= {name: person.folder_id for name, person in found.items()}
    ids |= _ids(folder, {name: line for name, line in lines.items() if name not in ids})
    mine = {person.folder_id for person in here}
    people = [*here, *(person for person in known if person.folder_id not in mine)]
    enrolment.expect_each_once(other / enrolment.NAME, people)
    return people, ids


def _ids(folder: Path, lines: Mapping[str, roster.Line]) -> dict[str, str]:
    """The ids here of students who are on nobody's list. Where no owner was written down, as in old
    folders, equal ids are one person."""
    before, ids = roster.students(folder), dict[str, str]()
    owned = {name.casefold() for name in before.values()}
    for name, line in lines.items():
        if line.owner in before:
            ids[name] = before[line.owner]
        elif not line.owner or name.casefold() not in owned:
            ids[name] = name
    clashing = {line.owner: name for name, line in lines.items() if name not in ids}
    taken = {f"/{name}": name for name in [*origins(folder), *ids.values()]}  # no owner has a slash
    new = student_ids(list(clashing), taken)
    return ids | {name: new[owner] for owner, name in clashing.items()}


def _planned(merging: Merging, release: Release, ids: Mapping[str, str]) -> Plan:
    with quiet(merging.folder / "grade.log") as log:
        with in_one_line(merging.folder, log):
            here = held(merging.folder, release, {})
        with in_one_line(merging.other, log):
            there = held(merging.other, release, ids)
            told = times(merging.other, release.name)
    made = plan(here, there, merging.theirs)
    known = {ids.get(student, student): one for student, one in told.items()}
    made.differed += _late_rules(merging, release, made, known)
    made.lines = [_with_time(line, known) for line in made.lines]
    return made


def _expect_same_variants(merging: Merging, release: Release, ids: Mapping[str, str]) -> None:
    """What was judged there with other numbers than a student was given is no verdict here."""
    here = variants.read(merging.folder, release.lab)
    there = variants.read(merging.other, release.lab)
    came = roster.read(merging.other, release.name)
    for name in came:
        if here.get(ids.get(name, name)) != there.get(name):
            raise UserError(VARIANTS.format(student=name, lab=release.name, other=merging.other))


def _with_time(line: roster.Line, known: Times) -> roster.Line:
    """With the time that only the gradebook there has, from a list of times; of whom Canvas alone
    says that they were late, none is known."""
    time, _ = known.get(line.student, (None, None))
    if time is None or line.submitted or LATE in line.note:
        return line
    return replace(line, submitted=f"{time:%Y-%m-%d %H:%M:%S}")


def _late_rules(merging: Merging, release: Release, made: Plan, known: Times) -> Iterator[str]:
    """Where lateness costs something else there than by the course's rules."""
    lab, declared = release.name, merging.course / late_policy.NAME
    here = late_rules(merging.folder, merging.course)
    there = late_policy.read(merging.other / late_policy.NAME)
    if (rule := _rule(here, lab)) != (other := _rule(there, lab)):
        yield f"late rules: {rule} in {declared}, {other} there; the first ones count"
    comes = {line.student for line in made.lines}
    for student, (_, extension) in known.items():
        mine = here and here.extension(lab, student)
        if student in comes and extension and extension != mine:
            yield LATER.format(student, extension, mine or "none")


def _rule(policy: late_policy.Policy | None, lab: str) -> str:
    if policy is None or lab not in policy.due:
        return "nothing"
    return f"due {policy.due[lab].astimezone(UTC):%Y-%m-%d %H:%M} UTC, {policy}"


def _said(merging: Merging, made: Plan) -> Iterator[str]:
    both = len(made.there.lines) - len(made.new)
    cells = sum(len(cells) for cells in made.marks.values())
    fresh = len(made.after) - len(made.here.made)
    yield made.here.release.name
    yield f"  students  {len(made.new)} come, {both} are in both"
    yield f"  marks     {cells} that a person gave come"
    yield f"  changes   {fresh} come"
    if made.others:
        yield f"  version   {made.others} were judged by another one: autograder regrade"
    if made.after != list(made.here.made):
        records = list(made.here.records.values())
        given = overrides_of(merging.folder, made.here.release)
        lines = differences(records, made.here.made, made.after, given, sure=merging.sure)
        yield from (f"  {line}" for line in lines)
    if made.differed:
        yield f"  {len(made.differed)} times the two differ:"
        yield from (f"    {line}" for line in made.differed)


def _renamed(ids: Mapping[str, str]) -> Iterator[str]:
    return (f"{there} there is {here} here" for there, here in ids.items() if there != here)


def _note(merging: Merging, plans: Sequence[Plan]) -> None:
    """First of all, so that nothing that stays behind is forgotten."""
    seed = merging.other / "seed"
    name = seed_secret.name_of(seed_secret.secret(merging.other)) if seed.exists() else ""
    differed = tuple(line for one in plans for line in one.differed)
    here = seed_secret.name_of(seed_secret.secret(merging.folder))
    merges.add(merging.folder, merges.Merge(str(merging.other), name, moment(), differed, here))


def _bring(merging: Merging, made: Plan) -> None:
    """Everything but the marks: notebooks and records before the roster that points to them."""
    folder, lab = merging.folder, made.here.release.name
    for record in made.there.records.values():
        _copy(merging, Path("received") / f"{record.sha256}.ipynb")
    journal = Journal(folder / "journal" / lab)
    counts = {line.student for line in made.lines if line.key}
    for record in made.there.records.values():
        _keep(journal, record, counts=record.student in counts)
    for race in (merging.other / "races").glob("*.json"):
        _copy(merging, race.relative_to(merging.other))
    changes.write(folder, lab, made.after)
    refused = [Row(handed_in(line), ungradable=line.ungradable) for line in made.lines]
    write_ungradable(folder / "ungradable.csv", [r for r in refused if r.ungradable], lab)
    roster.update(folder, lab, made.lines)


def _copy(merging: Merging, path: Path) -> None:
    if not (merging.folder / path).exists() and (merging.other / path).exists():
        data = (merging.other / path).read_bytes()
        atomic_write.write(merging.folder / path, data, mode=0o600)


def _keep(journal: Journal, record: Record, *, counts: bool) -> None:
    """A record of the other folder; where ours has the same key and makes room, it stays under
    another one."""
    ours = journal.read(record.student, record.key)
    if ours is None:
        journal.write(record)
    elif counts and ours.verdicts != record.verdicts:
        journal.write(replace(ours, key=key_of(ours.key, "before a merge")))
        journal.write(record)
