"""Data-parallel training, checkpoints, ZeRO-1, and jobs in which a rank fails."""

import importlib.util
import os
import re
import time
from pathlib import Path

import numpy as np
import pytest

from .launch import launch, needs_mpi

pytestmark = needs_mpi
TRAINEES = Path(__file__).with_name("trainees.py")
needs_train = pytest.mark.skipif(
    importlib.util.find_spec("plugrad_train") is None,
    reason="needs plugrad-train: plugins/train is not installed",
)


def train(ranks, *command, **options):
    return launch(ranks, "-m", "tests.mpi.trainees", *command, **options)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", ["gradients", "other_dtypes", "tied", "zero"])
def test_ranks_give_the_results_of_one_process(name, ranks):
    done = train(ranks, name)
    assert done.returncode == 0, done.stderr


def test_only_the_first_rank_writes_and_prints(tmp_path):
    done = train(2, "checkpoints", tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [*(f"[rank {n} of 2] {word}" for n in (0, 1) for word in ("b", "each"))]
    assert sorted(done.stdout.splitlines()) == [*lines, "once 1"]


# --- a rank fails ------------------------------------------------------------------

FAILURES = {
    "raises": ["rank 1 of 2 ends the job: KeyError: 'no such image'"],
    "hangs": [
        "rank 0 of 2 waits in mpi.AllReduce(float32 (2,), op='sum') for",
        "it has waited for 2 s (PLUGRAD_MPI_TIMEOUT), so the job ends",
        "rank 1 of 2 is in no collective, at ",
        "its last was barrier",
    ],
    "ends": ["no answer from rank 1: it has ended or is stopped"],
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_rank_that_fails_ends_the_job(how):
    start = time.monotonic()
    done = train(2, "fail", how, PLUGRAD_MPI_TIMEOUT="2")
    assert done.returncode != 0
    assert time.monotonic() - start < 30
    assert "not reached" not in done.stdout
    for message in FAILURES[how]:
        assert message in done.stderr, done.stderr
    assert "ended first" not in done.stderr  # only killed ranks are reported like this


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux's pidfd_open")
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_rank_that_is_killed_is_named(rank):
    """mpiexec kills the other ranks in the same way, a few milliseconds later."""
    start = time.monotonic()
    done = train(3, "fail", "is killed", rank, PLUGRAD_MPI_DEBUG="1")
    assert done.returncode != 0
    assert time.monotonic() - start < 30
    assert "not reached" not in done.stdout
    pids = dict(re.findall(r"rank (\d) of 3 is process (\d+) on", done.stderr))
    [(named, pid, cause)] = re.findall(
        r"rank (\d) of 3 \(process (\d+) on .*\) ended first, at .*: (killed .*)",
        done.stderr,
    )
    assert (named, pid) == (str(rank), pids[str(rank)])
    assert "SIGKILL" in cause


def test_a_rank_that_ends_before_mpi_starts_ends_the_job():
    done = train(2, "ends_early", PLUGRAD_MPI_TIMEOUT="3", timeout=60)
    assert done.returncode != 0
    assert "in _wait_for_all_ranks_to_start" in done.stderr, done.stderr
    assert "ValueError: no such file" in done.stderr


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("differs", "rank 1: mpi.AllGather(float32 (2,)) at"),
        ("has another shape", "rank 1: mpi.AllReduce(float32 (3,), op='sum') at"),
    ],
)
def test_debug_mode_tells_where_ranks_differ(how, what):
    done = train(2, "fail", how, PLUGRAD_MPI_DEBUG="1")
    assert done.returncode != 0
    assert "DivergenceError: plugrad_mpi: the ranks differ in collective 2" in (
        done.stderr
    )
    assert "rank 0: mpi.AllReduce(float32 (2,), op='sum') at" in done.stderr
    assert what in done.stderr, done.stderr
    assert "trainees.py:" in done.stderr.partition(what)[2].splitlines()[0]


