"""``outside``: surrounding scopes have no effect inside the block."""

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


# --- surrounding scopes ----------------------------------------------------------


def test_surrounding_backends_and_gradients_are_not_in_force():
    default = contextvars.Context().run(pg.get_backend)
    with toy(), scale(3.0), pg.use_backend("toy"):
        with pg.outside():
            assert (pg.get_backend(), slope()) == (default, 1.0)
            assert (X + 1).backend == default
            with scale(5.0), pg.use_backend("toy"):
                assert (pg.get_backend(), slope()) == ("toy", 5.0)
        assert (pg.get_backend(), slope()) == ("toy", 3.0)


def test_results_of_the_block_are_constants_for_a_tape(backend):
    def f(x):
        with pg.outside():
            size = pg.sum(pg.abs(x))
        return pg.sum(x / size)

    assert pg.grad(f)(X).tolist() == [0.25, 0.25]
    assert pg.grad(lambda x: pg.sum(pg.grad(f)(x) * x))(X).tolist() == [0.25, 0.25]
    v = pg.Variable(X)
    assert pg.variable_grads(lambda: f(v))[1][v].tolist() == [0.25, 0.25]


def test_a_gradient_inside_is_independent_of_the_one_outside(backend):
    def f(x):
        with pg.outside():
            inner = pg.grad(lambda y: pg.sum(y * y * y))(x)
            assert inner.tolist() == [3.0, 27.0]
        return pg.sum(x * inner)

    assert pg.grad(f)(X).tolist() == [3.0, 27.0]


def test_values_of_a_differentiated_tensor_may_be_read_inside(backend):
    seen = []

    def f(x):
        y = x * x
        with pg.outside():
            seen.append(y.numpy().tolist())
        return pg.sum(y)

    with pg.debug():  # raises if a differentiated tensor is read
        assert pg.grad(f)(X).tolist() == [2.0, 6.0]
    assert seen == [[1.0, 9.0]]


def test_surrounding_observers_see_nothing(backend):
    results = []
    with pg.profile() as p, pg.tidy(), pg.debug():
        y = pg.exp(X)
        with pg.outside():
            results.append(pg.log(X))
            with pg.profile() as inner:
                pg.sqrt(X)
        assert y.shape == (2,)
    assert [r.kernel for r in p.records] == ["Exp"]
    assert [r.kernel for r in inner.records] == ["Sqrt"]
    assert results[0].tolist() == pytest.approx([0.0, np.log(3.0)])


def test_a_block_inside_a_kernel_is_no_part_of_its_run():
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


def test_a_mapped_tensor_can_be_shown_inside_but_not_read(backend):
    def f(x):
        with pg.outside():
            shown.append(repr(x))
            x.numpy()

    shown = []
    with pytest.raises(ValueError, match="differ between the 2 examples"):
        pg.vmap(f)(X)
    assert "of 2 examples in vmap" in shown[0]


def test_results_of_the_block_are_shared_by_all_examples(backend):
    cached = []

    def f(x):
        with pg.outside():
            if not cached:
                cached.append(pg.ones(()) * 2)
        return x * cached[0]

    assert pg.vmap(f)(X).tolist() == [2.0, 6.0]
    assert f(X).tolist() == [2.0, 6.0]  # the cached tensor outlives the call of vmap
    assert pg.vmap(pg.grad(f))(X).tolist() == [2.0, 2.0]


# --- leaving the block -----------------------------------------------------------


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


def test_blocks_can_be_left_in_any_order():
    outer = scale(2.0)
    block = pg.outside()
    inner = scale(3.0)
    outer.__enter__()
    block.__enter__()
    inner.__enter__()
    block.__exit__(None, None, None)
    assert slope() == 3.0
    outer.__exit__(None, None, None)
    assert slope() == 3.0
    inner.__exit__(None, None, None)
    assert slope() == 1.0


def test_a_generator_may_be_suspended_inside():
    def values():
        with pg.outside():
            yield slope()

    with scale(3.0):
        suspended = values()
        assert next(suspended) == 1.0
        assert slope() == 1.0  # a suspended block stays in force
        suspended.close()
        assert slope() == 3.0
        elsewhere = values()
        next(elsewhere)
        thread = threading.Thread(target=elsewhere.close)
        thread.start()
        thread.join()
        assert slope() == 3.0


def test_a_block_affects_only_its_thread_and_task():
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


