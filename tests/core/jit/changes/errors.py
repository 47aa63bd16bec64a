"""Errors as control flow: of kernels, of Python, caught and not."""

import contextlib

import numpy as np
import plugrad as pg

from .harness import gives, nothing, pattern, puts

KIND = "errors as control flow"


def matrix(scale):
    return pg.asarray(np.eye(3, dtype="f4") * scale)


def worse(phase, call):
    """Return a matrix that is positive definite in the first phase alone."""
    return matrix((1.0 + call) * (-1.0 if phase == 1 else 1.0))


def better(phase, call):
    """Return a matrix that is positive definite from the second phase on."""
    return matrix((1.0 + call) * (-1.0 if phase == 0 else 1.0))


def singular(phase, call):
    """Return a matrix that is singular in the second phase."""
    return matrix(0.0 if phase == 1 else 1.0 + call)


def index(phase, call):
    """Return an index that is out of range in the second phase."""
    return pg.asarray([call + (9 if phase == 1 else 0)])


def caught(m):
    try:
        return pg.linalg.cholesky(m)
    except ValueError:
        return m * 0.0


def unused(m):
    pg.linalg.cholesky(m)
    return m


def behind_another(m):
    pg.linalg.cholesky(m * 2.0)
    return m + 1.0


def jittered(m):
    for shift in (0.0, 3.0, 30.0):
        with contextlib.suppress(ValueError):
            return pg.linalg.cholesky(m + pg.eye(3) * shift)
    return m


def finally_counted(m):
    try:
        return pg.linalg.cholesky(m)
    finally:
        m = m + 1.0


def translated(m):
    try:
        return pg.linalg.cholesky(m)
    except ValueError as error:
        raise KeyError("translated") from error


def otherwise(m):
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


# name: (function, arguments)
KERNELS = {
    "caught, at first bad": (caught, better),
    "caught, at first good": (caught, worse),
    "not caught": (pg.linalg.cholesky, worse),
    "not caught, at first bad": (lambda m: pg.linalg.cholesky(m), better),
    "result unused": (unused, worse),
    "result unused, at first bad": (unused, better),
    "result unused behind a kernel": (behind_another, worse),
    "tried again with jitter": (jittered, worse),
    "suppressed": (jittered, better),
    "finally": (finally_counted, worse),
    "translated": (translated, worse),
    "else of try": (otherwise, better),
    "else of try, at first good": (otherwise, worse),
    "caught in a helper": (checked_by_helper, worse),
    "in a gradient": (in_a_gradient, worse),
    "inverse": (lambda m: pg.linalg.inv(m), singular),
    "inverse unused": (lambda m: (pg.linalg.inv(m), m * 2.0)[1], singular),
    "solve unused": (lambda m: (pg.linalg.solve(m, pg.ones(3)), m)[1], singular),
    "index caught": (gathered, index),
    "index": (lambda i: pg.take(pg.asarray(GATHERED), i), index),
    "index unused": (lambda i: (pg.take(pg.asarray(GATHERED), i), i * 2)[1], index),
}


def kernel(name, f, given):
    def make():
        return f, nothing, nothing

    make.__name__ = f"error of a kernel {name}"
    return pattern(KIND, given)(make)


for _name, (_f, _given) in KERNELS.items():
    kernel(_name, _f, _given)


@pattern(KIND)
def a_captured_matrix_becomes_bad():
    box = {"m": matrix(1.0)}
    return (
        lambda x: x + caught(box["m"])[0],
        puts(box, "m", matrix(-1.0)),
        puts(box, "m", matrix(2.0)),
    )


@pattern(KIND)
def a_captured_matrix_is_assigned_and_checked():
    m = matrix(1.0)

    def f(x):
        pg.linalg.cholesky(m)
        return x

    return f, puts(m, (0, 0), -1.0), puts(m, (0, 0), 2.0)


@pattern(KIND)
def a_captured_matrix_was_bad_and_is_assigned():
    m = matrix(-1.0)

    def f(x):
        try:
            pg.linalg.cholesky(m)
        except ValueError:
            return x
        return x * 2.0

    return f, puts(m, ..., matrix(1.0)), puts(m, (0, 0), -1.0)


@pattern(KIND)
def a_variable_becomes_bad():
    v = pg.Variable(matrix(1.0))
    return (
        lambda x: x + caught(v.value)[0],
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

    return f, puts(cfg, "rate", 3.0), cfg.clear


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

    return f, puts(box, "rate", 3.0), puts(box, "rate", [])


@pattern(KIND)
def a_shape_error_is_caught():
    box = {"w": pg.ones(4)}

    def f(x):
        try:
            return x * box["w"]
        except ValueError:
            return x

    return f, puts(box, "w", pg.ones(3) * 3.0), puts(box, "w", pg.ones(5))


@pattern(KIND)
def an_error_is_raised_after_a_change():
    cfg = {"limit": 5}

    def f(x):
        if cfg["limit"] < 3:
            raise ValueError(f"limit {cfg['limit']}")
        return x * 2.0

    return f, puts(cfg, "limit", 2), puts(cfg, "limit", 4)


@pattern(KIND)
def an_assertion_fails_after_a_change():
    cfg = {"valid": True}

    def f(x):
        assert cfg["valid"], "not valid"
        return x * 2.0

    return f, puts(cfg, "valid", False), puts(cfg, "valid", True)


@pattern(KIND)
def an_error_that_ends_after_a_change():
    cfg = {}
    return lambda x: x * cfg["rate"], puts(cfg, "rate", 3.0)


@pattern(KIND)
def a_suppressed_error_of_python():
    class Model:
        pass

    m = Model()

    def f(x):
        with contextlib.suppress(AttributeError):
            x = x * m.rate
        return x

    return f, gives(m, "rate", 3.0)


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

    return f, puts(errors, 0, ValueError()), errors.clear


@pattern(KIND)
def the_class_of_errors_that_are_caught():
    box = {"errors": (KeyError, ValueError)}

    def f(x):
        try:
            raise ValueError("no")
        except box["errors"]:
            return x * 2.0

    return f, puts(box, "errors", (KeyError,))
