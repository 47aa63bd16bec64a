"""Decides whether plugrad passes a golden case.

``judge`` requires the result of TensorFlow.js, unless ``exceptions.toml`` lists the
case: then the result must differ (else the entry is stale), and ``instead`` must hold.

Contents: values, gradients, errors; finite differences; exceptions; ``judge``.
"""

from __future__ import annotations

import dis
import functools
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import plugrad as pg

from . import instead as checks
from .cases import EXACT, KINDS, Array, Case, Handle, close, describe, handles, names

Row = Callable[..., Any]

FILE = Path(__file__).parent / "exceptions.toml"
REASONS = ("wrong-derivative", "suspect", "array-api", "we-support-it", "no-such-op")
OWN_ERRORS = (ValueError, TypeError, IndexError, OverflowError, NotImplementedError)
TOLERANCES = {"kernels": (1e-5, 1e-6), "gradients": (1e-4, 1e-5)}
MAX_COMPARED_ELEMENTS = 40  # per input, in checks by finite differences
RAISE_OPCODE = dis.opmap["RAISE_VARARGS"]
KIT = __name__.partition(".")[0]


# --- running a row ---------------------------------------------------------------


def tensors(value: Any) -> Any:
    """Convert arrays to tensors, even in lists and dicts."""
    if isinstance(value, np.ndarray):
        return pg.asarray(value)
    if isinstance(value, list):
        return [tensors(v) for v in value]
    if isinstance(value, dict):
        return {name: tensors(v) for name, v in value.items()}
    return value


def run(case: Case, row: Row, inputs: Any = None) -> Any:
    """Run the row on a case; return a tensor or several."""
    if case.args is not None:
        return row(*tensors(case.args))
    given = tensors(case.inputs) if inputs is None else inputs
    if isinstance(given, dict):
        return row(**given, **case.attrs)
    return row(given, **case.attrs)


def recast(value: Any, old: Any, new: Any) -> Any:
    """Return inputs with the arrays of one dtype cast to another."""
    if isinstance(value, dict):
        return {name: recast(x, old, new) for name, x in value.items()}
    if isinstance(value, list):
        return [recast(x, old, new) for x in value]
    if isinstance(value, np.ndarray) and value.dtype == old:
        with np.errstate(all="ignore"):
            return value.astype(new)
    return value


def outcome(case: Case, row: Row) -> Any:
    """Return the results as arrays, or the error that the case raises."""
    try:
        return [y.numpy() for y in listed(run(case, row))]
    except OWN_ERRORS as error:
        return error


def listed(result: Any) -> list[pg.Tensor]:
    """Return the tensors of a result."""
    found = list(result) if isinstance(result, list | tuple) else [result]
    for y in found:
        assert isinstance(y, pg.Tensor), f"a row returned {type(y).__name__}"
    return found


# --- values ----------------------------------------------------------------------


def values(case: Case, row: Row) -> None:
    """Require that a row returns the recorded outputs of a kernel."""
    result = run(case, row)
    ys = listed(result)
    assert len(ys) == len(case.outputs), (
        f"{len(ys)} outputs instead of {len(case.outputs)}"
    )
    if case.list_output:
        assert isinstance(result, list | tuple), "one tensor instead of a list"
    for i, (y, expected) in enumerate(zip(ys, case.outputs, strict=True)):
        require_close(f"output {i}", case, y.numpy(), expected)


def require_close(what: str, case: Case, actual: Array, expected: Array) -> None:
    """Require that an array agrees with another within the tolerances of the case."""
    assert actual.dtype == expected.dtype, (
        f"{what} is {actual.dtype} instead of {expected.dtype}"
    )
    assert actual.shape == expected.shape, (
        f"{what} has shape {actual.shape} instead of {expected.shape}"
    )
    if case.random:
        return
    exact = case.handle.kind == "kernels" and case.handle.kernel in EXACT
    rtol, atol = (0.0, 0.0) if exact else TOLERANCES[case.handle.kind]
    assert close(actual, expected, rtol, atol), (
        f"{what} differs:\n{actual}\ninstead of\n{expected}"
    )


# --- gradients -------------------------------------------------------------------


