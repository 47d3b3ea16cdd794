"""Submissions graded: jobs, workers, and the pool or the cluster that they work in.

What lives here: processes, devices and what a submission may take of them. What may not: nbgrader,
and files of a hand-in.
"""
