"""Makes the course's virtual environment, or finds in milliseconds that nothing is left to do.

    python3 -m setup_env lab      what a student needs
    python3 -m setup_env dev      the same, and every tool that `make test` calls

The versions are those of constraints.txt; `--constraints FILE` gives others, as the matrix does.

`make` runs this before anything is installed, so what lives here needs a bare Python and nothing
more. `__init__` and `__main__` keep to the syntax of Python 3.6: an old Python must get far enough
to be told that it is old. Whatever goes wrong ends in one line on stderr that says what is missing
and what to type.
"""


class UserError(Exception):
    """One sentence for the person at the keyboard: what is missing, and what to type."""
