"""``outside``: no scope around the block reaches into it, and it leaves nothing."""

import asyncio
import contextvars
import re
import threading

import numpy as np
import plugrad as pg
import pytest
from plugrad_conformance.toy import toy

X = pg.asarray([1.0, 3.0])


def slope():
    """Return the slope of relu at 1."""
    return pg.grad(pg.relu)(1.0).item()


def scale(factor):
    """Return a scope in which the slope of relu is ``factor``."""
    return pg.override_gradient("Relu", x=lambda dy: dy * factor)


# --- what is around it -----------------------------------------------------------


def test_backends_and_gradients_of_blocks_around_are_not_in_force():
    default = contextvars.Context().run(pg.get_backend)
    with toy(), scale(3.0), pg.use_backend("toy"):
        with pg.outside():
            assert (pg.get_backend(), slope()) == (default, 1.0)
            assert (X + 1).backend == default
            with scale(5.0), pg.use_backend("toy"):
                assert (pg.get_backend(), slope()) == ("toy", 5.0)
        assert (pg.get_backend(), slope()) == ("toy", 3.0)


def test_what_is_computed_inside_is_a_constant_for_a_tape(backend):
    def f(x):
        with pg.outside():
            size = pg.sum(pg.abs(x))
        return pg.sum(x / size)

    assert pg.grad(f)(X).tolist() == [0.25, 0.25]
    assert pg.grad(lambda x: pg.sum(pg.grad(f)(x) * x))(X).tolist() == [0.25, 0.25]
    v = pg.Variable(X)
    assert pg.variable_grads(lambda: f(v))[1][v].tolist() == [0.25, 0.25]


def test_a_gradient_inside_is_that_of_a_program_of_its_own(backend):
    def f(x):
        with pg.outside():
            inner = pg.grad(lambda y: pg.sum(y * y * y))(x)
            assert inner.tolist() == [3.0, 27.0]
        return pg.sum(x * inner)

    assert pg.grad(f)(X).tolist() == [3.0, 27.0]


def test_values_are_read_inside_as_of_a_tensor_that_nobody_differentiates(backend):
    seen = []

    def f(x):
        y = x * x
        with pg.outside():
            seen.append(y.numpy().tolist())
        return pg.sum(y)

    with pg.debug():  # which would raise
        assert pg.grad(f)(X).tolist() == [2.0, 6.0]
    assert seen == [[1.0, 9.0]]


def test_observers_around_are_not_told(backend):
    kept = []
    with pg.profile() as p, pg.tidy(), pg.debug():
        y = pg.exp(X)
        with pg.outside():
            kept.append(pg.log(X))
            with pg.profile() as inner:
                pg.sqrt(X)
        assert y.shape == (2,)
    assert [r.kernel for r in p.records] == ["Exp"]
    assert [r.kernel for r in inner.records] == ["Sqrt"]
    assert kept[0].tolist() == pytest.approx([0.0, np.log(3.0)])


def test_a_run_inside_of_a_run_has_no_part_in_it():
    found = []

    def negative(x):
        with pg.outside(), pg.profile() as inner:
            pg.exp(0.0)
        found.extend((r.kernel, r.depth) for r in inner.records)
        return -x

    pg.register_kernel("Neg", "cpu", negative)
    try:
        with pg.use_backend("cpu"), pg.profile() as p:
            pg.negative(pg.ones(2))
    finally:
        pg.unregister_kernel("Neg", "cpu")
    assert found == [("Exp", 0)]
    assert [(r.kernel, r.depth) for r in p.records if r.kernel == "Neg"] == [("Neg", 0)]
    assert "Exp" not in [r.kernel for r in p.records]


# --- vmap ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x * 2,
        lambda x: pg.sum(x),
        lambda x: pg.stack([x, x]),
        lambda x: pg.vmap(lambda y: y * x)(pg.ones(3)),
        lambda x: pg.grad(pg.sum)(x),
    ],
)
def test_a_mapped_tensor_cannot_be_used_inside(use, backend):
    def f(x):
        with pg.outside():
            return use(x)

    with pytest.raises(ValueError, match=r"vmap: this tensor .* left by outside\(\)"):
        pg.vmap(f)(pg.ones((2, 3)))
    assert pg.vmap(lambda x: x * 2)(X).tolist() == [2.0, 6.0]


