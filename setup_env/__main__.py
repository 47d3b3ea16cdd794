"""The command `python3 -m setup_env`, and the sentence for a Python that is too old to run it."""

import argparse
import os
import sys

from setup_env import UserError

OLDEST, NEWEST = (3, 11), (3, 13)


def require_platform(system: str, version: tuple) -> None:  # type: ignore[type-arg]
    """Raise UserError unless the system is POSIX and `version` (major, minor, ...) is supported."""
    if system != "posix":
        raise UserError(
            "Windows itself is not supported: type wsl --install, and make in its window"
        )
    if not OLDEST <= tuple(version[:2]) <= NEWEST:
        raise UserError(
            f"Python 3.{OLDEST[1]} to 3.{NEWEST[1]} is needed and this is "
            f"{version[0]}.{version[1]}: install one of them, then type "
            f"make PYTHON=python3.{NEWEST[1]} with what you wanted to make"
        )


def run(arguments: list) -> None:  # type: ignore[type-arg]
    """Set up what `arguments` ask for. The rest of the package is imported after the check."""
    require_platform(os.name, sys.version_info)
    from setup_env.making import set_up

    parser = argparse.ArgumentParser(prog="setup_env", description="Make the environment.")
    parser.add_argument("extras", choices=["lab", "dev"])
    parser.add_argument("--venv", default=".venv", help="where it is made (default: .venv)")
    parser.add_argument("--constraints", help="other versions than those of constraints.txt")
    options = parser.parse_args(arguments)
    set_up(os.path.abspath(options.venv), options.extras, options.constraints)


def main(arguments: list) -> int:  # type: ignore[type-arg]
    """Return the exit code: 0 ready, 1 something is missing (one line says what), 130 stopped."""
    try:
        run(arguments)
    except UserError as trouble:
        sys.stderr.write(f"Cannot go on. {trouble}.\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"Cannot go on. {error.strerror}: {error.filename}.\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("Stopped. The next make starts this step over.\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
