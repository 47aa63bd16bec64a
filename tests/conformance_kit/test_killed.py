"""If a process is killed during a test, the next run names the test."""

import os
import signal
import subprocess
import sys
import time

import pytest

ARGUMENTS = ("backend.test_primitives", "-k", "Tanh-float32 or Sin-float32")
KILLED = "test_dtypes_and_shapes[faulty-Tanh-float32]"
MESSAGE = "plugrad: an earlier run was killed during"


def run(kit, *options, **env):
    """Run some tests of the kit with pytest's cache in the kit's folder."""
    part, *rest = ARGUMENTS
    command = [
        *(sys.executable, "-m", "pytest", "-q", "--plugrad-backend=faulty"),
        *("--pyargs", f"plugrad_conformance.{part}", *rest, f"--rootdir={kit.folder}"),
        *("-o", f"cache_dir={kit.folder}/cache", *options),
    ]
    path = os.pathsep.join([str(kit.folder), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        command,
        cwd=kit.folder,
        env=os.environ | {"PYTHONPATH": path} | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
def test_the_next_run_names_the_test(kit):
    kit.install("""
        def tanh(x):
            import os, signal
            os.kill(os.getpid(), signal.SIGKILL)
        kernels["Tanh"] = tanh
    """)
    for runs in range(2):
        done = run(kit)
        output = done.communicate(timeout=120)[0]
        assert done.returncode == -signal.SIGKILL
        assert (MESSAGE in output) == bool(runs)
    assert f"::{KILLED}" in output.split(MESSAGE)[1].splitlines()[0]
    kit.install()
    for runs in range(2):
        done = run(kit)
        output = done.communicate(timeout=120)[0]
        assert done.returncode == 0, output
        assert (MESSAGE in output) == (runs == 0), "it is reported only once"
    assert not [*(kit.folder / "cache/d/plugrad-running").iterdir()]


def test_the_current_test_of_another_run_is_not_named(kit):
    kit.install("""
        def tanh(x):
            import os, time
            while os.path.exists("wait"):
                time.sleep(0.01)
            return np.tanh(x)
        kernels["Tanh"] = tanh
    """)
    wait = kit.folder / "wait"
    folder = kit.folder / "cache/d/plugrad-running"
    wait.touch()
    first = run(kit)
    try:
        end = time.monotonic() + 60
        while not (folder / str(first.pid)).exists() and time.monotonic() < end:
            time.sleep(0.05)
        second = run(kit, "-k", "Sin-float32")
        assert MESSAGE not in second.communicate(timeout=120)[0]
    finally:
        wait.unlink()
    assert "2 passed" in first.communicate(timeout=120)[0]
    assert first.returncode == second.returncode == 0


def test_without_a_cache_nothing_is_written(kit):
    kit.install()
    done = run(kit, "-p", "no:cacheprovider", "-W", "ignore")
    output = done.communicate(timeout=120)[0]
    assert done.returncode == 0, output
    assert not (kit.folder / "cache").exists()
