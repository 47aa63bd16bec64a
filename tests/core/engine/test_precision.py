"""``precision``: which setting is in force, and where."""

import asyncio
import contextlib
import contextvars
import threading

import numpy as np
import plugrad as pg
import pytest
from plugrad import plugin

X = pg.asarray(np.arange(12, dtype=np.float32).reshape(2, 2, 3))
W = pg.asarray(np.ones((3, 3), np.float32))


@pytest.fixture
def seen():
    """Yield the list of the precisions that matrix products on cpu see, in order."""
    found = []
    multiply = pg.get_kernel("BatchMatMul", "cpu")

    def multiply_and_note(a, b, **attrs):
        found.append(pg.get_precision())
        return multiply(a, b, **attrs)

    with pg.use_backend("cpu"):
        pg.register_kernel("BatchMatMul", "cpu", multiply_and_note)
        yield found
        pg.unregister_kernel("BatchMatMul", "cpu")


@contextlib.contextmanager
def process_precision(name):
    """Set the precision of the process inside the block."""
    pg.set_precision(name)
    try:
        yield
    finally:
        pg.set_precision("float32")


def precision_in_new_thread():
    """Return the precision in a thread that inherits no context."""
    found = []
    run = contextvars.Context().run
    thread = threading.Thread(target=run, args=(lambda: found.append(precision()),))
    thread.start()
    thread.join()
    return found[0]


precision = pg.get_precision


# --- which precision is in force -------------------------------------------------


def test_the_default_is_float32():
    assert precision() == precision_in_new_thread() == "float32"


def test_blocks_nest():
    with pg.precision("tf32"):
        assert precision() == "tf32"
        with pg.precision("float32"):
            assert precision() == "float32"
        assert precision() == "tf32"
        with pytest.raises(ZeroDivisionError), pg.precision("float32"):
            raise ZeroDivisionError
        assert precision() == "tf32"
    assert precision() == "float32"


def test_a_decorator_sets_the_precision_while_the_function_runs():
    @pg.precision("tf32")
    def f():
        return precision()

    assert (f(), precision()) == ("tf32", "float32")


def test_set_precision_is_for_all_threads_and_blocks_take_precedence():
    with process_precision("tf32"):
        assert precision() == precision_in_new_thread() == "tf32"
        with pg.precision("float32"):
            assert (precision(), precision_in_new_thread()) == ("float32", "tf32")
            pg.set_precision("tf32")
            assert precision() == "float32"
        assert precision() == "tf32"
    assert precision() == precision_in_new_thread() == "float32"


def test_a_block_affects_only_its_thread_and_task():
    async def one(name, both_are_in):
        with pg.precision(name):
            await both_are_in.wait()
            return precision()

    async def two():
        both_are_in = asyncio.Barrier(2)
        return await asyncio.gather(
            one("tf32", both_are_in), one("float32", both_are_in)
        )

    assert asyncio.run(two()) == ["tf32", "float32"]
    with pg.precision("tf32"):
        assert precision_in_new_thread() == "float32"


def test_outside_uses_the_precision_of_the_process():
    with pg.precision("tf32"):
        with pg.outside():
            assert precision() == "float32"
        assert precision() == "tf32"


def test_other_scopes_keep_the_precision():
    with pg.precision("tf32"), pg.use_backend("cpu"), pg.tidy():
        assert precision() == "tf32"
        with pg.override_gradient("Relu", x=lambda dy: dy):
            assert precision() == "tf32"


# --- misuse ----------------------------------------------------------------------


@pytest.mark.parametrize("set_it", [pg.precision, pg.set_precision])
@pytest.mark.parametrize("value", ["high", "TF32", "bfloat16", "", None, 3, np.float32])
def test_an_error_names_the_allowed_values(set_it, value):
    with pytest.raises(
        ValueError, match=r"precision: name .*: use 'float32' or 'tf32'"
    ):
        set_it(value)
    assert precision() == "float32"


def test_a_scope_that_is_never_entered_warns():
    with pytest.warns(RuntimeWarning, match="precision.* changes nothing by itself"):
        pg.precision("tf32")


# --- what kernels see ------------------------------------------------------------


def test_kernels_see_the_precision_of_their_block(seen):
    pg.matmul(W, W)
    with pg.precision("tf32"):
        pg.matmul(W, W)
    pg.matmul(W, W)
    assert seen == ["float32", "tf32", "float32"]


def test_plugins_and_users_call_the_same_get_precision(seen):
    assert plugin.get_precision is pg.get_precision


def test_kernels_under_vmap_see_the_precision(seen):
    def inside(x):
        with pg.precision("tf32"):
            return pg.matmul(x, W)

    pg.vmap(inside)(X)
    pg.vmap(pg.vmap(inside))(X[None])
    with pg.precision("tf32"):
        pg.vmap(lambda x: pg.matmul(x, W))(X)
    assert seen == ["tf32", "tf32", "tf32"]
    with pg.precision("tf32"):
        pg.vmap(pg.precision("float32")(lambda x: pg.matmul(x, W)))(X)
    assert seen[3:] == ["float32"]


def test_backward_products_use_the_precision_in_force_during_the_backward_pass(seen):
    @pg.precision("tf32")
    def forward(x):
        return pg.matmul(x, W)

    pg.grad(lambda x: pg.sum(forward(x)))(X)
    assert [seen[0], *{*seen[1:]}] == ["tf32", "float32"]
    seen.clear()
    with pg.precision("tf32"):
        _, pullback = pg.vjp(lambda x: pg.matmul(x, W), X)
        pg.grad(lambda x: pg.sum(pg.matmul(x, W)))(X)
    assert {*seen} == {"tf32"}
    seen.clear()
    pullback(X)
    assert {*seen} == {"float32"}


def test_products_of_a_decomposition_see_the_precision(seen):
    assert pg.get_kernel("Pinv", "cpu") is None
    with pg.precision("tf32"):
        pg.linalg.pinv(W)
    assert {*seen} == {"tf32"}
