"""Contracts: the name of a kernel, its inputs and outputs, its meaning and gradient.

Ops run kernels, backends implement them by name, and gradients differentiate them.
Declaring a ``Kernel`` registers nothing::

    CONV2D = Kernel("Conv2D(x, filter; geometry)", out=...)

Contents: the errors about kernels, and ``suggest`` for unknown names; ``Kernel``;
``VJP`` and ``gradients``, which give a contract its gradient; ``decomposition``, which
gives it its meaning. Rules for outputs are in ``specs``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, overload

from plugrad._src.tensor import arguments

from .parameters import parameter_names, with_defaults
from .signature import parse
from .specs import Spec as Spec
from .specs import Specs as Specs
from .specs import broadcasted as broadcasted
from .specs import compared as compared
from .specs import one_shape as one_shape
from .specs import reduced as reduced
from .specs import same as same

F = TypeVar("F", bound=Callable[..., Any])
MAX_WRAPPERS = 100  # the most wrappers that ``authored`` removes from a function
UNDECORATED = "__plugrad_function__"  # a wrapper's attribute: the function inside
CORE_NAMES: set[str] = set()  # names of the contracts that the core declares
_is_sealed = False  # whether the core has declared all of its contracts


class KernelNotFound(NotImplementedError):
    """A kernel cannot run on the active backend."""


class GradientNotFound(NotImplementedError):
    """A cotangent reached an input for which there is no gradient."""


class BackendError(RuntimeError):
    """Work that was queued on a device has failed; backends raise this error."""


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'Conv2D'?"``, or an empty string if no name is close."""
    import difflib  # only for errors: it adds 2 ms to an import of plugrad

    matches = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def seal_core_names() -> None:
    """Reserve names without a dot: the core has declared all of its kernels."""
    global _is_sealed
    _is_sealed = True


def _check_name(name: str) -> None:
    """Raise unless a name without a dot is one of the core's."""
    if not _is_sealed:
        CORE_NAMES.add(name)
    elif "." not in name and name not in CORE_NAMES:
        raise ValueError(
            f"kernel {name!r} from outside the core needs a dotted name, such as "
            f"'mylib.{name}'"
        )


# --- contracts -------------------------------------------------------------------


