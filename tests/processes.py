"""Python in a process of its own."""

import os
import subprocess
import sys


def python(code, *args, **variables):
    """Run code; a variable that is None is taken away."""
    env = {n: v for n, v in (os.environ | variables).items() if v is not None}
    command = [sys.executable, "-W", "error", "-c", code, *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)


def output(code, *args, **variables):
    """Return what code prints; it must end well."""
    done = python(code, *args, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout
