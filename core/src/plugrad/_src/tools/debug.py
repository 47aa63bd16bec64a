"""The checks of ``debug`` blocks: contracts, finite values, memory leaks.

Contents: ``Debug`` and its checks; the parts of messages (the user's line, the
implementation, the gradient that runs); ``check_gradients``.
"""

from __future__ import annotations

import functools
import gc
import linecache
import operator
import sys
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from traceback import walk_stack
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from plugrad._src.autodiff import reverse
from plugrad._src.autodiff.mistakes import refuse_non_tensor
from plugrad._src.engine import context, dispatch
from plugrad._src.engine.context import Run, running
from plugrad._src.engine.tape import Outputs, spec, specs
from plugrad._src.ops.basis import complexes, reduce
from plugrad._src.ops.basis._convert import asarray
from plugrad._src.ops.basis.variable import Variable
from plugrad._src.registry.backend import Function
from plugrad._src.registry.contract import Kernel, Spec, origin
from plugrad._src.registry.registry import registry
from plugrad._src.tensor.arguments import function, integer, real
from plugrad._src.tensor.dtypes import canonical, dtype_kind
from plugrad._src.tensor.tensor import TapeId, Tensor
from plugrad._src.tensor.tree import flatten

from .device import wait
from .memory import Inputs, brief, owner

Array = np.ndarray[Any, Any]
Where = tuple[str, str, str]  # the kernel, the backend, the user's line


class DebugError(AssertionError):
    """A contract is broken, a gradient is lost, or memory is leaked."""


