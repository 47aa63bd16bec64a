"""ONNX' own tests of backends, ``onnx.backend.test``, and which are left out."""

import functools
import os
import pickle
import re
import tomllib
import warnings
import zlib
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.runner import Runner

# Their kinds that need no download. Old versions of PyTorch have exported its tests.
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
EXCLUSIONS = Path(__file__).with_name("exclusions.toml")
# Some cases name folders of the installed package, which moves with the checkout.
INSTALLED = f"{onnx.__version__}-{zlib.crc32(onnx.__file__.encode()):08x}"
CACHE = Path(__file__).parents[2] / ".cache" / "onnx" / f"{INSTALLED}.pickle"


@functools.cache
def cases():
    """Return the tests by name, from a file: ONNX computes them for some 5 seconds."""
    if CACHE.exists():
        return pickle.loads(CACHE.read_bytes())
    made = _made()
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    partial = CACHE.with_suffix(f".{os.getpid()}")
    partial.write_bytes(pickle.dumps(made))
    partial.replace(CACHE)
    return made


def _made():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of expected values
        warnings.simplefilter("ignore", DeprecationWarning)  # ONNX sets `x.shape`
        from onnx.backend.test.loader import load_model_tests

        found = [case for kind in KINDS for case in load_model_tests(kind=kind)]
    return {f"{case.kind}-{case.name.removeprefix('test_')}": case for case in found}


@functools.cache
def exclusions():
    """Return the rows of the list: patterns of names, and the reason."""
    rows = tomllib.loads(EXCLUSIONS.read_text())["exclude"]
    return [(re.compile("|".join(row["tests"])), row) for row in rows]


def reason_to_fail(name, backend):
    """Return why a test is expected to fail; None if it is to pass."""
    for pattern, row in exclusions():
        here = backend in row.get("backends", [backend])
        if here and pattern.fullmatch(name) and "atol" not in row:
            return row["reason"]
    return None


def tolerances(name, case):
    """Return rtol and atol of a test; atol is ours, where the list has one."""
    ours = [
        row["atol"] for x, row in exclusions() if x.fullmatch(name) and "atol" in row
    ]
    return {"rtol": case.rtol, "atol": max([case.atol, *ours])}


def model_and_data(case):
    """Return the model of a test, and pairs of inputs and outputs."""
    if case.model is not None:
        return case.model, case.data_sets
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    pairs = []
    for data in sorted(folder.glob("test_data_set_*")):
        rows = [("input", model.graph.input), ("output", model.graph.output)]
        pairs.append([_read(data, kind, infos) for kind, infos in rows])
    return model, pairs


def _read(folder, kind, infos):
    values = []
    for i in range(len([*folder.glob(f"{kind}_*.pb")])):
        Runner._load_proto(Runner, folder / f"{kind}_{i}.pb", values, infos[i].type)
    return values


def plain(value):
    """Return an expected value in the dtype that stands for one that NumPy lacks."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, TensorProto):
        value = numpy_helper.to_array(value)
    names = {"bfloat16": np.float32, "int4": np.int8, "int2": np.int8}
    names |= {"uint4": np.uint8, "uint2": np.uint8}
    kind = None if value is None else names.get(value.dtype.name)
    return value if kind is None else value.astype(kind)


def check(name, prepare):
    """Run a test; AssertionError if an output is not what it should be."""
    case = cases()[name]
    model, pairs = model_and_data(case)
    prepared = prepare(model)
    for inputs, outputs in pairs:
        found = list(prepared.run(list(inputs)))
        expected = [plain(value) for value in outputs]
        Runner.assert_similar_outputs(
            expected, found, **tolerances(name, case), model_dir=case.model_dir
        )
