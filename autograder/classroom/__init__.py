"""Submissions in, grades out: one folder of handed-in notebooks becomes a gradebook.

The rooms a submission passes, one way only:

    intake      what was handed in, by whom, in which layout; the release plus the student's own
                solution cells: bytes only, nothing is run
    run         one process per core or machine, each with a jail; questions are asked from outside
    store       what has been graded already, by content hash; who handed in what; the seed secret
    gradebook   nbgrader writes scores, penalties and feedback; it executes nothing
    reports     the table that the instructor reads, a page per lab, and grades for Canvas, Moodle
                and Gradescope
    commands    what `autograder` offers: grade, explain, report, doctor

What may not live here: anything about a particular lab, and any import of student code.
"""
