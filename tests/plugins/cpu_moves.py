"""Calls of plugrad-cpu's reductions, scans and moves, to compare them with NumPy.

Each row is the name of a kernel, its inputs, its attributes, and a function that
returns the expected result.
"""

import itertools

import numpy as np
import pytest
from plugrad.geometry import Resizing

KERNELS = pytest.importorskip("plugrad_cpu.kernels", reason="needs plugrad-cpu").KERNELS

RNG = np.random.default_rng(7)
FLOATS = ("float32", "float64")
INTS = ("int32", "int64", "uint32", "uint64")
OTHERS = ("int8", "uint16", "float16", "complex64", "complex128")


def draw(shape, dtype):
    """Return random numbers of a dtype, so small that products do not overflow."""
    if np.dtype(dtype).kind in "fc":
        x = RNG.normal(size=shape)
        return (x + 1j * RNG.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)
    return RNG.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def views(x):
    """Yield an array of two or more axes, and views with various layouts."""
    yield x
    yield x.T
    yield x[::-1, ::-2]
    yield np.broadcast_to(x[:1], x.shape)
    yield np.concatenate((x, x), -1)[..., 1 : 1 + x.shape[-1]]
    yield unaligned(x)


def unaligned(x):
    """Return a copy whose elements lie at odd addresses."""
    y = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    y[...] = x
    return y


# --- reductions --------------------------------------------------------------------

SHAPES = [  # shapes and axes; C kernels run from 2,048 elements on
    ((5,), (0,)),
    ((3, 4), (1,)),
    ((2050,), (0,)),
    ((70, 40), (0,)),
    ((70, 40), (1,)),
    ((70, 40), (0, 1)),
    ((700, 3), (0,)),
    ((700, 3), (1,)),
    ((4, 1100), (0,)),
    ((2, 1, 2100), (1, 2)),
    ((3, 50, 33), (1,)),
    ((3, 50, 33), (0, 2)),
    ((2, 400, 5, 3), (1, 2)),
    ((40_000, 7), (0,)),
    ((1, 70_001), (1,)),
]
FOLDS = {"Sum": np.add, "Prod": np.multiply, "Max": np.maximum, "Min": np.minimum}


def reduced(name, x, axis):
    """Return NumPy's reduction, in double precision."""
    kind = x.dtype.kind
    wide = {"f": np.float64, "c": np.complex128}.get(kind, x.dtype)
    if name == "Mean":
        return np.add.reduce(x, axis, wide) / np.prod([x.shape[i] for i in axis])
    if name in ("All", "Any"):
        return (np.all if name == "All" else np.any)(x, axis)
    return FOLDS[name].reduce(x, axis, wide if name in ("Sum", "Prod") else None)


def reductions():
    """Yield reductions of every dtype and view, with NaN and infinities."""
    names = ("Sum", "Mean", "Prod", "Max", "Min")
    for dtype, (shape, axis) in itertools.product((*FLOATS, *INTS, *OTHERS), SHAPES):
        x = draw(shape, dtype)
        if dtype == "float16" and x.size > 10_000:
            continue  # its sums overflow
        for name in names:
            kinds = {"Max": "fiu", "Min": "fiu", "Mean": "fc"}.get(name, "fiuc")
            if x.dtype.kind not in kinds:
                continue
            values = np.sign(x) + x / 1e4 if name == "Prod" and dtype[0] in "fc" else x
            values = values.astype(dtype)
            for view in views(values) if len(shape) > 1 and x.size < 5000 else [values]:
                axes = tuple(i for i in axis if i < view.ndim)
                attrs = {"axis": axes, "keepdims": False}
                yield (
                    name,
                    (view,),
                    attrs,
                    lambda v=view, n=name, a=axes: reduced(n, v, a),
                )
    for shape, axis in SHAPES:
        x = RNG.random(shape) < 0.01
        for name, values in itertools.product(("All", "Any"), (x, ~x, x.astype("f4"))):
            attrs = {"axis": axis, "keepdims": True}
            truth = lambda n=name, v=values, a=axis: np.expand_dims(reduced(n, v, a), a)
            yield name, (values,), attrs, truth
    for value, dtype in itertools.product((np.nan, np.inf, -np.inf), FLOATS):
        x = np.ones((50, 60), dtype)
        x[7, 9] = x[49, 59] = value
        for name, axis in itertools.product((*names, "All"), ((0,), (1,), (0, 1))):
            attrs = {"axis": axis, "keepdims": False}
            yield name, (x,), attrs, lambda n=name, v=x, a=axis: reduced(n, v, a)


