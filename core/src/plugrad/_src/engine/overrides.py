"""Public functions for gradients: for the process, for a block, and from packs.

Contents: gradients that are registered for the process; scopes and gradients in a
block; packs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from plugrad._src.registry.contract import Functions, Kernel, VJPs, collected
from plugrad._src.registry.gradients import PackInfo
from plugrad._src.registry.registry import registry
from plugrad._src.registry.rules import Site
from plugrad._src.tensor import arguments

from . import context, dispatch, gradients, names
from .forms import Whole
from .forward import with_tangents
from .patterns import Pattern
from .sites import SEPARATOR

__all__ = [
    "bind_overrides",
    "get_gradient",
    "gradient_packs",
    "name_scope",
    "override_gradient",
    "register_gradient",
    "set_gradients",
    "unregister_gradient",
    "use_gradients",
]

KernelName = str | Callable[..., Any]  # a name, or the op that runs the kernel
Target = KernelName | Kernel | Pattern  # an op may run several kernels
# Where an override applies: patterns for scopes, the number of a run, or a function.
Place = str | Sequence[str] | int | Callable[[Site], bool]


def register_gradient(
    kernel: KernelName,
    named: Functions | None = None,
    /,
    *,
    backend: str | None = None,
    linear: bool = True,
    **functions: Callable[..., Any] | None,
) -> None:
    """Register gradient functions of ``kernel``, for the whole process.

    They override those of backends and the core until you unregister them.

    Args:
        kernel: Its name, or an op that runs only this kernel, such as ``pg.relu``.
        named: A dict of functions by input, for inputs that have the same name as an
            option: ``backend`` or ``linear``.
        backend: Apply the gradients only to runs on this backend.
        linear: Whether the functions are linear in the cotangent; if not, there is no
            ``jvp`` through them.
        functions: A function for each input. It takes the cotangents, then any inputs,
            outputs, attributes and ``<name>_spec`` by name. None declares that the
            input has no derivative. A parameter ``original`` gets the gradient that is
            replaced, as a function of the cotangents:
            ``x=lambda dy, original: 2 * original(dy)``. A parameter ``<name>_tracked``
            tells whether the input of this name is differentiated as well, and ``site``
            gets the ``plugin.Site`` of the run. Other parameters need a default, which
            they keep.

    Raises:
        ValueError: The kernel is unknown or fused, no function is given, or a parameter
            is not a name in the contract.
        TypeError: An argument that must be a function is not one.
        BackendUnavailable: The backend is unknown.

    Example:
        >>> pg.register_gradient(pg.relu, x=lambda dy, original: 2.0 * original(dy))
        >>> pg.grad(pg.relu)(3.0).item()
        2.0
        >>> pg.unregister_gradient(pg.relu)

    """
    who = "register_gradient"
    name = _kernel_name(kernel, who)
    given = collected(who, named, functions, backend=backend, linear=linear)
    is_linear = arguments.flag(who, "linear", linear)
    contract = registry.contracts[name]
    table = registry.gradients.checked(who, contract, given, is_linear)
    registry.gradients.add(name, backend, table)


def _kernel_name(kernel: KernelName, who: str) -> str:
    """Return the name of a kernel; an op stands for the one kernel that it runs.

    Raises:
        ValueError: The name is unknown or belongs to an op; or the op runs several
            kernels, or only those of other ops.

    """
    if isinstance(kernel, str) and kernel in registry.contracts:
        return kernel
    ops = import_module("plugrad._src.tools.composition")  # only where it is needed
    found: str = ops.kernel_name(kernel, who)
    return found


def unregister_gradient(kernel: KernelName, *, backend: str | None = None) -> None:
    """Remove the gradient you registered last; what it overrode applies again.

    Args:
        kernel: The name of the kernel, or the op that runs it.
        backend: The backend for which the gradient was registered, if any.

    Raises:
        ValueError: The kernel is unknown, or you have registered no such gradient.

    Example:
        >>> pg.register_gradient(pg.relu, x=lambda dy: 2.0 * dy)
        >>> pg.unregister_gradient(pg.relu)
        >>> pg.grad(pg.relu)(3.0).item()
        1.0

    """
    registry.gradients.drop(_kernel_name(kernel, "unregister_gradient"), backend)


def get_gradient(kernel: KernelName) -> VJPs:
    """Return the gradients in force for ``kernel``: a rule for each input.

    They are those of the calling thread, on the active backend.

    Args:
        kernel: The name of the kernel, or the op that runs it.

    Returns:
        A mapping from input to rule. A rule names its ``function``, the ``residuals``
        that a tape saves for it, its ``owner`` and its ``origin``; None declares an
        input without derivative.

    Raises:
        ValueError: The kernel is unknown.

    Example:
        >>> pg.get_gradient("Sum")["x"].owner
        'plugrad'

    """
    contract = registry.contracts[_kernel_name(kernel, "get_gradient")]
    now = context.current()
    site = Site(contract.name, now.scope, 0)
    backend = dispatch.active()
    return gradients.vjp_rules_in_force(contract, backend, now.overrides, site)


def name_scope(name: str) -> names.NameScope:
    """Name the part of a model that runs inside the ``with`` block.

    It is also a decorator. Scopes nest: their names are joined by ``/``. ``explain``,
    ``profile`` and ``jit(f).explain`` show the scope of each kernel, errors name it,
    and ``where=`` of ``override_gradient`` and ``use_gradients`` selects by it.

    Args:
        name: A name such as ``"block.3"``. A ``/`` in it makes several scopes.

    Returns:
        A context manager.

    Raises:
        TypeError: The name is not a string.
        ValueError: The name is empty.

    Example:
        >>> def model(x):
        ...     with pg.name_scope("first"):
        ...         x = pg.relu(x)
        ...     with pg.name_scope("second"):
        ...         return pg.relu(x)
        >>> with pg.override_gradient(pg.relu, where="second", x=lambda dy: 3.0 * dy):
        ...     pg.grad(model)(2.0).item()
        3.0

    """
    if not isinstance(name, str):
        raise TypeError(f"name_scope: name must be a str, got {name!r}")
    if not name.strip(SEPARATOR):
        raise ValueError(f"name_scope: name must not be empty, got {name!r}")
    return names.NameScope(name)


def override_gradient(
    kernel: Target,
    named: Functions | None = None,
    /,
    *,
    backend: str | None = None,
    where: Place | None = None,
    linear: bool = True,
    decompose: bool = False,
    innermost: bool = False,
    jvp: Functions | None = None,
    **functions: Callable[..., Any] | None,
) -> context.UserScope:
    """Replace gradient functions of ``kernel`` inside the ``with`` block.

    It is also a decorator. Runs that are recorded inside the block keep the replacement
    even if the backward pass comes after the block.

    Args:
        kernel: A kernel, its name, or an op that runs only this kernel, such as
            ``pg.relu``. An op that composes others, such as ``pg.silu``, or a
            ``plugin.Pattern`` stands for the group of runs that compute it.
        named: A dict of functions by input, for inputs that have the same name as an
            option.
        backend: Apply the gradients only to runs on this backend.
        where: Apply the gradients only to runs in a ``name_scope`` that matches a
            pattern such as ``"block.*"``, or one of several patterns; only to the run
            of the kernel with this number, counted from 0 among the runs that a tape
            records; or only where a function of a ``plugin.Site`` returns True. A
            pattern also matches if it matches a scope around the run.
        linear: Whether the functions are linear in the cotangent.
        decompose: Whether tapes record the decomposition of the kernel, as if it had
            no gradient, so that gradients of its parts apply. Pass no functions then.
        innermost: Whether only the innermost ``grad``, ``vjp`` or ``jvp`` around a run
            uses the functions. Outer ones then use true derivatives. By default all of
            them use the functions.
        jvp: For ``pg.jvp``: a dict that maps inputs to functions. Such a function takes
            the tangent of its input, and any other parameters that a gradient function
            may have. It returns the contribution of this input to the tangent of the
            result, and must be linear in the tangent. Without these functions, ``jvp``
            uses the transpose of the functions of the cotangent, which must then be
            linear.
        functions: A function for each input, as in ``register_gradient``. Without an
            override, tapes decompose a fused kernel; under one, inputs that are left
            out get the gradient of the decomposition.

    Returns:
        A context manager.

    Raises:
        ValueError: The kernel is unknown, no function is given, a parameter is not a
            name in the contract, or ``where`` can match no run. With ``decompose``:
            functions or ``innermost`` are given as well, or the kernel has no
            decomposition.
        TypeError: An argument that must be a function is not one, or ``where`` has a
            type that is not listed above.
        BackendUnavailable: The backend is unknown.

    Example:
        >>> with pg.override_gradient(pg.relu, x=lambda dy: 2.0 * dy):
        ...     pg.grad(pg.relu)(-3.0).item()
        2.0

    """
    who = "override_gradient"
    given = collected(
        who,
        named,
        functions,
        backend=backend,
        linear=linear,
        where=None,
        decompose=decompose,
        innermost=innermost,
        jvp=None,
    )
    innermost = arguments.flag(who, "innermost", innermost)
    if arguments.flag(who, "decompose", decompose):
        name = _decomposed(who, kernel, {**given, **(jvp or {})}, innermost)
        return gradients.override({name: {}}, backend, where, who)
    linear = arguments.flag(who, "linear", linear)
    rules, wholes = _rules_of_block(who, [(kernel, given, jvp or {})], linear)
    return gradients.override(
        rules, backend, where, who, innermost=innermost, wholes=wholes
    )


def _rules_of_block(
    who: str, table: Iterable[tuple[Target, Functions, Functions]], linear: bool
) -> tuple[dict[str, VJPs], tuple[Whole, ...]]:
    """Return the gradient functions of a block as rules, and the patterns in it."""
    rules: dict[str, VJPs] = {}
    wholes: list[Whole] = []
    for target, functions, tangents in table:
        found = _target(target, who)
        if isinstance(found, Pattern):
            wholes.append(found._whole)
            kernel = found._whole.kernel
        else:
            kernel = found
        check = registry.gradients.checked
        given: VJPs = {}
        if functions or not tangents:
            given = check(who, kernel, functions, linear, in_block=True)
        rules[kernel.name] = with_tangents(who, kernel, given, tangents)
    return rules, tuple(wholes)


def _target(target: Target, who: str) -> Kernel | Pattern:
    """Return the kernel or pattern that ``target`` stands for; raise if there is none.

    An op that composes other ops stands for a pattern of several kernels.
    """
    if isinstance(target, Kernel | Pattern):
        return target
    if isinstance(target, str) and target in registry.contracts:
        return registry.contracts[target]
    ops = import_module("plugrad._src.tools.composition")  # only where it is needed
    found: str | Pattern = ops.target(target, who)
    return registry.contracts[found] if isinstance(found, str) else found


def _decomposed(
    who: str,
    target: Target,
    functions: Functions,
    innermost: bool,
    option: str = "decompose=True",
) -> str:
    """Return the name of a kernel that is to be decomposed; raise if it cannot be.

    ``option`` is the argument with which the user asked for this, for errors.
    """
    kernel = _target(target, who)
    if not isinstance(kernel, Kernel):
        raise ValueError(
            f"{who}: {option} is for a kernel, got {kernel}; without an override "
            "the tapes record the parts of a pattern"
        )
    name = kernel.name
    if innermost:
        raise ValueError(
            f"{who}: {option} cannot be combined with innermost=True: all tapes "
            "record the parts of a kernel, or none does"
        )
    if functions:
        raise ValueError(
            f"{who}: {option} takes no functions, got one for "
            f"{', '.join(functions)}: the parts of {name} have gradients of their own"
        )
    if kernel.decomposition is None:
        raise ValueError(
            f"{who}: {option}, but {name} has no decomposition; pass gradient "
            "functions for its inputs"
        )
    return name


def bind_overrides(f: context.F, /) -> context.F:
    """Return ``f`` bound to the gradient overrides that are in force now.

    The function always runs with exactly these overrides, even in another block or in
    the backward pass. Use it in functions that run a part of a model again.

    Args:
        f: A function.

    Returns:
        A function with the same arguments.

    Example:
        >>> with pg.override_gradient(pg.relu, x=lambda dy: 2.0 * dy):
        ...     slope = pg.bind_overrides(pg.grad(pg.relu))
        >>> slope(-3.0).item()
        2.0

    """
    return context.UserScope("bind_overrides", overrides=context.current().overrides)(f)


def use_gradients(
    pack: str | Mapping[Target, Functions | None],
    *,
    kernels: Sequence[str] | None = None,
    backend: str | None = None,
    where: Place | None = None,
    linear: bool = True,
    innermost: bool = False,
) -> context.UserScope:
    """Use a gradient pack of a plugin, or a table of gradients, inside the block.

    It is also a decorator. ``set_gradients`` uses packs in the whole process. A
    context manager that is entered again reuses the plans that plugrad has made for it.

    Args:
        pack: The name of a pack (``gradient_packs`` lists all), or a dict that maps
            each kernel, op or pattern to a dict of gradient functions by input, as in
            ``override_gradient``. With None in place of the inner dict, tapes record
            the decomposition of the kernel.
        kernels: Use only the gradients of these kernels.
        backend: Apply the gradients only to runs on this backend.
        where: Apply the gradients only to some runs, as in ``override_gradient``.
        linear: Whether the functions of a table are linear in the cotangent. A pack
            itself states whether its functions are.
        innermost: Whether only the innermost ``grad`` around a run uses the gradients,
            as in ``override_gradient``.

    Returns:
        A context manager.

    Raises:
        ValueError: There is no such pack, it has no gradient of one of the kernels, or
            ``where`` can match no run; or ``linear`` is given for a pack. In a table: a
            kernel is unknown or fused, or a parameter is not a name in the contract.
        TypeError: ``where`` or a function in a table has the wrong type.
        BackendUnavailable: The backend is unknown.

    Example:
        >>> with pg.use_gradients("straight_through"):  # of plugrad-gradient-packs
        ...     pg.grad(pg.round)(0.3).item()
        1.0
        >>> bump = lambda dy, x: dy * pg.exp(-x * x)
        >>> with pg.use_gradients({"Sign": {"x": bump}}):
        ...     pg.grad(pg.sign)(0.0).item()
        1.0

    """
    who = "use_gradients"
    wholes: tuple[Whole, ...] = ()
    linear = arguments.flag(who, "linear", linear)
    if isinstance(pack, Mapping):
        tables: list[tuple[Target, Functions, Functions]]
        tables = [
            (target, collected(who, table, {}), {})
            for target, table in pack.items()
            if table is not None
        ]
        rules, found = _rules_of_block(who, tables, linear)
        for target, table in pack.items():
            if table is None:
                rules[_decomposed(who, target, {}, innermost, "None")] = {}
        layer = registry.gradients.selected(rules, "the table", who, kernels)
        wholes = tuple([whole for whole in found if whole.kernel.name in layer])
    elif not linear:
        raise ValueError(
            f"{who}: linear=False is for a table of gradients; the pack {pack!r} "
            "states itself whether its gradients are linear"
        )
    else:
        layer = registry.gradients.pack(pack, who, kernels)
    innermost = arguments.flag(who, "innermost", innermost)
    return gradients.override(
        layer, backend, where, who, innermost=innermost, wholes=wholes
    )


def set_gradients(
    *packs: str, kernels: Sequence[str] | None = None, backend: str | None = None
) -> None:
    """Use gradient packs of plugins in the whole process, replacing those set before.

    ``set_gradients()`` uses none. The last pack overrides the others, and all packs
    override the gradients of ``register_gradient``; scopes override both. The
    environment variable ``PLUGRAD_GRADIENTS``, with names separated by commas, sets
    packs from outside of the program.

    Args:
        packs: The names of the packs.
        kernels: Use only the packs' gradients of these kernels.
        backend: Apply the gradients only to runs on this backend.

    Raises:
        ValueError: There is no such pack, or it has no gradient of one of the kernels.
        BackendUnavailable: The backend is unknown.

    Example:
        >>> pg.set_gradients("straight_through")  # of plugrad-gradient-packs
        >>> pg.grad(pg.round)(0.3).item()
        1.0
        >>> pg.set_gradients()

    """
    who = "set_gradients"
    layers = [registry.gradients.pack(pack, who, kernels) for pack in packs]
    registry.gradients.set_process(layers, backend, who)


def gradient_packs() -> list[PackInfo]:
    """Return the gradient packs that plugins provide, and what each overrides.

    Returns:
        A list of named tuples. Their fields are ``name``, ``owner``, ``overrides``
        (inputs by kernel) and ``reason``, which is empty unless the pack cannot be
        used.

    Example:
        >>> packs = {pack.name: pack for pack in pg.gradient_packs()}
        >>> packs["guided"].overrides  # of plugrad-gradient-packs
        {'Relu': ('x',), 'Relu6': ('x',)}

    """
    return registry.gradients.described()
