"""The command line: ``python -m plugrad plugins | backends | kernels | why | doctor``.

Every command opens the backends, because some errors of a backend occur only then.

Contents: ``main``; a function for each command, which takes options and returns an
``Answer`` (``why`` and ``doctor`` have files of their own); opening; the Markdown page.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from plugrad._src.engine import dispatch
from plugrad._src.registry import discovery, install
from plugrad._src.registry.backend import BackendUnavailable
from plugrad._src.registry.gradients import PackInfo
from plugrad._src.registry.hooks import Backend
from plugrad._src.registry.plugins import Entry, printable, skipping
from plugrad._src.registry.registry import registry
from plugrad._src.tensor.dtypes import named

from .answer import Answer, Row, about, cell, table, trace
from .doctor import doctor
from .why import differentiates, how, why

STATUS = """exit status:
  0  all is well
  1  something is broken: a plugin, a backend, or a kernel that cannot run there
  2  the command line is wrong, or names an unknown kernel"""
PAGE = """# Kernels

How every kernel of the core runs on every backend, and how it differentiates. Made by
`make docs` (`python -m plugrad kernels --markdown`); do not edit it. On a backend it is

- **implemented**: the backend has a kernel of its own
- **decomposed**: it runs as a composition of other kernels
- **host**: the backend leaves it to its host
- **missing**: it is an error, unless `PLUGRAD_FALLBACK` allows another backend

Without an implementation a kernel runs if it **decomposes**. As to its gradient:

- **yes**: it has one of its own
- **through its parts**: its decomposition is recorded
- **by** a kernel, **or through its parts**: by this kernel if the backend implements it
  and no gradient is overridden
- **no derivative**: declared to have none
- **none**: nothing to differentiate
"""

MEANINGS = """## What each kernel computes

