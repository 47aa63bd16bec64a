"""Pipelines, uniform buffers and bind groups, each created once and cached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import wgpu

from .memory import Lease

MAX_CACHED_BINDINGS = 16384
MAX_CACHED_PIPELINES = 2048
MAX_CACHED_UNIFORMS = 8192

Groups = tuple[int, int, int]


class Launch(NamedTuple):
    """A kernel with its parameters: all that a dispatch needs apart from buffers."""

    number: int
    name: str
    pipeline: Any
    layout: Any
    uniform: Any
    groups: Groups


class Launches:
    """The caches of one device.

    Attributes:
        bindings: Bind groups by the numbers of the launch and of its buffers.

    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._pipelines: dict[str, tuple[Any, Any]] = {}  # by source
        self._layouts: dict[tuple[bool, ...], Any] = {}
        self._uniforms: dict[bytes, Any] = {}
        self.bindings: dict[tuple[int, ...], Any] = {}
        self._count = 0

    def launch(
        self,
        name: str,
        source: str,
        writes: Sequence[bool],
        params: bytes,
        groups: Groups,
    ) -> Launch:
        """Return a launch of the kernel ``source``.

        Args:
            name: The name of the kernel, for messages.
            source: WGSL with a function ``main``.
            writes: For each storage buffer, whether the kernel writes it.
            params: The contents of the uniform buffer.
            groups: The number of workgroups along each axis.

        """
        pipeline, layout = self._pipeline(source, tuple(writes))
        self._count += 1
        uniform = self._uniform(params)
        return Launch(self._count, name, pipeline, layout, uniform, groups)

    def _pipeline(self, source: str, writes: tuple[bool, ...]) -> tuple[Any, Any]:
        found = self._pipelines.get(source)
        if found is None:
            if len(self._pipelines) >= MAX_CACHED_PIPELINES:
                self._pipelines.clear()
            layout = self._layout(writes)
            create = self._device.create_pipeline_layout
            module = self._device.create_shader_module(code=source)
            pipeline = self._device.create_compute_pipeline(
                layout=create(bind_group_layouts=[layout]),
                compute={"module": module, "entry_point": "main"},
            )
            found = self._pipelines[source] = (pipeline, layout)
        return found

    def _layout(self, writes: tuple[bool, ...]) -> Any:
        found = self._layouts.get(writes)
        if found is None:
            kinds = [wgpu.BufferBindingType.uniform]
            kinds += [
                wgpu.BufferBindingType.storage
                if write
                else wgpu.BufferBindingType.read_only_storage
                for write in writes
            ]
            entries = [
                {
                    "binding": i,
                    "visibility": wgpu.ShaderStage.COMPUTE,
                    "buffer": {"type": kind},
                }
                for i, kind in enumerate(kinds)
            ]
            found = self._device.create_bind_group_layout(entries=entries)
            self._layouts[writes] = found
        return found

    def _uniform(self, params: bytes) -> Any:
        found = self._uniforms.get(params)
        if found is None:
            if len(self._uniforms) >= MAX_CACHED_UNIFORMS:
                self._uniforms.clear()
            data = np.frombuffer(params + bytes(-len(params) % 16), np.uint32)
            found = self._device.create_buffer_with_data(
                data=data, usage=wgpu.BufferUsage.UNIFORM
            )
            self._uniforms[params] = found
        return found

    def bind(
        self, launch: Launch, leases: Sequence[Lease], key: tuple[int, ...]
    ) -> Any:
        """Return a new bind group of a launch on these buffers, and cache it."""
        if len(self.bindings) >= MAX_CACHED_BINDINGS:
            self.bindings.clear()
        buffers = [launch.uniform, *[lease.gpu for lease in leases]]
        entries = [
            {"binding": i, "resource": {"buffer": buffer}}
            for i, buffer in enumerate(buffers)
        ]
        group = self._device.create_bind_group(layout=launch.layout, entries=entries)
        self.bindings[key] = group
        return group

    def forget_bindings(self) -> None:
        """Drop all bind groups, because buffers will be destroyed."""
        self.bindings.clear()
