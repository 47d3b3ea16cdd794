"""What comes when one grading folder is merged into another: for one lab, who, which marks, which
changes, and where the two differ. It reads, and writes nothing.

Where they differ what is here stays, but for students whose side is taken from there. Whatever does
not come is told in a sentence, and the other folder is left as it is.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..errors import UserError
from ..gradebook.marks import Given, Marks, marks
from ..intake.release import Release
from ..store import changes, roster
from ..store.changes import Change
from ..store.journal import Journal, Record
from .changes import handed_in_then

LOST = "{}: nothing comes, for the verdict there is missing or damaged"


@dataclass(frozen=True)
class Held:
    """One lab as one folder has it, by student. records: as they lie in the journal. made: what was
    changed after the grading."""

    folder: Path
    release: Release
    lines: Mapping[str, roster.Line]
    records: Mapping[str, Record]
    marks: Marks
    made: Sequence[Change]

    def record(self, student: str) -> Record | None:
        """As it was judged, the last time of each question."""
        record = self.records.get(student)
        return record and changes.newest(record, self.made)

    def texts(self, student: str) -> Mapping[str, str]:
        """The answers by cell. Raises UserError where the notebook is gone."""
        record = self.records.get(student)
        if record is None:
            return {}
        entry = handed_in_then(self.folder, self.release, self.lines[student], record)
        return entry.rebuilt.answers


def held(folder: Path, release: Release, ids: Mapping[str, str]) -> Held:
    """The lab as it lies in `folder`, each student under the id that `ids` has for them; empty
    where nobody graded it there."""
    here = roster.labs(folder)
    lines = roster.read(folder, release.name) if release.name in here else {}
    journal = Journal(folder / "journal" / release.name)
    read = {name: journal.read(name, line.key) for name, line in lines.items() if line.key}
    return Held(
        folder,
        release,
        {ids.get(n, n): replace(line, student=ids.get(n, n)) for n, line in lines.items()},
        {ids.get(n, n): replace(one, student=ids.get(n, n)) for n, one in read.items() if one},
        {ids.get(n, n): given for n, given in marks(folder, release).items()},
        [_renamed(one, ids) for one in changes.read(folder, release.name)],
    )


def _renamed(change: Change, ids: Mapping[str, str]) -> Change:
    judged = tuple(replace(j, student=ids.get(j.student, j.student)) for j in change.judged)
    return replace(change, student=ids.get(change.student, change.student), judged=judged)


@dataclass
class Plan:
    """What is written for one lab. lines: of the roster. new: who is in the other folder alone.
    marks: those that come. after: the changes as they are then. differed: where the two folders do
    not say the same."""

    here: Held
    there: Held
    lines: list[roster.Line] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    marks: dict[str, dict[str, Given]] = field(default_factory=dict)
    after: list[Change] = field(default_factory=list)
    differed: list[str] = field(default_factory=list)

    @property
    def others(self) -> int:
        """How many come that were judged by another version of the lab."""
        version = self.here.release.version
        return sum(bool(line.key) and line.version != version for line in self.lines)


def plan(here: Held, there: Held, theirs: Collection[str]) -> Plan:
    """theirs: the students of whom the other folder is right where the two differ. Raises UserError
    where a notebook there is gone, or the lab has changed so much since."""
    made = Plan(here, there)
    made.after = _changes(made)
    for student, line in there.lines.items():
        if line.key and student not in there.records:
            made.differed.append(LOST.format(student))
        else:
            _student(made, student, is_taken=student in theirs)
    return made


def _student(made: Plan, student: str, *, is_taken: bool) -> None:
    here, there = made.here, made.there
    if student not in here.lines:
        there.texts(student)
        made.new.append(student)
        made.lines.append(there.lines[student])
        comes = dict(there.marks.get(student, {}))
    else:
        differing = list(_differing(here, there, student))
        made.differed += _told(student, differing, is_taken=is_taken)
        if is_taken and differing:
            there.texts(student)
            made.lines.append(there.lines[student])
        elif filled := _filled(here.lines[student], there.lines[student]):
            made.lines.append(filled)
        is_other = bool(differing) and not is_taken
        comes, differ = _marks(made, student, is_other=is_other, is_taken=is_taken)
        made.differed += _told(student, differ, is_taken=is_taken)
    if comes:
        made.marks[student] = comes


def _told(student: str, sentences: Sequence[str], *, is_taken: bool) -> Iterator[str]:
    what = "what is there is taken" if is_taken else "what is here stays"
    return (f"{student}: {sentence}; {what}" for sentence in sentences)


def _filled(here: roster.Line, there: roster.Line) -> roster.Line | None:
    """With what only the other folder knows of the same hand-in; None where that is nothing."""
    if _hand_in(here) != _hand_in(there):
        return None
    known = {name: vars(there)[name] for name in ("submitted", "secret", "owner")}
    filled = replace(here, **{n: text for n, text in known.items() if text and not vars(here)[n]})
    return filled if filled != here else None


def _hand_in(line: roster.Line) -> tuple[str, str]:
    return line.sha256, line.ungradable


def _differing(here: Held, there: Held, student: str) -> Iterator[str]:
    one, other = here.lines[student], there.lines[student]
    if _hand_in(one) != _hand_in(other):
        yield f"handed in {_shown(one)} here, and {_shown(other)} there"
        return
    if one.submitted and other.submitted and one.submitted != other.submitted:
        yield f"handed in at {one.submitted} here, at {other.submitted} there"
    ours, theirs = here.record(student), there.record(student)
    if ours and theirs:
        was = {verdict.question: verdict for verdict in ours.verdicts}
        for verdict in theirs.verdicts:
            before = was.get(verdict.question)
            if before is None or (before.cause, before.points) != (verdict.cause, verdict.points):
                found = f"{before.mark}, {before.points:g} points" if before else "not asked"
                yield (
                    f"{verdict.question}: {found} here, "
                    f"{verdict.mark}, {verdict.points:g} points there"
                )


def _shown(line: roster.Line) -> str:
    time = f" at {line.submitted}" if line.submitted else ""
    reason = f" ({line.ungradable})" if line.ungradable else ""
    return f"{line.origin or 'nothing'}{time}{reason}"


def _marks(
    made: Plan, student: str, *, is_other: bool, is_taken: bool
) -> tuple[dict[str, Given], list[str]]:
    """The marks that come for somebody who is in both folders, and where they differ. is_other:
    another submission counts here, so that only marks of the same text come."""
    here, there = made.here.marks.get(student, {}), made.there.marks.get(student, {})
    both = is_other and bool(there)
    ours, texts = (held.texts(student) if both else {} for held in (made.here, made.there))
    comes, differ = dict[str, Given](), list[str]()
    for cell, theirs in there.items():
        mine = here.get(cell, Given())
        if is_other and (cell not in ours or ours[cell] != texts.get(cell)):
            differ.append(f"{cell}: {theirs} there, for another answer")
            continue
        if _contradict(mine, theirs):
            differ.append(f"{cell}: {mine} here, {theirs} there")
        wanted = theirs if is_taken else _joined(mine, theirs)
        if wanted != mine:
            comes[cell] = wanted
    return comes, differ


def _contradict(mine: Given, theirs: Given) -> bool:
    pairs = zip(vars(mine).values(), vars(theirs).values(), strict=True)
    return any(one != other and None not in (one, other) and "" not in (one, other)
               for one, other in pairs)  # fmt: skip


def _joined(mine: Given, theirs: Given) -> Given:
    return Given(
        theirs.points if mine.points is None else mine.points,
        theirs.extra if mine.extra is None else mine.extra,
        mine.comment or theirs.comment,
    )


def _changes(made: Plan) -> list[Change]:
    """Of both folders, in the order of their time. One that was undone in either is undone."""
    found = list(made.here.made)
    for one in made.there.made:
        known = [i for i, mine in enumerate(found) if _decision(mine) == _decision(one)]
        if not known:
            found.append(one)
        elif one.undone and not found[known[0]].undone:
            found[known[0]] = one
    ours, theirs = changes.points(made.here.made), changes.points(made.there.made)
    for question in sorted(set(ours) & set(theirs)):
        if ours[question] != theirs[question]:
            made.differed.append(
                f"{question}: {ours[question]:g} points here, {theirs[question]:g} there; "
                "the later decision counts"
            )
    return sorted(found, key=lambda one: one.when)


def _decision(change: Change) -> Change:
    """Whether or not it was taken back since."""
    return replace(change, undone="")


def expect_one_each(ids: Mapping[str, str]) -> None:
    """Raises UserError where two students of the other folder would be one here."""
    first: dict[str, str] = {}
    for there, here in ids.items():
        if first.setdefault(here, there) != there:
            raise UserError(
                f"{first[here]!r} and {there!r} there are both {here!r} here. Nothing is merged."
            )
