"""User-defined kernels: their values, gradients and errors."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import plugrad as pg
import plugrad_opencl
import pytest
from plugrad._src.registry.registry import registry
from plugrad.plugin import Kernel, Spec, broadcasted, decomposition, gradients
from plugrad_conformance.check import check_gradients
from plugrad_opencl import elementwise_kernel, source_kernel

from tests.docs.blocks import blocks, promised
from tests.processes import output

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "opencl_kernel" / "kernels.py"
README = (ROOT / "plugins" / "opencl" / "README.md").read_text()
RNG = np.random.default_rng(0)
HEAT = """
__kernel void heat(__global const T *x, __global T *y, T rate, long x_size) {
  const long i = get_global_id(0);  // (a comment, with a comma)
  if (i >= x_size) return;
  const T left = x[max(i - 1, 0L)], right = x[min(i + 1, x_size - 1)];
  y[i] = x[i] + rate * (left - 2 * x[i] + right);
}
"""


@pytest.fixture(autouse=True)
def opencl(monkeypatch):
    """Undo what a test registers: other tests look at the whole registry."""
    prefixes = ("custom.", "example.")
    monkeypatch.setattr(registry, "contracts", registry.contracts)
    with pg.use_backend("opencl"):
        yield
    for name, backend in [
        key for key in registry.kernels if key[0].startswith(prefixes)
    ]:
        while registry.kernels[name, backend]:
            pg.unregister_kernel(name, backend)
    for name, backend, _ in [*registry.gradients._user]:
        if name.startswith(prefixes):
            pg.unregister_gradient(name, backend=backend)


# --- elementwise -----------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 9, 100_000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_expression_with_an_attribute(n, dtype):
    op = elementwise_kernel("custom.Cube(x; a)", "out = x * x * x + a")
    x = RNG.normal(size=n).astype(dtype)
    y = op(pg.asarray(x), a=0.1)
    assert y.dtype == dtype
    np.testing.assert_allclose(y.numpy(), x**3 + 0.1, rtol=1e-5, atol=1e-6)


def test_branches_loops_and_functions():
    op = elementwise_kernel(
        "custom.Branches(x)",
        """
        T total = 0;
        for (int k = 1; k <= 3; k++) total += exp(-x * k);
        if (x > 0)
            y = total;  // y == total
        else
            y = sin(x) + erf(x);
        """,
    )
    x = RNG.normal(size=1000).astype("float32")
    low = pg.sin(x) + pg.erf(x)
    high = pg.exp(-x) + pg.exp(-2 * x) + pg.exp(-3 * x)
    expected = pg.where(pg.asarray(x) > 0, high, low)
    np.testing.assert_allclose(op(x).numpy(), expected.numpy(), 2e-6, 1e-6)


def test_inputs_broadcast_and_so_do_gradients():
    op = elementwise_kernel(
        "custom.Mix(a, b)",
        "T d = a - b; out = d * d * (T)0.5",
        gradients={
            "a": lambda dy, a, b: dy * (a - b),
            "b": lambda dy, a, b: dy * (b - a),
        },
    )
    a = RNG.normal(size=(3, 5))
    b = RNG.normal(size=(5,))
    y = op(pg.asarray(a), pg.asarray(b))
    np.testing.assert_allclose(y.numpy(), (a - b) ** 2 / 2, rtol=1e-12)
    check_gradients(op, pg.asarray(a), pg.asarray(b))
    da, db = pg.grads(lambda a, b: pg.sum(op(a, b)))(pg.asarray(a), pg.asarray(b))
    np.testing.assert_allclose(da.numpy(), a - b)
    np.testing.assert_allclose(db.numpy(), (b - a).sum(0))


def test_dtypes_of_inputs():
    names = "int32 float32 float64"
    op = elementwise_kernel("custom.Plus(a, b)", "y = a + b", dtypes=names)
    integers = pg.asarray([1, 2])
    floats = pg.asarray([0.5, 1.5])
    for xs, dtype, found in [
        ((integers, 3), "int32", [4, 5]),
        ((integers, floats), "float32", [1.5, 3.5]),
        ((integers, 0.5), "float32", [1.5, 2.5]),
        ((0.25, floats), "float32", [0.75, 1.75]),
        ((np.array([1.0, 2.0]), floats), "float64", [1.5, 3.5]),
    ]:
        y = op(*xs)
        assert (y.dtype, y.tolist()) == (dtype, found)
    floating = elementwise_kernel("custom.Half(x)", "y = x / 2")
    assert floating(integers).tolist() == [0.5, 1.0]  # integers become float32


def test_bool_inputs_and_results():
    op = elementwise_kernel("custom.Mask(m, x)", "y = m ? x : -x")
    for dtype in ("float32", "float64"):
        y = op(pg.asarray([True, False]), pg.asarray([1, 2], dtype=dtype))
        assert (y.dtype, y.tolist()) == (dtype, [1, -2])
    op = elementwise_kernel("custom.Positive(x)", "y = x > 0", out_dtype="bool")
    y = op([1.0, -2.0])
    assert (y.dtype, y.tolist()) == (np.bool_, [True, False])
    with pg.debug():  # compares the result with the contract's ``out``
        op([1.0, -2.0])


def test_complex_numbers():
    op = elementwise_kernel(
        "custom.Turn(x; by)", "y = (T)(-x.y, x.x) * by", dtypes="complex64"
    )
    assert op(pg.asarray([1 + 2j]), by=2).tolist() == [-4 + 2j]


def test_other_backends_use_the_decomposition():
    op = elementwise_kernel(
        "custom.Twice(x)", "out = x + x", decomposition=lambda x: x * 2.0
    )
    with pg.use_backend("cpu"):
        assert op([1.0, 2.0]).tolist() == [2.0, 4.0]


# --- source kernels --------------------------------------------------------------


def test_a_source_kernel_and_its_gradient():
    heat = source_kernel(
        "custom.Heat(x; rate)",
        HEAT,
        gradients={"x": lambda dy, rate: heat(dy, rate=rate)},
    )
    assert heat([0.0, 0.0, 4.0, 0.0, 0.0], rate=0.25).tolist() == [0, 1, 2, 1, 0]
    assert heat(pg.ones(0), rate=1.0).shape == (0,)
    check_gradients(lambda x: heat(x, rate=0.3) ** 3, RNG.normal(size=100))


def test_a_source_kernel_with_outputs_of_different_dtypes():
    code = """
    long half_of(long n) { return n / 2; }
    __kernel void split(long x_shape1, __global x_t const *restrict x,
                        __global int *place, __global low_t *low, uchar up) {
      const long row = get_global_id(0);
      if (row < half_of(x_shape1)) { place[row] = row; low[row] = x[row] + up; }
    }
    """
    split = source_kernel(
        "custom.Split(x; up) -> low, place",
        code,
        out=lambda x, *, up: (
            Spec((x.shape[1] // 2,), x.dtype),
            Spec((x.shape[1] // 2,), np.dtype("int32")),
        ),
        items=lambda x, *, up: x.shape[1],
    )
    x = RNG.normal(size=(2, 200))
    low, place = split(pg.asarray(x), up=3)
    np.testing.assert_array_equal(low.numpy(), x[0, :100] + 3)
    np.testing.assert_array_equal(place.numpy(), np.arange(100))


def test_a_work_group_computes_a_sum():
    code = """
    __kernel void sums(__global const T *x, __global T *y, long x_size) {
      __local T part[32];
      const long i = get_global_id(0), k = get_local_id(0);
      part[k] = i < x_size ? x[i] : 0;
      for (int step = 16; step; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (k < step) part[k] += part[k + step];
      }
      if (k == 0) y[get_group_id(0)] = part[0];
    }
    """
    sums = source_kernel(
        "custom.Sums(x)",
        code,
        out=lambda x: Spec((-(-x.shape[0] // 32),), x.dtype),
        items=lambda x: x.shape[0],
        group=32,
    )
    x = np.arange(100, dtype=np.float32)
    expected = [x[i : i + 32].sum() for i in range(0, 100, 32)]
    assert sums(x).tolist() == expected


def test_a_source_kernel_without_inputs():
    code = "__kernel void ramp(__global float *y, int n, long y_size)"
    code += "{ if (get_global_id(0) < y_size) y[get_global_id(0)] = get_global_id(0); }"
    ramp = source_kernel(
        "custom.Ramp(; n)",
        code,
        out=lambda *, n: Spec((n,), np.dtype("float32")),
    )
    assert ramp(n=3).tolist() == [0, 1, 2]


# --- contracts and layers --------------------------------------------------------


def test_code_for_a_contract_of_a_library():
    contract = Kernel("custom.Product(a, b) -> c", out=broadcasted, broadcasts=True)
    gradients(contract, a=lambda dy, b: dy * b, b=lambda dy, a: dy * a)
    op = elementwise_kernel(contract, "c = a * b")
    assert op.kernel is contract
    decomposition(contract)(lambda a, b: a * b)
    again = elementwise_kernel("custom.Product(a, b)", "c = b * a")
    assert again.kernel is contract  # with the library's gradients and decomposition
    check_gradients(op, RNG.normal(size=3), RNG.normal(size=(2, 1)))


def test_code_for_a_kernel_of_plugrad():
    op = elementwise_kernel("Relu", "y = x > 0 ? x : 7")
    assert pg.relu(pg.asarray([-1.0, 2.0])).tolist() == [7, 2]
    op.unregister()
    assert pg.relu(pg.asarray([-1.0, 2.0])).tolist() == [0, 2]


def test_a_kernel_can_be_redefined():
    make = lambda by: elementwise_kernel(
        "custom.Scale(x)",
        f"y = x * {by}",
        gradients={"x": lambda dy: dy * by},
        decomposition=lambda x: x * by,
    )
    first = make(2)
    second = make(3)
    slope = lambda: pg.grad(lambda x: pg.sum(second(x)))(pg.ones(1)).tolist()
    assert (first([1.0]).tolist(), slope()) == ([3], [3])
    second.unregister()
    assert (first([1.0]).tolist(), slope()) == ([2], [2])
    first.unregister()
    assert first([1.0]).tolist() == [3]  # computed by the last decomposition
    op = elementwise_kernel("custom.Gone(x)", "y = x")
    op.unregister()
    with pytest.raises(pg.KernelNotFound, match=r"custom\.Gone"):
        op([1.0])


def test_every_device_gets_the_kernel():
    code = """
