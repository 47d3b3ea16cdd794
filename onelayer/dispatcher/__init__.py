"""Chapter 02: key sets, operator tables, and the way of one call through them.

What lives here: instruments and pictures of the dispatcher. What may not: the graph that a call
leaves, which is `autograd`.
"""
