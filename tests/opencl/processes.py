"""Python in a process of its own."""

import os
import subprocess
import sys


def python(code, **variables):
    """Run code; a variable that is None is taken away."""
    env = {n: v for n, v in (os.environ | variables).items() if v is not None}
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)


def output(code, **variables):
    """Return what code prints; it must end well."""
    done = python(code, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout
