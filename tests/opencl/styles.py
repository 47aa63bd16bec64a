"""Run a test file once more with the kernels for GPUs."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_as_gpu(file, config):
    """Run the tests of ``file`` in a new process that uses the kernels for GPUs.

    The style of a device cannot change within a process. Without ``--all``, only a
    sample of the tests runs, because compiling kernels for all of them takes minutes.
    """
    selection = "--all" if config.getoption("all") else "--few"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", selection, file]
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
