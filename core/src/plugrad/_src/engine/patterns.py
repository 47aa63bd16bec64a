"""``Pattern``: several runs for which an override gives one gradient.

Contents: ``Pattern``; its forms, which are traced from examples; how its parts run
again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from plugrad._src.registry.contract import Kernel
from plugrad._src.registry.parameters import parameter_names, with_defaults
from plugrad._src.registry.registry import registry
from plugrad._src.tensor import arguments
from plugrad._src.tensor.tensor import TapeId, Tensor

from . import dispatch
from .context import Scope, current
from .forms import (
    ABSENT,
    CONSTANT,
    OPERAND,
    PART,
    PARTS,
    Form,
    Made,
    Part,
    Source,
    Whole,
)
from .layers import Overrides
from .tape import Tape

Example = Sequence[Sequence[int]]  # a shape for each operand
PREFIX = "pattern."  # put before names without a dot

_live: weakref.WeakValueDictionary[str, Pattern]


class Pattern:
    """A composition of ops that ``override_gradient`` treats as one run.

    An override of ``Relu`` or ``Conv2D`` is for one kernel. A pattern is for several
    kernel runs that together compute one function, such as a product plus a bias: the
    override gets all operands at once. It applies wherever a tape records these kernels
    in this arrangement, whether your code or a plugin has called them. Attributes are
    not compared; constants are compared by value, up to rounding.

    Args:
        function: The composition, a function of tensors by position. It is called with
            tensors of the shapes in ``examples``. Gradient functions refer to the
            inputs by the names of its parameters; parameters with a default keep it.
        examples: For each form that the composition may have, the shapes of the
            operands: ``((2, 3), (3, 4))``. Ops run different kernels for different
            ranks, so give an example of each rank.
        name: The name in tables and messages; by default that of the function. A plugin
            gives its pattern a dotted name, such as ``"mylib.dense"``, like its
            kernels.
        fits: A function of the operands that returns whether the pattern applies to
            them. Without it, the pattern applies to all operands in the right places.

    Attributes:
        name: The name in tables: the given name, prefixed with ``pattern.`` if it has
            no dot. While another pattern has this name, a number is appended.
        inputs: The names of the operands.
        attributes: Further names that gradient functions may have as parameters: the
            kernels' attributes whose names occur only once, such as ``geometry``.

    Raises:
        TypeError: ``function`` or ``fits`` is not a function, or an example is not a
            sequence of shapes.
        ValueError: There is no name or no example, or the number of shapes in an
            example is not the number of operands of ``function``; or ``function`` runs
            fewer than two kernels that can be differentiated, does not use all
            operands, or reads other tensors with more than one element.

    Example:
        >>> from plugrad import plugin
        >>> def dense(x, w, b):
        ...     return x @ w + b
        >>> pattern = plugin.Pattern(dense, ((2, 3), (3, 4), (4,)))
        >>> with pg.override_gradient(pattern, x=lambda dy, w, b: dy @ w.T + b.sum()):
        ...     pg.grad(lambda x: pg.sum(x @ pg.ones((3, 1)) + [5.0]))(pg.zeros((1, 3)))
        Tensor([[6., 6., 6.]], dtype=float32, backend='cpu')

    """

    __slots__ = ("__weakref__", "_whole", "attributes", "inputs", "name")

    name: str
    inputs: tuple[str, ...]
    attributes: tuple[str, ...]
    _whole: Whole

    def __init__(
        self,
        function: Callable[..., Tensor],
        *examples: Example,
        name: str = "",
        fits: Callable[..., object] | None = None,
    ) -> None:
        arguments.function("Pattern", function)
        if fits is not None:
            arguments.function("Pattern: fits", fits)
        given = name or getattr(function, "__name__", "")
        if not isinstance(given, str) or not _is_dotted_name(given):
            raise ValueError(
                f"Pattern: {given!r} is not a name; pass one, such as name='dense'"
            )
        optional = with_defaults(function)
        inputs = [n for n in parameter_names(function) if n not in optional]
        if not examples:
            raise ValueError(
                f"Pattern: {given} needs an example: a shape for each of "
                f"{', '.join(inputs)}, such as ((2, 3), (3, 4))"
            )
        operands = [_operands(given, inputs, example) for example in examples]
        forms = [traced(given, function, xs) for xs in operands]
        self._set(given, inputs, forms, fits)

    @classmethod
    def _of_op(
        cls,
        name: str,
        op: Callable[..., Any],
        inputs: Sequence[str],
        examples: Iterable[tuple[Sequence[Any], dict[str, Any]]],
    ) -> Pattern:
        """Return the pattern of an op, given operands and options to try it with."""
        forms = []
        errors: list[Exception] = []
        for xs, options in examples:
            try:
                call = lambda *xs, o=options: op(*xs, **o)
                forms.append(traced(name, call, [np.asarray(x) for x in xs]))
            except (ValueError, TypeError, IndexError, NotImplementedError) as error:
                errors.append(error)  # this example does not fit
        if not forms:
            raise errors[-1]
        pattern = cls.__new__(cls)
        pattern._set(f"plugrad.{name}", inputs, forms, None)
        return pattern

    def _set(
        self,
        name: str,
        inputs: Sequence[str],
        forms: list[tuple[Form, list[Made]]],
        fits: Callable[..., object] | None,
    ) -> None:
        """Set the attributes, given the forms and the runs behind each of them."""
        self.inputs = tuple(inputs)
        self.name = _unused(name if "." in name else PREFIX + name)
        found = _attributes([runs for _, runs in forms], {*inputs, "y", PARTS})
        self.attributes = found
        attributes = ", ".join([*found, PARTS])
        kernel = Kernel(
            f"{self.name}({', '.join(inputs)}; {attributes}) -> y", fused=True
        )
        kernel.decomposition = lambda *xs, **attrs: _run_again(
            kernel.name, xs, attrs[PARTS]
        )
        self._whole = Whole(kernel, _merged([form for form, _ in forms]), fits)
        _live[self.name] = self

    def __repr__(self) -> str:
        return f"<Pattern {self._whole.kernel}>"


_live = weakref.WeakValueDictionary()


def _is_dotted_name(text: str) -> bool:
    """Return whether a text is an identifier, or several with dots between them."""
    return all(part.isidentifier() for part in text.split("."))


def _unused(name: str) -> str:
    """Return a name that no other pattern and no kernel has."""
    number, found = 1, name
    while found in _live or found in registry.contracts:
        number += 1
        found = f"{name}_{number}"
    return found


def _operands(name: str, inputs: Sequence[str], example: Any) -> list[Any]:
    """Return random operands of the shapes of an example."""
    try:
        shapes = [tuple(map(int, shape)) for shape in example]
    except TypeError:
        raise TypeError(
            f"Pattern: an example of {name} must be a shape for each operand, such as "
            f"((2, 3), (3, 4)), got {example!r}"
        ) from None
    if len(shapes) != len(inputs):
        raise ValueError(
            f"Pattern: {name} has {len(inputs)} operands ({', '.join(inputs)}), but "
            f"the example {example!r} has {len(shapes)} shapes"
        )
    random = np.random.default_rng(0)
    return [random.uniform(0.25, 0.75, s).astype(np.float32) for s in shapes]


def _attributes(forms: list[list[Made]], taken: set[str]) -> tuple[str, ...]:
    """Return the names of attributes that occur at most once in each form."""
    found: dict[str, None] = {}
    twice = taken
    for runs in forms:
        names = [name for run in runs for name in run.attrs]
        twice = twice | {name for name in names if names.count(name) > 1}
        found |= dict.fromkeys(names)
    return tuple([name for name in found if name not in twice])


def _merged(forms: list[Form]) -> tuple[Form, ...]:
    """Return the distinct forms; constants that differ between examples are None."""
    found: dict[tuple[Part, ...], Form] = {}
    for form in forms:
        before = found.get(form.parts, form)
        pairs = zip(before.constants, form.constants, strict=True)
        constants = tuple([x if x == y else None for x, y in pairs])
        found[form.parts] = Form(form.parts, constants)
    return tuple(sorted(found.values(), key=lambda form: -len(form.parts)))


# --- tracing ---------------------------------------------------------------------


class _Everything:
    """A container that contains everything."""

    def __contains__(self, item: object) -> bool:
        return True


def traced(
    name: str, function: Callable[..., Any], operands: Sequence[Any]
) -> tuple[Form, list[Made]]:
    """Return the form that a function has for some operands, and its runs."""
    tape = Tape()
    noting = Overrides(())
    noting.__dict__.update(noted=_Everything(), parts=_Everything())
    backend: Any = dispatch.active()
    while backend.depth:  # inside vmap
        backend = backend.base
    changes = {"backend": backend, "level": None, "observers": (), "precision": None}
    with Scope(tapes=(tape,), overrides=noting, **changes):
        xs = [Tensor(backend.runtime.arrays.upload(x), backend) for x in operands]
        ids = {tape.watch_own(x): number for number, x in enumerate(xs)}
        y = function(*xs)
        if not isinstance(y, Tensor):
            raise TypeError(
                f"Pattern: {name} must return a tensor, got {type(y).__name__}"
            )
        return _Tracer(name, ids, getattr(tape, "made", {})).form(y)


class _Tracer:
    """Finds the runs that compute a result."""

    def __init__(
        self, name: str, operands: dict[TapeId, int], made: dict[TapeId, Made]
    ) -> None:
        self.name = name
        self.operands = operands
        self.made = made
        self.parts: list[Part] = []
        self.runs: list[Made] = []
        self.constants: list[float | None] = []

    def form(self, y: Tensor) -> tuple[Form, list[Made]]:
        """Return the form of the function that returned ``y``, and its runs."""
        self.source(y)
        sources = [source for part in self.parts for source in part.inputs]
        used = {source.number for source in sources if source.kind == OPERAND}
        is_kernel = len(self.parts) < 2 and not any(run.again for run in self.runs)
        if is_kernel or len(used) < len(self.operands):
            runs = ", ".join([part.kernel for part in self.parts]) or "no kernel"
            raise ValueError(
                f"Pattern: {self.name} runs {runs} on {len(used)} of its "
                f"{len(self.operands)} operands; a pattern has at least two runs, and "
                "uses every operand. Name a single kernel instead"
            )
        return Form(tuple(self.parts), tuple(self.constants)), self.runs

    def source(self, x: Tensor | None) -> Source:
        """Return where a tensor comes from; add the runs that compute it."""
        if x is None:
            return Source(ABSENT)
        tape_id = x._tape_id
        if tape_id is None:
            return self._constant(x)
        if tape_id in self.operands:
            return Source(OPERAND, self.operands[tape_id])
        run = self.made.get(tape_id)
        if run is None:
            raise ValueError(
                f"Pattern: {self.name} calls a custom_grad function that returns "
                "several tensors, which is recorded as one run without kernels"
            )
        output = [y._tape_id for y in run.outputs].index(tape_id)
        for number, before in enumerate(self.runs):
            if before is run:
                return Source(PART, number, output, run.kernel.name)
        inputs = tuple([self.source(x) for x in run.inputs])
        self.parts.append(Part(run.kernel.name, inputs))
        self.runs.append(run)
        return Source(PART, len(self.runs) - 1, output, run.kernel.name)

    def _constant(self, x: Tensor) -> Source:
        """Return the source of a tensor that does not depend on the operands."""
        if x.size != 1:
            raise ValueError(
                f"Pattern: {self.name} reads a tensor of shape {x.shape} that is not "
                "an operand; make it a parameter of the function"
            )
        self.constants.append(float(np.asarray(x.numpy()).item()))
        return Source(CONSTANT, len(self.constants) - 1)


# --- running again ---------------------------------------------------------------


def _run_again(name: str, operands: Sequence[Tensor], parts: Any) -> Tensor:
    """Return the result of the parts of a pattern for some operands.

    Inside, overrides of the pattern itself do not apply.
    """
    results: list[tuple[Tensor, ...]] = []
    overrides = current().overrides
    inside = None if overrides is None else overrides.without(name)
    with Scope(overrides=inside):
        for kernel, again, sources, attrs, constants in parts:
            inputs = [_value(s, operands, results, constants) for s in sources]
            if again is None:
                results.append(dispatch.run_many(kernel, *inputs, **attrs))
            else:
                results.append((again(*inputs),))
    return results[-1][0]


def _value(
    source: Source,
    operands: Sequence[Tensor],
    results: list[tuple[Tensor, ...]],
    constants: dict[int, Tensor],
) -> Tensor | None:
    if source.kind == OPERAND:
        return operands[source.number]
    if source.kind == PART:
        return results[source.number][source.output]
    return constants[source.number] if source.kind == CONSTANT else None
