"""What is claimed about speed, measured: every result is a ratio between two things in one run.

What lives here: commands that take minutes. What may not: a test. Nothing fails for being slow,
because these machines are shared and an absolute time says nothing.
"""
