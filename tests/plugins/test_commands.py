"""Commands work even if plugins interrupt, or have control characters in texts."""

import json
import os
import signal
import subprocess
import sys

import pytest
from plugrad._src.registry.plugins import printable

from tests.plugins.conftest import OTHER_PLUGINS

COMMANDS = ["plugins", "backends", "kernels", "doctor"]
ESCAPES = "\x1b]0;title\x07\x1b[2J\u202e"
HOSTILE = f"""
from plugrad.plugin import Backend, hookimpl

def open_it():
    raise OSError("no {ESCAPES} device")

@hookimpl
def plugrad_backends():
    return [Backend("it", open=open_it, priority=9)]
"""


@pytest.fixture
def plugrad(tmp_path):
    """Run ``python -m plugrad`` with cpu and the fake distributions."""

    def run(*arguments):
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, "-m", "plugrad", *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={"PYTHONPATH": path, "PLUGRAD_BLOCK": ",".join(OTHER_PLUGINS)},
        )

    return run


# --- escape sequences ------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_control_characters_are_shown_as_escapes(command, site, plugrad, tmp_path):
    site("plugrad-it", HOSTILE, f"[plugrad.v1]\nit{ESCAPES} = plugrad_it\n")
    metadata = tmp_path / "plugrad_it-1.0.dist-info" / "METADATA"
    metadata.write_text(f"Name: plugrad-it\nVersion: 1.0{ESCAPES}\n")
    done = plugrad(command)
    assert done.returncode == 1
    assert "plugrad-cpu" in done.stdout or command == "kernels"
    assert r"no \x1b]0;title\x07\x1b[2J\u202e device" in done.stdout
    for c in done.stdout + done.stderr:
        assert c.isprintable() or c == "\n", repr(c)
    data = json.loads(plugrad(command, "--json").stdout)
    assert f"no {ESCAPES} device" in _texts(data)  # JSON contains the text itself


def _texts(data):
    """Return all strings in nested lists and dicts, joined."""
    if isinstance(data, str):
        return data
    inside = data.values() if isinstance(data, dict) else data
    return " ".join(map(_texts, inside)) if isinstance(data, dict | list) else ""


def test_control_characters_are_shown_as_escapes_in_a_warning(site, python):
    site("plugrad-it", HOSTILE)
    out = python("""
        import warnings, plugrad as pg
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pg.ones((2,))
        print(caught[0].message)
    """)
    assert r"OSError: no \x1b]0;title\x07\x1b[2J\u202e device; to silence" in out


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("zwei Zeilen\nübereinander", "zwei Zeilen\nübereinander"),
        ("\t\r\x7f\x9b\ud800", r"\t\r\x7f\x9b\ud800"),
        (r"C:\new", r"C:\new"),
    ],
)
def test_printable_text(text, shown):
    assert printable(text) == shown


# --- interrupts ------------------------------------------------------------------

INTERRUPTED = "RuntimeError: KeyboardInterrupt while its code ran"
RAISING = "raise KeyboardInterrupt"
STEPS = {  # the step in which a plugin raises it: its entry-point module
    "importing": RAISING,
    "opening": f"""
from plugrad.plugin import Backend, hookimpl

def open_it():
    {RAISING}

@hookimpl
def plugrad_backends():
    return [Backend("it", open=open_it, priority=9)]
""",
    "extending": f"""
from plugrad.plugin import KernelPack, hookimpl

def open_it():
    {RAISING}

@hookimpl
def plugrad_kernels():
    return [KernelPack("cpu", open=open_it)]
""",
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_plugin_that_raises_keyboard_interrupt_ends_no_command(
    command, step, site, plugrad
):
    site("plugrad-it", STEPS[step])
    done = plugrad(command)
    assert "Traceback" not in done.stderr
    assert "cpu" in done.stdout
    if command in ("plugins", "doctor"):
        assert done.returncode == 1
        assert INTERRUPTED in done.stdout
    if command == "doctor":
        assert "works     plugrad-cpu" in done.stdout
        assert "broken    plugrad-it" in done.stdout


HANGING = """
import time

from plugrad.plugin import Backend, hookimpl

def open_it():
    print("hanging", flush=True)
    time.sleep(600)

@hookimpl
def plugrad_backends():
    return [Backend("it", open=open_it, priority=9)]
"""


def test_an_interrupt_by_the_user_ends_only_the_hanging_plugin(site, tmp_path):
    site("plugrad-it", HANGING)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "-m", "plugrad", "plugins", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": path, "PLUGRAD_BLOCK": ",".join(OTHER_PLUGINS)},
    ) as running:
        assert running.stderr.readline() == "hanging\n"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=240)
    rows = {row["name"]: row for row in json.loads(out)}
    assert (running.returncode, err) == (1, "")
    assert rows["it"]["reason"] == INTERRUPTED
    assert rows["cpu"]["phase"] == "opened"
