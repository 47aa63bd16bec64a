"""OpenCL C from templates, and what is read from it."""

from types import SimpleNamespace

import numpy as np
import pytest
from plugrad_opencl import source

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
__kernel void more(uint n, __global uchar *x) {}
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [("f", [None, None, np.int64, np.float32]), ("more", [np.uint32, None])],
)
def test_arguments_are_those_of_the_function(name, expected):
    assert source.arguments(CODE, name) == expected


@pytest.mark.parametrize("style", ["cpu", "gpu"])
def test_a_kernel_of_a_file(style):
    found = []
    device = SimpleNamespace(style=style, kernel=lambda *a, **k: found.append((a, k)))
    source.kernel(device, "pad", width=4, ITEMS=True, type="uint")
    (((code, name, arguments), more),) = found
    assert code.startswith("#define ITEMS 1\n#define CPU " + str(int(style == "cpu")))
    assert "typedef uint S;" in code
    assert name == "pad"
    assert arguments == [None] * 3 + [np.int32] + [np.int64] * 4 + [np.uint32]
    assert more == {"group": source.GROUP[style]}


def test_rows_that_an_item_does():
    cpu, gpu = SimpleNamespace(style="cpu"), SimpleNamespace(style="gpu")
    block = source.BLOCK
    assert [source.share(cpu, n) for n in (1, 3, block, 2 * block)] == [
        block,
        block // 4,
        1,
        1,
    ]
    assert source.share(gpu, 1) == 1
