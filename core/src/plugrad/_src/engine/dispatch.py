"""The engine: run a kernel on the active backend, and record it on tapes.

``run`` has a fast path, down to the line "everything special". The C accelerators
implement this path, and the recording on a single tape. The slow path tries, in this
order: observers, tapes, implementation, decomposition, host, fallback. It also runs
kernels that do not take bfloat16 in float32.

Contents: the active backend; ``run``; the other ways to run; moving.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from time import perf_counter
from typing import Any, cast

from plugrad._src.registry import install
from plugrad._src.registry.backend import BackendUnavailable, OpenBackend, move
from plugrad._src.registry.contract import (
    VJP,
    Kernel,
    KernelNotFound,
    origin,
    same,
)
from plugrad._src.registry.deprecation import outside
from plugrad._src.registry.plugins import printable
from plugrad._src.registry.registry import registry
from plugrad._src.tensor.dtypes import BFLOAT16, FLOAT32, DType, named
from plugrad._src.tensor.explained import explained, replacing
from plugrad._src.tensor.tensor import NOWHERE, Native, Tensor

from . import halves, tape
from .accelerated import accelerated
from .context import (
    PROCESS,
    Move,
    current,
    in_thread,
    lifted,
    made_outside,
    make_default,
    observed_run,
    running,
    tapes,
    taping,
)
from .forms import Made
from .gradients import joint_plan, note_run, plan_for_others, plan_of
from .layers import Overrides
from .tape import (
    Outputs,
    Tape,
    alias,
    make_plan,
    record,
    tapes_tracking,
)

# How often something other than an implementation ran: (kernel, backend, how).
fallback_counts: Counter[tuple[str, str, str]] = Counter()


# --- the active backend ----------------------------------------------------------


def active() -> OpenBackend:
    """Return the active backend; choose one if there is none yet."""
    return current().backend or PROCESS.backend or _choose()


def _choose() -> OpenBackend:
    """Open the backend that PLUGRAD_BACKEND names, or the best that works."""
    name = os.environ.get("PLUGRAD_BACKEND")
    chosen = registry.open(name, "PLUGRAD_BACKEND") if name else None
    for name in registry.backends() if chosen is None else ():
        try:
            chosen = registry.open(name)
        except BackendUnavailable:  # its plugin is marked as failed, and named below
            continue
        break
    failed = [plugin for plugin in registry.plugins if plugin.error is not None]
    for plugin in failed:
        text = (
            f"skipped plugin {plugin}: {plugin.reason}; to silence this, set "
            f"PLUGRAD_BLOCK={plugin.name or plugin.distribution}"
        )
        warnings.warn(printable(text), stacklevel=outside())
    if chosen is None and failed:
        broken = "no backend works; see `python -m plugrad plugins`"
        raise explained(BackendUnavailable(broken), "plugin-has-failed")
    if chosen is None:
        none = f"no backend is installed; try {install.advice('plugrad-cpu')}"
        raise explained(BackendUnavailable(none), "no-backend-is-installed")
    make_default(chosen)
    return chosen


def require_dtype(who: str, dtype: DType) -> DType:
    """Return ``dtype``; raise a TypeError if the active backend lacks it."""
    backend = active()
    if dtype not in backend.dtypes:
        error = TypeError(f"{who}: backend {backend.name!r} has no {named(dtype)}")
        raise explained(error, "backend-lacks-the-dtype")
    return dtype


# --- running ---------------------------------------------------------------------


@accelerated
def run(kernel: Kernel, /, *inputs: Tensor | None, **attrs: Any) -> Tensor:
    """Run a kernel with one output on the active backend."""
    context = current()
    backend = context.backend or PROCESS.backend
    if backend is not None and context.quiet:
        function = backend.table.get(kernel.name)
        if function is not None:
            natives = []
            for x in inputs:
                if x is not None and x.dtype is BFLOAT16:
                    return _run(kernel, inputs, attrs)[0]
                if type(x) is Tensor and x._home is backend:
                    natives.append(x._data)
                else:
                    natives.append(native(x, backend))
            if not natives:
                natives.append(backend.runtime.arrays)
            if any([value is BFLOAT16 for value in attrs.values()]):
                return _run(kernel, inputs, attrs)[0]
            result = function(*natives, **attrs)
            if result is NotImplemented:
                return declined(kernel, inputs, attrs)
            try:
                return Tensor(result, backend)
            except AttributeError:
                raise no_array(kernel, backend, result) from None
    return _run(kernel, inputs, attrs)[0]  # everything special


def declined(
    kernel: Kernel, inputs: tuple[Tensor | None, ...], attrs: dict[str, Any]
) -> Tensor:
    """Run a kernel whose implementation has just returned ``NotImplemented``."""
    return _run(kernel, inputs, attrs, implemented=False)[0]


def run_many(kernel: Kernel, /, *inputs: Tensor | None, **attrs: Any) -> Outputs:
    """Run a kernel with several outputs, or with a variable number of outputs."""
    return _run(kernel, inputs, attrs)


def _run(
    kernel: Kernel,
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    observed: bool = False,
    implemented: bool = True,
) -> Outputs:
    """Run a kernel under tapes and observers.

    All tapes share one plan, unless an override is only for the innermost tape.
    ``implemented=False`` means that the implementation has declined already.
    """
    context = current()
    backend = active()
    if context.observers and not observed:
        return observed_run(_run, kernel, backend, inputs, attrs)
    recording, mask = tapes_tracking(context.tapes, inputs)
    overrides, scope = context.overrides, context.scope
    plan = None
    if mask:
        if overrides is not None and recording[-1] is not context.tapes[-1]:
            overrides = overrides.for_others()
        run_of = kernel, backend, mask, len(inputs)
        plan = plan_of(overrides, scope, recording, *run_of)
        if plan is None and kernel._joint_gradient is not None:
            plan = joint_plan(
                overrides, recording, kernel, backend, mask, inputs, attrs
            )
        if plan is None:  # the parts are recorded
            is_half = halves.can_be_widened(kernel, inputs, attrs)
            run_parts = _in_float32 if is_half else _decompose
            return run_parts(kernel, inputs, attrs, backend)
    outputs = _compute(kernel, inputs, attrs, backend, implemented)
    if plan is not None:
        outer = recording[:-1]
        node = plan, backend, inputs, attrs, outputs, scope
        if outer and overrides is not None and kernel.name in overrides.innermost:
            others = outer, plan_for_others(overrides, scope, outer, *run_of)
            record(recording[-1:], *node, others)
        else:
            record(recording, *node)
        if overrides is not None and kernel.name in overrides.parts:
            made = Made(kernel, inputs, attrs, outputs, scope)
            note_run(overrides, recording, backend, made)
    return outputs


def note_recorded(
    overrides: Overrides,
    tape: Tape,
    backend: OpenBackend,
    kernel: Kernel,
    inputs: tuple[Tensor | None, ...],
    attrs: dict[str, Any],
    y: Tensor,
    scope: str,
) -> None:
    """Note a part of a pattern that the accelerators have run and recorded."""
    made = Made(kernel, inputs, attrs, (y,), scope)
    note_run(overrides, (tape,), backend, made)


def _compute(
    kernel: Kernel,
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    backend: OpenBackend,
    implemented: bool,
) -> Outputs:
    """Run a kernel by its implementation or by what replaces it; record nothing."""
    outputs = None
    in_halves = halves.can_be_widened(kernel, inputs, attrs)
    if implemented and not (in_halves and halves.is_widened(kernel, backend)):
        outputs = _implementation(kernel, inputs, attrs, backend)
    if outputs is not None:
        return outputs
    if not in_halves and kernel.decomposition is None:
        return _run_on_host_or_fallback(kernel, inputs, attrs, backend)
    run_parts = _in_float32 if in_halves else _decompose
    with taping(()):  # the tapes record one node for it, not its parts
        outputs = run_parts(kernel, inputs, attrs, backend)
    return tuple([alias(y) for y in outputs])


# --- bfloat16 --------------------------------------------------------------------


def _in_float32(
    kernel: Kernel, inputs: tuple[Any, ...], attrs: dict[str, Any], backend: OpenBackend
) -> Outputs:
    """Run a kernel with float32 in place of bfloat16, and round its results."""
    if not backend.depth:
        _note_fallback(kernel, backend, "decomposition")
    wide = [_replaced(x, BFLOAT16, FLOAT32) for x in inputs]
    outputs = run_many(kernel, *wide, **halves.wide_attributes(attrs))
    wanted = halves.dtypes_of_outputs(kernel, inputs, attrs)
    if wanted is None:
        wanted = [BFLOAT16] * len(outputs)
    pairs = zip(outputs, wanted, strict=True)
    return tuple(
        [
            _replaced(y, FLOAT32, BFLOAT16) if dtype is BFLOAT16 else y
            for y, dtype in pairs
        ]
    )


def _replaced(x: Any, old: DType, new: DType) -> Any:
    """Return a tensor of dtype ``old`` in the dtype ``new``; keep everything else."""
    if x is None or x.dtype is not old:
        return x
    return run(registry.contracts["Cast"], x, dtype=new)


# --- the implementation, and what replaces it ------------------------------------


def _implementation(
    kernel: Kernel, inputs: tuple[Any, ...], attrs: dict[str, Any], backend: OpenBackend
) -> Outputs | None:
    """Run the backend's implementation; None if there is none, or if it declines."""
    function = backend.table.get(kernel.name)
    if function is None:
        return None
    natives: list[Any] = []
    for x in inputs:
        is_elsewhere = x is None or x._home is not backend
        natives.append(native(x, backend) if is_elsewhere else x._data)
    if not inputs:
        natives.append(backend.runtime.arrays)
    result = function(*natives, **attrs) if attrs else function(*natives)
    if result is NotImplemented:
        return None
    try:
        results = (result,) if kernel.single else result
        return tuple([Tensor(y, backend) for y in results])
    except (AttributeError, TypeError):
        raise no_array(kernel, backend, result) from None