def test_a_mapped_tensor_is_shown_inside_and_not_read(backend):
    def f(x):
        with pg.outside():
            shown.append(repr(x))
            x.numpy()

    shown = []
    with pytest.raises(ValueError, match="differ between the 2 examples"):
        pg.vmap(f)(X)
    assert "of 2 examples in vmap" in shown[0]


def test_what_is_computed_inside_is_the_same_for_all_examples(backend):
    cached = []

    def f(x):
        with pg.outside():
            if not cached:
                cached.append(pg.ones(()) * 2)
        return x * cached[0]

    assert pg.vmap(f)(X).tolist() == [2.0, 6.0]
    assert f(X).tolist() == [2.0, 6.0]  # it outlives the call
    assert pg.vmap(pg.grad(f))(X).tolist() == [2.0, 2.0]


# --- leaving it ------------------------------------------------------------------


def test_an_error_inside_leaves_nothing_behind(backend):
    @pg.outside()
    def failing(x):
        with pg.use_backend(backend):
            raise ZeroDivisionError(pg.relu(x))

    def f(x):
        y = pg.relu(x)
        with pytest.raises(ZeroDivisionError):
            failing(x)
        return pg.sum(y)

    with scale(3.0), pg.profile() as p:
        assert pg.grad(f)(X).tolist() == [3.0, 3.0]
        assert slope() == 3.0
    assert slope() == 1.0
    assert {r.depth for r in p.records if r.kernel == "Relu"} == {0}


def test_blocks_are_left_in_any_order():
    around = scale(2.0)
    block = pg.outside()
    within = scale(3.0)
    around.__enter__()
    block.__enter__()
    within.__enter__()
    block.__exit__(None, None, None)
    assert slope() == 3.0
    around.__exit__(None, None, None)
    assert slope() == 3.0
    within.__exit__(None, None, None)
    assert slope() == 1.0


def test_a_generator_may_be_suspended_inside():
    def values():
        with pg.outside():
            yield slope()

    with scale(3.0):
        suspended = values()
        assert next(suspended) == 1.0
        assert slope() == 1.0  # as of all blocks of plugrad
        suspended.close()
        assert slope() == 3.0
        elsewhere = values()
        next(elsewhere)
        thread = threading.Thread(target=elsewhere.close)
        thread.start()
        thread.join()
        assert slope() == 3.0


def test_threads_and_tasks_enter_it_for_themselves():
    async def one(entered, may_leave):
        with pg.outside():
            entered.set()
            await may_leave.wait()
            return slope()

    async def both():
        entered = asyncio.Event()
        may_leave = asyncio.Event()
        task = asyncio.create_task(one(entered, may_leave))
        await entered.wait()
        found = slope()
        may_leave.set()
        return found, await task

    with scale(3.0):
        assert asyncio.run(both()) == (3.0, 1.0)
        found = []
        run = contextvars.copy_context().run
        work = pg.outside()(lambda: found.append(slope()))
        thread = threading.Thread(target=run, args=(work,))
        thread.start()
        thread.join()
        assert found == [1.0]


def test_it_is_a_decorator_and_warns_if_it_is_never_entered():
    @pg.outside()
    def decorated(n):
        with scale(2.0):
            inner = slope()
        return (inner, slope()) if n == 0 else decorated(n - 1)

    with scale(3.0):
        assert decorated(2) == (2.0, 1.0)
    assert decorated.__name__ == "decorated"
    with pytest.warns(RuntimeWarning, match="write `with outside"):
        pg.outside()
    with pytest.raises(TypeError, match="outside: expected a function"):
        pg.outside()(3)


# --- jit -------------------------------------------------------------------------


def replays(f):
    """Return what a jitted function computes in four calls, and what is replayed."""
    fast = pg.jit(f)
    x = pg.asarray([1.0, 3.0])
    f(x)  # what runs once in a process, such as the import of a module
    found = [fast(x) for _ in range(4)]
    return [y.tolist() for y in found], fast.explain(x)


def kernels(explained):
    """Return the kernels of a replay, without moves to the backend of the test."""
    names = [step.kernel.name for step in explained.graph.steps]
    return [name for name in names if name != "plugrad.Move"]


