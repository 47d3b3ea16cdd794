"""`autograder`: what an instructor types."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

course = click.option(
    "--course",
    type=click.Path(path_type=Path),
    default=Path(),
    help="The course's folder, with labs/ in it. Default: this one.",
)
trusting = click.option(
    "--i-trust-students", "trusting", is_flag=True, help="Run their code even without a sandbox."
)
workers = click.option(
    "--workers", type=click.IntRange(min=1), help="Submissions at a time. Default: one per core."
)
cluster = click.option(
    "--cluster",
    default="",
    help="More machines: tcp://HOST:PORT of a Dask scheduler, ssh:HOST,HOST, slurm:JOBS.",
)
device = click.option(
    "--device",
    type=click.Choice(["cpu", "cuda", "mocked"]),
    help="Where answers compute. Default: the CPU, and a GPU for questions that ask for one. "
    "mocked: a GPU that is none, to try all but the GPU.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Grade a class, check the course, look at this machine."""


@main.command("grade")
@click.argument("hand_in", type=click.Path(path_type=Path), metavar="DIR_OR_ZIP")
@click.option("--lab", default="", help="Which lab, as in 01_strides. Default: what was handed in.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("grading"),
    show_default=True,
    help="The grading folder, an nbgrader course.",
)
@course
@click.option(
    "--gradebook",
    default="",
    envvar="AUTOGRADER_GRADEBOOK",
    show_envvar=True,
    help="A database, as in postgresql+psycopg://USER@HOST/NAME. Default: a file in --out.",
)
@click.option(
    "--roster",
    type=click.Path(path_type=Path),
    help="Who is enrolled: a CSV file, ours or the platform's own export. It is remembered.",
)
@click.option("--anonymous", is_flag=True, help="Students on --roster go by pseudonyms.")
@workers
@cluster
@device
@trusting
def grade_command(
    hand_in: Path, lab: str, out: Path, course: Path, gradebook: str, **means: Any
) -> None:
    """Grade submitted notebooks: a folder per student, or what Canvas, Moodle or nbgrader give.

    Can be stopped and started again: what is graded stays graded.
    """
    _grade(hand_in, out, course, lab, gradebook=gradebook, **means)


def _grade(source: Path | None, out: Path, course: Path, lab: str, **options: Any) -> None:
    from autograder.classroom.run import startup

    if not options.get("cluster"):
        startup.begin_jail()  # first of all: it imports torch while this process does
    from rich.console import Console

    from autograder.classroom.errors import UserError

    try:
        with startup.importing():
            from autograder.classroom.commands.grade import grade
            from autograder.classroom.commands.grading_run import Order

        startup.begin_worker()
        given = {name: value for name, value in options.items() if value}
        grade(Order(source, out, _folder_of(course), lab, **given), Console(emoji=False))
    except UserError as mistake:
        raise click.ClickException(str(mistake)) from None
    except KeyboardInterrupt:
        click.echo("\nStopped. The same command goes on where it was.", err=True)
        sys.exit(130)
    finally:
        startup.end()


grading_folder = click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("grading"),
    show_default=True,
    help="The grading folder, as `autograder grade` made it.",
)


@main.command("release")
@click.argument("lab")
@click.option(
    "--variants",
    "for_each",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Who is enrolled: each gets a copy of LAB with numbers of their own.",
)
@grading_folder
@course
def release_command(lab: str, for_each: Path | None, folder: Path, course: Path) -> None:
    """Make a grading folder that nbgrader's exchange can give LAB out from."""
    from rich.console import Console

    with _one_line():
        from autograder.classroom.commands.release import release

        release(folder, _folder_of(course), lab, Console(emoji=False), for_each=for_each)


@main.command("gradescope")
@click.argument("lab")
@grading_folder
@course
def gradescope_command(lab: str, folder: Path, course: Path) -> None:
    """Make the zip of which Gradescope makes the autograder of LAB."""
    from rich.console import Console

    with _one_line():
        from autograder.classroom.commands.gradescope_archive import gradescope

        gradescope(folder, _folder_of(course), lab, Console(emoji=False))


