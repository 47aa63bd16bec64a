"""Conversion of arguments to tensors, and promotion of dtypes.

Contents: ``asarray``; ``unary``, ``floating_unary``, ``elementwise`` and ``reduction``,
which convert arguments and run a kernel in one call (C accelerators may replace them);
``floating``, ``real``, ``integer_tensor`` and ``promote_all`` for all other ops; weak
scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, isfinite
from typing import Any, Literal, TypeVar, Unpack, cast

import numpy as np

from plugrad import geometry
from plugrad._src.engine.accelerated import accelerated
from plugrad._src.engine.context import Scope, current, lifted, notify
from plugrad._src.engine.dispatch import active, run, to
from plugrad._src.registry.backend import share
from plugrad._src.registry.contract import Kernel, Spec
from plugrad._src.registry.registry import registry
from plugrad._src.tensor.arguments import flag, misfit
from plugrad._src.tensor.dtypes import (
    DTYPES,
    INT32,
    LIMITS,
    STRING,
    DType,
    canonical,
    check_range,
    dtype_kind,
    dtype_of,
    named,
    promote,
    weak,
)
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import binary, creation, shape, variable

__all__ = ["asarray"]

Shaped = TypeVar("Shaped", Tensor, Spec)
_KINDS = dict(b="bool", i="integers", f="floating", c="complex numbers", O="strings")
INT64 = DTYPES["int64"]
INT64_MAX = np.iinfo(np.int64).max
PLAIN = frozenset({bool, int, float, complex, str, bytes, list, tuple})
SCALARS = (bool, int, float, complex, np.number, np.bool_)


def asarray(
    value: TensorLike,
    /,
    *,
    dtype: Any = None,
    device: str | None = None,
    copy: bool | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``value`` as a tensor on the active backend.

    Without ``dtype``, Python numbers become float32, int32, bool or complex64, NumPy
    arrays keep their dtype, and text becomes ``plugrad.string``, encoded as UTF-8. With
    ``dtype``, values that have a dtype (tensors, NumPy arrays and scalars) are
    converted as by ``astype``; Python numbers have none, so ``dtype`` must be able to
    represent them. Converting to integers drops the fraction.

    Args:
        value: A tensor or variable (returned unchanged); a number; nested lists of
            numbers and tensors, which are stacked with their gradients; a NumPy array
            or an object that NumPy converts to one; an object whose method
            ``__plugrad_tensor__()`` returns a tensor, which keeps its gradient; or
            ``str`` and ``bytes`` in place of numbers.
        dtype: The dtype of the result.
        copy: None returns a tensor unchanged and copies an array. True copies both; on
            cpu, wasm and opencl the result is then in C order, whatever the strides of
            ``value`` are. False shares the memory of an array if the backend can do so;
            do not write to the array afterwards.
        device: The backend on which the tensor is made; by default the active one.

    Returns:
        A tensor.

    Raises:
        TypeError: The dtype is unknown or the backend lacks it, strings are mixed with
            numbers, Python complex numbers would become real, or an array has masked
            elements.
        ValueError: The nested lists differ in length.
        OverflowError: The dtype cannot represent a Python number.

    Example:
        >>> pg.asarray([[1, 2], [3, 4]])
        Tensor([[1, 2],
                [3, 4]], dtype=int32, backend='cpu')
        >>> pg.asarray([1, 2], dtype="float32")
        Tensor([1., 2.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(asarray, unknown)
    if device is not None:
        return call_on_device(device, asarray, value, dtype=dtype, copy=copy)
    if type(value) is Tensor and dtype is None and not copy:
        return value
    x = tensor_of(value, dtype=dtype, copy=copy)
    if copy is False and x is not value:  # the owner of the array may still write to it
        share(x._data)
    return x


def tensor_of(value: Any, *, dtype: Any = None, copy: bool | None = None) -> Tensor:
    """Return ``asarray(value)``; with ``copy=False`` the tensor owns the array."""
    if isinstance(value, Tensor):
        y = value if dtype is None else creation.cast(value, dtype)
        return creation.identity(y) if copy else y
    if isinstance(value, variable.Variable):
        return asarray(value.value, dtype=dtype)  # ``value.value`` is already an alias
    backend = active()
    is_array = isinstance(value, np.ndarray | np.generic)
    if not is_array and _holds_tensor(value):
        return asarray(value.__plugrad_tensor__(), dtype=dtype, copy=copy)
    if is_array or hasattr(value, "__array__"):
        given = array_of("asarray", value)
        text = dtype_kind(given.dtype) in "SUTO"
        own = STRING if text else given.dtype
        wanted = canonical(own if dtype is None else dtype)
        if text or wanted is STRING:
            array = _bytes_array(given, wanted)
        else:
            array = _cast(given, wanted, copy is not False)
    elif isinstance(value, list | tuple) and _has_tensors(value):
        return _stacked(value, dtype)
    else:
        array = _parsed(value, dtype)
    if array.dtype is STRING and STRING not in backend.dtypes:
        error = TypeError(f"asarray: backend {backend.name!r} has no strings")
        raise explained(error, "backend-lacks-the-dtype")
    x = Tensor(backend.upload(array), backend)
    return notify_created(x) if current().observers else x


def call_on_device(
    device: str, make: Callable[..., Tensor], *args: Any, **named: Any
) -> Tensor:
    """Call an op, and return its result on ``device``, which is a backend name."""
    backend = lifted(registry.open(device, f"{make.__name__}: device"))
    with Scope(backend=backend):
        return to(make(*args, **named), backend.name)  # make may return its argument


def notify_created(x: Tensor) -> Tensor:
    """Notify observers of ``x``, a tensor that no kernel computed, and return it."""
    notify("made", x)
    return x


def array_of(op: str, value: Any) -> np.ndarray[Any, DType]:
    """Return ``value`` as a NumPy array; raise if it has masked elements."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        hint = "fill them, x.filled(0), and keep the mask as a second tensor"
        raise TypeError(f"{op}: a tensor has no masked elements; {hint}")
    array = np.asarray(value)
    if array.dtype == STRING and not array.shape and array[()] is value:
        raise _foreign_array_error(op, value)
    return array


