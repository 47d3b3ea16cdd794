"""Verdicts into nbgrader: its tables, its pages of feedback, its late penalties.

What lives here: everything that imports nbgrader. What may not: judging.
"""

import sys

# nbgrader imports nbformat, that jsonschema, and its checkers of formats this grammar of web
# addresses, which no notebook is checked with: a second and a half, for every command. A module
# that is None cannot be imported, and jsonschema goes on without it.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
