"""Einstein summation. Kernels: ``Einsum``.

The op converts an equation into the canonical form that the kernel expects, such as
``"ab,bc->ac"``: only letters, an output, and one size for each letter. Under a tape the
kernel is decomposed into products of two tensors, so that the backward pass is as cheap
as the forward pass.
"""

from __future__ import annotations

import functools
import itertools
import math
import re

import numpy as np

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, creation, reduce, shape
from plugrad._src.registry.contract import Kernel, Spec, decomposition
from plugrad._src.tensor.arguments import misfit
from plugrad._src.tensor.dtypes import BOOL, INT32
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape

from . import products

__all__ = ["einsum"]

# --- equations -------------------------------------------------------------------

Axes = list[tuple[str, int]]  # the letters and the sizes of a term
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _terms(equation: str) -> tuple[list[str], str]:
    """Return the input terms and the output term of a canonical equation."""
    inputs, _, output = equation.partition("->")
    return inputs.split(","), output


@functools.lru_cache(maxsize=1024)
def _canonical(
    equation: str, shapes: tuple[Shape, ...]
) -> tuple[str, tuple[Shape, ...]]:
    """Return the canonical form of an equation, and the shapes of the operands for it.

    The axes of ``...`` get unused letters, except axes of size 1 that broadcast.
    """
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    _check_terms(equation, [*terms, output], len(shapes))
    pairs = list(zip(terms, shapes, strict=True))
    room = [len(sizes) - len(term.replace("...", "")) for term, sizes in pairs]
    for (term, sizes), rest in zip(pairs, room, strict=True):
        if rest < 0 or (rest and "..." not in term):
            rule = (
                f"term {term!r} of {equation!r} needs one letter for each axis, or ..."
            )
            raise misfit("einsum", rule, sizes)
    dots = "".join([c for c in LETTERS if c not in equation])
    if len(dots) < max(room):
        raise ValueError(f"einsum: there are no letters left for ... in {equation!r}")
    dots = dots[: max(room)]
    axes = [
        list(zip(term.replace("...", dots[len(dots) - rest :]), sizes, strict=True))
        for (term, sizes), rest in zip(pairs, room, strict=True)
    ]
    found = _sizes(equation, axes, dots, shapes)
    if not arrow:
        output = "..." + "".join(sorted([c for c in found if inputs.count(c) == 1]))
    output = output.replace("...", dots)
    for letter in output:
        if letter not in found or output.count(letter) > 1:
            what = f"twice in the output of {equation!r}, or in no input"
            raise ValueError(f"einsum: {letter!r} occurs {what}")
    kept = [[(c, n) for c, n in term if n == found[c]] for term in axes]
    plain = ",".join(["".join([c for c, _ in term]) for term in kept])
    return f"{plain}->{output}", tuple([tuple([n for _, n in term]) for term in kept])


def _check_terms(equation: str, terms: list[str], count: int) -> None:
    for term in terms:
        if not re.fullmatch(r"[A-Za-z]*(\.\.\.[A-Za-z]*)?", term):
            hint = "write letters, and ... for further axes, as in 'ij,jk->ik'"
            raise ValueError(f"einsum: {term!r} in {equation!r} is not a term; {hint}")
    if len(terms) - 1 != count:
        what = f"{len(terms) - 1} operands, got {count}; separate their terms by commas"
        raise ValueError(f"einsum: {equation!r} needs {what}")


def _sizes(
    equation: str, axes: list[Axes], dots: str, shapes: tuple[Shape, ...]
) -> dict[str, int]:
    """Return the size of each letter; letters that stand for ``...`` broadcast."""
    found: dict[str, int] = {}
    for letter, n in itertools.chain(*axes):
        known = found.setdefault(letter, n)
        if letter in dots and known == 1:
            found[letter] = n
        elif known != n and not (letter in dots and n == 1):
            what = "an axis of ..." if letter in dots else repr(letter)
            rule = f"{what} in {equation!r} has sizes {known} and {n}; make them equal"
            raise misfit("einsum", rule, *shapes)
    return found


# --- the op ----------------------------------------------------------------------


