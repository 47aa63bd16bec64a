"""Fixtures for the tests of ``jit``."""

import os
import sys

import plugrad as pg
import pytest
from plugrad.plugin import runtime
from plugrad_conformance.toy import toy as toy_backend

# Tests that need replays: with ``check``, each call runs the function.
TESTS_OF_REPLAYS = {
    "test_a_call_is_replayed_again_once_the_change_has_ended",
    "test_a_failed_call_that_draws_assigns_nothing",
    "test_a_function_is_recorded_for_each_precision",
    "test_a_kernel_that_declines_later",
    "test_a_region_that_declines_frees_what_no_kernel_reads",
    "test_a_step_that_declines_later_runs_at_its_precision",
    "test_an_error_in_the_middle",
    "test_a_replay_writes_into_the_array",
    "test_at_most_64_recordings_are_stored",
    "test_calls_are_replayed_after_a_profiler",
    "test_debug_checks_replays",
    "test_kernels_of_a_region_that_declines_are_looked_up_once",
    "test_only_the_declared_state_is_compared",
    "test_profile_shows_regions",
    "test_python_does_not_run_again",
    "test_the_precision_of_the_process_is_compared_too",
    "test_the_state_of_frozen_packages_is_not_compared",
    "test_the_memory_is_free_before_the_next_kernel",
    "test_the_third_call_is_the_first_that_is_replayed",
}


@pytest.fixture(autouse=True)
def skip_without_replays(request):
    """Skip tests that need replays if ``PLUGRAD_JIT_CHECK`` is set."""
    name = request.node.originalname
    is_random = name == "test_programs" and "random_state" in request.node.nodeid
    if os.environ.get("PLUGRAD_JIT_CHECK") and (name in TESTS_OF_REPLAYS or is_random):
        pytest.skip("it needs replays, and with check each call runs f")


@pytest.fixture(autouse=True)
def on_cpu(own_compilers):
    """Run on cpu."""
    with pg.use_backend("cpu"):
        yield


@pytest.fixture
def toy():
    """Yield the arrays of a backend without softmax."""
    with toy_backend(without=["Softmax"], dtypes=runtime("cpu").dtypes) as arrays:
        runtime("toy")  # opens the backend, which registers its gradients
        yield arrays


@pytest.fixture(params=[False, True], ids=["replay", "check"])
def wrap(request):
    """Return ``jit``, with and without ``check``."""
    return lambda f: pg.jit(f, check=request.param)


@pytest.fixture
def hooks():
    """Restore the hooks of tools that run the tests, such as coverage."""
    before = sys.getprofile(), sys.gettrace()
    yield
    sys.setprofile(before[0])
    sys.settrace(before[1])