@main.command("regrade")
@click.argument("lab")
@click.option("--student", default="", help="Judge this student again, in every question.")
@click.option("--question", default="", help="Judge this question again, of everybody.")
@click.option("--reason", default="", help="Why. It is recorded.")
@click.option("--yes", "sure", is_flag=True, help="Do it. Without: say what would change.")
@grading_folder
@course
@workers
@cluster
@device
@trusting
def regrade_command(
    lab: str,
    student: str,
    question: str,
    reason: str,
    sure: bool,
    folder: Path,
    course: Path,
    **means: Any,
) -> None:
    """Grade again what was handed in before, from the notebooks that were kept.

    \b
    autograder regrade LAB
    autograder regrade LAB --student NAME --reason TEXT
    autograder regrade LAB --question NAME --reason TEXT

    What the journal knows is published alone. What it does not know any more, because a question
    was put right, is judged anew.

    One student, one question, or both together, are judged anew in any case. The command says
    first whose grade changes; other verdicts and marks that a person gave stay.
    """
    if not (student or question):
        if reason or sure:
            raise click.ClickException("Say what is judged again: --student, --question, or both.")
        _grade(None, folder, course, lab, **means)
        return
    from rich.console import Console

    with _one_line():
        from autograder.classroom.commands.regrade import Again, regrade
        from autograder.classroom.run.grading import Means

        given = Means(**{name: value for name, value in means.items() if value})
        again = Again(folder, _folder_of(course), lab, student, question, reason, sure, given)
        regrade(again, Console(emoji=False))


@main.command("report")
@click.argument("lab", default="")
@grading_folder
@course
@click.option(
    "--title", default="", help="What the assignment is called in Canvas. Default: as the lab."
)
@click.option(
    "--provisional",
    is_flag=True,
    help="Write grades of those, too, on whom a person has still to look.",
)
@click.option(
    "--alike", is_flag=True, help="Also a page of answers that are alike. It is no verdict."
)
def report_command(
    lab: str, folder: Path, course: Path, title: str, provisional: bool, alike: bool
) -> None:
    """Write a page about a graded lab, and grades for Canvas, Moodle and Gradescope.

    Without LAB: of every lab that has been graded.
    """
    from rich.console import Console

    with _one_line():
        from autograder.classroom.commands.report import Wanted, report

        wanted = Wanted(folder, _folder_of(course), lab, title, provisional, alike)
        report(wanted, Console(emoji=False))


@main.command("leaderboard")
@click.argument("lab")
@grading_folder
@course
@click.option(
    "--names",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A CSV file of student,name: who agreed to be named. All others get a pseudonym.",
)
@trusting
def leaderboard_command(
    lab: str, folder: Path, course: Path, names: Path | None, trusting: bool
) -> None:
    """Race the right answers of a graded lab against its reference, and write a page for the class.

    It changes no grade. Can be stopped and started again: who is raced stays raced.
    """
    from rich.console import Console

    with _one_line():
        from autograder.classroom.commands.leaderboard import Wanted, leaderboard

        leaderboard(Wanted(folder, _folder_of(course), lab, names, trusting), Console(emoji=False))


@main.command("change")
@click.argument("lab")
@click.argument("kind", type=click.Choice(["", "drop", "points", "accept", "undo"]), default="")
@click.argument("what", default="")
@click.option("--to", type=float, help="points: what the question is worth from now on.")
@click.option("--student", default="", help="accept: whose answer.")
@click.option("--answer", default="", help="accept: which wrong answer of everybody, by its name.")
@click.option("--reason", default="", help="Why. It is recorded.")
@click.option("--yes", "sure", is_flag=True, help="Do it. Without: say what would change.")
@grading_folder
@course
def change_command(folder: Path, course: Path, **decided: Any) -> None:
    """Drop a question, change its points, or accept an answer, after the grading.

    \b
    autograder change LAB drop QUESTION --reason TEXT
    autograder change LAB points QUESTION --to 3 --reason TEXT
    autograder change LAB accept QUESTION --student NAME --reason TEXT
    autograder change LAB undo NUMBER --reason TEXT

    Without a decision: what was changed. Marks that a person gave stay. Nothing runs again.
    """
    from rich.console import Console

    with _one_line():
        from autograder.classroom.commands.changes import Decision, change

        change(Decision(folder, _folder_of(course), **decided), Console(emoji=False))


