"""A pipeline in slow motion: what every stage does, and when it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Action = tuple[str, int]  # ("F" or "B", number of the micro-batch)
Orders = Sequence[Sequence[Action]]
SECONDS = {"F": 1, "B": 2}


@dataclass(frozen=True)
class Run:
    """How a pipeline ran. length: until the last action is done. idle: the share of it in which an
    average stage had nothing to do. held: for each stage, the most micro-batches whose activations
    it held at once. stuck: (stage, action) that waits for ever, for each stage that does."""

    length: int
    idle: float
    held: tuple[int, ...]
    stuck: tuple[tuple[int, Action], ...]


def run(orders: Orders) -> Run:
    """Each stage does its actions in its own order, each as soon as it can."""
    done: dict[tuple[int, Action], int] = {}  # (stage, action) -> when it was done
    clocks, places = [0] * len(orders), [0] * len(orders)
    moved = True
    while moved:
        moved = False
        for stage, order in enumerate(orders):
            while places[stage] < len(order):
                action = order[places[stage]]
                ready = _ready_at(stage, action, len(orders), done)
                if ready is None:
                    break
                clocks[stage] = max(clocks[stage], ready) + SECONDS[action[0]]
                done[stage, action] = clocks[stage]
                places[stage] += 1
                moved = True
    return _told(orders, clocks, places)


def _ready_at(
    stage: int, action: Action, stages: int, done: dict[tuple[int, Action], int]
) -> int | None:
    """When everything that `action` needs is there; None if something of it is not."""
    kind, micro = action
    needs = []
    if kind == "F" and stage > 0:
        needs.append((stage - 1, action))
    if kind == "B":
        needs.append((stage, ("F", micro)))
        if stage < stages - 1:
            needs.append((stage + 1, action))
    times = [done.get(need) for need in needs]
    return None if None in times else max((t for t in times if t is not None), default=0)


def _told(orders: Orders, clocks: Sequence[int], places: Sequence[int]) -> Run:
    length = max(clocks, default=0)
    busy = sum(SECONDS[kind] for order in orders for kind, _ in order)
    idle = 1 - busy / (length * len(orders)) if length else 0.0
    stuck = tuple(
        (stage, order[place])
        for stage, (order, place) in enumerate(zip(orders, places, strict=True))
        if place < len(order)
    )
    return Run(length, idle, tuple(map(held, orders)), stuck)


def held(order: Sequence[Action]) -> int:
    """The most forwards that wait for their backward at once."""
    now = most = 0
    for kind, _ in order:
        now += 1 if kind == "F" else -1
        most = max(most, now)
    return most


def one_f_one_b(s: int, p: int, m: int, *, extra: int = 0) -> list[Action]:
    """The right order of stage s. extra: forwards beyond the usual ones before the first
    backward."""
    warm = max(0, min(p - s - 1 + extra, m))
    order: list[Action] = [("F", k) for k in range(warm)]
    for k in range(m - warm):
        order += [("F", warm + k), ("B", k)]
    return order + [("B", k) for k in range(m - warm, m)]


def all_forward_first(m: int) -> list[Action]:
    """The order of every stage in GPipe."""
    return [("F", k) for k in range(m)] + [("B", k) for k in range(m)]
