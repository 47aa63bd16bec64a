"""What ``debug`` watches over: contracts, finite values, memory left behind.

Map: ``Debug`` and its checks; what messages say (the user's line, the implementation,
the gradient at work); ``check_gradients``.
"""

from __future__ import annotations

import functools
import gc
import linecache
import operator
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType, TracebackType
from typing import Any

import numpy as np

from plugrad import _autodiff, _context, _engine
from plugrad._arguments import function, integer, real
from plugrad._context import Run, state
from plugrad._dtypes import canonical
from plugrad._kernel import Kernel, Spec, origin
from plugrad._nest import flatten
from plugrad._registry import registry
from plugrad._tape import Node, spec, specs
from plugrad._tensor import Tensor, Token
from plugrad.ops import complexes, reduce
from plugrad.ops._convert import asarray
from plugrad.ops.variable import Variable

from .memory import owner

Array = np.ndarray[Any, Any]


class DebugError(AssertionError):
    """A kernel or a gradient breaks its contract, or memory was left behind."""


class Debug:
    """A block in which every run of this thread is checked."""

    def __init__(self, *, finite: bool, leaks: bool) -> None:
        self._finite, self._leaks = finite, leaks
        self._lines: dict[Token, str] = {}  # where tapes have recorded what
        self._made: dict[int, tuple[weakref.ref[Any], tuple[str, str, str], int]] = {}
        self._kept: list[weakref.ref[Any]] = []

    def __enter__(self) -> Debug:
        self._scope = _context.observing(self)
        self._scope.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._scope.__exit__(kind, error, trace)
        if error is not None:
            note = self._gradient(_frames(trace))
            if note and note not in str(error):
                error.add_note(f"debug: {note}")
        elif self._leaks and (left := self.left()):
            total = sum(size for *_, size in left)
            lines = [
                f"  {count} x {kernel} on {backend!r}, {size:,} bytes, made at {line}"
                for kernel, backend, line, count, size in left
            ]
            raise DebugError(
                f"debug: {total:,} bytes that were made in the block are still held; "
                "drop the handles and pullbacks that hold them, use tidy, or say "
                "keep:\n" + "\n".join(lines)
            )

    def __call__(
        self,
        kernel: Kernel,
        inputs: tuple[Tensor | None, ...],
        attrs: dict[str, Any],
        outputs: tuple[Tensor, ...],
    ) -> None:
        """Check a run that has just ended."""
        run = state.run
        assert run is not None  # the engine calls observers in a run
        wrong = _broken(kernel, inputs, attrs, outputs, run)
        if wrong:
            raise DebugError(self._said(kernel, inputs, run, wrong))
        if run.parent is None:  # what a decomposition hides in a branch is its own
            if self._finite and (wrong := _not_finite(inputs, attrs, outputs)):
                raise FloatingPointError(self._said(kernel, inputs, run, wrong))
            if self._leaks:
                self._note(kernel, inputs, outputs, run)
        line = ""
        for y in outputs:
            if y._token is not None:
                line = line or _line()
                self._lines[y._token] = line

    def failed(self, error: Exception) -> None:
        """Note on an error where it comes from; the innermost run speaks."""
        run = state.run
        known = getattr(error, "__notes__", ())
        if run is not None and not any(n.startswith("debug: ") for n in known):
            error.add_note(
                f"debug: in {run.kernel.name} on {run.where.name!r}, called at "
                f"{_line()}{self._within()}"
            )

    # --- memory ------------------------------------------------------------------

    def keep(self, x: Tensor) -> None:
        """Take it for no leak that the memory of ``x`` is held."""
        try:
            self._kept.append(weakref.ref(owner(x._data)))
        except TypeError:  # NumPy's scalars
            return

    def left(self) -> list[tuple[str, str, str, int, int]]:
        """Return the memory made in the block that is still held, the largest first.

        One row for a kernel, a backend and the user's line, with the number of buffers
        and their bytes. NumPy's scalars, of a few bytes, are not in it.
        """
        gc.collect()
        kept = {id(x) for ref in self._kept if (x := ref()) is not None}
        counts: Counter[tuple[str, str, str]] = Counter()
        sizes: Counter[tuple[str, str, str]] = Counter()
        for key, (ref, who, size) in self._made.items():
            if ref() is not None and key not in kept:
                counts[who] += 1
                sizes[who] += size
        return [(*who, counts[who], size) for who, size in sizes.most_common()]

    def _note(
        self,
        kernel: Kernel,
        inputs: tuple[Tensor | None, ...],
        outputs: tuple[Tensor, ...],
        run: Run,
    ) -> None:
        before = {id(owner(x._data)) for x in inputs if x is not None}
        for y in outputs:
            held, home = owner(y._data), y._home
            known = self._made.get(id(held))
            if id(held) in before or (known is not None and known[0]() is not None):
                continue  # a view
            try:
                ref = weakref.ref(held)
            except TypeError:
                continue
            size = home.runtime.arrays.nbytes(held)
            self._made[id(held)] = ref, (kernel.name, home.name, _line()), size

    # --- messages ----------------------------------------------------------------

    def _said(
        self, kernel: Kernel, inputs: tuple[Tensor | None, ...], run: Run, wrong: str
    ) -> str:
        given = ", ".join("none" if x is None else _brief(x) for x in inputs)
        return (
            f"{kernel.op}: {kernel.name} on {run.where.name!r}, the {run.how} of "
            f"{_origin(kernel, run)}, {wrong}; inputs: {given or 'none'}; called at "
            f"{_line()}{self._within()}"
        )

    def _within(self) -> str:
        note = self._gradient(_stack())
        return f", in the {note}" if note else ""

    def _gradient(self, frames: Iterator[FrameType]) -> str:
        """Return which gradient one of the frames is working at, innermost first."""
        for frame in frames:
            if frame.f_code is _PULL_BACK and "step" in frame.f_locals:
                node, step = frame.f_locals["node"], frame.f_locals["step"]
                where = [self._lines.get(token) for token in Node(*node).outputs]
                line = where[0] if where and where[0] else "a line outside of debug"
                return f"{_autodiff._of(node.plan.kernel, step)}, of the run at {line}"
        return ""


