"""Chapter 01: sizes, strides and offsets over a storage, and how they look.

What lives here: instruments and pictures of memory as a tensor sees it. What may not: what
allocates it, which is `memory`.
"""
