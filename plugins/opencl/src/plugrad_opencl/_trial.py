"""Tries a device: compiles and runs a kernel, and checks the result.

``_devices`` runs this module in a separate process.
"""

from __future__ import annotations

import sys

import numpy as np

from ._devices import TRIAL_BEGINS, devices

VECTOR = "__attribute__((ext_vector_type(8), aligned(4)))"  # used only on CPUs
SOURCE = """
typedef float T VECTOR;
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void trial(__global const float *x, __global float *y, long n) {
  long i = get_global_id(0) * WIDTH;
  if (i + WIDTH <= n) *(__global T *)(y + i) = exp(*(__global const T *)(x + i)) + 1.0f;
}
"""


def main(key: str) -> None:
    """Run a kernel on the device with this key; fail or crash if it does not work.

    The two PoCL devices share a compiler and a processor, and each takes 0.3 s to load
    its functions. Therefore only the device for small kernels is tried.
    """
    print(TRIAL_BEGINS, flush=True)
    import pyopencl as cl

    (info,) = [device for device in devices() if device.key == key]
    handle = info.handles[-1]
    context = cl.Context([handle])
    queue = cl.CommandQueue(context)
    width, vector = (8, VECTOR) if info.kind == "cpu" else (1, "")
    code = SOURCE.replace("VECTOR", vector).replace("WIDTH", str(width))
    kernel = cl.Kernel(cl.Program(context, code).build(), "trial")
    kernel.set_scalar_arg_dtypes([None, None, np.int64])
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    given = cl.Buffer(context, flags, hostbuf=x)
    y = np.empty_like(x)
    made = cl.Buffer(context, cl.mem_flags.READ_WRITE, x.nbytes)
    kernel(queue, (64 // width,), (1,), given, made, 64)
    cl.enqueue_copy(queue, y, made)
    if not np.allclose(y, np.exp(x) + 1, rtol=1e-6):
        sys.exit(f"it computes wrong values: {y[:4]}")


if __name__ == "__main__":
    main(sys.argv[1])
