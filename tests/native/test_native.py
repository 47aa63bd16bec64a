"""plugrad-cpu's C kernels touch only their arrays, and agree with NumPy.

`make test-all` runs more seeds. The name of a failing call ends with its seed:
`python -m tests.native.run results --rows '^softmax$' --seed 17` repeats it.
"""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from .rows import ROWS

native = pytest.importorskip("plugrad_cpu.native", reason="needs plugrad-cpu")
if not native.LOADED:
    pytest.skip(f"no kernels in C: {native.LIBRARY}", allow_module_level=True)

ROOT = Path(__file__).parents[2]
LIBRARIES = Path(native.__file__).parent / "lib"
LEVELS = [native.LIBRARY]  # instruction sets that this processor can run
if native.LIBRARY in native.LEVELS:
    lower = native.LEVELS[native.LEVELS.index(native.LIBRARY) :]
    LEVELS = [level for level in lower if (LIBRARIES / f"{level}.so").exists()]
UNUSED: dict[str, str] = {}  # kernels that are served but not used, and why


def run(folder, *arguments, **variables):
    """Run the table in a process, and return its report."""
    out = folder / f"{len(list(folder.iterdir()))}.pickle"
    variables = {"OMP_NUM_THREADS": "1", "PLUGRAD_PLUGINS": "cpu"} | variables
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.native.run"]
    done = subprocess.run(
        [*command, *arguments, "--out", str(out)],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"{last} ended with {done.returncode}: {done.stderr}"
    return pickle.loads(out.read_bytes())


@pytest.fixture
def seeds(request):
    """Return a function that chooses a number of seeds, a larger one with ``--all``."""
    thorough = request.config.getoption("all")
    return lambda count, count_with_all: [
        "--count",
        str(count_with_all if thorough else count),
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_kernels_touch_their_arrays_only(level, tmp_path, seeds):
    """Results do not depend on guard pages, and each kernel has a row."""
    report = run(tmp_path, "guards", "--level", level, *seeds(8, 40))
    bits = report["found"]
    assert [name for name, found in bits.items() if len({*found.values()}) > 1] == []
    assert report["served"] >= {"softmax_f32", "depthwise_f64"}
    assert report["served"] - report["reached"] == {*UNUSED}, (
        "add a row in tests/native/rows.py that runs these kernels"
    )


@pytest.mark.parametrize("level", LEVELS)
def test_bits_do_not_depend_on_the_number_of_threads(level, tmp_path, seeds):
    report = run(tmp_path, "threads", "--level", level, "--large", *seeds(1, 3))
    bits = report["found"]
    assert bits
    assert [name for name, found in bits.items() if len({*found.values()}) > 1] == []


def difference(name, fast, slow):
    """Describe a difference beyond the row's tolerance; return None without one."""
    for a, b in zip(fast, slow, strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"{name}: {a.shape} {a.dtype}, not {b.shape} {b.dtype}"
        tolerance = ROWS[name.rsplit(" ", 2)[0]].tol if a.dtype.kind in "fc" else 0.0
        tolerance *= {"e": 1e-3, "f": 2e-6, "F": 2e-6}.get(a.dtype.char, 1e-13)
        scale = 1.0
        if tolerance:
            scale = float(np.abs(b).max(initial=1.0, where=np.isfinite(b)))
        if not np.allclose(
            a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=bool(tolerance)
        ):
            return f"{name}: {a} is not {b}"
    return None


def test_results_are_those_of_numpy(tmp_path, seeds):
    """Shapes and strides are random; axes may be empty, strides negative or huge."""
    count = seeds(6, 100)
    fast = run(tmp_path, "results", *count)["found"]
    slow = run(tmp_path, "results", *count, PLUGRAD_CPU_NATIVE="0")["found"]
    assert fast.keys() == slow.keys() != set()
    differences = [difference(name, fast[name], slow[name]) for name in fast]
    assert [text for text in differences if text] == []


OVERRUN = """
import numpy as np
from plugrad_cpu.native import native
from tests.native.guards import call_guarded
x = np.ones({size}, np.float32)
call_guarded(native.get("softmax_f32"), (x, x.copy(), 1, {count}, 1, 0), "{edge}")
"""


@pytest.mark.parametrize("size", [1, 4, 100, 5000])
@pytest.mark.parametrize("edge", ["start", "end"])
@pytest.mark.parametrize("extra", [0, 1])
def test_guard_pages_stop_a_kernel_that_reads_too_far(size, edge, extra):
    """With "start", the end of the array is guarded only if it fills whole pages."""
    program = OVERRUN.format(size=size, edge=edge, count=size + extra)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT)
    stopped = extra and edge == "end"
    assert done.returncode == (-signal.SIGSEGV if stopped else 0)
