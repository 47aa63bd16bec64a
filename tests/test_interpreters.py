"""Tests of the script that runs a command under another Python."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import interpreters
from tests.interpreters import Missing

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Return the only folder in PATH, which is empty; pyenv has no interpreter."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return folder


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_interpreters_are_found(path, tmp_path):
    assert interpreters.find(HERE) is None
    in_pyenv = tmp_path / "pyenv" / "versions" / f"{HERE}.99" / "bin" / "python"
    script(in_pyenv, f'exec {sys.executable} "$@"')
    assert interpreters.find(HERE) == in_pyenv
    # A pyenv shim fails if no version is selected.
    script(path / f"python{HERE}", "exit 1")
    assert interpreters.find(HERE) == in_pyenv
    script(path / f"python{HERE}", f'exec {sys.executable} "$@"')
    assert interpreters.find(HERE) == path / f"python{HERE}"


def test_uv_is_called_without_downloads(path):
    answer = f'[ "$3" = --no-python-downloads ] && echo {sys.executable}'
    script(path / "uv", answer)
    assert str(interpreters.find(HERE)) == sys.executable


def test_an_interpreter_of_another_version_is_not_used(path):
    script(path / "python3.99", f'exec {sys.executable} "$@"')
    assert interpreters.find("3.99") is None


def test_missing_programs_are_reported(path, tmp_path, monkeypatch):
    suite = tmp_path / "debian"
    monkeypatch.setattr(interpreters.platform, "system", lambda: "Darwin")
    with pytest.raises(
        Missing, match=r"no Python 3\.14 here; `uv python install 3\.14"
    ):
        interpreters.bootstrapped("3.14", suite)
    monkeypatch.setattr(interpreters.platform, "system", lambda: "Linux")
    with pytest.raises(Missing, match=r"no Debian suite has it"):
        interpreters.bootstrapped("3.12", suite)
    script(path / "apt-get", "exit 0")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Missing, match="as root, this script gets it from Debian's sid"):
        interpreters.bootstrapped("3.14", suite)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(Missing, match="run `apt-get install debootstrap` first"):
        interpreters.bootstrapped("3.14", suite)
    script(path / "debootstrap", "exit 0")
    with pytest.raises(Missing, match="apt knows no Debian mirror"):
        interpreters.bootstrapped("3.14", suite)
    assert not suite.exists()


def test_a_suite_is_installed_once(path, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    suite = tmp_path / "3.14" / "debian"
    log = tmp_path / "arguments"
    script(path / "apt-get", "echo ' http://other/'\necho Debian http://mirror/debian")
    install = f"/bin/mkdir -p {suite}/usr/bin; : > {suite}/usr/bin/python3.14"
    script(path / "debootstrap", f'echo "$@" >> {log}; {install}')
    for _ in range(2):
        assert interpreters.bootstrapped("3.14", suite) == suite
    (arguments,) = log.read_text().splitlines()
    assert arguments.endswith(f" sid {suite} http://mirror/debian")
    assert "python3-venv" in arguments
    (suite / "usr" / "bin" / "python3.14").rename(suite / "usr" / "bin" / "python3.15")
    with pytest.raises(Missing, match=r"sid has python3\.15, and no python3\.14"):
        interpreters.bootstrapped("3.14", suite)


def test_a_failed_installation_is_repeated(path, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    script(path / "apt-get", "echo Debian http://mirror/debian")
    script(path / "debootstrap", "echo no route; exit 1")
    suite = tmp_path / "3.14" / "debian"
    for _ in range(2):
        with pytest.raises(Missing, match=r"could not install sid: see .*\.log"):
            interpreters.bootstrapped("3.14", suite)
    assert (suite.parent / "debootstrap.log").read_text() == "no route\n"


def test_pip_settings():
    listed = r"""
:env:.timeout='9'
global.extra-index-url='\nfile:///one/simple\nfile:///two/simple'
install.no-binary='x'
wheel.no-deps='true'
"""
    assert interpreters.pip_settings(listed) == {
        "PIP_EXTRA_INDEX_URL": "file:///one/simple file:///two/simple",
        "PIP_NO_BINARY": "x",
    }


def test_paths_in_settings(tmp_path):
    index = tmp_path / "index" / "simple"
    constraints = tmp_path / "constraints.txt"
    index.mkdir(parents=True)
    constraints.touch()
    settings = {
        "PIP_INDEX_URL": f"https://host{tmp_path} file://{index}",
        "PIP_CONSTRAINT": str(constraints),
        "PIP_CERT": str(tmp_path / "absent"),
        "PIP_TIMEOUT": "9",
    }
    assert interpreters.paths_in(settings) == [str(constraints), str(index.parent)]


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_a_command_runs_in_a_clone(tmp_path, monkeypatch, capfd):
    repository = tmp_path / "repository"
    git = ["git", "-C", str(repository), "-c", "user.name=x", "-c", "user.email=x@y"]
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    monkeypatch.setattr(interpreters, "ROOT", repository)
    monkeypatch.setattr(interpreters, "find", lambda _: Path(sys.executable))
    monkeypatch.setenv("PYTHONPATH", str(repository))
    show = "import os; print(open('file').read(), os.environ.get('PYTHONPATH'))"
    command = [HERE, sys.executable, "-c", show]
    for text in ("one", "two"):
        (repository / "file").write_text(text)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", text], check=True)
        (repository / "file").write_text("not committed")
        assert interpreters.main(["--folder", str(tmp_path / "made"), *command]) == 0
        printed = capfd.readouterr().out
        assert "changes that are not committed are left out" in printed
        assert printed.endswith(f"{text} None\n")
    status = interpreters.main(
        ["--folder", str(tmp_path / "made"), HERE, sys.executable, "-c", "exit(7)"]
    )
    assert status == 7


@pytest.mark.parametrize("version", ["314", "python3.14", "4"])
def test_an_invalid_version_is_refused(version, capsys):
    with pytest.raises(SystemExit):
        interpreters.main([version])
    assert f"must be like 3.14, got {version!r}" in capsys.readouterr().err
