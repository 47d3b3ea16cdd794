"""Asking: one question, one student, one seed, one verdict."""

from __future__ import annotations

import inspect
import math
import time
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import torch

from .answer import Raised
from .compare import Wrong, expect_close
from .draw import Draw
from .question import Question, WrongAnswer
from .student import Call, GraderFault, LocalStudent, NoAnswer, Student, WroteInput
from .timing import TooFast
from .verdict import State, Verdict

BLANK = "not answered yet"
OUR_FAULT = "The grader failed, not you"


@dataclass(frozen=True)
class _Fault:
    """Why an answer is not right, before it is put into a verdict."""

    expected: str = ""
    got: str = ""
    where: str = ""
    why: str = ""
    impossible: bool = False


def ask(question: Question, student: Student, *, seed: int, rounds: int = 1) -> Verdict:
    """Asks `question` with the inputs of `seed` and judges the answer. Never raises for what the
    student did.

    An exception of the check itself is a fault of ours: the verdict is then `ungradable`.
    """
    started, cpu = time.monotonic(), time.process_time()
    student.begin(
        may_write=question.may_write,
        budget_s=question.budget_s,
        on_host=question.simulated or bool(question.host),
        device_share=question.device_share,
    )
    try:
        fault = _run(question, student, Draw(seed, rounds=rounds))
        verdict = _judge(question, student, fault, seed, rounds)
    except GraderFault as fault_of_ours:
        verdict = _blank_verdict(question, State.UNGRADABLE, seed)
        verdict = replace(verdict, sentence=f"{OUR_FAULT}: {fault_of_ours}")
    except Exception as error:
        verdict = _blank_verdict(question, State.UNGRADABLE, seed)
        reason = f"{type(error).__name__}: {error}"
        sentence = f"The check itself failed ({reason}). This is our fault, not yours."
        verdict = replace(verdict, sentence=sentence)
    wall_s, cpu_s = time.monotonic() - started, time.process_time() - cpu
    device = _device(question, student)
    return replace(verdict, device=device, tier=student.where, wall_s=wall_s, cpu_s=cpu_s)


def _device(question: Question, student: Student) -> str:
    """Where the answer ran: "cpu", "simulated", or a GPU's name."""
    if question.host:
        return "cpu"
    if not question.simulated:
        return student.device
    if isinstance(student, LocalStudent) and torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return student.kernels_on


def _run(question: Question, student: Student, draw: Draw) -> _Fault | None:
    try:
        question.check(student, draw)
    except Wrong as wrong:
        return _Fault(wrong.expected, wrong.got, wrong.where, wrong.why)
    except TooFast as fast:
        return _Fault(why=str(fast), impossible=True)
    except NoAnswer as none:
        return _fault_of(none.raised, question, none.why)
    except WroteInput as wrote:
        why = "Your function wrote into its input: whoever passed it in now holds other values."
        name = _parameter(question, student.calls[-1].function, wrote.argument)
        return _Fault(f"{name} as it was", f"{name} overwritten", why=why)
    if not student.calls:
        raise RuntimeError("the check asked nothing")
    return None


def _fault_of(raised: Raised, question: Question, why: str) -> _Fault:
    if raised.kind == "blank":
        if not raised.message or raised.message.startswith(f"{question.title}: "):
            return _Fault(why=BLANK)
        why = "Your answer calls that of another question, which is not answered yet."
    where = "; ".join(f"line {number}: {source}" for number, source in raised.lines)
    got = raised.message if raised.kind == "missing" else str(raised)
    return _Fault("a value", got, where, why)


def _blank_verdict(question: Question, state: State, seed: int) -> Verdict:
    points = question.points if state is State.PASS else 0.0
    evidence = "witnessed" if question.witnessed else "computed"
    return Verdict(
        question.name,
        state,
        points,
        question.points,
        seed,
        title=question.title,
        torch=torch.__version__,
        evidence=evidence,
    )


def _judge(
    question: Question, student: Student, fault: _Fault | None, seed: int, rounds: int
) -> Verdict:
    if fault is None:
        told = "; ".join(sorted(student.witnessed))
        cost = _cost(question, student, seed)
        return replace(_blank_verdict(question, State.PASS, seed), cost=cost, witnessed=told)
    if fault.impossible:
        flagged = _blank_verdict(question, State.FLAGGED, seed)
        return replace(flagged, asked=_asked(question, student.calls), sentence=fault.why)
    verdict = replace(
        _blank_verdict(question, State.FAIL, seed),
        asked=_asked(question, student.calls) if fault.why != BLANK else "",
        expected=fault.expected,
        got=fault.got,
        where=fault.where,
        sentence=_sentence(question, fault),
        next_step=question.hints[0] if question.hints else "",
    )
    known = (
        None if fault.why == BLANK else diagnose(question, student.calls, seed=seed, rounds=rounds)
    )
    if known is None:
        return verdict
    return replace(verdict, misconception=known.name, sentence=known.sentence)


