"""Compare launches of small kernels with a recorded command buffer of OpenCL.

Prints microseconds for 45 dependent kernels of 256 elements: until the host has
enqueued them, and until they have finished. The device needs ``cl_khr_command_buffer``,
such as that of PoCL 3.1 (Debian's ``pocl-opencl-icd``), and OpenCL's loader as a
library::

    python -m benchmarks.command_buffers
"""

import ctypes
import ctypes.util
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import pyopencl as cl

EXTENSION = "cl_khr_command_buffer"
KERNELS = 45  # as many as the gradient of a transformer block launches
SIZE = 256
TURNS = 200
SOURCE = """
__kernel void increase(__global const float *x, __global float *y) {
  y[get_global_id(0)] = x[get_global_id(0)] + 1;
}
"""
Address = ctypes.c_void_p
Number = ctypes.c_uint
Sizes = ctypes.c_size_t * 1


def find_device() -> cl.Device:
    """Return a device with the extension; exit if there is none."""
    for platform in cl.get_platforms():
        for device in platform.get_devices():
            if EXTENSION in device.extensions.split():
                return device
    sys.exit(f"no device has {EXTENSION}")


def extension(device: cl.Device) -> Callable[..., Any]:
    """Return a function that finds functions of the extension by name."""
    path = ctypes.util.find_library("OpenCL")
    if path is None:
        sys.exit("there is no libOpenCL")
    find = ctypes.CDLL(path).clGetExtensionFunctionAddressForPlatform
    find.restype = Address

    def function(name: str, result: Any, *arguments: Any) -> Any:
        address = find(Address(device.platform.int_ptr), f"cl{name}KHR".encode())
        return ctypes.CFUNCTYPE(result, *arguments)(address)

    return function


def checked(code: int) -> None:
    """Raise if a call has failed."""
    if code != 0:
        raise RuntimeError(f"OpenCL error {code}")


def recorded(queue: cl.CommandQueue, kernels: list[cl.Kernel]) -> Callable[[], None]:
    """Record kernels, each of which waits for the one before it."""
    function = extension(queue.device)
    signature = [Address] * 4 + [Number] + [Address] * 3 + [Number] + [Address] * 3
    add = function("CommandNDRangeKernel", ctypes.c_int, *signature)
    create = function("CreateCommandBuffer", Address, Number, Address, Address, Address)
    finish = function("FinalizeCommandBuffer", ctypes.c_int, Address)
    signature = [Number, Address, Address, Number, Address, Address]
    enqueue = function("EnqueueCommandBuffer", ctypes.c_int, *signature)
    error = ctypes.c_int()
    commands = create(1, (Address * 1)(queue.int_ptr), None, ctypes.byref(error))
    checked(error.value)
    sizes = Sizes(SIZE)
    point = Number()
    for i, kernel in enumerate(kernels):
        before = (Number * 1)(point.value) if i else None
        work = kernel.int_ptr, 1, None, sizes, sizes, min(i, 1), before
        checked(add(commands, None, None, *work, ctypes.byref(point), None))
    checked(finish(commands))
    return lambda: checked(enqueue(0, None, commands, 0, None, None))


def best_us(queue: cl.CommandQueue, call: Callable[[], None]) -> tuple[float, float]:
    """Return the best times until the host and until the device have finished."""
    host, total = [], []
    for _ in range(TURNS):
        start = perf_counter()
        call()
        host.append(perf_counter() - start)
        queue.finish()
        total.append(perf_counter() - start)
    return min(host) * 1e6, min(total) * 1e6


def main() -> None:
    """Measure both ways in turns, check the result, and print."""
    device = find_device()
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    zeros = np.zeros(SIZE, np.float32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, flags, hostbuf=zeros) for _ in range(KERNELS + 1)]
    kernels = [cl.Kernel(program, "increase") for _ in range(KERNELS)]
    for i, kernel in enumerate(kernels):
        kernel.set_args(buffers[i], buffers[i + 1])

    def launched() -> None:
        for kernel in kernels:
            cl.enqueue_nd_range_kernel(queue, kernel, (SIZE,), (SIZE,))

    replayed = recorded(queue, kernels)
    print(f"{device.name}, {device.driver_version}: us on the host, and in all")
    for name, call in (("launches", launched), ("command buffer", replayed)) * 3:
        host, total = best_us(queue, call)
        print(f"{name:16}{host:8.1f}{total:8.1f}")
    found = np.empty_like(zeros)
    cl.enqueue_copy(queue, found, buffers[-1])
    if not (found == KERNELS).all():
        sys.exit(f"expected {KERNELS}, got {found}")


if __name__ == "__main__":
    main()
