"""Tests of plugrad-cpu with all of its C under AddressSanitizer and UBSan.

``python -m tests.native.sanitized`` compiles it into ``plugins/cpu/build`` and runs our
tests of it, and a row of each op and of each gradient from the conformance tests.
Arguments are passed to pytest instead of these files. It runs on Linux, and needs
ziglang and the runtime of gcc's AddressSanitizer (``libasan``).
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CPU = ROOT / "plugins/cpu"
BUILT = CPU / "build/sanitized"
KIT = "tests/conformance/src/plugrad_conformance/ops"
TESTS = [
    ["tests/native", "tests/plugins/test_cpu_native.py"],
    [f"tests/plugins/test_cpu_{name}.py" for name in ("regions", "rows", "single")],
    [f"{KIT}/test_random_inputs.py", f"{KIT}/test_gradients_everywhere.py"],
]
POOL = "tests/plugins/test_cpu_pool.py"
# The sanitizer keeps what is freed for a while, so no memory returns to the system.
RETURNED = f"{POOL}::test_what_is_kept_is_returned_before_an_allocation_fails"
WITH_POOL = [[POOL, f"--deselect={RETURNED}"]]
# Memory that pools keep for later would hide what happens to it. A guard page ends a
# program as it does without the sanitizer.
CHECKED = {
    "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "PYTHONMALLOC": "malloc",
    "PLUGRAD_PLUGINS": "cpu",
    "OMP_NUM_THREADS": "1",
}

OVERRUN = """
import numpy as np
from plugrad_cpu.native import native
x = np.ones(4, np.float32)
native.get("softmax_f32")(x, x.copy(), 1, 5, 1, 0)
"""


def build() -> None:
    """Compile into a folder of its own: programs go on with the plain library."""
    command = [sys.executable, "setup.py", "--quiet", "build"]
    command += ["--build-lib", str(BUILT / "lib"), "--build-temp", str(BUILT / "temp")]
    env = os.environ | {"PLUGRAD_CPU_SANITIZE": "1"}
    subprocess.run(command, cwd=CPU, env=env, check=True)


def runtimes() -> str:
    """Return the paths of what has to be loaded before Python is."""
    paths = []
    for name in ("libasan.so", "libubsan.so"):
        command = ["gcc", f"-print-file-name={name}"]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        if not os.path.isabs(path := found.stdout.strip()):
            sys.exit(f"gcc has no {name}: install its package, such as libasan8")
        paths.append(path)
    return " ".join(paths)


def environment() -> dict[str, str]:
    """Return the environment in which Python loads what was built."""
    path = os.pathsep.join([str(BUILT / "lib"), os.environ.get("PYTHONPATH", "")])
    return os.environ | CHECKED | {"LD_PRELOAD": runtimes(), "PYTHONPATH": path}


def verify() -> None:
    """Make sure that a kernel that reads too far is found."""
    command = [sys.executable, "-c", OVERRUN]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if "heap-buffer-overflow" not in done.stderr or "softmax_f32" not in done.stderr:
        sys.exit(f"the sanitizer does not see the kernels: {done.stderr}")


def pytest(arguments: list[str], **variables: str) -> int:
    """Run tests with what was built; return how they end."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *arguments]
    command += ["--plugrad-backend", "cpu"]
    print(*command[1:], flush=True)
    return subprocess.run(command, cwd=ROOT, env=environment() | variables).returncode


def main(arguments: list[str]) -> int:
    """Run everything, also behind a failure; return 1 if something has failed."""
    build()
    verify()
    codes = [
        pytest(tests, PLUGRAD_CPU_POOL=os.environ.get("PLUGRAD_CPU_POOL", "0"))
        for tests in ([arguments] if arguments else TESTS)
    ]
    codes += [pytest(tests) for tests in ([] if arguments else WITH_POOL)]
    return max(map(bool, codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
