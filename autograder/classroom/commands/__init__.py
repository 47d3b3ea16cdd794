"""What an instructor types: grade, report, explain, doctor.

What lives here: reading options, calling the rooms below, and what is printed. What may not:
anything that a grade depends on.
"""
