"""A GPU played by the CPU, and a submission that does to it what one may do."""

from __future__ import annotations

from autograder.sandbox import Cell, Gpu

HINTS = ("a", "b", "c")
MIB = 2**20
SIMULATED = Gpu("simulated", "simulated", 1024 * MIB, kind="simulated")

# What a submission may do to a GPU. The simulated one has a fault when its cell plants it.
CELL = Cell(
    "answers",
    """
import os
import torch
from autograder.judge import DEVICES

there = DEVICES["simulated"]

def double(x):
    return 2 * x

def plain(x):
    return x[:, 1:]

def illegal(x):
    there.fault = "an illegal memory access was encountered"
    return 2 * x

def hang(x):
    while True:
        pass

def end(x):
    os._exit(3)

def cap():
    return there.cap_bytes

def where():
    return torch.empty(1).device.type
""",
)


def asking(jail, **budgets):
    student = jail.open([CELL])
    student.begin(may_write=False, **budgets)
    return student
