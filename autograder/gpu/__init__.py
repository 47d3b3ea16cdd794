"""`make gpu`: every answer that the course knows, graded on this machine's GPU as a class would be.

What lives here: the answers as submissions, the kernels that are tried in the jail first, and the
paper about it. What may not: how a submission is graded, which is `classroom`'s, and nbgrader,
which a GPU node need not have.
"""
