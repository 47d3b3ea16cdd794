"""The lab, still without questions: each `qNN` file adds its own."""

from autograder.judge import Lab

lab = Lab("03_autograd", "Autograd")
