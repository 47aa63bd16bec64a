"""``check``: compare a call that ran eagerly with a replay of it.

Map: ``StaleReplay``; ``check_replay``.
"""

from __future__ import annotations

import numpy as np

from plugrad._src.registry.registry import registry
from plugrad._src.tensor.tensor import Native, Tensor

from .difference import Differ, same_bits
from .graph import DRAW, Step
from .program import KernelByKernel, Program, function_of, run_declined
from .recording import Recording
from .regions import Region


class StaleReplay(RuntimeError):
    """A replay would differ from what the function does now.

    ``jit(check=True)`` raises it: the function reads something that ``jit`` does not
    compare. The message says which kernel, which values and which line of the user
    differ.
    """


def check_replay(name: str, entry: Recording, program: Program, new: Recording) -> None:
    """Compare a call that has just run with a replay of an earlier one.

    It compares the kernels, their attributes and constants, then the bits of all values
    that the replay computes. Draws and effects are not repeated: the replay continues
    with the values of the call. No variable is assigned.

    Raises:
        StaleReplay: They differ.

    """
    if new.is_temporary:
        return  # another thread, or a debugger, kept the call from being recorded
    if len(new.shared) != len(entry.shared):
        return  # an argument that is also captured is an input of the new graph
    if new.recorder.raised and program.runs_again and _raises(entry, program, new):
        return  # the function runs as it is then
    differ = Differ(entry, new, code=False)  # which may run at any time
    if differ.difference:
        raise StaleReplay(
            f"jit: a replay of {name} would be stale: {differ.difference}; the "
            "function reads something that jit does not compare, so pass it as an "
            "argument"
        )
    if program.graph is None:
        return
    arrays = new.recorder.arrays
    graph = program.graph
    values: dict[int, Native] = dict(graph.constants)
    values |= {v: arrays[differ.same[v]] for v in graph.inputs}
    for item in program.plan:
        steps = item.steps if isinstance(item, Region) else (item,)
        if any(step.kernel is DRAW or step.kernel.effect for step in steps):
            values |= {y: arrays[differ.same[y]] for y in item.outputs}
            continue
        values |= zip(item.outputs, _run(item, values), strict=True)
        for y in item.outputs:
            difference = _difference(new, values[y], differ.same.get(y))
            if difference:
                line = differ.place_of(y)
                raise StaleReplay(
                    f"jit: a replay of {name} would be wrong: {_describe_item(item)} "
                    f"returns {difference}{line}"
                )


def _raises(entry: Recording, program: Program, new: Recording) -> bool:
    """Return whether a replay raises as well, where a kernel of the call raised."""
    if entry.assigned:  # which the replay would assign if it does not raise
        return True
    tensors = [x for x in new.sign.leaves if type(x) is Tensor]
    try:
        program.finish(*tensors, *[slot.read() for slot in entry.inputs])
    except Exception:
        return True
    return False


def _run(item: Step | Region, values: dict[int, Native]) -> list[Native]:
    """Run a part of a plan, and return its values."""
    given = [None if x is None else values[x] for x in item.inputs]
    if isinstance(item, Region):
        made = item.function(*given)
        if made is NotImplemented:
            made = KernelByKernel(item.graph).run(*given)
        return [made] if len(item.outputs) == 1 else [*made]
    function, attrs = function_of(item)
    if not given:
        given = [registry.opened[item.backend].runtime.arrays]
    made = function(*given, **attrs)
    if made is NotImplemented:
        made = run_declined(item, *given)
    return [made] if item.kernel.single else [*made]


def _difference(new: Recording, replayed: Native, at: int | None) -> str:
    """Return how a value of a replay differs from that of the call."""
    if at is None or at not in new.recorder.arrays:
        return ""  # its result is dropped, or lies on a host
    home = new.homes[at]
    download = home.runtime.arrays.download
    ours = np.asarray(download(new.recorder.arrays[at]))
    its = np.asarray(download(replayed))
    if same_bits(ours, its):
        return ""
    if ours.shape != its.shape or ours.dtype != its.dtype:
        replay, call = [f"{x.dtype} of shape {x.shape}" for x in (its, ours)]
        return f"{replay}, but {call} in the call"
    other = [
        not same_bits(a, b) for a, b in zip(ours.ravel(), its.ravel(), strict=True)
    ]
    first = other.index(True)
    place = tuple(map(int, np.unravel_index(first, ours.shape)))
    return f"{its.ravel()[first]!r} at {place}, not {ours.ravel()[first]!r}"


def _describe_item(item: Step | Region) -> str:
    """Describe what computes a part of a plan."""
    if isinstance(item, Region):
        return f"a region of {len(item.steps)} kernels, compiled by {item.by},"
    return f"{item.kernel.name} on {item.backend}"
