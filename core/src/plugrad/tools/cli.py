"""The command line: ``python -m plugrad plugins | backends | kernels | why KERNEL``.

Every command opens the backends, because what is wrong with one may show only then.

Map: ``main``; one function a command, from options to an ``Answer``; how a kernel runs
(``_ways``) and differentiates (``_rules``); opening; tables.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import json
import os
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from plugrad import _context, _discovery, _engine
from plugrad._entries import (
    EXTENSION,
    OWNER,
    USER,
    BackendUnavailable,
    OpenBackend,
    Phase,
    Plugin,
)
from plugrad._kernel import Kernel, suggest
from plugrad._registry import registry

LAYERS = {USER: "user", EXTENSION: "extension", OWNER: "owner"}
STATUS = """exit status:
  0  all is well
  1  something is broken: a plugin, a backend, or a kernel that cannot run there
  2  the command line is wrong, or names an unknown kernel"""
PAGE = """# Kernels

How every kernel of the core runs on every backend, and how it differentiates. Made by
`make docs` (`python -m plugrad kernels --markdown`); do not edit it. On a backend it is

- **implemented**: the backend has a kernel of its own
- **decomposed**: it runs as what it means in other kernels
- **host**: the backend leaves it to its host
- **missing**: it is an error, unless `PLUGRAD_FALLBACK` allows another backend

Without an implementation a kernel runs if it **decomposes**. As to its gradient:

