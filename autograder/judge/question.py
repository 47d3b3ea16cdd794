"""A lab and its questions, as their author writes them.

A question is a trusted function over a student's handle and a source of inputs, together with
everything known about it: the wrong answers that people give, each with the sentence that names the
misconception; three hints; what an answer costs. The same list diagnoses a student and keeps the
check honest (`autograder selftest`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial, update_wrapper
from typing import Any, overload

from .draw import Draw
from .race import Race
from .student import Student
from .words import Said

Check = Callable[[Student, Draw], None]
Answer = Callable[..., Any]
Numbers = Mapping[str, int]
"""Numbers that stand in a question's text, by the names under which its check takes them."""


@dataclass(frozen=True)
class WrongAnswer:
    """A known wrong answer: `functions` by name, and the `sentence` for whoever gives it."""

    name: str
    sentence: str
    functions: dict[str, Answer]


@dataclass
class Question:
    """One question of a lab. `check(student, draw)` returns when all is right, else it raises.

    The check's decorator is where points, minutes and difficulty (1 to 5) are said: the lab's page
    takes them from there. hints: a nudge, the idea, the worked line. function: the one that is
    called, where it is not named after the question. may_write: answers may
    overwrite their inputs. witnessed: some of the evidence is the word of the student's processes.
    budget_s: seconds for all its calls while grading, where the usual ones are too few: an answer
    that calls a compiler, or starts processes. loopback: whether its answers run on several
    processes that talk TCP/IP among themselves. device_share: of one GPU, where it is graded on
    one. alone: it times something, so while grading nothing else runs beside it. simulated: its
    answers are for a GPU and run on the CPU where there is none; they move their tensors
    themselves. host: why its tensors stay on the CPU even where a class is graded on a GPU.
    by_effect: its answers are plans, and many plans do the same: a mistake is told by what the plan
    does, as the check found it. next_lines: what follows the sentence of a known wrong answer, by
    its name. variant: numbers of its text of which each student of a class may get others, by name:
    that of the public lab, then the others. The check takes them by keyword, and so does whatever
    else hangs on them: a wrong answer, the cost. numbers: those with which it is asked, {} for the
    public ones.
    """

    name: str
    title: str
    check: Check
    _: KW_ONLY
    points: float
    minutes: int
    difficulty: int
    hints: tuple[str, str, str]
    function: str = ""
    may_write: bool = False
    witnessed: bool = False
    budget_s: float | None = None
    loopback: bool = False
    device_share: float = 0.0
    alone: bool = False
    simulated: bool = False
    host: str = ""
    by_effect: bool = False
    right: dict[str, Answer] = field(default_factory=dict)
    wrong_answers: list[WrongAnswer] = field(default_factory=list)
    next_lines: Mapping[str, Said] = field(default_factory=dict)
    cost_of: Callable[[Student, Draw], str] | None = None
    race: Race | None = None
    variant: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    numbers: Numbers = field(default_factory=dict)

    def __post_init__(self) -> None:
        taken, public = _numbers_of(self.check), self.variants[0]
        if {name: taken.get(name) for name in public} != public:
            raise ValueError(
                f"the check of {self.name!r} takes {taken}, and its text says {public}"
            )
        if not 0 <= self.device_share <= 1:
            share = self.device_share
            raise ValueError(f"{self.name!r} takes a share of one device, so 0 to 1: {share}")

    @property
    def goal(self) -> str:
        """The first paragraph of the check's docstring: what is asked."""
        return (self.check.__doc__ or "").strip().split("\n\n")[0]

    @property
    def variants(self) -> list[dict[str, int]]:
        """Every choice of its variant's numbers, the public one first; [{}] without a variant."""
        choices = itertools.product(*self.variant.values())
        return [dict(zip(self.variant, chosen, strict=True)) for chosen in choices]

    @property
    def said(self) -> Numbers:
        """Each number of the variant as it is asked."""
        return {**self.variants[0], **self.numbers}

    def of(self, numbers: Numbers) -> Question:
        """This question, asked with these numbers in its text."""
        wrong = [
            replace(w, functions={n: _bound(f, numbers) for n, f in w.functions.items()})
            for w in self.wrong_answers
        ]
        cost_of = self.cost_of and _bound(self.cost_of, numbers)
        check = _bound(self.check, numbers)
        return replace(self, check=check, wrong_answers=wrong, cost_of=cost_of, numbers=numbers)

    def otherwise(self, **right: Answer) -> None:
        """Names what a wrong answer to one of several functions leaves right."""
        self.right = right

    @overload
    def wrong(self, name: str, sentence: str, /) -> Callable[[Answer], Answer]: ...
    @overload
    def wrong(self, name: str, sentence: str, /, **functions: Answer) -> WrongAnswer: ...

    def wrong(
        self, name: str, sentence: str, /, **functions: Answer
    ) -> WrongAnswer | Callable[[Answer], Answer]:
        """Lists a known wrong answer: `functions`, by the names under which they are called, or
        else the one function that this decorates."""

        def listed(answer: Answer) -> Answer:
            self.wrong(name, sentence, **{self.function or self.name: answer})
            return answer

        if not functions:
            return listed
        known = WrongAnswer(name, sentence, self.right | functions)
        self.wrong_answers.append(known)
        return known

    def cost(self, measure: Callable[[Student, Draw], str]) -> Callable[[Student, Draw], str]:
        """Names what a right answer costs (bytes, FLOPs, launches, copies): one line after
        passing."""
        self.cost_of = measure
        return measure


def _numbers_of(function: Answer) -> Numbers:
    """What `function` takes by keyword alone, as it is where nobody says otherwise."""
    return getattr(function, "__kwdefaults__", None) or {}


def _bound(function: Answer, numbers: Numbers) -> Answer:
    """`function`, told those of `numbers` that it takes."""
    takes = _numbers_of(function)
    told = {name: value for name, value in numbers.items() if name in takes}
    made = update_wrapper(partial(function, **told), function)
    made.__kwdefaults__ = takes  # type: ignore[attr-defined]  # whoever tells it others
    return made


@dataclass
class Lab:
    """A lab: `name` as its folder is called ("01_strides"); its questions in the order in which
    they are asked. next_lines: those of each question, by its name. preloads: modules that its
    checks or usual answers import on their way, for a second: imported before the first is asked.
    """

    name: str
    title: str
    next_lines: Mapping[str, Mapping[str, Said]] = field(default_factory=dict)
    preloads: tuple[str, ...] = ()
    questions: dict[str, Question] = field(default_factory=dict)

    def question(self, name: str, **options: Any) -> Callable[[Check], Question]:
        """Makes the decorated check a question; `options` are the fields of `Question`.

        Raises ValueError for a name that the lab has already.
        """
        if name in self.questions:
            raise ValueError(f"lab {self.name} asks {name!r} twice")
        title = f"Lab {int(self.name[:2])}.{len(self.questions) + 1}"

        def made(check: Check) -> Question:
            lines = self.next_lines.get(name, {})
            self.questions[name] = Question(name, title, check, next_lines=lines, **options)
            return self.questions[name]

        return made

    def __iter__(self) -> Iterator[Question]:
        return iter(self.questions.values())

    @property
    def loopback(self) -> bool:
        """Whether a submission's processes need a network among themselves."""
        return any(question.loopback for question in self)

    @property
    def device_share(self) -> float:
        """Of one GPU, for all its questions one after the other."""
        return max((question.device_share for question in self), default=0.0)

    @property
    def max_points(self) -> float:
        """Of the questions that the judge marks; free text is marked by a person."""
        return sum(question.points for question in self)
