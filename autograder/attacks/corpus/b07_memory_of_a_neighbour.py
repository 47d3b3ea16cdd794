"""Reads the memory of another submission that runs at the same time, with `process_vm_readv`."""

from autograder.attacks.arenas.baits import a_neighbours_memory
from autograder.attacks.arenas.kernel_needs import yama_obstacle
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import Walls

attack = Attack(
    threat="B07",
    layer="D5",
    expected=("refused",),
    arena=Reach(Walls(plain=True), bait=a_neighbours_memory),
    needs=yama_obstacle,
    hostile="""
class Piece(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("size", ctypes.c_size_t)]
def attempt(pid, address, length):
    libc = ctypes.CDLL(None, use_errno=True)
    mine = ctypes.create_string_buffer(length)
    here = Piece(ctypes.addressof(mine), length)
    there = Piece(address, length)
    read = libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return mine.raw.decode() if read == length else ctypes.get_errno()
""",
    twin="""
def attempt(pid, address, length):
    mine = ctypes.create_string_buffer(b"honest")
    return ctypes.string_at(ctypes.addressof(mine)).decode()
""",
)
