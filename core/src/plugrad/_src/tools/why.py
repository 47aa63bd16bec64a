"""``python -m plugrad why KERNEL``: the code that runs or differentiates a kernel.

Contents: ``why``; its answer for an op; the ways to run a kernel; ``how`` and
``differentiates``, which return a short answer; the layers of a gradient.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import warnings
from collections.abc import Sequence
from typing import Any, cast

from plugrad._src.engine import context, dispatch
from plugrad._src.ops.custom import CUSTOM
from plugrad._src.registry.backend import (
    KERNEL_PACK,
    OWNER,
    USER,
    BackendUnavailable,
    OpenBackend,
)
from plugrad._src.registry.contract import Kernel, VJPs
from plugrad._src.registry.registry import registry

from .answer import Answer, Row, table, where, where_gradient
from .composition import find, kernels_of, written_by_hand

LAYERS = {USER: "user", KERNEL_PACK: "kernel pack", OWNER: "owner"}
FIRST, UNDER = "always", "once the one above is removed"


def why(options: argparse.Namespace) -> Answer:
    """Return the code that runs or differentiates a kernel, with file and line."""
    name = options.kernel
    if name not in registry.contracts:
        kernels = _kernels_of_op(name)
        if len(kernels) != 1 or kernels[0] == CUSTOM.name:
            return _answer_for_op(name, kernels)
        name = kernels[0]
    kernel = registry.contracts[name]
    if options.backend is not None:
        backend = registry.open(options.backend)
    else:
        with warnings.catch_warnings(action="ignore"):  # about broken plugins
            backend = dispatch.active()
    ways = _implementation_rows(kernel, backend)
    rules = _rules(kernel, backend)
    gradient = differentiates(kernel, [backend])
    data: Row = {"kernel": kernel.name, "contract": str(kernel), "op": kernel.op}
    data |= {
        "doc": kernel.doc,
        "backend": backend.name,
        "ways": ways,
        "gradient": gradient,
        "rules": rules,
    }
    if not options.grad:
        text = table(ways) or f"{kernel.name} cannot run here: KernelNotFound"
        text += f"\n\ngradient: {gradient}"
    elif kernel.decomposition is not None and not rules:
        text = (
            "no gradient of its own: where one is taken, the decomposition runs and "
            f"its parts are recorded: {where(kernel.decomposition)}"
        )
    else:
        text = table(rules) or "no gradient: GradientNotFound in backward"
    op = f", from the op {kernel.op}" if kernel.op != kernel.name else ""
    meaning = f"{kernel.doc}\n\n" if kernel.doc else ""
    text = f"{kernel} on {backend.name}{op}\n\n{meaning}{text}"
    return Answer(data, text, bool(ways))


def _kernels_of_op(name: str) -> list[str]:
    """Return the kernels of an op: its own, or those that it is composed of.

    Raises:
        ValueError: There is neither a kernel nor an op of this name.

    """
    own = [kernel.name for kernel in registry.contracts.values() if kernel.op == name]
    op = find(name)
    if not own and op is None:
        raise ValueError(f"why: unknown kernel {name!r}{registry.suggest_kernel(name)}")
    return own or kernels_of(cast("Any", op))


def _answer_for_op(name: str, parts: list[str]) -> Answer:
    """Return the rows for an op that has no kernel of its own, or several."""
    kernels = [part for part in parts if part != CUSTOM.name]
    rows: list[Row] = [
        {"kernel": kernel, "contract": str(registry.contracts[kernel])}
        for kernel in kernels
    ]
    text = f"the op {name} is composed of other ops"
    if rows:
        text = f"the op {name} runs these kernels:\n\n{table(rows)}\n\n"
        text += f"python -m plugrad why {kernels[0]} shows more about the first"
    elif parts:
        text = written_by_hand(name)
    return Answer({"op": name, "kernels": kernels}, text, True)


def _implementation_rows(kernel: Kernel, backend: OpenBackend) -> list[Row]:
    """Return everything that could run a kernel, in the order in which it is tried."""
    ways: list[Row] = []

    def add(way: str, owner: object, function: object, when: str) -> None:
        ways.append({"way": way} | _row_end(str(owner), when, where(function)))

    for layer in registry.kernels.get((kernel.name, backend.name), []):
        add(LAYERS[layer.rank], layer.owner, layer.function, UNDER if ways else FIRST)
    when = "if the first returns NotImplemented" if ways else FIRST
    if (parts := kernel.decomposition) is not None:
        add("decomposition", registry.owners[kernel.name], parts, when)
        return ways
    how = "host"
    names = [backend.runtime.host]
    if not backend.leaves_to_host(kernel):
        allowed = os.environ.get("PLUGRAD_FALLBACK") in ("warn", "allow")
        how = "fallback"
        names = [*registry.backends()] if allowed else []
    for name in names:
        if name is None or name == backend.name:
            continue
        with contextlib.suppress(BackendUnavailable):
            registry.open(name)
        for layer in registry.kernels.get((kernel.name, name), [])[:1]:
            add(f"{how} {name}", layer.owner, layer.function, when)
            when = f"if {name} also returns NotImplemented"
    return ways


def _row_end(owner: str, when: str, at: str) -> Row:
    """Return the last cells of a row: the owner, the condition, and the location."""
    distribution, _, version = owner.partition(" ")
    by = {"distribution": distribution, "version": version}
    return by | {"when": when, "where": at}


def how(kernel: Kernel, backend: OpenBackend) -> str:
    """Return, in one word, the way in which the engine first tries to run a kernel."""
    if kernel.name in backend.table:
        return "implemented"
    if kernel.decomposition is not None:
        return "decomposed"
    return "host" if backend.leaves_to_host(kernel) else "missing"


def differentiates(kernel: Kernel, opened: Sequence[OpenBackend]) -> str:
    """Return whether a kernel has a gradient of its own, or on which backends."""
    names = [backend.name for backend in opened]
    found = {name: registry.gradients.layers(kernel, name) for name in names}
    having = [name for name in names if found[name]]
    if not (kernel.gradient or having):
        if kernel._joint_gradient is not None:
            return f"by {kernel._joint_gradient.kernel.name}, or through its parts"
        return "through its parts" if kernel.decomposition is not None else "none"
    if len(having) < len(names):
        return f"on {', '.join(having)}"
    tables = [kernel.gradient, *(rules for name in having for _, rules in found[name])]
    return "yes" if any(any(rules.values()) for rules in tables) else "no derivative"


def _rules(kernel: Kernel, backend: OpenBackend) -> list[Row]:
    """Return the gradients of each input, the one in force first."""
    overrides = context.current().overrides
    layers: list[tuple[str, VJPs]] = [
        (f"scope{f' {layer.where}' if layer.where else ''}", layer.rules[kernel.name])
        for layer in reversed(overrides.layers if overrides else ())
        if kernel.name in layer.rules and layer.backend in (None, backend.name)
    ]
    layers += reversed(registry.gradients.layers(kernel, backend.name))
    core = str(registry.owners.get(kernel.name, registry.user))
    owners = {"core": core, "backend": str(backend.owner), "user": "user"}
    rows: list[Row] = []
    if layers and not layers[0][1]:  # a block has it decomposed
        end = _row_end("user", FIRST, "that of its decomposition")
        return [{"input": name, "layer": layers[0][0]} | end for name in kernel.inputs]
    for name in kernel.inputs if layers else ():
        found = [(layer, table[name]) for layer, table in layers if name in table]
        for i, (layer, vjp) in enumerate(found):
            kind = layer.partition(" ")[0]
            brought = vjp is not None and kind in ("backend", "process", "scope")
            owner = vjp.owner if vjp and brought else owners.get(layer, "user")
            owner, _, pack = owner.partition(", ")
            row = {"input": name, "layer": f"{layer}, {pack}" if pack else layer}
            at = (
                where_gradient(vjp.function, backend.name)
                if vjp
                else "declared to have none"
            )
            rows.append(row | _row_end(owner, UNDER if i else FIRST, at))
        if not found:
            row = {"input": name, "layer": "none"}
            rows.append(row | _row_end("", "", "GradientNotFound in backward"))
    return rows