def floats(case: Case) -> dict[str, Array]:
    """Return the floating inputs of a case by name."""
    inputs = case.inputs
    if isinstance(inputs, list):
        inputs = {str(i): x for i, x in enumerate(inputs)}
    return {
        name: x
        for name, x in inputs.items()
        if isinstance(x, np.ndarray) and x.dtype.kind == "f"
    }


def replaced(case: Case, xs: Mapping[str, Any]) -> Any:
    """Return the inputs of a case as tensors, with some of them replaced."""
    if isinstance(case.inputs, list):
        return [xs.get(str(i), x) for i, x in enumerate(tensors(case.inputs))]
    return tensors(case.inputs) | xs


def outputs(case: Case, row: Row, xs: Mapping[str, Any]) -> list[pg.Tensor | None]:
    """Return the outputs that have a cotangent; None for those without a derivative."""
    ys = listed(run(case, row, replaced(case, xs)))
    assert len(ys) == len(case.dys), f"{len(ys)} outputs instead of {len(case.dys)}"
    return [
        y if dy is not None and y.dtype.kind in "fc" else None
        for y, dy in zip(ys, case.dys, strict=True)
    ]


def derivatives(case: Case, row: Row) -> dict[str, Array]:
    """Return plugrad's gradients with respect to all floating inputs of a case."""
    xs = floats(case)
    cotangents: list[Any] = []

    def f(*tensors: pg.Tensor) -> tuple[pg.Tensor, ...]:
        ys = outputs(case, row, dict(zip(xs, tensors, strict=True)))
        cotangents[:] = [
            dy for y, dy in zip(ys, case.dys, strict=True) if y is not None
        ]
        return tuple(y for y in ys if y is not None)

    _, pullback = pg.vjp(f, *tensors(list(xs.values())))
    dxs = pullback(tuple(tensors(cotangents)))
    return {name: dx.numpy() for name, dx in zip(xs, dxs, strict=True)}


def gradients(case: Case, row: Row) -> None:
    """Require the gradients of TensorFlow.js; without them, finite differences."""
    found = derivatives(case, row)
    for name, expected in case.grads.items():
        require_close(f"the gradient of {name}", case, found[name], expected)
    doubtful = [name for name, outcome in case.checks.items() if outcome == "disagrees"]
    missing = [name for name in found if name not in case.grads]
    differences(case, row, found, [*doubtful, *missing])


def differences(
    case: Case,
    row: Row,
    found: Mapping[str, Array],
    input_names: list[str],
    *,
    finite_only: bool = False,
) -> int:
    """Require that gradients equal finite differences in float64 on cpu.

    Elements next to a kink or a step, where the two sides differ, are omitted; with
    ``finite_only``, so are outputs that are not finite: averages of empty windows.

    Returns:
        The number of compared elements.

    """
    xs = {name: x.astype(np.float64) for name, x in floats(case).items()}
    rng = np.random.default_rng(0)
    compared = 0
    for name in input_names:
        for i in rng.permutation(xs[name].size)[:MAX_COMPARED_ELEMENTS]:
            left, right = _slopes(case, row, xs, name, i, finite_only)
            if not abs(right - left) <= 1e-3 * (1 + abs(left)):
                continue
            compared += 1
            numeric = (left + right) / 2
            dx = found[name].flat[i]
            assert abs(dx - numeric) <= 1e-4 * (1 + abs(numeric)), (
                f"the gradient of {name}[{i}] is {dx}, the derivative is {numeric}"
            )
    return compared


def _slopes(
    case: Case, row: Row, xs: Mapping[str, Array], name: str, i: int, finite_only: bool
) -> tuple[float, float]:
    """Return the left and the right derivative with respect to one element."""
    ys, eps = [], 1e-6
    for step in (-eps, 0.0, eps):
        x = xs[name].copy()
        x.flat[i] += step
        y, dy = _outputs(case, row, {**xs, name: x})
        ys.append(y)
    if finite_only:
        ys = [np.where(np.isfinite(ys[1]), y, 0) for y in ys]
    before, here, after = ys
    with np.errstate(invalid="ignore"):
        left = np.vdot(dy, here - before)
        right = np.vdot(dy, after - here)
    return float(left) / eps, float(right) / eps


