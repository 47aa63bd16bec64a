"""``jit(check=True)``: compare a call that ran eagerly with a replay of it.

Contents: ``StaleReplay``; ``check_replay``.
"""

from __future__ import annotations

import numpy as np

from plugrad._src.public import name_publicly
from plugrad._src.registry.registry import registry
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.tensor import Native, Tensor

from .difference import Differ, same_bits
from .graph import DRAW, Step
from .parts import KernelByKernel, function_of, run_declined
from .program import ReplayProgram
from .recording import Recording
from .regions import Region


class StaleReplay(RuntimeError):
    """A replay would differ from what the function does now.

    ``jit(check=True)`` raises it: the function reads something that ``jit`` does not
    compare. The message states the kernel, the values and the user's line that differ.
    """


name_publicly(StaleReplay, "plugrad")  # a traceback may come before the public name


def check_replay(
    name: str, entry: Recording, program: ReplayProgram, new: Recording
) -> None:
    """Compare a call that has just run with a replay of an earlier one.

    It compares the kernels, their attributes and constants, then the bits of all values
    that the replay computes. Random draws and effects are not repeated: the replay
    continues with the values of the call. No variable is assigned.

    Raises:
        StaleReplay: They differ.

    """
    if new.is_temporary:
        return  # another thread, or a debugger, kept the call from being recorded
    if len(new.shared) != len(entry.shared):
        return  # the new graph has an input for an argument that is also captured
    if new.recorder.raised and program.runs_again and _raises(entry, program, new):
        return  # after such an error the function runs eagerly
    differ = Differ(entry, new, code=False)  # the code that ran may differ
    if differ.difference:
        error = StaleReplay(
            f"jit: a replay of {name} would be stale: {differ.difference}; the "
            "function reads something that jit does not compare, so pass it as an "
            "argument"
        )
        raise explained(error, "stale-replay")
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
                error = StaleReplay(
                    f"jit: a replay of {name} would be wrong: {_describe_item(item)} "
                    f"returns {difference}{line}"
                )
                raise explained(error, "stale-replay")


def _raises(entry: Recording, program: ReplayProgram, new: Recording) -> bool:
    """Return whether a replay also raises, given that a kernel of the call raised."""
    if entry.assigned or entry.rebound:  # a replay that does not raise would assign
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


def _difference(new: Recording, replayed: Native, number: int | None) -> str:
    """Describe how a value of a replay differs from the value of the call."""
    if number is None or number not in new.recorder.arrays:
        return ""  # the result is dropped, or is on a host
    home = new.homes[number]
    download = home.runtime.arrays.download
    expected = np.asarray(download(new.recorder.arrays[number]))
    actual = np.asarray(download(replayed))
    if same_bits(expected, actual):
        return ""
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        replay, call = [f"{x.dtype} of shape {x.shape}" for x in (actual, expected)]
        return f"{replay}, but {call} in the call"
    differs = [
        not same_bits(a, b)
        for a, b in zip(expected.ravel(), actual.ravel(), strict=True)
    ]
    first = differs.index(True)
    place = tuple(map(int, np.unravel_index(first, expected.shape)))
    return f"{actual.ravel()[first]!r} at {place}, not {expected.ravel()[first]!r}"


def _describe_item(item: Step | Region) -> str:
    """Describe the kernel or the region that computes a part of a plan."""
    if isinstance(item, Region):
        return f"a region of {len(item.steps)} kernels, compiled by {item.by},"
    return f"{item.kernel.name} on {item.backend}"
