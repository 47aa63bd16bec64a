"""``python -m plugrad_conformance new mybackend``: start a plugin.

The suite itself is run by pytest:
``pytest --pyargs plugrad_conformance --plugrad-backend=mybackend``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .new import KINDS, write

NEXT_STEPS = """wrote {folder}; next:

    cd {folder}
    python -m pip install --editable ".[test]"
    pytest

README.md says how to continue."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        folder = write(options.command, options.name, options.into, options.author)
    except (ValueError, OSError) as error:
        print(f"plugrad_conformance: {error}", file=sys.stderr)
        return 2
    print(NEXT_STEPS.format(folder=folder))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m plugrad_conformance", description="Start a plugin for plugrad."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for command, kind in KINDS.items():
        description = f"write a package with {kind.what}, and its tests"
        subparser = commands.add_parser(
            command, help=description, description=description
        )
        subparser.add_argument(
            "name", metavar="NAME", help="such as mybackend or my_ops"
        )
        subparser.add_argument(
            "--into",
            type=Path,
            default=Path(),
            metavar="DIR",
            help="the folder in which to create it; default: here",
        )
        subparser.add_argument(
            "--author", default="", help="the author, for pyproject.toml"
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
