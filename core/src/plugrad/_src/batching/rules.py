"""Batching rules: how a kernel runs for many examples at once.

A rule gets a tuple of flags, which say for each input whether it has the examples on
axis 0; then the inputs by position and the attributes by name. It returns outputs that
have the examples on axis 0, or NotImplemented to have the decomposition batched.
Kernels without a rule here are batched by their decomposition.

Contents: ``elementwise``; ``leading``, which adapts attributes; ``each``; shapes;
matrices; gather and segment sums; ``batching``, and the rule of each kernel.
Convolutions and pooling are in ``windows``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Literal, TypeVar, overload

from plugrad._src.engine.dispatch import run, run_many
from plugrad._src.ops.array.ranges import arange
from plugrad._src.ops.array.rearrange import moveaxis
from plugrad._src.ops.basis import shape as shapes
from plugrad._src.ops.basis.compare import where
from plugrad._src.registry.contract import Kernel
from plugrad._src.tensor.arguments import choice, function
from plugrad._src.tensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
Kind = Literal["elementwise", "leading", "each"]
Rule = Callable[..., Any]
Inputs = Sequence[Tensor | None]
Flags = Sequence[bool]


def size_of(batched: Flags, inputs: Inputs) -> int:
    """Return the number of examples: the size of axis 0 of the batched inputs."""
    return next(
        x.shape[0]
        for x, is_batched in zip(inputs, batched, strict=True)
        if is_batched and x is not None
    )


def expanded(batched: Flags, inputs: Inputs) -> list[Any]:
    """Return the inputs with the examples on axis 0 of each; None stays None."""
    size = size_of(batched, inputs)
    return [
        x if is_batched or x is None else shapes.broadcast_to(x, (size, *x.shape))
        for x, is_batched in zip(inputs, batched, strict=True)
    ]


def aligned(batched: Flags, inputs: Inputs) -> list[Any]:
    """Return the inputs, reshaped so that batches broadcast like single examples."""
    ranks = [
        0 if x is None else len(x.shape) - is_batched
        for x, is_batched in zip(inputs, batched, strict=True)
    ]
    found: list[Any] = []
    for x, is_batched, rank in zip(inputs, batched, ranks, strict=True):
        if x is not None and is_batched and rank < max(ranks):
            n, *rest = x.shape
            x = shapes.reshape(x, (n, *[1] * (max(ranks) - rank), *rest))
        found.append(x)
    return found


def called(kernel: Kernel, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """Run a kernel; return its output, or a tuple of outputs."""
    return (run if kernel.single else run_many)(kernel, *inputs, **attrs)


# --- rules for many kernels ------------------------------------------------------


def elementwise(kernel: Kernel) -> Rule:
    """Return the rule of a kernel whose inputs broadcast, element by element."""

    def rule(batched: Flags, *inputs: Tensor | None, **attrs: Any) -> Any:
        return called(kernel, aligned(batched, inputs), attrs)

    return rule


def leading(kernel: Kernel) -> Rule:
    """Return the rule of a kernel that accepts the examples as one more leading axis.

    Attributes whose kind refers to axes are adapted to the additional axis.
    """
    kinds = {name: kernel.kinds[name].strip("?") for name in kernel.attrs}

    def rule(batched: Flags, *inputs: Tensor | None, **attrs: Any) -> Any:
        attrs = {name: _adapted(kinds[name], value) for name, value in attrs.items()}
        return called(kernel, expanded(batched, inputs), attrs)

    return rule


def _adapted(kind: str, value: Any) -> Any:
    """Return an attribute adapted to one more leading axis."""
    if value is None:
        return None
    match kind:
        case "axis" | "new_axis":
            return value + 1
        case "axes":
            return tuple([axis + 1 for axis in value])
        case "permutation":
            return (0, *[axis + 1 for axis in value])
        case "pairs":
            return ((0, 0), *value)
    return value


def each(kernel: Kernel) -> Rule:
    """Return the rule that runs a kernel separately for each example."""

    def rule(batched: Flags, *inputs: Tensor | None, **attrs: Any) -> Any:
        runs = []
        for i in range(size := size_of(batched, inputs)):
            example = [
                x[i] if is_batched and x is not None else x
                for x, is_batched in zip(inputs, batched, strict=True)
            ]
            found = called(kernel, example, attrs)
            runs.append((found,) if kernel.single else tuple(found))
        if not size:
            raise ValueError(
                f"vmap: {kernel.op} cannot run on an empty batch; map over at least "
                "one example"
            )
        outputs = [_stacked(kernel, ys) for ys in zip(*runs, strict=True)]
        return outputs[0] if kernel.single else tuple(outputs)

    return rule


def _stacked(kernel: Kernel, ys: Sequence[Tensor]) -> Tensor:
    found = sorted({y.shape for y in ys})
    if len(found) > 1:
        raise ValueError(
            f"vmap: {kernel.op} gives shapes that depend on the values, "
            f"{found[0]} and {found[1]} for two examples; run it outside of vmap"
        )
    return shapes.stack(ys)


# --- shapes ----------------------------------------------------------------------


def _reshape(kernel: Kernel) -> Rule:
    return lambda _, x, *, shape: run(kernel, x, shape=(x.shape[0], *shape))


def _broadcast_to(kernel: Kernel) -> Rule:
    def rule(_: Flags, x: Tensor, *, shape: tuple[int, ...]) -> Tensor:
        n, *rest = x.shape
        ones = [1] * (len(shape) - len(rest))
        return run(kernel, shapes.reshape(x, (n, *ones, *rest)), shape=(n, *shape))

    return rule


def _slice(kernel: Kernel) -> Rule:
    def rule(_: Flags, x: Tensor, *, begin: Any, size: Any, **steps: Any) -> Tensor:
        attrs = {name: (1, *value) for name, value in steps.items()}
        return run(kernel, x, begin=(0, *begin), size=(x.shape[0], *size), **attrs)

    return rule


def _tile(kernel: Kernel) -> Rule:
    return lambda _, x, *, repetitions: run(kernel, x, repetitions=(1, *repetitions))


# --- matrices --------------------------------------------------------------------


def _matmul(kernel: Kernel) -> Rule:
    def rule(batched: Flags, a: Tensor, b: Tensor, **how: bool) -> Tensor:
        if batched == (True, False) and len(b.shape) == 2 and not how["transpose_a"]:
            rows = shapes.reshape(a, (prod(a.shape[:-1]), a.shape[-1]))
            y = run(kernel, rows, b, **how)  # one product instead of many
            return shapes.reshape(y, (*a.shape[:-1], y.shape[-1]))
        a, b = aligned(batched, (a, b))
        return run(kernel, a, b, **how)

    return rule


def _if_first_alone(kernel: Kernel) -> Rule:
    """Return a rule that runs the kernel if only ``x`` has examples; else decompose."""

    def rule(batched: Flags, x: Tensor, *others: Tensor, **attrs: Any) -> Any:
        plain = not any(batched[1:]) and all(y.shape == () for y in others)
        return run(kernel, x, *others, **attrs) if plain else NotImplemented

    return rule


# --- gather and segment sums -----------------------------------------------------


def _gather(kernel: Kernel) -> Rule:
    def rule(
        batched: Flags, x: Tensor, indices: Tensor, *, axis: int, batch_dims: int
    ) -> Tensor:
        if batched == (True, False) and not batch_dims:
            return run(kernel, x, indices, axis=axis + 1, batch_dims=0)
        if batched == (False, True) and not batch_dims:
            y = run(kernel, x, indices, axis=axis, batch_dims=0)
            return moveaxis(y, axis, 0)
        x, indices = expanded(batched, (x, indices))
        return run(kernel, x, indices, axis=axis + 1, batch_dims=batch_dims + 1)

    return rule


def _segment_sum(kernel: Kernel) -> Rule:
    def rule(batched: Flags, x: Tensor, ids: Tensor, *, num_segments: int) -> Tensor:
        if batched == (True, False):
            y = run(kernel, moveaxis(x, 0, 1), ids, num_segments=num_segments)
            return moveaxis(y, 1, 0)
        x, ids = expanded(batched, (x, ids))
        size, count = ids.shape
        first = shapes.reshape(arange(size, dtype=ids.dtype) * num_segments, (size, 1))
        inside = (ids >= 0) & (ids < num_segments)
        all_ids = shapes.reshape(where(inside, ids + first, -1), size * count)
        x = shapes.reshape(x, (size * count, *x.shape[2:]))
        y = run(kernel, x, all_ids, num_segments=size * num_segments)
        return shapes.reshape(y, (size, num_segments, *y.shape[1:]))

    return rule


# --- the rule of each kernel -----------------------------------------------------

KINDS = {"elementwise": elementwise, "leading": leading, "each": each}


@overload
def batching(kernel: Kernel, rule: Kind) -> None: ...
@overload
def batching(kernel: Kernel) -> Callable[[F], F]: ...
def batching(kernel: Kernel, rule: Kind | None = None) -> Callable[[F], F] | None:
    """Set the batching rule by which ``vmap`` runs a kernel.

    A kernel with a decomposition does not need a rule, but is faster with one. Decorate
    a function, or name one of these rules:

    - ``"elementwise"``: the inputs broadcast, and elements are computed independently;
    - ``"leading"``: the inputs may have any number of leading axes. Attributes of the
      kinds ``axis``, ``axes``, ``new_axis``, ``permutation`` and ``pairs`` are adapted;
    - ``"each"``: the kernel runs for one example at a time.

    A function of your own gets ``batched``, a tuple that says for each input whether it
    has the examples on axis 0; then the inputs by position, and the attributes by name.
    It runs ops and kernels, and returns outputs that have the examples on axis 0, or
    NotImplemented to have the decomposition batched.

    Args:
        kernel: The contract.
        rule: The name of a rule; without it, decorate a function.

    Raises:
        TypeError: ``kernel`` is not a ``Kernel``.
        ValueError: The rule is unknown.

    Example:
        >>> from plugrad import plugin
        >>> center = plugin.Kernel("mylib.Center(x: floating)", out=plugin.same)
        >>> @plugin.decomposition(center)
        ... def _(x):
        ...     return x - pg.mean(x)
        >>> @plugin.batching(center)
        ... def _(batched, x):
        ...     return x - pg.mean(x, axis=tuple(range(1, x.ndim)), keepdims=True)
        >>> xs = pg.asarray([[1.0, 3.0], [5.0, 5.0]])
        >>> pg.vmap(lambda x: plugin.run(center, x))(xs)
        Tensor([[-1.,  1.],
                [ 0.,  0.]], dtype=float32, backend='cpu')

    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"batching: expected a Kernel, got {kernel!r}")
    if rule is not None:
        kernel.batching = KINDS[choice("batching", "rule", rule, *KINDS)](kernel)
        return None

    def attach(function_: F) -> F:
        function("batching", function_)
        kernel.batching = function_
        return function_

    return attach


