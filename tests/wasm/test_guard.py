"""PLUGRAD_WASM_GUARD=1 finds kernels that write outside of their arrays."""

import pytest

from .processes import run

pytest.importorskip("plugrad_wasm", reason="plugrad-wasm is not installed")

GUARD = {"PLUGRAD_WASM_GUARD": "1"}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("first", "count", "message"),
    [
        (0, 1001, "into byte 1 behind an array of 4000 bytes"),
        (0, 1100, "into byte 1 behind an array of 4000 bytes"),
        (200, 1000, "into byte 1 behind an array of 4000 bytes"),
        (-2, 3, "into byte 4 before an array of 4000 bytes"),
        (-200, 100, "before an array of 4000 bytes"),
    ],
)
def test_a_kernel_that_writes_outside_of_its_array_is_named(
    threads, first, count, message
):
    """Only the kernel itself fails; the next kernel works."""
    found = run(
        threads,
        f"""
        x = upload(np.zeros(1000, np.uint32))
        kernel = machine.kernel("test_count")
        kernel(x.pointer, 1000, 10)
        try:
            kernel(x.pointer + 4 * {first}, {count}, 10)
        except BackendError as error:
            text = str(error)
            head = "wasm: the kernel test_count wrote outside of its arrays: "
            print(text.startswith(head), {message!r} in text, count())
        """,
        **GUARD,
    )
    assert found == ["True", "True", "True"]


BAD = """
    from plugrad_wasm.launch import FLOAT32, unary
    neg = machine.kernel("neg_f32")

    def short(x):
        y = empty((x.size - 3,), FLOAT32)
        neg(x.pointer, y.pointer, x.size)
        return y

    def long(x):
        y = empty((x.size + 3,), FLOAT32)
        neg(x.pointer, y.pointer, y.size)
        return y

    def unset(x):
        return empty(x.shape, FLOAT32)

    def negative(function):
        pg.register_kernel("Neg", "wasm", function)
        try:
            return pg.negative(pg.ones((100,))).numpy()
        finally:
            pg.unregister_kernel("Neg", "wasm")
"""


def test_wrong_kernels_of_the_backend():
    """Outside writes are errors; outside reads and unwritten elements are NaN."""
    found = run(
        1,
        BAD
        + """
    try:
        negative(short)
    except BackendError as error:
        print("neg_f32" in str(error))
    y = negative(long)
    print((y[:100] == -1).all(), np.isnan(y[100:]).all())
    print(np.isnan(negative(unset)).all())
    print((negative(unary("neg")) == -1).all())
        """,
        **GUARD,
    )
    assert found == ["True"] * 5


def test_a_write_behind_a_freed_block_is_reported_later():
    """A write between two kernels is reported by the next kernel, or by ``check``."""
    found = run(
        1,
        """
        x = upload(np.zeros(10, np.uint8))
        machine.whole[x.pointer + 10] = 1
        del x
        try:
            machine.guards.check()
        except BackendError as error:
            print("a kernel wrote outside" in str(error), count())
        machine.guards.check()
        """,
        **GUARD,
    )
    assert found == ["True", "True"]


@pytest.mark.parametrize("threads", [1, 2])
def test_right_kernels_pass(threads):
    """Several kinds of kernels, forward and backward, give the same results as cpu."""
    found = run(
        threads,
        """
        rng = np.random.default_rng(0)
        image, filters = rng.random((2, 9, 9, 3)), rng.random((3, 3, 3, 5))

        def loss(x, w):
            y = pg.relu(pg.conv2d(x, w, pad="same"))
            y = pg.max_pool(y, 2, strides=2, pad="valid")
            y = pg.softmax(pg.reshape(y, (2, -1)) @ pg.ones((80, 7)), axis=-1)
            return pg.sum(pg.cumulative_sum(y, axis=1) * pg.arange(7.0))

        def step():
            x, w = (pg.asarray(v, dtype="float32") for v in (image, filters))
            return [loss(x, w).numpy(), pg.grad(lambda w: loss(x, w))(w).numpy()]

        here = step()
        machine.guards.check()
        with pg.use_backend("cpu"):
            print(*[np.allclose(a, b, atol=1e-4) for a, b in zip(here, step())])
        """,
        **GUARD,
    )
    assert found == ["True", "True"]
