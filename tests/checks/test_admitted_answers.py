"""Answers in Python that are judged from a clean room: in the jail the solution and each
alternative pass, and what is not admitted goes to a person."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder import selftest
from autograder.checks import find
from autograder.judge import Cause, Rules, State, ask
from autograder.judge.admission import not_admitted
from autograder.sandbox import Cell, Jail

SOLUTIONS = Path(__file__).parents[2] / "solutions"
ASKED = {
    "linear_fn": "04_contracts",
    "declare_head": "06_custom_op",
    "fake_head": "06_custom_op",
    "teach_head": "06_custom_op",
    "clean_temper": "06_custom_op",
    "one_graph": "08_compile",
    "opaque_step": "08_compile",
    "ddp_step": "11_distributed",
    "fsdp_step": "11_distributed",
    "every_word": "11_distributed",
}


def page(name: str) -> Path:
    return SOLUTIONS / ASKED[name] / f"{ASKED[name]}.ipynb"


def answers(name: str) -> list[str]:
    """The cells of the solution and of the alternatives."""
    others = [
        "".join(cell["source"])
        for cell in selftest._cells(page(name))
        if cell["id"].startswith(f"{name}_alternative")
    ]
    return [selftest.answer_source(page(name), name), *others]


def rules(name: str) -> Rules:
    from autograder.checks.lab06_custom_op.bench import RULES as OPERATORS
    from autograder.checks.lab08_compile.admission import RULES as GRAPHS
    from autograder.checks.lab11_distributed.admission import RULES as RANKS

    of = {"06_custom_op": OPERATORS, "08_compile": GRAPHS, "11_distributed": RANKS}
    return of.get(ASKED[name], Rules())


def setup(name: str) -> list[Cell]:
    cells = [cell for cell in selftest._cells(page(name)) if selftest._is_setup(cell)]
    return [Cell(cell["id"], "".join(cell["source"])) for cell in cells]


@pytest.mark.parametrize("name", ASKED)
def test_every_known_answer_is_admitted(name: str) -> None:
    cells = answers(name)
    assert len(cells) >= 2
    assert [list(not_admitted(cell, rules(name))) for cell in cells] == [[]] * len(cells)


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    with Jail() as jail:
        yield jail


@pytest.mark.jail
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ASKED)
def test_every_known_answer_passes_in_the_jail(jail: Jail, name: str) -> None:
    for source in answers(name):
        with jail.open([*setup(name), Cell(name, source)], loopback=find(name).loopback) as student:
            verdict = ask(find(name), student, seed=3)
            assert verdict.state is State.PASS, verdict
            assert verdict.evidence == "computed"
            assert verdict.cost


@pytest.mark.jail
@pytest.mark.parametrize("name", ASKED)
def test_what_needs_a_person_is_flagged_with_its_line(jail: Jail, name: str) -> None:
    """The right answer, and a door left open beside it."""
    source = answers(name)[0] + "\nimport gc\n"
    with jail.open([*setup(name), Cell(name, source)], loopback=find(name).loopback) as student:
        verdict = ask(find(name), student, seed=3)
    assert verdict.cause is Cause.NOT_ADMITTED
    assert verdict.points == 0
    assert "import gc" in str(verdict.where)


@pytest.mark.jail
@pytest.mark.parametrize("name", ASKED)
def test_a_stub_and_no_cell_are_no_answer(jail: Jail, name: str) -> None:
    lab = page(name).parents[2] / "labs" / ASKED[name] / page(name).name
    stub = selftest.answer_source(lab, name)
    for cells, cause in (([Cell(name, stub)], Cause.BLANK), ([], Cause.MISSING)):
        with jail.open([*setup(name), *cells], loopback=find(name).loopback) as student:
            assert ask(find(name), student, seed=3).cause is cause