@pytest.mark.parametrize("how", ["jit", "a thread", "jit in a thread"])
def test_debug_mode_names_the_line_of_the_program(how):
    """The line is not one of generated code or of another thread."""
    done = train(2, "differs_in_the_last_call", how, PLUGRAD_MPI_DEBUG="1")
    assert "thread" in how or done.returncode != 0
    found = re.findall(
        r"(rank \d): mpi.* at (\S*trainees.py):(\d+)$", done.stderr, re.M
    )
    source = TRAINEES.read_text().splitlines()
    lines = {rank: source[int(number) - 1] for rank, _, number in found}
    assert {rank: line.partition("# ")[2] for rank, line in lines.items()} == {
        "rank 0": "what rank 0 does",
        "rank 1": "what rank 1 does",
    }, done.stderr


INVALID_TIMEOUTS = ("0", "-1", "nan", "-inf", "ten", "", "5s", "1,5", "True")


@pytest.mark.parametrize("text", INVALID_TIMEOUTS)
def test_an_invalid_timeout_is_refused(text):
    code = "import plugrad_mpi as m; m.size()"
    done = launch(0, "-c", code, PLUGRAD_MPI_TIMEOUT=text)
    message = f"ValueError: plugrad_mpi: PLUGRAD_MPI_TIMEOUT={text}: use a number of "
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(message), done.stderr


@pytest.mark.parametrize("text", ["inf", "Infinity", "1e300", "1e10", "60.5", " 60 "])
@pytest.mark.parametrize("ranks", [0, 2])
def test_a_timeout_may_be_any_number_above_0(text, ranks):
    code = "import plugrad_mpi as m; m.barrier(); print(m.all_reduce([1.0]).item())"
    done = launch(ranks, "-c", code, PLUGRAD_MPI_TIMEOUT=text)
    assert (done.returncode, done.stderr) == (0, "")
    # mpiexec may put the newline of one rank after the number of the other.
    found = done.stdout.replace("\n", "")
    assert found == str(float(max(1, ranks))) * max(1, ranks)


def test_a_tiny_timeout_ends_the_start():
    code = "import plugrad_mpi as m; print(m.size())"
    done = launch(0, "-c", code, PLUGRAD_MPI_TIMEOUT="1e-300")
    assert done.stdout == ""
    assert done.stderr.startswith("Timeout (0:00:00.001000)!"), done.stderr


# --- the example -------------------------------------------------------------------


@pytest.fixture(scope="module")
def weights_of_one_process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    done = train(0, "digits", folder)
    assert done.returncode == 0, done.stderr
    return np.load(folder / "weights.npz")


def check_equal(folder, wanted):
    found = np.load(folder / "weights.npz")
    assert found["accuracy"] == wanted["accuracy"] > 0.9
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], atol=2e-3)


@needs_train
@pytest.mark.parametrize(("ranks", "zero"), [(2, ()), (4, ()), (2, ("zero",))])
def test_the_example_learns_what_one_process_learns(
    weights_of_one_process, tmp_path, ranks, zero
):
    done = train(ranks, "digits", tmp_path, *zero)
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()] == [*"1234"]
    check_equal(tmp_path, weights_of_one_process)


@needs_train
def test_fit_gives_the_same_results_on_two_ranks_as_on_one(tmp_path):
    one, two = (train(ranks, "fit", tmp_path) for ranks in (0, 2))
    assert one.returncode == two.returncode == 0, one.stderr + two.stderr
    (wanted, numbers), (found, others) = (x.stdout.splitlines() for x in (one, two))
    assert found == wanted
    wanted, found = ([float(x) for x in line.split()] for line in (numbers, others))
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


@needs_train
@pytest.mark.parametrize(("ranks", "zero"), [(4, ()), (1, ("zero",))])
def test_a_killed_job_resumes_with_another_number_of_ranks(
    weights_of_one_process, tmp_path, ranks, zero
):
    killed = train(2, "digits", tmp_path, "kill", *zero)
    assert killed.returncode != 0
    assert len(killed.stdout.splitlines()) >= 2
    done = train(ranks, "digits", tmp_path, "resume", *zero)
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()] == [*"34"]
    check_equal(tmp_path, weights_of_one_process)
