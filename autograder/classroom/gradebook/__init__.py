"""Verdicts into nbgrader: its tables, its pages of feedback, its late penalties.

What lives here: everything that imports nbgrader. What may not: judging.
"""
