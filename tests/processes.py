"""Runs Python in a separate process."""

import os
import subprocess
import sys


def python(code, *args, **variables):
    """Run code; environment variables that are None are removed."""
    env = {n: v for n, v in (os.environ | variables).items() if v is not None}
    command = [sys.executable, "-W", "error", "-c", code, *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)


def output(code, *args, **variables):
    """Return the output of code, which must exit with status 0."""
    done = python(code, *args, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout
