"""`autograder grade`: the class, a progress bar, the table, and where everything lies."""

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from autograder.judge import State

from ..errors import UserError
from ..intake.release import Release, graded
from ..reports.rows import LEGEND, MARKS, Row
from ..store import changes, folder_lock, roster
from ..store.journal import Record
from .grading_run import GradingRun, Order, open_folder

MOST_REFUSED = 3
"""Names in the line of a reason; `ungradable.csv` has them all."""
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def grade(order: Order, console: Console) -> None:
    """Grades a class and shows what came out. Raises UserError for what the instructor can put
    right."""
    source = order.source and order.source.absolute()
    order = replace(order, out=order.out.absolute(), source=source)
    if source is None:
        roster.labs(order.out)
    with our_own(order):
        made = GradingRun(order)
        jobs = made.look_up()
        before = len(made.entries) - len(jobs)
        if before:
            console.print(f"{before} already graded, {len(jobs)} to grade")
        with progress(console) as shown:
            bar = shown.add_task("grading", total=len(jobs), visible=bool(jobs))

            def done(student: str) -> None:
                if student:
                    shown.update(bar, advance=1, description=student)
                else:
                    shown.update(bar, description="gradebook and feedback", visible=True)

            made.grade(jobs, done=done)
    _show(made, console)


@contextmanager
def our_own(order: Order) -> Iterator[None]:
    """The grading folder, for this process alone; trouble with it or its disk in one line."""
    try:
        order.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(order, error) from error
    try:
        with folder_lock.alone(order.out, "grade" if order.source else "regrade"):
            open_folder(order.out, order.source)
            yield
    except OSError as error:
        if error.errno not in DISK:
            raise
        raise _unwritable(order, error) from error


def _unwritable(order: Order, error: OSError) -> UserError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    advice = "Make room; what is graded so far is kept." if full else "Name another folder: --out"
    return UserError(f"Cannot write into {order.out}: {error.strerror}. {advice}")


def progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        auto_refresh=console.is_terminal,  # in a file nobody sees it move
    )


def _show(made: GradingRun, console: Console) -> None:
    shown = replace(made.release, lab=changes.changed(made.release.lab, made.changes))
    console.print(table(shown, made.in_order, made.penalties()))
    out = made.order.out
    ungradable = len([row for row in made.rows.values() if row.record is None])
    say = [f"feedback    {out}/feedback/STUDENT/{made.release.name}/{made.release.name}.html"]
    if ungradable:
        say.append(f"ungradable  {ungradable}, with reasons in {out}/ungradable.csv")
    if names := made.unknown_times:
        say.append(
            f"times       nobody of these names handed in: {_some(names)} (see submitted.csv)"
        )
    for rule, files in made.ignored.items():
        say.append(f"ignored     {len(files)} {rule}: {_some(files)}")
    if made.absent:
        say.append(f"absent      {len(made.absent)} of {len(made.people)} handed in nothing")
    if strangers := made.not_enrolled:
        say.append(f"unknown     {len(strangers)} not enrolled: {_some(strangers)}")
    if asked := by_hand(made.release):
        say.append(f"by hand     {', '.join(asked)}: cd {out} && jupyter lab, then formgrader")
        say.append("            and then  nbgrader generate_feedback --force " + made.release.name)
    say.append(f"report      autograder report {made.release.name} --out {out}")
    say.append(f"export      cd {out} && nbgrader export")
    say.append(_costs(made))
    for line in say:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _some(files: Sequence[str]) -> str:
    return ", ".join(sorted(files)[:3]) + (", …" if len(files) > 3 else "")


def table(
    release: Release, rows: Iterable[Row], penalties: Mapping[str, float] = MappingProxyType({})
) -> Table:
    """Student, points, a mark per question, what happened: a line for each student who was graded,
    and one for all who were refused for one reason. penalties: points for lateness, by student."""
    made = Table(title=f"{release.name}, {release.lab.title}", caption=LEGEND, title_justify="left")
    made.add_column("student", overflow="fold")
    made.add_column(f"points of {release.lab.max_points:g}", justify="right")
    made.add_column("questions", no_wrap=True)
    made.add_column("state", overflow="fold")
    refused: dict[str, list[str]] = {}
    for row in rows:
        student = row.submission.student
        if row.record is None:
            refused.setdefault(_reason(row), []).append(student)
        else:
            made.add_row(*_cells(row, row.record, penalties.get(student, 0.0)))
    for reason, students in refused.items():
        made.add_row(Text(_several(students)), Text("-"), Text(""), Text(reason, style="yellow"))
    return made


def _reason(row: Row) -> str:
    text = "; ".join(filter(None, (row.ungradable, row.submission.note, row.note)))
    return f"ungradable: {text}" if row.ungradable else text


def _several(students: Sequence[str]) -> str:
    more = len(students) - MOST_REFUSED
    return ", ".join(students[:MOST_REFUSED]) + (f" and {more} more" if more > 0 else "")


def _cells(row: Row, record: Record, penalty: float) -> tuple[Text, ...]:
    marks, known, failed = Text(), list[str](), list[str]()
    for verdict in record.verdicts:
        marks.append(*MARKS[verdict.mark])
        known += [verdict.misconception] if verdict.misconception else []
        failed += [verdict.question] if verdict.state is State.UNGRADABLE else []
    remarks = [
        "graded" if row.is_new else "graded before",
        f"late: {penalty:g} points less" if penalty else "",
        "the grader failed at " + ", ".join(failed) if failed else "",
        row.submission.note,
        row.note,
        "misconceptions: " + ", ".join(known) if known else "",
    ]
    points = Text(f"{max(0.0, record.points - penalty):g}")
    # One line for each student, however narrow the terminal: the report has the rest.
    state = Text("; ".join(filter(None, remarks)), no_wrap=True, overflow="ellipsis")
    return Text(row.submission.student), points, marks, state


def by_hand(release: Release) -> list[str]:
    """The questions that a person marks: their points come in formgrader."""
    return [
        f"{cell['id']} ({graded(cell)['points']:g} points)"
        for cell in release.answers.values()
        if graded(cell).get("grade")
    ]


def _costs(made: GradingRun) -> str:
    """What judging took and, apart from it, what publishing did, most of it meanwhile."""
    judged = len([row for row in made.rows.values() if row.is_new])
    new, cpu_s = made.published.written, made.published.cpu_s
    return (
        f"time        {judged} judged in {made.grading_s:.1f} s; {new} new in the gradebook, with "
        f"their pages: {cpu_s:.1f} s of one processor"
    )
