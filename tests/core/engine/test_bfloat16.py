"""The engine runs kernels that do not take bfloat16 in float32."""

import numpy as np
import plugrad as pg
import pytest
from plugrad import plugin
from plugrad_conformance.toy import toy

BFLOAT16 = pg.bfloat16


@pytest.fixture(autouse=True)
def _on_cpu():
    with pg.use_backend("cpu"):
        yield


@pytest.fixture
def exp():
    """Register kernel functions for Exp; return the dtypes that they have got."""
    seen = []

    def register(mark=lambda f: f, answer=np.exp):
        @mark
        def function(x):
            seen.append(x.dtype)
            return answer(x)

        pg.register_kernel("Exp", "cpu", function)
        return seen

    yield register
    pg.unregister_kernel("Exp", "cpu")


def half(values):
    return pg.asarray(values, dtype=BFLOAT16)


def test_a_function_gets_float32(exp):
    seen = exp()
    y = pg.exp(half([0.0, 1.0]))
    assert seen == [np.float32]
    assert (y.dtype, y.tolist()) == (BFLOAT16, [1.0, 2.71875])


def test_a_marked_function_gets_bfloat16(exp):
    seen = exp(plugin.takes_bfloat16, lambda x: x)
    assert pg.exp(half([3.0])).tolist() == [3.0]
    assert seen == [BFLOAT16]


def test_a_marked_function_that_declines_gets_float32(exp):
    answer = lambda x: NotImplemented if x.dtype == BFLOAT16 else np.exp(x)
    seen = exp(plugin.takes_bfloat16, answer)
    assert pg.exp(half([0.0])).tolist() == [1.0]
    assert seen == [BFLOAT16, np.float32]


def test_the_mark_goes_with_the_function(exp):
    seen = exp(plugin.takes_bfloat16)
    pg.register_kernel("Exp", "cpu", lambda x: (seen.append(x.dtype), np.exp(x))[1])
    pg.exp(half([0.0]))
    pg.unregister_kernel("Exp", "cpu")
    pg.exp(half([0.0]))
    assert seen == [np.float32, BFLOAT16]


@pytest.mark.parametrize("compiled", [True, False])
def test_the_fast_paths_in_c_and_python_agree(compiled, monkeypatch):
    from plugrad._src.engine import accelerated

    accelerated.enable(compiled)
    try:
        x = half([1.0, 2.0])
        assert pg.exp(x).dtype == BFLOAT16
        assert (x + x).tolist() == [2.0, 4.0]
        assert (2.0 * x).tolist() == [2.0, 4.0]
        assert pg.sum(x).tolist() == 3.0
        assert pg.full((2,), 0.1, dtype=BFLOAT16).tolist() == [0.10009765625] * 2
        assert pg.linspace(0.0, 1.0, 3, dtype=BFLOAT16).tolist() == [0.0, 0.5, 1.0]
        dx = pg.grad(lambda x: pg.sum(pg.exp(x) * x))(x)
        assert (dx.dtype, dx.tolist()) == (BFLOAT16, [5.4375, 22.125])
    finally:
        accelerated.enable(True)


def test_a_function_without_attributes_cannot_be_marked():
    with pytest.raises(TypeError, match=r"takes_bfloat16: .*abs.* cannot have"):
        plugin.takes_bfloat16(abs)


def test_a_backend_without_bfloat16_refuses_it():
    with toy(dtypes=["bool", "int32", "float32"]), pg.use_backend("toy"):
        for make in (
            lambda: pg.zeros(2, dtype=BFLOAT16),
            lambda: pg.ones(2).astype(BFLOAT16),
            lambda: pg.asarray(np.ones(2, BFLOAT16)),
            lambda: pg.ones(2) + half_on_cpu(),
        ):
            with pytest.raises(TypeError, match="'toy' has no bfloat16"):
                make()


def half_on_cpu():
    with pg.use_backend("cpu"):
        return half([1.0, 2.0])


def test_a_backend_needs_only_a_cast_that_takes_it():
    arrays = plugin.runtime("cpu").arrays

    @plugin.takes_bfloat16
    def cast(x, *, dtype):
        return x.astype(dtype)

    kernels = {"Cast": cast, "Add": np.add, "Neg": np.negative}
    dtypes = ("bool", "int32", "float32", "bfloat16")
    runtime = plugin.Runtime(arrays=arrays, kernels=kernels, dtypes=dtypes)
    backend = plugin.Backend("small", open=lambda: runtime, priority=-1)
    pg.register_backend(backend)
    try:
        with pg.use_backend("small"):
            y = -(half([1.0, 2.0]) + half([0.0, 0.5]))
            assert (y.backend, y.dtype, y.tolist()) == ("small", BFLOAT16, [-1.0, -2.5])
    finally:
        pg.remove_backend("small")


def test_a_profile_shows_the_conversions():
    with pg.profile() as found:
        pg.exp(half([0.0]))
    assert [(r.kernel, r.depth) for r in found.records] == [
        ("Cast", 1),
        ("Exp", 1),
        ("Cast", 1),
        ("Exp", 0),
    ]
    assert found.records[-1].how == "decomposition"