RULES: dict[Callable[[Kernel], Rule], str] = {
    elementwise: """
        Abs Acos Acosh Add Asin Asinh Atan Atan2 Atanh BitwiseAnd BitwiseNot BitwiseOr
        BitwiseXor Cast Ceil ClipByValue ComplexAbs CopySign Cos Cosh Digamma Elu Equal
        Erf Erfc Erfinv Exp Exp2 Expm1 Floor FloorDiv Gcd Gelu GeluTanh Greater
        GreaterEqual Hypot Identity Imag IsFinite IsInf IsNan LeakyRelu LeftShift Less
        LessEqual Lgamma Log Log1p LogicalAnd LogicalNot LogicalOr LogicalXor Maximum
        Minimum Mish Mod Multiply Neg NotEqual OnesLike Polygamma Pow Prelu Real RealDiv
        Reciprocal Relu Relu6 RightShift Round Rsqrt Select Selu Sigmoid Sign SignBit
        Sin Sinh Softplus Softsign Sqrt Square SquaredDifference StaticRegexReplace Step
        StringToHashBucketFast Sub Tan Tanh Trunc ZerosLike
        """,
    leading: """
        AddN All Any ArgMax ArgMin Bitcast Cholesky Cofactor Complex Concat Cumprod
        Cumsum Det Eig Eigh Eigvals Eigvalsh EluGrad ExpandDims FFT IFFT Inverse
        LogSoftmax Lu MatrixExp Max Mean Min MirrorPad OneHot Pack PadV2 Prod Qr Reverse
        SigmoidGrad Slogdet Softmax Solve Sort SplitV Sum Svd Svdvals TanhGrad TopK
        Transpose TriangularSolve Unpack
        """,
    _reshape: "Reshape",
    _broadcast_to: "BroadcastTo",
    _slice: "Slice StridedSlice",
    _tile: "Tile",
    _matmul: "BatchMatMul",
    _if_first_alone: "MatrixBandPart Pinv",
    _gather: "GatherV2 Take",
    _segment_sum: "UnsortedSegmentSum",
    each: """
        BroadcastArgs NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5
        RaggedGather RaggedRange RaggedTensorToTensor SparseFillEmptyRows SparseReshape
        StringNGrams StringSplit Unique
        """,
}
