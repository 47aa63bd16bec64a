"""Run a file of tests once more in the style of GPUs."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_as_gpu(file, config):
    """Run the tests of ``file`` in a process whose device has the style of GPUs.

    It is one of its own because the style is that of a device for good. Without
    ``--all`` one in a few of its tests runs: compiling for all takes minutes.
    """
    few = "--all" if config.getoption("all") else "--few"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", few, file]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        cwd=ROOT,
        env=os.environ | {"PLUGRAD_OPENCL_STYLE": "gpu"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