def _foreign_array_error(op: str, x: object) -> TypeError:
    """Return the error for another library's array, which NumPy cannot convert."""
    return TypeError(
        f"{op}: cannot make a tensor of {type(x).__name__}, an array of "
        f"{type(x).__module__}; convert it with plugrad.from_dlpack"
    )


def _cast(given: np.ndarray[Any, Any], wanted: DType, copy: bool) -> Any:
    """Return an array converted to ``wanted``, by the rules of the kernel Cast."""
    order: Literal["C", "K"] = "C" if copy else "K"
    with np.errstate(all="ignore"):
        if dtype_kind(given.dtype) == "c" and dtype_kind(wanted) not in "cb":
            given = given.real
        if dtype_kind(given.dtype) == "f" and dtype_kind(wanted) in "iu":
            return _truncated(np.asarray(given, order=order), wanted)
        return np.array(given, wanted, copy=True if copy else None, order=order)


def _truncated(given: np.ndarray[Any, Any], wanted: DType) -> Any:
    """Truncate to integers; out-of-range values wrap in the same way on any CPU."""
    x = np.trunc(given.astype(np.float64))
    low, high = LIMITS[wanted]
    if ((x >= low) & (x < float(high + 1))).all():
        return x.astype(wanted)
    x = np.where(np.isfinite(x), np.fmod(x, 2.0**64), 0)
    x = np.where(x >= 2.0**63, x - 2.0**64, x)
    return np.where(x < -(2.0**63), x + 2.0**64, x).astype(np.int64).astype(wanted)


def _parsed(value: Any, dtype: Any) -> np.ndarray[Any, DType]:
    """Return a Python number, or nested lists of numbers, as an array."""
    try:
        given = np.asarray(value)
    except UnicodeDecodeError:  # bytes and str are mixed
        given = np.asarray(value, object)
    except ValueError:
        raise ValueError(
            "asarray: the nested lists differ in length; a tensor is rectangular"
        ) from None
    if (
        dtype_kind(given.dtype) == "f"
        and (whole := _exact_integers(value, given)) is not None
    ):
        wanted = canonical(int if dtype is None else dtype)
        for end in (whole.min(), whole.max()):
            check_range("asarray", end, wanted)
        return whole.astype(wanted)
    if dtype_kind(given.dtype) in "SU":  # dtypes S and U drop trailing zero bytes
        given = np.asarray(value, object)
    elif dtype_kind(given.dtype) not in "biufcO":
        raise TypeError(f"asarray: cannot make a tensor of {type(value).__name__}")
    text = given.dtype is STRING
    own = STRING if text else type(given.dtype.type().item())
    wanted = canonical(own if dtype is None else dtype)
    if text or wanted is STRING:
        return _bytes_array(given, wanted)
    if dtype_kind(given.dtype) == "c" and dtype_kind(wanted) != "c":
        raise TypeError(f"asarray: {wanted} cannot hold complex numbers")
    for end in (
        _extremes(given.reshape(-1).view(given.real.dtype)) if given.size else ()
    ):
        check_range("asarray", end, wanted)
    return given.astype(wanted)