class Kernel:
    """A named primitive with named inputs, attributes and outputs.

    The signature declares inputs, then attributes after a semicolon, and outputs:
    ``"Name(x: number, *ys, bias?; axis: axis) -> values, indices"``. ``*ys`` is
    variadic, and ``bias?`` may be None. Attributes are plain, immutable, hashable
    values. An attribute that a later version of the contract adds has a default,
    ``reverse: bool = False``; an implementation that lacks it runs only for the
    default.
    The output is ``y`` if none is named, and ``*ys`` if their number depends on the
    run. Kernel names are those of TensorFlow.js; outside the core they are dotted, such
    as ``"mylib.Swish"``.

    The kinds after the colons are optional; ``run_kernel`` and ``plugin.run`` use them
    to check and canonicalize inputs and attributes. The kind of an input is

    - a dtype such as ``int32``, or one of ``bool integer floating complexfloating
      inexact number string``, or several of these joined by ``|``;
    - or the name of an input to its left: both inputs then have the same dtype.

    The kind of an attribute is one of ``bool int size float number scalar str dtype
    axis axes new_axis permutation shape ints pairs``, one of ``Windows Resizing
    Rotation`` of ``plugrad.geometry``, or words in quotes joined by ``|``; a question
    mark after the kind allows None.

    Args:
        signature: The name, inputs, attributes and outputs.
        out: A function from the specs of the inputs and the attributes to those of the
            outputs, or to None if their shape depends on data. It raises if the
            arguments do not fit.
        canonicalize: A function from the specs of the inputs and the *user's*
            attributes to the attributes of the contract.
        broadcasts: Whether the engine sums cotangents to the shape of their input.
        fused: Whether the kernel is always decomposed under a tape, so that it has no
            gradient of its own.
        checks: The name of an input whose values only the kernel can check, such as
            ``"indices"``, or a tuple of names. For some values the kernel raises an
            error, so ``jit`` runs it even if nothing uses its outputs.
        effect: Whether a run does more than compute its outputs (it counts, sends,
            draws), so that ``jit`` must not drop, merge or move it.
        op: The public function that runs it, for messages; by default the name of the
            kernel.
        doc: What the kernel computes: the formula, and the result where the formula
            leaves it open (NaN, infinities, ties, overflow).

    Raises:
        TypeError: The signature is not a string, or a rule is not a function.
        ValueError: The signature does not follow the grammar, the name has no dot, or
            ``checks`` names something other than an input.

    Example:
        >>> from plugrad import plugin
        >>> double = plugin.Kernel("mylib.Double(x: number)", out=plugin.same)
        >>> double.name, double.inputs, double.outputs
        ('mylib.Double', ('x',), ('y',))

    """

    __slots__ = (
        "_calls",
        "_doc",
        "_joint_gradient",
        "_rule_parameters",
        "attrs",
        "batching",
        "broadcasts",
        "canonicalize",
        "checks",
        "decomposition",
        "defaults",
        "effect",
        "fused",
        "gradient",
        "inputs",
        "kinds",
        "name",
        "op",
        "optional",
        "out",
        "outputs",
        "single",
        "variadic",
        "variadic_outputs",
    )

    name: str
    inputs: tuple[str, ...]
    optional: set[str]
    variadic: str | None
    attrs: tuple[str, ...]
    outputs: tuple[str, ...]
    variadic_outputs: bool
    kinds: dict[str, str]
    defaults: dict[str, Any]  # of attributes that a later version has added
    single: bool  # whether a run returns one tensor, not a tuple
    out: Callable[..., Specs | None] | None
    canonicalize: Callable[..., dict[str, Any]] | None
    broadcasts: bool
    fused: bool
    checks: tuple[str, ...]
    effect: bool
    op: str
    decomposition: Callable[..., Any] | None
    batching: Callable[..., Any] | None
    gradient: VJPs

    def __init__(
        self,
        signature: str,
        *,
        out: Callable[..., Specs | None] | None = None,
        canonicalize: Callable[..., dict[str, Any]] | None = None,
        broadcasts: bool = False,
        fused: bool = False,
        checks: str | tuple[str, ...] = (),
        effect: bool = False,
        op: str = "",
        doc: str = "",
    ) -> None:
        self.name, inputs, attrs, outputs, self.kinds, self.defaults = parse(signature)
        _check_name(self.name)
        for rule in (out, canonicalize):
            if rule is not None:
                arguments.function(f"kernel {self.name}: out and canonicalize", rule)
        self.op = op or self.name
        self._doc = doc
        self.inputs = tuple([word.strip("*?") for word in inputs])
        self.optional = {word[:-1] for word in inputs if word[-1:] == "?"}
        starred = [word[1:] for word in inputs if word[:1] == "*"]
        self.variadic = starred[0] if starred else None
        self.attrs = attrs
        self.outputs = tuple([word.lstrip("*") for word in outputs])
        self.variadic_outputs = outputs[0].startswith("*")
        self.single = len(self.outputs) == 1 and not self.variadic_outputs
        self.out, self.canonicalize = out, canonicalize
        self.broadcasts, self.fused = broadcasts, fused
        is_one = isinstance(checks, str) and checks
        self.checks = (str(checks),) if is_one else tuple(checks)
        self.effect = effect
        self.decomposition = None
        self.batching = None
        self.gradient = {}
        self._calls: dict[Any, dict[str, Any]] = {}  # runs that the engine has checked
        self._joint_gradient: JointGradient | None = None
        self._rule_parameters: tuple[str, ...] = ()  # found when a rule is checked
        self._check_names(len(starred))

    def _check_names(self, variadic: int) -> None:
        """Raise unless names differ, and ``checks`` are names of inputs."""
        names = self.inputs + self.outputs + self.attrs
        if variadic > 1 or (self.variadic_outputs and len(self.outputs) > 1):
            raise ValueError(
                f"kernel {self}: only one input may be variadic, and a variadic "
                "output must be the only output"
            )
        if len({*names}) < len(names) or not all(map(str.isidentifier, names)):
            raise ValueError(
                f"kernel {self}: names must be identifiers, each used once"
            )
        if unknown := [name for name in self.checks if name not in self.inputs]:
            hint = suggest(unknown[0], self.inputs)
            raise ValueError(
                f"kernel {self}: checks= must name inputs, got {unknown[0]!r}{hint}"
            )

    @property
    def doc(self) -> str:
        """The meaning of the kernel, without the indentation of the source."""
        from inspect import cleandoc

        return cleandoc(self._doc)

    @property
    def contract(self) -> tuple[object, ...]:
        """The parts on which all declarations of the kernel must agree."""
        return str(self), self.broadcasts, self.fused, self.checks, self.effect

    def bind(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return positional inputs by name; a variadic input is a tuple."""
        fixed = len(self.inputs) - (self.variadic is not None)
        surplus = len(values) - fixed
        if surplus < 0 or (surplus and self.variadic is None):
            raise TypeError(f"{self.op}: got {len(values)} inputs, expected {self}")
        bound = {}
        rest = list(values)
        for name in self.inputs:
            count = surplus if name == self.variadic else 1
            taken, rest = rest[:count], rest[count:]
            bound[name] = tuple(taken) if name == self.variadic else taken[0]
        return bound

    def places(self, count: int) -> dict[str, int | tuple[int, int]]:
        """Return the indices of the inputs of a run, followed by those of its outputs.

        Args:
            count: The number of inputs of the run.

        Returns:
            For each name an index, or (start, stop) for a variadic input. The number of
            variadic outputs is not known before the run, so no gradient can use them.

        """
        found: dict[str, int | tuple[int, int]] = {}
        index = 0
        surplus = count - len(self.inputs) + 1
        for name in self.inputs:
            found[name] = (index, index + surplus) if name == self.variadic else index
            index += surplus if name == self.variadic else 1
        if not self.variadic_outputs:
            found |= {name: index + i for i, name in enumerate(self.outputs)}
        return found

    def __repr__(self) -> str:
        inputs = ", ".join(map(self._declared, self.inputs))
        attrs = f"; {', '.join(map(self._declared, self.attrs))}" if self.attrs else ""
        star = "*" if self.variadic_outputs else ""
        return f"{self.name}({inputs}{attrs}) -> {star}{', '.join(self.outputs)}"

    def _declared(self, name: str) -> str:
        """Return an input or an attribute as a signature declares it."""
        kind = self.kinds[name]
        marked = f"{'*' * (name == self.variadic)}{name}{'?' * (name in self.optional)}"
        default = f" = {self.defaults[name]!r}" if name in self.defaults else ""
        return f"{marked}: {kind}{default}" if kind else f"{marked}{default}"


# --- meaning and gradient --------------------------------------------------------


class VJP(NamedTuple):
    """The rule for the cotangent of one input, and the ``residuals`` to save for it.

    ``function`` takes the cotangents and then the residuals, all by position. If an
    override gives a function of the tangent, ``transposed`` is the transpose of that
    function, and ``jvp`` uses ``transposed`` in place of ``function``.
    """

    function: Callable[..., Any]
    residuals: tuple[str, ...]
    owner: str
    linear: bool = True
    origin: str = ""
    transposed: Callable[..., Any] | None = None


class JointGradient(NamedTuple):
    """The gradient of a fused kernel for adjacent inputs, computed by one kernel.

    It replaces the decomposition under a tape only if no gradient of a part is
    overridden, so that nobody misses the parts.
    """

    inputs: tuple[str, ...]
    kernel: Kernel  # what computes it, on backends that implement it
    vjp: VJP  # it returns one cotangent for each of the inputs
    pays: Callable[..., bool]  # whether to use it for the arguments of the kernel


# Input -> rule; None: no derivative; without an entry, backward raises an error.
VJPs = Mapping[str, VJP | None]
Functions = Mapping[str, Callable[..., Any] | None]
ORIGINAL = "original"  # the name of a parameter: the gradient that a rule replaces
SITE = "site"  # the name of a parameter: the run that is recorded, a ``Site``


def collected(
    who: str, named: Functions | None, functions: Functions, **options: Any
) -> dict[str, Callable[..., Any] | None]:
    """Merge gradient functions given in a dict and by keyword.

    Raises:
        TypeError: A function is given for an option that has the same name as an input.
        ValueError: Two functions are given for an input.

    """
    for name, value in options.items():
        if callable(value):
            raise TypeError(
                f"{who}: {name}= is an option, not an input, but got a function; for "
                f"an input called {name!r}, pass a dict: {who}(kernel, "
                f"{{{name!r}: ...}})"
            )
    if named is not None and not isinstance(named, Mapping):
        raise TypeError(f"{who}: expected a dict of functions, got {named!r}")
    if twice := set(named or ()) & set(functions):
        raise ValueError(f"{who}: got two functions for {', '.join(sorted(twice))}")
    return {**(named or {}), **functions}


def authored(function: Any) -> Any:
    """Return the function that an author wrote; for an object, its ``__call__``.

    Wrappers by ``functools.wraps`` and ``partial`` are removed, in any order.
    """
    for _ in range(MAX_WRAPPERS):  # an object may seem to have every attribute
        partial = isinstance(function, functools.partial)
        inner = function.func if partial else getattr(function, "__wrapped__", None)
        if inner is None:
            break
        function = inner
    if hasattr(function, "__code__") or isinstance(function, type):
        return function
    import inspect  # only for messages

    call = inspect.getattr_static(function, "__call__", None)
    return call if hasattr(call, "__code__") else function


def origin(function: Callable[..., Any], owner: str) -> str:
    """Return the owner of a function and its location in the source.

    For example ``plugrad (plugrad._src.ops.basis.unary:58)``.
    """
    function = authored(function)
    code = getattr(function, "__code__", None)
    line = f":{code.co_firstlineno}" if code else ""
    home = getattr(function, "__module__", None) or "?"
    if home.partition(".")[0] == "plugrad":  # the public module, which has no such line
        home = getattr(function, "__globals__", {}).get("__name__", home)
    return f"{owner} ({home}{line})"


def vjp_rules(
    kernel: Kernel,
    functions: Functions,
    owner: str,
    *,
    linear: bool = True,
    in_block: bool = False,
) -> VJPs:
    """Check gradient functions against their kernel and return them as rules.

    Only the blocks of a user may give a fused kernel a gradient (``in_block``).
    """
    if kernel.fused and not in_block:
        raise ValueError(
            f"{_gradient_of(kernel, owner)}: a fused kernel has no gradient of its "
            "own, because a tape decomposes it; register gradients for the kernels "
            "of its decomposition, or use override_gradient for a block"
        )
    checked: dict[str, VJP | None] = {}
    for name, function in functions.items():
        if name not in kernel.inputs:
            hint = suggest(name, kernel.inputs)
            known = ", ".join(kernel.inputs) or "none"
            raise ValueError(
                f"{_gradient_of(kernel, owner)}: there is no input {name!r}{hint}; "
                f"the inputs are {known}"
            )
        if function is None:
            checked[name] = None
        elif callable(function):
            checked[name] = _rule(kernel, name, function, owner)
        else:
            raise TypeError(
                f"{_gradient_of(kernel, owner, name)}: expected a function, got "
                f"{function!r}"
            )
    if not linear:
        checked = {n: r and r._replace(linear=False) for n, r in checked.items()}
    return checked


def _gradient_of(kernel: Kernel, owner: str, name: str = "") -> str:
    """Name the gradient of a kernel, or of one input, for errors."""
    return f"gradient of {kernel}, from {owner}" + (f", for {name!r}" if name else "")


def _rule(kernel: Kernel, name: str, function: Callable[..., Any], owner: str) -> VJP:
    legal = kernel._rule_parameters
    if not legal:
        legal = kernel._rule_parameters = _rule_parameters(kernel)
    names = parameter_names(function)
    optional = with_defaults(function)
    if optional:
        optional.difference_update(legal)
        names = tuple([name for name in names if name not in optional])
    count = len(kernel.outputs)
    dys, residuals = names[:count], names[count:]
    if len(dys) < count or any([name in legal for name in dys]):
        raise ValueError(
            f"{_gradient_of(kernel, owner, name)}: the first parameters take the "
            f"cotangents, one for each output ({count}); give them names that the "
            f"kernel does not use, such as 'dy'; got ({', '.join(names)})"
        )
    for residual in residuals:
        if residual not in legal:
            raise ValueError(
                f"{_gradient_of(kernel, owner, name)}: {residual!r} is not one of "
                f"{', '.join(legal)}{suggest(residual, legal)}"
            )
    return VJP(
        _by_position(function, residuals, bool(optional)),
        residuals,
        owner,
        origin=origin(function, owner),
    )


def _rule_parameters(kernel: Kernel) -> tuple[str, ...]:
    """Return the parameters that a rule of a kernel may have after the cotangents."""
    outputs = () if kernel.variadic_outputs else kernel.outputs
    specs = [f"{n}_spec" for n in kernel.inputs + outputs]
    names = (*kernel.inputs, *kernel.attrs, *outputs, *specs)
    added = [*(f"{name}_tracked" for name in kernel.inputs), ORIGINAL, SITE]
    return (*names, *[name for name in added if name not in names])


def _by_position(
    function: Callable[..., Any], residuals: tuple[str, ...], has_more: bool
) -> Callable[..., Any]:
    """Return ``function`` as one that takes cotangents and residuals by position.

    ``has_more`` says whether it has other parameters, which keep their defaults.
    """
    code = getattr(function, "__code__", None)
    if code is not None and not code.co_kwonlyargcount and not has_more:
        return function

    @functools.wraps(function)  # so that ``authored`` finds its file and line
    def call(*values: Any) -> Any:
        split = len(values) - len(residuals)
        return function(
            *values[:split], **dict(zip(residuals, values[split:], strict=True))
        )

    call.__dict__[UNDECORATED] = function
    return call


def undecorated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the author's function, without the wrapper of ``_by_position``, if any."""
    if isinstance(function, FunctionType):
        found: Callable[..., Any] = function.__dict__.get(UNDECORATED, function)
        return found
    return function


def gradients(
    kernel: Kernel,
    named: Functions | None = None,
    /,
    *,
    linear: bool = True,
    **functions: Callable[..., Any] | None,
) -> None:
    """Set the gradient of ``kernel``: one function for each input.

    The first parameters of a function, one for each output, take the cotangents. The
    other parameters name inputs, outputs, attributes or ``<name>_spec``; exactly these
    are saved for the backward pass::

        gradients(SQRT, x=lambda dy, y: dy / (y * 2))

    Args:
        kernel: The contract.
        named: Functions by input in a dict; needed for an input named ``linear``.
        linear: Whether the functions are linear in the cotangents.
        functions: Functions by input; None declares that there is no derivative.

    Raises:
        TypeError: ``kernel`` is not a ``Kernel``, or a gradient is not a function.
        ValueError: The kernel is fused, or one of the names is not in its contract.

    Example:
        >>> from plugrad import plugin
        >>> negated = plugin.Kernel("mylib.Negated(a: floating)", out=plugin.same)
        >>> _ = plugin.decomposition(negated, lambda a: 0.0 - a)
        >>> plugin.gradients(negated, a=pg.negative)
        >>> pg.grad(lambda x: plugin.run(negated, x))(pg.asarray(3.0)).item()
        -1.0

    """
    _check_kernel("gradients", kernel)
    functions = collected("gradients", named, functions, linear=linear)
    first = next((f for f in functions.values() if f is not None), None)
    owner = (getattr(first, "__module__", None) or "?").partition(".")[0]
    kernel.gradient = {
        **kernel.gradient,
        **vjp_rules(kernel, functions, owner, linear=linear),
    }


def joint_gradient(
    kernel: Kernel,
    inputs: tuple[str, ...],
    by: Kernel,
    function: Callable[..., Sequence[Any]],
    pays: Callable[..., bool],
) -> None:
    """Set the gradient of a fused kernel for adjacent ``inputs``: see JointGradient."""
    vjp = _rule(kernel, inputs[0], function, "plugrad")
    kernel._joint_gradient = JointGradient(inputs, by, vjp, pays)


@overload
def decomposition(kernel: Kernel) -> Callable[[F], F]: ...
@overload
def decomposition(kernel: Kernel, function: F) -> F: ...
def decomposition(kernel: Kernel, function: Any = None) -> Any:
    """Define ``kernel`` in terms of other ops.

    Without ``function``, return a decorator.

    Args:
        kernel: The contract.
        function: A function of the inputs by position and the attributes by name.

    Raises:
        TypeError: ``kernel`` is not a ``Kernel``.
        ValueError: The parameters are not those of the contract.

    Example:
        >>> from plugrad import plugin
        >>> double = plugin.Kernel("mylib.Double(x: number)", out=plugin.same)
        >>> @plugin.decomposition(double)
        ... def _(x):
        ...     return x + x
        >>> plugin.run(double, pg.asarray([1.0, 2.0]))
        Tensor([2., 4.], dtype=float32, backend='cpu')

    """
    _check_kernel("decomposition", kernel)
    attach = functools.partial(_decomposed, kernel)
    return attach if function is None else attach(function)


def _decomposed(kernel: Kernel, function: F) -> F:
    names = parameter_names(function)
    if names != kernel.inputs + kernel.attrs:
        raise ValueError(
            f"decomposition of {kernel}: the parameters must be "
            f"({', '.join(kernel.inputs + kernel.attrs)}), got ({', '.join(names)})"
        )
    kernel.decomposition = function
    return function


def _check_kernel(who: str, kernel: object) -> None:
    if not isinstance(kernel, Kernel):
        raise TypeError(
            f"{who}: expected a Kernel, got {kernel!r}; to replace a gradient by "
            "name, use register_gradient or override_gradient"
        )
