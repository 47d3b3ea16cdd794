"""Run as a program, under a sanitizer: one call of one function, as `sanitized.py` wrote it down.

It imports nothing but the standard library, and its tensors are plain memory from malloc, around
which the sanitizer puts its red zones.
"""

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

TYPES: dict[str, Any] = {
    "void": None,
    "integer": ctypes.c_int,
    "bool": ctypes.c_bool,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


def main(room: Path) -> None:
    """Call, then write down the memory, the result, and what the runtime itself found."""
    job = json.loads((room / "job.json").read_text())
    malloc = ctypes.CDLL(None).malloc
    malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    memory = (room / "memory").read_bytes()
    places, at = [], 0
    for size in job["sizes"]:
        places.append(malloc(size))
        ctypes.memmove(places[-1], memory[at : at + size], size)
        at += size
    library = ctypes.CDLL(job["library"])
    library.onelayer_begin()
    for place, size in zip(places, job["sizes"], strict=True):
        library.onelayer_argument(ctypes.c_void_p(place), ctypes.c_size_t(size), 0, 0)
    function = library[job["function"]]
    function.restype = TYPES.get(job["result"], ctypes.c_int)
    value = function(*(_argument(kind, given, places) for kind, given in job["arguments"]))
    library.onelayer_end()
    with (room / "memory").open("wb") as file:
        for place, size in zip(places, job["sizes"], strict=True):
            file.write(ctypes.string_at(place, size))
    _write(library, "report", "reports", room, job["report_bytes"])
    _write(library, "launch", "launches", room, job["launch_bytes"])
    (room / "value.json").write_text(json.dumps(value))


def _argument(kind: str, given: Any, places: list[int]) -> Any:
    if kind == "tensor":
        group, offset = given
        return ctypes.c_void_p(places[group] + offset)
    if kind in ("pointer", "stream"):
        return ctypes.c_void_p(given)
    return TYPES[kind](given) if kind in ("float", "double") else ctypes.c_int64(int(given))


def _write(library: ctypes.CDLL, one: str, many: str, room: Path, size: int) -> None:
    count = library[f"onelayer_{one}_count"]()
    first = library[f"onelayer_{many}"]
    first.restype = ctypes.c_void_p
    (room / many).write_bytes(ctypes.string_at(first(), size * count))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
