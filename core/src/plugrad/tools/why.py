"""``python -m plugrad why KERNEL``: what runs for a kernel, or differentiates it.

Map: ``why``; the ways to run it; the layers of its gradient.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import warnings
from collections.abc import Sequence
from typing import Any

from plugrad import _context, _engine
from plugrad._entries import (
    EXTENSION,
    OWNER,
    USER,
    BackendUnavailable,
    OpenBackend,
    Plugin,
)
from plugrad._kernel import Kernel, Rules, suggest
from plugrad._registry import registry

from .answer import Answer, Row, table, where

LAYERS = {USER: "user", EXTENSION: "extension", OWNER: "owner"}


def why(options: argparse.Namespace) -> Answer:
    """Say what runs for a kernel, or differentiates it, and where that is written."""
    kernel = _kernel(options.kernel)
    if options.backend is not None:
        backend = registry.open(options.backend)
    else:
        with warnings.catch_warnings(action="ignore"):  # about broken plugins
            backend = _engine.active()
    ways, rules = _ways(kernel, backend), _rules(kernel, backend)
    gradient = differentiates(kernel, [backend])
    data = {
        "kernel": kernel.name,
        "contract": str(kernel),
        "op": kernel.op,
        "backend": backend.name,
        "ways": ways,
        "gradient": gradient,
        "rules": rules,
    }
    if not options.grad:
        text = table(ways) or f"{kernel.name} cannot run here: KernelNotFound"
        text += f"\n\ngradient: {gradient}"
    elif rules:
        text = table(rules)
    elif kernel.decomposition is not None:
        text = (
            "no gradient of its own: where one is taken, the decomposition runs and "
            f"its parts are recorded: {where(kernel.decomposition)}"
        )
    else:
        text = "no gradient: GradientNotFound in backward"
    title = f"{kernel} on {backend.name}"
    if kernel.op != kernel.name:
        title += f", from the op {kernel.op}"
    return Answer(data, f"{title}\n\n{text}", bool(ways))


def _kernel(name: str) -> Kernel:
    """Return a contract; someone who names the op learns the kernel."""
    known = registry.contracts
    if name not in known:
        of_op = [kernel.name for kernel in known.values() if kernel.op == name]
        hint = f"; the op {name} runs {' and '.join(of_op)}" if of_op else ""
        hint = hint or suggest(name, known)
        raise ValueError(f"why: unknown kernel {name!r}{hint}")
    return known[name]


def _ways(kernel: Kernel, backend: OpenBackend) -> list[Row]:
    """Return everything that could run a kernel, in the order in which it is tried."""
    ways: list[Row] = []

    def add(way: str, owner: Plugin, function: Any, when: str) -> None:
        ways.append(
            {
                "way": way,
                "distribution": owner.distribution,
                "version": owner.version,
                "when": when,
                "where": where(function),
            }
        )

    for layer in registry.kernels.get((kernel.name, backend.name), []):
        when = "once the one above is removed" if ways else "always"
        add(LAYERS[layer.rank], layer.owner, layer.function, when)
    when = "if the first returns NotImplemented" if ways else "always"
    if kernel.decomposition is not None:
        author = registry.owners[kernel.name]
        add("decomposition", author, kernel.decomposition, when)
        return ways
    how, names = "host", [backend.runtime.host]
    if kernel.name not in backend.runtime.host_kernels:
        allowed = os.environ.get("PLUGRAD_FALLBACK") in ("warn", "allow")
        how, names = "fallback", [*registry.backends()] if allowed else []
    for name in names:
        if name is None or name == backend.name:
            continue
        with contextlib.suppress(BackendUnavailable):
            registry.open(name)
        for layer in registry.kernels.get((kernel.name, name), [])[:1]:
            add(f"{how} {name}", layer.owner, layer.function, when)
            when = f"if {name} returns NotImplemented too"
    return ways


def differentiates(kernel: Kernel, opened: Sequence[OpenBackend]) -> str:
    """Return whether a kernel has a gradient of its own, or on which backends."""
    backends = [backend.name for backend in opened]
    tables = {name: registry.rule_layers(kernel, name) for name in backends}
    having = [name for name in backends if tables[name]]
    if not (kernel.gradient or having):
        return "through its parts" if kernel.decomposition is not None else "none"
    if len(having) < len(backends):
        return f"on {', '.join(having)}"
    layers = [kernel.gradient, *(layer for b in having for _, layer in tables[b])]
    rules = [rule for layer in layers for rule in layer.values()]
    return "yes" if any(rules) else "no derivative"


def _rules(kernel: Kernel, backend: OpenBackend) -> list[Row]:
    """Return the gradients of each input, the one in force first."""
    overrides = _context.state.context.overrides
    layers: list[tuple[str, Rules]] = [
        ("scope", layer[kernel.name])
        for only, layer in reversed(overrides.layers if overrides else ())
        if kernel.name in layer and only in (None, backend.name)
    ]
    layers += reversed(registry.rule_layers(kernel, backend.name))
    owners = {
        "core": str(registry.owners.get(kernel.name, registry.user)),
        "backend": str(backend.owner),
        "user": "user",
    }
    rows: list[Row] = []
    for name in kernel.inputs if layers else ():
        found = [(layer, table[name]) for layer, table in layers if name in table]
        for layer, rule in found:
            again = bool(rows) and rows[-1]["input"] == name
            owner = owners.get(layer) or (rule.owner if rule else "user")
            owner, _, pack = owner.partition(", ")
            distribution, _, version = owner.partition(" ")
            row = {
                "input": name,
                "layer": f"{layer}, {pack}" if pack else layer,
                "distribution": distribution,
                "version": version,
                "when": "once the one above is removed" if again else "always",
                "where": where(rule.function) if rule else "declared to have none",
            }
            rows.append(row)
        if not found:
            nobody = dict.fromkeys(("distribution", "version", "when"), "")
            where_ = {"where": "GradientNotFound in backward"}
            rows.append({"input": name, "layer": "none"} | nobody | where_)
    return rows