@main.command("merge")
@click.argument("other", type=click.Path(path_type=Path))
@click.option(
    "--theirs",
    multiple=True,
    metavar="STUDENT",
    help="Where the two differ, OTHER is right about this student. Default: nothing here changes.",
)
@click.option("--yes", "sure", is_flag=True, help="Do it. Without: say what would come.")
@grading_folder
@course
def merge_command(
    other: Path, theirs: tuple[str, ...], sure: bool, folder: Path, course: Path
) -> None:
    """Bring what a colleague graded and marked in the grading folder OTHER into this one.

    It says first who comes, and where the two differ. OTHER stays as it is.
    """
    from rich.console import Console

    with _one_line():
        from autograder.classroom.commands.merge import Merging, merge

        merge(Merging(folder, other, _folder_of(course), theirs, sure), Console(emoji=False))


@main.command("explain")
@click.argument("student")
@click.argument("lab")
@click.argument("question")
@grading_folder
@course
@trusting
def explain_command(
    student: str, lab: str, question: str, folder: Path, course: Path, trusting: bool
) -> None:
    """Replay one verdict from its record, for an appeal. Ends with 1 where it comes out otherwise.

    The card shows the seed of the inputs: it is for the instructor.
    """
    from rich.console import Console

    with _one_line():
        from autograder.classroom.commands.explain import Asked, explain

        asked = Asked(folder, _folder_of(course), student, lab, question, trusting)
        sys.exit(0 if explain(asked, Console(emoji=False)) else 1)


@contextmanager
def _one_line() -> Iterator[None]:
    """What the instructor can put right ends in one line."""
    from autograder.classroom.errors import UserError

    try:
        yield
    except UserError as mistake:
        raise click.ClickException(str(mistake)) from None


@main.command("doctor")
def doctor_command() -> None:
    """Say which sandbox this machine gives, and why."""
    from rich.console import Console

    from autograder.classroom.commands.doctor import doctor

    sys.exit(0 if doctor(Console(emoji=False)) else 1)


@main.command("attack")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--family", default="", metavar="LETTER", help="Only this family, A to H.")
@click.option(
    "--json",
    "result",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Also write the result here.",
)
def attack_command(names: tuple[str, ...], family: str, result: Path | None) -> None:
    """Attack the grader on this machine; every attack must fail, and work without its defence.

    A NAME is the beginning of an attack's name, as in a01 or a01_hidden_traceback.
    """
    from rich.console import Console

    from autograder.attacks.attack_command import attack
    from autograder.judge import GraderFault

    try:
        held = attack(Console(emoji=False), family=family, names=names, result=result)
    except OSError as error:
        raise click.ClickException(f"{error.filename or result}: {error.strerror}.") from None
    except (LookupError, GraderFault) as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        click.echo("\nStopped: nothing is proved.", err=True)
        sys.exit(130)
    sys.exit(0 if held else 1)


@main.command("selftest")
@click.argument("lab", default="")
@click.argument("question", default="")
@click.option("--mutants", is_flag=True, help="Ask the solutions with one thing changed instead.")
@click.option("--seeds", type=click.IntRange(1), help="Ask with so many seeds who passes, no more.")
@course
def selftest_command(
    lab: str, question: str, mutants: bool, seeds: int | None, course: Path
) -> None:
    """Ask every question of its right and its wrong answers; of one LAB, as in 01_strides; of one
    QUESTION of it."""
    from autograder import answer_mutants, checks, selftest

    try:
        labs = [checks.lab(lab)] if lab else None
        if question:
            checks.find(question, labs)
    except LookupError as unknown:
        raise click.ClickException(str(unknown)) from None
    folder = _folder_of(course)
    if mutants:
        each = checks.labs() if labs is None else labs
        faults = sum(answer_mutants.run(folder, one, only=question) for one in each)
    else:
        faults = selftest.run(folder, labs, only=question, seeds=seeds)
    sys.exit(1 if faults else 0)


def _folder_of(course: Path) -> Path:
    from autograder.classroom.errors import UserError
    from autograder.classroom.intake.release import course_folder

    try:
        return course_folder(course)
    except UserError as mistake:
        raise click.ClickException(str(mistake)) from None


@main.command("build", context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def build_command(arguments: tuple[str, ...]) -> None:
    """Make the notebooks from their percent sources."""
    from autograder.authoring.build_command import build_command as build

    build.main(args=list(arguments), prog_name="autograder build")


@main.command(
    "translate", context_settings={"ignore_unknown_options": True, "help_option_names": []}
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def translate_command(arguments: tuple[str, ...]) -> None:
    """Bring the course's words in another language up to date."""
    from autograder.authoring.translate_command import translate_command as translate

    translate.main(args=list(arguments), prog_name="autograder translate")


if __name__ == "__main__":
    main(prog_name="autograder")