def _outputs(case: Case, row: Row, xs: Mapping[str, Array]) -> tuple[Array, Array]:
    """Return the differentiable outputs, concatenated, and their cotangents."""
    with pg.use_backend("cpu"):
        found = outputs(case, row, {name: pg.asarray(x) for name, x in xs.items()})
    pairs = [
        (y.numpy().astype(np.float64).ravel(), dy.ravel())
        for y, dy in zip(found, case.dys, strict=True)
        if y is not None and dy is not None
    ] or [(np.zeros(0), np.zeros(0))]
    ys, dys = zip(*pairs, strict=True)
    return np.concatenate(ys), np.concatenate(dys)


# --- errors ----------------------------------------------------------------------


def errors(case: Case, row: Row) -> None:
    """Require an error raised by plugrad itself."""
    require_error(case, row)


def require_error(case: Case, row: Row, kinds: tuple[type, ...] = OWN_ERRORS) -> None:
    """Require that a row deliberately raises one of ``kinds`` with a message."""
    try:
        result = run(case, row)
        if isinstance(result, pg.Tensor):
            result.numpy()  # an asynchronous backend raises here
    except Exception as error:
        _require_deliberate(error, kinds)
    else:
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise AssertionError(f"no {expected}; TensorFlow.js says: {case.error}")


def _require_deliberate(error: Exception, kinds: tuple[type, ...]) -> None:
    """Require a deliberately written message, not an accidental error."""
    name = type(error).__name__
    if isinstance(error, pg.KernelNotFound) or not isinstance(error, kinds):
        raise AssertionError(f"{name} is not an acceptable error: {error}") from error
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    package = trace.tb_frame.f_globals.get("__name__", "").partition(".")[0]
    place = f"{code.co_filename}:{trace.tb_lineno}"
    if package == KIT or not (package.startswith("plugrad") or package in _plugins()):
        raise AssertionError(f"{name} from elsewhere, {place}: {error}") from error
    if code.co_code[trace.tb_lasti] != RAISE_OPCODE:  # a call or an operator
        raise AssertionError(f"{name} by accident, {place}: {error}") from error
    if not re.search(r"\w+ \w+", str(error)):
        raise AssertionError(
            f"the message of {name} is not a sentence, {place}"
        ) from error


def _plugins() -> set[str]:
    """Return the packages of plugins, whose kernels check values."""
    return {re.split("[.:]", plugin.module)[0] for plugin in pg.engine().plugins}


# --- exceptions ------------------------------------------------------------------


@dataclass(frozen=True)
class Departure:
    """An entry of ``exceptions.toml``: cases in which plugrad's result differs."""

    ids: list[str]
    kernel: str
    kind: str
    reason: str
    why: str
    instead: str
    expect: str = ""


def read(text: str) -> list[Departure]:
    """Return the exceptions in a text after a check against the corpus.

    Raises:
        ValueError: The message lists the faults of every wrong entry.

    """
    tables = tomllib.loads(text).get("exception", [])
    entries, wrong = [], []
    for i, table in enumerate(tables, 1):
        try:
            entry = Departure(**table)
        except TypeError as error:
            wrong.append(f"exception {i}: {error}")
        else:
            entries.append(entry)
            wrong += [f"exception {i}: {what}" for what in _faults(entry)]
    seen: set[tuple[str, str]] = set()
    for entry in entries:
        for id in entry.ids:
            if (entry.kind, id) in seen:
                wrong.append(f"{entry.kind} {id} is listed twice")
            seen.add((entry.kind, id))
    if wrong:
        raise ValueError("exceptions.toml:\n" + "\n".join(wrong))
    return entries


