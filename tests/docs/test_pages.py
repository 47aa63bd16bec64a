"""Every program on these pages runs and prints what it says."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import blocks, promised

ROOT = Path(__file__).parents[2]
PAGES = ["docs/override.md", "examples/gradient_packs/README.md"]
PROGRAMS = {
    f"{page}:{i}": code
    for page in PAGES
    for i, code in enumerate(blocks("python", (ROOT / page).read_text()))
}


def test_every_page_shows_what_it_claims():
    for page in PAGES:
        mine = [code for name, code in PROGRAMS.items() if name.startswith(page)]
        assert len(mine) >= 2
        assert all(promised(code) for code in mine)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_it_says(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAMS[name]],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == promised(PROGRAMS[name])
