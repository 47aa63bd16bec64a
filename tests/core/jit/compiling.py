"""A backend whose compiler makes each region a function that runs cpu kernels."""

import contextlib
import dataclasses

import plugrad as pg
from plugrad import plugin
from plugrad._src.registry.registry import registry


class Compiler:
    """A compiler that refuses a region if ``refuse(graph)`` is true.

    Its functions return NotImplemented if ``decline()`` is true.

    Attributes:
        requested: The kernels of each region that it was asked to compile.
        ran: The number of runs of its functions.

    """

    def __init__(self, refuse=lambda graph: False, decline=lambda: False):
        self.requested, self.ran = [], 0
        self.refuse, self.decline = refuse, decline

    def __call__(self, graph):
        self.requested.append([step.kernel.name for step in graph.steps])
        if self.refuse(graph):
            return None
        arrays = plugin.runtime("cpu").arrays
        kernels = registry.opened["cpu"].table

        def function(*natives):
            self.ran += 1
            if self.decline():
                return NotImplemented
            assert len(natives) == len(graph.inputs)
            values = {
                **dict(zip(graph.inputs, natives, strict=True)),
                **graph.constants,
            }
            for step in graph.steps:
                inputs = [None if x is None else values[x] for x in step.inputs]
                outputs = kernels[step.kernel.name](*(inputs or [arrays]), **step.attrs)
                assert outputs is not NotImplemented
                outputs = [outputs] if step.kernel.single else outputs
                values |= zip(step.outputs, outputs, strict=True)
            for value, spec in graph.specs.items():
                assert values[value].shape == spec.shape
                assert values[value].dtype == spec.dtype
            results = tuple([values[y] for y in graph.outputs])
            return results if len(results) > 1 else results[0]

        return function


@contextlib.contextmanager
def compiling(compiler, fusable=lambda step, graph: True, name="compiling"):
    """Run on a backend like cpu with this compiler."""
    runtime = plugin.runtime("cpu")
    runtime = dataclasses.replace(runtime, fusable=fusable, compile=compiler)
    pg.register_backend(plugin.Backend(name, open=lambda: runtime))
    try:
        with pg.use_backend(name):
            yield compiler
    finally:
        pg.remove_backend(name)
