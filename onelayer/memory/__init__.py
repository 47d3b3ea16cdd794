"""Chapter 05: bytes counted, peaks measured, and what the allocator did, over time.

What lives here: instruments and pictures of bytes and of time on a device. What may not: layouts of
one tensor, which are `strides`.
"""
