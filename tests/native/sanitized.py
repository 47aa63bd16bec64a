"""Run tests of plugrad-cpu with all its C code under AddressSanitizer and UBSan.

``python -m tests.native.sanitized`` compiles plugrad-cpu into ``plugins/cpu/build`` and
runs our tests of it and, from the conformance tests, one row of each op and of each
gradient. If there are arguments, they are passed to pytest in place of these files.
The script runs on Linux, and needs ziglang and gcc's AddressSanitizer (``libasan``).
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CPU = ROOT / "plugins/cpu"
BUILD_FOLDER = CPU / "build/sanitized"
KIT = "tests/conformance/src/plugrad_conformance/ops"
TESTS = [
    ["tests/native", "tests/plugins/test_cpu_native.py"],
    [f"tests/plugins/test_cpu_{name}.py" for name in ("regions", "rows", "single")],
    [f"{KIT}/test_random_inputs.py", f"{KIT}/test_gradients_everywhere.py"],
]
POOL = "tests/plugins/test_cpu_pool.py"
# The sanitizer keeps freed memory for a while, so none returns to the system.
NEEDS_FREED_MEMORY = f"{POOL}::test_pooled_memory_is_freed_before_an_allocation_fails"
WITH_POOL = [[POOL, f"--deselect={NEEDS_FREED_MEMORY}"]]
# Python's memory pool would hide accesses to freed memory. With handle_segv=0, access
# to a guard page ends the program as it does without the sanitizer.
VARIABLES = {
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
    """Compile into a separate folder; programs keep using the plain library."""
    command = [sys.executable, "setup.py", "--quiet", "build"]
    command += [
        "--build-lib",
        str(BUILD_FOLDER / "lib"),
        "--build-temp",
        str(BUILD_FOLDER / "temp"),
    ]
    env = os.environ | {"PLUGRAD_CPU_SANITIZE": "1"}
    subprocess.run(command, cwd=CPU, env=env, check=True)


def runtimes() -> str:
    """Return the paths of the libraries that must be loaded before Python."""
    paths = []
    for name in ("libasan.so", "libubsan.so"):
        command = ["gcc", f"-print-file-name={name}"]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        if not os.path.isabs(path := found.stdout.strip()):
            sys.exit(f"gcc has no {name}: install its package, such as libasan8")
        paths.append(path)
    return " ".join(paths)


def environment() -> dict[str, str]:
    """Return environment variables with which Python loads the sanitized build."""
    path = os.pathsep.join(
        [str(BUILD_FOLDER / "lib"), os.environ.get("PYTHONPATH", "")]
    )
    return os.environ | VARIABLES | {"LD_PRELOAD": runtimes(), "PYTHONPATH": path}


def verify() -> None:
    """Exit if the sanitizer does not detect a kernel that reads too far."""
    command = [sys.executable, "-c", OVERRUN]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if "heap-buffer-overflow" not in done.stderr or "softmax_f32" not in done.stderr:
        sys.exit(f"the sanitizer does not see the kernels: {done.stderr}")


def pytest(arguments: list[str], **variables: str) -> int:
    """Run pytest with the sanitized build, and return its exit status."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *arguments]
    command += ["--plugrad-backend", "cpu"]
    print(*command[1:], flush=True)
    return subprocess.run(command, cwd=ROOT, env=environment() | variables).returncode


def main(arguments: list[str]) -> int:
    """Run everything, even after a failure; return 1 if something has failed."""
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
