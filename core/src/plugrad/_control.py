"""What users choose, register and ask for: backends and kernels.

Map: backends; kernels; ``engine``. Gradients are in ``_overrides``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _arguments, _context, _discovery, _engine
from ._entries import Plugin
from ._hooks import Backend
from ._kernel import Kernel
from ._registry import registry
from ._tensor import TensorLike
from .ops import _convert

# --- backends --------------------------------------------------------------------


def set_backend(name: str) -> None:
    """Make the backend ``name`` the default of the process.

    Raises:
        BackendUnavailable: It is unknown, blocked or broken; the cause is attached.

    """
    _discovery.load(name)
    _context.make_default(registry.open(name, "set_backend"))


def use_backend(name: str) -> _context.UserScope:
    """Make the backend ``name`` active in this thread inside the ``with`` block.

    Raises:
        BackendUnavailable: It is unknown, blocked or broken; the cause is attached.

    """
    _discovery.load(name)
    backend = registry.open(name, "use_backend")
    return _context.UserScope("use_backend", backend=backend)


def get_backend() -> str:
    """Return the name of the active backend."""
    return _engine.active().name


def backends() -> list[str]:
    """Return the names of the usable backends, best first."""
    _discovery.load()
    return registry.backends()


def register_backend(backend: Backend) -> None:
    """Add a backend of your own; it opens at its first use.

    Raises:
        ValueError: There is one of that name, or the name cannot be one.
        TypeError: It is no ``plugrad.plugin.Backend``.

    """
    _discovery.load()
    if not isinstance(backend, Backend):
        raise TypeError(
            f"register_backend: expected a plugrad.plugin.Backend, got {backend!r}"
        )
    registry.adopt(backend)


def remove_backend(name: str) -> None:
    """Close a backend and forget it; tensors that live there are lost with it.

    Raises:
        BackendUnavailable: There is none of that name.

    """
    _discovery.load()
    registry.known(name, "remove_backend")
    default = _context.PROCESS.backend
    if default is not None and default.name == name:
        _context.make_default(None)
    registry.close(name)


def remove_plugin(name: str) -> None:
    """Close what the plugin ``name`` brought and forget it; what was under it shows.

    ``name`` is that of its entry point or of its distribution. Gradients that have been
    recorded keep the functions they were recorded with.

    Raises:
        ValueError: There is none of that name.

    """
    _discovery.load()
    plugin = registry.plugin(name, "remove_plugin")
    for backend in [n for n, b in registry.opened.items() if b.owner is plugin]:
        remove_backend(backend)
    registry.unload(plugin)


# --- kernels ---------------------------------------------------------------------


def register_kernel(
    kernel: str | Kernel,
    backend: str,
    function: Callable[..., Any],
    *,
    setup: Callable[[Any], None] | None = None,
    dispose: Callable[[], None] | None = None,
) -> None:
    """Put an implementation over those of ``kernel``, for the whole process.

    Args:
        kernel: The name of a kernel, or a new contract with a dotted name.
        backend: Where it runs.
        function: Takes native arrays by position and attributes by name.
        setup: Called now, once, with the ``Arrays`` of the backend.
        dispose: Called when the kernel is unregistered or its backend removed.

    Raises:
        ValueError: The kernel is unknown, or the function does not fit its contract.
        TypeError: What should be a function is none.
        BackendUnavailable: The backend is unknown, or ``setup`` needs it and it fails.

    """
    _discovery.load()
    for name, given in (("setup", setup), ("dispose", dispose)):
        if given is not None and not callable(given):
            raise TypeError(
                f"register_kernel: {name} must be a function or None, got {given!r}"
            )
    if isinstance(kernel, Kernel):
        registry.declare([kernel], registry.user, "register_kernel")
        kernel = kernel.name
    if setup is not None:
        registry.check({kernel: function}, "register_kernel")  # nothing half done
        setup(registry.open(backend, "register_kernel").runtime.arrays)
    registry.add_kernel(kernel, backend, function, dispose)


def unregister_kernel(kernel: str, backend: str) -> None:
    """Remove your last implementation; what was under it shows again.

    Raises:
        ValueError: The kernel is unknown, or you have registered none there.

    """
    registry.drop_kernel(kernel, backend)


def get_kernel(kernel: str, backend: str) -> Callable[..., Any] | None:
    """Return the implementation in force, or None where the backend has none.

    Raises:
        ValueError: The kernel is unknown.
        BackendUnavailable: The backend is unknown, blocked or broken.

    """
    _discovery.load()
    registry.contract(kernel, "get_kernel")
    registry.open(backend, "get_kernel")
    layers = registry.kernels.get((kernel, backend))
    return layers[0].function if layers else None


def get_kernels_for_backend(backend: str) -> dict[str, Callable[..., Any]]:
    """Return the implementations in force on a backend, by kernel name.

    Raises:
        BackendUnavailable: The backend is unknown, blocked or broken.

    """
    _discovery.load()
    registry.open(backend, "get_kernels_for_backend")
    return {
        name: layers[0].function
        for (name, of), layers in sorted(registry.kernels.items())
        if of == backend and layers
    }


def copy_registered_kernels(source: str, target: str) -> None:
    """Register the implementations of one backend for another of the same arrays."""
    for name, function in get_kernels_for_backend(source).items():
        register_kernel(name, target, function)


def run_kernel(
    name: str,
    inputs: Sequence[TensorLike | None] | Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Run a kernel by name on the active backend; it is recorded like any op.

    ``run_kernel("Conv2D", [x, filter], {"strides": 1, "pad": "same"})``.

    Args:
        name: The name of the kernel.
        inputs: Its inputs in the order of the contract, or a dict of them by name.
            Numbers and NumPy arrays become tensors; an optional input may be None, and
            left out of a dict. In a dict, a variadic input is a list.
        attrs: Its attributes: those of the contract, or the ones that the op takes
            (``strides`` and ``pad`` for ``geometry``). Axes may be negative.

    Returns:
        A tensor, or a tuple where the contract has several outputs.

    Raises:
        ValueError: The kernel is unknown, an attribute is out of range, or the shapes
            do not fit.
        TypeError: Inputs or attributes are missing, unknown, or of another kind or
            dtype than the contract says. Nothing is promoted.

    """
    _discovery.load()
    kernel = registry.contract(name, "run_kernel")
    given = attrs if attrs is not None else {}
    if not isinstance(inputs, list | tuple | Mapping) or not isinstance(given, Mapping):
        raise TypeError(
            f"run_kernel: {kernel.name} takes a list or a dict of inputs and a dict of "
            f"attributes, got {inputs!r} and {attrs!r}"
        )
    values = _ordered(kernel, inputs) if isinstance(inputs, Mapping) else inputs
    tensors = [None if x is None else _convert.asarray(x) for x in values]
    run = _engine.run if kernel.single else _engine.run_many
    return run(kernel, *tensors, **_engine.checked(kernel, tuple(tensors), dict(given)))