def _exact_integers(
    value: Any, given: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any] | None:
    """Return exact integers if NumPy has converted integers to float64, else None.

    NumPy does so for a list of integers of which only some fit into int64.
    """
    if not given.size or not given.max() >= 2.0**63:
        return None
    exact = np.asarray(value, object)
    return exact if all(isinstance(v, int) for v in exact.flat) else None


def _extremes(x: np.ndarray[Any, Any]) -> list[float]:
    """Return the least and greatest number, and then those of the finite numbers."""
    ends = [x.min().item(), x.max().item()]
    if all(map(isfinite, ends)):
        return ends
    finite = x[np.isfinite(x)]
    return ends + ([finite.min().item(), finite.max().item()] if finite.size else [])


def _bytes_array(given: np.ndarray[Any, Any], wanted: DType) -> np.ndarray[Any, DType]:
    """Return an array of str or bytes, of any NumPy dtype, as an array of bytes."""
    values = given.astype(object).ravel().tolist()
    parts = [v.encode() if isinstance(v, str) else v for v in values]
    odd = [part for part in parts if not isinstance(part, bytes)]
    odd.sort(key=lambda part: isinstance(part, int | float | complex))
    if odd and isinstance(odd[0], int) and odd[0].bit_length() > 63:
        raise OverflowError(f"asarray: {odd[0]} does not fit into 64 bits")
    if odd and hasattr(odd[0], "__dlpack__"):
        raise _foreign_array_error("asarray", odd[0])
    if odd:
        raise TypeError(
            f"asarray: cannot make a tensor of {type(odd[0]).__name__}; elements "
            "must be all str or bytes, or all numbers of a supported dtype"
        )
    if wanted is not STRING:
        raise TypeError(
            f"asarray: cannot convert strings to {wanted}; parse them first"
        )
    array = np.empty(len(parts), STRING)
    array[:] = [bytes(part) for part in parts]
    return array.reshape(given.shape)


def _has_tensors(values: Any, depth: int = 1) -> bool:
    if depth > 64:  # NumPy allows at most 64 axes; a list may contain itself
        raise ValueError("asarray: lists are nested more than 64 deep")
    return any(
        _has_tensors(value, depth + 1)
        if isinstance(value, list | tuple)
        else isinstance(value, Tensor | variable.Variable) or _holds_tensor(value)
        for value in values
    )


def _holds_tensor(value: Any) -> bool:
    """Return whether an object of another library has a tensor of plugrad."""
    return type(value) not in PLAIN and hasattr(value, "__plugrad_tensor__")


def _stacked(values: Any, dtype: Any) -> Tensor:
    """Stack nested lists that contain tensors; their gradients are kept."""
    kinds = (bool, int, float, complex)  # scalars are weak here, as in arithmetic
    parts = [v if isinstance(v, kinds) else asarray(v, dtype=dtype) for v in values]
    tensors = promote_all("asarray", *parts)
    if len({x.shape for x in tensors}) > 1:
        shapes = ", ".join(str(x.shape) for x in tensors)
        raise ValueError(
            f"asarray: tensors in a list must have one shape, got {shapes}; use concat"
        )
    y = shape.stack(tensors)
    return y if dtype is None else creation.cast(y, dtype)


# --- convert and run -------------------------------------------------------------


@accelerated
def unary(kernel: Kernel, x: TensorLike) -> Tensor:
    """Run a kernel of one argument of any dtype."""
    return run(kernel, asarray(x))


@accelerated
def floating_unary(kernel: Kernel, x: TensorLike, kinds: str = "fc") -> Tensor:
    """Run a kernel of one floating argument; integers become float32.

    ``kinds="f"`` rejects complex numbers.
    """
    return run(kernel, floating(kernel.op, x, kinds))


