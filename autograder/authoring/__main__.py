"""`python -m autograder.authoring build [--check]`, and `translate`."""

import click

from .build_command import build_command
from .translate_command import translate_command

main = click.Group(
    "authoring",
    commands=[build_command, translate_command],
    help="Percent sources in, notebooks out.",
)

if __name__ == "__main__":
    main(prog_name="python -m autograder.authoring")
