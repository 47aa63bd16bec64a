"""Kernels whose launches are recorded, and replayed without their Python code."""

import gc
import threading

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

RNG = np.random.default_rng(0)
SHAPE = (5, 7)


@pytest.fixture(autouse=True)
def _on_opencl():
    for kernel in kernels().values():
        getattr(kernel, "known", {}).clear()
    with pg.use_backend("opencl"):
        yield


def kernels():
    from plugrad_opencl.kernels import KERNELS

    return KERNELS


def is_recorded(name):
    """Return whether launches are recorded, for each known shape of a kernel."""
    return [call._launches is not None for call in kernels()[name].known.values()]


def numbers(*shape):
    return RNG.integers(-9, 10, shape).astype(np.float32)


def check_product(a, b):
    np.testing.assert_array_equal(pg.matmul(a, b).numpy(), a @ b)


def test_other_values_give_other_results():
    for _ in range(6):
        check_product(numbers(*SHAPE), numbers(7, 3))
    assert is_recorded("BatchMatMul") == [True]


def test_each_shape_has_a_record():
    for n in (3, 4, 3, 4, 3, 4, 5):
        check_product(numbers(*SHAPE), numbers(7, n))
    assert is_recorded("BatchMatMul") == [True, True, False]


def test_the_same_array_for_both_inputs():
    """The launch is not recorded: a buffer does not show which input it belongs to."""
    x = numbers(6, 6)
    t = pg.asarray(x)
    for _ in range(6):
        np.testing.assert_array_equal(pg.matmul(t, t).numpy(), x @ x)
    assert is_recorded("BatchMatMul") == [False]
    for _ in range(4):
        check_product(x, numbers(6, 6))
    assert is_recorded("BatchMatMul") == [True]
    np.testing.assert_array_equal(pg.matmul(t, t).numpy(), x @ x)


def test_tables_that_the_first_call_uploads():
    f = numbers(3, 3, 4, 8)
    for _ in range(5):
        x = numbers(1, 6, 6, 4)
        found = pg.conv2d(x, f, pad="same").numpy()
        with pg.use_backend("cpu"):
            expected = pg.conv2d(x, f, pad="same").numpy()
        np.testing.assert_allclose(found, expected, 1e-5, 1e-4)
    assert is_recorded("Conv2D") == [True]


def test_different_attributes_have_different_records():
    x = numbers(4, 6)
    for _ in range(4):
        for axis in (0, 1):
            np.testing.assert_array_equal(pg.sum(x, axis=axis).numpy(), x.sum(axis))
    t = pg.asarray(numbers(4, 6))
    for epsilon in (0.0, 0.5) * 4:
        y = t.numpy()
        z = y - y.mean(1, keepdims=True)
        expected = z / np.sqrt(z.var(1, keepdims=True) + epsilon)
        found = pg.layer_norm(t, epsilon=epsilon).numpy()
        np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


def test_results_that_share_an_input_and_several_results():
    for _ in range(6):
        x = numbers(1, 5)
        np.testing.assert_array_equal(pg.sum(x, axis=0).numpy(), x[0])
        parts = pg.split(pg.asarray(x), 5, axis=1)
        np.testing.assert_array_equal([p.numpy()[0, 0] for p in parts], x[0])


def test_a_jitted_function_is_recorded_kernel_by_kernel():
    w = pg.asarray(numbers(7, 3))
    f = pg.jit(lambda x: pg.softmax(pg.relu(pg.matmul(x, w) + 1.0) * 2.0))
    for _ in range(8):
        x = numbers(*SHAPE)
        z = np.maximum(x @ w.numpy() + 1, 0) * 2
        e = np.exp(z - z.max(1, keepdims=True))
        np.testing.assert_allclose(
            f(pg.asarray(x)).numpy(), e / e.sum(1, keepdims=True), 1e-5, 1e-6
        )


def test_a_kernel_with_several_results_in_a_jitted_function():
    f = pg.jit(lambda x: [part * 2.0 for part in pg.unstack(x, axis=1)])
    for _ in range(5):
        x = numbers(4, 3)
        found = [y.numpy() for y in f(pg.asarray(x))]
        np.testing.assert_array_equal(found, x.T * 2)


@pytest.mark.parametrize("used", [[0], [1], [1, 0]])
def test_a_function_of_jit_that_uses_some_results_of_a_kernel(used):
    """Replays may be plain, checked or observed."""
    f = lambda x: tuple([pg.top_k(x, 2)[i] * 2 for i in used])
    expected = [[[[6.0, 4.0]], [[2, 8]]][i] for i in used]
    x = pg.asarray([[1.0, 3.0, -2.0, 0.5, 2.0]])
    for check in (False, True):
        jitted = pg.jit(f, check=check)
        for _ in range(5):
            assert [y.tolist() for y in jitted(x)] == expected
    jitted = pg.jit(f)
    for _ in range(5):
        with pg.profile() as p:
            assert [y.tolist() for y in jitted(x)] == expected
        assert p.records


def test_a_bad_index_is_found_in_every_call():
    f = pg.jit(lambda x, i: pg.take(x, i, axis=0) * 2.0)
    x = pg.asarray(numbers(4, 3))
    for _ in range(6):
        assert f(x, pg.asarray([3])).shape == (1, 3)
    for _ in range(3):
        with pytest.raises(IndexError, match="index 4 is out of range"):
            f(x, pg.asarray([4])).numpy()


def test_finalizers_that_run_ops_meanwhile():
    """At worst, the launches of finalizers are replayed again; results stay right."""
    seen = []

    class Noisy:
        def __del__(self):
            seen.append(float((pg.ones(3) + 1.0).numpy()[0]))

    for _ in range(10):
        cycle = Noisy()
        cycle.itself = cycle
        del cycle
        check_product(numbers(*SHAPE), numbers(7, 3))
        gc.collect()
    assert seen == [2.0] * 10


def test_threads_do_not_record_launches_of_other_threads():
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        with pg.use_backend("opencl"):
            for i in range(40):
                n = 3 + i % 5
                a = rng.integers(-9, 10, (4, n)).astype(np.float32)
                b = rng.integers(-9, 10, (n, 6)).astype(np.float32)
                y = pg.sum(pg.matmul(a, b), axis=0).numpy()
                if not (y == (a @ b).sum(0)).all():
                    wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert runtime("opencl").arrays.device.notes is None


def test_an_error_ends_the_recording():
    with pytest.raises(ValueError, match="7"):
        kernels()["BatchMatMul"](
            *[runtime("opencl").arrays.upload(numbers(*SHAPE)) for _ in range(2)],
            transpose_a=False,
            transpose_b=False,
        )
    assert runtime("opencl").arrays.device.notes is None


def test_constants_outlive_the_caches_that_own_them():
    """Caches hold 256 tables of offsets; a program with more shapes fills them."""
    from plugrad_opencl import products

    w = numbers(3, 3, 3, 5)
    squares = lambda x: pg.sum(pg.square(pg.conv2d(x, w, strides=(1, 2), pad="same")))
    x = numbers(2, 9, 7, 3)
    expected = [pg.grad(squares)(pg.asarray(x)).numpy() for _ in range(4)][-1]
    assert products.table.cache_info().currsize
    products.table.cache_clear()
    gc.collect()
    sizes = (16, 32, 64, 100, 128, 256, 500, 1000, 2000)
    others = [pg.full((size,), 1e9) for size in sizes for _ in range(40)]
    np.testing.assert_array_equal(pg.grad(squares)(pg.asarray(x)).numpy(), expected)
    del others
