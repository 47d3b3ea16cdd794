"""What `profiled` keeps of torch's own trace."""

import re

import torch

from onelayer.profiling.profiled import kept, profiled


def numbers(number):
    seen.append(number)
    return torch.ones(8, 8) @ torch.ones(8, 8)


seen: list[int] = []


def test_as_many_steps_as_were_asked_for_each_in_its_annotation():
    seen.clear()
    events = profiled(numbers, steps=3, warm_up=2)
    assert seen == list(range(6))  # two warm up, one starts the profiler
    steps = [e for e in events if re.fullmatch(r"ProfilerStep#\d+", e["name"])]
    products = [e for e in events if e["name"] == "aten::mm"]
    assert len(steps) == len(products) == 3
    for step, product in zip(steps, products, strict=True):
        assert step["ts"] <= product["ts"]
        assert product["ts"] + product["dur"] <= step["ts"] + step["dur"]
    assert [e["ts"] for e in events] == sorted(e["ts"] for e in events)


def test_of_python_only_the_programs_own_functions_are_kept():
    calls = [e["name"] for e in profiled(numbers) if e["cat"] == "python_function"]
    assert any(name.endswith(": numbers") for name in calls)
    assert not [name for name in calls if name.startswith(("torch/", "<built-in", "nn.Module"))]


def test_what_a_profiler_counts_for_itself_is_left_out():
    event = {"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1.0, "dur": 1.0}
    whole = [
        {**event, "args": {"External id": 3, "Ev Idx": 7}},
        {"ph": "M", "name": "process_name", "ts": 0.0},
        {**event, "cat": "python_function", "name": "torch/nn/modules.py(3): forward"},
        {**event, "cat": "python_function", "name": "threading.py(3): run"},
        {**event, "cat": "Trace"},
    ]
    assert kept(whole) == [{**event, "args": {"External id": 3}}]
