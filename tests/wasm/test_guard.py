"""PLUGRAD_WASM_GUARD=1: a kernel that leaves its arrays is found."""

import pytest

from .processes import run

pytest.importorskip("plugrad_wasm", reason="plugrad-wasm is not installed")

GUARD = {"PLUGRAD_WASM_GUARD": "1"}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("first", "count", "says"),
    [
        (0, 1001, "into byte 1 behind an array of 4000 bytes"),
        (0, 1100, "into byte 1 behind an array of 4000 bytes"),
        (200, 1000, "into byte 1 behind an array of 4000 bytes"),
        (-2, 3, "into byte 4 before an array of 4000 bytes"),
        (-200, 100, "before an array of 4000 bytes"),
    ],
)
def test_a_kernel_that_writes_outside_of_its_array(threads, first, count, says):
    """It is named, once; the next kernel is not to blame."""
    found = run(
        threads,
        f"""
        x = upload(np.zeros(1000, np.uint32))
        kernel = machine.kernel("test_count")
        kernel(x.pointer, 1000, 10)
        try:
            kernel(x.pointer + 4 * {first}, {count}, 10)
        except BackendError as error:
            said = str(error)
            head = "wasm: the kernel test_count wrote outside of its arrays: "
            print(said.startswith(head), {says!r} in said, count())
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


def test_kernels_of_the_backend_that_are_wrong():
    """Writing is an error; what is read outside, or never written, is not a number."""
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


def test_what_is_written_behind_a_block_that_goes_is_told_later():
    """By whatever, between two kernels: with the next one, or when somebody asks."""
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
def test_kernels_that_are_right(threads):
    """Several of each kind, forwards and backwards, as on cpu; all blocks are free."""
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
