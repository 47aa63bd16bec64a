"""The memory of tensors: ``tidy``, ``dispose``, and the report of ``memory``.

Ops do not count memory. ``memory`` asks Python's garbage collector for all tensors;
``tidy`` observes the runs inside its block.

Contents: ``Tidy``; ``dispose``; ``Memory`` and how it is gathered; ``owner`` of memory,
and ``brief``, the description of a tensor.
"""

from __future__ import annotations

import functools
import gc
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import astuple, dataclass, field
from itertools import chain, compress, repeat, starmap
from operator import is_
from typing import Any, TypeVar, overload

from plugrad._src.engine import context
from plugrad._src.ops.basis.variable import Variable
from plugrad._src.registry.backend import OpenBackend
from plugrad._src.registry.contract import Spec
from plugrad._src.registry.prepared import forms_of
from plugrad._src.registry.registry import registry
from plugrad._src.tensor import arguments
from plugrad._src.tensor.dtypes import DType
from plugrad._src.tensor.tensor import NOWHERE, Native, TapeId, Tensor
from plugrad._src.tensor.tree import kind_of

T = TypeVar("T")
Thing = TypeVar("Thing")
Inputs = tuple[Tensor | None, ...]

TITLES = ["backend", "tensors", "copies", "buffers", "bytes", "peak", "kept"]
MAX_DESCRIPTIONS = 4096  # descriptions of dtypes and shapes to cache
ROW = "{:12} {:>8} {:>8} {:>8} {:>14} {:>14} {:>14}"

# --- disposing -------------------------------------------------------------------