def arg_reduced(name, x, axis):
    """Return the index of the first extreme element, ignoring NaN."""
    ignored = -np.inf if name == "ArgMax" else np.inf
    if x.dtype.kind == "f":
        x = np.where(np.isnan(x), x.dtype.type(ignored), x)
    return (x.argmax if name == "ArgMax" else x.argmin)(axis).astype(np.int32)


def arg_reductions():
    """Yield ArgMax and ArgMin, with ties, NaN, and rows that start with NaN."""
    for dtype, (shape, _) in itertools.product((*FLOATS, "int32", "int64"), SHAPES):
        x = np.round(draw(shape, dtype) * 2)
        arrays = [x]
        if dtype in FLOATS:
            with_nan = np.where(RNG.random(shape) < 0.3, np.nan, x).astype(dtype)
            with_nan[:1] = np.nan
            arrays.append(with_nan)
        for array, axis in itertools.product(arrays, range(x.ndim)):
            for name in ("ArgMax", "ArgMin"):
                truth = lambda n=name, v=array, a=axis: arg_reduced(n, v, a)
                yield name, (array,), {"axis": axis}, truth


# --- scans -------------------------------------------------------------------------


def scan(name, x, axis, exclusive, reverse):
    """Return NumPy's cumulative sum or product, in double precision."""
    wide = {"f": np.float64, "c": np.complex128}.get(x.dtype.kind, x.dtype)
    x = np.moveaxis(x, axis, 0)[:: -1 if reverse else 1].astype(wide)
    if exclusive and len(x):
        first = np.full_like(x[:1], name == "Cumprod")
        x = np.concatenate((first, x[:-1]))
    y = (np.cumsum if name == "Cumsum" else np.cumprod)(x, 0, wide)
    return np.moveaxis(y[:: -1 if reverse else 1], 0, axis)


def scans():
    """Yield scans; C kernels process eight rows at a time."""
    shapes = [(5,), (0,), (3, 0), (17, 33), (9, 130), (2, 70, 5), (64, 66)]
    flags = [*itertools.product((False, True), repeat=2)]
    for dtype, shape in itertools.product(
        (*FLOATS, *INTS, "int8", "complex64"), shapes
    ):
        x = draw(shape, dtype)
        for name, axis, (e, r) in itertools.product(
            ("Cumsum", "Cumprod"), range(len(shape)), flags
        ):
            values = (np.sign(x) + x / 1e3).astype(dtype) if dtype in FLOATS else x
            if name == "Cumprod" and dtype == "complex64":
                values = values / np.abs(values)
            for view in views(values) if values.ndim == 2 and axis == 1 else [values]:
                attrs = {"axis": axis, "exclusive": e, "reverse": r}
                truth = lambda n=name, v=view, h=attrs: scan(n, v, **h)
                yield name, (view,), attrs, truth


# --- moves -------------------------------------------------------------------------

SIZES = ("bool", "float16", "float32", "float64", "complex128")
WIDTHS = [(1, 1), (2, 3), (4, 4, 4), (8, 1, 16), (30, 2), (64, 64), (300, 5), (1200, 9)]