_PULL_BACK: CodeType = _autodiff._pull_back.__code__


# --- the checks ------------------------------------------------------------------


def _broken(
    kernel: Kernel,
    inputs: tuple[Tensor | None, ...],
    attrs: dict[str, Any],
    outputs: tuple[Tensor, ...],
    run: Run,
) -> str:
    """Return what a run has done against its contract, or nothing."""
    if not kernel.variadic_outputs and len(outputs) != len(kernel.outputs):
        return f"returned {len(outputs)} outputs, and {kernel} has other"
    home = attrs["backend"] if kernel.name == "plugrad.To" else run.backend.name
    for y in outputs:
        if y._home.name != home:
            return f"returned a tensor at home on {y._home.name!r}"
        if type(y.shape) is not tuple or any(type(n) is not int for n in y.shape):
            return f"returned the shape {y.shape!r}, which is no tuple of int"
        try:
            known = canonical(y.dtype)
        except TypeError:
            return f"returned {y.dtype!r}, which plugrad does not have"
        if known is not y.dtype:
            return f"returned another object for the dtype {y.dtype}"
        if spec(y) != (y._data.shape, y._data.dtype):
            return "changed an array after it had returned it"
    if kernel.out is not None:
        told = kernel.out(*specs(inputs), **attrs)
        expected = (told,) if isinstance(told, Spec) else tuple(told)
        if tuple(map(spec, outputs)) != expected:
            said = ", ".join(map(_brief, expected))
            got = ", ".join(map(_brief, outputs))
            return f"returned {got}, and its contract says {said}"
    return ""