def _einsum_spec(*tensors: Spec, equation: str) -> Spec:
    given = tuple([x.shape for x in tensors])
    plain = _canonical(equation, given)
    if plain != (equation, given):
        raise ValueError(
            f"einsum: {equation!r} of shapes {given} is not canonical; use the op, "
            f"or run the kernel with {plain[0]!r} and shapes {plain[1]}"
        )
    terms, output = _terms(equation)
    pairs = zip(terms, tensors, strict=True)
    sizes = {c: n for term, x in pairs for c, n in zip(term, x.shape, strict=True)}
    return Spec(tuple([sizes[c] for c in output]), tensors[0].dtype)


EINSUM = Kernel(
    "Einsum(*tensors: number; equation: str)",
    out=_einsum_spec,
    op="einsum",
    doc="""The sum of products that ``equation`` describes, in the dtype of the tensors.

    Each tensor has a term with one letter for each axis; ``->`` and the term of the
    output follow. A letter stands for one index and one size. A letter that is repeated
    in a term selects a diagonal, and letters that are not in the output are summed
    over. The op converts spaces, ``...`` and a missing output into this form. Integers
    wrap, and float16 is summed in float32.""",
)


def einsum(equation: str, /, *operands: TensorLike) -> Tensor:
    """Return the sum of products that ``equation`` describes, such as ``"ij,jk->ik"``.

    Each operand has a term with one letter for each axis. Axes with the same letter
    share one index: a letter that is repeated in a term selects a diagonal
    (``"ii->i"``), and axes with the same letter in two terms are multiplied element by
    element. Letters that are not in the output are summed over. Without ``->``, the
    output consists of the letters that occur once, in alphabetical order. ``...``
    stands for all remaining axes, which broadcast and, without ``->``, come first.

    Three or more operands are multiplied in pairs, in an order that keeps intermediate
    results small. Integers wrap.

    Args:
        equation: The terms separated by commas, optionally followed by ``->`` and the
            term of the output. Spaces are ignored.
        operands: Tensors of numbers or bool, one for each term.

    Returns:
        A tensor of the promoted dtype; int32 for bool.

    Raises:
        ValueError: The equation is malformed, or does not fit the operands.
        TypeError: The first argument is not a str, there is no operand, or operands
            contain strings.

    Example:
        >>> a = [[1.0, 2.0], [3.0, 4.0]]
        >>> pg.einsum("ij,jk->ik", a, a)
        Tensor([[ 7., 10.],
                [15., 22.]], dtype=float32, backend='cpu')
        >>> pg.einsum("ii", a).item()
        5.0

    Source:
        The semantics are those of ``numpy.einsum``.

    """
    given: object = equation
    if not isinstance(given, str) or not operands:
        usual = "an equation and then operands, as in einsum('ij,jk->ik', a, b)"
        found = f"{type(given).__name__} and {len(operands)} operands"
        raise TypeError(f"einsum: expected {usual}; got {found}")
    xs = [
        _convert.numbers("einsum", x) for x in _convert.promote_all("einsum", *operands)
    ]
    if xs[0].dtype is BOOL:
        xs = [creation.cast(x, INT32) for x in xs]
    plain, shapes = _canonical(equation, tuple([x.shape for x in xs]))
    pairs = zip(xs, shapes, strict=True)
    xs = [shape.shaped(x, s) for x, s in pairs]
    return run(EINSUM, *xs, equation=plain)


@decomposition(EINSUM)  # also used under a tape, for the gradient
def _(*tensors: Tensor, equation: str) -> Tensor:
    terms, output = _terms(equation)
    parts = list(zip(map(reduce.widened, tensors), terms, strict=True))
    for places in _path(equation, tuple([x.shape for x in tensors])):
        chosen = [parts[i] for i in places]
        parts = [part for i, part in enumerate(parts) if i not in places]
        while len(chosen) > 1:
            a, b, *rest = chosen
            kept = output + "".join([term for _, term in [*rest, *parts]])
            chosen = [_product(a, b, kept), *rest]
        parts += chosen
    y, term = _reduce_term(*parts[0], output)
    y = _transposed(y, tuple(map(term.index, output)))
    y = creation.identity(y) if y is tensors[0] else y
    return creation.cast(y, tensors[0].dtype)