def moves():
    """Yield concatenation, padding, tiling, and copies of views."""
    for dtype, widths in itertools.product(SIZES, WIDTHS):
        rows = 300_000 // sum(widths)
        xs = [draw((rows, n), dtype) for n in widths]
        yield "Concat", xs, {"axis": 1}, lambda xs=xs: np.concatenate(xs, 1)
        xs = [*xs[:-1], xs[-1][::-1]]
        yield "Concat", xs, {"axis": 1}, lambda xs=xs: np.concatenate(xs, 1)
        xs = [x[: rows // 2].T for x in xs]
        yield "Concat", xs, {"axis": 0}, lambda xs=xs: np.concatenate(xs, 0)
    for shape in [(300, 300), (3, 4), (0, 4)]:
        xs = [draw(shape, "float32") for _ in range(3)]
        for axis in range(3):
            yield "Pack", xs, {"axis": axis}, lambda xs=xs, a=axis: np.stack(xs, a)
    for dtype, shape in itertools.product(
        SIZES, [(90, 7, 301), (33, 4, 34), (2, 3, 4), (5, 0, 2)]
    ):
        x = draw(shape, dtype)
        for ends in [((1, 2), (0, 0), (3, 0)), ((0, 0), (1, 1), (0, 0))]:
            for value in (0, 1):
                attrs = {"paddings": ends, "constant_values": value}
                truth = lambda v=x, e=ends, c=value: np.pad(v, e, constant_values=c)
                yield "PadV2", (x,), attrs, truth
            if all(shape):
                truth = lambda v=x, e=ends: np.pad(v, e, "symmetric")
                yield "MirrorPad", (x,), {"paddings": ends, "mode": "symmetric"}, truth
        for times in [(1, 2, 3), (2, 1, 1), (1, 1, 1), (0, 1, 1)]:
            attrs = {"repetitions": times}
            yield "Tile", (x,), attrs, lambda v=x, t=times: np.tile(v, t)
        for axes in itertools.permutations(range(3)):
            for view in views(x.transpose(axes)):
                yield "Identity", (view,), {}, lambda v=view: np.array(v, order="C")
                flat = {"shape": (view.size,)}
                yield "Reshape", (view,), flat, lambda v=view: v.flatten()


# --- indices -----------------------------------------------------------------------


def segments(x, ids, count):
    """Return the sums of rows with equal ids."""
    wide = {"f": np.float64, "c": np.complex128}.get(x.dtype.kind, x.dtype)
    y = np.zeros((count, *x.shape[1:]), wide)
    inside = (ids >= 0) & (ids < count)
    np.add.at(y, ids[inside], x[inside])
    return y


def indexed():
    """Yield kernels that read, add or write at indices."""
    for dtype, kind in itertools.product(SIZES, ("int32", "int64", "uint8")):
        x = draw((40, 50, 33), dtype)
        for axis, view in itertools.product(range(3), [*views(x)]):
            indices = RNG.integers(0, view.shape[axis], (7, 9)).astype(kind)
            attrs = {"axis": axis, "batch_dims": 0}
            yield (
                "GatherV2",
                (view, indices),
                attrs,
                lambda v=view, i=indices, a=axis: v.take(i, a),
            )
        indices = RNG.integers(0, 50, (40, 30)).astype(kind)
        truth = lambda v=x, i=indices: np.take_along_axis(
            v, i.astype(int)[..., None], 1
        )
        yield "GatherV2", (x, indices), {"axis": 1, "batch_dims": 1}, truth
    for dtype, row_shape in itertools.product(
        (*FLOATS, *INTS, *OTHERS), [(), (1,), (3,), (5, 20), (130,), (0,)]
    ):
        for rows, count in [(300, 7), (300, 500), (0, 3), (5, 1)]:
            x = draw((rows, *row_shape), dtype)
            ids = RNG.integers(-2, count + 2, rows).astype("int32")
            truth = lambda v=x, i=ids, n=count: segments(v, i, n)
            yield "UnsortedSegmentSum", (x, ids), {"num_segments": count}, truth
    for dtype, axis in itertools.product(SIZES, range(3)):
        indices = RNG.integers(-1, 6, (7, 11)).astype("int32")
        attrs = {"depth": 5, "axis": axis, "dtype": np.dtype(dtype)}
        attrs |= {"on_value": 3, "off_value": 0}
        hot = np.where(indices[..., None] == np.arange(5), np.array(3), 0).astype(dtype)
        yield "OneHot", (indices,), attrs, lambda y=hot, a=axis: np.moveaxis(y, -1, a)


# --- casts, images, normalization --------------------------------------------------

CASTS = ("bool", "int8", "uint8", "int32", "int64", "float32", "float64")


def casts():
    """Yield casts; large numbers wrap, NaN and infinities give 0."""
    for old, new in itertools.product(CASTS, CASTS):
        x = (RNG.normal(size=9001) * 200).astype(old)
        for view in (x, x[::-2], unaligned(x)):
            yield (
                "Cast",
                (view,),
                {"dtype": np.dtype(new)},
                lambda v=view, n=new: cast(v, n),
            )
        if old in FLOATS:
            odd = np.array([np.nan, np.inf, -np.inf, 2**31, -(2**31), 2**33 + 2**10])
            x = x.copy()
            x[300 : 300 + odd.size] = odd
            yield "Cast", (x,), {"dtype": np.dtype(new)}, lambda v=x, n=new: cast(v, n)


def cast(x, dtype):
    """Return a cast through Python integers."""
    if x.dtype.kind != "f" or np.dtype(dtype).kind in "fb":
        return x.astype(dtype)
    integers = [int(v) if np.isfinite(v) else 0 for v in x.tolist()]
    return np.array([v % 2**64 for v in integers], np.uint64).astype(dtype)


def resized(x, geometry, linear, gradient):
    """Resize a batch: multiply each axis by a matrix."""
    matrices = []
    sizes = zip(geometry.in_shape[1:3], geometry.out_shape[1:3], strict=True)
    for axis, (n, m) in enumerate(sizes):
        a = np.zeros((m, n))
        if linear:
            low, high, share = geometry.linear[axis]
            np.add.at(a, (np.arange(m), low), 1 - share)
            np.add.at(a, (np.arange(m), high), share)
        else:
            a[np.arange(m), geometry.nearest[axis]] = 1
        matrices.append(a.T if gradient else a)
    return np.einsum("yi,xj,nijc->nyxc", *matrices, x.astype(float))


def images():
    """Yield resizing, its gradients, and normalization with given moments."""
    shapes = [((9, 8), (18, 16)), ((9, 8), (4, 5)), ((6, 7), (6, 19)), ((1, 1), (3, 2))]
    for dtype, (old, new), c in itertools.product(FLOATS, shapes, (1, 3, 70)):
        for corners in (False, True):
            g = Resizing((2, *old, c), (2, *new, c), corners, not corners)
            for linear, name in ((True, "Bilinear"), (False, "NearestNeighbor")):
                x = draw(g.in_shape, dtype)
                dy = draw(g.out_shape, dtype)
                for gradient, inputs in ((False, (x,)), (True, (x, dy))):
                    truth = lambda v=inputs[-1], g=g, options=(linear, gradient): (
                        resized(v, g, *options)
                    )
                    kernel = f"Resize{name}" + "Grad" * gradient
                    yield kernel, inputs, {"geometry": g}, truth
    for dtype, c in itertools.product(FLOATS, (1, 3, 16, 70)):
        x = draw((3, 5, c), dtype)
        a, b, s, o = (draw(c, dtype) for _ in range(4))
        for scale, offset in itertools.product((None, s), (None, o)):
            b = np.abs(b)
            args = (x, a, b, scale, offset)
            truth = lambda x=x, a=a, b=b, s=scale, o=offset: (
                (x - a) / np.sqrt(b + 0.01) * (1 if s is None else s)
                + (0 if o is None else o)
            )
            yield "FusedBatchNorm", args, {"epsilon": 0.01}, truth


FAMILIES = (reductions, arg_reductions, scans, moves, indexed, casts, images)
EXACT = {"Max", "Min", "All", "Any", "ArgMax", "ArgMin", "Cast", "OneHot", "GatherV2"}
EXACT |= {"Concat", "Pack", "PadV2", "MirrorPad", "Tile", "Identity"}


def check(family):
    """Check the rows of a family; return the names of their kernels."""
    found = set()
    for name, inputs, attrs, truth in family():
        before = [None if x is None else x.copy() for x in inputs]
        with np.errstate(all="ignore"):
            y = KERNELS[name](*inputs, **attrs)
            expected = truth()
            expected = np.asarray(expected)
        row = f"{name} of {[x.shape for x in inputs if x is not None]} {attrs}"
        assert y.shape == expected.shape, row
        if y.dtype.kind not in "fc" or name in EXACT:
            same = np.asarray(y), expected.astype(y.dtype)
            np.testing.assert_array_equal(*same, row, strict=True)
        else:
            bound = {2: 2e-3, 4: 3e-6, 8: 1e-13}[y.real.dtype.itemsize]
            finite = np.abs(expected[np.isfinite(expected)])
            scale = max(1, finite.max(initial=0))
            np.testing.assert_allclose(y, expected, bound, bound * scale, err_msg=row)
        for x, copy in zip(inputs, before, strict=True):
            if x is not None:
                np.testing.assert_array_equal(x, copy, f"{row} has changed an input")
        found.add(name)
    return found
