"""The dtype ``plugrad.string``: conversion of text, and the ops that accept it."""

import operator

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

from ..toy import toy

TEXT = ["b", "ä\0", "", "c"]
BYTES = [b"b", b"\xc3\xa4\0", b"", b"c"]


@pytest.fixture
def x(backend):
    return pg.asarray(TEXT)


def texts(values):
    """Return an object array of bytes; NumPy's own constructors cut trailing zeros."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def check_strings(y, expected, shape):
    assert (y.dtype, y.shape) == (pg.string, shape)
    assert y.tolist() == expected


# --- values ----------------------------------------------------------------------

VALUES = [
    ("ä", b"\xc3\xa4", ()),
    (b"\xff\0", b"\xff\0", ()),
    (np.str_("a"), b"a", ()),
    (TEXT, BYTES, (4,)),
    ((b"\xff", "ä"), [b"\xff", b"\xc3\xa4"], (2,)),
    ([["a"], ["bc"]], [[b"a"], [b"bc"]], (2, 1)),
    (np.array([["a", "bc"]]), [[b"a", b"bc"]], (1, 2)),
    (np.array([b"a", b"bc"]), [b"a", b"bc"], (2,)),
    (np.array(["ä", "bc"], "T"), [b"\xc3\xa4", b"bc"], (2,)),
    (np.array(["ä", b"bc"], object), [b"\xc3\xa4", b"bc"], (2,)),
    (np.array("a", object), b"a", ()),
    (np.zeros((2, 0), "U1"), [[], []], (2, 0)),
]


@pytest.mark.parametrize(("value", "expected", "shape"), VALUES, ids=repr)
def test_text_becomes_bytes(value, expected, shape, backend):
    for dtype in (None, "string", pg.string, str, bytes):
        check_strings(pg.asarray(value, dtype=dtype), expected, shape)


def test_a_tensor_copies_the_given_array(backend):
    array = texts([b"a", b"b"])
    x = pg.asarray(array)
    array[0] = b"changed"
    assert x.tolist() == [b"a", b"b"]


def test_repr_of_text(x):
    assert repr(x[:2]) == (
        f"Tensor([b'b', b'\\xc3\\xa4\\x00'], dtype=string, backend={x.backend!r})"
    )
    assert [part.item() for part in x] == BYTES
    assert pg.asarray([], dtype="string").dtype is pg.string
    assert (bool(x[0]), bool(x[2])) == (True, False)


def test_nbytes_of_strings(backend):
    arrays = runtime("cpu").arrays
    assert arrays.nbytes(texts([b"abc", b"d"])) == 2 * 8 + 4


def test_strings_have_no_gradient(x):
    with pytest.raises(TypeError, match="floating"):
        pg.grad(lambda x: pg.identity(x))(x)
    y, pull = pg.vjp(lambda s: pg.where(x == "b", s, 0.0), pg.asarray(2.0))
    assert y.tolist() == [2, 0, 0, 0]
    assert pull(pg.ones((4,)))[0].item() == 1


# --- ops -------------------------------------------------------------------------

MOVES = [
    (lambda x: pg.identity(x), BYTES, (4,)),
    (lambda x: pg.reshape(x, (2, 2)), [BYTES[:2], BYTES[2:]], (2, 2)),
    (lambda x: pg.reshape("a\0", (1, 1)), [[b"a\0"]], (1, 1)),
    (lambda x: pg.tile(x[:2], 2), BYTES[:2] * 2, (4,)),
    (lambda x: pg.repeat(x[:2], 2), [BYTES[0]] * 2 + [BYTES[1]] * 2, (4,)),
    (lambda x: pg.repeat(x[:2], [1, 2]), [BYTES[0]] + [BYTES[1]] * 2, (3,)),
    (lambda x: pg.broadcast_to("a\0", (2,)), [b"a\0"] * 2, (2,)),
    (lambda x: pg.stack([x[0], x[1]]), BYTES[:2], (2,)),
    (lambda x: pg.concat([x, ["d"]]), [*BYTES, b"d"], (5,)),
    (lambda x: pg.split(x, 2)[1], BYTES[2:], (2,)),
    (lambda x: pg.unstack(x)[1], BYTES[1], ()),
    (lambda x: pg.unstack(pg.reshape(x, (2, 2)), axis=1)[0], BYTES[::2], (2,)),
    (lambda x: pg.permute_dims(x[None], (1, 0)), [[b] for b in BYTES], (4, 1)),
    (lambda x: pg.flip(x), BYTES[::-1], (4,)),
    (lambda x: pg.flip(x[1]), BYTES[1], ()),
    (lambda x: pg.roll(x, 1), [BYTES[3], *BYTES[:3]], (4,)),
    (lambda x: pg.gather(x, [[3, 0]]), [[BYTES[3], BYTES[0]]], (1, 2)),
    (lambda x: pg.gather(x, 1), BYTES[1], ()),
    (lambda x: pg.gather(x[None], [[1]], batch_dims=1, axis=1), [[BYTES[1]]], (1, 1)),
    (lambda x: pg.take(x, -1), BYTES[3], ()),
    (lambda x: pg.gather_nd(x, [1]), BYTES[1], ()),
    (lambda x: pg.gather_nd(pg.reshape(x, (2, 2)), [[1, 1]]), [BYTES[3]], (1,)),
    (
        lambda x: pg.gather_nd(pg.permute_dims(pg.reshape(x, (2, 2)), (1, 0)), [1, 0]),
        BYTES[1],
        (),
    ),
    (lambda x: pg.tensor_scatter_update(x[:2], [1], ["z\0"]), [b"b", b"z\0"], (2,)),
    (lambda x: pg.slice(x, 1, 2), BYTES[1:3], (2,)),
    (lambda x: pg.slice(x[1], []), BYTES[1], ()),
    (lambda x: pg.strided_slice(x, 3, 0, -2), BYTES[3:0:-2], (2,)),
    (lambda x: pg.strided_slice(x[1], [], []), BYTES[1], ()),
    (lambda x: x[1], BYTES[1], ()),
    (lambda x: x[::-1], BYTES[::-1], (4,)),
    (lambda x: x[[2, 0]], [BYTES[2], BYTES[0]], (2,)),
    (lambda x: x[x != ""], [BYTES[0], *BYTES[1:2], BYTES[3]], (3,)),
    (lambda x: pg.pad(x[:1], [(1, 1)]), [b"", BYTES[0], b""], (3,)),
    (
        lambda x: pg.pad(x[:1], [(1, 0)], constant_values="ä\0"),
        [BYTES[1], BYTES[0]],
        (2,),
    ),
    (lambda x: pg.pad(x[:2], [(1, 0)], mode="reflect"), [BYTES[1], *BYTES[:2]], (3,)),
    (lambda x: pg.where(x == "b", x, "no\0"), [BYTES[0], *[b"no\0"] * 3], (4,)),
    (lambda x: pg.where(x[0] == "b", "yes", x[1]), b"yes", ()),
    (lambda x: pg.full((2,), "ä\0"), [BYTES[1]] * 2, (2,)),
    (lambda x: pg.full((), b"a", dtype="string"), b"a", ()),
    (lambda x: pg.full_like(x, "a"), [b"a"] * 4, (4,)),
    (lambda x: pg.astype(x, "string"), BYTES, (4,)),
]


@pytest.mark.parametrize(("op", "expected", "shape"), MOVES, ids=range(len(MOVES)))
def test_ops_that_move_elements(op, expected, shape, x):
    check_strings(op(x), expected, shape)


COMPARISONS = [
    (lambda x: x == "b", [True, False, False, False]),
    (lambda x: x != b"b", [False, True, True, True]),
    (lambda x: operator.eq("b", x), [True, False, False, False]),
    (lambda x: x == np.str_("b"), [True, False, False, False]),
    (lambda x: pg.equal(x, pg.asarray(TEXT)), [True] * 4),
    (lambda x: pg.not_equal(x[0], x[0]), False),
    (lambda x: x < "c", [True, False, True, False]),
    (lambda x: operator.le("c", x), [False, True, False, True]),
    (lambda x: x > pg.asarray(["b"] * 4), [False, True, False, True]),
    (lambda x: x >= b"b", [True, True, False, True]),
    (lambda x: pg.less(x[0], x[1]), True),
]


@pytest.mark.parametrize(("op", "expected"), COMPARISONS, ids=range(len(COMPARISONS)))
def test_strings_are_compared_by_their_bytes(op, expected, x):
    y = op(x)
    assert (y.dtype, y.tolist()) == (np.dtype(bool), expected)


def test_numbers_and_strings_are_not_equal(x):
    assert (x == None) is False  # noqa: E711
    assert (pg.asarray([1.0]) == "a") is False
    assert (pg.asarray([1.0]) != "a") is True
    assert "c" in x
    assert "d" not in x


# --- errors ----------------------------------------------------------------------

ERRORS = [
    (lambda x: pg.asarray(["a", 1]), TypeError, "of int; elements must be all str"),
    (lambda x: pg.asarray(["a", None]), TypeError, "a tensor of NoneType"),
    (lambda x: pg.asarray([["a"], ["b", "c"]]), ValueError, "differ in length"),
    (lambda x: pg.asarray(["a"], dtype="int32"), TypeError, "convert strings to int32"),
    (lambda x: pg.asarray([1.0], dtype=str), TypeError, "a tensor of float; elements"),
    (lambda x: pg.asarray(np.ones(2), dtype=str), TypeError, "a tensor of float; el"),
    (lambda x: pg.astype(x, "float32"), TypeError, "astype: cannot cast string to fl"),
    (lambda x: pg.astype([1], "string"), TypeError, "astype: cannot cast int32 to st"),
    (lambda x: pg.full((1,), "a", dtype=float), TypeError, "full: float32 cannot hold"),
    (lambda x: pg.full((1,), 1, dtype=str), TypeError, "full: dtype must not be str"),
    (lambda x: pg.zeros((1,), dtype=str), TypeError, "zeros: dtype must not be str"),
    (lambda x: pg.ones((1,), dtype=str), TypeError, "ones: dtype must not be str"),
    (lambda x: pg.zeros_like(x), TypeError, "zeros: dtype must not be str"),
    (lambda x: pg.ones_like(x), TypeError, "ones: dtype must not be str"),
    (lambda x: pg.pad(x, [(1, 1)], constant_values=1), TypeError, "both int32 and str"),
    (lambda x: pg.pad([1], [(1, 1)], constant_values="a"), TypeError, "must be a num"),
    (lambda x: x + "a", TypeError, "add: is defined for .* complex numbers, got strin"),
    (lambda x: x * x, TypeError, "multiply: is defined for .* got string$"),
    (lambda x: x - x, TypeError, "subtract: is defined for .* got string$"),
    (lambda x: x / x, TypeError, "divide: there is no divide of strings"),
    (lambda x: x // x, TypeError, "floor_divide: is defined for .* got string$"),
    (lambda x: x % "a", TypeError, "remainder: is defined for .* got string$"),
    (lambda x: pg.maximum(x, x), TypeError, "maximum: is defined for .* got string$"),
    (lambda x: -x, TypeError, "negative: there is no negative of strings"),
    (lambda x: pg.positive(x), TypeError, "positive: there is no positive of strings"),
    (lambda x: abs(x), TypeError, "abs: there is no abs of strings"),
    (lambda x: pg.exp(x), TypeError, "exp: there is no exp of strings"),
    (lambda x: pg.isnan(x), TypeError, "isnan: there is no isnan of strings"),
    (lambda x: x + 1, TypeError, "add: no dtype holds both int32 and string"),
    (lambda x: x > 1.5, TypeError, "greater: no dtype holds both float32 and string"),
    (lambda x: pg.equal(x, np.ones(4)), TypeError, "no dtype holds both string and"),
    (lambda x: pg.concat([x, [1.0]]), TypeError, "concat: no dtype holds both string"),
    (lambda x: pg.logical_not(x), TypeError, "there is no logical_not of strings"),
    (lambda x: pg.logical_or(x, x), TypeError, "there is no logical_or of strings"),
    (lambda x: pg.isclose(x, x), TypeError, "isclose: there is no isclose of strings"),
    (lambda x: pg.complex(x, x), TypeError, "complex: there is no complex of strings"),
    (lambda x: x & x, TypeError, "bitwise_and: is defined for bool, integers, got st"),
    (lambda x: pg.sum(x), TypeError, "sum: there is no sum of strings"),
    (lambda x: pg.prod(x), TypeError, "prod: there is no prod of strings"),
    (lambda x: pg.max(x), TypeError, "max: there is no max of strings"),
    (lambda x: pg.mean(x), TypeError, "mean: there is no mean of strings"),
    (lambda x: pg.any(x), TypeError, "any: there is no any of strings"),
    (lambda x: pg.argmax(x), TypeError, "argmax: there is no argmax of strings"),
    (lambda x: pg.matmul(x, x), TypeError, "matmul: there is no matmul of strings"),
    (lambda x: pg.add_n([x, x]), TypeError, "add_n: there is no add_n of strings"),
    (lambda x: pg.einsum("i->i", x), TypeError, "einsum: there is no einsum of str"),
    (lambda x: pg.conv1d(x[:, None], x[:, None, None]), TypeError, "no conv1d of str"),
    (lambda x: pg.bincount([0, 1, 2, 3], weights=x), TypeError, "no bincount of str"),
    (lambda x: pg.cumulative_sum(x), TypeError, "no cumulative_sum of strings"),
    (lambda x: pg.linalg.matrix_power([["a"]], 1), TypeError, "matrix_power of strin"),
    (lambda x: pg.arange(2, dtype=str), TypeError, "is not defined for string; use"),
    (lambda x: pg.linspace(0, 1, 2, dtype=str), TypeError, "string cannot hold num"),
    (
        lambda x: pg.unsorted_segment_sum(x, [0, 0, 1, 1], 2),
        TypeError,
        "unsorted_segment_sum: there is no",
    ),
    (lambda x: pg.scatter_nd([0], ["a"], (2,)), TypeError, "scatter_nd: there is no"),
    (lambda x: pg.gather(x, ["a"]), TypeError, "indices must be integers, got string"),
    (lambda x: pg.where(x, 1, 2), TypeError, "condition must be bool, got string"),
    (lambda x: pg.tril(x[None]), TypeError, "tril: there is no tril of strings"),
]


@pytest.mark.parametrize(("call", "error", "match"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call, error, match, x):
    with pytest.raises(error, match=match):
        call(x)


def test_a_backend_without_strings():
    with toy(dtypes=["float32"]), pg.use_backend("toy"):
        with pytest.raises(TypeError, match="asarray: backend 'toy' has no strings"):
            pg.asarray("a")
        with pytest.raises(TypeError, match="full: backend 'toy' has no string"):
            pg.full((1,), "a")


def test_a_backend_leaves_strings_to_its_host():
    """The backend stores strings unchanged, and its kernels decline them."""

    def declining(kernel):
        def call(*inputs, **attrs):
            values = [*inputs, *attrs.values()]
            if any(getattr(x, "dtype", x) is pg.string for x in values):
                return NotImplemented
            return kernel(*inputs, **attrs)

        return call

    table = pg.get_kernels_for_backend("cpu")
    kernels = {name: declining(kernel) for name, kernel in table.items()}
    host = {"host": "cpu", "host_kernels": list(table)}
    with toy(extra=kernels, dtypes=["string", "bool", "int32"], **host):
        with pg.use_backend("toy"):
            x = pg.asarray(TEXT)
            y = pg.concat([pg.where(x > "b", x, pg.full((), "no")), ["end"]])
            pieces = pg.strings.split(pg.reshape(y[::-1], (5,)), "")
        assert y.backend == pieces.values.backend == "toy"
        assert y.tolist() == [b"no", BYTES[1], b"no", b"c", b"end"]
        assert pieces.shape.tolist() == [5, 3]
