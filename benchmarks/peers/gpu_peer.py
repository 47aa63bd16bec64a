"""The server of ``gpu.py``; the argument is ``opencl`` (plugrad) or ``torch``.

One request and one answer per line, in JSON:

- ``{"time": name, "part": part, "quick": bool, "seconds": s}`` answers with the
  microseconds per call of a case of ``gpu_cases``: many calls are enqueued, with one
  wait at the end. The case has been called before, so that nothing is compiled.
- ``{"device": true, "quick": bool}`` answers with properties of the device, and the
  microseconds of launches and copies through pyopencl alone (plugrad only).
- ``{"launches": name, "jit": bool}`` answers with the number of kernels that a call
  of a workload launches, by kernel name, and the number of fills, writes and reads that
  it enqueues (plugrad only).

The first line is ``{"versions": {...}}``. The answer is
``{"missing": true}`` if the library lacks a case, and ``{"error": reason}`` if the
case fails.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from time import perf_counter
from typing import Any

import definitions
import gpu_cases
import ml_dtypes
import numpy as np

Answer = dict[str, Any]
MAX_CALLS = 2000  # calls in one measurement
REPEATS = 3  # repeats of each measurement; the best counts
WARM_CALLS = 6  # calls before a measurement: ``jit`` compiles in the third one
MAX_DRAWN = 1 << 20  # random numbers per array; larger arrays repeat them


class Library:
    """A library under test: converts arrays, waits, and makes the calls of cases."""

    packages: tuple[str, ...]
    convert: Callable[[np.ndarray[Any, Any]], Any]
    wait: Callable[[], None]
    calls: dict[str, gpu_cases.Make]

    def __init__(self) -> None:
        self._arrays: tuple[Any, list[Any]] = (None, [])

    def time(self, request: Answer) -> Answer:
        """Return the microseconds of one call of a case."""
        case = gpu_cases.cases(request["part"], request["quick"])[request["time"]]
        if case.call not in self.calls:
            return {"missing": True}
        call = self.calls[case.call](*self._inputs(case))
        return {"us": pipelined(call, self.wait, request["seconds"])}

    def _inputs(self, case: gpu_cases.GpuCase) -> list[Any]:
        """Return the arrays of a case; the next case may use the same ones."""
        key = tuple(case.arrays)
        if self._arrays[0] != key:
            self._arrays = (None, [])  # free the memory of the previous case first
            self._arrays = (key, [self.convert(x) for x in draw(case)])
        return self._arrays[1]


def draw(case: gpu_cases.GpuCase) -> list[np.ndarray[Any, Any]]:
    """Return random arrays; drawing a few numbers and repeating them saves time."""
    rng = np.random.default_rng(0)
    found = []
    for shape, dtype in case.arrays:
        if dtype.startswith("int"):
            values = rng.permutation(case.arrays[0][0][0])
        else:
            values = rng.standard_normal(min(int(np.prod(shape)), MAX_DRAWN))
        kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
        found.append(np.resize(values.astype(kind), shape))
    return found


def pipelined(
    call: Callable[[], Any], wait: Callable[[], Any], seconds: float
) -> float:
    """Return the microseconds per call of many calls with one wait at the end."""
    for _ in range(2):  # compiles, and fills the memory pool
        call()
        wait()
    start = perf_counter()
    call()
    wait()
    once = perf_counter() - start
    number = min(max(int(seconds / once), 2), MAX_CALLS)
    best = float("inf")
    for _ in range(REPEATS):
        start = perf_counter()
        for _ in range(number):
            call()
        wait()
        best = min(best, (perf_counter() - start) / number)
    return best * 1e6


# --- PyTorch ---------------------------------------------------------------------


class Torch(Library):
    """PyTorch on the first NVIDIA GPU, without TF32."""

    packages = ("torch",)

    def __init__(self) -> None:
        super().__init__()
        import torch

        if not torch.cuda.is_available():
            sys.exit("Error: torch needs an NVIDIA GPU and PyTorch with CUDA")
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.set_grad_enabled(False)
        self._torch = torch
        self.convert = self._converted
        self.wait = torch.cuda.synchronize
        self.calls = gpu_cases.torch_calls(self.wait)

    def _converted(self, x: np.ndarray[Any, Any]) -> Any:
        """Return an array on the GPU; PyTorch does not know NumPy's bfloat16."""
        if x.dtype == ml_dtypes.bfloat16:
            return self._torch.from_numpy(x.astype(np.float32)).cuda().bfloat16()
        return self._torch.from_numpy(x).cuda()


# --- plugrad ---------------------------------------------------------------------

ADD_SOURCE = """
__kernel void add(__global const float *a, __global const float *b,
                  __global float *c, long n) {
    long i = get_global_id(0);
    if (i < n) c[i] = a[i] + b[i];
}
"""