- **yes**: it has one of its own
- **through its parts**: its decomposition is recorded
- **no derivative**: declared to have none
- **none**: nothing to differentiate
"""
Row = dict[str, Any]


class Answer(NamedTuple):
    """What a command found: for programs, for people, and whether all is well."""

    data: Any
    text: str
    well: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, print what it found and return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what plugins may print
            _discovery.load()
            answer: Answer = options.command(options)
    except (ValueError, BackendUnavailable) as error:
        print(f"plugrad: {error}", file=sys.stderr)
        return 1 if isinstance(error, BackendUnavailable) else 2
    try:
        print(json.dumps(answer.data, indent=2) if options.json else answer.text)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough: | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0 if answer.well else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m plugrad",
        description="What is installed, what runs where, and why.",
        epilog=STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(command: Callable[[Any], Answer]) -> argparse.ArgumentParser:
        about = (command.__doc__ or "").partition("\n")[0]
        added = commands.add_parser(command.__name__, help=about, description=about)
        added.add_argument("--json", action="store_true", help="print JSON")
        added.set_defaults(command=command, no_open=False)
        return added

    for command in (plugins, backends):
        add(command).add_argument(
            "--no-open",
            action="store_true",
            help="do not open the backends; what fails only then goes unseen",
        )
    add(kernels).add_argument(
        "--markdown", action="store_true", help="print docs/kernels.md"
    )
    asking = add(why)
    asking.add_argument("kernel", metavar="KERNEL", help="its name, such as Conv2D")
    asking.add_argument("--backend", help="a backend; default: the active one")
    asking.add_argument(
        "--grad", action="store_true", help="how it differentiates, not how it runs"
    )
    return parser


# --- commands --------------------------------------------------------------------


def plugins(options: argparse.Namespace) -> Answer:
    """List the plugins that are installed, how far each got, and why."""
    _open_all(options)
    rows = [
        {
            "distribution": plugin.distribution,
            "version": plugin.version,
            "name": plugin.name,
            "phase": str(plugin.phase),
            "reason": plugin.reason,
        }
        for plugin in registry.plugins
    ]
    data = [
        row | {"module": plugin.module, "traceback": _traceback(plugin)}
        for row, plugin in zip(rows, registry.plugins, strict=True)
    ]
    text = _table(rows) or "no plugin is installed; try `pip install plugrad-cpu`"
    failed = [p for p in registry.plugins if p.phase is Phase.FAILED]
    return Answer(data, text, not failed)


def backends(options: argparse.Namespace) -> Answer:
    """List the backends, best first, with their owner, state and dtypes."""
    errors = _open_all(options)
    active = _active(options)
    rows: list[Row] = []
    for backend, plugin in registry.claimed():
        opened = registry.opened.get(backend.name)
        if opened is not None and opened.owner is not plugin:
            opened = None  # another's of the same name
        rows.append(
            {
                "name": backend.name,
                "priority": backend.priority,
                "owner": str(plugin),
                "state": _state(backend.name, plugin, opened, errors),
                "active": backend.name == active and plugin.usable,
                "dtypes": sorted(d.name for d in opened.dtypes) if opened else [],
            }
        )
    lines = [_table(rows) or "no backend is installed; try `pip install plugrad-cpu`"]
    if out := [str(plugin) for plugin in registry.plugins if not plugin.usable]:
        lines.append(f"left out: {', '.join(out)}; see `python -m plugrad plugins`")
    return Answer(rows, "\n".join(lines), not errors)


def kernels(options: argparse.Namespace) -> Answer:
    """Show how every kernel runs on every backend, and whether it has a gradient."""
    errors = _open_all(options)
    opened = [registry.opened[n] for n in registry.backends() if n in registry.opened]
    rows = [
        {"kernel": name}
        | {backend.name: _how(kernel, backend) for backend in opened}
        | {"gradient": _gradient(kernel, opened)}
        for name, kernel in sorted(registry.contracts.items())
    ]
    if options.markdown:
        return Answer({"kernels": rows, "closed": errors}, _markdown(rows), not errors)
    lines = [_table(rows), ""]
    for backend in opened:
        counts = Counter(row[backend.name] for row in rows).most_common()
        lines.append(f"{backend.name}: " + ", ".join(f"{n} {how}" for how, n in counts))
    lines += [f"{name} does not open: {error}" for name, error in errors.items()]
    return Answer({"kernels": rows, "closed": errors}, "\n".join(lines), not errors)


def why(options: argparse.Namespace) -> Answer:
    """Say what runs for a kernel, or differentiates it, and where that is written."""
    kernel = _kernel(options.kernel)
    if options.backend is not None:
        backend = registry.open(options.backend)
    else:
        with warnings.catch_warnings(action="ignore"):  # about broken plugins
            backend = _engine.active()
    ways, rules = _ways(kernel, backend), _rules(kernel, backend)
    gradient = _gradient(kernel, [backend])
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
        text = _table(ways) or f"{kernel.name} cannot run here: KernelNotFound"
        text += f"\n\ngradient: {gradient}"
    elif rules:
        text = _table(rules)
    elif kernel.decomposition is not None:
        text = (
            "no gradient of its own: where one is taken, the decomposition runs and "
            f"its parts are recorded: {_where(kernel.decomposition)}"
        )
    else:
        text = "no gradient: GradientNotFound in backward"
    title = f"{kernel} on {backend.name}"
    if kernel.op != kernel.name:
        title += f", from the op {kernel.op}"
    return Answer(data, f"{title}\n\n{text}", bool(ways))


# --- how a kernel runs and differentiates ----------------------------------------


def _kernel(name: str) -> Kernel:
    """Return a contract; someone who names the op learns the kernel."""
    known = registry.contracts
    if name not in known:
        of_op = [kernel.name for kernel in known.values() if kernel.op == name]
        hint = f"; the op {name} runs {' and '.join(of_op)}" if of_op else ""
        hint = hint or suggest(name, known)
        raise ValueError(f"why: unknown kernel {name!r}{hint}")
    return known[name]


def _how(kernel: Kernel, backend: OpenBackend) -> str:
    """Return what the engine tries first for a kernel, in one word."""
    if kernel.name in backend.table:
        return "implemented"
    if kernel.decomposition is not None:
        return "decomposed"
    return "host" if kernel.name in backend.runtime.host_kernels else "missing"


def _gradient(kernel: Kernel, opened: Sequence[OpenBackend]) -> str:
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
                "where": _where(function),
            }
        )

    for layer in registry.kernels.get((kernel.name, backend.name), []):
        when = "once the one above is removed" if ways else "always"
        add(LAYERS[layer.rank], layer.owner, layer.function, when)
    when = "if the first returns NotImplemented" if ways else "always"
    if kernel.decomposition is not None:
        author = Plugin(kernel.decomposition.__module__.partition(".")[0])
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


def _rules(kernel: Kernel, backend: OpenBackend) -> list[Row]:
    """Return the gradients of each input, the one in force first."""
    overrides = _context.state.context.overrides
    layers = [
        ("scope", layer[kernel.name])
        for only, layer in reversed(overrides.layers if overrides else ())
        if kernel.name in layer and only in (None, backend.name)
    ]
    layers += reversed(registry.rule_layers(kernel, backend.name))
    rows: list[Row] = []
    for name in kernel.inputs if layers else ():
        found = [(layer, table[name]) for layer, table in layers if name in table]
        shown = [
            (layer, r.origin if r else "declared to have none") for layer, r in found
        ]
        for layer, gradient in shown or [("none", "GradientNotFound in backward")]:
            again = bool(rows) and rows[-1]["input"] == name
            when = "once the one above is removed" if again else "always"
            row = {"input": name, "layer": layer, "when": when, "gradient": gradient}
            rows.append(row)
    return rows


def _where(function: Any) -> str:
    """Return the file and the line of a function, or its name if it is built in."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = function.func
    if code := getattr(function, "__code__", None):
        return f"{code.co_filename}:{code.co_firstlineno}"
    named = function if hasattr(function, "__name__") else type(function)
    module = getattr(named, "__module__", None) or type(function).__module__
    return f"{module}.{named.__name__} ({type(function).__name__})"


