"""The collectives, their gradients and their errors, on one rank and on several."""

import pytest

from .launch import launch, needs_mpi

pytestmark = needs_mpi
ALSO_ON_FOUR_RANKS = ("collectives", "under_jit", "under_vmap")
PROGRAMS = (
    "a_backend_without_host_memory",
    "collectives",
    "decompositions",
    "dtypes",
    "equal_ranks_share_the_gradient_of_the_maximum",
    "messages_advance_while_a_rank_does_something_else",
    "nothing_is_copied_on_cpu",
    "under_jit",
    "under_vmap",
)


@pytest.mark.parametrize(
    ("name", "ranks"),
    [*[(name, 2) for name in PROGRAMS], *[(name, 4) for name in ALSO_ON_FOUR_RANKS]],
)
def test_ranks_agree(name, ranks):
    done = launch(ranks, "-m", "tests.mpi.ranks", name)
    assert done.returncode == 0, done.stderr


ONE_PROCESS = """
import plugrad as pg
import plugrad_mpi as mpi

assert (mpi.rank(), mpi.size()) == (0, 1)
x = pg.asarray([1.0, 2.0])
for f in (mpi.all_reduce, mpi.all_gather, mpi.reduce_scatter, mpi.broadcast):
    assert f(x).tolist() == [1.0, 2.0], f
    assert pg.grad(lambda x: pg.sum(f(x) * f(x)))(x).tolist() == [2.0, 4.0], f
for wrong in (
    lambda: mpi.all_reduce(x, "min"),
    lambda: mpi.all_reduce([1, 2], "mean"),
    lambda: mpi.all_gather(1.0),
    lambda: mpi.reduce_scatter(1.0),
    lambda: mpi.broadcast(x, root=1),
    lambda: mpi.send(x, dest=-1),
    lambda: mpi.receive(x, source=2),
    lambda: mpi.all_reduce([True]),
):
    try:
        wrong()
    except (TypeError, ValueError) as error:
        print(error)
"""
ERRORS = """\
all_reduce: op 'min' must be 'sum', 'mean' or 'max'
all_reduce: the mean of int32 is not an integer; convert x with astype, or use \
op='sum'
all_gather: x must have an axis 0, got a scalar; reshape it
reduce_scatter: x must have an axis 0, got a scalar; reshape it
broadcast: root 1 must be a rank: 0..0
send: dest -1 must be a rank: 0..0
receive: source 2 must be a rank: 0..0
mpi.AllReduce: 'x' must be number, got bool
"""


def test_one_process_needs_no_mpiexec():
    done = launch(0, "-c", ONE_PROCESS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ERRORS


UNUSED = """
import sys
import plugrad as pg

pg.set_backend("cpu")
assert pg.get_kernel("mpi.AllReduce", "cpu") is not None
assert not {"mpi4py", "plugrad_mpi.parallel", "plugrad_mpi.zero"} & {*sys.modules}
import plugrad_mpi as mpi
assert "mpi4py" not in sys.modules
assert callable(mpi.sharded) and "mpi4py" not in sys.modules
"""


def test_programs_that_use_no_collectives_do_not_start_mpi():
    done = launch(0, "-c", UNUSED)
    assert done.returncode == 0, done.stderr
