"""Submissions in, grades out: one folder of handed-in notebooks becomes a gradebook.

The way of a class has three steps that know each other only through the journal; each can be done
again alone:

    intake      what was handed in, by whom; the release plus the student's own solution cells;
                bytes only, nothing is run
    run         a process per core, each with a jail; questions are asked from outside. It ends at
                the journal
    gradebook   from the journal, through nbgrader's own converters, to scores and feedback

Beside them:

    store       the journal of verdicts, the roster of who handed in what, the seed secret
    reports     a page per lab, and grades for Canvas, Moodle and Gradescope, read from these
    commands    what an instructor types: grade, report, explain, doctor

An import runs down this list only: commands, reports, gradebook, run, intake and store, errors.
What may not live here: anything about a particular lab, and any import of student code.
"""