def no_array(kernel: Kernel, backend: OpenBackend, result: object) -> TypeError:
    """Return the error about an implementation whose result is not an array."""
    layer = registry.kernels[kernel.name, backend.name][0]
    wanted = "an array" if kernel.single else f"arrays for {', '.join(kernel.outputs)}"
    where = f"on {backend.name!r}, from {origin(layer.function, str(layer.owner))}"
    return TypeError(
        f"{kernel.name}: the implementation {where}, returned {repr(result)[:80]}, not "
        f"{wanted}; does it lack a return?"
    )


def _decompose(
    kernel: Kernel, inputs: tuple[Any, ...], attrs: dict[str, Any], backend: OpenBackend
) -> Outputs:
    """Run the decomposition; move an input that it returns unchanged to ``backend``."""
    if not backend.depth:  # inside vmap, the runs outside of it are counted instead
        _note_fallback(kernel, backend, "decomposition")
    decomposition = cast("Any", kernel.decomposition)
    hook = in_thread.hook
    if hook is None:
        result = decomposition(*inputs, **attrs)
    else:
        with hook.resumed():
            result = decomposition(*inputs, **attrs)
    outputs = (result,) if kernel.single else tuple(result)
    return tuple([y if y._home is backend else to(y, backend.name) for y in outputs])


