"""What users register and ask of gradients: for a block, for the process, by packs.

Map: what is registered for the process; what holds for a block; packs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from plugrad.registry.contract import Functions, VJPs, collected
from plugrad.registry.gradients import PackInfo
from plugrad.registry.registry import registry
from plugrad.tensor import arguments

from . import context, dispatch

__all__ = [
    "get_gradient",
    "gradient_packs",
    "override_gradient",
    "register_gradient",
    "set_gradients",
    "unregister_gradient",
    "use_gradients",
]

KernelName = str | Callable[..., Any]  # a name, or the op that runs the kernel


def register_gradient(
    kernel: KernelName,
    named: Functions | None = None,
    /,
    *,
    backend: str | None = None,
    linear: bool = True,
    **functions: Callable[..., Any] | None,
) -> None:
    """Put gradient functions over those of ``kernel``, for the whole process.

    Args:
        kernel: Its name, or the op that runs it and no other kernel: ``pg.relu``.
        named: Functions of inputs that are called ``backend`` or ``linear``, by name.
        backend: Only for what runs on this backend.
        linear: Whether the functions are linear in the cotangent; if not, there is no
            ``jvp`` through them.
        functions: One an input: the cotangents, then any inputs, outputs, attributes
            and ``<name>_spec`` by name. None declares an input without derivative. A
            parameter ``original`` gets the gradient that is replaced, a function of
            the cotangents: ``x=lambda dy, original: 2 * original(dy)``.

    Raises:
        ValueError: The kernel is unknown or fused, no function is given, or a parameter
            names nothing of the kernel.
        TypeError: What should be a function is none.
        BackendUnavailable: The backend is unknown.

    """
    name, table = _checked(
        "register_gradient", kernel, named, functions, backend, linear
    )
    registry.gradients.add(name, backend, table)


def _checked(
    who: str,
    kernel: KernelName,
    named: Functions | None,
    functions: Functions,
    backend: object,
    linear: object,
) -> tuple[str, VJPs]:
    """Return the name of a kernel, and gradient functions for it as rules."""
    name = _kernel_name(kernel, who)
    given = collected(who, named, functions, backend=backend, linear=linear)
    linear = arguments.flag(who, "linear", linear)
    return name, registry.gradients.checked(who, name, given, linear)


def _kernel_name(kernel: KernelName, who: str) -> str:
    """Return the name of a kernel; an op stands for the one kernel that it runs.

    Raises:
        ValueError: The name is that of an op, or of nothing; or the op runs several
            kernels, or none of its own.

    """
    if isinstance(kernel, str) and kernel in registry.contracts:
        return kernel
    ops = import_module(".tools.composition", "plugrad")  # only where it is needed
    found: str = ops.kernel_name(kernel, who)
    return found


def unregister_gradient(kernel: KernelName, *, backend: str | None = None) -> None:
    """Remove your last gradient of ``kernel``; what was under it shows again.

    ``backend`` is that with which it was registered.

    Raises:
        ValueError: The kernel is unknown, or you have registered no such gradient.

    """
    registry.gradients.drop(_kernel_name(kernel, "unregister_gradient"), backend)


def get_gradient(kernel: KernelName) -> VJPs:
    """Return the rules in force for ``kernel``, by input, each with its origin.

    They are those of the caller, on the active backend.

    Raises:
        ValueError: The kernel is unknown.

    """
    contract = registry.contracts[_kernel_name(kernel, "get_gradient")]
    return dispatch.vjp_rules_in_force(contract, dispatch.active())


def override_gradient(
    kernel: KernelName,
    named: Functions | None = None,
    /,
    *,
    backend: str | None = None,
    linear: bool = True,
    **functions: Callable[..., Any] | None,
) -> context.UserScope:
    """Replace gradient functions of ``kernel`` inside the ``with`` block.

    It is a decorator, too. What is recorded inside keeps the replacement, whenever it
    is pulled back. The arguments and errors are those of ``register_gradient``.
    """
    who = "override_gradient"
    name, rules = _checked(who, kernel, named, functions, backend, linear)
    return dispatch.override({name: rules}, backend, who)


def use_gradients(
    pack: str, *, kernels: Sequence[str] | None = None, backend: str | None = None
) -> context.UserScope:
    """Use a gradient pack of a plugin inside the ``with`` block.

    It is a decorator, too. ``set_gradients`` does the same for the process.

    Args:
        pack: Its name.
        kernels: Only its gradients of these kernels.
        backend: Only for what runs on this backend.

    Raises:
        ValueError: There is no such pack, or it has nothing for one of the kernels.
        BackendUnavailable: The backend is unknown.

    """
    layer = registry.gradients.pack(pack, "use_gradients", kernels)
    return dispatch.override(layer, backend, "use_gradients")


def set_gradients(
    *packs: str, kernels: Sequence[str] | None = None, backend: str | None = None
) -> None:
    """Use gradient packs of plugins in the whole process, in place of those before.

    ``set_gradients()`` uses none. The last pack wins, over what ``register_gradient``
    has registered; scopes win over both. The environment variable
    ``PLUGRAD_GRADIENTS``, names with commas between them, does it from outside. The
    arguments and errors are those of ``use_gradients``.
    """
    who = "set_gradients"
    layers = [registry.gradients.pack(pack, who, kernels) for pack in packs]
    registry.gradients.set_process(layers, backend, who)


def gradient_packs() -> list[PackInfo]:
    """Return the gradient packs that plugins bring, and what each overrides."""
    return registry.gradients.described()