# --- opening ---------------------------------------------------------------------


def _open_all(options: argparse.Namespace) -> dict[str, str]:
    """Open every backend that anyone claims; return why the others do not open."""
    errors = {}
    names = () if options.no_open else sorted({b.name for b, _ in registry.claimed()})
    for name in names:
        try:
            registry.open(name)
        except BackendUnavailable as error:
            errors[name] = str(error)
    return errors


def _active(options: argparse.Namespace) -> str | None:
    """Return the backend on which ops run, or would run, if there is any."""
    if options.no_open:
        best = next(iter(registry.backends()), None)
        return os.environ.get("PLUGRAD_BACKEND") or best
    with warnings.catch_warnings(action="ignore"):  # about broken plugins
        try:
            return _engine.active().name
        except BackendUnavailable:
            return None


def _state(
    name: str, plugin: Plugin, opened: OpenBackend | None, errors: dict[str, str]
) -> str:
    if opened is not None:
        return "open"
    if not plugin.usable:
        return f"{plugin.phase}: {plugin.reason}"
    return f"closed: {errors[name]}" if name in errors else "closed"


def _traceback(plugin: Plugin) -> str:
    return "".join(traceback.format_exception(plugin.error)) if plugin.error else ""


# --- tables ----------------------------------------------------------------------


def _table(rows: Sequence[Row]) -> str:
    """Return aligned columns under their names; nothing for no rows."""
    if not rows:
        return ""
    lines = [[*rows[0]], *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _markdown(rows: Sequence[Row]) -> str:
    """Return the page ``docs/kernels.md``: what the words mean, and the table."""
    core = [registry.contracts[row["kernel"]] for row in rows]
    table = [
        {"kernel": f"`{kernel.name}`", "op": f"`{kernel.op}`"}
        | {"decomposes": _cell(kernel.decomposition is not None)}
        | {name: how for name, how in row.items() if name != "kernel"}
        for kernel, row in zip(core, rows, strict=True)
        if "." not in kernel.name
    ]
    cells = [[*table[0]], ["---"] * len(table[0]), *(row.values() for row in table)]
    return "\n".join([PAGE, *(f"| {' | '.join(line)} |" for line in cells)])


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    text = " ".join(value) if isinstance(value, list) else str(value)
    return " ".join(text.split())  # reasons may have several lines