def _note_fallback(
    kernel: Kernel, backend: OpenBackend, how: str, where: OpenBackend | None = None
) -> None:
    """Record that something other than an implementation of ``backend`` runs."""
    with tape.state_lock:
        fallback_counts[kernel.name, backend.name, how] += 1
    if (run := running()) is not None:
        run.how = how
        run.where = where or backend


def _run_on_host_or_fallback(
    kernel: Kernel, inputs: tuple[Any, ...], attrs: dict[str, Any], backend: OpenBackend
) -> Outputs:
    """Run on the host, or on an allowed fallback; move the results to ``backend``."""
    runtime = backend.runtime
    policy = os.environ.get("PLUGRAD_FALLBACK", "error")
    if backend.depth:
        raise KernelNotFound(
            f"vmap: {kernel} has no decomposition and was not declared before vmap "
            "was entered; declare it with register_kernel outside of vmap"
        )
    if policy not in ("error", "warn", "allow"):
        raise ValueError(f"PLUGRAD_FALLBACK={policy}: use error, warn or allow")
    if runtime.host is not None and backend.leaves_to_host(kernel):
        names = [runtime.host]
        how = "host"
    elif policy != "error":
        names = [n for n in registry.backends() if n != backend.name]
        how = "fallback"
    else:
        raise _not_found(kernel, backend)
    for name in names:
        try:
            other = registry.open(name)
        except BackendUnavailable:
            if how == "host":
                raise
            continue  # a backend that does not open is skipped; `plugins` shows why
        outputs = _implementation(kernel, inputs, attrs, other)
        if outputs is not None:
            _note_fallback(kernel, backend, how, other)
            if how == "fallback" and policy == "warn":
                warnings.warn(
                    f"{kernel.name} is missing on {backend.name!r} and runs on "
                    f"{other.name!r}",
                    stacklevel=outside(),
                )
            return _moved_back(kernel, outputs, backend)
    raise _not_found(kernel, backend)


