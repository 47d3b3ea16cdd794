"""Records the traces of chapter 09's loops on the mocked device, for readers who have none.

    python -m bench.loops

It needs a CUDA build of torch (`make mock` makes one in `.venv-mock`) and no GPU.
"""

from __future__ import annotations

from onelayer.profiling.loop_traces import record_loops

if __name__ == "__main__":
    for line in record_loops("python -m bench.loops"):
        print(line)
