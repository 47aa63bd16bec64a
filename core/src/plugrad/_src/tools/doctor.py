"""``python -m plugrad doctor``: whether every plugin works, why not, and what to do.

The plugins are loaded, opened and tested in a separate process, because a plugin may
crash or hang. That process prints the owner of the code that runs. If the process ends
early, the test is repeated without this owner's plugins.

Contents: ``doctor`` and the process; ``examine``, which that process runs; the test of
a backend; forbidden actions of plugins; advice; the text.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import platform
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from plugrad._src.autodiff.reverse import grad
from plugrad._src.engine import accelerated, context
from plugrad._src.ops.basis import reduce
from plugrad._src.ops.basis._convert import asarray
from plugrad._src.ops.linalg import linalg
from plugrad._src.registry import install, loading, plugins
from plugrad._src.registry.backend import BackendUnavailable, OpenBackend
from plugrad._src.registry.contract import KernelNotFound, suggest
from plugrad._src.registry.deprecation import PlugradDeprecationWarning
from plugrad._src.registry.hooks import Backend, KernelPack
from plugrad._src.registry.plugins import Entry, Phase, Plugin, running
from plugrad._src.registry.registry import registry
from plugrad._src.tensor.tensor import Tensor

from .answer import Answer, Row, about, trace
from .installed import Need, duplicates, private_imports, unmet
from .why import how

SLOW_IMPORT_S = 0.1  # doctor reports plugins that take longer than this to load


def doctor(options: argparse.Namespace) -> Answer:
    """Test every plugin: report whether it works, why not, and what to do."""
    data = examine() if options.in_process else _examine_safely(options.timeout)
    broken = any(row["state"] == "broken" for row in data["plugins"])
    return Answer(data, _text(data), not (broken or data["environment"]))


# --- the process -----------------------------------------------------------------


def _examine_safely(timeout: float) -> Row:
    """Return the findings of ``examine`` in a separate process, even if it crashes."""
    guilty: dict[str, str] = {}
    while True:
        data, how, last = _examine_in_subprocess(timeout, guilty)
        if data is not None:
            break
        if not last or last in guilty:
            raise BackendUnavailable(f"doctor: the examination {how}; see --in-process")
        guilty[last] = how
    for row in data["plugins"]:
        if (name := row["distribution"]) in guilty:
            reason = f"it {guilty[name]}"
            row |= {"state": "broken", "phase": "failed", "reason": reason}
            row["advice"] = _to_block(name, row["name"])
    return data


def _examine_in_subprocess(
    timeout: float, without: Iterable[str]
) -> tuple[Row | None, str, str]:
    """Return the findings of a new process, or how and in whose code it ended."""
    blocked = ",".join([os.environ.get("PLUGRAD_BLOCK", ""), *without])
    flags = ["-I"] if sys.flags.isolated else []
    command = ["-m", "plugrad", "doctor", "--in-process", "--json"]
    try:
        done = subprocess.run(
            [sys.executable, *flags, *command],
            capture_output=True,
            timeout=timeout,
            env=os.environ | {"PLUGRAD_BLOCK": blocked},
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as late:
        how = f"did not finish within {timeout:g} s"
        output = late.stderr or b""
    else:
        with contextlib.suppress(ValueError):
            return json.loads(done.stdout), "", ""
        code, output = done.returncode, done.stderr
        end = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        how = f"ended the process with {end}"
    _, mark, rest = output.decode(errors="replace").rpartition(f"\n{OWNER_PREFIX}")
    return None, how, rest.partition("\n")[0] if mark else ""


OWNER_PREFIX = "doctor: in "  # on stderr, before the owner of the code that runs now


def _print_owner() -> None:
    who = running[-1].distribution if running else ""
    print(f"\n{OWNER_PREFIX}{who}", file=sys.stderr, flush=True)


# --- the examination -------------------------------------------------------------


def examine() -> Row:
    """Load, open and test all installed plugins; return the findings."""
    with _watched():
        registry.load()
        for plugin in registry.plugins:
            if plugin.seconds > SLOW_IMPORT_S:
                took = f"takes {plugin.seconds:.2f} s to load"
                plugin.note(f"{took}; move slow work into `open`")
            if plugin.phase is Phase.REGISTERED and not plugin.entries:
                plugin.note("registers nothing: its hooks return empty lists")
        tests = {e: _test_entry(e) for p in registry.plugins for e in p.entries}
    return {
        "plugrad": registry.core.version,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "accelerators": _accelerators(),
        "plugins": [_row(plugin, tests) for plugin in registry.plugins],
        "environment": _environment(),
        "distributions": duplicates(),
    }


def _row(plugin: Plugin, tests: dict[Entry[Any], tuple[bool, list[str]]]) -> Row:
    needs = unmet(plugin.distribution) if plugin.module else []
    by_user = plugin.phase is Phase.BLOCKED and not plugin.entries
    out = plugin.phase.is_excluded or any(
        entry.phase.is_excluded for entry in plugin.entries
    )
    failed = not all(tests[entry][0] for entry in plugin.entries)
    state = "left out" if by_user else "broken" if out or failed else "works"
    if plugin.phase in (Phase.REGISTERED, Phase.OPENED):
        for line in private_imports(plugin.module.partition(":")[0].partition(".")[0]):
            plugin.note(f"{line}, which is private and may change in any version")
    return {
        "state": state,
        **about(plugin, "distribution", "version", "name", "module", "phase", "reason"),
        "advice": "" if state == "works" else _advice(plugin, needs),
        "needs": [str(need) for need in needs],
        "seconds": round(plugin.seconds, 3),
        "notes": plugin.notes,
        "entries": [
            {"entry": str(entry), "phase": str(entry.phase)}
            | {"reason": entry.reason, "remarks": tests[entry][1]}
            for entry in plugin.entries
        ],
        "traceback": trace(plugin),
    }


def _accelerators() -> Row:
    """Return whether the C accelerators are in use; if not, why and what to do."""
    reason = advice = ""
    if accelerated.missing and sys.implementation.name != "cpython":
        reason = "they need CPython"
    elif accelerated.missing:
        reason = accelerated.missing
        advice = (
            "install a plugrad wheel, or install a C compiler and Python's headers "
            "and reinstall plugrad with `--force-reinstall --no-cache-dir`"
        )
    elif accelerated.fast_path_language() == "Python":
        reason = "PLUGRAD_COMPILED=0 is in the environment"
        advice = "unset PLUGRAD_COMPILED"
    return {"in use": not reason, "reason": reason, "advice": advice}


def _environment() -> list[str]:
    """Return the mistakes in environment variables."""
    found = loading.mistakes()
    policy = os.environ.get("PLUGRAD_FALLBACK", "error")
    if policy not in ("error", "warn", "allow"):
        found.append(f"PLUGRAD_FALLBACK={policy}: use error, warn or allow")
    chosen = os.environ.get("PLUGRAD_BACKEND", "")
    if chosen and chosen not in registry.opened:
        hint = suggest(chosen, registry.backends())
        found.append(f"PLUGRAD_BACKEND={chosen}: there is no such backend{hint}")
    return found


# --- tests -----------------------------------------------------------------------

A = np.array([[1.0, 2.0], [3.0, -4.0]], "float32")
B = np.full((2, 2), 0.5, "float32")
MAX_SHOWN_KERNELS = 6  # names of missing kernels in one remark
# Ops to try on a backend that has their kernels, each compared with NumPy.
TESTS: dict[str, tuple[Callable[[Tensor, Tensor], Any], Any]] = {
    "upload and download": (lambda a, b: a, A),
    "Add": (lambda a, b: a + b, A + B),
    "Sum": (lambda a, b: reduce.sum(a, axis=0), A.sum(0)),
    "BatchMatMul": (linalg.matmul, A @ B),
    "a gradient": (lambda a, b: grad(lambda x: reduce.sum(x * x * x))(a), 3 * A * A),
}


def _test_entry(entry: Entry[Any]) -> tuple[bool, list[str]]:
    """Return whether one entry of a plugin works, and remarks."""
    value, remarks = entry.value, []
    try:
        if isinstance(value, KernelPack):
            if value.backend not in registry.backends():
                hint = suggest(value.backend, registry.backends())
                return True, [f"there is no usable backend {value.backend!r}{hint}"]
            registry.open(value.backend)
        elif not entry.usable:
            return False, []
        elif isinstance(value, Backend):
            registry.open(value.name)
            remarks += entry.owner.call(_self_test, value.name)
        else:
            registry.gradients.pack(value.name, "doctor")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if entry.phase is Phase.FAILED:
            return False, []  # its reason is reported already
        return False, [plugins.described(error)]
    return entry.usable, remarks


def _self_test(name: str) -> list[str]:
    """Run a few ops on a backend, and the backend's own test; return remarks."""
    backend = registry.open(name)
    own = backend.runtime.self_test
    return [
        *_missing_kernels(backend),
        *_run_ops(backend),
        *(own() if own is not None else ()),
    ]


