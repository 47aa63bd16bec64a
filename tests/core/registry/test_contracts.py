"""The grammar of contracts, and output rules compared with what kernels return."""

import re

import numpy as np
import plugrad as pg
import pytest
from plugrad import plugin
from plugrad._src.engine.context import Scope
from plugrad._src.engine.tape import spec
from plugrad._src.registry.canonical import canonical
from plugrad._src.registry.registry import registry
from plugrad.plugin import Kernel, Spec, run, same


def test_the_grammar_of_signatures():
    norm = Kernel("test.Norm(x, mean, scale?, offset?; epsilon)")
    assert repr(norm) == "test.Norm(x, mean, scale?, offset?; epsilon) -> y"
    assert norm.optional == {"scale", "offset"}
    ragged = Kernel("test.Ragged(*splits, values) -> *ys")
    assert repr(ragged) == "test.Ragged(*splits, values) -> *ys"
    assert ragged.bind([1, 2, 3]) == {"splits": (1, 2), "values": 3}
    with pytest.raises(TypeError, match="got 3 inputs, expected"):
        norm.bind([1, 2, 3])


@pytest.mark.parametrize("words", ["x, y", "x, x", "x y", "x,,z", "3"])
def test_names_in_a_signature_must_be_unique_identifiers(words):
    with pytest.raises(ValueError, match="identifiers, each used once"):
        Kernel(f"test.Clash({words})")


def test_a_contract_is_registered_with_its_kernel_and_must_agree_with_others():
    Kernel("test.Ghost(x)")
    with pytest.raises(ValueError, match=r"unknown kernel 'test\.Ghost'"):
        pg.run_kernel("test.Ghost", [], {})
    pg.register_kernel(Kernel("test.Twice(x)"), "cpu", np.exp)
    with pytest.raises(ValueError, match="is already declared as"):
        pg.register_kernel(Kernel("test.Twice(a, b)"), "cpu", np.add)


@pytest.mark.parametrize(
    "signature", ["Shrink(x)", "Shrink(*xs)", "Swish(x: floating; beta: float) -> y"]
)
def test_a_name_without_a_dot_is_refused_when_the_contract_is_made(signature):
    name = signature.partition("(")[0]
    message = rf"kernel '{name}' from outside .* dotted name, such as 'mylib\.{name}'"
    with pytest.raises(ValueError, match=message):
        Kernel(signature)
    with pytest.raises(ValueError, match=message):
        Kernel(signature, out=same)
    assert Kernel(f"test.{signature}").name == f"test.{name}"


CALLS_OF_OPS = [
    lambda x: pg.softmax(x) / 2 > x,
    lambda x: pg.max(x, axis=0, keepdims=True) == pg.mean(x, axis=1),
    lambda x: pg.split(pg.concat([x, x], axis=1), [2, 4], axis=1),
    lambda x: pg.astype(pg.broadcast_to(pg.reshape(x, (9, 1)), (9, 2)), "int32"),
    lambda x: pg.fused.conv2d(pg.reshape(x, (1, 3, 3, 1)), np.ones((2, 2, 1, 1))),
]


@pytest.mark.parametrize("run", CALLS_OF_OPS)
def test_output_rules_agree_with_the_kernels(run, backend):
    def check(kernel, inputs, attrs, outputs):
        expected = kernel.out(*(x if x is None else spec(x) for x in inputs), **attrs)
        expected = (expected,) if kernel.single else expected
        assert tuple(map(spec, outputs)) == expected, kernel

    with Scope(observer=check):
        run(pg.asarray(np.ones((3, 3))))


@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "message"),
    [
        ("AvgPool", 1, {}, "missing.*'filter_size'; give filter_size, or"),
        ("Conv2DBackpropInput", 2, {"pad": 1}, "missing.*'in_shape'; give in_shape"),
        ("ResizeBilinear", 1, {"size": 2, "to": 1}, "'to'; give size, align_corners"),
        ("Conv2D", 2, {"k": 3}, "has no k"),
    ],
)
def test_the_error_names_attributes_that_do_not_fit(name, inputs, attrs, message):
    xs = [pg.ones((1, 4, 4, 2)), pg.ones((2, 2, 2, 2))][:inputs]
    with pytest.raises(TypeError, match=rf"{name}: .*{message}"):
        pg.run_kernel(name, xs, attrs)


# --- kinds -----------------------------------------------------------------------