def _moved_back(kernel: Kernel, outputs: Outputs, backend: OpenBackend) -> Outputs:
    """Move the outputs that another backend computed to ``backend``."""
    try:
        return tuple([Tensor(native(y, backend), backend) for y in outputs])
    except TypeError as error:  # it lacks the dtype
        raise replacing(error, TypeError(f"{kernel.op}: {error}")) from None


def _not_found(kernel: Kernel, backend: OpenBackend) -> KernelNotFound:
    if registry.opened.get(backend.name) is not backend:
        return KernelNotFound(f"{kernel.name}: {backend.name!r} has been removed")
    opened = registry.opened
    others = [name for name in registry.backends() if name != backend.name]
    have = [n for n in others if n in opened and kernel.name in opened[n].table]
    closed = [n for n in others if n not in opened]
    who = [f"implemented on {', '.join(have)}"] if have else []
    who += [f"perhaps on {', '.join(closed)} (not opened yet)"] if closed else []
    cures = ["use another backend", "set PLUGRAD_FALLBACK=warn"]
    cures.append("register a kernel function for it (register_kernel)")
    if backend.runtime.host is None:
        cures.append(f"if {backend.name!r} is yours, name a host: Runtime(host='cpu')")
    error = KernelNotFound(
        f"{kernel.op}: backend {backend.name!r} does not implement {kernel} for "
        "these inputs, and it has no decomposition; "
        f"{'; '.join(who) or 'no other backend implements it'}; {', or '.join(cures)}"
    )
    return explained(error, "kernel-is-not-implemented")


# --- moving ----------------------------------------------------------------------


def native(x: Any, backend: OpenBackend) -> Native:
    """Return the values of ``x`` on ``backend``: its own, or a cached copy of them."""
    if x is None:  # an optional input
        return None
    data, home = x._data, x._home  # in this order: ``dispose`` sets the home first
    if home is backend:
        return data
    if home is NOWHERE:
        x._alive()
    if home.depth or backend.depth:  # inside vmap
        return backend.lift(x)
    copies = x._cached_copies
    if copies is None:
        x._cached_copies = copies = {}
    original, found = copies.get(backend, (None, None))
    if original is not data:  # no copy yet, or another thread has run x[...] = value
        start = perf_counter()
        found = move(data, home, backend)
        copies[backend] = data, found
        if (run := running()) is not None:
            size = backend.runtime.arrays.nbytes(found)
            spent = perf_counter() - start
            run.moves.append(Move(home.name, backend.name, size, start, spent))
    return found


def to(x: Tensor, backend: str, /) -> Tensor:
    """Return ``x`` moved to ``backend``; tapes treat the result as the same tensor."""
    target = lifted(registry.open(backend, "to"))
    if x._alive() is target:
        return x
    if current().observers:
        run = observed_run(_moved, _TO, active(), (x,), {"backend": backend})
        return run[0]
    return _moved(_TO, (x,), {"backend": backend})[0]


def _moved(
    kernel: Kernel, inputs: tuple[Any, ...], attrs: dict[str, Any], _: bool = False
) -> Outputs:
    (x,) = inputs
    target = lifted(registry.open(attrs["backend"]))
    moved = Tensor(native(x, target), target)
    moved._tape_id = x._tape_id
    moved._cached_copies = {x._home: (moved._data, x._data)}
    return (moved,)


_TO = Kernel("plugrad.To(x; backend)", out=same)


def tracked_alias(x: Tensor) -> Tensor:
    """Return ``x`` with a new identity; the tapes record that it equals ``x``."""
    if made_outside(x):  # the tapes around the vmap track the tensor inside ``x``
        x = current().level.wrap(x, False)
    y = alias(x)
    if x._tape_id is not None:
        recording, mask = tapes_tracking(tapes(), (x,))
        if mask:
            scope = current().scope
            record(recording, _SAME, active(), (x,), {}, (y,), scope)
    return y


_SAME = make_plan(
    Kernel("plugrad.Alias(x)"), {"x": VJP(lambda dy: dy, (), "plugrad")}, 1, 1
)
