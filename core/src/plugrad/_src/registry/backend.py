"""Open backends, as the engine sees them, and the watchers of their transfers.

Contents: ``OpenBackend``; ``move``; ``share``; ``watch``; ``KernelLayer``, one kernel
function among several.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from plugrad._src.tensor.dtypes import DType, canonical, named
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.tensor import Native, Tensor

from .contract import Kernel
from .limits import check_nbytes, limited
from .plugins import Plugin

if TYPE_CHECKING:
    from .hooks import Runtime

Function = Callable[..., Any]


class BackendUnavailable(RuntimeError):
    """A backend that is unknown, blocked or broken; the cause is the original error."""


class OpenBackend:
    """An open backend, with the flat table of kernels that the engine reads.

    Attributes:
        depth: The number of ``vmap`` calls around it; see ``batching.levels``.
        batches: The batching backend over this one; None before the first ``vmap``.
        table: The kernel functions in force, wrapped, by kernel name.
        in_place: The functions that may write into the first input, wrapped, by kernel
            name; only some kernels have one. See ``plugin.in_place``.
        takes_bfloat16: The names of the kernels whose functions in force take bfloat16
            arrays. See ``plugin.takes_bfloat16``.

    """

    depth: int = 0
    batches: OpenBackend | None = None
    name: str
    owner: Plugin
    runtime: Runtime

    def __init__(self, name: str, owner: Plugin, runtime: Runtime) -> None:
        self.name = name
        self.owner = owner
        self.runtime = runtime
        self.dtypes: frozenset[DType] = frozenset(
            canonical(name) for name in runtime.dtypes
        )
        self.max_nbytes: int = runtime.max_nbytes or sys.maxsize
        self.table: Mapping[str, Function] = {}
        self.in_place: Mapping[str, Function] = {}
        self.takes_bfloat16: frozenset[str] = frozenset()
        self.scalars: dict[tuple[object, ...], Tensor] = {}  # uploaded weak scalars

    def wrapped(self, kernel: Kernel, function: Function) -> Function:
        """Return a kernel function in the form in which ``table`` stores it."""
        found = self.runtime.wrap(function)
        limit = self.runtime.max_nbytes
        return limited(kernel, found, self.name, limit) if limit else found

    def use(self, functions: Mapping[Kernel, Function]) -> None:
        """Set the kernel functions in force."""
        table = {k.name: self.wrapped(k, f) for k, f in functions.items()}
        parts = [self.in_place_of(k, f) for k, f in functions.items()]
        marked = [k.name for k, f in functions.items() if takes_bfloat16(f)]
        self.table = table
        self.in_place = {name: f for part in parts for name, f in part.items()}
        self.takes_bfloat16 = frozenset(marked)

    def in_place_of(self, kernel: Kernel, function: Function) -> dict[str, Function]:
        """Return the entry of ``in_place`` for a kernel function; ``{}`` if none."""
        found = getattr(function, "in_place", None)
        return {} if found is None else {kernel.name: self.wrapped(kernel, found)}

    def leaves_to_host(self, kernel: Kernel) -> bool:
        """Return whether the host runs a kernel that this backend lacks or declines."""
        names = self.runtime.host_kernels
        if names is not None:
            return kernel.name in names
        core = "." not in kernel.name  # all other names have a dot
        return core and kernel.decomposition is None and self.runtime.host is not None

    def lift(self, x: Tensor) -> Native:
        """Raise an error: only batching backends accept tensors of other backends."""
        raise vmap_ended()

    def upload(self, values: np.ndarray[Any, Any]) -> Native:
        """Return a native array with these values; raise if the dtype is missing."""
        dtype = values.dtype
        if dtype not in self.dtypes:
            have = ", ".join(sorted(map(named, self.dtypes)))
            error = TypeError(
                f"backend {self.name!r} has no {dtype}; set dtype= to one of {have}"
            )
            raise explained(error, "backend-lacks-the-dtype")
        known = canonical(dtype)  # unpickled arrays have dtypes that are other objects
        values = values if dtype is known else values.view(known)
        if values.nbytes > self.max_nbytes and not dtype.hasobject:
            check_nbytes("asarray", values, self.name, self.max_nbytes)
        if not watchers:
            return self.runtime.arrays.upload(values)
        start = perf_counter()
        with transferring:
            native = self.runtime.arrays.upload(values)
        self.tell("upload", native, start)
        return native

    def download(self, native: Native) -> np.ndarray[Any, DType]:
        """Return the values of a native array."""
        if not watchers:
            return self.runtime.arrays.download(native)
        start = perf_counter()
        with transferring:
            values = self.runtime.arrays.download(native)
        self.tell("download", native, start)
        return values

    def lend(self, native: Native) -> Any:
        """Return an object that shares the memory by DLPack; None if impossible."""
        lend = getattr(self.runtime.arrays, "to_dlpack", None)
        if lend is None:
            return None
        start = perf_counter()
        with transferring:
            lent = lend(share(native))
        self.tell("lend", native, start)
        return lent

    def tell(self, what: str, native: Native, start: float) -> None:
        """Notify the watchers of a transfer."""
        for watcher in watchers:
            watcher(what, self, native, start)


def vmap_ended() -> ValueError:
    """Return the error about a ``vmap`` tensor that is used outside of its call."""
    return ValueError(
        "vmap: this tensor was computed inside a call of vmap that has ended, runs in "
        "another thread, or is left by outside(); return it from the function, and use "
        "what vmap returns"
    )


def move(native: Native, source: OpenBackend, target: OpenBackend) -> Native:
    """Return an array of the backend ``source`` as an array of ``target``.

    Watchers see a download and an upload. Meanwhile ``transferring.moves`` is not 0,
    so they can tell that the values do not reach the user's code.
    """
    if not watchers:
        return target.upload(source.download(native))
    transferring.moves += 1
    try:
        return target.upload(source.download(native))
    finally:
        transferring.moves -= 1


# --- memory that others may write to ---------------------------------------------

_shared: dict[int, weakref.ref[Any]] = {}


def share(native: Native) -> Native:
    """Return an array, and remember that other code may write to its memory."""
    with suppress(TypeError):  # the array does not support weak references
        key = id(native)
        _shared[key] = weakref.ref(native, lambda _: _shared.pop(key, None))
    return native


def is_shared(native: Native) -> bool:
    """Return whether other code may write to the memory of an array or its base."""
    while native is not None and _shared:
        if id(native) in _shared:
            return True
        native = getattr(native, "base", None)
    return False


# --- watching --------------------------------------------------------------------


class _Transferring(threading.local):
    """The watched transfers and moves of this thread.

    Attributes:
        depth: The number of transfers in progress.
        moves: The number of moves in progress.

    """

    depth = 0
    moves = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


transferring = _Transferring()

# Each watcher is called after every upload, download and DLPack export of the process,
# in the thread of the transfer, with the start time of the transfer. The tuple is
# replaced and never changed.
Watcher = Callable[[str, OpenBackend, Native, float], None]
watchers: tuple[Watcher, ...] = ()
_watching = threading.Lock()


def watch(watcher: Watcher) -> None:
    """Call ``watcher`` after every upload and download from now on."""
    global watchers
    with _watching:
        watchers = (*watchers, watcher)


def unwatch(watcher: Watcher) -> None:
    """Stop calling ``watcher``."""
    global watchers
    with _watching:
        watchers = tuple(w for w in watchers if w != watcher)


class KernelLayer(NamedTuple):
    """One implementation of a kernel on a backend; the lowest rank is in force."""

    rank: int
    function: Function
    owner: Plugin
    dispose: Callable[[], None] | None = None


def takes_bfloat16(function: Function) -> bool:
    """Return whether a kernel function is marked by ``plugin.takes_bfloat16``."""
    return getattr(function, "takes_bfloat16", False) is True


USER, KERNEL_PACK, OWNER = range(3)
