"""Reads the golden cases: recorded results of TensorFlow.js (``data/README.md``).

A file is read when a case of its kernel is first used; a case is decoded when it is
first loaded.

Contents: ``Handle``, which is enough to collect tests; ``Case``; decoding;
``describe``; ``close``.
"""

from __future__ import annotations

import base64
import functools
import gzip
import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plugrad as pg

Array = np.ndarray[Any, Any]

DATA = Path(__file__).parent / "data"
KINDS = ("kernels", "gradients", "errors")
SPECIAL = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}

# Kernels that move, choose or compare values, without any rounding.
MOVERS = (
    "Abs BatchToSpaceND Ceil ClipByValue Complex Concat DepthToSpace Diag ExpandDims "
    "Fill FlipLeftRight Floor GatherNd GatherV2 Identity Imag Max Maximum MaxPool "
    "MaxPool3D MaxPoolWithArgmax Min Minimum MirrorPad Neg OneHot OnesLike Pack PadV2 "
    "Real Relu Relu6 Reshape ResizeNearestNeighbor Reverse Round Select Sign Slice "
    "SpaceToBatchND SparseToDense SplitV Step StridedSlice TensorScatterUpdate Tile "
    "TopK Transpose Unique Unpack ZerosLike"
)
EXACT = frozenset(MOVERS.split())


class Handle(NamedTuple):
    """Identifies a case before it is read; for errors of ops, ``kernel`` is the op."""

    kind: str
    kernel: str
    id: str

    def __str__(self) -> str:
        return f"{self.kernel}-{self.id}"

    def load(self) -> Case:
        """Return the case itself."""
        return _case(self)


