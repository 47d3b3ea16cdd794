"""Asking: one question, one student, one seed, one verdict."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

import torch

from .compare import Wrong
from .draw import Draw
from .flagged import Flagged
from .question import Numbers, Question, WrongAnswer
from .same_answers import is_device_assert, same_outcome, same_transcript
from .student import (
    Call,
    GraderFault,
    KnownAnswer,
    LocalStudent,
    NoAnswer,
    Student,
    WroteInput,
)
from .verdict import Cause, State, Verdict
from .words import Said, text

PUBLIC: Numbers = MappingProxyType({})
"""The numbers that everybody reads in the public lab."""


def ask(
    question: Question,
    student: Student,
    *,
    seed: int,
    rounds: int = 1,
    numbers: Numbers = PUBLIC,
    doubles: Doubles | None = None,
) -> Verdict:
    """Asks `question` with the inputs of `seed`, and these numbers in its text, and judges the
    answer. Never raises for what the student did. doubles: what its known wrong answers answered to
    the same, where many students are asked the same.

    An exception of the check itself is a fault of ours: the verdict is then `ungradable`.
    """
    question = question.of(numbers) if numbers else question
    started, cpu = time.monotonic(), time.process_time()
    student.begin(
        may_write=question.may_write,
        budget_s=question.budget_s,
        on_host=question.simulated or bool(question.host),
        device_share=question.device_share,
    )
    verdict = replace(
        unasked(question, seed=seed, tier=student.where),
        evidence="witnessed" if question.witnessed else "computed",
        device="cpu" if question.host else student.device,
    )
    if question.simulated and not question.host:
        verdict = replace(verdict, device=_kernels_on(student))
    try:
        found = _found(question, student, Draw(seed, rounds=rounds))
        if found["cause"] is Cause.PASSED:
            found |= {"points": question.points, "witnessed": tuple(sorted(student.witnessed))}
            found["cost"] = _cost(question, student, seed)
        elif found["cause"].state is State.FAIL:
            doubles = doubles or Doubles(question, seed, rounds)
            found |= _lesson(question, student, found, doubles)
    except GraderFault as fault:
        found = {"cause": Cause.GRADER_FAULT, "sentence": text("grader_fault", reason=str(fault))}
    except Exception as error:
        sentence = text("check_fault", error=type(error).__name__, message=str(error))
        found = {"cause": Cause.CHECK_FAULT, "sentence": sentence}
    wall_s, cpu_s = time.monotonic() - started, time.process_time() - cpu
    return replace(verdict, **found, wall_s=wall_s, cpu_s=cpu_s)


def unasked(
    question: Question, cause: Cause = Cause.PUT_OFF, *, seed: int, tier: str = "", **more: Any
) -> Verdict:
    """The verdict on a question to which no call was made, worth nothing."""
    given = {"title": question.title, "tier": tier, "torch": torch.__version__, **more}
    return Verdict(question.name, cause, 0.0, question.points, seed, **given)


def _kernels_on(student: Student) -> str:
    """Where an answer for a GPU ran: "simulated", or a GPU's name."""
    if isinstance(student, LocalStudent) and torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return student.kernels_on


def _found(question: Question, student: Student, draw: Draw) -> dict[str, Any]:
    """What the check found, as fields of a verdict."""
    try:
        question.check(student, draw)
    except Wrong as wrong:
        said = {"expected": wrong.expected, "got": wrong.got, "where": wrong.where}
        return {"cause": Cause.WRONG, **said, "sentence": wrong.why}
    except Flagged as flagged:
        asked = _asked(question, student.calls)
        said = {"asked": asked, "where": flagged.where, "sentence": flagged.why}
        return {"cause": flagged.cause, **said}
    except NoAnswer as none:
        return _no_answer(none, question)
    except WroteInput as wrote:
        name = _parameter(question, student.calls[-1].function, wrote.argument)
        said = {"expected": text("as_it_was", name=name), "got": text("overwritten", name=name)}
        return {"cause": Cause.WROTE_INPUT, **said, "sentence": text("wrote_input")}
    if not student.calls:
        raise RuntimeError("the check asked nothing")
    return {"cause": Cause.PASSED}