def _asked(question: Question, calls: list[Call]) -> str:
    """The arguments of the last call, each with the name that the known answers give it."""
    if not calls:
        return ""
    last = calls[-1]
    names = _parameters(question, last.function)[: len(last.arguments)]
    named = zip_longest(names, last.arguments, fillvalue="")
    return ", ".join(f"{name} {text}".strip() for name, text in named)


def _parameters(question: Question, function: str) -> list[str]:
    """What the known answers call the parameters of `function`."""
    known = (w.functions[function] for w in question.wrong_answers if function in w.functions)
    return next((list(inspect.signature(answer).parameters) for answer in known), [])


def _parameter(question: Question, function: str, place: int | str) -> str:
    if isinstance(place, str):
        return place
    names = _parameters(question, function)
    return names[place] if place < len(names) else f"argument {place + 1}"


def _sentence(question: Question, fault: _Fault) -> str:
    return f"{question.title} is not answered yet." if fault.why == BLANK else fault.why


def _cost(question: Question, student: Student, seed: int) -> str:
    if question.cost_of is None:
        return ""
    try:
        return question.cost_of(student, Draw(seed))
    except Exception:  # it passed; a function that fails only here costs its cost line
        return ""


def diagnose(
    question: Question, calls: list[Call], *, seed: int, rounds: int = 1
) -> WrongAnswer | None:
    """The known wrong answer that behaves exactly as these calls did, up to and including the call
    that failed.

    Each known wrong answer is asked the same question with the same seed; the one whose transcript
    is the same, call by call, is the student's misconception.
    """
    seen = list(calls)
    for known in question.wrong_answers:
        double = LocalStudent(known.functions)
        double.begin(may_write=question.may_write)
        if _run(question, double, Draw(seed, rounds=rounds)) and _same_transcript(
            double.calls, seen
        ):
            return known
    return None


def _same_transcript(a: list[Call], b: list[Call]) -> bool:
    """Call by call. In which order a half keeps its tensors for the next one is its own affair:
    only the last call, which was judged wrong, has to have them in the same."""
    if len(a) != len(b) or [x.function for x in a] != [y.function for y in b]:
        return False
    pairs = [(x.outcome, y.outcome) for x, y in zip(a, b, strict=True)]
    before = all(_same_outcome(x, y) or _same_but_for_order(x, y) for x, y in pairs[:-1])
    return before and all(_same_outcome(x, y) for x, y in pairs[-1:])


def _same_but_for_order(a: Any, b: Any) -> bool:
    """As _same_outcome, where lists of nothing but tensors hold the same ones in any order."""
    both = isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b)
    if not both:
        return _same_outcome(a, b)
    if not all(isinstance(t, torch.Tensor) for t in (*a, *b)):
        return all(map(_same_but_for_order, a, b))
    left = list(b)
    for t in a:
        found = next((k for k, other in enumerate(left) if _same_outcome(t, other)), None)
        if found is None:
            return False
        del left[found]
    return True


def _same_outcome(a: Any, b: Any) -> bool:
    if isinstance(a, Raised) or isinstance(b, Raised):
        both = isinstance(a, Raised) and isinstance(b, Raised)
        return both and (a.error, a.message) == (b.error, b.message)
    if isinstance(a, WroteInput) and isinstance(b, WroteInput):
        return a.argument == b.argument
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return _same_tensor(a, b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same_outcome, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same_outcome(a[key], b[key]) for key in a)
    if isinstance(a, float) or isinstance(b, float):
        return _same_number(a, b)
    return type(a) is type(b) and bool(a == b)


def _same_number(a: Any, b: Any) -> bool:
    """The same formula in another order of multiplication rounds otherwise, and a whole number may
    come as an int."""
    numbers = all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in (a, b))
    try:
        return numbers and (a == b or math.isclose(a, b, rel_tol=1e-9))
    except OverflowError:  # a whole number that no float can hold is none of ours
        return False


def _same_tensor(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Same values within rounding, NaN and infinity in the same places, and the same layout: a copy
    is not the view it was made from."""
    if (a.shape, a.dtype, a.stride()) != (b.shape, b.dtype, b.stride()):
        return False
    finite = a.isfinite()
    if a.storage_offset() != b.storage_offset() or not finite.equal(b.isfinite()):
        return False
    try:
        expect_close(a[finite], b[finite])
    except Wrong:
        return False
    return torch.allclose(a[~finite], b[~finite], equal_nan=True)
