"""Measure the backend webgpu: beside opencl, beside wgpu alone, and its memory.

Three parts, each in turns on the same machine::

    python -m benchmarks.webgpu

- ``ops``: milliseconds of an op, its result waited for, and of the same on opencl.
- ``wgpu``: one addition of 2^20 numbers by a shader of one line, with wgpu alone; and
  microseconds of an addition of 100 numbers, many recorded before one wait, beside the
  same commands with wgpu alone. An op cannot take less than these.
- ``memory``: bytes that the device keeps after 100 and after 10,000 training steps.

Needs an adapter, plugrad-webgpu and, for ``ops``, plugrad-opencl.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import plugrad as pg
import plugrad_webgpu
import wgpu
from plugrad._src.tools.device import synchronize

from benchmarks.turns import best_ms

LARGE_SUM_ELEMENTS = 1 << 20
SMALL_SUM_ELEMENTS = 100
RECORDED = 256  # kernels before a wait
PER_SUBMISSION = 64  # as plugrad-webgpu submits them
TURNS = 9

SHADER = """@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    y[id.x] = a[id.x] + b[id.x];
}"""


def cases(backend: str) -> dict[str, Callable[[], Any]]:
    """Return functions that compute one op and wait, by name."""
    random = np.random.default_rng(0)

    def tensor(*shape: int) -> pg.Tensor:
        values = random.normal(size=shape).astype(np.float32)
        return pg.asarray(values, device=backend)

    a, b = tensor(LARGE_SUM_ELEMENTS), tensor(LARGE_SUM_ELEMENTS)
    m, n = tensor(512, 512), tensor(512, 512)
    rows, scale = tensor(1024, 1024), tensor(1024)
    image, filters = tensor(1, 56, 56, 64), tensor(3, 3, 64, 64)
    functions = {
        "add 1M": lambda: pg.add(a, b),
        "exp 1M": lambda: pg.exp(a),
        "sum 1M": lambda: pg.sum(a),
        "matmul 512": lambda: pg.matmul(m, n),
        "softmax 1024 x 1024": lambda: pg.softmax(rows),
        "layer_norm 1024 x 1024": lambda: pg.layer_norm(rows, scale, scale),
        "conv2d 3 x 3, 56 x 56 x 64": lambda: pg.conv2d(image, filters, pad="same"),
    }

    def waiting(function: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> None:
            with pg.use_backend(backend):
                function()
                synchronize()

        return run

    return {name: waiting(function) for name, function in functions.items()}


def chosen(adapter: Any) -> bool:
    """Return whether plugrad-webgpu chooses an adapter."""
    return adapter.info["device"] in plugrad_webgpu.adapters()[0]


class Raw:
    """Additions with wgpu alone, on the adapter that plugrad-webgpu chooses."""

    def __init__(self, size: int) -> None:
        adapter = next(
            each for each in wgpu.gpu.enumerate_adapters_sync() if chosen(each)
        )
        self._device = adapter.request_device_sync()
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
        nbytes = -(-size // 1024) * 4096
        make = self._device.create_buffer
        buffers = [make(size=nbytes, usage=usage) for _ in range(3)]
        self._result = buffers[2]
        module = self._device.create_shader_module(code=SHADER)
        self._pipeline = self._device.create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": "main"}
        )
        self._group = self._device.create_bind_group(
            layout=self._pipeline.get_bind_group_layout(0),
            entries=[
                {"binding": i, "resource": {"buffer": buffer}}
                for i, buffer in enumerate(buffers)
            ],
        )
        self._groups = nbytes // 4096
        read = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
        self._staging = make(size=16, usage=read)

    def __call__(self, count: int = 1) -> None:
        """Add so many times, and wait."""
        for start in range(0, count, PER_SUBMISSION):
            encoder = self._device.create_command_encoder()
            run = encoder.begin_compute_pass()
            for _ in range(min(PER_SUBMISSION, count - start)):
                run.set_pipeline(self._pipeline)
                run.set_bind_group(0, self._group)
                run.dispatch_workgroups(self._groups)
            run.end()
            if start + PER_SUBMISSION >= count:
                encoder.copy_buffer_to_buffer(self._result, 0, self._staging, 0, 16)
            self._device.queue.submit([encoder.finish()])
        self._staging.map_sync(wgpu.MapMode.READ, 0, 16)
        self._staging.unmap()


def print_ops() -> None:
    """Print the times of ops, beside opencl where it is installed."""
    own = cases("webgpu")
    other = cases("opencl") if "opencl" in pg.backends() else {}
    print(f"{'ms':30}webgpu   opencl    ratio")
    for name, function in own.items():
        peer = [other[name]] if name in other else []
        found = best_ms([function, *peer], turns=TURNS)
        cells = f"{found[1]:9.2f}{found[0] / found[1]:9.1f}" if peer else ""
        print(f"{name:28}{found[0]:8.2f}{cells}", flush=True)


def print_wgpu() -> None:
    """Print the times of additions beside those with wgpu alone."""
    large, small = Raw(LARGE_SUM_ELEMENTS), Raw(SMALL_SUM_ELEMENTS)
    x = pg.asarray(np.ones(SMALL_SUM_ELEMENTS, np.float32), device="webgpu")

    def many() -> None:
        with pg.use_backend("webgpu"):
            for _ in range(RECORDED):
                pg.add(x, x)
            synchronize()

    own = cases("webgpu")["add 1M"]
    found = best_ms([own, large, many, lambda: small(RECORDED)], turns=TURNS)
    print(f"\n{'':30}webgpu     wgpu    ratio")
    print(f"{'add 1M, ms':28}{found[0]:8.2f}{found[1]:9.2f}{found[0] / found[1]:9.2f}")
    each = [ms * 1e3 / RECORDED for ms in found[2:]]
    ratio = each[0] / each[1]
    print(
        f"{f'add {SMALL_SUM_ELEMENTS}, us':28}{each[0]:8.1f}{each[1]:9.1f}{ratio:9.2f}"
    )


def print_memory() -> None:
    """Print what the device keeps after few and after many steps of training."""
    random = np.random.default_rng(0)
    x = pg.asarray(random.normal(size=(32, 64)).astype(np.float32), device="webgpu")
    w = pg.asarray(random.normal(size=(64, 10)).astype(np.float32), device="webgpu")

    def loss(w: pg.Tensor) -> pg.Tensor:
        return pg.mean(pg.logsumexp(x @ w, axis=-1))

    print(f"\n{'steps':>8}{'in use, bytes':>16}{'kept, bytes':>14}{'seconds':>9}")
    start = time.perf_counter()
    for step in range(1, 10_001):
        w = w - 0.1 * pg.grad(loss)(w)
        if step in (100, 10_000):
            synchronize()
            found = pg.memory().backends["webgpu"]
            seconds = time.perf_counter() - start
            print(f"{step:8}{found.bytes:16}{found.kept:14}{seconds:9.1f}", flush=True)


def main() -> None:
    """Measure and print all parts."""
    if "webgpu" not in pg.backends():
        raise SystemExit("webgpu is not available: python -m plugrad doctor says why")
    print_ops()
    print_wgpu()
    with pg.use_backend("webgpu"):
        print_memory()


if __name__ == "__main__":
    main()