def _no_answer(none: NoAnswer, question: Question) -> dict[str, Any]:
    raised, cause = none.raised, Cause(none.raised.kind)
    why: Said = none.why
    if cause is Cause.BLANK:
        if raised.stub == question.title:
            return {"cause": cause, "sentence": text("not_answered", title=question.title)}
        cause, why = Cause.RAISED, text("calls_a_stub")
    if cause is Cause.RAISED and not why and raised.lines:
        why = text("your_code_raised", line=raised.lines[-1][0])
    wanted = text("no_error") if cause is Cause.RAISED else text("a_value")
    said = {"expected": wanted, "got": raised.told, "where": raised.where}
    return {"cause": cause, **said, "sentence": why}


class Doubles:
    """The known wrong answers of `question`, each asked with the inputs of `seed` when it is first
    looked at, for whoever is compared with them."""

    def __init__(self, question: Question, seed: int, rounds: int = 1) -> None:
        self._question, self._seed, self._rounds = question, seed, rounds
        self._asked: dict[str, tuple[dict[str, Any], list[Call]]] = {}

    def draw(self) -> Draw:
        return Draw(self._seed, rounds=self._rounds)

    def each(self) -> Iterator[tuple[WrongAnswer, dict[str, Any], list[Call]]]:
        """Every one with what the check found, as fields of a verdict, and the calls."""
        for known in self._question.wrong_answers:
            if known.name not in self._asked:
                double = KnownAnswer(known.functions)
                double.begin(may_write=self._question.may_write)
                found = _found(self._question, double, self.draw())
                self._asked[known.name] = found, double.calls
            yield known, *self._asked[known.name]


def _lesson(
    question: Question, student: Student, found: dict[str, Any], doubles: Doubles
) -> dict[str, Any]:
    """What there is to learn from a wrong answer: what was asked, and the misconception by name."""
    lesson: dict[str, Any] = {"next_step": question.hints[0] if question.hints else ""}
    if found["cause"] is Cause.BLANK:
        return lesson
    asked = {"asked": _asked(question, student.calls)}
    lesson |= asked
    # Before the diagnosis, which asks on.
    is_nothing = bool(student.calls) and student.calls[-1].outcome is None
    if found["cause"] is Cause.WRONG:
        theirs = _right_for(question, student, doubles)
        if theirs is not None:
            said = text("other_numbers", theirs=_written(theirs), own=_written(question.said))
            return lesson | {"sentence": said}
    known = diagnose(question, student, found, doubles)
    if known is None and question.by_effect and found["cause"] is Cause.WRONG:
        known = _of_the_same_effect(found, doubles)
    if known:
        fitting = question.next_lines.get(known.name, lesson["next_step"])
        named = {"misconception": known.name, "sentence": known.sentence, "next_step": fitting}
        return lesson | named
    if found["cause"] is Cause.RAISED:  # the nudge is for who has an answer, and this is none yet
        return asked
    unnamed = found["cause"] is Cause.WRONG and not found["sentence"]
    return lesson | ({"sentence": text("no_return")} if is_nothing and unnamed else {})


def _asked(question: Question, calls: list[Call]) -> str:
    """The arguments of the last call, each with the name that the known answers give it. Programs
    come last, line by line."""
    if not calls:
        return ""
    last, given = calls[-1], calls[-1].arguments
    named = zip_longest(_parameters(question, last.function)[: len(given)], given, fillvalue="")
    short, programs = [], []
    for name, described in named:
        if described.startswith("\n"):
            programs.append(f"{name}:{described}")
        else:
            short.append(f"{name} {described}".strip())
    told = "; ".join(filter(None, (", ".join(short), _written(question.numbers))))
    return "\n".join(filter(None, (told, *programs)))


def _written(numbers: Numbers) -> str:
    return ", ".join(f"{name} = {value}" for name, value in numbers.items())


