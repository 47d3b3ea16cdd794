"""What a grading folder remembers: the journal of verdicts, the roster, the seed.

What lives here: files that survive a kill at any moment. What may not: how they came about.
"""
