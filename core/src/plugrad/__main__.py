"""Run ``python -m plugrad``: report what is installed, what runs where, and why."""

import sys

from ._src.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
