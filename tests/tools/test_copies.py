"""Copies and pickles of tensors and variables."""

import copy
import io
import multiprocessing.reduction
import pickle
import subprocess
import sys

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.ops import _processes
from plugrad.plugin import Backend
from plugrad_conformance.toy import toy

from tests.tools.tensors import DTYPES, LAYOUTS, address, matrix

# --- copies ----------------------------------------------------------------------


def test_a_copy_is_another_handle_and_a_deep_copy_has_its_own_memory(backend):
    x = matrix("float32")
    shallow = copy.copy(x)
    deep = copy.deepcopy(x)
    for other in (shallow, deep):
        assert other is not x
        assert (other.dtype, other.backend) == (x.dtype, backend)
        np.testing.assert_array_equal(other.numpy(), x.numpy())
    x.dispose()
    assert shallow.tolist() == deep.tolist() == matrix("float32").tolist()
    for copy_function in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ValueError, match="disposed"):
            copy_function(x)


def test_a_deep_copy_does_not_share_memory():
    with pg.use_backend("cpu"):
        values = np.ones(3, np.float32)
        x = pg.asarray(values, copy=False)
        deep = copy.deepcopy(x)
        values[:] = 7
        assert x.tolist() == [7.0, 7.0, 7.0]
        assert deep.tolist() == [1.0, 1.0, 1.0]
        assert copy.deepcopy(pg.asarray(["a", "b"])).tolist() == [b"a", b"b"]


@pytest.mark.parametrize("copy_function", [copy.copy, copy.deepcopy])
def test_a_tape_treats_copies_as_the_same_tensor(copy_function, backend):
    x = pg.asarray([1.0, 2.0])
    f = lambda x: pg.sum(copy_function(x) * copy_function(x * 3.0))
    assert pg.grad(f)(x).tolist() == [6.0, 12.0]
    assert pg.grad(lambda x: pg.sum(pg.grad(f)(x)))(x).tolist() == [6.0, 6.0]


def test_deep_copies_preserve_identity(backend):
    x = pg.asarray([1.0])
    first, second = copy.deepcopy([x, x])
    assert first is second


def test_a_copied_variable_is_independent(backend):
    for copy_function in (
        copy.copy,
        copy.deepcopy,
        lambda v: pickle.loads(pickle.dumps(v)),
    ):
        v = pg.Variable([1.0, 2.0], name="w")
        pg.variable_grads(lambda v=v: pg.sum(v.value))  # a tape has seen it
        w = copy_function(v)
        assert (w.name, w.trainable, w.shape) == ("w", True, (2,))
        _, grads = pg.variable_grads(lambda v=v, w=w: pg.sum(v * 2.0 + w * 3.0))
        assert grads[v].tolist() == [2.0, 2.0]
        assert grads[w].tolist() == [3.0, 3.0]
        v.assign([5.0, 5.0])
        assert w.numpy().tolist() == [1.0, 2.0]
    frozen = copy.deepcopy(pg.Variable(1.0, trainable=False))
    assert not frozen.trainable


# --- pickles ---------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pickles_of_every_layout(layout, protocol, backend):
    x = LAYOUTS[layout](matrix("float32"))
    y = pickle.loads(pickle.dumps(x, protocol))
    assert (y.shape, y.backend) == (x.shape, backend)
    assert y.dtype is x.dtype
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    assert (y + y).shape == x.shape


@pytest.mark.parametrize("dtype", [*DTYPES, "string"])
def test_pickles_of_every_dtype(dtype):
    with pg.use_backend("cpu"):
        x = pg.asarray([["a", "bc"]]) if dtype == "string" else matrix(dtype)
        y = pickle.loads(pickle.dumps(x))
        assert y.dtype is x.dtype
        assert y.tolist() == x.tolist()


