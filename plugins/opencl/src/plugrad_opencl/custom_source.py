"""The OpenCL C of custom kernels: an expression, or a whole kernel with parameters.

Contents: ``body``, the function of an elementwise kernel; ``Source``, a whole kernel;
``number`` and ``working_dtype``, for values and dtypes.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from plugrad.plugin import Kernel

from . import source
from .arrays import ClArray, DType
from .runtime import Launch

FAST = "cos|erf|erfc|exp|expm1|fmod|log|log1p|pow|sin|tan|tanh"  # see cl/math.cl
_SKIPPED = {"__global", "global", "__constant", "constant", "const", "volatile"}
_SKIPPED |= {"restrict", "__restrict"}
_HEAD = re.compile(
    r"\b(?:__)?kernel\b[^;{]*?\bvoid\s+(?:__attribute__\s*\(\(.*?\)\)\)?\s*)?"
    r"(\w+)\s*\(([^)]*)\)\s*\{"
)
_HEADER = """\
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif"""


def without_comments(code: str) -> str:
    """Return code in which spaces replace comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", code, flags=re.DOTALL)


def _relined(contract: Kernel, code: str) -> str:
    """Return code whose lines are numbered from 1 in the compiler's log."""
    return f'\n#line 1 "{contract.name}"\n{code}\n'


def body(contract: Kernel, code: str, kind: str) -> str:
    """Return the body of the C function that computes one element.

    ``exp`` and similar functions are replaced by those in ``cl/math.cl``, which
    compilers vectorize.
    """
    if kind == "f":
        code = re.sub(rf"\b({FAST})(?=\s*\()", r"f_\1", code)
    number = "float" if kind == "c" else "S"
    (y,) = contract.outputs
    given = " ".join(f"const {number} {a} = {a}_;" for a in contract.attrs)
    return f"{given} Y {y};{_relined(contract, code)};\nreturn {y};\n"


class Parameter(NamedTuple):
    """A parameter of the function: ``__global const float *x``, or ``long x_size``."""

    type: str
    pointer: bool
    name: str

    def fits(self, dtype: DType, names: Mapping[str, DType]) -> bool:
        """Return whether the pointer may point to elements of ``dtype``."""
        if self.type in names:
            return source.C[names[self.type]] == source.C[dtype]
        return source.C[dtype] in (self.type, re.sub(r"\d+$", "", self.type))


class Source:
    """A whole kernel: its programs by device and dtypes."""

    def __init__(self, contract: Kernel, code: str, group: int) -> None:
        self.contract = contract
        self.code = code
        self.group = group
        self.arrays = contract.inputs + contract.outputs
        what = f"source_kernel: {contract.name}"
        heads = _HEAD.findall(without_comments(code))
        if len(heads) != 1:
            names = ", ".join(name for name, _ in heads) or "none"
            raise ValueError(
                f"{what}: write one function, '__kernel void name(...) {{', not {names}"
            )
        ((self.function, listed),) = heads
        self.parameters = [_parameter(what, text) for text in listed.split(",")]
        missing = set(self.arrays) - {p.name for p in self.parameters}
        problems = [
            f"parameter {p.name!r} {why}"
            for p in self.parameters
            if (why := self._problem(p))
        ]
        if missing:
            problems.append(f"there is no parameter for {', '.join(sorted(missing))}")
        if problems:
            raise ValueError(f"{what}: {self.function}: {'; '.join(problems)}")
        self._ready: dict[Any, Launch] = {}

    def _problem(self, p: Parameter) -> str:
        """Return the problem with a parameter; empty if there is none."""
        arrays, attrs = self.arrays, self.contract.attrs
        size = re.fullmatch(r"(\w+?)_(?:size|shape\d+)", p.name)
        number = p.name in attrs or (size is not None and size[1] in arrays)
        if p.name not in arrays and not number:
            known = [*arrays, *attrs, *(f"{a}_size" for a in arrays)]
            return f"is none of {', '.join(known)}, {arrays[0]}_shape0..."
        if p.pointer is number:
            return f"must be {'a number' if number else 'a pointer'}"
        types = {"T", *(f"{a}_t" for a in arrays), *source.DTYPES}
        if {p.type, re.sub(r"\d+$", "", p.type) if p.pointer else ""} & types:
            return ""
        return f"has the type {p.type!r}; use one of {', '.join(sorted(types))}"

    def launch(
        self, device: Any, count: int, arrays: list[ClArray], attrs: dict[str, Any]
    ) -> None:
        """Enqueue the kernel; ``arrays`` are in the order of the contract."""
        by_name = dict(zip(self.arrays, arrays, strict=True))
        types = {f"{n}_t": x.dtype for n, x in by_name.items()}
        types["T"] = working_dtype([x.dtype for x in arrays])
        values: list[Any] = []
        scalars: list[Any] = []
        for p in self.parameters:
            if p.pointer:
                x = by_name[p.name]
                if not p.fits(x.dtype, types):
                    raise TypeError(
                        f"{self.contract.op}: {p.name} is {x.dtype}, but the kernel "
                        f"takes {p.type}; cast it, or declare it as {p.name}_t"
                    )
                values.append(x.buffer)
                scalars.append(None)
            else:
                dtype = types.get(p.type) or source.DTYPES[p.type]
                values.append(self._number(p, dtype, by_name, attrs))
                scalars.append(dtype.type)
        key = (device, tuple(types.values()))
        ready = self._ready.get(key)
        if ready is None:
            typedefs = [f"typedef {source.C[d]} {n};" for n, d in types.items()]
            text = "\n".join([_HEADER, *typedefs]) + _relined(self.contract, self.code)
            group = self.group
            ready = device.kernel(text, self.function, scalars, group=group)
            self._ready[key] = ready
        size = max(count, *[x.size for x in arrays])
        ready(size, -(-count // self.group) * self.group, *values)

    def _number(
        self, p: Parameter, dtype: DType, arrays: dict[str, ClArray], attrs: Any
    ) -> Any:
        """Return the value of a numeric parameter."""
        if p.name not in attrs:
            name, _, what = p.name.rpartition("_")
            if what == "size":
                return arrays[name].size
            axis = int(what.removeprefix("shape"))
            shape = arrays[name].shape
            if axis < len(shape):
                return shape[axis]
            raise ValueError(
                f"{self.contract.op}: the kernel takes {p.name}, but {name} has shape "
                f"{shape}"
            )
        return number(self.contract, p.name, attrs[p.name], dtype)


def number(contract: Kernel, name: str, value: Any, dtype: DType) -> Any:
    """Return an attribute as a number of a dtype, or raise a TypeError."""
    try:
        exact = operator.index(value) if dtype.kind in "iu" else float(value)
        return dtype.type(exact).item() if dtype.kind != "c" else exact
    except (TypeError, ValueError, OverflowError):
        raise TypeError(
            f"{contract.op}: {name}={value!r} is not a number of type {source.C[dtype]}"
        ) from None


@functools.cache
def _parameter(what: str, text: str) -> Parameter:
    words = [w for w in re.findall(r"\w+|\*", text) if w not in _SKIPPED]
    if len(words) == 3 and words[1] == "*":
        return Parameter(words[0], True, words[2])
    if len(words) == 2 and "*" not in words:
        return Parameter(words[0], False, words[1])
    raise ValueError(
        f"{what}: cannot read the parameter {text.strip()!r}; write "
        "'__global const T *x' or 'long x_size', and __local arrays in the body"
    )


def working_dtype(dtypes: Sequence[DType]) -> DType:
    """Return the dtype of ``T``: the first that is not bool."""
    return next((d for d in dtypes if d.kind != "b"), dtypes[0])
