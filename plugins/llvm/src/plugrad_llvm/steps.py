"""Selects the steps for which machine code gives the same bits as their kernels."""

from __future__ import annotations

from math import prod

import numpy as np
from plugrad.plugin import Graph, Step

from .graphs import VIEW, values
from .kernels import ELEMENTWISE, KINDS, ZEROS
from .probes import agrees, rows_agree
from .rows import ROWS
from .worth import REDUCTIONS, cpu_compiler_accepts, has_cpu_compiler

ROW_MAX_ELEMENTS = 1 << 14  # limited because row buffers are on the stack


def is_fusable(step: Step, graph: Graph) -> bool:
    """Return whether a step may be part of a region.

    Comparing the bits needs LLVM. If plugrad-cpu has its own compiler, which can
    compile a region whose bits differ, the comparison waits until the region is
    compiled; otherwise it is done here.
    """
    if step.kernel.name in REDUCTIONS:
        return cpu_compiler_accepts(step, graph)
    if any(graph.specs[v].dtype not in KINDS for v in (*values(step), *step.outputs)):
        return False
    check = _is_supported_row if step.kernel.name in ROWS else _is_supported_elementwise
    return check(step, graph) and (has_cpu_compiler() or is_equal(step))


def is_equal(step: Step) -> bool:
    """Return whether machine code gives the same bits as the kernel."""
    if step.kernel.name in ROWS:
        return rows_agree(step.kernel)
    if step.kernel.name in REDUCTIONS:  # the kernel itself runs
        return True
    return ELEMENTWISE[step.kernel.name].exact or agrees(step.kernel)


def _is_supported_elementwise(step: Step, graph: Graph) -> bool:
    name, specs = step.kernel.name, graph.specs
    if name not in ELEMENTWISE:
        return False
    if KINDS[specs[values(step)[0]].dtype] not in ELEMENTWISE[name].kinds:
        return False
    shape = specs[step.outputs[0]].shape
    operands = [specs[x].shape for x in values(step)]
    if name == VIEW:
        return operands[0] != shape
    if name == "Pow":
        return _exponent(step, graph) in (1, 2, 3)
    return name not in ZEROS or all(s == shape or prod(s) == 1 for s in operands)


def _exponent(step: Step, graph: Graph) -> float | None:
    constant = graph.constants.get(values(step)[1])
    return None if constant is None or constant.ndim else constant.item()


def _is_supported_row(step: Step, graph: Graph) -> bool:
    """Return whether a step is a float32 row kernel along the last axis."""
    specs = [graph.specs[v] for v in (*step.outputs, *values(step))]
    shape = specs[0].shape
    n = shape[-1]
    axis = step.attrs.get("axis", len(shape) - 1)
    if n > ROW_MAX_ELEMENTS or any(spec.dtype != np.float32 for spec in specs):
        return False
    if axis not in (len(shape) - 1, (len(shape) - 1,)):
        return False
    if step.kernel.name == "LayerNorm":
        specs = [s for s in specs if s.shape != (n,)]
    return all(s.shape == shape for s in specs)
