"""The fixed selection of tests that run without ``--all``.

On cpu, each conformance test runs with half of its rows. On another backend, it runs
with a few rows: those that differ most from each other. One test function has a row for
each kernel, and runs with all of them. A few of the slow tests run on every backend.

opencl compiles a kernel for each op, shape and dtype; each compilation takes between a
tenth of a second and several seconds. On webgpu, each call takes long if the adapter is
a CPU. Therefore, on these two only a few test functions of each folder run.
"""

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

# A function runs with ROWS rows, or with one in ONE_IN rows if that is more. opencl
# and webgpu run the fewest: opencl takes a fifth of a second to compile each kernel.
ROWS = {"cpu": 8, "primitives": 2, "wasm": 2, "opencl": 1, "webgpu": 1}
ONE_IN = {"cpu": 2, "primitives": 24, "wasm": 24, "opencl": 96, "webgpu": 96}
# The function of the conformance kit that runs with all rows, one for each kernel.
ALL_ROWS_TEST = "backend/test_kernels.py::test_results_are_as_the_contract_says"
# On these backends, one in DEVICE_EVERY tests of a folder runs; see ``device_of``.
DEVICES = ("opencl", "webgpu")
DEVICE_EVERY = 24
# Folders whose tests never run on them: they use ops that other tests cover.
NOT_ON_DEVICES = [
    "attribution",
    "conformance_kit",
    "consumers",
    "examples",
    "soak",
    "tfjs",
    "tools",
    "train",
]
# In tests/core, one in PYTHON_EVERY tests of a file runs without the C accelerators.
PYTHON_EVERY = 4
# Our test files that run with a few rows, like those of the conformance kit.
SAMPLED = [
    "attribution/test_attribution",
    "attribution/test_deep_lift",
    "attribution/test_methods",
    "attribution/test_rules",
    "consumers/test_scipy",
    "consumers/test_sklearn",
    "core/jit/test_changes",
    "core/jit/test_compilers",
    "core/jit/test_random_state",
    "docs/test_docstrings",
    "onnx/test_nodes",
    "soak/test_abuse",
    "train/test_optimizers",
]
# Slow files and tests, most of which start processes: one test in ``SLOW_EVERY`` runs.
SLOW_EVERY = 12
SLOW = [
    "benchmarks/test_compare",
    "benchmarks/test_gpu",
    "benchmarks/test_language_model",
    "benchmarks/test_mpi",
    "benchmarks/test_workloads",
    "conformance_kit/test_device_faults",
    "conformance_kit/test_killed",
    "conformance_kit/test_options",
    "conformance_kit/test_skips",
    "core/engine/test_threads",
    "core/jit/test_changes::test_patterns_can_be_repeated",
    "core/jit/test_donation::test_what_shares_the_memory_keeps_its_values",
    "core/ops/test_tails::test_derivatives_within_8_ulp",
    "core/ops/test_tails::test_values_down_to_the_smallest_number",
    "core/registry/test_prepared::test_a_form_goes_with_its_array",
    "core/registry/test_prepared::test_a_form_is_kept_from_the_second_call_on",
    "core/registry/test_prepared::test_the_form_of_a_temporary_result_is_not_kept",
    "docs/test_pages",
    "examples/test_digits",
    "examples/test_gallery",
    "examples/test_guide",
    "examples/test_look_inside",
    "examples/test_profile_step",
    "examples/test_training",
    "fuzz/test_files",
    "gguf/test_real",
    "llvm/test_elementwise",
    "llvm/test_programs",
    "llvm/test_rows",
    "mpi/test_collectives",
    "mpi/test_training",
    "native/test_native",
    "onnx/test_budget",
    "onnx/test_networks::test_quantized_models_answer_integers_exactly",
    "onnx/test_patterns::test_no_pattern_runs_for_ever",
    "onnx/test_shipped",
    "opencl/test_custom",
    "opencl/test_environment",
    "opencl/test_finalizers::test_a_collected_cycle_runs_no_python_code",
    "opencl/test_folds",
    "opencl/test_memory",
    "opencl/test_moves",
    "opencl/test_regions",
    "opencl/test_row_regions::test_broadcasts",
    "opencl/test_row_regions::test_gradients",
    "opencl/test_row_regions::test_masks",
    "opencl/test_row_regions::test_prologue_and_epilogue",
    "opencl/test_rows::test_values_in_the_style_of_the_device",
    "opencl/test_runtime",
    "opencl/test_styles",
    "opencl/test_tiles::test_batches_and_dtypes",
    "opencl/test_tiles::test_products_of_few_rows",
    "opencl/test_walk",
    "plugins/test_commands",
    "plugins/test_cpu_moves",
    "plugins/test_cpu_native",
    "plugins/test_cpu_pool",
    "plugins/test_cpu_products",
    "plugins/test_cpu_regions",
    "plugins/test_doctor",
    "plugins/test_entry_point_modules",
    "plugins/test_generators",
    "plugins/test_life_cycle",
    "plugins/test_metadata",
    "plugins/test_misbehaviour",
    "plugins/test_wheels",
    "plugrad_conformance/backend/test_device_memory",
    "plugrad_conformance/backend/test_leaks",
    "plugrad_conformance/backend/test_processes",
    "plugrad_conformance/ops/test_random_inputs",
    "plugrad_conformance/ops/test_resize",
    "soak/test_soak",
    "tfjs/test_errors",
    "tools/test_explain",
    "tools/test_processes",
    "train/test_checkpoints",
    "wasm/test_build",
    "wasm/test_dense",
    "wasm/test_guard",
    "wasm/test_heap",
    "wasm/test_interrupts",
    "wasm/test_regions",
    "wasm/test_runtime",
    "wasm/test_sandbox_guests",
    "webgpu/test_gpu_style",
]
# Files in which each test takes seconds: one test in ``VERY_SLOW_EVERY`` runs.
VERY_SLOW_EVERY = 24
VERY_SLOW = ["conformance_kit/test_faults", "conformance_kit/test_few_dtypes"]
# With ``--few``, one test in ``FEW_EVERY`` of a file runs.
FEW_EVERY = 72
# Long tests, which run only with ``--all``.
LEFT_OUT = [
    "benchmarks/test_gpu::test_a_quick_run_of_all_parts",
    "benchmarks/test_growth::test_every_workload_grows",
    "benchmarks/test_jit_calls::test_against_a_checkout",
    "benchmarks/test_jit_calls::test_it_has_a_row_for_each_case",
    "core/jit/test_changes::test_no_pattern_is_silent",
    "docs/test_excerpts::test_how_a_family_of_wasm_is_written",
    "examples/test_gallery::test_the_curves_of_all_backends_are_the_same",
    "opencl/test_row_regions::test_this_file_with_the_kernels_for_gpus",
    "opencl/test_rows::test_values_and_launches_with_the_kernels_for_gpus",
    "opencl/test_tiles::test_convolutions",
    "opencl/test_tiles::test_products_of_each_tile",
    "plugins/test_generators::test_a_package_passes_its_own_tests",
    "plugins/test_tricks::test_the_processor_of_pocl",
    "wasm/test_build::test_a_build_gives_the_same_bytes_again",
    "wasm/test_build::test_debug_builds_check_bounds",
]


