"""Records the id of the running test in a file that survives the end of the process.

A device can end the process: a driver crashes, or the system kills a process that uses
too much memory. Then pytest reports nothing. Therefore each process records the id of
its running test in a file of pytest's cache, and removes the file when it ends. The
next run reports the tests whose files still exist.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

FOLDER = "plugrad-running"  # folder in pytest's cache


class Running:
    """Records the id of the running test in a file named after the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: int | None = None

    @property
    def _path(self) -> Path:
        return self.folder / str(os.getpid())

    def killed_tests(self) -> list[str]:
        """Return the tests during which processes were killed; remove their files."""
        found = []
        for path in sorted(self.folder.iterdir()):
            if _is_alive(int(path.name)):
                continue
            try:
                text = path.read_text()
                path.unlink()
            except OSError:  # another run has removed it, or Windows still uses it
                continue
            found += [text] if text else []
        return found

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item
    ) -> Generator[None, object, object]:
        """Write the id before the test; empty the file after it."""
        self._write(item.nodeid)
        try:
            return (yield)
        finally:
            self._write("")

    def _write(self, text: str) -> None:
        if self._file is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
            self._file = os.open(self._path, flags, 0o644)
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, text.encode())

    def pytest_unconfigure(self) -> None:
        """Remove the file, because the process ends normally."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self._path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    """Return whether a process runs; False on Windows, which keeps its file open."""
    if os.name == "nt":
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return process != os.getpid()


def start(config: pytest.Config) -> None:
    """Report the tests that killed earlier runs, and start recording this run."""
    cache = getattr(config, "cache", None)
    if cache is None:  # -p no:cacheprovider
        return
    running = Running(cache.mkdir(FOLDER))
    config.pluginmanager.register(running, "plugrad-running")
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or hasattr(config, "workerinput"):
        return
    for test in running.killed_tests():
        terminal.ensure_newline()
        terminal.write_line(f"plugrad: an earlier run was killed during {test}")
