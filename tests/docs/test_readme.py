"""Every program in README.md runs and prints what it says."""

import subprocess
import sys

import pytest

from tests.docs.blocks import programs, promised, published_backend

PROGRAMS = programs()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Install the backend that the README publishes, without building a wheel."""
    folder = tmp_path_factory.mktemp("site")
    project = published_backend(folder)
    name, version = project["name"], project["version"]
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    lines = ["[plugrad.v1]"]
    lines += [f"{k} = {v}" for k, v in project["entry-points"]["plugrad.v1"].items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


def test_there_is_a_program_for_every_claim():
    assert len(PROGRAMS) >= 4
    assert all(promised(code) for code in PROGRAMS.values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_it_says(name, site):
    command = [sys.executable, "-W", "error", "-c", PROGRAMS[name]]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": str(site)}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == promised(PROGRAMS[name])