def test_a_pickle_has_values_and_a_name_but_no_history(backend):
    x = pg.asarray([1.0, 2.0])
    loads = lambda x: pickle.loads(pickle.dumps(x))
    f = lambda x: pg.sum(x * x) + pg.sum(loads(x * x) * 100.0)
    assert pg.grad(f)(x).tolist() == [2.0, 4.0]
    part = pg.asarray(np.zeros(100_000, np.float32))[:2]
    assert len(pickle.dumps(part)) < 1000


def test_pickles_of_containers_preserve_identity(backend):
    x = pg.asarray([1.0])
    model = {"w": pg.Variable(x, name="w"), "x": [x, x]}
    again = pickle.loads(pickle.dumps(model))
    assert again["x"][0] is again["x"][1]
    assert again["w"].numpy().tolist() == [1.0]
    for dumps in (forking_pickle, cloud_pickle):
        assert pickle.loads(dumps(model))["x"][0].tolist() == [1.0]


def forking_pickle(value):
    return bytes(multiprocessing.reduction.ForkingPickler.dumps(value))


def cloud_pickle(value):
    reason = "needs cloudpickle, from the demo group (through scikit-learn)"
    return pytest.importorskip("cloudpickle", reason=reason).dumps(value)


def test_out_of_band_buffers_are_shared():
    with pg.use_backend("cpu"):
        x = matrix("float32")
        buffers = []
        data = pickle.dumps(x, 5, buffer_callback=buffers.append)
        y = pickle.loads(data, buffers=buffers)
        assert len(data) < 400
        assert address(y) == address(x)
        assert y.tolist() == x.tolist()


def test_a_pickle_loads_on_its_own_or_on_the_active_backend():
    with toy(dtypes=["float32"]):
        with pg.use_backend("toy"):
            data = pickle.dumps(pg.asarray([1.0]))
        with pg.use_backend("cpu"):
            assert pickle.loads(data).backend == "toy"
            assert pg.get_backend() == "cpu"
    with pg.use_backend("cpu"):
        assert pickle.loads(data).backend == "cpu"  # toy no longer exists
        wide = pickle.dumps(pg.asarray(np.zeros(2)).to("cpu"))
    with toy(dtypes=["float32"]), pg.use_backend("toy"):
        assert pickle.loads(wide).backend == "cpu"


def test_a_backend_that_does_not_open_is_replaced_with_a_warning():
    with toy(), pg.use_backend("toy"):
        data = pickle.dumps(pg.asarray([1.0]))

    def broken():
        raise OSError("no device")

    pg.register_backend(Backend("toy", open=broken, priority=-1))
    try:
        with pg.use_backend("cpu"), pytest.warns(UserWarning, match="no device"):
            assert pickle.loads(data).backend == "cpu"
    finally:
        pg.remove_backend("toy")


@pytest.mark.parametrize("parts", [([1.0], "cpu"), (np.zeros(1), 3)])
def test_a_pickle_of_something_else_is_refused(parts):
    with pytest.raises(
        pickle.UnpicklingError, match="must contain an array and a backend name"
    ):
        _processes._restored(*parts)


def test_a_pickle_names_two_functions_of_plugrad_and_some_of_numpy(backend):
    named = set()

    class RecordingUnpickler(pickle.Unpickler):
        def find_class(self, module, name):
            named.add(f"{module}.{name}")
            return super().find_class(module, name)

    RecordingUnpickler(io.BytesIO(pickle.dumps(pg.Variable([1.0], name="w")))).load()
    ours = {name for name in named if name.startswith("plugrad")}
    assert ours == {"plugrad._restored", "plugrad._restored_variable"}
    assert all(name.startswith("numpy") for name in named - ours)


def test_a_pickle_loads_where_plugrad_was_not_imported(tmp_path, backend):
    path = tmp_path / "x.pickle"
    path.write_bytes(pickle.dumps(pg.asarray([1.0, 2.0])))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).tolist())"
    command = [sys.executable, "-W", "error::UserWarning", "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "[1.0, 2.0]\n", done.stderr
