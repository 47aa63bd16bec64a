"""What users choose, register and ask for: backends and kernels.

Map: backends; kernels; ``engine``. Gradients are in ``_overrides``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugrad.registry.contract import Kernel
from plugrad.registry.hooks import Backend
from plugrad.registry.registry import registry

from . import context, dispatch

__all__ = [
    "backends",
    "copy_registered_kernels",
    "get_backend",
    "get_kernel",
    "get_kernels_for_backend",
    "register_backend",
    "register_kernel",
    "remove_backend",
    "remove_plugin",
    "set_backend",
    "unregister_kernel",
    "use_backend",
]

# --- backends --------------------------------------------------------------------


def set_backend(name: str) -> None:
    """Make the backend ``name`` the default of the process.

    Raises:
        BackendUnavailable: It is unknown, blocked or broken; the cause is attached.

    """
    context.make_default(registry.open(name, "set_backend"))


def use_backend(name: str) -> context.UserScope:
    """Make the backend ``name`` active in this thread inside the ``with`` block.

    Raises:
        BackendUnavailable: It is unknown, blocked or broken; the cause is attached.

    """
    backend = registry.open(name, "use_backend")
    return context.UserScope("use_backend", backend=backend)


def get_backend() -> str:
    """Return the name of the active backend."""
    return dispatch.active().name


def backends() -> list[str]:
    """Return the names of the usable backends, best first."""
    return registry.backends()


def register_backend(backend: Backend) -> None:
    """Add a backend of your own; it opens at its first use.

    Raises:
        ValueError: There is one of that name, or the name cannot be one.
        TypeError: It is no ``plugrad.plugin.Backend``.

    """
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
    registry.known(name, "remove_backend")
    default = context.PROCESS.backend
    if default is not None and default.name == name:
        context.make_default(None)
    registry.close(name)


def remove_plugin(name: str) -> None:
    """Close what the plugin ``name`` brought and forget it; what was under it shows.

    ``name`` is that of its entry point or of its distribution. Gradients that have been
    recorded keep the functions they were recorded with.

    Raises:
        ValueError: There is none of that name.

    """
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
    registry.contract(kernel, "get_kernel")
    registry.open(backend, "get_kernel")
    layers = registry.kernels.get((kernel, backend))
    return layers[0].function if layers else None


def get_kernels_for_backend(backend: str) -> dict[str, Callable[..., Any]]:
    """Return the implementations in force on a backend, by kernel name.

    Raises:
        BackendUnavailable: The backend is unknown, blocked or broken.

    """
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