def test_a_replay_does_not_repeat_what_runs_inside(backend, capsys):
    def f(x):
        with pg.outside():
            total = pg.sum(pg.asarray(np.float32([2, 4])) * 3)
            print("the total is", float(total))
        return x * 2

    found, explained = replays(f)
    assert found == [[2.0, 6.0]] * 4
    assert kernels(explained) == ["Multiply"]
    assert capsys.readouterr().out == "the total is 18.0\n" * (1 + 2)


def test_what_was_made_once_inside_is_a_constant_of_a_replay(backend):
    model = {}

    def f(x):
        with pg.outside():
            if not model:
                model["w"] = pg.exp(pg.zeros(2)) + 1
        return x * model["w"]

    found, explained = replays(f)
    assert found == [[2.0, 6.0]] * 4
    assert kernels(explained) == ["Multiply"]


def _read(x):
    return float(pg.sum(x))


def _of_a_shape(x):
    return float(pg.nonzero(x)[0].shape[0])


def _of_an_error(x):
    try:
        pg.gather(pg.ones(2), pg.astype(x, "int32"))
    except IndexError:
        return 2.0
    return 1.0


@pytest.mark.parametrize("use", [_read, _of_a_shape, _of_an_error])
def test_a_call_is_not_replayed_if_the_block_uses_its_tensors(use, backend):
    def f(x):
        with pg.outside():
            factor = use(x)
        return x * factor

    fast = pg.jit(f)
    for x in ([1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 3.0], [0.0, 0.0]):
        assert fast(pg.asarray(x)).tolist() == f(pg.asarray(x)).tolist()
    why = r"(sum|astype) in outside\(\) reads|the values of a tensor, .* leave"
    assert fast.explain(X).graph is None
    assert re.match(why, fast.explain(X).reason)
    with pytest.raises(ValueError, match=f"strict=True, and ({why})"):
        pg.jit(f, strict=True)(X)


def test_a_variable_that_is_read_or_assigned_inside(backend):
    v = pg.Variable([1.0, 2.0])

    @pg.jit
    def f(x):
        with pg.outside():
            w = v.value
            v.assign(x)
        return x * w

    held = np.float32([1, 2])
    for step in range(6):
        x = np.float32([step, 3])
        assert f(pg.asarray(x)).tolist() == (x * held).tolist()
        assert v.value.tolist() == x.tolist()
        held = x


def test_items_of_a_tensor_that_only_the_block_reads(backend):
    w = pg.asarray([1.0, 0.0])

    @pg.jit
    def f(x):
        with pg.outside():
            count = pg.nonzero(w)[0].shape[0]
        return x * float(count)

    assert [f(X).tolist() for _ in range(4)] == [[1.0, 3.0]] * 4
    w[1] = 5.0
    assert [f(X).tolist() for _ in range(4)] == [[2.0, 6.0]] * 4


def test_draws_inside_are_drawn_in_each_call(backend):
    @pg.jit
    def f(x):
        with pg.outside():
            pg.random.uniform((3,))
        return x + pg.random.uniform((2,))

    def eager(x):
        pg.random.uniform((3,))
        return x + pg.random.uniform((2,))

    pg.random.seed(7)
    wanted = [eager(X).tolist() for _ in range(5)]
    pg.random.seed(7)
    assert [f(X).tolist() for _ in range(5)] == wanted


def test_under_vmap_and_a_tape_inside_of_jit(backend):
    w = pg.asarray([1.0, 1.0])

    def one(x):
        with pg.outside():
            size = float(pg.nonzero(w)[0].shape[0])
        return x * x * size

    fast = pg.jit(pg.vmap(pg.grad(one)))
    assert [fast(X).tolist() for _ in range(4)] == [[4.0, 12.0]] * 4
    w[1] = 0.0
    assert [fast(X).tolist() for _ in range(4)] == [[2.0, 6.0]] * 4


def test_a_jitted_function_inside_of_another(backend):
    inner = pg.jit(lambda x: pg.exp(x) * 2)

    @pg.jit
    def f(x):
        with pg.outside():
            y = inner(pg.zeros(2))
        return x + y

    assert [f(X).tolist() for _ in range(4)] == [[3.0, 5.0]] * 4
    assert inner(pg.zeros(2)).tolist() == [2.0, 2.0]