def _missing_kernels(backend: OpenBackend) -> list[str]:
    """Return a remark on the core's kernels that the backend cannot run, if any."""
    core = [kernel for name, kernel in registry.contracts.items() if "." not in name]
    names = [kernel.name for kernel in core if how(kernel, backend) == "missing"]
    names.sort(key=lambda name: (name not in TESTS, name))  # well-known kernels first
    if not names:
        return []
    more = len(names) - MAX_SHOWN_KERNELS
    rest = f" and {more} more, see `python -m plugrad kernels`" if more > 0 else ""
    return [f"works in part: no {', '.join(names[:MAX_SHOWN_KERNELS])}{rest}"]


def _run_ops(backend: OpenBackend) -> list[str]:
    """Run the ops for which the backend has kernels; return remarks, or raise."""
    if A.dtype not in backend.dtypes:
        return [f"it has no {A.dtype}, so no op was tried"]
    ran = []
    with context.Scope(backend=backend), _no_fallback():
        for what, (run, expected) in TESTS.items():
            try:
                found = run(asarray(A), asarray(B))._values()
            except KernelNotFound:
                continue
            if found.shape != expected.shape or not np.allclose(found, expected, 1e-5):
                raise ArithmeticError(
                    f"{what} gives {found.tolist()}, not {expected.tolist()}"
                )
            ran.append(what)
    untried = [what for what in TESTS if what not in ran]
    without = f"; cannot run: {', '.join(untried)}" if untried else ""
    return [f"{', '.join(ran)}: as NumPy{without}"]