def test_outside_is_a_decorator_and_warns_if_never_entered():
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
    """Return the results of four calls of ``jit(f)`` and the explanation of ``jit``."""
    jitted = pg.jit(f)
    x = pg.asarray([1.0, 3.0])
    f(x)  # runs the code that a process runs only once, such as imports
    found = [jitted(x) for _ in range(4)]
    return [y.tolist() for y in found], jitted.explain(x)


def kernels(explanation):
    """Return the kernels of a replay, except moves to the backend of the test."""
    names = [step.kernel.name for step in explanation.graph.steps]
    return [name for name in names if name != "plugrad.Move"]


def test_a_replay_does_not_run_the_block(backend, capsys):
    def f(x):
        with pg.outside():
            total = pg.sum(pg.asarray(np.float32([2, 4])) * 3)
            print("the total is", float(total))
        return x * 2

    found, explanation = replays(f)
    assert found == [[2.0, 6.0]] * 4
    assert kernels(explanation) == ["Multiply"]
    assert capsys.readouterr().out == "the total is 18.0\n" * (1 + 2)


def test_a_tensor_that_the_block_cached_is_a_constant_of_the_replay(backend):
    model = {}

    def f(x):
        with pg.outside():
            if not model:
                model["w"] = pg.exp(pg.zeros(2)) + 1
        return x * model["w"]

    found, explanation = replays(f)
    assert found == [[2.0, 6.0]] * 4
    assert kernels(explanation) == ["Multiply"]


def _use_value(x):
    return float(pg.sum(x))


def _use_shape(x):
    return float(pg.nonzero(x)[0].shape[0])


def _use_error(x):
    try:
        pg.gather(pg.ones(2), pg.astype(x, "int32"))
    except IndexError:
        return 2.0
    return 1.0


@pytest.mark.parametrize("use", [_use_value, _use_shape, _use_error])
def test_a_call_is_not_replayed_if_the_block_uses_its_tensors(use, backend):
    def f(x):
        with pg.outside():
            factor = use(x)
        return x * factor

    jitted = pg.jit(f)
    for x in ([1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 3.0], [0.0, 0.0]):
        assert jitted(pg.asarray(x)).tolist() == f(pg.asarray(x)).tolist()
    why = r"(sum|astype) in outside\(\) reads|the values of a tensor, .* are read"
    assert jitted.explain(X).graph is None
    assert re.match(why, jitted.explain(X).reason)
    with pytest.raises(ValueError, match=f"strict=True, and ({why})"):
        pg.jit(f, strict=True)(X)


def test_a_variable_may_be_read_and_assigned_inside(backend):
    v = pg.Variable([1.0, 2.0])

    @pg.jit
    def f(x):
        with pg.outside():
            w = v.value
            v.assign(x)
        return x * w

    previous = np.float32([1, 2])
    for step in range(6):
        x = np.float32([step, 3])
        assert f(pg.asarray(x)).tolist() == (x * previous).tolist()
        assert v.value.tolist() == x.tolist()
        previous = x


def test_item_assignment_to_a_tensor_that_only_the_block_reads(backend):
    w = pg.asarray([1.0, 0.0])

    @pg.jit
    def f(x):
        with pg.outside():
            count = pg.nonzero(w)[0].shape[0]
        return x * float(count)

    assert [f(X).tolist() for _ in range(4)] == [[1.0, 3.0]] * 4
    w[1] = 5.0
    assert [f(X).tolist() for _ in range(4)] == [[2.0, 6.0]] * 4


def test_random_numbers_inside_are_drawn_in_each_call(backend):
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


def test_a_block_under_jit_vmap_and_grad(backend):
    w = pg.asarray([1.0, 1.0])

    def one(x):
        with pg.outside():
            size = float(pg.nonzero(w)[0].shape[0])
        return x * x * size

    jitted = pg.jit(pg.vmap(pg.grad(one)))
    assert [jitted(X).tolist() for _ in range(4)] == [[4.0, 12.0]] * 4
    w[1] = 0.0
    assert [jitted(X).tolist() for _ in range(4)] == [[2.0, 6.0]] * 4


def test_a_jitted_function_in_a_block_of_another(backend):
    inner = pg.jit(lambda x: pg.exp(x) * 2)

    @pg.jit
    def f(x):
        with pg.outside():
            y = inner(pg.zeros(2))
        return x + y

    assert [f(X).tolist() for _ in range(4)] == [[3.0, 5.0]] * 4
    assert inner(pg.zeros(2)).tolist() == [2.0, 2.0]