class Debug:
    """A context manager that checks every run of this thread in its block.

    Attributes:
        checks_replays: Whether ``jit`` compares calls in the block with their replays.

    """

    checks_replays = True

    def __init__(self, *, finite: bool, leaks: bool) -> None:
        self._finite, self._leaks = finite, leaks
        self._lines: dict[TapeId, str] = {}  # the places where tapes recorded tensors
        self._made: dict[int, tuple[weakref.ref[Any], Where, int]] = {}
        self._kept: list[weakref.ref[Any]] = []
        self._gradients = _Gradients()

    def __enter__(self) -> Debug:
        self._scope = context.Scope(observer=self)
        self._scope.__enter__()
        return self

    def __exit__(
        self, kind: object, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scope.__exit__(kind, error, trace)
        if error is None and self._leaks and (left := self.left()):
            total = sum(size for *_, size in left)
            rows = [
                f"\n  {count} x {kernel} on {backend!r}, {size:,} bytes, made at {line}"
                for kernel, backend, line, count, size in left
            ]
            raise DebugError(
                f"debug: {total:,} bytes that were made in the block are still held; "
                "drop the handles and pullbacks that hold them, use tidy, or use keep:"
                + "".join(rows)
            )

    def __call__(
        self, kernel: Kernel, inputs: Inputs, attrs: dict[str, Any], outputs: Outputs
    ) -> None:
        """Check a run that has just ended."""
        run = running()
        assert run is not None  # the engine calls observers inside a run
        if kernel.checks:  # waiting raises the errors that a device has found
            wait(run.where)
        if wrong := _broken(run, inputs, attrs, outputs):
            raise DebugError(self._message(run, inputs, wrong))
        if run.parent is None:  # inside a decomposition, unused values may be infinite
            if self._finite and (wrong := _not_finite(inputs, attrs, outputs)):
                raise FloatingPointError(self._message(run, inputs, wrong))
            if self._leaks:
                self._note(run, inputs, outputs)
        if tape_ids := [y._tape_id for y in outputs if y._tape_id is not None]:
            self._lines |= dict.fromkeys(tape_ids, _line())

    def failed(self, error: Exception) -> None:
        """Add a note with the origin of an error, once: for the innermost run."""
        run = running()
        known = getattr(error, "__notes__", ())
        if run is not None and not any(n.startswith("debug: ") for n in known):
            place = f"{run.kernel.name} on {run.where.name!r}"
            error.add_note(f"debug: in {place}, {self._called()}")

    @contextmanager
    def gradient(self, what: str, of: TapeId) -> Iterator[None]:
        """Remember the gradient that runs in the block, for error messages.

        Args:
            what: The kernel, the input and the origin of the gradient.
            of: The identity of the first output of the run that is differentiated.

        """
        line = self._lines.get(of, "a line outside of debug")
        running = f"{what}, of the run at {line}"
        self._gradients.running.append(running)
        try:
            yield
        except Exception as error:  # the innermost gradient adds the note
            notes = getattr(error, "__notes__", ())
            if running not in str(error) and not any(map(_names_gradient, notes)):
                error.add_note(f"debug: {running}")
            raise
        finally:
            self._gradients.running.pop()

    def read(self, what: str) -> None:
        """Raise the error about a read of values that are being differentiated."""
        raise DebugError(
            f"debug: {what} reads values that are being differentiated, and what is "
            "computed from them has no gradient; use the ops of plugrad, or wrap "
            "the function in custom_grad; to log a value or to branch on it, read "
            f"stop_gradient(x); called at {_line()}"
        )

    # --- memory ------------------------------------------------------------------

    def keep(self, x: Tensor) -> None:
        """Do not report that the memory of ``x`` is still held."""
        with suppress(TypeError):  # NumPy's scalars
            self._kept.append(weakref.ref(owner(x._data)))

    def left(self) -> list[tuple[str, str, str, int, int]]:
        """Return the memory made in the block and still in use, the largest first.

        There is a row for each kernel, backend and line of the user's code, with the
        number of buffers and their size in bytes. NumPy scalars are not included.
        """
        gc.collect()
        kept = {id(x) for ref in self._kept if (x := ref()) is not None}
        sizes: defaultdict[Where, list[int]] = defaultdict(list)
        for key, (ref, where, size) in self._made.items():
            if ref() is not None and key not in kept:
                sizes[where].append(size)
        rows = [(*where, len(each), sum(each)) for where, each in sizes.items()]
        return sorted(rows, key=operator.itemgetter(-1), reverse=True)

    def _note(self, run: Run, inputs: Inputs, outputs: Outputs) -> None:
        before = {id(owner(x._data)) for x in inputs if x is not None}
        for y in outputs:
            buffer = owner(y._data)
            home = y._home
            known = self._made.get(id(buffer))
            if id(buffer) in before or (known is not None and known[0]() is not None):
                continue  # a view
            where = run.kernel.name, home.name, _line()
            size = home.runtime.arrays.nbytes(buffer)
            with suppress(TypeError):  # NumPy's scalars
                self._made[id(buffer)] = weakref.ref(buffer), where, size

    # --- messages ----------------------------------------------------------------

    def _message(self, run: Run, inputs: Inputs, wrong: str) -> str:
        kernel = run.kernel
        given = ", ".join(map(brief, inputs)) or "none"
        return (
            f"{kernel.op}: {kernel.name} on {run.where.name!r}, the {run.how} of "
            f"{_origin(run)}, {wrong}; inputs: {given}; {self._called()}"
        )

    def _called(self) -> str:
        running = self._gradients.running
        return f"called at {_line()}" + (f", in the {running[-1]}" if running else "")


class _Gradients(threading.local):
    """The gradients that this thread computes, the innermost last."""

    def __init__(self) -> None:
        self.running: list[str] = []


def _names_gradient(note: str) -> bool:
    """Return whether a note is from ``Debug.gradient`` rather than ``Debug.failed``."""
    return note.startswith("debug: ") and not note.startswith("debug: in ")


# --- the checks ------------------------------------------------------------------


def _broken(run: Run, inputs: Inputs, attrs: dict[str, Any], outputs: Outputs) -> str:
    """Describe how a run breaks its contract, or return an empty string."""
    kernel = run.kernel
    if not kernel.variadic_outputs and len(outputs) != len(kernel.outputs):
        return f"returned {len(outputs)} outputs, but {kernel} has a different number"
    home = attrs["backend"] if kernel.name == "plugrad.To" else run.backend.name
    for y in outputs:
        if y._home.name != home:
            return f"returned a tensor on backend {y._home.name!r}"
        if type(y.shape) is not tuple or any(type(n) is not int for n in y.shape):
            return f"returned the shape {y.shape!r}, which is not a tuple of int"
        try:
            known = canonical(y.dtype)
        except TypeError:
            return f"returned {y.dtype!r}, which plugrad does not support"
        if known is not y.dtype:
            return f"returned a dtype object for {y.dtype} that is not plugrad's"
        if spec(y) != (y._data.shape, y._data.dtype):
            return "changed an array after it had returned it"
    declared = None if kernel.out is None else kernel.out(*specs(inputs), **attrs)
    if declared is not None:
        expected = (declared,) if isinstance(declared, Spec) else tuple(declared)
        if tuple(map(spec, outputs)) != expected:
            got, said = (", ".join(map(brief, xs)) for xs in (outputs, expected))
            return f"returned {got}, but its contract says {said}"
    return ""


def _not_finite(inputs: Inputs, attrs: dict[str, Any], outputs: Outputs) -> str:
    """Describe an output that is not finite although all inputs are, or return ""."""
    for y in outputs:
        if len(places := _infinite(y)):
            numbers = [v for v in attrs.values() if isinstance(v, float | complex)]
            if not np.isfinite(numbers).all() or any(len(_infinite(x)) for x in inputs):
                return ""
            at = tuple(map(int, places[0]))
            more = len(places) - 1
            value = y._values()[at]
            return (
                f"returned {value} at {at} and {more} more values that are not "
                "finite, from inputs that are (debug(finite=False) lets them pass)"
            )
    return ""


def _infinite(x: Tensor | None) -> Array:
    """Return the indices of the values that are not finite, a row for each value."""
    if x is None or dtype_kind(x.dtype) not in "fc":
        return np.empty((0, 0))
    return np.argwhere(~np.isfinite(x._values()))


# --- what messages say -----------------------------------------------------------


def _origin(run: Run) -> str:
    """Return the owner and the location of the code that ran."""
    kernel = run.kernel
    if run.how == "decomposition" and kernel.decomposition is not None:
        return origin(kernel.decomposition, "the contract")
    layers = registry.kernels.get((kernel.name, run.where.name))
    return origin(layers[0].function, str(layers[0].owner)) if layers else "plugrad"


def _line() -> str:
    """Return the user's line: that of the first frame outside of plugrad."""
    for frame, number in walk_stack(sys._getframe()):
        if frame.f_globals.get("__name__", "").partition(".")[0] != "plugrad":
            file = frame.f_code.co_filename
            text = linecache.getline(file, number, frame.f_globals).strip()
            return f"{file}:{number}" + (f" `{text}`" if text else "")
    return "nowhere"


# --- gradients against finite differences ----------------------------------------


def debug(*, finite: bool = True, leaks: bool = False) -> Debug:
    """Return a context manager that checks every run of this thread in its block.

    The block compares shapes, dtypes and backends of all results with the contract.
    Messages name the op, the kernel, the backend, the owner of the implementation and
    the line of your code. In the backward pass, they also name the gradient, and the
    line of the run that is differentiated. The block reads the values after each run,
    which is slow. It is an error to read a tensor with ``numpy()``, ``item()``,
    ``float()``, ``np.asarray`` or DLPack while it is being differentiated, because the
    values have no gradient; read ``stop_gradient(x)`` instead.

    Args:
        finite: Whether infinities and NaN that result from finite inputs are an error.
            Values inside a decomposition are not checked, only its result.
        leaks: Whether it is an error if memory that was made in the block is still in
            use at its end, unless it was passed to ``keep`` or assigned to a variable.
            Views and residuals of tapes keep the whole memory that they refer to in
            use. With ``leaks=True``, ``left()`` of the block lists this memory by
            kernel and line at any time.

    Returns:
        A context manager.

    Raises:
        AssertionError: A result breaks the contract, a tensor that is being
            differentiated is read, or memory is still in use.
        FloatingPointError: A result is not finite.

    Example:
        >>> try:
        ...     with pg.debug():
        ...         y = pg.log(-1.0)
        ... except FloatingPointError as error:
        ...     print(str(error).partition(" on ")[0])
        log: Log

    """
    return Debug(finite=finite, leaks=leaks)


def check_gradients(
    f: Function,
    /,
    *xs: Any,
    order: int = 2,
    eps: float | None = None,
    rtol: float | None = None,
) -> None:
    """Compare the gradients of ``f`` at ``xs`` with finite differences.

    ``f`` must be smooth at ``xs``. All arguments are moved along one random direction,
    which is the same in every call. Real arguments, including integers, become float64,
    and complex ones complex128; if the active backend lacks float64, they become
    float32 and complex64.

    Args:
        f: A function of tensors that returns tensors of any shape.
        xs: Arrays, tensors, variables, numbers or lists.
        order: 1 checks the gradients; 2 checks the gradients of the gradients as well.
        eps: The length of the step; 1e-6, or 1e-2 in float32.
        rtol: The relative tolerance; 1e-5, or 2e-2 in float32. For ``order=2`` it is at
            least 1e-4.

    Raises:
        AssertionError: A gradient differs from the finite differences. The message
            states the difference, the argument and the element.
        ValueError: ``order`` is neither 1 nor 2, or ``eps`` or ``rtol`` is not
            positive.
        TypeError: ``xs`` contain something other than numbers, or ``f`` does not return
            floating tensors.

    Example:
        >>> pg.check_gradients(lambda x: pg.sin(x) * x, [1.0, 2.0])

    """
    function("check_gradients", f)
    if integer("check_gradients", "order", order) not in (1, 2):
        raise ValueError(f"check_gradients: order must be 1 or 2, got {order}")
    dtypes = dispatch.active().dtypes
    double = all(_wide(x, True).dtype in dtypes for x in xs)
    step, near, atol = (1e-6, 1e-5, 1e-7) if double else (1e-2, 2e-2, 1e-3)
    eps = real("check_gradients", "eps", step if eps is None else eps)
    rtol = real("check_gradients", "rtol", near if rtol is None else rtol)
    if not (eps > 0 and rtol > 0):
        raise ValueError(f"check_gradients: eps {eps} and rtol {rtol} must be positive")
    arrays = [_wide(x, double) for x in xs]
    rng = np.random.default_rng(1)
    vs = [_like(x, rng) for x in arrays]
    ys = _values(f, arrays)
    if not any(dtype_kind(y.dtype) in "fc" for y in ys):
        got = " and ".join(str(y.dtype) for y in ys) or "none"
        raise TypeError(f"check_gradients: f must return floating tensors, got {got}")
    dys = [_like(y, rng) for y in ys]
    check = _Check(f, arrays, vs, dys, eps, rtol, atol)
    check.compare("order 1")
    if order == 2:
        ones = [np.ones_like(y) for y in _values(check.along, arrays)]
        again = check._replace(f=check.along, dys=ones, rtol=max(rtol, 1e-4))
        again.compare("order 2")


class _Check(NamedTuple):
    """The derivative of ``f`` at ``xs`` along ``vs``, weighted by ``dys``."""

    f: Function
    xs: list[Array]
    vs: list[Array]
    dys: list[Array]
    eps: float
    rtol: float
    atol: float

    def compare(self, what: str) -> None:
        """Raise if gradients and finite differences do not agree."""
        dxs = [dx._values() for dx in self.pulled(*map(asarray, self.xs))]
        exact = sum(_dot(dx, v) for dx, v in zip(dxs, self.vs, strict=True))
        if self.is_off(exact, measured := self.numeric(self.vs)):
            raise DebugError(
                f"check_gradients: {what}: along a random direction the gradients give "
                f"{exact:.9g}, finite differences {measured:.9g} (rtol={self.rtol:g}, "
                f"atol={self.atol:g}, eps={self.eps:g})" + "".join(self.culprits(dxs))
            )

    def is_off(self, a: float, b: float) -> bool:
        return not abs(a - b) <= self.atol + self.rtol * abs(b)  # NaN is wrong

    def numeric(self, vs: list[Array]) -> float:
        """Return the derivative along ``vs`` by finite differences."""
        ends = []
        for t in (self.eps, -self.eps):
            moved = [x + t * v for x, v in zip(self.xs, vs, strict=True)]
            ends.append(_values(self.f, moved))
        pairs = zip(self.dys, *ends, strict=True)
        return sum(_dot(dy, a - b) for dy, a, b in pairs) / (2 * self.eps)

    def pulled(self, *xs: Tensor) -> list[Tensor]:
        """Return the cotangents of ``xs``, given those of the results, ``dys``."""
        value, pull_back = reverse.vjp(self.f, *xs)
        build = flatten(value, refuse_non_tensor)[1]
        return list(pull_back(build([asarray(dy) for dy in self.dys])))

    def along(self, *xs: Tensor) -> Tensor:
        """Return the derivative of ``f`` along ``vs`` at ``xs``."""
        parts = [
            complexes.real_part(reduce.sum(complexes.conjugate(dx) * asarray(v)))
            for dx, v in zip(self.pulled(*xs), self.vs, strict=True)
        ]
        return functools.reduce(operator.add, parts)

    def culprits(self, dxs: list[Array]) -> Iterator[str]:
        """Yield a line for each wrong argument, and one for a wrong element of it."""
        for i, (dx, v) in enumerate(zip(dxs, self.vs, strict=True)):
            vs = list(map(np.zeros_like, self.vs))
            vs[i] = v
            if not self.is_off(exact := _dot(dx, v), numeric := self.numeric(vs)):
                continue
            yield f"\n  argument {i}: {exact:.9g} against {numeric:.9g}"
            for k in np.ndindex(dx.shape if dx.size <= 1000 else (0,)):
                vs[i] = np.zeros_like(v)
                vs[i][k] = 1.0
                if self.is_off(part := float(dx[k].real), numeric := self.numeric(vs)):
                    yield f"\n    its element {k}: {part:.9g} against {numeric:.9g}"
                    break


def _values(f: Function, xs: list[Array]) -> list[Array]:
    """Return the leaves of ``f(*xs)``."""
    found = f(*map(asarray, xs))
    return [y._values() for y in flatten(found, refuse_non_tensor)[0]]


def _wide(x: Any, double: bool) -> Array:
    """Return the values in the widest dtype of their kind."""
    x = x._value if isinstance(x, Variable) else x
    values = x._values() if isinstance(x, Tensor) else np.asarray(x)
    if dtype_kind(values.dtype) not in "biufc":
        raise TypeError(f"check_gradients: xs must be numbers, got {x!r}")
    if dtype_kind(values.dtype) == "c":
        return values.astype(np.complex128 if double else np.complex64)
    return values.astype(np.float64 if double else np.float32)


def _like(x: Array, rng: np.random.Generator) -> Array:
    y = rng.normal(size=x.shape)
    if dtype_kind(x.dtype) == "c":
        return np.asarray(y + 1j * rng.normal(size=x.shape), x.dtype)
    return np.asarray(y, x.dtype)


def _dot(a: Array, b: Array) -> float:
    return float(np.sum(np.conj(a) * b).real)