def _faults(entry: Departure) -> Iterator[str]:
    if entry.kind not in KINDS:
        yield f"kind {entry.kind!r} is none of {KINDS}"
        return
    if entry.reason not in REASONS:
        yield f"reason {entry.reason!r} is none of {REASONS}"
    if not entry.why.strip() or "\n" in entry.why:
        yield "why must be one line"
    if not entry.ids:
        yield "there are no ids"
    known = (
        handles(entry.kind, entry.kernel) if entry.kernel in names(entry.kind) else []
    )
    for id in set(entry.ids) - {h.id for h in known}:
        yield f"{entry.kernel} has no case {id} among the {entry.kind}"
    how, _, what = entry.instead.partition(":")
    match how, entry.kind:
        case "finite-differences", "gradients":
            valid = not what
        case "dtype", "kernels":
            valid = what in np.sctypeDict
        case "raises", _:
            valid = what in {kind.__name__ for kind in OWN_ERRORS}
        case "works", _:
            valid = not what
        case "check", _:
            valid = callable(getattr(checks, what, None))
        case _:
            valid = False
    if not valid:
        yield f"instead = {entry.instead!r} cannot be checked for {entry.kind}"
    if bool(entry.expect) != (how == "works"):
        yield "instead = 'works' needs expect, and no other value of instead accepts it"


@functools.cache
def departures() -> dict[Handle, Departure]:
    """Return the exceptions in force."""
    return {
        Handle(entry.kind, entry.kernel, id): entry
        for entry in read(FILE.read_text())
        for id in entry.ids
    }


def depart(case: Case, row: Row | None, entry: Departure) -> None:
    """Require the check of an exception instead of the golden result."""
    how, _, what = entry.instead.partition(":")
    if how == "check":
        getattr(checks, what)(case, row)
        return
    assert row is not None, 'only instead = "check:..." works without a row'
    if how == "finite-differences":
        found = derivatives(case, row)
        compared = differences(case, row, found, list(found), finite_only=True)
        assert compared, "there is no smooth point; nothing was compared"
    elif how == "dtype":
        ys = listed(run(case, row))
        for i, (y, expected) in enumerate(zip(ys, case.outputs, strict=True)):
            assert y.dtype == np.dtype(what), f"{y.dtype} instead of {what}"
            require_close(
                f"output {i}", case, pg.astype(y, expected.dtype).numpy(), expected
            )
    elif how == "raises":
        require_error(case, row, tuple(k for k in OWN_ERRORS if k.__name__ == what))
    else:
        _equals(case, row, entry.expect)


def _equals(case: Case, row: Row, expect: str) -> None:
    """Require the value of a NumPy expression: an array or a list of arrays.

    The value stands for the results of a kernel or an op, or for the gradients in the
    order of the inputs.
    """
    given = case.inputs if isinstance(case.inputs, dict) else {}
    scope = {"np": np, "args": case.args, "inputs": case.inputs, **given}
    if case.handle.kind == "gradients":
        found = list(derivatives(case, row).values())
        scope |= {"dys": case.dys, "dy": case.dys[0]}
    else:
        found = [y.numpy() for y in listed(run(case, row))]
    with np.errstate(all="ignore"):
        wanted = eval(expect, scope)
        expected = [np.asarray(y) for y in _several(wanted)]
        assert len(found) == len(expected), f"{len(found)} results, not {len(expected)}"
        for y, z in zip(found, expected, strict=True):
            assert y.dtype.kind == z.dtype.kind, f"{y.dtype} instead of {z.dtype}"
            tolerances = TOLERANCES.get(case.handle.kind, TOLERANCES["kernels"])
            assert close(y, z.astype(y.dtype), *tolerances), f"{y}\ninstead of\n{z}"


def _several(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


# --- the verdict -----------------------------------------------------------------

DEMANDS = {"kernels": values, "gradients": gradients, "errors": errors}


def judge(case: Case, row: Row | None, entry: Departure | None) -> None:
    """Raise unless the result equals that of TensorFlow.js or satisfies an exception.

    A note of the error shows the inputs and attributes of the case.
    """
    try:
        _judge(case, row, entry)
    except Exception as error:
        error.add_note(describe(case))
        raise


def _judge(case: Case, row: Row | None, entry: Departure | None) -> None:
    demand = DEMANDS[case.handle.kind]
    if entry is None:
        assert row is not None, "nothing reaches this case"
        demand(case, row)
        return
    if row is not None:
        try:
            demand(case, row)
        except Exception:
            pass  # the exceptions say that this case fails
        else:
            raise AssertionError(
                f"stale: this case is followed now; remove {case.handle.id} of "
                f"{entry.kernel} from exceptions.toml"
            )
    depart(case, row, entry)
