"""Submissions in, grades out: one folder of handed-in notebooks becomes a gradebook.

The rooms a submission passes, one way only:

    intake      what was handed in, by whom, in which layout; bytes only, nothing is run
    rebuild     the release plus the student's own solution cells; everything else is dropped
    journal     what has been graded already, by content hash
    pool, work  one process per core, each with a jail; questions are asked from outside
    gradebook   nbgrader writes scores and feedback; it executes nothing
    roll        who handed in what, and which record speaks for them
    late        what lateness costs; nbgrader's gradebook holds the penalties
    report      the table that the instructor reads
    reports     a page per lab, and grades for Canvas, Moodle and Gradescope
    appeal      one verdict asked again, from its record

What may not live here: anything about a particular lab, and any import of student code.
"""
