"""The tests of the mocked device, on a CUDA build of the pinned torch: `make mock`.

    python -m bench.mock [PYTEST'S ARGUMENTS]

The environment is made once, 4 to 6 minutes and 5 GB, and kept beside the others as `.venv-mock`.
Exit code: pytest's, or 1 where there is no environment. Runs on a bare Python.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-mock"
TESTS = ("tests/onelayer/mock_cuda", "tests/gpu/test_mocked_gpu.py")


def constraints() -> str:
    """constraints.txt with a torch that is the CUDA build: `===` takes no build for the CPU that
    lies at hand, because its version has another name."""
    text = (ROOT / "constraints.txt").read_text()
    return re.sub("^torch==", "torch===", text, flags=re.MULTILINE)


def main(arguments: list[str]) -> int:
    versions = VENV.with_name(f"{VENV.name}.txt")
    versions.write_text(constraints())
    command = [sys.executable, "-m", "setup_env", "dev", "--venv", str(VENV)]
    if code := subprocess.call([*command, "--constraints", str(versions)], cwd=ROOT):
        return code
    python = [str(VENV / "bin" / "python"), "-m", "pytest", *TESTS, *arguments]
    return subprocess.call(python, cwd=ROOT, env=os.environ | {"ONELAYER_MOCK_REQUIRED": "1"})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