def _not_finite(
    inputs: tuple[Tensor | None, ...],
    attrs: dict[str, Any],
    outputs: tuple[Tensor, ...],
) -> str:
    """Return where an output is not finite though all that went in is, or nothing."""
    for y in outputs:
        if y.dtype.kind not in "fc":
            continue
        values = np.asarray(y.numpy())
        finite = np.isfinite(values)
        if not finite.all():
            numbers = [v for v in attrs.values() if isinstance(v, float | complex)]
            if not all(map(np.isfinite, numbers)) or any(map(_has_infinite, inputs)):
                return ""
            at = tuple(map(int, np.argwhere(~finite)[0]))
            count = finite.size - np.count_nonzero(finite)
            return (
                f"returned {values[at]} at {at} and {count - 1} more values that are "
                "not finite, from inputs that are (debug(finite=False) lets them pass)"
            )
    return ""


def _has_infinite(x: Tensor | None) -> bool:
    if x is None or x.dtype.kind not in "fc":
        return False
    return not np.isfinite(x.numpy()).all()


# --- what messages say -----------------------------------------------------------


def _brief(x: Tensor | Spec) -> str:
    return f"{x.dtype}[{','.join(map(str, x.shape))}]"


def _origin(kernel: Kernel, run: Run) -> str:
    """Return who wrote what ran, and where."""
    layers = registry.kernels.get((kernel.name, run.where.name))
    if run.how == "decomposition" and kernel.decomposition is not None:
        return origin(kernel.decomposition, "the contract")
    return origin(layers[0].function, str(layers[0].owner)) if layers else "plugrad"


def _stack() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    frames = []
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    return reversed(frames)


def _line() -> str:
    """Return the user's line: that of the first frame outside of plugrad."""
    for frame in _stack():
        if frame.f_globals.get("__name__", "").partition(".")[0] != "plugrad":
            file, number = frame.f_code.co_filename, frame.f_lineno
            text = linecache.getline(file, number, frame.f_globals).strip()
            return f"{file}:{number}" + (f" `{text}`" if text else "")
    return "nowhere"


# --- gradients against finite differences ----------------------------------------


def check_gradients(
    f: Callable[..., Any],
    xs: Sequence[Any],
    order: int,
    eps: float | None,
    rtol: float | None,
) -> None:
    """Compare the gradients of ``f`` with finite differences; complain if they differ.

    Along one random direction v the result moves by the sum of Re(conj(dx) v).
    """
    function("check_gradients", f)
    if integer("check_gradients", "order", order) not in (1, 2):
        raise ValueError(f"check_gradients: order is 1 or 2, got {order}")
    held = _engine.active().dtypes
    double = all(_wide(x, True).dtype in held for x in xs)
    usual = (1e-6, 1e-5) if double else (1e-2, 2e-2)
    eps = real("check_gradients", "eps", usual[0] if eps is None else eps)
    rtol = real("check_gradients", "rtol", usual[1] if rtol is None else rtol)
    if not (eps > 0 and rtol > 0):
        raise ValueError(f"check_gradients: eps {eps} and rtol {rtol} must be positive")
    atol = 1e-7 if double else 1e-3
    arrays = [_wide(x, double) for x in xs]
    rng = np.random.default_rng(1)
    vs = [_like(x, rng) for x in arrays]
    ys = _leaves(f(*map(asarray, arrays)))
    if not any(y.dtype.kind in "fc" for y in ys):
        raise TypeError(
            "check_gradients: f must return floating tensors, got "
            f"{' and '.join(str(y.dtype) for y in ys) or 'none'}"
        )
    dys = [_like(y, rng) for y in ys]
    _compare(f, arrays, vs, dys, eps, (rtol, atol), "order 1")
    if order == 2:

        def along(*xs: Tensor) -> Tensor:
            return _along(f, xs, vs, dys)

        ys = [np.ones_like(y) for y in _leaves(along(*map(asarray, arrays)))]
        tolerance = max(rtol, 1e-4), atol
        _compare(along, arrays, vs, ys, eps, tolerance, "order 2")