SHAPE = (2, 3, 4)  # the shape of the first input
CANONICAL = [  # (kind, value that is passed, value that the kernel gets)
    ("bool", 1, True),
    ("int", np.int64(3), 3),
    ("size", 0, 0),
    ("float", 2, 2.0),
    ("number", 2, 2),
    ("scalar", b"a", b"a"),
    ("str", "a", "a"),
    ("dtype", "float32", np.dtype("float32")),
    ("dtype", float, np.dtype("float32")),
    ("axis", -1, 2),
    ("axes", (-1, 0), (0, 2)),
    ("axes", None, (0, 1, 2)),
    ("axes", 1, (1,)),
    ("new_axis", -1, 3),
    ("permutation", (-1, 0, 1), (2, 0, 1)),
    ("shape", [2, 3], (2, 3)),
    ("shape", 4, (4,)),
    ("ints", np.array([1, -2]), (1, -2)),
    ("pairs", [[0, 1], [2, 0]], ((0, 1), (2, 0))),
    ("'a' | 'b'", "b", "b"),
    ("int?", None, None),
    ("int?", 3, 3),
]
REFUSED_VALUES = [  # (kind, value that is passed, error, message)
    ("bool", 2, TypeError, "a must be True or False"),
    ("int", 1.0, TypeError, "a must be an integer"),
    ("int", 2**63, ValueError, "does not fit into 64 bits"),
    ("size", -1, ValueError, "a -1 must be 0 or more"),
    ("float", 1j, TypeError, "a must be real"),
    ("float", 10**400, OverflowError, "a 1000"),
    ("number", "x", TypeError, "a must be a number"),
    ("scalar", [1], TypeError, "a must be"),
    ("str", 1, TypeError, "a must be a str"),
    ("dtype", "float33", TypeError, "float33"),
    ("axis", 3, ValueError, "a 3 is out of range for rank 3: -3..2"),
    ("axis", True, TypeError, "a must be an integer"),
    ("axes", (0, 0), ValueError, "names one axis twice"),
    ("axes", (5,), ValueError, "axis 5 is out of range for rank 3"),
    ("new_axis", 4, ValueError, "a 4 is out of range for rank 4"),
    ("permutation", (0, 1), ValueError, "must name each of the 3 axes once"),
    ("permutation", (0, 1, 1), ValueError, "must name each of the 3 axes once"),
    ("shape", (-1,), ValueError, "must not be negative"),
    ("shape", (2**40, 2**40), ValueError, "too large for any memory"),
    ("ints", (2**70,), ValueError, "does not fit into 64 bits"),
    ("pairs", [(1, 2, 3)], ValueError, "pairs"),
    ("'a' | 'b'", "c", ValueError, "a 'c': use 'a' or 'b'"),
    ("Windows", 3, TypeError, "a must be plugrad.geometry.Windows, got 3"),
    ("", [1], TypeError, "a must be hashable"),
]


@pytest.fixture
def value_in_kernel():
    """Return a function that passes a value to a kernel and returns what it gets."""
    seen = []

    def note_attribute(x, *, a):
        seen.append(a)
        return x

    def call(kind, passed):
        kernel = Kernel(f"test.Kept(x; a: {kind})" if kind else "test.Kept(x; a)")
        pg.register_kernel(kernel, "cpu", note_attribute)
        try:
            with pg.use_backend("cpu"):
                run(kernel, pg.ones(SHAPE), a=passed)
        finally:
            pg.unregister_kernel("test.Kept", "cpu")
            del registry.contracts["test.Kept"]
        return seen[-1]

    return call


@pytest.mark.thread_unsafe(reason="it registers for the process")
@pytest.mark.parametrize(("kind", "passed", "wanted"), CANONICAL)
def test_attributes_reach_kernels_in_canonical_form(
    kind, passed, wanted, value_in_kernel
):
    found = value_in_kernel(kind, passed)
    assert (found, type(found)) == (wanted, type(wanted))


@pytest.mark.thread_unsafe(reason="it registers for the process")
@pytest.mark.parametrize(("kind", "passed", "error", "message"), REFUSED_VALUES)
def test_attributes_of_a_wrong_kind_are_refused(
    kind, passed, error, message, value_in_kernel
):
    with pytest.raises(error, match=rf"^test.Kept: .*{message}"):
        value_in_kernel(kind, passed)


@pytest.mark.parametrize(
    "signature",
    ["test.A(x: numbr)", "test.A(x; a: axs)", "test.A(x: y, y)", "test.A(x: int33)"],
)
def test_unknown_kinds_are_refused(signature):
    with pytest.raises(ValueError, match="has the unknown kind"):
        Kernel(signature)


DTYPES = [  # (signature, dtypes of the inputs, message or nothing)
    ("test.D(x: number)", ["float32"], ""),
    ("test.D(x: number)", ["bool"], "'x' must be number, got bool"),
    ("test.D(x: bool | integer)", ["int8"], ""),
    ("test.D(x: int32 | int64)", ["int8"], "'x' must be int32 | int64, got int8"),
    ("test.D(x, b: x)", ["int32", "int32"], ""),
    ("test.D(x, b: x)", ["int32", "int64"], "'b' must be int32, the dtype of x"),
    ("test.D(*xs: number)", ["int32", "float32"], "'xs' must be int32, the dtype of"),
    ("test.D(*xs: number, b: xs)", ["int32", "int32", "int8"], "'b' must be int32"),
    ("test.D(x, b)", ["int32", "float32"], ""),
]


@pytest.mark.parametrize(("signature", "dtypes", "message"), DTYPES)
def test_dtypes_of_inputs(signature, dtypes, message):
    inputs = [Spec((2,), np.dtype(name)) for name in dtypes]
    if not message:
        assert canonical(Kernel(signature), inputs, {}) == {}
        return
    with pytest.raises(TypeError, match=re.escape(message)):
        canonical(Kernel(signature), inputs, {})


