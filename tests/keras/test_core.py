"""Variables, conversion, shape inference, control flow and gradients."""

import keras
import numpy as np
import plugrad as pg
import pytest
from keras import ops
from keras_plugrad.src.ops.core.abstract import NoValues


def test_variables_are_operands_with_gradients(backend):
    v = keras.Variable([1.0, 2.0], dtype="float32")
    x = pg.asarray([3.0, 4.0])
    assert (x * v).tolist() == [3.0, 8.0]
    assert (v * x).tolist() == [3.0, 8.0]
    v.assign_add([1.0, 1.0])
    assert pg.sum(v).item() == 5.0
    with pytest.raises(ValueError, match="shape of the target"):
        v.assign([1.0])


CONVERSIONS = {
    "a number": (1.5, "float32"),
    "an integer": (3, "int32"),
    "a list": ([1, 2.5], "float32"),
    "booleans": ([True, False], "bool"),
    "an array": (np.ones(2, np.float64), "float64"),
    "bytes": (np.ones(2, np.uint8), "uint8"),
}


@pytest.mark.parametrize("case", CONVERSIONS)
def test_conversion_gives_the_dtypes_of_keras(case):
    x, dtype = CONVERSIONS[case]
    assert keras.backend.standardize_dtype(ops.convert_to_tensor(x).dtype) == dtype
    np.testing.assert_array_equal(ops.convert_to_numpy(ops.convert_to_tensor(x)), x)


def test_sparse_tensors_are_refused():
    with pytest.raises(ValueError, match="no sparse tensors"):
        ops.convert_to_tensor([1.0], sparse=True)


def test_shapes_are_inferred_without_values():
    ran = []

    def f(x, y):
        ran.append(x)
        return ops.concatenate([x, ops.matmul(x, y)], axis=-1), ops.sum(x)

    x = keras.KerasTensor((None, 3))
    joined, total = keras.src.backend.compute_output_spec(
        f, x, keras.KerasTensor((3, 5))
    )
    assert (joined.shape, joined.dtype, total.shape) == ((None, 8), "float32", ())
    with pytest.raises(NoValues):
        ran[0].numpy()


def test_the_backend_without_values_is_not_listed():
    keras.Input((3,)) + ops.ones((3,))
    assert "_keras_shapes" not in pg.backends()


def test_tensors_and_symbols_mix():
    x = keras.Input((3,))
    assert (ops.ones((3,)) + x).shape == (None, 3)
    assert (ops.ones((4, 3)) @ ops.transpose(x)).shape == (4, None)


def test_loops_and_scans(backend):
    assert ops.while_loop(lambda i: i < 10, lambda i: i + 3, 0).item() == 12
    carry, ys = ops.scan(lambda c, x: (c + x, c * x), 0.0, ops.arange(4.0))
    assert (carry.item(), ys.tolist()) == (6.0, [0.0, 0.0, 2.0, 9.0])
    found = ops.associative_scan(ops.add, ops.arange(1, 8))
    assert found.tolist() == [1, 3, 6, 10, 15, 21, 28]
    assert ops.fori_loop(0, 4, lambda i, x: x * 2, 1) == 16
    assert ops.switch(7, [lambda x: x, lambda x: -x], 2.0) == -2.0
    assert (
        ops.vectorized_map(lambda x: ops.sum(x), ops.ones((3, 2))).tolist() == [2.0] * 3
    )


def test_slices_begin_at_tensors_too(backend):
    x = ops.reshape(ops.arange(12.0), (3, 4))
    for begin in ([1, 2], ops.convert_to_tensor([1, 2])):
        assert ops.slice(x, begin, (2, 2)).tolist() == [[6.0, 7.0], [10.0, 11.0]]
        y = ops.slice_update(x, begin, ops.zeros((2, 2)))
        assert y.tolist()[1:] == [[4.0, 5.0, 0.0, 0.0], [8.0, 9.0, 0.0, 0.0]]
    assert ops.slice(x, [9, 9], (1, 1)).tolist() == [[11.0]]  # clamped


def test_gradients_by_hand_and_recomputed(backend):
    @ops.custom_gradient
    def clipped(x):
        def gradient(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            return ops.clip(upstream, -1.0, 1.0)

        return x * 1.0, gradient

    assert pg.grad(lambda x: 9.0 * clipped(x))(2.0).item() == 1.0
    runs = []

    @keras.remat
    def cubed(x):
        runs.append(x)
        return x * x * x

    assert pg.grad(lambda x: cubed(x))(pg.asarray(2.0)).item() == 12.0
    assert len(runs) == 2


def test_the_device_is_a_backend(backend):
    with keras.device(f"{backend}:0"):
        assert ops.ones((2,)).backend == backend
    with pytest.raises(ValueError, match="no device 'gpu:0'; installed backends"):
        keras.device("gpu:0").__enter__()
