"""Valid calls of kernels, and invalid variants of them.

``rows/<family>.py`` contains one valid call of each kernel. Kernels that map the
elements of one input need no row: their contract is enough. ``misused`` derives invalid
calls: it replaces each attribute by values that are out of range, negative, huge, or of
a different type or length, and each input by one of a different rank, shape, dtype or
size. Some variants happen to be valid. ``outcome`` runs a call and returns its values
or error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import math
import pkgutil
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import plugrad as pg
from plugrad.plugin import Kernel, Spec, compared, contracts, same

Array = np.ndarray[Any, Any]


class Call(NamedTuple):
    """The inputs of a kernel and the attributes that a user would pass.

    Attributes:
        undefined: Pattern of the variants whose values the contract does not define,
            so that backends may differ.

    """

    inputs: list[Array | None]
    attrs: dict[str, Any]
    undefined: str = "$^"


def call(*inputs: Array | None, undefined: str = "$^", **attrs: Any) -> Call:
    """Return a valid call."""
    return Call(list(inputs), attrs, undefined)


def floats(*shape: int) -> Array:
    """Return a float32 input of distinct numbers between 0 and 1."""
    count = int(np.prod(shape))
    values = (np.arange(count) * 7 % max(count, 1) + 0.5) / max(count, 1)
    return values.astype(np.float32).reshape(shape)


def ints(*shape: int, below: int = 2) -> Array:
    """Return an int32 input with values from 0 to ``below - 1``."""
    return (np.arange(int(np.prod(shape))) % below).astype(np.int32).reshape(shape)


def bools(*shape: int) -> Array:
    """Return a bool input with both truth values."""
    return ints(*shape).astype(bool)


def complexes(*shape: int) -> Array:
    """Return a complex64 input."""
    return (floats(*shape) + 1j * floats(*shape)[..., ::-1]).astype(np.complex64)


def strings(*values: bytes | str) -> Array:
    """Return a vector of strings."""
    return np.array(values, object)


@functools.cache
def right_calls() -> dict[str, Call]:
    """Return one valid call of each kernel: from ``rows``, or with one array."""
    found = {n: call(floats(2, 3)) for n, k in contracts().items() if _is_unary(k)}
    package = importlib.import_module(f"{__name__}.rows")
    for module in pkgutil.iter_modules(package.__path__):
        found |= importlib.import_module(f"{package.__name__}.{module.name}").CALLS
    return found


def _is_unary(kernel: Kernel) -> bool:
    """Return whether a core kernel maps each element of its only input."""
    unary = len(kernel.inputs) == 1 and kernel.variadic is None and not kernel.attrs
    return unary and kernel.out in (same, compared) and "." not in kernel.name


# --- wrong calls -----------------------------------------------------------------

NUMBERS = (-1, 0, 1, 5, -7, 2**31, 2**40, 2**63, -(2**70), 1.5, float("nan"), 1j)
NON_NUMBERS = (True, None, "x", b"x", object(), (), [1], (-1,), (0, 0), (5,))
NON_NUMBERS += ({"a": 1}, [[]])
# Valid calls with gigabytes of output, which the rule for output shapes cannot predict.
HUGE = {("SparseFillEmptyRows", "input 2: values 2147483647")}
DTYPES = ("bool", "int32", "int64", "uint8", "float32", "float64", "complex64")


class Wrong(NamedTuple):
    """A call that may be invalid, with a description of the change."""

    what: str
    inputs: list[Any]
    attrs: dict[str, Any]


def misused(name: str) -> Iterator[Wrong]:
    """Yield calls of a kernel that are most likely invalid."""
    kernel = contracts()[name]
    right = right_calls()[name]
    yield Wrong("no inputs", [], right.attrs)
    yield Wrong("one input more", [*right.inputs, floats(2)], right.attrs)
    yield Wrong("an unknown attribute", right.inputs, right.attrs | {"nonsense": 1})
    for attr in right.attrs:
        remaining = {k: v for k, v in right.attrs.items() if k != attr}
        yield Wrong(f"without {attr}", right.inputs, remaining)
    for attrs in (right.attrs, _canonical(kernel, right)):
        for attr, value in attrs.items():
            for other in _other_attributes(value):
                what = f"{attr}={other!r}"
                yield Wrong(what, right.inputs, attrs | {attr: other})
        for i, x in enumerate(right.inputs):
            for what, other in _other_inputs(x):
                inputs = [*right.inputs[:i], other, *right.inputs[i + 1 :]]
                if (name, f"input {i}: {what}") not in HUGE:
                    yield Wrong(f"input {i}: {what}", inputs, attrs)


def _canonical(kernel: Kernel, right: Call) -> dict[str, Any]:
    """Return the attributes that implementations get; {} if the names are the same."""
    if kernel.canonicalize is None or {*right.attrs} == {*kernel.attrs}:
        return {}
    specs = [x if x is None else Spec(x.shape, x.dtype) for x in right.inputs]
    return kernel.canonicalize(*specs, **right.attrs)


def _other_attributes(value: Any) -> Iterator[Any]:
    """Yield replacements for an attribute."""
    yield from NUMBERS
    yield from NON_NUMBERS
    if isinstance(value, tuple | list) and value:
        yield value[:-1]
        yield (*value, value[-1])
        for i in range(len(value)):
            for other in (*NUMBERS, None, "x", (), (-1, -1), (2**40, 2**40)):
                yield (*value[:i], other, *value[i + 1 :])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from _altered_geometries(value)


def _altered_geometries(value: Any) -> Iterator[Any]:
    """Yield geometries with one field replaced, if they can be created."""
    for field in dataclasses.fields(value):
        for other in _other_attributes(getattr(value, field.name)):
            try:
                yield dataclasses.replace(value, **{field.name: other})
            except (ValueError, TypeError, OverflowError):
                continue  # refused when it is created


def _other_inputs(x: Array | None) -> Iterator[tuple[str, Any]]:
    """Yield replacements for an input."""
    yield "None", None
    yield "text", "x"
    yield "an object", object()
    if x is None:
        return
    yield "one axis more", x[None]
    yield "no axes", x.ravel()[:1].reshape(())
    if x.ndim:
        yield "one axis less", x[0]
    for axis in range(x.ndim):
        yield f"nothing along axis {axis}", np.take(x, [], axis)
        yield f"one less along axis {axis}", np.delete(x, -1, axis)
        longer = np.concatenate([x, np.take(x, [0], axis)], axis)
        yield f"one more along axis {axis}", longer
    for name in DTYPES:
        if x.dtype != name and x.dtype != object:
            with np.errstate(all="ignore"):
                yield name, np.real(x).astype(name)
    if x.dtype.kind == "i":
        limits = np.iinfo(x.dtype)
        for number in (-1, 7, min(limits.max, 2**31 - 1), max(limits.min, -(2**31))):
            yield f"values {number}", np.full_like(x, number)
    if x.dtype.kind == "f":
        for value in (np.nan, np.inf, -1.0, 1e30):
            yield f"values {value}", np.full_like(x, value)


def with_other_values(name: str) -> Iterator[tuple[str, Wrong]]:
    """Yield an input's name and a call in which the values of this input are replaced.

    Single elements become -1, 0 or 7. No matrix gets a single infinity, because LAPACK
    then does not always terminate.
    """
    kernel = contracts()[name]
    right = right_calls()[name]
    for key, at in kernel.places(len(right.inputs)).items():
        places = range(*at) if isinstance(at, tuple) else (at,)
        for i in places if key in kernel.inputs else ():
            x = right.inputs[i] if i < len(right.inputs) else None
            for what, other in _other_values(x):
                inputs = [*right.inputs[:i], other, *right.inputs[i + 1 :]]
                if (name, f"input {i}: {what}") not in HUGE:
                    yield key, Wrong(f"input {i}: {what}", inputs, right.attrs)


def _other_values(x: Array | None) -> Iterator[tuple[str, Array]]:
    """Yield arrays of the same shape and dtype."""
    if x is None or x.dtype.kind not in "iuf":
        return
    yield from [pair for pair in _other_inputs(x) if pair[0].startswith("values")]
    yield "values 0", np.zeros_like(x)
    if x.dtype.kind == "f":
        yield "values -1e30", np.full_like(x, -1e30)
    for place in sorted({0, x.size // 2, x.size - 1} & {*range(x.size)}):
        for value in (-1, 0, 7):
            other = np.array(x)
            other.reshape(-1)[place] = np.array(value).astype(x.dtype)
            yield f"element {place}: {value}", other


# --- outcomes --------------------------------------------------------------------

# Words of messages from Python and NumPy, which never occur in ours.
_PYTHON_MESSAGES = re.compile(
    r"unpack|has no attribute|not subscriptable|not iterable|unsupported operand|"
    r"operands could not be|index out of range|cannot reshape array|"
    r"takes \d+ positional|\(\) got an unexpected keyword|must be real number|ufunc '"
)
MAX_OUTPUT_ELEMENTS = 2**24  # larger outputs are not computed
REFUSED = (ValueError, TypeError, IndexError, OverflowError, MemoryError)


class Outcome(NamedTuple):
    """The resulting values or the error, and a complaint about its message."""

    values: list[Array] | None
    error: BaseException | None
    complaint: str


def outcome(name: str, wrong: Wrong) -> Outcome:
    """Run a call on the active backend; errors must be deliberate."""
    try:
        with _limit_output_size(contracts()[name]):
            found = pg.run_kernel(name, wrong.inputs, wrong.attrs)
        outputs = found if isinstance(found, tuple) else (found,)
        return Outcome([y.numpy() for y in outputs], None, "")
    except REFUSED as error:
        return Outcome(None, error, _complaint(str(error)))
    except (NotImplementedError, pg.BackendError) as error:
        return Outcome(None, error, "")


@contextlib.contextmanager
def _limit_output_size(kernel: Kernel) -> Iterator[None]:
    """Refuse valid outputs that would take gigabytes."""
    rule = kernel.out

    def out(*inputs: Spec | None, **attrs: Any) -> Any:
        found = rule(*inputs, **attrs) if rule else None
        outputs = [found] if isinstance(found, Spec) else found or ()
        if any(math.prod(y.shape) > MAX_OUTPUT_ELEMENTS for y in outputs):
            raise MemoryError(f"{kernel.name}: the output is too large for a test")
        return found

    kernel.out = out
    try:
        yield
    finally:
        kernel.out = rule


def _complaint(message: str) -> str:
    """Return a complaint if a message names no op or is from Python itself."""
    if not re.match(r"[\w.]+: ", message):
        return "the message does not begin with the name of a kernel or an op"
    if raw := _PYTHON_MESSAGES.search(message):
        return f"the message is Python's own ({raw[0]!r})"
    return ""