@contextlib.contextmanager
def _no_fallback() -> Iterator[None]:
    """Unset ``PLUGRAD_FALLBACK``, so that no other backend runs the tests."""
    policy = os.environ.pop("PLUGRAD_FALLBACK", None)
    try:
        yield
    finally:
        if policy is not None:
            os.environ["PLUGRAD_FALLBACK"] = policy


# --- forbidden actions of plugins ------------------------------------------------


class _StdoutSpy(io.TextIOBase):
    """A standard output that records which plugin prints."""

    def write(self, text: str, /) -> int:
        if running and text.strip():
            running[-1].note(f"prints {text.strip()!r}")
        return sys.stderr.write(text)


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    """Record which plugins print or use deprecated features."""

    def note(message: Warning | str, *_: Any, **__: Any) -> None:
        if running and isinstance(message, PlugradDeprecationWarning):
            running[-1].note(f"uses a deprecated feature: {message}")

    with (
        warnings.catch_warnings(action="ignore"),
        contextlib.redirect_stdout(_StdoutSpy()),
    ):
        warnings.simplefilter("always", PlugradDeprecationWarning)
        warnings.showwarning = note
        plugins.running_callbacks.append(_print_owner)
        try:
            yield
        finally:
            plugins.running_callbacks.remove(_print_owner)


# --- advice ----------------------------------------------------------------------


def _advice(plugin: Plugin, needs: Sequence[Need]) -> str:
    """Return what to do about a plugin that does not work."""
    who, error = plugin.distribution, plugin.error
    if plugin.phase is Phase.INCOMPATIBLE:
        return install.advice(plugin.outdated or who, upgrade=True)
    if plugin.phase is Phase.BLOCKED and not plugin.entries:
        return "change that variable to load it"
    if error is None and "PLUGRAD_BLOCK" in plugin.reason:
        return f"to leave out the plugin of {who}, set PLUGRAD_BLOCK={plugin.name}"
    if plugin.missing_module(error):
        return f"{install.advice(who)}, with the option --force-reinstall"
    if needs:
        return install.advice(*(need.argument for need in needs))
    if isinstance(error, ModuleNotFoundError):
        return f"install a package with the module {error.name!r}; {who} needs it"
    return _to_block(who, plugin.name)


def _to_block(distribution: str, name: str) -> str:
    return (
        f"{install.advice(distribution, upgrade=True)}, or tell its authors; until "
        f"then PLUGRAD_BLOCK={name or distribution} leaves it out"
    )


# --- the text --------------------------------------------------------------------


def _text(data: Row) -> str:
    """Return the text for people: one paragraph for each plugin."""
    lines = [
        f"plugrad {data['plugrad'] or 'without metadata'}, Python {data['python']}, "
        f"NumPy {data['numpy']}, {data['platform']}"
    ]
    lines += _accelerator_lines(data["accelerators"])
    for row in data["plugins"]:
        who = f"{row['distribution']} {row['version']}".rstrip()
        name = f" ({row['name']})" if row["name"] else ""
        lines += ["", f"{row['state']:8}  {who}{name}, {row['seconds']:.2f} s"]
        lines += [f"{'':10}{' '.join(line.split())}" for line in _findings(row)]
    if not data["plugins"]:
        lines += ["", f"no plugin is installed; try {install.advice('plugrad-cpu')}"]
    for title in ("environment", "distributions"):
        if data[title]:
            lines += ["", *(f"{title}: {line}" for line in data[title])]
    return "\n".join(lines)


def _findings(row: Row) -> list[str]:
    """Return the lines about one plugin: its state, its entries, needs and advice."""
    is_excluded = row["phase"] not in ("registered", "opened")
    findings = [row["reason"]] if is_excluded else []
    for entry in row["entries"]:
        remarks = [] if is_excluded else [entry["reason"], *entry["remarks"]]
        text = f"{entry['entry']} {entry['phase']}"
        if reasons := "; ".join(filter(None, remarks)):
            text += f": {reasons}"
        findings.append(text)
    findings += [f"needs {need}" for need in row["needs"]]
    findings += [f"note: it {note}" for note in row["notes"]]
    if row["advice"]:
        findings.append(f"to do: {row['advice']}")
    return findings


def _accelerator_lines(found: Row) -> list[str]:
    if found["in use"]:
        return ["C accelerators: in use"]
    without = f"not in use, {found['reason']}; everything works, but more slowly"
    todo = [f"{'':10}to do: {found['advice']}"] if found["advice"] else []
    return [f"C accelerators: {without}", *todo]
