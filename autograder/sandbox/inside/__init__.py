"""What runs inside the jail, beside a stranger's code: the zygote, its forks, and their walls from
within.

What lives here: code that a stranger can reach. What may not: anything that a verdict rests on.
"""
