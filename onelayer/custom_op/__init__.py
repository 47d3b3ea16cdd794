"""Chapter 06: C++ operators, compiled and loaded from a cell, and the tiles of a kernel.

What lives here: what builds and loads an operator, and its picture. What may not: running CUDA C++
on the CPU, which is `cuda_cpu`.
"""
