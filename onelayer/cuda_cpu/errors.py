"""What can stand in the way before a kernel runs."""

from onelayer.custom_op.cpp_compiler import CompileError as CompileError
from onelayer.custom_op.cpp_compiler import NoCompiler as NoCompiler


class KernelFault(Exception):
    """A call ended with faults; str() is the report."""
