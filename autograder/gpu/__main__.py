"""`python -m autograder.gpu`, with whatever Python the machine has."""

import sys

try:
    from .gpu_command import main
except ModuleNotFoundError as missing:
    sys.exit(
        f"Cannot go on: {sys.executable} has no {missing.name}. `make wheelhouse` gathers what a "
        "GPU machine needs; GPU_PYTHON=... names another Python."
    )

if __name__ == "__main__":
    main(prog_name="make gpu")
