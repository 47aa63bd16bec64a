"""Errors as control flow: raised by kernels or by Python, caught or not."""

import contextlib

import numpy as np
import plugrad as pg

from .harness import no_change, pattern, sets_attr, sets_item

KIND = "errors as control flow"


def matrix(scale):
    return pg.asarray(np.eye(3, dtype="f4") * scale)


def indefinite_in_second_phase(phase, call):
    """Return a matrix that is positive definite except in the second phase."""
    return matrix((1.0 + call) * (-1.0 if phase == 1 else 1.0))


def indefinite_in_first_phase(phase, call):
    """Return a matrix that is positive definite from the second phase on."""
    return matrix((1.0 + call) * (-1.0 if phase == 0 else 1.0))


def singular(phase, call):
    """Return a matrix that is singular in the second phase."""
    return matrix(0.0 if phase == 1 else 1.0 + call)


def index(phase, call):
    """Return an index that is out of range in the second phase."""
    return pg.asarray([call + (9 if phase == 1 else 0)])


def cholesky_or_zeros(m):
    try:
        return pg.linalg.cholesky(m)
    except ValueError:
        return m * 0.0


def cholesky_unused(m):
    pg.linalg.cholesky(m)
    return m


def cholesky_of_result_unused(m):
    pg.linalg.cholesky(m * 2.0)
    return m + 1.0


def jittered(m):
    for shift in (0.0, 3.0, 30.0):
        with contextlib.suppress(ValueError):
            return pg.linalg.cholesky(m + pg.eye(3) * shift)
    return m


def with_finally(m):
    try:
        return pg.linalg.cholesky(m)
    finally:
        m = m + 1.0


def translated(m):
    try:
        return pg.linalg.cholesky(m)
    except ValueError as error:
        raise KeyError("translated") from error


def with_else(m):
    try:
        pg.linalg.cholesky(m)
    except ValueError:
        return m
    else:
        return m * 2.0


def checked_by_helper(m):
    return m * 2.0 if is_definite(m) else m


def is_definite(m):
    try:
        pg.linalg.cholesky(m)
    except ValueError:
        return False
    return True


def in_a_gradient(m):
    try:
        return pg.grad(lambda m: pg.sum(pg.linalg.cholesky(m)))(m)
    except ValueError:
        return m


GATHERED = np.arange(3, dtype="f4")


def gathered(i):
    try:
        return pg.take(pg.asarray(GATHERED), i)
    except IndexError:
        return i * 2


# name: (function, function that makes its arguments)
KERNELS = {
    "caught, indefinite at first": (cholesky_or_zeros, indefinite_in_first_phase),
    "caught, definite at first": (cholesky_or_zeros, indefinite_in_second_phase),
    "not caught": (pg.linalg.cholesky, indefinite_in_second_phase),
    "not caught, indefinite at first": (
        lambda m: pg.linalg.cholesky(m),
        indefinite_in_first_phase,
    ),
    "result unused": (cholesky_unused, indefinite_in_second_phase),
    "result unused, indefinite at first": (cholesky_unused, indefinite_in_first_phase),
    "result unused behind a kernel": (
        cholesky_of_result_unused,
        indefinite_in_second_phase,
    ),
    "tried again with jitter": (jittered, indefinite_in_second_phase),
    "suppressed": (jittered, indefinite_in_first_phase),
    "finally": (with_finally, indefinite_in_second_phase),
    "translated": (translated, indefinite_in_second_phase),
    "else of try": (with_else, indefinite_in_first_phase),
    "else of try, definite at first": (with_else, indefinite_in_second_phase),
    "caught in a helper": (checked_by_helper, indefinite_in_second_phase),
    "in a gradient": (in_a_gradient, indefinite_in_second_phase),
    "inverse": (lambda m: pg.linalg.inv(m), singular),
    "inverse unused": (lambda m: (pg.linalg.inv(m), m * 2.0)[1], singular),
    "solve unused": (lambda m: (pg.linalg.solve(m, pg.ones(3)), m)[1], singular),
    "index caught": (gathered, index),
    "index": (lambda i: pg.take(pg.asarray(GATHERED), i), index),
    "index unused": (lambda i: (pg.take(pg.asarray(GATHERED), i), i * 2)[1], index),
}


