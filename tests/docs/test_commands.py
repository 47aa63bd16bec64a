"""Every ``python -m plugrad`` command that a page shows works."""

import re

import plugrad as pg
import pytest
from plugrad._src.tools import cli

from tests.docs.blocks import texts

PROGRAM = "python -m plugrad "
# Each command, and a pattern for the first line that it prints.
COMMANDS = {
    "plugins": "distribution +version +name +phase +reason",
    "backends": "name +priority +owner +state +active +dtypes",
    "kernels": "kernel .* cpu .*gradient",
    "kernels --markdown": "# Kernels",
    "why Conv2D": r"Conv2D\(x: number, filter: x; geometry: Windows\) -> y on cpu",
    "why silu": "the op silu runs these kernels:",
    "why Relu": r"Relu\(x: .*\) -> y on cpu, from the op relu",
    "why Relu --backend cpu --grad": r"Relu\(x: .*\) -> y on cpu, from the op relu",
    "why Softmax": r"Softmax\(logits: floating; axis: axis\) -> .* on cpu",
    "why Sum": r"Sum\(x: number; axis: axes, .*\) -> y on cpu",
    "-h": "usage: python -m plugrad ",
    "--version": r"plugrad \d",
    "doctor": "plugrad .*, Python .*, NumPy ",
    "doctor --json": r"\{",
}


def shown():
    """Return the commands on all pages, except templates such as ``why KERNEL``."""
    found = set()
    for text in texts().values():
        lines = re.findall(rf"^{PROGRAM}([^#\n]*)", text, re.M)
        inline = re.findall(r"`([^`]*)`", re.sub(r"(?sm)^```.*?^```", "", text))
        words = [" ".join(code.split()) for code in inline]
        lines += [w.removeprefix(PROGRAM) for w in words if w.startswith(PROGRAM)]
        found |= {line.strip() for line in lines}
    return {
        line for line in found if "|" not in line and not re.search("KERNEL|NAME", line)
    }


def test_all_are_in_the_table():
    assert shown() == {*COMMANDS}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_works(command, capsys):
    with pg.use_backend("cpu"):
        try:
            status = cli.main(command.split())
        except SystemExit as end:  # argparse ends --version in this way
            status = end.code
    out, _ = capsys.readouterr()
    assert re.match(COMMANDS[command], out), out
    assert status == 0, out