@functools.lru_cache(maxsize=1024)
def _path(equation: str, shapes: tuple[Shape, ...]) -> list[tuple[int, ...]]:
    """Return the indices of the parts to multiply in each step.

    The product of a step is appended to the list of parts.
    """
    if len(shapes) < 3:
        return [(0, 1)] if len(shapes) == 2 else []
    blanks = [np.broadcast_to(np.float32(0), sizes) for sizes in shapes]
    return np.einsum_path(equation, *blanks, optimize="greedy")[0][1:]


# --- one and two operands --------------------------------------------------------

Part = tuple[Tensor, str]  # a tensor and the letters of its axes


def _transposed(x: Tensor, order: Shape) -> Tensor:
    usual = order == tuple(range(len(order)))
    return x if usual else run(shape.TRANSPOSE, x, axes=order)


def _reduce_term(x: Tensor, term: str, kept: str) -> Part:
    """Take diagonals for repeated letters, and sum over letters not in ``kept``."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            i = term.index(letter)
            j = term.rindex(letter)
            rest = [k for k in range(len(term)) if k not in (i, j)]
            x = products.diagonal(_transposed(x, (*rest, i, j)))
            term = "".join([term[k] for k in rest]) + letter
    summed = tuple([i for i, letter in enumerate(term) if letter not in kept])
    if summed:
        x = run(reduce.SUM, x, axis=summed, keepdims=False)
    return x, "".join([letter for letter in term if letter in kept])


def _product(a: Part, b: Part, kept: str) -> Part:
    """Multiply two parts; sum over their common letters that are not in ``kept``."""
    x, left = _reduce_term(*a, kept + b[1])
    y, right = _reduce_term(*b, kept + left)
    batch = [c for c in left if c in right and c in kept]
    inner = [c for c in left if c in right and c not in kept]
    rows = [c for c in left if c not in right]
    columns = [c for c in right if c not in left]
    if not inner or (batch and not rows and not columns):
        return _reduce_term(*_elementwise(x, left, y, right), kept)
    sizes = dict(zip(left + right, x.shape + y.shape, strict=True))
    x, turn_x = _as_matrices(x, left, (batch, rows, inner), sizes)
    y, turn_y = _as_matrices(y, right, (batch, inner, columns), sizes)
    z = run(products.BATCH_MATMUL, x, y, transpose_a=turn_x, transpose_b=turn_y)
    term = [*batch, *rows, *columns]
    return run(shape.RESHAPE, z, shape=tuple([sizes[c] for c in term])), "".join(term)


def _elementwise(x: Tensor, left: str, y: Tensor, right: str) -> Part:
    """Multiply without a sum; axes of ``x`` come first, then those only in ``y``."""
    term = "".join(dict.fromkeys(left + right))
    sizes = dict(zip(right, y.shape, strict=True))
    y = _transposed(y, tuple([right.index(c) for c in term if c in right]))
    y = run(shape.RESHAPE, y, shape=tuple([sizes.get(c, 1) for c in term]))
    if len(term) > len(left):
        x = run(shape.RESHAPE, x, shape=(*x.shape, *[1] * (len(term) - len(left))))
    return x * y, term


def _as_matrices(
    x: Tensor, term: str, groups: tuple[list[str], ...], sizes: dict[str, int]
) -> tuple[Tensor, bool]:
    """Return ``x`` with one axis for each group, and whether it is transposed.

    No elements are moved if the axes of ``x`` are already in this or the transposed
    order.
    """
    batch, rows, columns = groups
    turned = list(term) == [*batch, *columns, *rows] and bool(rows and columns)
    if turned:
        rows, columns = columns, rows
    x = _transposed(x, tuple(map(term.index, [*batch, *rows, *columns])))
    axes = [batch, rows, columns] if batch else [rows, columns]
    shapes = [math.prod([sizes[c] for c in group]) for group in axes]
    return run(shape.RESHAPE, x, shape=tuple(shapes)), turned
