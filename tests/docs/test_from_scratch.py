"""The blocks of docs/from-scratch.md are one program, which prints what it promises."""

import re
import subprocess
import sys

from tests.docs.blocks import ROOT, blocks, promised

PAGE = (ROOT / "docs" / "from-scratch.md").read_text()


def test_the_program_prints_what_the_page_promises(tmp_path):
    code = "\n".join(blocks("python", PAGE))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == promised(code)


def test_the_modules_at_the_end_exist():
    table = PAGE.partition("## Where each part is in plugrad")[2]
    modules = re.findall(r"`(\w+/(?:\w+\.py)?)`", table)
    assert len(modules) > 8
    for module in modules:
        assert (ROOT / "core/src/plugrad/_src" / module).exists(), module


def test_the_program_uses_nothing_of_plugrad():
    assert not re.search(r"^(from|import) plugrad", PAGE, re.M)
