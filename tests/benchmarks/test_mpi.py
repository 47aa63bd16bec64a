"""``benchmarks/mpi.py`` runs and prints times of messages and steps."""

import subprocess
import sys

from tests.benchmarks.test_growth import FOLDER
from tests.mpi.launch import needs_mpi


@needs_mpi
def test_it_measures_messages_and_steps():
    command = [sys.executable, str(FOLDER / "mpi.py"), "--ranks", "1,2"]
    command += ["--seconds", "0.02"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.startswith("2 ranks") and " B " in line for line in lines) == 10
    assert [line for line in lines if line.startswith("1 ranks: alone")]
    assert sum("weak scaling" in line for line in lines) == 2