def _right_for(question: Question, student: Student, doubles: Doubles) -> Numbers | None:
    """Other numbers of the question's text with which the student's wrong answer would be right.
    Whoever has them was asked for others; the calls made to find out are not part of the answer."""
    before = len(student.calls)
    for numbers in question.variants if _is_cheap(question) else ():
        if numbers != question.said:
            found = _found(question.of(numbers), student, doubles.draw())
            del student.calls[before:]
            if found["cause"] is Cause.PASSED:
                return numbers
    return None


def _parameters(question: Question, function: str) -> list[str]:
    """What the known answers call the parameters of `function`."""
    known = (w.functions[function] for w in question.wrong_answers if function in w.functions)
    each = (inspect.signature(answer).parameters.values() for answer in known)
    return [p.name for p in next(each, ()) if p.kind not in _SEVERAL]


_SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
"""Kinds of a parameter whose name is none of an argument's."""


def _parameter(question: Question, function: str, place: int | str) -> Any:
    if isinstance(place, str):
        return place
    names = _parameters(question, function)
    return names[place] if place < len(names) else text("argument", place=place + 1)


def _cost(question: Question, student: Student, seed: int) -> str:
    if question.cost_of is None:
        return ""
    try:
        return question.cost_of(student, Draw(seed))
    except Exception:  # it passed; a function that fails only here costs its cost line
        return ""


def diagnose(
    question: Question, student: Student, found: dict[str, Any], doubles: Doubles
) -> WrongAnswer | None:
    """The known wrong answer that behaves exactly as the student's, up to and including the call
    that failed, and beyond.

    Each known wrong answer is asked the same question with the same seed. The one whose transcript
    is the same, call by call, is the student's misconception; if both also answer alike what the
    check asks of those that come further, because one call often cannot tell two mistakes apart.
    Where several are the same so far, the first that goes on alike is.

    Tensors that lie otherwise in memory are the same only where the check, of which `found` is what
    it found, finds the very same of both: had it looked at the layout, it would have told them
    apart.
    """
    seen, longest = list(student.calls), list(student.calls)
    is_lost = any(is_device_assert(call.outcome) for call in seen)  # and stays so
    asks_on = not (student.used_a_room or is_lost) and _is_cheap(question)
    same: list[tuple[WrongAnswer, bool]] = []
    for known, theirs, calls in doubles.each():
        longest = max(longest, calls, key=len)
        layout = same_transcript(calls, seen)
        if layout and not asks_on:
            return known
        if layout or (theirs == found and same_transcript(calls, seen, layout=False)):
            same.append((known, layout))
    beyond = longest[len(seen) :] if asks_on else []
    same.sort(key=lambda one: not one[1])  # those of the very layout first
    alike = (known for known, layout in same if _agree_beyond(student, known, beyond, layout))
    return next(alike, None)


def _of_the_same_effect(found: dict[str, Any], doubles: Doubles) -> WrongAnswer | None:
    """The one known wrong answer of which the check finds the very same; None where none is, or
    more than one."""
    same = [known for known, theirs, _ in doubles.each() if theirs == found]
    return same[0] if len(same) == 1 else None


MAX_BEYOND = 24
"""Calls that a wrong answer is asked once more than the check asks it, at most."""
BEYOND_S = 2.0
"""And seconds, after which it is believed."""


def _is_cheap(question: Question) -> bool:
    """Whether its answers can be asked more than the check asks: they cost little, and leave their
    arguments as they are."""
    return not (question.may_write or question.budget_s or question.alone)


def _agree_beyond(student: Student, known: WrongAnswer, calls: list[Call], layout: bool) -> bool:
    """Whether the student's answer and `known` do the same with the arguments of these `calls`,
    with tensors of the same layout too where `layout`. Not asked where a call may take what an
    earlier one gave."""
    if len({call.function for call in calls}) > 1 or len(known.functions) > 1:
        return True
    double = LocalStudent(known.functions)
    until = time.monotonic() + BEYOND_S
    for call in calls[:MAX_BEYOND]:
        if time.monotonic() > until:
            break
        if not same_outcome(_again(double, call), _again(student, call), layout=layout):
            return False
    return True


def _again(student: Student, call: Call) -> Any:
    try:
        return student.call(call.function, *call.args, **call.kwargs)
    except NoAnswer as none:
        return none.raised
    except WroteInput as wrote:
        return wrote
