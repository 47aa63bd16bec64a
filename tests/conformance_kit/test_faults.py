"""A backend with a fault fails, in exactly the tests for this fault."""

import pytest

from .faults import Fault, assert_found

PRIMITIVES = "backend.test_primitives"
OWN_GRADIENTS = {
    "is right only at first order": (
        '"Exp": {"x": lambda dy, y: dy * pg.stop_gradient(y)}'
    ),
    "loses NaN": '"Relu": {"x": lambda dy, y: pg.where(y > 0, dy, 0.0)}',
    "is right only for the last axis": (
        '"LogSoftmax": {"logits": lambda dy, y: '
        "dy - pg.exp(y) * pg.sum(dy, axis=-1, keepdims=True)}"
    ),
}
WRONG_BITS = {  # fast math: the kernel, and the function that a compiler turns it into
    "x - x as 0": ("Sub", "lambda a, b: np.zeros_like(a) if a is b else a - b"),
    "x / x as 1": ("RealDiv", "lambda a, b: np.ones_like(a) if a is b else a / b"),
    "x * 0 as 0": (
        "Multiply",
        "lambda a, b: np.where((a == 0) | (b == 0), a.dtype.type(0), a * b)",
    ),
    "products without -0.0": ("Multiply", "lambda a, b: a * b + a.dtype.type(0)"),
    "x + 0 as x": ("Add", "lambda a, b: np.where(b == 0, a, a + b)"),
    "0 - x as -x": ("Sub", "lambda a, b: np.where(a == 0, -b, a - b)"),
    "sums of fewer bits": (
        "Add",
        "lambda a, b: (a + b) * (1 + np.finfo(a.dtype).eps) if a.dtype.kind == 'f' "
        "else a + b",
    ),
    "quotients by reciprocals": ("RealDiv", "lambda a, b: a * (1 / b)"),
}
WRONG_IN_RANGE = {  # the test that must fail: the kernel, and a wrong function for it
    "trunc_is_exact": ("Trunc", "np.floor"),
    "copysign_is_exact": (
        "CopySign",
        "lambda a, b: np.abs(a) * np.where(b < 0, -1, 1)",
    ),
    "hypot_is_within_3_ulp": ("Hypot", "lambda a, b: np.sqrt(a * a + b * b)"),
    "exp2_of_whole_numbers_is_exact": (
        "Exp2",
        "lambda x: np.exp2(x) * (1 + np.finfo(x.dtype).eps)",
    ),
    "exp2_is_within_3_ulp": (
        "Exp2",
        "lambda x: np.where(x == np.rint(x), np.exp2(x), "
        "np.exp(x * x.dtype.type(0.693147)))",
    ),
}
FAULTS = [
    Fault(
        "a function that is a little wrong",
        'kernels["Exp"] = lambda x: np.exp(x) * x.dtype.type(1.00001)',
        (PRIMITIVES, "-k", "Exp or Log or Sin"),
        r"backend/test_primitives.py::.*\[faulty-Exp(-.*)?\]",
        "off by more than 3 units in the last place",
    ),
    Fault(
        "another dtype than the contract's",
        'kernels["Sum"] = lambda x, axis, keepdims: x.sum(axis, keepdims=keepdims, '
        'dtype="float64")',
        (PRIMITIVES, "-k", "(Sum or Max) and float32"),
        r"backend/test_primitives.py::test_dtypes_and_shapes\[faulty-Sum-float32\]",
        "float64",
    ),
    Fault(
        "writing into an input",
        'kernels["Sqrt"] = lambda x: np.sqrt(x, out=x if x.size else None)',
        (PRIMITIVES, "-k", "(Sqrt or Exp) and (shapes or layouts)"),
        r"backend/test_primitives.py::.*\[faulty-Sqrt-.*\]",
        "Sqrt wrote into an input",
    ),
    Fault(
        "ignoring strides",
        """
        def exp(x):
            flat = np.asarray(x).ravel(order="K")
            return np.exp(flat).reshape(x.shape)
        kernels["Exp"] = exp
        """,
        (PRIMITIVES, "-k", "(Exp- or Log-) and (float32 or transposed)"),
        r"backend/test_primitives.py::test_layouts\[faulty-Exp-transposed\]",
        "off by more than",
    ),
    Fault(
        "NaN that gets lost",
        'kernels["Max"] = lambda x, axis, keepdims: '
        "np.fmax.reduce(x, axis, keepdims=keepdims)",
        (PRIMITIVES, "-k", "nan or axes or Max-int32"),
        r"backend/test_primitives.py::test_nan_wins_every_maximum\[faulty\]",
        "Arrays are not equal",
    ),
    Fault(
        "warnings of NumPy",
        'options["wrap"] = lambda function: function',
        (PRIMITIVES, "-k", "special and (Pow- or Less- or Pow] or Less])"),
        r"backend/test_primitives.py::test_special_values\[faulty-Pow\]",
        "RuntimeWarning",
    ),
    Fault(
        "values that change on the way in",
        """
        Arrays.upload = lambda self, values: np.nan_to_num(values, posinf=np.inf)
        """,
        ("backend.test_arrays", "-k", "come_back and (float32 or int32)"),
        r"backend/test_arrays.py::test_values_come_back\[faulty-float32\]",
        "tobytes",
    ),
    Fault(
        "an index that is clamped",
        """
        take = kernels["GatherV2"]
        def clamped(x, indices, axis, batch_dims):
            last = max(x.shape[axis] - 1, 0)
            return take(x, np.clip(indices, 0, last), axis=axis, batch_dims=batch_dims)
        kernels["GatherV2"] = clamped
        """,
        (PRIMITIVES, "-k", "an_index"),
        r"backend/test_primitives.py::test_an_index_out_of_range_is_an_error\[.*\]",
        "index 3 of 3 gives",
    ),
    Fault(
        "an index that counts from the end",
        """
        take = kernels["GatherV2"]
        def wrapped(x, indices, axis, batch_dims):
            size = x.shape[axis]
            near = (indices >= -size) & (indices < 0)
            at = np.where(near, indices + size, indices)
            return take(x, at, axis=axis, batch_dims=batch_dims)
        kernels["GatherV2"] = wrapped
        """,
        (PRIMITIVES, "-k", "an_index"),
        r"backend/test_primitives.py::test_an_index_out_of_range_is_an_error\[.*\]",
        "index -1 of 3 gives",
    ),
    Fault(
        "an index that is cut to 32 bits",
        """
        take = kernels["GatherV2"]
        def cut(x, indices, **attrs):
            return take(x, indices.astype(np.int32), **attrs)
        kernels["GatherV2"] = cut
        options["dtypes"] += ("int64",)
        """,
        (PRIMITIVES, "-k", "an_index"),
        r"backend/test_primitives.py::test_an_index_out_of_range_is_an_error"
        r"\[faulty-\d-int64\]",
        "index 4294967296 of 3 gives",
    ),
    Fault(
        "a segment that is clamped",
        """
        sums = kernels["UnsortedSegmentSum"]
        def clamped(x, segment_ids, num_segments):
            ids = np.clip(segment_ids, -1, num_segments - 1)
            return sums(x, ids, num_segments=num_segments)
        kernels["UnsortedSegmentSum"] = clamped
        """,
        (PRIMITIVES, "-k", "egment"),
        r"backend/test_primitives.py::test_segments_out_of_range_are_left_out\[.*\]",
        "Mismatched elements",
    ),
    *[
        Fault(
            f"a kernel that computes {name}",
            f'kernels["{kernel}"] = {function}',
            (PRIMITIVES, "-k", f"bits and ({kernel} or Floor)"),
            rf"backend/test_primitives.py::test_bits_of_arithmetic\[faulty-{kernel}\]",
            f"{kernel} of x",
        )
        for name, (kernel, function) in WRONG_BITS.items()
    ],
    *[
        Fault(
            f"a kernel that is wrong where {test}",
            f'kernels["{kernel}"] = lambda *xs: ({function})(*xs).astype(xs[0].dtype)',
            ("ops.test_whole_range", "-k", f"{test} or slopes_of_copysign"),
            rf"ops/test_whole_range.py::test_{test}\[faulty-float(32|64)\]",
            "Error",
        )
        for test, (kernel, function) in WRONG_IN_RANGE.items()
    ],
    Fault(
        "a sine without signed zeros",
        'kernels["Sin"] = lambda x: np.sin(x) + x.dtype.type(0)',
        (PRIMITIVES, "-k", "signs"),
        r"backend/test_primitives.py::test_signs_of_zeros\[faulty-Sin\]",
        "Sin: [0.] instead of [-0.]",
    ),
    Fault(
        "a leak",
        """
        held = []
        exp = kernels["Exp"]
        def leaking(x):
            held.append(exp(x))
            return held[-1]
        kernels["Exp"] = leaking
        """,
        ("backend.test_leaks", "-k", "freed or grow"),
        r"backend/test_leaks.py::test_(results_are_freed\[faulty-Exp\]"
        r"|the_process_does_not_grow\[faulty\])",
        "Exp: native arrays outlive their tensors",
    ),
    Fault(
        "a kernel that has nowhere to run",
        'options["host_kernels"].remove("Unique")',
        ("backend.test_kernels", "-k", "way"),
        r"backend/test_kernels.py::test_there_is_a_way.*\[faulty-Unique\]",
        "name it in host_kernels=",
    ),
    Fault(
        "a primitive that is silently left to the host",
        """
        del kernels["Tanh"]
        options["host_kernels"] = None
        """,
        ("backend.test_kernels", "-k", "way"),
        r"backend/test_kernels.py::test_there_is_a_way.*\[faulty-Tanh\]",
        "name it in host_kernels=",
    ),
    Fault(
        "a host on which its distribution does not depend",
        'options["host"] = options["host"]',
        ("backend.test_life", "-k", "depends or host"),
        r"backend/test_life.py::test_its_distribution_depends_on_the_host\[faulty\]",
        "plugrad-cpu",
    ),
    Fault(
        "an import that is heavy",
        "",
        ("backend.test_imports",),
        r"backend/test_imports.py::test_the_entry_point_imports_nothing_heavy\[faulty\]",
        "import these in open(): ",
        at_import="import hypothesis",
    ),
    Fault(
        "a child of a fork that dies",
        "import os; os.register_at_fork(after_in_child=lambda: os._exit(3))",
        ("backend.test_processes", "-k", "fork"),
        r"backend/test_processes.py::test_a_fork_works_or_says_why_not\[faulty\]",
        "the child ended with status",
    ),
    Fault(
        "threads that share a buffer",
        """
        import time
        scratch = {}
        def tanh(x):
            y = scratch.setdefault(x.shape, np.empty_like(x))
            np.tanh(x, out=y)
            time.sleep(1e-4)
            return y.copy()
        kernels["Tanh"] = tanh
        """,
        ("backend.test_processes", "-k", "disturb"),
        r"backend/test_processes.py::test_threads_do_not_disturb_each_other\[faulty\]",
        "Mismatched elements",
    ),
    Fault(
        "a dtype that it does not declare, made by a gradient",
        """
        wide = lambda dy, y: pg.astype(pg.astype(dy, "float64") * y, "float32")
        options["gradients"] = {"Exp": {"x": wide}}
        options["dtypes"] = ("bool", "int32", "float32")
        """,
        ("golden.test_golden", "-k", "gradient and (Exp- or Log-)"),
        r"golden/test_golden.py::test_gradient\[faulty-Exp-.*\]",
        "backend 'faulty' has no float64",
    ),
    Fault(
        "a backend gradient that is wrong",
        'options["gradients"] = {"Exp": {"x": lambda dy: dy}}',
        ("golden.test_golden", "-k", "gradient and (Exp- or Log-)"),
        r"golden/test_golden.py::test_gradient\[faulty-Exp-.*\]",
        "the gradient of x differs",
    ),
    Fault(
        "a compiler that cancels",
        """
        def compile_region(graph):
            step, *others = graph.steps
            if others or step.inputs != (graph.inputs[0],) * 2:
                return None
            return lambda x: np.zeros_like(x)
        options["fusable"] = ["Sub"]
        options["compile"] = compile_region
        """,
        ("ops.test_jit_bits",),
        r"ops/test_jit_bits.py::test_no_algebra\[faulty-x - x\]",
        "the replay gives",
    ),
    *[
        Fault(
            f"a backend gradient that {what}",
            f'options["gradients"] = {{{gradient}}}',
            ("backend.test_own_gradients",),
            r"backend/test_own_gradients.py::test_own_gradients_equal_those_of_the_core"
            r"\[faulty-.*\]",
            "the backend's own gradient differs from the core's",
        )
        for what, gradient in OWN_GRADIENTS.items()
    ],
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_found(kit, fault):
    assert_found(kit, fault)


INEXACT = """
options["dtypes"] = ("bool", "int32", "float32")

def perturb(name, steps):
    function = kernels[name]

    def inexact(*xs, **attrs):
        if xs[0].dtype != np.float32:
            return function(*xs, **attrs)
        y = np.float32(function(*[x.astype(np.float64) for x in xs], **attrs))
        z = y
        for _ in range(2):
            z = np.nextafter(z, np.float32(np.inf) * np.sign(z) if steps > 0 else 0 * z)
        exact = ~np.isfinite(y) | ~np.isfinite(z) | (y == np.round(y)) & (abs(y) < 2)
        return np.where(exact, y, z)

    kernels[name] = inexact

for i, name in enumerate("Sin Cos Exp Expm1 Log Log1p Tanh Atan2 Pow".split()):
    perturb(name, SIGN if i % 2 else -SIGN)
"""


@pytest.mark.parametrize("sign", ["1", "-1"])
def test_primitives_with_the_largest_allowed_errors_pass(kit, sign):
    """Ops composed of these kernels have larger errors, which their contracts allow."""
    kit.install(INEXACT.replace("SIGN", sign))
    families = ["trigonometry", "unary", "activation", "binary"]
    done = kit.run(PRIMITIVES, *[f"ops.test_{family}" for family in families])
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_backend_without_fault_passes_where_these_fail(kit):
    kit.install()
    modules = {fault.where[0] for fault in FAULTS}
    done = kit.run(*sorted(modules), "-k", "not golden or Exp-")
    assert done.returncode == 0, done.stdout + done.stderr