@dataclass(frozen=True)
class Case:
    """A call and its result in TensorFlow.js; tensors are arrays, strings are bytes.

    Attributes:
        handle: The handle of the case.
        spec: The test of TensorFlow.js that made the call.
        inputs: By name, or a list.
        attrs: By the names of TensorFlow.js.
        args: By position; for errors of ops, instead of inputs and attrs.
        outputs: The outputs, for kernels.
        list_output: Whether the kernel returns a list, even of a single tensor.
        random: Whether the outputs are random; then only shape and dtype are recorded.
        suspect: Why the result is most likely a TensorFlow.js defect; "" if it is not.
        dys: The cotangents of the outputs; None for outputs without one.
        grads: Gradients of the floating inputs; list inputs are named "0", "1", ...
        checks: How each gradient compares with finite differences.
        error: The message of a call that must fail.

    """

    handle: Handle
    spec: str = ""
    inputs: dict[str, Any] | list[Any] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    args: list[Any] | None = None
    outputs: list[Array] = field(default_factory=list)
    list_output: bool = False
    random: bool = False
    suspect: str = ""
    dys: list[Array | None] = field(default_factory=list)
    grads: dict[str, Array] = field(default_factory=dict)
    checks: dict[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def arrays(self) -> list[Array]:
        """Every array of the case."""
        found: list[Array] = []
        _collect([self.inputs, self.args, self.outputs], found)
        return found

    @property
    def given(self) -> list[Array]:
        """Every array among the inputs."""
        found: list[Array] = []
        _collect(self.inputs, found)
        return found


def _collect(value: Any, into: list[Array]) -> None:
    if isinstance(value, np.ndarray):
        into.append(value)
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            _collect(part, into)


# --- finding ---------------------------------------------------------------------


@functools.cache
def names(kind: str) -> list[str]:
    """Return the kernels (and ops, for errors) that have cases of a kind."""
    if kind == "errors":
        return sorted(_errors())
    return sorted(p.name.removesuffix(".jsonl.gz") for p in (DATA / kind).iterdir())


@functools.cache
def handles(kind: str, kernel: str) -> list[Handle]:
    """Return the cases of a kernel, without those that cannot run yet."""
    return [h for h, line in _lines(kind, kernel).items() if not needs_strings(line)]


def needs_strings(line: str) -> bool:
    """Return whether a case needs strings that plugrad does not support yet."""
    return '"dtype":"string"' in line and not hasattr(pg, "string")


def unreached(
    kind: str, rows: Collection[str], excepted: Collection[Handle] = ()
) -> Counter[str]:
    """Count the cases that no test runs, by kernel, op or "(strings)"."""
    missing: Counter[str] = Counter()
    for kernel in names(kind):
        runnable = handles(kind, kernel)
        missing["(strings)"] += len(_lines(kind, kernel)) - len(runnable)
        if kernel not in rows:
            missing[kernel] += sum(handle not in excepted for handle in runnable)
    return +missing


def total(kind: str) -> int:
    """Return the number of cases of a kind."""
    return sum(len(_lines(kind, kernel)) for kernel in names(kind))


@functools.cache
def _lines(kind: str, kernel: str) -> dict[Handle, str]:
    lines = (
        _errors().get(kernel, [])
        if kind == "errors"
        else _read(DATA / kind / f"{kernel}.jsonl.gz")
    )
    start = len('{"id":"')
    return {Handle(kind, kernel, line[start : start + 16]): line for line in lines}


@functools.cache
def _errors() -> dict[str, list[str]]:
    """Return the lines of error cases by kernel (with a capital first letter) or op."""
    found: dict[str, list[str]] = {}
    for path in sorted((DATA / "errors").iterdir()):
        for line in _read(path):
            record = json.loads(line)
            found.setdefault(record.get("op") or record["kernel"], []).append(line)
    return found


def _read(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


# --- decoding --------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _case(handle: Handle) -> Case:
    line = json.loads(_lines(handle.kind, handle.kernel)[handle])
    decoded = {
        name: _decode(value, bare=name not in ("attrs", "args"))
        for name, value in line.items()
        if name not in ("id", "kernel", "op", "params")
    }
    return Case(handle, **decoded)


def _decode(value: Any, *, bare: bool) -> Any:
    """Decode a JSON value; tensors become arrays, at any depth.

    A tensor is either bare or, next to other values, written as ``{"tensor": ...}``.
    Undefined arguments at the end of a call are dropped; earlier ones become None.
    """
    if isinstance(value, list):
        while value and value[-1] == {"undefined": True}:
            value = value[:-1]
        return [_decode(v, bare=bare) for v in value]
    if isinstance(value, dict):
        if bare and "dtype" in value:
            return _tensor(**value)
        if value.keys() == {"tensor"}:
            return _tensor(**value["tensor"])
        if value.keys() == {"undefined"}:
            return None
        return {name: _decode(v, bare=bare) for name, v in value.items()}
    return SPECIAL.get(value, value) if isinstance(value, str) else value


def _tensor(shape: list[int], dtype: str, data: list[Any] | None = None) -> Array:
    if dtype == "string":
        array = np.empty(len(data or ()), object)
        array[:] = [
            v.encode() if isinstance(v, str) else base64.b64decode(v["base64"])
            for v in data or ()
        ]
        return array.reshape(shape)
    if data is None:  # the values are random
        return np.zeros(shape, dtype)
    with np.errstate(over="ignore"):
        parts = "float32" if dtype == "complex64" else dtype
        array = np.array([SPECIAL.get(v, v) for v in data], parts)
    return array.view(dtype).reshape(shape)


# --- showing ---------------------------------------------------------------------


def describe(case: Case) -> str:
    """Format a case for people: one line per input, attribute and cotangent.

    Large arrays are abbreviated.
    """
    given = case.inputs if isinstance(case.inputs, dict) else {"inputs": case.inputs}
    if case.args is not None:
        given = {f"argument {i}": value for i, value in enumerate(case.args)}
    cotangents = {f"dy {i}": dy for i, dy in enumerate(case.dys)}
    parts = {**given, **case.attrs, **cotangents}
    lines = [f"{name} = {_value(value)}" for name, value in parts.items()]
    return "\n  ".join([f"the case {case.handle} of {case.handle.kind}:", *lines])


def _value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        text = np.array2string(value, threshold=24, edgeitems=3, separator=", ")
        sizes = ", ".join(map(str, value.shape))
        return f"{value.dtype}[{sizes}] {text}".replace("\n", "")
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k!r}: {_value(v)}' for k, v in value.items())}}}"
    return repr(value)


# --- comparing -------------------------------------------------------------------


def close(actual: Array, expected: Array, rtol: float, atol: float) -> bool:
    """Return whether values agree; exactly, unless they are floating.

    Floating values may differ by ``rtol`` times the expected value, or times the
    largest one (at most 1e4) where that is more.
    """
    if actual.shape != expected.shape:
        return False
    if expected.dtype.kind not in "fc":
        return bool(np.array_equal(actual, expected))
    with np.errstate(all="ignore"):
        size = np.abs(expected).astype(np.float64)
        size = np.where(np.isfinite(size), size, 0)
        largest = min(size.max(initial=0), 1e4)
        bound = atol + rtol * np.maximum(size, largest)
        near = np.abs(actual.astype(np.complex128) - expected) <= bound
    both_nan = np.isnan(actual) & np.isnan(expected)
    return bool(np.all(near | (actual == expected) | both_nan))
