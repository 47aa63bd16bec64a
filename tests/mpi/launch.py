"""Run programs on several ranks with ``mpiexec``."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
MPIEXEC = shutil.which("mpiexec", path=PATH)
MISSING = [
    *(["mpi4py"] if importlib.util.find_spec("mpi4py") is None else []),
    *(["mpiexec"] if MPIEXEC is None else []),
    *(["plugrad-mpi"] if importlib.util.find_spec("plugrad_mpi") is None else []),
]
needs_mpi = pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}")


def launch(ranks, *command, timeout=120, **env):
    """Run ``python *command`` on ``ranks`` ranks; return the finished process.

    With ``ranks=0``, run one process without ``mpiexec``.
    """
    start = [MPIEXEC, "-n", str(ranks)] if ranks else []
    return subprocess.run(
        [*start, sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PLUGRAD_MPI_TIMEOUT": "60"} | env,
    )
