"""The share of tests that a commit runs: those of the kit on a backend, and slow ones.

They are dealt into as many shares as ``SHARES`` says, by their names. A commit runs the
share of its number, so that as many commits in a row run all.
"""

import subprocess
import zlib
from pathlib import Path

# opencl compiles each kernel, which takes a fifth of a second.
SHARES = {"primitives": 6, "wasm": 6, "opencl": 24, "slow": 6}
# Files whose tests of these backends are dealt as those of the kit are.
DEALT = [
    "consumers/test_scipy",
    "core/jit/test_compilers",
    "core/jit/test_random_state",
    "docs/test_docstrings",
    "onnx/test_nodes",
    "soak/test_abuse",
    "soak/test_soak",
    "train/test_optimizers",
]
# Files of which most tests start processes, or run for long.
SLOW = [
    "benchmarks/test_growth",
    "benchmarks/test_language_model",
    "benchmarks/test_mpi",
    "benchmarks/test_workloads",
    "conformance_kit/test_device_faults",
    "conformance_kit/test_faults",
    "conformance_kit/test_few_dtypes",
    "conformance_kit/test_killed",
    "conformance_kit/test_options",
    "conformance_kit/test_skips",
    "docs/test_pages",
    "examples/test_digits",
    "examples/test_gallery",
    "examples/test_guide",
    "examples/test_look_inside",
    "examples/test_profile_step",
    "examples/test_training",
    "llvm/test_elementwise",
    "llvm/test_rows",
    "mpi/test_collectives",
    "mpi/test_training",
    "native/test_native",
    "opencl/test_custom",
    "opencl/test_environment",
    "opencl/test_regions",
    "opencl/test_runtime",
    "opencl/test_styles",
    "plugins/test_commands",
    "plugins/test_cpu_moves",
    "plugins/test_doctor",
    "plugins/test_generators",
    "plugins/test_life_cycle",
    "plugins/test_metadata",
    "plugins/test_misbehaviour",
    "plugins/test_wheels",
    "plugrad_conformance/backend/test_leaks",
    "plugrad_conformance/ops/test_random_inputs",
    "plugrad_conformance/ops/test_resize",
    "tools/test_explain",
    "tools/test_processes",
    "wasm/test_build",
    "wasm/test_dense",
    "wasm/test_guard",
    "wasm/test_heap",
    "wasm/test_interrupts",
    "wasm/test_regions",
    "wasm/test_runtime",
    "wasm/test_sandbox_guests",
]


def number_of_commit(folder: Path) -> int:
    """Return how many commits lead to the one that is checked out; 0 without git.

    In a shallow clone, whose commits cannot be counted, it is made of the hash.
    """
    if _git(folder, "rev-parse", "--is-shallow-repository") == "false":
        return int(_git(folder, "rev-list", "--count", "HEAD") or 0)
    return int(_git(folder, "rev-parse", "HEAD")[:8] or "0", 16)


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def runs(group: str | None, name: str, number: int) -> bool:
    """Tell whether a test of a backend, or a slow one, is in the share of a number."""
    count = SHARES.get(group or "", 1)
    return zlib.crc32(name.encode()) % count == number % count


def described(number: int) -> str:
    """Return the shares, for the header of pytest."""
    of = {"slow": "of slow tests"}
    shares = (
        f"{number % count + 1}/{count} {of.get(group, f'on {group}')}"
        for group, count in SHARES.items()
    )
    return f"shares: {', '.join(shares)} (again: --share {number})"