import plugrad as pg, plugrad_opencl
op = plugrad_opencl.elementwise_kernel("custom.Twice(x)", "y = 2 * x")
for name in op.backends:
    with pg.use_backend(name):
        print(name, op([1.0]).tolist(), op([1.0]).backend)
"""
    assert output(code, PLUGRAD_OPENCL_DEVICE="0,0") == (
        "opencl [2.0] opencl\nopencl-1 [2.0] opencl-1\n"
    )


# --- errors ----------------------------------------------------------------------


def test_errors_of_the_compiler_name_the_line():
    wrong = elementwise_kernel("custom.Wrong(x)", "T e = exp(x);\ny = e * bta;")
    with pytest.raises(
        pg.BackendError, match=r"(?s)custom\.Wrong:2:\d+: .*bta"
    ) as error:
        wrong([1.0])
    assert "clBuildProgram" not in str(error.value)
    wrong = source_kernel("custom.Lines(x; rate)", HEAT.replace("right);", "right;"))
    with pytest.raises(pg.BackendError, match=r"custom\.Lines:6:\d+: .*expected"):
        wrong([1.0], rate=1.0)


PARAMETERS = {
    "__global T *xs, __global T *y": "k: parameter 'xs' is none of x, y, rate",
    "__global T *x, __global T *y, long n": "parameter 'n' is none of",
    "__global T *x": "there is no parameter for y",
    "__global T *x, T y": "parameter 'y' must be a pointer",
    "__global T *x, __global T *y, T *rate": "parameter 'rate' must be a number",
    "__global T *x, __global T *y, real rate": "has the type 'real'; use one of",
    "__global T *x, __local T *y": "cannot read the parameter '__local T \\*y'",
    "__global T *x, __global T *y, unsigned int rate": "cannot read the parameter",
}


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_parameters_that_do_not_fit(parameters):
    with pytest.raises(ValueError, match=PARAMETERS[parameters]):
        source_kernel("custom.K(x; rate)", f"__kernel void k({parameters}) {{}}")
    assert "custom.K" not in registry.contracts


def test_definitions_that_do_not_fit():
    with pytest.raises(ValueError, match="'y == x' assigns nothing"):
        elementwise_kernel("custom.None(x)", "y == x")
    with pytest.raises(ValueError, match="needs a dotted name"):
        elementwise_kernel("Swish(x)", "y = x")
    with pytest.raises(TypeError, match=r"expected a signature or a Kernel, got \[3\]"):
        elementwise_kernel([3], "y = x")
    with pytest.raises(
        ValueError, match=r"no kernel 'custom\.Swish'; a new one needs a signature"
    ):
        elementwise_kernel("custom.Swish", "y = x")
    with pytest.raises(TypeError, match="unknown dtype 'float'"):
        elementwise_kernel("custom.Float(x)", "y = x", dtypes="float")
    with pytest.raises(ValueError, match="there is no input 'z'; the inputs are x"):
        elementwise_kernel("custom.Z(x)", "y = x", gradients={"z": lambda dy: dy})
    with pytest.raises(ValueError, match="decomposition of"):
        elementwise_kernel("custom.Z(x)", "y = x", decomposition=lambda z: z)
    with pytest.raises(ValueError, match="needs at least one input, and its code"):
        elementwise_kernel("Relu", "z = x")
    with pytest.raises(ValueError, match="variadic or optional"):
        elementwise_kernel("AddN", "y = x")
    with pytest.raises(ValueError, match="write one function"):
        source_kernel("custom.Blur(x)", "void blur(__global float *x) {}")
    with pytest.raises(ValueError, match="source_kernel: group 0 must be"):
        source_kernel("custom.Heat(x; rate)", HEAT, group=0)
    with pytest.raises(AttributeError, match="no attribute 'kernel'"):
        plugrad_opencl.kernel  # noqa: B018
    assert not [name for name in registry.contracts if name.startswith("custom.")]


def test_calls_that_do_not_fit():
    op = elementwise_kernel("custom.Sum(a, b; s)", "y = a + b * s")
    with pytest.raises(TypeError, match="got 1 inputs, expected"):
        op(pg.ones(3), s=1)
    with pytest.raises(ValueError, match="do not broadcast"):
        op(pg.ones(3), pg.ones(2), s=1)
    with pytest.raises(TypeError, match="lacks s and has no t"):
        op(pg.ones(3), 1.0, t=1)
    with pytest.raises(TypeError, match="s='a' is not a number of type float"):
        op(pg.ones(3), 1.0, s="a")
    with pytest.raises(TypeError, match="no code for complex64; dtypes= lists float32"):
        op(pg.ones(3, dtype="complex64"), 1, s=1)
    heat = source_kernel("custom.Heat(x; rate)", HEAT.replace("T rate", "int rate"))
    with pytest.raises(TypeError, match=r"rate=1\.5 is not a number of type int"):
        heat([1.0], rate=1.5)
    heat = source_kernel("custom.Heat(x; rate)", HEAT.replace("T *x", "float *x"))
    with pytest.raises(TypeError, match="x is int32, but the kernel takes float"):
        heat(pg.asarray([1]), rate=1)
    code = "__kernel void k(__global T *x, __global T *y, long x_shape1) {}"
    flat = source_kernel("custom.Flat(x)", code)
    with pytest.raises(ValueError, match=r"takes x_shape1, but x has shape \(3,\)"):
        flat([1.0, 2.0, 3.0])


# --- documented programs ---------------------------------------------------------


@pytest.mark.parametrize("program", [EXAMPLE.read_text(), blocks("python", README)[2]])
def test_a_documented_program_prints_what_it_promises(program):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert promised(program)
    assert done.stdout.splitlines() == promised(program)


def test_first_and_second_derivatives_of_the_example():
    ops = runpy.run_path(str(EXAMPLE))
    check_gradients(lambda x: ops["swish"](x, beta=0.7), RNG.normal(size=9))
    check_gradients(ops["distances"], RNG.normal(size=(3, 2)), RNG.normal(size=(4, 2)))
    with pytest.raises(ValueError, match="rows of the same length"):
        ops["distances"]([[1.0]], [[1.0, 2.0]])
