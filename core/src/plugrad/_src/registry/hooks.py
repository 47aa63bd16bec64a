"""The results of hooks: descriptors that are cheap to create and opened lazily.

Plugin authors import these from ``plugrad.plugin``, which adds what op libraries need.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
import pluggy

from .contract import Functions, Kernel

if TYPE_CHECKING:
    from plugrad._src.tracing.graph import Graph, Step

F = TypeVar("F", bound=Callable[..., Any])
# The steps of a graph that a compiler accepts, and a function that compiles a part.
Fusable: TypeAlias = "Sequence[str] | Callable[[Step, Graph], Hashable]"
Compile: TypeAlias = "Callable[[Graph], Callable[..., Any] | None]"

# Names that backends cannot have: disposed tensors are on "nowhere", and the others are
# columns next to those of the backends in ``python -m plugrad kernels``.
RESERVED = ("nowhere", "kernel", "op", "decomposes", "gradient")
# The entry-point group ends with the major version of the interface in this file; other
# groups are never imported.
GROUP = "plugrad.v1"
hookspec = pluggy.HookspecMarker("plugrad")
hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker("plugrad")


class Arrays(Protocol):
    """How a backend moves values in and out of its own array type.

    Optional methods: ``synchronize()`` waits for the work that a device has queued,
    ``peak()`` returns the peak memory of the device in bytes, ``kept()`` the number of
    bytes that it keeps for later arrays, and ``to_dlpack(native)`` and
    ``from_dlpack(x)`` share memory with other libraries. ``plugrad.memory`` treats a
    native array with a ``base`` as a view of the base.

    For ``plugrad.profile``, implement both of these methods or neither.
    ``time_device(on)``: after ``True`` the device measures its work, after ``False`` it
    does not; the two calls alternate even if there are several profiles.
    ``device_seconds()`` waits for the device and returns a running total: the seconds
    for which kernels launched by the calling thread since ``time_device(True)`` have
    run on the device, without transfers from and to the host. The total never
    decreases, and kernels that run concurrently count once, so it grows no faster than
    wall-clock time. If the device cannot tell threads apart, it counts the kernels of
    all threads.

    Example:
        >>> from plugrad import plugin
        >>> class NumPyArrays:
        ...     def upload(self, values):
        ...         return values.copy()
        ...     def download(self, native):
        ...         return native
        ...     def nbytes(self, native):
        ...         return native.nbytes
        >>> runtime = plugin.Runtime(arrays=NumPyArrays(), kernels={"Neg": np.negative})

    """

    def upload(self, values: np.ndarray[Any, Any]) -> Any:
        """Return a native copy of ``values``, or ``values`` if they are native."""

    def download(self, native: Any) -> np.ndarray[Any, Any]:
        """Return the values of a native array."""

    def nbytes(self, native: Any) -> int:
        """Return the number of bytes that a native array holds."""


class KernelTable(dict[str, Callable[..., Any]]):
    """A dict of kernel functions by name; call it as a decorator to add one.

    Example:
        >>> from plugrad import plugin
        >>> kernels = plugin.KernelTable()
        >>> @kernels("Neg")
        ... def neg(x):
        ...     return -x
        >>> list(kernels)
        ['Neg']

    """

    def __call__(self, name: str) -> Callable[[F], F]:
        """Add the decorated function as the kernel ``name``.

        Raises:
            ValueError: The table already contains this kernel.

        """

        def add(function: F) -> F:
            if name in self:
                raise ValueError(f"kernel {name!r} is defined twice in this table")
            self[name] = function
            return function

        return add

    @classmethod
    def collect(cls, package: str) -> KernelTable:
        """Return one table with the kernels of all modules of a package.

        Each module has a table named ``kernels``. Modules whose names begin with an
        underscore are left out. Write this into the ``__init__`` of the package::

            KERNELS = KernelTable.collect(__name__)

        Args:
            package: The name of the package.

        Raises:
            ValueError: Two modules define the same kernel.
            TypeError: A module has no table.

        """
        found = cls()
        path = importlib.import_module(package).__path__
        names = [info.name for info in pkgutil.iter_modules(path)]
        for name in sorted(name for name in names if name[0] != "_"):
            module = f"{package}.{name}"
            table = getattr(importlib.import_module(module), "kernels", None)
            if not isinstance(table, KernelTable):
                raise TypeError(
                    f"KernelTable.collect: {module} has no KernelTable named kernels; "
                    "add one, or begin the name of the module with an underscore"
                )
            if twice := sorted(found.keys() & table.keys()):
                raise ValueError(
                    f"KernelTable.collect: {module} and another module of {package} "
                    f"define the same kernels: {', '.join(twice)}"
                )
            found |= table
        return found


def in_place(kernel: Callable[..., Any]) -> Callable[[F], F]:
    """Attach to a kernel function a variant that may overwrite the first input.

    The decorated function takes the same arguments as the kernel function. It writes
    its result into the memory of the first input and returns that array, or it returns
    ``NotImplemented``, and the kernel function runs instead. plugrad calls it only if
    the first input is not needed afterwards, and nothing else refers to that array. If
    the array has an attribute ``base`` that is not None, it is a view, and nothing else
    refers to the base either. If your arrays can share memory in other ways, check for
    that yourself, and return ``NotImplemented`` if they do.

    Check all inputs before you write: after an error, the first input must have its old
    values.

    Args:
        kernel: The kernel function, as it is registered.

    Raises:
        TypeError: The kernel function cannot have attributes, for example because it is
            built in.

    Example:
        >>> from plugrad import plugin
        >>> kernels = plugin.KernelTable()
        >>> @kernels("TensorScatterUpdate")
        ... def update(tensor, indices, updates):
        ...     return write(tensor.copy(), indices, updates)
        >>> @plugin.in_place(update)
        ... def write(tensor, indices, updates):
        ...     tensor[tuple(np.moveaxis(indices, -1, 0))] = updates
        ...     return tensor
        >>> update(np.zeros(3), np.array([[1]]), np.ones(1)).tolist()
        [0.0, 1.0, 0.0]

    """

    def attach(function: F) -> F:
        _set_attribute("in_place", kernel, function)
        return function

    return attach


def _set_attribute(name: str, kernel: Any, value: object) -> None:
    """Set an attribute of a kernel function; ``name`` is also that of the decorator."""
    try:
        setattr(kernel, name, value)
    except AttributeError:
        raise TypeError(
            f"{name}: {kernel!r} cannot have attributes; define a function that calls "
            "it, and register that"
        ) from None


def takes_bfloat16(kernel: F) -> F:
    """Mark a kernel function as one that takes bfloat16 arrays.

    Other kernel functions never get such arrays: plugrad converts bfloat16 inputs to
    float32 by the kernel ``Cast`` of the backend, runs the function on them, and
    rounds its floating results. So a backend that lists ``"bfloat16"`` among its
    ``dtypes`` needs one function that takes it, ``Cast``; conversion of other dtypes
    from and to bfloat16 passes through float32. Mark the kernels that only move
    elements, and those that read bfloat16 faster than float32. If such a function
    returns ``NotImplemented``, the kernel runs in float32.

    Args:
        kernel: The kernel function, as it is registered.

    Returns:
        The function.

    Raises:
        TypeError: The kernel function cannot have attributes, for example because it is
            built in.

    Example:
        >>> from plugrad import plugin
        >>> kernels = plugin.KernelTable()
        >>> @kernels("Transpose")
        ... @plugin.takes_bfloat16
        ... def transpose(x, *, perm):
        ...     return x.transpose(perm)

    """
    _set_attribute("takes_bfloat16", kernel, True)
    return kernel


@dataclass(frozen=True)
class Runtime:
    """An open backend: what ``Backend.open`` returns.

    Args:
        arrays: Moves values to and from the backend.
        kernels: Implementations by kernel name.
        gradients: Gradients for this backend, by kernel and input, that compute the
            same mathematics in another way.
        dtypes: The names of the dtypes it supports; other dtypes raise a TypeError.
        host: The backend that runs ``host_kernels`` for this one.
        host_kernels: The kernels that the host runs if this backend does not. By
            default they are the kernels of the core that have no decomposition.
        wrap: Applied to every implementation for this backend, including those of
            other plugins and of the user.
        close: Called when the backend is removed.
        self_test: Called by ``python -m plugrad doctor``; returns remarks for the user,
            such as devices that were left out, and raises if something is broken.
        fusable: The kernels that ``compile`` accepts under ``plugrad.jit``: their
            names, or a function of a ``Step`` and its ``Graph`` that returns a true
            value if ``compile`` accepts the step. Steps with different true values are
            never in one region.
        compile: A function of a part of a graph, given as a ``Graph``. It returns a
            function from the native arrays of the inputs to the native array of the
            output, or to a tuple of several. If it returns None, or if that function
            returns NotImplemented, the kernels run instead. See docs/publish.md.
        parallel_for: The address of a function in C, for compilers of other plugins:
            ``void parallel_for(void (*body)(uint32_t begin, uint32_t end, void
            *context), void *context, uint32_t n, uint32_t grain)`` calls ``body`` for
            pieces of the ``n`` items, at most ``grain`` items each, on threads with a
            stack of at least 1 MiB.
        max_nbytes: The maximum size of an array in bytes, if the device has a limit. A
            larger upload or result raises a MemoryError before memory is allocated.

    Raises:
        TypeError: A method of ``arrays`` is missing, an argument is not a function, a
            list of names is a string, or ``max_nbytes`` is not an int.
        ValueError: ``host_kernels`` is given without ``host``, or ``max_nbytes`` is
            less than 1.

    Example:
        >>> from plugrad import plugin
        >>> arrays = plugin.runtime("cpu").arrays
        >>> plugin.Runtime(arrays=arrays, kernels={"Neg": np.negative}).dtypes
        ('bool', 'int32', 'float32')

    """

    _: KW_ONLY
    arrays: Arrays
    kernels: Mapping[str, Callable[..., Any]]
    gradients: Mapping[str, Functions] = field(default_factory=dict)
    dtypes: Sequence[str] = ("bool", "int32", "float32")
    host: str | None = None
    host_kernels: Sequence[str] | None = None
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function
    close: Callable[[], None] | None = None
    self_test: Callable[[], Sequence[str]] | None = None
    fusable: Fusable = ()
    compile: Compile | None = None
    parallel_for: int | None = None
    max_nbytes: int | None = None

    def __post_init__(self) -> None:
        for method in ("upload", "download", "nbytes"):
            _check_callable(
                "Runtime: arrays", getattr(self.arrays, method, None), method
            )
        for name in ("dtypes", "host_kernels", "fusable"):
            if isinstance(names := getattr(self, name), str):
                raise TypeError(
                    f"Runtime: {name} must be a list of names, got {names!r}"
                )
        if self.host_kernels and self.host is None:
            raise ValueError(
                "Runtime: host_kernels is set, but host is not; pass host=, which "
                "runs these kernels"
            )
        limit = self.max_nbytes
        if limit is not None and type(limit) is not int:
            raise TypeError(
                f"Runtime: max_nbytes must be an int or None, got {limit!r}"
            )
        if limit is not None and limit < 1:
            raise ValueError(f"Runtime: max_nbytes must be at least 1, got {limit}")
        _check_callable("Runtime", self.wrap, "wrap")
        for name in ("close", "self_test", "compile"):
            if getattr(self, name) is not None:
                _check_callable("Runtime", getattr(self, name), name)


@dataclass(frozen=True)
class Backend:
    """A backend by name; the one of highest priority is the default.

    Args:
        name: Lower-case letters, digits, ``-`` and ``_``. A backend whose name begins
            with ``_`` is internal: ``plugrad.backends`` does not list it.
        open: Returns the runtime; called at the first use of the backend.
        priority: The default backend is the one with the highest priority.
        contracts: The contracts of its own kernels, with dotted names.

    Raises:
        ValueError: The name is not allowed.
        TypeError: ``open`` is not a function, or ``priority`` is not an int.

    Example:
        >>> from plugrad import plugin
        >>> arrays, kernels = plugin.runtime("cpu").arrays, {"Neg": np.negative}
        >>> runtime = plugin.Runtime(arrays=arrays, kernels=kernels)
        >>> plugin.Backend("mine", open=lambda: runtime, priority=-1).name
        'mine'

    """

    name: str
    _: KW_ONLY
    open: Callable[[], Runtime]
    priority: int = 0
    contracts: Sequence[Kernel] = ()

    def __post_init__(self) -> None:
        _check_backend_name("Backend", self.name)
        _check_callable(f"Backend {self.name!r}", self.open, "open")
        if not isinstance(self.priority, int):
            raise TypeError(
                f"Backend {self.name!r}: priority must be an int, got {self.priority!r}"
            )


@dataclass(frozen=True)
class KernelPack:
    """Kernels for the backend of another owner; opened together with that backend.

    Args:
        backend: The name of the backend.
        open: Returns implementations by kernel name.
        contracts: The contracts of its own kernels, with dotted names.
        gradients: Returns, by kernel, gradient functions for this backend that compute
            the same mathematics in another way. They override those of the backend.
        fusable: The kernels that ``compile`` accepts, as in ``Runtime``.
        compile: Compiles parts of graphs for the backend, as in ``Runtime``. It is
            tried before the ``compile`` of the backend.

    Raises:
        ValueError: The name is not allowed.
        TypeError: ``open``, ``gradients`` or ``compile`` is not a function, or
            ``fusable`` is a string.

    Example:
        >>> from plugrad import plugin
        >>> pack = plugin.KernelPack("cpu", open=lambda: {"Neg": np.negative})
        >>> pack.backend
        'cpu'

    """

    backend: str
    _: KW_ONLY
    open: Callable[[], Mapping[str, Callable[..., Any]]] = dict
    contracts: Sequence[Kernel] = ()
    gradients: Callable[[], Mapping[str, Functions]] = dict
    fusable: Fusable = ()
    compile: Compile | None = None

    def __post_init__(self) -> None:
        _check_backend_name("KernelPack", self.backend)
        who = f"KernelPack of {self.backend!r}"
        _check_callable(who, self.open, "open")
        _check_callable(who, self.gradients, "gradients")
        if self.compile is not None:
            _check_callable(who, self.compile, "compile")
        if isinstance(self.fusable, str):
            raise TypeError(f"{who}: fusable must be a list, got {self.fusable!r}")


@dataclass(frozen=True)
class GradientPack:
    """A named set of gradients with different mathematics, used by ``use_gradients``.

    Args:
        name: The name for ``use_gradients`` and ``set_gradients``.
        open: Returns gradient functions by kernel and input.
        linear: Whether they are linear in ``dy``; guided ReLU is not.

    Raises:
        TypeError: The name is not a string, or ``open`` is not a function.

    Example:
        >>> from plugrad import plugin
        >>> gradients = {"Round": {"x": lambda dy: dy}}
        >>> plugin.GradientPack("straight_through", open=lambda: gradients).name
        'straight_through'

    """

    name: str
    _: KW_ONLY
    open: Callable[[], Mapping[str, Functions]]
    linear: bool = True

    def __post_init__(self) -> None:
        _check_pack_name(self.name)
        _check_callable(f"GradientPack {self.name!r}", self.open, "open")


def _check_backend_name(who: str, name: object) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"_?[a-z][a-z0-9_-]*", name):
        raise ValueError(
            f"{who}: invalid name {name!r}; use lower-case letters, digits, - and _"
        )
    if name in RESERVED:
        raise ValueError(f"{who}: plugrad uses the name {name!r} itself; take another")


def _check_pack_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"GradientPack: the name must be a str, got {name!r}")


def _check_callable(who: str, value: object, name: str) -> None:
    if not callable(value):
        raise TypeError(f"{who}: {name} must be a function, got {value!r}")


@hookspec
def plugrad_backends() -> list[Backend]:  # type: ignore[empty-body]
    """Return the backends that this plugin owns."""


@hookspec
def plugrad_kernels() -> list[KernelPack]:  # type: ignore[empty-body]
    """Return kernels for the backends of other owners."""


@hookspec
def plugrad_gradients() -> list[GradientPack]:  # type: ignore[empty-body]
    """Return named gradient packs."""
