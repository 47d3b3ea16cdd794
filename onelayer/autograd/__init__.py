"""Chapters 03 and 04: the graph behind a tensor, what each node saved, and what a checkpoint drops.

What lives here: instruments and pictures of the graph. What may not: kernels, and how memory is
allocated.
"""
