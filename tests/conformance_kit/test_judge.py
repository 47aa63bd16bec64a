"""The judge of the golden cases detects everything that is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime
from plugrad_conformance.golden.cases import (
    Case,
    Handle,
    close,
    handles,
    names,
    total,
)
from plugrad_conformance.golden.judge import Departure, Row, depart, judge, read

X = np.array([1.0, -2.0, 3.0], np.float32)
untyped: Any = pg
DY = np.array([1.0, 0.5, -1.0], np.float32)


def make_case(kind: str, kernel: str = "Square", **fields: Any) -> Case:
    return Case(Handle(kind, kernel, "0" * 16), **fields)


def make_departure(
    instead: str, *, kind: str = "kernels", expect: str = ""
) -> Departure:
    return Departure(["0" * 16], "Square", kind, "suspect", "a reason", instead, expect)


VALUES = make_case("kernels", inputs={"x": X}, outputs=[X * X])
LISTS = make_case(
    "kernels", "Unpack", inputs=[X, X + 1], outputs=[X, X + 1], list_output=True
)
RANDOM = replace(VALUES, random=True)
SLOPES = make_case(
    "gradients",
    inputs={"x": X},
    dys=[DY],
    grads={"x": 2 * X * DY},
    checks={"x": "agrees"},
)
FAILS = make_case("errors", inputs={"x": X}, error="bad x")


def right(x: Any) -> Any:
    return pg.square(x)


def refusing(x: Any) -> Any:
    return pg.reshape(x, (7,))


def square_without_gradient(x: Any) -> Any:
    return pg.asarray(pg.stop_gradient(x).numpy() ** 2)


# --- a verdict -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "row"),
    [
        (VALUES, right),
        (VALUES, lambda x: [pg.square(x)]),
        (LISTS, lambda xs: xs),
        (RANDOM, lambda x: x),
        (SLOPES, right),
        (FAILS, refusing),
        (replace(FAILS, inputs={}, args=[{}]), pg.exp),
        (replace(SLOPES, dys=[DY, None]), lambda x: (pg.square(x), x)),
        (replace(SLOPES, grads={"x": 0 * X}), lambda x: x > 0),
        (
            make_case(
                "gradients", inputs=[X, X], dys=[DY], grads={"0": DY, "1": 2 * DY}
            ),
            lambda xs: xs[0] + 2 * xs[1],
        ),
    ],
)
def test_a_right_result_passes(case: Case, row: Row, backend: str) -> None:
    judge(case, row, None)


@pytest.mark.parametrize(
    ("case", "row", "complaint"),
    [
        (VALUES, lambda x: pg.square(x) + 1e-3, "output 0 differs"),
        (VALUES, lambda x: pg.square(x) * float("nan"), "output 0 differs"),
        (VALUES, lambda x: pg.astype(pg.square(x), "int32"), "int32 instead of float"),
        (VALUES, lambda x: pg.astype(pg.square(x), "float64"), "float64 instead"),
        (VALUES, lambda x: pg.reshape(pg.square(x), (3, 1)), "shape"),
        (VALUES, lambda x: [x, x], "2 outputs instead of 1"),
        (VALUES, lambda x: x.numpy() ** 2, "a row returned ndarray"),
        (VALUES, None, "nothing reaches"),
        (LISTS, lambda xs: xs[::-1], "output 0 differs"),
        (replace(LISTS, inputs=[X], outputs=[X]), lambda xs: xs[0], "one tensor"),
        (RANDOM, lambda x: pg.reshape(x, (3, 1)), "shape"),
        (RANDOM, lambda x: pg.astype(x, "int32"), "int32"),
        (SLOPES, lambda x: pg.square(x) * 1.01, "gradient of x differs"),
        (SLOPES, square_without_gradient, "gradient of x differs"),
        (replace(SLOPES, dys=[DY, DY]), right, "1 outputs instead of 2"),
        (FAILS, right, "no ValueError or"),
        (FAILS, lambda x: globals()["nothing"], "KeyError is not an acceptable error"),
        (FAILS, lambda x: x.nothing, "AttributeError is not an acceptable error"),
        (FAILS, lambda x: np.add(X, X[:2]), "from elsewhere"),
        (FAILS, lambda x: untyped.exp(x, x), "from elsewhere"),
        (FAILS, lambda x: runtime("cpu").kernels["Reshape"](X, shape=(7,)),
         "ValueError by accident"),
        (replace(FAILS, inputs={}, args=[X]), pg.square, "no ValueError or"),
    ],
)  # fmt: skip
def test_a_wrong_result_fails(
    case: Case, row: Row | None, complaint: str, backend: str
) -> None:
    with pytest.raises((AssertionError, ValueError), match=complaint):
        judge(case, row, None)


FAILING = [  # a case that fails, and the lines of the note that the error carries
    (
        replace(VALUES, attrs={"axis": [0, 1], "name": None}),
        [
            "the case Square-0000000000000000 of kernels:",
            "  x = float32[3] [ 1., -2.,  3.]",
            "  axis = [0, 1]",
            "  name = None",
        ],
    ),
    (
        replace(SLOPES, inputs={"x": np.zeros((30, 2), np.int32)}),
        [
            "the case Square-0000000000000000 of gradients:",
            "  x = int32[30, 2] [[0, 0], [0, 0], [0, 0], ..., [0, 0], [0, 0], [0, 0]]",
            "  dy 0 = float32[3] [ 1. ,  0.5, -1. ]",
        ],
    ),
    (
        replace(LISTS, inputs=[X[:1], X[:0]]),
        [
            "the case Unpack-0000000000000000 of kernels:",
            "  inputs = [float32[1] [1.], float32[0] []]",
        ],
    ),
    (
        replace(FAILS, args=[{"x": np.array([b"a b"], object)}, 2]),
        [
            "the case Square-0000000000000000 of errors:",
            "  argument 0 = {'x': object[1] [b'a b']}",
            "  argument 1 = 2",
        ],
    ),
]


@pytest.mark.parametrize(("case", "lines"), FAILING)
def test_a_failure_shows_the_case(case: Case, lines: list[str]) -> None:
    with pytest.raises(AssertionError) as caught:
        judge(case, None if case.handle.kind != "errors" else lambda *_: X, None)
    assert "\n".join(caught.value.__notes__).splitlines() == lines


@pytest.mark.parametrize(
    ("actual", "expected", "agree"),
    [
        (np.inf, np.inf, True),
        (np.inf, -np.inf, False),
        (np.nan, np.nan, True),
        (np.nan, 0.0, False),
        (0.0, np.nan, False),
        (1e30, np.inf, False),
        (100.0005, 100.0, True),
        (100.002, 100.0, False),
        (-0.0, 0.0, True),
    ],
)
def test_numbers_that_are_close(actual: float, expected: float, agree: bool) -> None:
    a, b = (np.array([v], np.float32) for v in (actual, expected))
    assert close(a, b, 1e-5, 1e-6) == agree


def test_a_missing_kernel_is_not_the_expected_error() -> None:
    def row(x: Any) -> Any:
        raise pg.KernelNotFound("Square: nobody has it")

    with pytest.raises(
        AssertionError, match="KernelNotFound is not an acceptable error"
    ):
        judge(FAILS, row, None)


def test_kernels_may_round_except_those_that_move_elements() -> None:
    near = lambda x: x + 5e-7
    judge(replace(VALUES, outputs=[X]), near, None)
    moved = replace(VALUES, handle=Handle("kernels", "Reshape", "0" * 16), outputs=[X])
    with pytest.raises(AssertionError, match="differs"):
        judge(moved, near, None)


# --- gradients that TensorFlow.js gets wrong -------------------------------------


@pytest.mark.parametrize("verdict", ["agrees", "disagrees"])
def test_a_doubtful_gradient_is_compared_with_differences(verdict: str) -> None:
    """Our gradient equals the golden one, but both differ from finite differences."""
    wrong = replace(SLOPES, grads={"x": 3 * X * DY}, checks={"x": verdict})
    row = square_with_wrong_gradient
    if verdict == "agrees":
        judge(wrong, row, None)
    else:
        with pytest.raises(AssertionError, match="the derivative is"):
            judge(wrong, row, None)


def square_with_wrong_gradient(x: Any) -> Any:
    return pg.custom_grad(lambda x: (pg.square(x), lambda dy: dy * x * 3))(x)


def test_a_gradient_that_the_corpus_lacks_is_compared_with_differences() -> None:
    case = replace(SLOPES, grads={})
    judge(case, right, None)
    with pytest.raises(AssertionError, match="the derivative is"):
        judge(case, square_with_wrong_gradient, None)


def flat_at_zero(x: Any) -> Any:
    return pg.relu(x)


def test_steps_and_kinks_are_left_out() -> None:
    at_kink = make_case("gradients", inputs={"x": 0 * X}, dys=[DY], grads={"x": DY * 0})
    judge(replace(at_kink, checks={"x": "disagrees"}), flat_at_zero, None)
    with pytest.raises(AssertionError, match="no smooth point"):
        depart(
            at_kink,
            flat_at_zero,
            make_departure("finite-differences", kind="gradients"),
        )


# --- exceptions ------------------------------------------------------------------

HOLDING = [
    (replace(VALUES, outputs=[X]), right, "works", "x ** 2"),
    (replace(VALUES, outputs=[X.astype(np.int32)]), lambda x: x, "dtype:float32", ""),
    (VALUES, refusing, "raises:ValueError", ""),
    (replace(FAILS, error="no"), right, "works", "x * x"),
    (replace(LISTS, outputs=[]), lambda xs: xs, "works", "[*inputs]"),
    (replace(FAILS, inputs=[X]), lambda xs: xs[0], "works", "inputs[0]"),
    (replace(FAILS, inputs={}, args=[X]), right, "works", "args[0] ** 2"),
    (replace(SLOPES, grads={"x": DY}), right, "finite-differences", ""),
    (replace(SLOPES, grads={"x": DY}), right, "works", "dy * 2 * x"),
    (SLOPES, lambda x: pg.reshape(x, (7,)), "raises:ValueError", ""),
]
BROKEN = [
    (replace(VALUES, outputs=[X]), right, "works", "x ** 3"),
    (replace(VALUES, outputs=[X]), right, "works", "(x ** 2).astype(np.int32)"),
    (replace(VALUES, outputs=[X]), lambda x: [x, x], "works", "x"),
    (replace(VALUES, outputs=[X]), right, "works", "[x, x]"),
    (VALUES, lambda x: pg.astype(x, "int32"), "dtype:float64", ""),
    (VALUES, lambda x: pg.astype(x, "float64"), "dtype:float64", ""),
    (VALUES, refusing, "raises:TypeError", ""),
    (VALUES, lambda x: x, "raises:ValueError", ""),
    (FAILS, right, "raises:ValueError", ""),
    (SLOPES, square_with_wrong_gradient, "finite-differences", ""),
    (SLOPES, square_with_wrong_gradient, "works", "dy * 2 * x"),
]


@pytest.mark.parametrize(("case", "row", "how", "expect"), HOLDING)
def test_a_departure_that_holds_passes(
    case: Case, row: Row, how: str, expect: str, backend: str
) -> None:
    judge(case, row, make_departure(how, kind=case.handle.kind, expect=expect))


@pytest.mark.parametrize(("case", "row", "how", "expect"), BROKEN)
def test_a_departure_that_does_not_hold_fails(
    case: Case, row: Row, how: str, expect: str, backend: str
) -> None:
    with pytest.raises(AssertionError):
        judge(case, row, make_departure(how, kind=case.handle.kind, expect=expect))


@pytest.mark.parametrize(
    ("case", "row"), [(VALUES, right), (SLOPES, right), (FAILS, refusing)]
)
def test_a_stale_exception_fails(case: Case, row: Row) -> None:
    with pytest.raises(AssertionError, match="stale"):
        judge(case, row, make_departure("raises:ValueError", kind=case.handle.kind))


ABS = handles("kernels", "Abs")[0].id
VALID_ENTRY = {
    "kernel": "'Abs'",
    "kind": "'kernels'",
    "ids": f"['{ABS}']",
    "reason": "'suspect'",
    "why": "'it is so'",
    "instead": "'raises:TypeError'",
}


def entry(**changes: str | None) -> str:
    fields = {k: v for k, v in (VALID_ENTRY | changes).items() if v is not None}
    return "[[exception]]\n" + "".join(f"{k} = {v}\n" for k, v in fields.items())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (entry(reason="'because'"), "reason 'because' is none of"),
        (entry(kind="'values'"), "kind 'values' is none of"),
        (entry(why="''"), "why must be one line"),
        (entry(why=None), "missing 1 required positional argument: 'why'"),
        (entry(note="''"), "unexpected keyword argument 'note'"),
        (entry(ids="[]"), "there are no ids"),
        (entry(ids="['0123']"), "Abs has no case 0123 among the kernels"),
        (entry(kernel="'Acos'"), f"Acos has no case {ABS} among the kernels"),
        (entry(kernel="'Abz'"), f"Abz has no case {ABS}"),
        (entry(kind="'gradients'", instead="'dtype:int32'"), "cannot be checked"),
        (entry(instead="'finite-differences'"), "cannot be checked for kernels"),
        (entry(instead="'raises:KeyError'"), "cannot be checked"),
        (entry(instead="'dtype:float31'"), "cannot be checked"),
        (entry(instead="'check:nothing'"), "cannot be checked"),
        (entry(instead="'hope'"), "cannot be checked"),
        (entry(instead="'works'"), "needs expect"),
        (entry(expect="'x'"), "needs expect"),
        (entry() + entry(), f"kernels {ABS} is listed twice"),
    ],
)
def test_a_wrong_exception_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read(text)


def test_right_exceptions_are_read() -> None:
    assert read(entry())[0].ids == [ABS]
    assert read(entry(instead="'works'", expect="'abs(x)'"))[0].expect == "abs(x)"
    assert read("") == []


# --- the corpus ------------------------------------------------------------------


def test_the_corpus_is_complete() -> None:
    assert (len(names("kernels")), total("kernels")) == (171, 3674)
    assert (len(names("gradients")), total("gradients")) == (96, 2188)
    assert total("errors") == 460
