"""Has the compiler include a file of the grader, and reads it out of what was compiled."""

from autograder.attacks.arenas.baits import solutions
from autograder.attacks.arenas.kernel_needs import compiler_obstacle
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import Walls

attack = Attack(
    threat="H32",
    layer="D5",
    expected=("refused",),
    arena=Reach(Walls(exposed=True), bait=solutions),
    needs=compiler_obstacle,
    hostile="""
def attempt(desk):
    for folder, _, names in os.walk(desk):
        for name in names:
            if "solutions" in folder:
                source = f'asm(R"(.incbin "{folder}/{name}")");'
                open("/tmp/a.cpp", "w").write(source)
                subprocess.run(["g++", "-c", "/tmp/a.cpp", "-o", "/tmp/a.o"], check=True)
                return open("/tmp/a.o", "rb").read().decode(errors="replace")
""",
    twin="""
def attempt(desk):
    open("/tmp/a.cpp", "w").write('extern "C" int two() { return 2; }')
    subprocess.run(["g++", "-shared", "/tmp/a.cpp", "-o", "/tmp/a.so"], check=True)
    return "honest" if ctypes.CDLL("/tmp/a.so").two() == 2 else None
""",
)