def tensors_in(tree: Any) -> list[Tensor]:
    """Return the tensors of a tree, of other mappings and sets, and of variables."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, Variable):
        return [tree._value]
    if kind := kind_of(tree):
        tree = kind.split(tree)[1]
    elif isinstance(tree, Mapping):
        tree = tree.values()
    elif not isinstance(tree, set | frozenset):
        return []
    return [x for part in tree for x in tensors_in(part)]


@overload
def tidy() -> Tidy: ...
@overload
def tidy(f: Callable[[], T], /) -> T: ...
def tidy(f: Callable[[], Any] | None = None, /) -> Any:
    """Return ``f()``, and dispose all other tensors that were made inside.

    Without ``f`` it is a context manager: ``with tidy(): ...``. The tensors in the
    result, a tree (``plugrad.tree``), stay; so do those passed to ``keep`` or assigned
    to a variable. Blocks nest: tensors that survive an inner block belong to the outer
    block. If the block raises an error, its tensors are disposed as well. Only handles
    are emptied: views and the residuals of tapes stay valid. Tensors of other threads
    are left to Python, which frees every tensor when its last handle is gone.

    Args:
        f: A function without arguments.

    Returns:
        The result of ``f``; or a context manager.

    Raises:
        TypeError: ``f`` returned a generator or a coroutine.

    Example:
        >>> pg.tidy(lambda: pg.sqrt(pg.asarray([3.0, 8.0]) + 1.0))
        Tensor([2., 3.], dtype=float32, backend='cpu')

    """
    return Tidy() if f is None else Tidy().run(f)


def keep(tree: T, /) -> T:
    """Protect the tensors in ``tree`` from the ``tidy`` blocks of this thread.

    Args:
        tree: A tree of tensors, or a tensor.

    Returns:
        ``tree``.

    Example:
        >>> with pg.tidy():
        ...     x = pg.keep(pg.asarray([1.0, 2.0]))
        ...     y = x + 1.0
        >>> x
        Tensor([1., 2.], dtype=float32, backend='cpu')
        >>> y
        <disposed Tensor shape=(2,) dtype=float32>

    """
    for x in tensors_in(tree):
        context.notify_kept(x)
    return tree


def dispose(tree: Any, /) -> None:
    """Empty the tensors and variables in a tree (``plugrad.tree``).

    Other handles on the same values, views and the residuals of tapes stay valid; the
    memory is freed when the last of them is gone. Tensors that are already disposed,
    and objects of other types, are ignored.

    Args:
        tree: A tree of tensors and variables, or one of them.

    Example:
        >>> x = pg.asarray([1.0, 2.0])
        >>> pg.dispose(x)
        >>> x
        <disposed Tensor shape=(2,) dtype=float32>

    """
    for x in tensors_in(tree):
        x.dispose()


class WeakTensors:
    """A list of weak references to tensors, to which several threads may add."""

    def __init__(self) -> None:
        self._refs: list[weakref.ref[Tensor]] = []
        self._prune_above = 256
        self._lock = threading.RLock()  # a finalizer may add one meanwhile

    def add(self, x: Tensor) -> None:
        """Add a tensor; from time to time, drop the references to freed tensors."""
        with self._lock:
            self._refs.append(weakref.ref(x))
            if len(self._refs) > self._prune_above:
                self._refs[:] = [ref for ref in self._refs if ref() is not None]
                self._prune_above = 256 + 2 * len(self._refs)

    def alive(self) -> dict[int, Tensor]:
        """Return the tensors that are neither freed nor disposed, by ``id``."""
        found = [x for ref in [*self._refs] if (x := ref()) is not None]
        return {id(x): x for x in found if x._home is not NOWHERE}


class Tidy:
    """A context manager that, on exit, disposes tensors that ops made in its block."""

    def __init__(self) -> None:
        self._made, self._kept = WeakTensors(), WeakTensors()

    def __call__(
        self, kernel: object, inputs: Inputs, attrs: object, outputs: Any
    ) -> None:
        """Remember the outputs of a run."""
        for y in outputs:
            if not any([y is x for x in inputs]):  # a decomposition may return an input
                self._made.add(y)

    def made(self, x: Tensor) -> None:
        """Remember a tensor that no run made, such as a result of ``asarray``."""
        self._made.add(x)

    def keep(self, x: Tensor) -> None:
        """Do not dispose ``x`` at the end."""
        self._kept.add(x)

    def __enter__(self) -> None:
        self._scope = context.Scope(observer=self)
        self._scope.__enter__()

    def __exit__(self, *error: object) -> None:
        self._scope.__exit__(*error)
        made = self._made.alive()
        kept = self._kept.alive()
        for x in [x for key, x in made.items() if key not in kept]:
            x.dispose()

    def run(self, f: Callable[[], Any]) -> Any:
        """Return ``f()``; the tensors in the result are not disposed at the end."""
        arguments.function("tidy", f)
        with self:
            result = f()
            if isinstance(result, Generator | Coroutine):
                result.close()
                raise TypeError(
                    f"tidy: f returned a {type(result).__name__}, which would run after"
                    " the end of the block; use `with tidy():` inside it"
                )
            for x in tensors_in(result):
                self.keep(x)
        return result


# --- the report ------------------------------------------------------------------


@dataclass(frozen=True)
class BackendMemory:
    """The memory on one backend.

    Attributes:
        tensors: Tensors whose home is this backend.
        cached_copies: Copies of tensors of other backends that are cached here, and the
            prepared forms that kernels store (``plugrad.plugin.prepared``).
        buffers: The blocks of memory of the tensors and copies; a view shares the block
            of its base.
        bytes: The size of the buffers.
        peak: The peak memory of the backend in bytes; None if it does not report it.
        kept: The bytes that it keeps for later arrays; None if it does not report them.

    """

    tensors: int
    cached_copies: int
    buffers: int
    bytes: int
    peak: int | None
    kept: int | None


@dataclass(frozen=True)
class Memory:
    """The memory that tensors hold at one moment: in total, and by backend."""

    backends: Mapping[str, BackendMemory]

    @property
    def tensors(self) -> int:
        """The number of tensors on all backends."""
        return sum(b.tensors for b in self.backends.values())

    @property
    def cached_copies(self) -> int:
        """The number of cached copies on all backends."""
        return sum(b.cached_copies for b in self.backends.values())

    @property
    def buffers(self) -> int:
        """The number of buffers on all backends."""
        return sum(b.buffers for b in self.backends.values())

    @property
    def bytes(self) -> int:
        """The number of bytes on all backends."""
        return sum(b.bytes for b in self.backends.values())

    def __str__(self) -> str:
        rows = [TITLES]
        for name, b in self.backends.items():
            rows.append([name, *("" if n is None else f"{n:,}" for n in astuple(b))])
        return "\n".join(ROW.format(*row).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: a table with a row for each backend."""
        from plugrad._src.tensor.html import table  # only where it is needed

        caption = f"Memory: {self.tensors:,} tensors, {self.bytes:,} bytes"
        rows = [[name, *astuple(b)] for name, b in self.backends.items()]
        return table(caption, TITLES, rows, text_columns=TITLES[:1])


