"""Public functions to choose and register backends, and to register kernels.

Contents: backends; kernels. Gradients are in ``overrides``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from plugrad._src.registry.contract import Kernel
from plugrad._src.registry.registry import registry

from . import context, dispatch

if TYPE_CHECKING:
    from plugrad._src.registry.hooks import Backend

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

    Args:
        name: The name of a backend, such as ``"cpu"``.

    Raises:
        BackendUnavailable: The backend is unknown, blocked or broken; the cause is
            attached.

    Example:
        >>> pg.set_backend("cpu")

    """
    backend = registry.open(name, "set_backend")
    context.notify_outer("refuse", "set_backend changes a setting of the process")
    context.make_default(backend)


def use_backend(name: str) -> context.UserScope:
    """Make the backend ``name`` active in this thread inside the ``with`` block.

    It is also a decorator.

    Args:
        name: The name of a backend, such as ``"cpu"``.

    Returns:
        A context manager.

    Raises:
        BackendUnavailable: The backend is unknown, blocked or broken; the cause is
            attached.

    Example:
        >>> with pg.use_backend("cpu"):
        ...     pg.get_backend()
        'cpu'

    """
    backend = context.lifted(registry.open(name, "use_backend"))
    return context.UserScope("use_backend", backend=backend)


def get_backend() -> str:
    """Return the name of the active backend.

    Example:
        >>> pg.get_backend() in pg.backends()
        True

    """
    return dispatch.active().name


def backends() -> list[str]:
    """Return the names of the usable backends, highest priority first.

    Example:
        >>> "cpu" in pg.backends()
        True

    """
    return registry.backends()


def register_backend(backend: Backend) -> None:
    """Register a backend of your own; it is opened at its first use.

    Args:
        backend: The descriptor.

    Raises:
        ValueError: A backend of that name exists already, or the name is not allowed.
        TypeError: ``backend`` is not a ``plugrad.plugin.Backend``.

    Example:
        >>> from plugrad import plugin
        >>> arrays, kernels = plugin.runtime("cpu").arrays, {"Neg": np.negative}
        >>> runtime = plugin.Runtime(arrays=arrays, kernels=kernels)
        >>> pg.register_backend(plugin.Backend("mine", open=lambda: runtime))
        >>> with pg.use_backend("mine"):
        ...     pg.negative([1.0, 2.0]).tolist()
        [-1.0, -2.0]
        >>> pg.remove_backend("mine")

    """
    from plugrad._src.registry.hooks import Backend

    if not isinstance(backend, Backend):
        raise TypeError(
            f"register_backend: expected a plugrad.plugin.Backend, got {backend!r}"
        )
    registry.adopt(backend)


def remove_backend(name: str) -> None:
    """Close a backend and remove it; the tensors on it are lost.

    Args:
        name: The name of the backend.

    Raises:
        BackendUnavailable: There is no backend of that name.

    Example:
        >>> from plugrad import plugin
        >>> runtime = plugin.Runtime(arrays=plugin.runtime("cpu").arrays, kernels={})
        >>> pg.register_backend(plugin.Backend("mine", open=lambda: runtime))
        >>> pg.remove_backend("mine")
        >>> "mine" in pg.backends()
        False

    """
    registry.known(name, "remove_backend")
    default = context.PROCESS.backend
    if default is not None and default.name == name:
        context.make_default(None)
    registry.close(name)


def remove_plugin(name: str) -> None:
    """Close and remove all that a plugin registered; what it overrode applies again.

    Gradients on tapes keep the functions with which they were recorded.

    Args:
        name: The name of its entry point or of its distribution.

    Raises:
        ValueError: There is no plugin of that name.

    Example:
        >>> pg.remove_plugin("plugrad-other")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        ValueError: remove_plugin: unknown plugin 'plugrad-other'...

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
    """Register an implementation of ``kernel``, for the whole process.

    It overrides all other implementations, until you unregister it.

    Args:
        kernel: The name of a kernel, or a new contract with a dotted name.
        backend: The name of the backend on which it runs.
        function: Takes native arrays by position and attributes by name.
        setup: Called once, immediately, with the ``Arrays`` of the backend.
        dispose: Called when the kernel is unregistered or its backend removed.

    Raises:
        ValueError: The kernel is unknown, or the function does not fit its contract.
        TypeError: An argument that must be a function is not one.
        BackendUnavailable: The backend is unknown, or cannot be opened for ``setup``.

    Example:
        >>> pg.register_kernel("Square", "cpu", lambda x: x * x)
        >>> with pg.use_backend("cpu"):
        ...     pg.square(3.0).item()
        9.0
        >>> pg.unregister_kernel("Square", "cpu")

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
        registry.check({kernel: function}, "register_kernel")  # before setup runs
        setup(registry.open(backend, "register_kernel").runtime.arrays)
    registry.add_kernel(kernel, backend, function, dispose)


def unregister_kernel(kernel: str, backend: str) -> None:
    """Remove the implementation you registered last; what it overrode applies again.

    Args:
        kernel: The name of the kernel.
        backend: The name of the backend.

    Raises:
        ValueError: The kernel is unknown, or you have not registered an implementation
            on this backend.

    Example:
        >>> pg.register_kernel("Square", "cpu", lambda x: x * x)
        >>> pg.unregister_kernel("Square", "cpu")

    """
    registry.drop_kernel(kernel, backend)


def get_kernel(kernel: str, backend: str) -> Callable[..., Any] | None:
    """Return the implementation in force, or None if the backend has none.

    Args:
        kernel: The name of the kernel.
        backend: The name of the backend.

    Returns:
        A function of native arrays and attributes, or None.

    Raises:
        ValueError: The kernel is unknown.
        BackendUnavailable: The backend is unknown, blocked or broken.

    Example:
        >>> callable(pg.get_kernel("Square", "cpu"))
        True

    """
    registry.contract(kernel, "get_kernel")
    registry.open(backend, "get_kernel")
    layers = registry.kernels.get((kernel, backend))
    return layers[0].function if layers else None


def get_kernels_for_backend(backend: str) -> dict[str, Callable[..., Any]]:
    """Return the implementations in force on a backend, by kernel name.

    Args:
        backend: The name of the backend.

    Returns:
        A dict from kernel name to function.

    Raises:
        BackendUnavailable: The backend is unknown, blocked or broken.

    Example:
        >>> "Square" in pg.get_kernels_for_backend("cpu")
        True

    """
    registry.open(backend, "get_kernels_for_backend")
    return {
        name: layers[0].function
        for (name, of), layers in sorted(registry.kernels.items())
        if of == backend and layers
    }


def copy_registered_kernels(source: str, target: str) -> None:
    """Register the implementations of a backend for one with the same array type.

    Args:
        source: The name of the backend whose implementations are copied.
        target: The name of the backend that gets them.

    Raises:
        BackendUnavailable: A backend is unknown, blocked or broken.

    Example:
        >>> from plugrad import plugin
        >>> runtime = plugin.Runtime(arrays=plugin.runtime("cpu").arrays, kernels={})
        >>> pg.register_backend(plugin.Backend("mine", open=lambda: runtime))
        >>> pg.copy_registered_kernels("cpu", "mine")
        >>> "Square" in pg.get_kernels_for_backend("mine")
        True
        >>> pg.remove_backend("mine")

    """
    for name, function in get_kernels_for_backend(source).items():
        register_kernel(name, target, function)