def _compare(
    f: Callable[..., Any],
    xs: list[Array],
    vs: list[Array],
    dys: list[Array],
    eps: float,
    tolerance: tuple[float, float],
    what: str,
) -> None:
    def numeric(vs: list[Array]) -> float:
        ends = []
        for t in (eps, -eps):
            moved = [asarray(x + t * v) for x, v in zip(xs, vs, strict=True)]
            ends.append(_leaves(f(*moved)))
        pairs = zip(dys, *ends, strict=True)
        return float(sum(_dot(dy, a - b) for dy, a, b in pairs)) / (2 * eps)

    def off(a: float, b: float) -> bool:
        rtol, atol = tolerance
        return not abs(a - b) <= atol + rtol * abs(b)  # NaN is off

    found = [dx.numpy() for dx in _pulled(f, list(map(asarray, xs)), dys)]
    exact = sum(_dot(dx, v) for dx, v in zip(found, vs, strict=True))
    if off(exact, measured := numeric(vs)):
        raise DebugError(
            f"check_gradients: {what}: along a random direction the gradients give "
            f"{exact:.9g}, finite differences {measured:.9g} (rtol={tolerance[0]:g}, "
            f"atol={tolerance[1]:g}, eps={eps:g})"
            + "".join(_culprits(found, vs, numeric, off))
        )


def _culprits(
    found: list[Array],
    vs: list[Array],
    numeric: Callable[[list[Array]], float],
    off: Callable[[float, float], bool],
) -> Iterator[str]:
    """Give a line for each argument that is wrong, and one for an element of it."""
    for i, dx in enumerate(found):
        mine = [v if i == j else np.zeros_like(v) for j, v in enumerate(vs)]
        if not off(exact := _dot(dx, vs[i]), alone := numeric(mine)):
            continue
        yield f"\n  argument {i}: {exact:.9g} against {alone:.9g}"
        for at in np.ndindex(dx.shape if dx.size <= 1000 else (0,)):
            unit = [np.zeros_like(v) for v in vs]
            unit[i][at] = 1.0
            if off(one := float(dx[at].real), alone := numeric(unit)):
                yield f"\n    its element {at}: {one:.9g} against {alone:.9g}"
                break


def _pulled(f: Callable[..., Any], xs: Sequence[Any], dys: list[Array]) -> list[Tensor]:
    """Return the cotangents of ``xs``."""
    value, pull_back = _autodiff.vjp(f, *xs)
    build = flatten(value, _autodiff._no_tensor)[1]
    return list(pull_back(build([asarray(dy) for dy in dys])))


def _along(
    f: Callable[..., Any], xs: Sequence[Any], vs: list[Array], dys: list[Array]
) -> Tensor:
    """Return the derivative of ``f`` along ``vs``, as a function of ``xs``."""
    parts = [
        complexes.real(reduce.sum(complexes.conj(dx) * asarray(v)))
        for dx, v in zip(_pulled(f, xs, dys), vs, strict=True)
    ]
    return functools.reduce(operator.add, parts)


def _leaves(value: Any) -> list[Array]:
    return [y.numpy() for y in flatten(value, _autodiff._no_tensor)[0]]


def _wide(x: Any, double: bool) -> Array:
    """Return the values in the widest dtype of their kind."""
    values = np.asarray(x.numpy() if isinstance(x, Tensor | Variable) else x)
    if values.dtype.kind not in "biufc":
        raise TypeError(f"check_gradients: xs must be numbers, got {x!r}")
    if values.dtype.kind == "c":
        return values.astype(np.complex128 if double else np.complex64)
    return values.astype(np.float64 if double else np.float32)


def _like(x: Array, rng: np.random.Generator) -> Array:
    y = rng.normal(size=x.shape)
    if x.dtype.kind == "c":
        return np.asarray(y + 1j * rng.normal(size=x.shape), x.dtype)
    return np.asarray(y, x.dtype)


def _dot(a: Array, b: Array) -> float:
    return float(np.sum(np.conj(a) * b).real)