def add_kernel_error(name, f, make_argument):
    def make():
        return f, no_change, no_change

    make.__name__ = f"error of a kernel {name}"
    return pattern(KIND, make_argument)(make)


for _name, (_f, _make_argument) in KERNELS.items():
    add_kernel_error(_name, _f, _make_argument)


@pattern(KIND)
def a_captured_matrix_becomes_indefinite():
    box = {"m": matrix(1.0)}
    return (
        lambda x: x + cholesky_or_zeros(box["m"])[0],
        sets_item(box, "m", matrix(-1.0)),
        sets_item(box, "m", matrix(2.0)),
    )


@pattern(KIND)
def a_captured_matrix_is_assigned_and_checked():
    m = matrix(1.0)

    def f(x):
        pg.linalg.cholesky(m)
        return x

    return f, sets_item(m, (0, 0), -1.0), sets_item(m, (0, 0), 2.0)


@pattern(KIND)
def an_indefinite_captured_matrix_is_assigned():
    m = matrix(-1.0)

    def f(x):
        try:
            pg.linalg.cholesky(m)
        except ValueError:
            return x
        return x * 2.0

    return f, sets_item(m, ..., matrix(1.0)), sets_item(m, (0, 0), -1.0)


@pattern(KIND)
def a_variable_becomes_indefinite():
    v = pg.Variable(matrix(1.0))
    return (
        lambda x: x + cholesky_or_zeros(v.value)[0],
        lambda: v.assign(matrix(-1.0)),
        lambda: v.assign(matrix(2.0)),
    )


@pattern(KIND)
def a_key_error_is_caught():
    cfg = {}

    def f(x):
        try:
            return x * cfg["rate"]
        except KeyError:
            return x

    return f, sets_item(cfg, "rate", 3.0), cfg.clear


@pattern(KIND)
def an_index_error_is_caught():
    rates = []

    def f(x):
        try:
            return x * rates[0]
        except IndexError:
            return x

    return f, lambda: rates.append(3.0), rates.clear


@pattern(KIND)
def a_type_error_is_caught():
    box = {"rate": None}

    def f(x):
        try:
            return x * float(box["rate"])
        except TypeError:
            return x

    return f, sets_item(box, "rate", 3.0), sets_item(box, "rate", [])


@pattern(KIND)
def a_shape_error_is_caught():
    box = {"w": pg.ones(4)}

    def f(x):
        try:
            return x * box["w"]
        except ValueError:
            return x

    return f, sets_item(box, "w", pg.ones(3) * 3.0), sets_item(box, "w", pg.ones(5))


@pattern(KIND)
def an_error_is_raised_after_a_change():
    cfg = {"limit": 5}

    def f(x):
        if cfg["limit"] < 3:
            raise ValueError(f"limit {cfg['limit']}")
        return x * 2.0

    return f, sets_item(cfg, "limit", 2), sets_item(cfg, "limit", 4)


@pattern(KIND)
def an_assertion_fails_after_a_change():
    cfg = {"valid": True}

    def f(x):
        assert cfg["valid"], "not valid"
        return x * 2.0

    return f, sets_item(cfg, "valid", False), sets_item(cfg, "valid", True)


@pattern(KIND)
def an_error_that_a_change_prevents():
    cfg = {}
    return lambda x: x * cfg["rate"], sets_item(cfg, "rate", 3.0)


@pattern(KIND)
def a_suppressed_python_error():
    class Model:
        pass

    m = Model()

    def f(x):
        with contextlib.suppress(AttributeError):
            x = x * m.rate
        return x

    return f, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def a_group_of_errors_is_caught():
    errors = [KeyError()]

    def f(x):
        try:
            if errors:
                raise ExceptionGroup("some", errors)
        except* KeyError:
            x = x * 2.0
        except* ValueError:
            x = x * 3.0
        return x

    return f, sets_item(errors, 0, ValueError()), errors.clear


@pattern(KIND)
def the_class_of_errors_that_are_caught():
    box = {"errors": (KeyError, ValueError)}

    def f(x):
        try:
            raise ValueError("no")
        except box["errors"]:
            return x * 2.0

    return f, sets_item(box, "errors", (KeyError,))
