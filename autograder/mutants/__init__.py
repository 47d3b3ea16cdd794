"""Small faults, made by machine: a text of Python with one thing changed, as a tired person would.

What lives here: what can be changed (`changes`), and the texts that come of it (`mutants`). What
may not: who is asked about them. `bench.mutation` asks the tests of a module; a selftest asks a
question about answers.
"""

from .making import Mutant, mutants

__all__ = ["Mutant", "mutants"]
