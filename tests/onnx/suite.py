"""ONNX's own backend tests, ``onnx.backend.test``, and our list of exclusions."""

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

# The kinds of tests that need no download. The last two were exported by old versions
# of PyTorch.
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
EXCLUSIONS = Path(__file__).with_name("exclusions.toml")
# Some cases contain paths of the installed package, which moves with the checkout.
INSTALLED = f"{onnx.__version__}-{zlib.crc32(onnx.__file__.encode()):08x}"
CACHE = Path(__file__).parents[2] / ".cache" / "onnx" / f"{INSTALLED}.pickle"


@functools.cache
def cases():
    """Return the tests by name, from a cache: making them takes about 5 seconds."""
    if CACHE.exists():
        return pickle.loads(CACHE.read_bytes())
    loaded = _load_cases()
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    partial = CACHE.with_suffix(f".{os.getpid()}")
    partial.write_bytes(pickle.dumps(loaded))
    partial.replace(CACHE)
    return loaded


def _load_cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # for expected values
        warnings.simplefilter("ignore", DeprecationWarning)  # ONNX sets `x.shape`
        from onnx.backend.test.loader import load_model_tests

        found = [case for kind in KINDS for case in load_model_tests(kind=kind)]
    return {f"{case.kind}-{case.name.removeprefix('test_')}": case for case in found}


@functools.cache
def exclusions():
    """Return pairs: a pattern that matches test names, and its row of the list."""
    rows = tomllib.loads(EXCLUSIONS.read_text())["exclude"]
    return [(re.compile("|".join(row["tests"])), row) for row in rows]


def reason_to_fail(name, backend):
    """Return why a test is expected to fail; None if it has to pass."""
    for pattern, row in exclusions():
        applies = backend in row.get("backends", [backend])
        if applies and pattern.fullmatch(name) and "atol" not in row:
            return row["reason"]
    return None


def tolerances(name, case):
    """Return rtol and atol of a test; the list of exclusions may raise atol."""
    atols = [
        row["atol"] for x, row in exclusions() if x.fullmatch(name) and "atol" in row
    ]
    return {"rtol": case.rtol, "atol": max([case.atol, *atols])}


def model_and_data(case):
    """Return the model of a test, and its pairs of inputs and expected outputs."""
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


def replace_dtype(value):
    """Return an expected value, in plugrad's dtype if NumPy lacks the original."""
    if isinstance(value, list):
        return [replace_dtype(item) for item in value]
    if isinstance(value, TensorProto):
        value = numpy_helper.to_array(value)
    replacements = {"int4": np.int8, "int2": np.int8}
    replacements |= {"uint4": np.uint8, "uint2": np.uint8}
    dtype = None if value is None else replacements.get(value.dtype.name)
    return value if dtype is None else value.astype(dtype)


def check(name, prepare):
    """Run a test; raise AssertionError if an output differs from the expected one."""
    case = cases()[name]
    model, pairs = model_and_data(case)
    prepared = prepare(model)
    for inputs, outputs in pairs:
        found = list(prepared.run(list(inputs)))
        expected = [replace_dtype(value) for value in outputs]
        Runner.assert_similar_outputs(
            expected, found, **tolerances(name, case), model_dir=case.model_dir
        )
