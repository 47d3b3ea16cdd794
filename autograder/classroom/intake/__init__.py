"""What was handed in, whose it is, and the notebook rebuilt from it.

What lives here: files, archives, owners and quotas; nothing of a student's is run. What may not:
jails and grades.
"""