@accelerated
def elementwise(
    kernel: Kernel, a: TensorLike, b: TensorLike, kinds: str = ""
) -> Tensor:
    """Promote and broadcast two arguments, and run a kernel on them.

    ``kinds`` lists the kinds of dtypes for which the op is defined, as NumPy's letters;
    an empty string stands for bool and all numbers.
    """
    if type(a) is not Tensor or type(b) is not Tensor or a.dtype is not b.dtype:
        a, b = promote_and_broadcast(kernel.op, a, b)
    elif a.shape and b.shape and a.shape != b.shape:
        geometry.broadcast(kernel.op, a.shape, b.shape)
    kinds = kinds or "biufc"
    if dtype_kind(a.dtype) not in kinds:
        raise kind_error(kernel, a.dtype, kinds)
    return run(kernel, a, b)


def kind_error(kernel: Kernel, dtype: DType, kinds: str) -> TypeError:
    """Return the error for a ``dtype`` whose kind is not among ``kinds``."""
    known = ", ".join(name for kind, name in _KINDS.items() if kind in kinds)
    got = "string" if dtype is STRING else f"{dtype}; cast with astype"
    return TypeError(f"{kernel.op}: is defined for {known}, got {got}")


@accelerated
def reduction(
    kernel: Kernel, x: Tensor, axis: tuple[int, ...], keepdims: bool
) -> Tensor:
    """Run a reduction over ``axis``, which is sorted and non-negative."""
    return run(kernel, x, axis=axis, keepdims=flag(kernel.op, "keepdims", keepdims))


# --- convert ---------------------------------------------------------------------


def floating(op: str, value: TensorLike, kinds: str = "fc") -> Tensor:
    """Return ``value`` as a floating tensor; integers and bool become float32."""
    x = value if type(value) is Tensor else asarray(value)
    if dtype_kind(x.dtype) in kinds:
        return x
    if dtype_kind(x.dtype) == "c":
        raise TypeError(f"{op}: there is no {op} of complex numbers ({x.dtype})")
    return creation.cast(numbers(op, x), "float32")


def numbers(op: str, value: TensorLike) -> Tensor:
    """Return ``value`` as a tensor of numbers or bool; reject strings."""
    x = value if type(value) is Tensor else asarray(value)
    if x.dtype is STRING:
        raise TypeError(f"{op}: there is no {op} of strings")
    return x


def real(op: str, value: TensorLike) -> Tensor:
    """Return ``value`` as a tensor of real numbers or bool; reject complex numbers."""
    x = numbers(op, value)
    if dtype_kind(x.dtype) == "c":
        raise TypeError(
            f"{op}: complex numbers have no order ({x.dtype}); take abs(x) or real(x)"
        )
    return x


def integer_tensor(op: str, name: str, value: TensorLike) -> Tensor:
    """Return ``value`` as a tensor of int32, or of int64 if its values need it.

    On a backend without int64, numbers that do not fit into int32 become its least or
    greatest number; as an index, either is out of range for every axis.

    Raises:
        TypeError: ``value`` does not contain integers.

    """
    known = on_host(op, name, value)
    if known is not None and known.dtype != INT32:
        known = np.clip(known, *LIMITS[widest()]).astype(widest())
    # An array of the user's may change while a tape keeps the tensor.
    may_share = None if hasattr(value, "dtype") else False
    x = tensor_of(value if known is None else known, copy=may_share)
    if x.dtype is INT32 or x.dtype is INT64:
        return x
    if dtype_kind(x.dtype) not in "iu":
        raise _no_integers(op, name, x.dtype)
    if np.can_cast(x.dtype, INT32):
        return creation.cast(x, INT32)
    if not np.can_cast(x.dtype, widest()):
        x = binary.minimum(x, LIMITS[widest()][1])
    return creation.cast(x, widest())


def widest() -> DType:
    """Return int64, or int32 if the active backend has no int64."""
    return INT64 if INT64 in active().dtypes else INT32


def on_host(op: str, name: str, value: Any) -> np.ndarray[Any, DType] | None:
    """Return integers that are known on the host; None for a tensor."""
    if isinstance(value, Tensor | variable.Variable):
        return None
    array = array_of(op, value) if hasattr(value, "dtype") else listed(value)
    if dtype_kind(array.dtype) not in "iu":
        raise _no_integers(op, name, array.dtype)
    if array.dtype != INT32:
        if array.dtype == np.uint64:  # large numbers must not wrap
            array = np.minimum(array, INT64_MAX)
        narrow = array.astype(INT32)
        array = narrow if (narrow == array).all() else array.astype(INT64)
    return array