def _ordered(kernel: Kernel, inputs: Mapping[str, Any]) -> list[Any]:
    """Return inputs that are given by name in the order of the contract."""
    unknown = [str(name) for name in inputs if name not in kernel.inputs]
    needed = [name for name in kernel.inputs if name not in kernel.optional]
    lacking = [name for name in needed if name not in inputs]
    if unknown or lacking:
        wrong = [f"lacks the input {', '.join(lacking)}"] * bool(lacking)
        wrong += [f"has no input {', '.join(unknown)}"] * bool(unknown)
        raise TypeError(f"run_kernel: {kernel.name} {' and '.join(wrong)}: {kernel}")
    found: list[Any] = []
    for name in kernel.inputs:
        if name != kernel.variadic:
            found.append(inputs.get(name))
        else:
            found += _arguments.several("run_kernel", name, inputs[name])
    return found


# --- the engine ------------------------------------------------------------------


@dataclass(frozen=True)
class EngineState:
    """What the engine is doing, at one moment.

    Attributes:
        backend: The active backend of this thread; None before the first op.
        opened: The backends that have been opened.
        plugins: Every plugin that was discovered, with its phase and the reason for it.
        detours: How often something other than an implementation ran, by kernel,
            backend and "decomposition", "host" or "fallback".

    """

    backend: str | None
    opened: tuple[str, ...]
    plugins: tuple[Plugin, ...]
    detours: Mapping[tuple[str, str, str], int]

    def run_kernel(
        self,
        name: str,
        inputs: Sequence[TensorLike | None] | Mapping[str, Any],
        attrs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run a kernel by name: the same as ``plugrad.run_kernel``."""
        return run_kernel(name, inputs, attrs)


def engine() -> EngineState:
    """Return what the engine is doing; nothing is opened for the answer."""
    active = _context.current().backend or _context.PROCESS.backend
    return EngineState(
        None if active is None else active.name,
        tuple(registry.opened),
        tuple(registry.plugins),
        dict(_engine.detours),
    )