class Plugrad(Library):
    """plugrad on the backend opencl."""

    packages = ("plugrad", "plugrad-opencl", "pyopencl")

    def __init__(self) -> None:
        super().__init__()
        import plugrad as pg
        import plugrad_peer
        from plugrad.plugin import runtime
        from plugrad_opencl.launching import Launch

        pg.set_backend("opencl")
        self._pg = pg
        self._peer = plugrad_peer
        self._launch = Launch
        self.convert = pg.asarray
        self._device = runtime("opencl").arrays.device
        self.wait = self._device.synchronize
        self.calls = gpu_cases.plugrad_calls(self.wait)
        self.calls["copy"] = lambda x: self._copy(4 * x.size)

    def _copy(self, nbytes: int) -> gpu_cases.Call:
        """Return a copy between two buffers: the upper bound of kernels' bandwidth."""
        import pyopencl as cl

        a, b = (
            cl.Buffer(self._device.context, cl.mem_flags.READ_WRITE, nbytes)
            for _ in "ab"
        )
        cl.enqueue_fill_buffer(self._device.wide, a, np.float32(0), 0, nbytes)
        return lambda: cl.enqueue_copy(self._device.wide, b, a)

    def device(self, request: Answer) -> Answer:
        """Return properties of the device, and times through pyopencl alone."""
        import pyopencl as cl

        context, queue = self._device.context, self._device.wide
        handle = self._device.info.handles[0]
        kernel = cl.Kernel(cl.Program(context, ADD_SOURCE).build(), "add")
        kernel.set_scalar_arg_dtypes([None, None, None, np.int64])
        a, b, c = (cl.Buffer(context, cl.mem_flags.READ_WRITE, 1024) for _ in "abc")
        result = np.empty(4, np.float32)
        launch = lambda: kernel(queue, (256,), (256,), a, b, c, 256)
        wait = queue.finish
        read = lambda: cl.enqueue_copy(queue, result, c)
        nbytes = 1 << (18 if request["quick"] else 29)
        seconds = request["seconds"]
        us = {
            "launch": pipelined(launch, wait, seconds),
            "launch + wait": pipelined(lambda: (launch(), wait()), wait, seconds),
            "launch + read": pipelined(lambda: (launch(), read()), wait, seconds),
            "wait alone": pipelined(wait, wait, seconds),
            "copy": pipelined(self._copy(nbytes), wait, seconds),
        }
        properties = {
            "name": handle.name.strip(),
            "driver": handle.driver_version,
            "platform": handle.platform.version,
            "style": self._device.style,
            "units": handle.max_compute_units,
            "memory": handle.global_mem_size,
        }
        return {"properties": properties, "us": us, "bytes": 2 * nbytes}

    def launches(self, request: Answer) -> Answer:
        """Return the number of kernels that a workload launches, by kernel name."""
        name = request["launches"]
        workload = definitions.WORKLOADS[name]
        self._peer.replayed = self._pg.jit if request["jit"] else lambda f: f
        if request["jit"] and name not in self._peer.JIT_WORKLOADS:
            return {"missing": True}
        inputs = workload.inputs(definitions.Draw())
        given = {key: self._pg.asarray(x) for key, x in inputs.items()}
        if workload.layers is not None:
            given["layers"] = workload.layers
        case = self._peer.cases[name](**given)
        for _ in range(WARM_CALLS):
            case()
        self.wait()
        return {"kernels": self._count_kernels(case)}

    def _count_kernels(self, case: gpu_cases.Call) -> dict[str, int]:
        """Return the number of kernels, fills, writes and reads in a call, by name."""
        found: Counter[str] = Counter()
        send, device = self._launch.send, self._device

        def send_and_count(kernel: Any, *args: Any) -> None:
            found[kernel._name] += 1
            send(kernel, *args)

        def counting_version(name: str) -> Callable[..., None]:
            work = getattr(device, name)
            return lambda *args: (found.update([f"({name})"]), work(*args))[-1]

        transfers = ("fill", "write", "read")
        self._launch.send = send_and_count
        for name in transfers:
            setattr(device, name, counting_version(name))
        try:
            case()
        finally:
            self._launch.send = send
            for name in transfers:
                delattr(device, name)
        self.wait()
        return dict(found.most_common())


# --- serving ---------------------------------------------------------------------


def main(name: str) -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the output of libraries must not mix with answers
    library = {"opencl": Plugrad, "torch": Torch}[name]()
    versions = {package: version(package) for package in library.packages}
    answers.write(json.dumps({"versions": versions}) + "\n")
    for line in sys.stdin:
        request = json.loads(line)
        kind = next(k for k in ("time", "device", "launches") if k in request)
        try:
            answer = getattr(library, kind)(request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