The contract of each kernel: its inputs, and after the semicolon its attributes, each
with its kind; its outputs; and what it computes. An implementation gets attributes in
canonical form: axes are not negative, shapes are tuples."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, print its answer and return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        with _stdout_aside(), skipping():
            if options.command is not doctor:  # doctor loads the plugins itself
                registry.load()
            answer: Answer = options.command(options)
    except (ValueError, BackendUnavailable) as error:
        print(f"plugrad: {printable(str(error))}", file=sys.stderr)
        return 1 if isinstance(error, BackendUnavailable) else 2
    except KeyboardInterrupt:
        print("plugrad: interrupted", file=sys.stderr)
        return 130  # the convention of shells: 128 plus the number of SIGINT
    text = json.dumps(answer.data, indent=2) if options.json else printable(answer.text)
    try:
        print(text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe: | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0 if answer.well else 1


@contextlib.contextmanager
def _stdout_aside() -> Iterator[None]:
    """Redirect the output of plugins, from Python and from C, to stderr."""
    sys.stdout.flush()
    stdout = os.dup(1)
    try:
        os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m plugrad",
        description="What is installed, what runs where, and why.",
        epilog=STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = discovery.version("plugrad") or "of an unknown version"
    parser.add_argument("--version", action="version", version=f"plugrad {version}")
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(metavar="COMMAND")
    json_ = {"--json": _flag("print JSON")}
    for command, arguments in _commands().items():
        help_ = (command.__doc__ or "").partition("\n")[0]
        added = commands.add_parser(command.__name__, help=help_, description=help_)
        added.set_defaults(command=command, no_open=False)
        for name, options in (json_ | arguments).items():
            added.add_argument(name, **options)
    return parser


def _flag(about: str) -> Row:
    return {"action": "store_true", "help": about}


def _commands() -> dict[Callable[[Any], Answer], dict[str, Row]]:
    """Return the arguments of each command, with their options for argparse."""
    unopened = "do not open the backends, which may miss errors"
    timeout = "how long the plugins may take together; default: 60"
    inside = "test in this process; a plugin that crashes ends it"
    seconds = {"type": float, "default": 60.0, "metavar": "SECONDS"}
    return {
        plugins: {"--no-open": _flag(unopened)},
        backends: {"--no-open": _flag(unopened)},
        kernels: {"--markdown": _flag("print docs/kernels.md")},
        why: {
            "kernel": {"metavar": "KERNEL", "help": "its name, such as Conv2D"},
            "--backend": {"help": "a backend; default: the active one"},
            "--grad": _flag("how it differentiates, not how it runs"),
        },
        doctor: {
            "--timeout": seconds | {"help": timeout},
            "--in-process": _flag(inside),
        },
    }


# --- commands --------------------------------------------------------------------


def plugins(options: argparse.Namespace) -> Answer:
    """List the installed plugins, their phases and their packs."""
    _open_all(options)
    found = () if options.no_open else registry.gradients.described()
    packs = [_pack(pack) for pack in found]
    names = "distribution", "version", "name", "phase", "reason"
    rows = [about(plugin, *names) for plugin in registry.plugins]
    data = [
        about(plugin, *names, "module")
        | {"packs": [pack for pack in packs if pack["of"] == str(plugin)]}
        | {"traceback": trace(plugin)}
        for plugin in registry.plugins
    ]
    text = table(rows) or _nothing("plugin")
    if packs:
        text += f"\n\ngradient packs, for use_gradients:\n\n{table(packs)}"
    return Answer(data, text, not any(row["traceback"] for row in data))


def _nothing(kind: str) -> str:
    return f"no {kind} is installed; try {install.advice('plugrad-cpu')}"


def _pack(pack: PackInfo) -> Row:
    """Return the row of a gradient pack, with the overridden inputs by kernel."""
    kernels = [f"{kernel} ({', '.join(xs)})" for kernel, xs in pack.overrides.items()]
    overrides = ", ".join(kernels) or f"left out: {pack.reason}"
    return {"pack": pack.name, "of": pack.owner, "overrides": overrides}


def backends(options: argparse.Namespace) -> Answer:
    """List the backends, best first, with their owner, state and dtypes."""
    errors = _open_all(options)
    active, none = _active(options)
    rows = [_backend(entry, active, errors) for entry in registry.listed()]
    lines = [table(rows) or _nothing("backend")]
    if rows and none:
        lines.append(f"none is active: {none}")
    if out := [str(plugin) for plugin in registry.plugins if not plugin.usable]:
        lines.append(f"left out: {', '.join(out)}; see `python -m plugrad plugins`")
    return Answer(rows, "\n".join(lines), not (errors or (rows and none)))


def kernels(options: argparse.Namespace) -> Answer:
    """Show how each kernel runs on each backend, and whether it has a gradient."""
    errors = _open_all(options)
    opened = [registry.opened[n] for n in registry.backends() if n in registry.opened]
    rows = [
        {"kernel": name}
        | {backend.name: how(kernel, backend) for backend in opened}
        | {"gradient": differentiates(kernel, opened)}
        for name, kernel in sorted(registry.contracts.items())
    ]
    data = {"kernels": rows, "closed": errors}
    if options.markdown:
        return Answer(data, _markdown(rows), not errors)
    lines = [table(rows), ""]
    for backend in opened:
        counts = Counter(row[backend.name] for row in rows).most_common()
        lines.append(f"{backend.name}: " + ", ".join(f"{n} {how}" for how, n in counts))
    lines += [f"{name} does not open: {error}" for name, error in errors.items()]
    return Answer(data, "\n".join(lines), not errors)


# --- opening ---------------------------------------------------------------------


def _open_all(options: argparse.Namespace) -> dict[str, str]:
    """Open all claimed backends; return the reasons why some do not open."""
    errors = {}
    claimed = () if options.no_open else registry.claimed()
    for name in sorted({entry.value.name for entry in claimed}):
        try:
            registry.open(name)
        except BackendUnavailable as error:
            errors[name] = str(error)
    return errors


def _active(options: argparse.Namespace) -> tuple[str, str]:
    """Return the backend on which ops would run, or why there is none."""
    if options.no_open:
        best = next(iter(registry.backends()), "")
        return os.environ.get("PLUGRAD_BACKEND") or best, ""
    with warnings.catch_warnings(action="ignore"):  # about broken plugins
        try:
            return dispatch.active().name, ""
        except BackendUnavailable as error:
            return "", str(error)


def _backend(entry: Entry[Backend], active: str, errors: dict[str, str]) -> Row:
    """Return the row of a claimed backend."""
    name = entry.value.name
    out = entry if entry.phase.is_excluded else entry.owner
    state = f"closed: {errors[name]}" if name in errors else "closed"
    opened = registry.opened.get(name) if entry.usable else None
    if opened is not None:
        state = "open"
    elif out.phase.is_excluded:
        state = f"{out.phase}: {out.reason}"
    return {
        "name": name,
        "priority": entry.value.priority,
        "owner": str(entry.owner),
        "state": state,
        "active": name == active and entry.usable,
        "dtypes": sorted(map(named, opened.dtypes)) if opened else [],
    }


# --- the page ---------------------------------------------------------------------


def _markdown(rows: Sequence[Row]) -> str:
    """Return the page ``docs/kernels.md``: the table, and what each kernel computes."""
    columns = ["kernel", "op", "decomposes", *[*rows[0]][1:]]
    lines = [columns, ["---"] * len(columns)]
    for row in rows:
        kernel = registry.contracts[row["kernel"]]
        shown = row | {"kernel": f"`{kernel.name}`", "op": f"`{kernel.op}`"}
        shown["decomposes"] = cell(kernel.decomposition is not None)
        if "." not in kernel.name:
            lines.append([shown[column] for column in columns])
    text = [PAGE, *(f"| {' | '.join(line)} |" for line in lines), "", MEANINGS]
    for row in rows:
        kernel = registry.contracts[row["kernel"]]
        if "." not in kernel.name:
            text += ["", f"### {kernel.name}", "", f"    {kernel}", "", kernel.doc]
    return "\n".join(text)