def most_different(rows: Sequence[Iterable[Any]], count: int) -> list[int]:
    """Return the indices of ``count`` rows that are as different as possible.

    Rows are chosen greedily: each one has the largest number of entries that no chosen
    row has. The first of equally good rows wins, so the first row may be among them.
    """
    remaining = {i: {*enumerate(row)} for i, row in enumerate(rows)}
    chosen = []
    while remaining and len(chosen) < count:
        best = max(remaining, key=lambda i: len(remaining[i]))
        entries = remaining.pop(best)
        chosen.append(best)
        for others in remaining.values():
            others -= entries
    return sorted(chosen)


def sample(backend: str, function: str, rows: Sequence[Iterable[Any]]) -> list[int]:
    """Return the indices of the rows with which a function runs on a backend."""
    if backend not in ROWS or function.endswith(ALL_ROWS_TEST):
        return [*range(len(rows))]
    count = max(ROWS[backend], len(rows) // ONE_IN[backend])
    if backend == "cpu":  # any half is varied, and the best half takes long to find
        return sorted(sorted(range(len(rows)), key=lambda i: checksum(rows[i]))[:count])
    return most_different(rows, count)


def checksum(row: Iterable[Any]) -> int:
    """Return a number that, unlike Python's hash, is the same in each process."""
    return zlib.crc32(repr([*row]).encode())


def device_of(test: str) -> str | None:
    """Return on which of ``DEVICES`` a test runs that also runs on other backends.

    For ``ALL_ROWS_TEST``, which has a row for each kernel and always runs whole, the
    answer is None.

    Args:
        test: The id, as in ``tests/train/test_loop.py::test_a_line[opencl-2]``.

    """
    function, _, parameters = test.partition("[")
    words = re.split(r"\W+", parameters)
    found = next((name for name in DEVICES if name in words), None)
    own = found is not None and f"/{found}/" in function
    return None if own or function.endswith(ALL_ROWS_TEST) else found
