"""A CUDA device on a machine without one: the unmodified CUDA build of torch over a mocked driver.

What lives here: the library that stands in for CUDA's runtime, cuBLAS, CUPTI, NCCL and the driver
(`native/`, C++), what builds it, what runs a function or a script on it, and what reads what it
saw. What may not: anything that says how fast a GPU is. Time here is a model.
"""
