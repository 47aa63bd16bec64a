"""OpenCL C from templates, and the arguments that are read from it."""

from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest
from plugrad_opencl import launching, programs, source

CODE = """
typedef float S;
typedef S T;
#if CPU
__kernel GROUPED void f(__global const S *restrict x, volatile __global int *y,
                        long n, S alpha) { g(x); }
#else
__kernel GROUPED void f(__global const S *restrict x, volatile __global int *y,
                        long n, S alpha) {}
#endif
__kernel void other(uint n, __global uchar *x) {}
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [("f", [None, None, np.int64, np.float32]), ("other", [np.uint32, None])],
)
def test_arguments_are_those_of_the_function(name, expected):
    assert source.arguments(CODE, name) == expected


@pytest.mark.parametrize("style", ["cpu", "gpu"])
def test_a_kernel_from_a_file(style):
    found = []
    device = SimpleNamespace(style=style, kernel=lambda *a, **k: found.append((a, k)))
    source.kernel(device, "pad", width=4, ITEMS=True, type="uint")
    (((code, name, arguments), options),) = found
    assert code.startswith("#define ITEMS 1\n#define CPU " + str(int(style == "cpu")))
    assert "typedef uint S;" in code
    assert name == "pad"
    assert arguments == [None] * 3 + [np.int32] + [np.int64] * 4 + [np.uint32]
    assert options == {"group": source.GROUP_ITEMS[style]}


def test_rows_per_work_item():
    cpu = SimpleNamespace(style="cpu")
    gpu = SimpleNamespace(style="gpu")
    block = source.BLOCK_ELEMENTS
    assert [source.share(cpu, n) for n in (1, 3, block, 2 * block)] == [
        block,
        block // 4,
        1,
        1,
    ]
    assert source.share(gpu, 1) == 1


@pytest.mark.parametrize(
    ("kind", "supported", "exact"),
    [("gpu", True, True), ("gpu", False, False), ("cpu", True, False)],
)
def test_gpus_divide_exactly_if_supported(kind, supported, exact):
    """Compilers for CPUs always divide exactly, without an option."""
    rounds = cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    handle = SimpleNamespace(single_fp_config=rounds if supported else 0)
    options = programs._options(kind, handle)
    assert ("-cl-fp32-correctly-rounded-divide-sqrt" in options) == exact


def test_the_source_sets_how_many_elements_a_work_item_computes():
    """Work groups are full, and together contain all elements."""
    one, four = (launching._grouped(256, s) for s in ("", "a\n#define PER_ITEM 4\nb"))
    assert [one(n) for n in (1, 256, 257)] == [256, 256, 512]
    assert [four(n) for n in (1, 1024, 1025)] == [256, 256, 512]