def listed(value: Any) -> np.ndarray[Any, DType]:
    """Return Python numbers as an array; an empty list becomes an int32 array."""
    array = _parsed(value, None)
    return array if array.size else array.astype(INT32)


def _no_integers(op: str, name: str, dtype: DType) -> TypeError:
    what = f"{op}: {name} must be integers"
    return TypeError(f"{what}, got {named(dtype)}; cast with astype")


def check_broadcast(op: str, name: str, x: Shaped, wanted: geometry.Shape) -> Shaped:
    """Return ``x`` if it broadcasts to ``wanted``; ``name`` is its name in messages."""
    if geometry.broadcast(op, x.shape, wanted) != wanted:
        raise misfit(op, f"{name} must broadcast to {wanted}", x)
    return x


def promote_all(op: str, *values: TensorLike) -> list[Tensor]:
    """Return all values as tensors of their promoted dtype; scalars are weak."""
    tensors = [v for v in values if type(v) is Tensor]
    if len(tensors) == len(values) and len({x.dtype for x in tensors}) == 1:
        return tensors
    known: list[Any] = [v if isinstance(v, SCALARS) else asarray(v) for v in values]
    strong = [x for x in known if isinstance(x, Tensor)]
    if not strong:  # with scalars only, their own dtypes are promoted
        known = strong = [_scalar_of_own_dtype(op, v) for v in known]
    dtype = strong[0].dtype
    for x in strong[1:]:
        dtype = promote(op, dtype, x.dtype)
    for v in known:
        if not isinstance(v, Tensor):
            dtype = promote(op, dtype, weak(op, v, dtype))
    return [
        creation.cast(v, dtype) if isinstance(v, Tensor) else scalar(op, v, dtype)
        for v in known
    ]


def _scalar_of_own_dtype(op: str, value: Any) -> Tensor:
    """Return a scalar as a tensor; Python scalars come from the cache."""
    if isinstance(value, np.generic):
        return asarray(value)
    return scalar(op, value, dtype_of(value))


def promote_and_broadcast(
    op: str, a: TensorLike, b: TensorLike
) -> tuple[Tensor, Tensor]:
    """Return both arguments in one dtype; raise unless their shapes broadcast."""
    if type(a) is Tensor and (type(b) is float or type(b) is int):
        other = scalar(op, b, a.dtype)
        if other.dtype is a.dtype:
            return a, other
    elif type(b) is Tensor and (type(a) is float or type(a) is int):
        other = scalar(op, a, b.dtype)
        if other.dtype is b.dtype:
            return other, b
    if type(b) is Tensor or not isinstance(b, SCALARS):
        a, b = promote_pair(op, a, asarray(b))
    elif not isinstance(a, SCALARS):
        b, a = promote_pair(op, b, asarray(a))
    else:
        a, b = promote_all(op, a, b)
    if a.shape and b.shape and a.shape != b.shape:
        geometry.broadcast(op, a.shape, b.shape)
    return a, b


def promote_pair(op: str, value: TensorLike, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``value`` and ``x`` as tensors of the same dtype; a scalar is weak."""
    other = scalar(op, value, x.dtype) if isinstance(value, SCALARS) else asarray(value)
    if other.dtype is x.dtype:
        return other, x
    dtype = promote(op, other.dtype, x.dtype)
    return creation.cast(other, dtype), creation.cast(x, dtype)


def scalar(op: str, value: complex | np.generic, other: DType) -> Tensor:
    """Return a scalar as a tensor, weak with respect to the dtype ``other``.

    Each backend caches its scalars. -0.0 is not cached, because it equals 0.0 and a
    lookup would find that tensor; nor is NaN, because a lookup would never find it.
    """
    backend = active()
    plain = cast("complex", value)
    key = (plain, type(value), other.num)
    negative_zero = not plain and -1 in (
        copysign(1, plain.real),
        copysign(1, plain.imag),
    )
    found = None if negative_zero else backend.scalars.get(key)
    if found is None:
        array = np.asarray(value, weak(op, value, other))
        found = Tensor(backend.upload(array), backend)
        if plain == plain and not negative_zero:
            # Limit the cache: a decaying learning rate adds a scalar in every step.
            if len(backend.scalars) >= 4096:
                backend.scalars = {}
            backend.scalars[key] = found
    return found
