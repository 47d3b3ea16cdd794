"""The grader's side of the jail: what starts it, speaks to it, and survives whatever it does.

What lives here: processes as the grader sees them, and `JailedStudent`, the handle that a check
holds. What may not: code that runs beside a student's.
"""