@dataclass
class _Tally:
    """The memory counted so far on one backend.

    Arrays are counted by their ids, and kept alive so that no id is used twice.
    ``owners`` are the arrays that own memory, each with its size in bytes.
    """

    peak: Callable[[], int] | None = None
    kept: Callable[[], int] | None = None
    tensors: int = 0
    cached_copies: dict[int, Native] = field(default_factory=dict)
    owners: dict[int, tuple[Native, int]] = field(default_factory=dict)

    def add(self, native: Native, home: OpenBackend) -> None:
        array = owner(native)
        if id(array) not in self.owners:
            self.owners[id(array)] = array, home.runtime.arrays.nbytes(array)

    def add_forms(self, native: Native, home: OpenBackend) -> None:
        """Count the stored forms of an array."""
        for form in forms_of(native):
            self.cached_copies[id(form)] = form
            for part in form if type(form) is tuple else (form,):
                self.add(part, home)

    def total(self) -> BackendMemory:
        """Return the totals of the backend for the report."""
        sizes = [size for _, size in self.owners.values()]
        peak, kept = (f() if f else None for f in (self.peak, self.kept))
        copies = len(self.cached_copies)
        return BackendMemory(self.tensors, copies, len(sizes), sum(sizes), peak, kept)


def memory() -> Memory:
    """Return the memory that tensors hold now, in total and by backend.

    ``tensors`` counts handles that are not disposed, including those of tapes and of
    plugrad itself. ``buffers`` counts blocks of memory, which several handles may
    share, and ``bytes`` is their exact size (a view keeps the whole buffer in use). The
    memory that kernels need while they run is not counted, nor are objects hidden by
    ``gc.freeze``. If the backend reports them, ``kept`` is the memory that it keeps for
    reuse, and ``peak`` its peak memory; ``profile`` finds the peak of a block. Tensors
    of a backend that was removed are listed under ``"name (removed)"``.

    ``memory`` inspects every object of the process, which takes milliseconds.

    Returns:
        A ``Memory``; ``print`` shows a table.

    Example:
        >>> x = pg.asarray([1.0, 2.0])
        >>> pg.memory().tensors >= 1
        True

    """
    names = {home: home.name for home in registry.opened.values()}
    tallies: defaultdict[str, _Tally] = defaultdict(_Tally)
    for backend, name in names.items():
        tallies[name].peak = getattr(backend.runtime.arrays, "peak", None)
        tallies[name].kept = getattr(backend.runtime.arrays, "kept", None)

    def tally_of(home: OpenBackend) -> _Tally:  # removed backends may share a name
        return tallies[names.get(home) or f"{home.name} (removed)"]

    for x in living(Tensor):
        home: Any = getattr(x, "_home", NOWHERE)  # another thread is making it
        data = getattr(x, "_data", None)
        copies = getattr(x, "_cached_copies", None)
        if home is NOWHERE or home.depth or data is None:
            continue  # inside vmap: the tensors that it holds are counted
        tally = tally_of(home)
        tally.tensors += 1
        tally.add(data, home)
        tally.add_forms(data, home)
        for other, (_, native) in (copies or {}).copy().items():
            if other is not home:
                tally = tally_of(other)
                tally.add(native, other)
                tally.add_forms(native, other)
                tally.cached_copies[id(native)] = native
    return Memory({name: tally.total() for name, tally in tallies.items()})


def living(kind: type[Thing]) -> list[Thing]:
    """Return all objects of exactly this type that Python's collector knows.

    The list of all objects may contain a tuple that another thread is still building by
    ``tuple(generator)``. A reference to it makes that call fail. So a single call of
    ``list``, which no other thread can interrupt, gathers all objects, selects some and
    releases the others.
    """
    everything: list[Any] = []
    gather = map(everything.extend, starmap(gc.get_objects, [()]))
    fits = map(is_, map(type, everything), repeat(kind))
    drop = starmap(everything.clear, [()])
    return list(
        chain(filter(None, gather), compress(everything, fits), filter(None, drop))
    )


def brief(x: Tensor | TapeId | Spec | None) -> str:
    """Return the description of a tensor in messages and tables: ``float32[2,3]``."""
    return "none" if x is None else _brief(x.dtype, x.shape)


@functools.lru_cache(MAX_DESCRIPTIONS)
def _brief(dtype: DType, shape: tuple[int, ...]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def owner(native: Native) -> Native:
    """Return the native array that owns the memory of ``native``: follow ``base``."""
    base = getattr(native, "base", None)
    while hasattr(base, "shape") and hasattr(base, "dtype"):
        native = base
        base = getattr(base, "base", None)
    return native
