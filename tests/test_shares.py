"""The shares of backends are dealt out whole, and another one in each commit."""

import subprocess
from pathlib import Path

import pytest

from tests.shares import DEALT, SHARES, SLOW, described, number_of_commit, runs

NAMES = [f"golden/test_golden.py::test_kernel[{i}]" for i in range(1200)]


@pytest.mark.parametrize("name", SHARES)
def test_each_test_runs_once_in_as_many_commits_as_there_are_shares(name):
    shares = [
        {test for test in NAMES if runs(name, test, number)}
        for number in range(100, 100 + SHARES[name])
    ]
    assert sum(map(len, shares)) == len(NAMES)
    assert set.union(*shares) == {*NAMES}
    fair = len(NAMES) / SHARES[name]
    assert all(fair / 2 < len(share) < fair * 2 for share in shares)


@pytest.mark.parametrize("name", ["cpu", "mine", None])
def test_others_run_all(name):
    assert all(runs(name, test, 5) for test in NAMES)


def test_the_header_says_how_to_run_them_again():
    expected = "3/6 on primitives, 3/6 on wasm, 15/24 on opencl, 3/6 of slow tests"
    assert described(14) == f"shares: {expected} (again: --share 14)"


def test_slow_files_exist():
    here = Path(__file__).parent
    for name in DEALT + SLOW:
        folder = here / "conformance/src" if name.startswith("plugrad_") else here
        assert (folder / f"{name}.py").exists(), name


@pytest.fixture
def git(tmp_path):
    """Return a function that runs git in a new repository."""
    try:
        subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    except FileNotFoundError:
        pytest.skip("git is not installed")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")

    def run(*arguments):
        command = ["git", "-C", tmp_path, *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True)

    return run


def test_commits_are_counted(tmp_path, git):
    assert number_of_commit(tmp_path) == 0
    for number in (1, 2, 3):
        git("commit", "--quiet", "--allow-empty", "--message", "more")
        assert number_of_commit(tmp_path) == number


def test_a_shallow_clone_has_a_number_too(tmp_path, git):
    for _ in range(3):
        git("commit", "--quiet", "--allow-empty", "--message", "more")
    shallow = tmp_path / "shallow"
    git("clone", "--quiet", "--depth=1", tmp_path.as_uri(), shallow)
    commit = git("rev-parse", "HEAD").stdout
    assert number_of_commit(shallow) == int(commit[:8], 16)


def test_without_git_it_is_the_first(tmp_path, monkeypatch):
    assert number_of_commit(tmp_path) == 0
    monkeypatch.setenv("PATH", "")
    assert number_of_commit(tmp_path) == 0