def test_a_right_call_is_checked_once_and_a_wrong_one_each_time():
    checked = []

    def out(x, *, a):
        checked.append(a)
        if a > 1:
            raise ValueError("test.Once: a is too large")
        return x

    kernel = Kernel("test.Once(x; a: int)", out=out)
    pg.register_kernel(kernel, "cpu", lambda x, a: x)
    x = pg.ones((2,))
    with pg.use_backend("cpu"):
        for _ in range(3):
            run(kernel, x, a=1)
        for _ in range(2):
            with pytest.raises(ValueError, match="a is too large"):
                run(kernel, x, a=2)
        run(kernel, pg.ones((3,)), a=1)
        with pytest.raises(TypeError, match="a must be an integer, got True"):
            run(kernel, x, a=True)  # True equals 1
    assert checked == [1, 2, 2, 1]
    pg.unregister_kernel("test.Once", "cpu")


# --- attributes that a later version adds ----------------------------------------

SCALED = "x: floating; factor: float, reverse: bool = False, mode: 'a' | 'b' = 'a'"


def scaled(x, factor, reverse, mode):
    return x * factor * (-1.0 if reverse else 1.0) * (10.0 if mode == "b" else 1.0)


def first_version(x, factor):
    """Implement the first version of the contract, which lacks the new attributes."""
    return x * factor


@pytest.fixture
def kernel_with_new_attributes():
    """Return a contract that has new attributes and a decomposition."""
    kernel = Kernel(f"test.Scaled({SCALED})", out=lambda x, **_: x)
    plugin.decomposition(kernel)(
        lambda x, *, factor, reverse, mode: scaled(x, factor, reverse, mode) + 0.5
    )
    return kernel


def test_a_signature_with_defaults(kernel_with_new_attributes):
    assert f"{kernel_with_new_attributes}" == f"test.Scaled({SCALED}) -> y"
    assert kernel_with_new_attributes.defaults == {"reverse": False, "mode": "a"}
    assert Kernel("test.Plain(x; factor: float)").defaults == {}
    with pytest.raises(ValueError, match=r"of 'a' must be a literal, .* got 'pi'"):
        Kernel("test.Wrong(x; a: float = pi)")


def test_a_call_without_new_attributes(kernel_with_new_attributes):
    pg.register_kernel(kernel_with_new_attributes, "cpu", scaled)
    try:
        assert pg.run_kernel("test.Scaled", [2.0], {"factor": 3.0}).item() == 6.0
        attrs = {"factor": 3.0, "reverse": True}
        assert pg.run_kernel("test.Scaled", [2.0], attrs).item() == -6.0
    finally:
        pg.unregister_kernel("test.Scaled", "cpu")


@pytest.mark.parametrize("call", [pg.run_kernel, pg.jit(pg.run_kernel, static=(0,))])
def test_an_implementation_of_the_first_version(call, kernel_with_new_attributes):
    pg.register_kernel(kernel_with_new_attributes, "cpu", first_version)
    try:
        for new, expected in (
            ({}, 6.0),
            ({"reverse": True}, -5.5),  # it is decomposed
            ({"mode": "b"}, 60.5),
        ):
            attrs = {"factor": 3.0, **new}
            for _ in range(3):
                assert call("test.Scaled", [2.0], attrs).item() == expected
    finally:
        pg.unregister_kernel("test.Scaled", "cpu")


def test_attributes_without_defaults_are_required(kernel_with_new_attributes):
    with pytest.raises(ValueError, match=r"does not fit test\.Scaled.*factor"):
        pg.register_kernel(
            kernel_with_new_attributes, "cpu", lambda x, reverse, mode: x
        )


# Words about processors and backends, which have no place in contracts.
IMPLEMENTATION_WORDS = re.compile(
    r"\b(pack(s|ed|ing)?|layouts?|panels?|tile[sd]?|cache[sd]?|threads?|memory|buffers?|"
    r"vnni|avx\w*|simd|neon|sse\d*|lanes?|registers?|prefetch\w*|blas|mkl|onednn|gpu|cpu|"
    r"processors?|devices?|instructions?|contiguous)\b",
    re.IGNORECASE,
)
MATHEMATICAL_NAMES = {"Pack", "Tile"}  # TensorFlow.js names for stack and repeat


@pytest.mark.parametrize("name", sorted(n for n in plugin.contracts() if "." not in n))
def test_contracts_name_mathematical_operands_only(name):
    """Packed forms are the backends' concern; they get them by ``plugin.prepared``."""
    kernel = plugin.contracts()[name]
    assert not IMPLEMENTATION_WORDS.findall(kernel.doc)
    words = re.findall("[A-Z]?[a-z]+", repr(kernel).replace("_", " "))
    found = {word for word in words if IMPLEMENTATION_WORDS.fullmatch(word)}
    assert found <= MATHEMATICAL_NAMES & {name}


@pytest.mark.parametrize(
    "text", ["weights that ``pack`` packed", "on VNNI", "a cache", "panels"]
)
def test_words_about_processors_are_found(text):
    assert IMPLEMENTATION_WORDS.search(text)
