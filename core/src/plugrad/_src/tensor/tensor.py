"""``Tensor``: a handle on a native array that some backend owns.

Several handles may share one array and one identity: the handle that a tape saves is
the same tensor as the user's, and so is a cached copy on another backend. A handle has
no identity until a tape watches it; the first tape gives it a tape_id. ``x[index] =
value`` gives a handle another array and identity, and changes no array.

Contents: the home of disposed tensors; ``TapeId``; ``Tensor``; arguments of ops.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any, ClassVar, Never, Protocol

import numpy as np

from . import dlpack
from .dtypes import BFLOAT16, DType, dtype_kind, named
from .explained import explained
from .methods import Methods

Native = Any  # whatever a backend computes with: it has ``.shape`` and ``.dtype``


class Home(Protocol):
    """The part of a backend that its tensors use."""

    name: str
    runtime: Any  # whose ``arrays`` may have ``to_dlpack``
    depth: int  # the number of ``vmap`` calls around it

    def download(self, native: Native) -> np.ndarray[Any, DType]:
        """Return the values."""

    def lend(self, native: Native) -> Any:
        """Return an object that shares the memory by DLPack; None if impossible."""


class _Nowhere:
    """The home of disposed tensors, which is not a backend."""

    name = "nowhere"
    runtime = None
    depth = 0

    def download(self, native: Native) -> np.ndarray[Any, DType]:
        raise ValueError("this tensor has been disposed; its values are gone")

    def lend(self, native: Native) -> Any:
        raise ValueError("this tensor has been disposed; its values are gone")


NOWHERE: Home = _Nowhere()
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")  # of the array API
MADE_BY_BACKENDS = (
    "Tensor: backends make tensors; write plugrad.asarray(values, dtype=...)"
)
HOST = (1, 0)  # the device of host memory in DLPack


class TapeId:
    """The identity of a tensor for tapes, with its shape and dtype.

    Tapes compare identities by ``is``, so each object stands for one tensor.
    """

    __slots__ = ("dtype", "shape")  # set by the caller: __init__ is too slow

    shape: tuple[int, ...]
    dtype: DType


class Tensor(Methods):
    """An n-dimensional array of one dtype, on one backend.

    Python's operators, indexing and NumPy's conversions work, and ops are methods:
    ``x.sum(axis=0)``. ``asarray`` makes tensors of numbers, lists and arrays.
    ``x[index] = value`` gives ``x`` a new value; tapes, and tensors computed from ``x``
    earlier, keep the old one.

    Example:
        >>> x = pg.asarray([[1.0, 2.0], [3.0, 4.0]])
        >>> x.shape, x.ndim, x.size, x.dtype.name
        ((2, 2), 2, 4, 'float32')
        >>> x[0] + 1.0
        Tensor([2., 3.], dtype=float32, backend='cpu')
        >>> (x @ x).tolist()
        [[7.0, 10.0], [15.0, 22.0]]

    """

    __slots__ = (
        "__weakref__",
        "_cached_copies",
        "_data",
        "_dtype",
        "_gone",
        "_home",
        "_shape",
        "_tape_id",
    )
    _gone: str  # why the handle is empty; only ``_empty`` sets it
    __array__: ClassVar[Callable[..., np.ndarray[Any, DType]]]  # ops/operators.py
    __array_ufunc__: ClassVar[Any]  # ops/operators.py sets it
    # autodiff/mistakes.py sets it; the second argument names the reader, for messages.
    _notice_read: ClassVar[Callable[[Tensor, str], None]]
    __hash__: ClassVar[Callable[[object], int]] = object.__hash__

    to: ClassVar[Callable[[Tensor, str], Tensor]]  # ops/operators.py sets it

    def __init__(self, data: Native, home: Home | None = None, **others: Never) -> None:
        if home is None or others:
            raise TypeError(MADE_BY_BACKENDS)
        self._data = data
        self._home = home
        try:
            self._dtype: DType = data.dtype
            self._shape: tuple[int, ...] = data.shape
        except AttributeError:
            if hasattr(home, "runtime"):
                raise
            raise TypeError(MADE_BY_BACKENDS) from None  # such as Tensor(2, 3)
        self._tape_id: TapeId | None = None
        # Backend -> the array that was copied, and the copy on that backend.
        self._cached_copies: dict[Home, tuple[Native, Native]] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes, a tuple of int."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The dtype, a ``numpy.dtype``."""
        return self._dtype

    @property
    def backend(self) -> str:
        """The name of the backend that holds the values."""
        return self._alive().name

    @property
    def device(self) -> str:
        """The name of the backend, which the array API standard calls the device."""
        return self.backend

    def to_device(self, device: str, /, *, stream: None = None) -> Tensor:
        """Return the tensor on a device: ``x.to(device)``.

        Raises:
            BackendUnavailable: There is no such device.
            ValueError: A stream is given; plugrad has none.

        """
        if stream is not None:
            raise ValueError(
                f"to_device: plugrad has no streams, got {stream!r}; leave it out"
            )
        return self.to(device)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """Return ``plugrad``, which is a namespace of the array API standard."""
        if api_version is not None and api_version not in VERSIONS:
            raise ValueError(
                f"__array_namespace__: unknown api_version {api_version!r}; plugrad "
                f"follows {', '.join(VERSIONS)}"
            )
        return import_module("plugrad")

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for n in self.shape:
            size *= n
        return size

    def numpy(self) -> np.ndarray[Any, DType]:
        """Return the values as a NumPy array, read-only where the memory is shared.

        No gradient flows through the array, so ``debug`` raises an error if the tensor
        is being differentiated. To read the values on purpose, write
        ``stop_gradient(x).numpy()``.
        """
        return self._read("numpy()")

    def _read(self, reader: str) -> np.ndarray[Any, DType]:
        """Return the values to the user, who called ``reader``."""
        if self._tape_id is not None:
            self._notice_read(reader)
        return self._values()

    def _values(self) -> np.ndarray[Any, DType]:
        """Return the values to plugrad, without notifying tapes."""
        return self._alive().download(self._data)

    def item(self) -> Any:
        """Return the single element as a Python number, or bytes.

        Raises:
            ValueError: There is more than one element, or none.

        """
        return self._item("item()")

    def _item(self, reader: str = "") -> Any:
        """Return the single element; ``reader`` is the user's call, if any."""
        if self.size != 1:
            raise ValueError(
                f"item: a tensor of shape {self.shape} has {self.size} elements, not "
                "one; index it, or use tolist()"
            )
        return (self._read(reader) if reader else self._values()).item()

    def tolist(self) -> Any:
        """Return the values as nested lists; without axes, the value itself."""
        return self._read("tolist()").tolist()

    def dispose(self) -> None:
        """Empty this handle; other handles, and what a tape has saved, stay valid."""
        self._empty("disposed; keep another handle on it, or dispose it later")

    def _empty(self, why: str) -> None:
        """Empty this handle; errors then say "this tensor has been" and ``why``."""
        self._gone = why
        self._home = NOWHERE
        self._data = None
        self._cached_copies = None

    def _alive(self) -> Home:
        if self._home is NOWHERE:
            about = f"this tensor of shape {self.shape} and dtype {self.dtype}"
            error = ValueError(f"{about} has been {self._gone}")
            raise explained(error, "tensor-has-been-disposed")
        return self._home

    def _alias(self, tape_id: TapeId | None = None) -> Tensor:
        """Return another tensor with the same values; it shares the cached copies."""
        y = Tensor(self._data, self._alive())
        if self._cached_copies is None:
            self._cached_copies = {}
        y._cached_copies = self._cached_copies
        y._tape_id = tape_id
        return y

    def _rebind(self, y: Tensor) -> None:
        """Adopt the values and the identity of ``y``, which is on the same backend."""
        self._cached_copies = None
        self._data, self._tape_id = y._data, y._tape_id

    def __dlpack_device__(self) -> tuple[int, int]:
        lend = getattr(self._alive().runtime.arrays, "to_dlpack", None)
        return HOST if lend is None else lend(self._data).__dlpack_device__()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule of the values, without their gradient.

        The capsule shares the memory if the backend allows it (``Arrays.to_dlpack``);
        otherwise it holds a copy on the host. Host memory is marked read-only if the
        caller asks for DLPack 1.0. Do not write to shared memory.
        """
        if self.dtype.hasobject:
            raise BufferError(
                "__dlpack__: DLPack does not support strings; use numpy()"
            )
        if self._tape_id is not None:
            self._notice_read("DLPack")
        home = self._alive()
        values = home.lend(self._data)
        lent = values is not None
        if values is None or (dl_device == HOST != values.__dlpack_device__()):
            if copy is False:
                raise BufferError(
                    f"__dlpack__: backend {home.name!r} does not share its memory with "
                    f"device {dl_device or HOST}; allow a copy"
                )
            values = home.download(self._data)
            if values.flags.writeable:  # not shared
                lent, copy = False, None
        if type(values) is np.ndarray:
            if dl_device not in (None, HOST):
                raise BufferError(
                    f"__dlpack__: backend {home.name!r} does not copy to device "
                    f"{dl_device}; ask for {HOST}, the host"
                )
            has_flags = max_version is not None and max_version[0] >= 1
            values = _exportable(values, copy, has_flags, lent)
            copy = None if copy else copy  # the copy has been made
        how = {"stream": stream, "max_version": max_version}
        how |= {"dl_device": dl_device, "copy": copy}
        if type(values) is np.ndarray and self.dtype is BFLOAT16:
            return dlpack.capsule(values, **how)
        return values.__dlpack__(**how)

    def __copy__(self) -> Tensor:
        return self._alias(self._tape_id)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        home = self._alive()
        values = np.array(home.download(self._data), self.dtype)
        y = Tensor(home.runtime.arrays.upload(values), home)
        y._tape_id = self._tape_id
        return y

    def __bool__(self) -> bool:
        if self.size != 1:
            error = ValueError(
                f"the truth of a tensor of shape {self.shape} is ambiguous; use any() "
                "or all()"
            )
            raise explained(error, "truth-of-a-tensor")
        return bool(self._item())

    def __int__(self) -> int:
        return int(self._item("int()"))

    def __float__(self) -> float:
        return float(self._item("float()"))

    def __complex__(self) -> complex:
        return complex(self._item("complex()"))

    def __index__(self) -> int:
        if dtype_kind(self.dtype) not in "iu":
            raise TypeError(f"only an integer tensor can be an index, got {self.dtype}")
        return int(self._item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without axes")
        return self.shape[0]

    def __format__(self, form: str) -> str:
        if form and self.size != 1:
            raise TypeError(
                f"format: {form!r} is for one number, got shape {self.shape}; index "
                "the tensor, or leave the format out"
            )
        return format(self._item() if form else repr(self), form)

    def __repr__(self) -> str:
        if self._home is NOWHERE:
            return f"<disposed Tensor shape={self.shape} dtype={named(self.dtype)}>"
        if self._home.depth:  # inside vmap
            return repr(self._data)
        values = np.array2string(
            _printable(self._values()), separator=", ", threshold=20, prefix="Tensor("
        )
        dtype = named(self.dtype)
        home = self._home.name
        return f"Tensor({values}, dtype={dtype}, backend={home!r})"

    def _repr_html_(self, what: str = "Tensor") -> str:
        """Return HTML for notebooks: a table of the values."""
        from .html import page  # slow: it imports the table of all HTML entities

        if self._home is NOWHERE or self._home.depth:
            return page(repr(self))
        about = f"shape {self.shape}, {named(self.dtype)}, on {self._home.name}"
        return page(f"{what}: {about}", _printable(self._values()))


def _refuse(x: Tensor, value: object = None) -> None:
    raise AttributeError(ASSIGNED)


ASSIGNED = (
    "the shape and the dtype of a tensor cannot be assigned; use reshape(x, shape) or "
    "astype(x, dtype), which return another tensor"
)
for _name in ("shape", "dtype"):
    _get = attrgetter(f"_{_name}")
    _doc = vars(Tensor)[_name].__doc__
    setattr(Tensor, _name, property(_get, _refuse, _refuse, _doc))


def _printable(values: np.ndarray[Any, DType]) -> np.ndarray[Any, DType]:
    """Return the values to print: NumPy prints bfloat16 like integers."""
    return values.astype(np.float32) if values.dtype == BFLOAT16 else values


def _exportable(
    values: np.ndarray[Any, DType], copy: bool | None, has_flags: bool, lent: bool
) -> np.ndarray[Any, DType]:
    """Return the array to export: ``values``, read-only if they are lent, or a copy.

    DLPack has had a flag for read-only memory since version 1.0. PyTorch does not
    accept reversed axes.
    """
    fits = (has_flags or values.flags.writeable) and min(values.strides, default=0) >= 0
    if copy or (copy is None and not fits):
        return values.copy()
    if has_flags and lent:
        values = values.view()
        values.flags.writeable = False
    return values


class Holder(Protocol):
    """An object that holds a tensor: ``plugrad.Variable``."""

    @property
    def value(self) -> Tensor:
        """The tensor that it holds now."""


TensorLike = (
    Tensor
    | Holder
    | np.ndarray[Any, Any]
    | complex
    | str
    | bytes
    | list[Any]
    | np.generic
)
