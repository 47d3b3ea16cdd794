"""What the jail is built of: bubblewrap, containers, cgroups, limits, and which of them this
machine has.

What lives here: isolation and limits, set up from outside. What may not: what crosses the wire.
"""
