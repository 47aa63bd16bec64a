"""What users ask of the engine while it works; each imports its tool when called.

Map: memory; profile and time; explain; debug and check_gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _context
from ._registry import registry

if TYPE_CHECKING:
    from ._tensor import Tensor
    from .tools.debug import Debug
    from .tools.explain import Explanation
    from .tools.memory import Memory, Tidy
    from .tools.profile import Profile, Timing

T = TypeVar("T")


# --- memory ----------------------------------------------------------------------


@overload
def tidy() -> Tidy: ...
@overload
def tidy(f: Callable[[], T], /) -> T: ...
def tidy(f: Callable[[], Any] | None = None, /) -> Any:
    """Return ``f()`` and dispose everything else that has been made inside.

    Without ``f`` it is a context manager: ``with tidy(): ...``.

    What is returned, in nested dicts, lists and tuples, stays; so does what ``keep``
    has been told, and what a variable was given. Blocks nest: what an inner one leaves
    belongs to the outer one. An error disposes too. Only handles are emptied: views,
    and what a tape has saved, stay valid. The tensors of other threads are left to
    Python, which frees every tensor when its last handle goes.

    Raises:
        TypeError: ``f`` returned a generator or a coroutine.

    """
    from .tools.memory import Tidy

    return Tidy() if f is None else Tidy().run(f)


def keep(tree: T, /) -> T:
    """Return ``tree``; no ``tidy`` that this thread is in will dispose its tensors."""
    from .tools.memory import tensors_in

    for x in tensors_in(tree):
        _context.keep(x)
    return tree


def dispose(tree: Any, /) -> None:
    """Empty the tensors and variables in nested dicts, lists and tuples.

    Other handles on the same values, views, and what a tape saved stay valid; the
    memory is free when the last of them is gone. Twice is once, and what is no tensor
    is left alone.
    """
    from .tools.memory import dispose

    dispose(tree)


def memory() -> Memory:
    """Return what tensors hold now: tensors, replicas, buffers and bytes, by backend.

    ``tensors`` counts handles that have not been disposed, those that tapes and plugrad
    itself hold included; ``buffers`` counts the memory that several may share, and
    ``bytes`` is exact for them (a view keeps the whole of what it views). Not counted:
    what kernels need while they run, what a backend keeps for reuse, and objects that
    ``gc.freeze`` has hidden. ``peak`` is there where the backend knows it;
    ``profile`` finds it for a block.

    It looks at every object of the process, so it takes milliseconds; nothing is
    counted while ops run.
    """
    from .tools.memory import memory

    return memory(registry.opened)


# --- profile and time ------------------------------------------------------------


def profile() -> Profile:
    """Return a block that notes every run in it, as ``p`` of ``with ... as p:``.

    It notes the kernel, the backend, how it ran (implementation, decomposition, host,
    fallback), shapes, dtypes, times, bytes and moves of each run in this thread, and
    the peak of what the results held. ``print(p)`` shows a table, costly kernels first;
    ``p.to_chrome_trace(path)`` writes a file for https://ui.perfetto.dev;
    ``p.records`` has everything. A run inside a decomposition has a ``depth``. Where
    arrays of a backend have ``synchronize()``, each run is waited for.
    ``p.transfers`` are the uploads (``asarray``, constants that ops need) and downloads
    (``numpy()``, ``item()``), which are no runs. ``p.device_seconds`` and ``device`` of
    each record are how long kernels were at work on the device; None where the backend
    cannot tell, as cpu and wasm.
    """
    from .tools.profile import Profile

    return Profile()


def time(f: Callable[[], object], /, *, repeat: int = 1) -> Timing:
    """Return how long ``f()`` takes, in seconds, and how much of that in kernels.

    ``f`` is called once under ``profile``, which also warms up, and then ``repeat``
    times with nobody watching; the best of these is ``seconds``. Backends that work
    asynchronously are waited for.

    Raises:
        ValueError: ``repeat`` is less than 1.

    """
    from .tools.profile import time

    return time(f, repeat)


# --- explain ---------------------------------------------------------------------


def explain(x: Tensor, /) -> Explanation:
    """Return the kernels and gradients behind ``x``, which a tape has recorded.

    Inside the function that ``grad`` differentiates this is any result; outside of it,
    the value of ``vjp`` while its pullback is there. ``print`` shows a table, ``rows``
    and ``to_dict()`` have the same for programs: each run with kernel, backend, how it
    ran and who wrote that, and for each input the gradient that was in force when it
    ran, with its author, file and line. Inside ``debug`` it knows your lines, too.

    Raises:
        ValueError: No tape has recorded ``x``.

    """
    from .tools.explain import explain

    return explain(x)


# --- debug -----------------------------------------------------------------------


def debug(*, finite: bool = True, leaks: bool = False) -> Debug:
    """Return a block in which every run of this thread is checked.

    Shapes, dtypes and homes of all results are compared with the contract. Messages
    name the op, the kernel, the backend, who wrote the implementation and the user's
    line; in a backward pass also the gradient and the line that it belongs to. The
    values are read after each run: expect it to be slow.

    Args:
        finite: Whether infinities and NaN that come from finite inputs are an error.
            What a decomposition has inside is not looked at, only what it returns.
        leaks: Whether it is an error if memory that was made in the block is still held
            at its end, and neither ``keep`` nor a variable was given it. Views, and
            what tapes have saved, count as what they hold. ``left()`` of the block
            then lists the memory by kernel and line at any time.

    Raises:
        AssertionError: A result breaks the contract, or memory is left.
        FloatingPointError: A result is not finite.

    """
    from .tools.debug import Debug

    return Debug(finite=finite, leaks=leaks)


def check_gradients(
    f: Callable[..., Any],
    /,
    *xs: Any,
    order: int = 2,
    eps: float | None = None,
    rtol: float | None = None,
) -> None:
    """Compare the gradients of ``f`` at ``xs`` with finite differences.

    ``f`` takes tensors and returns tensors, of any shape; it must be smooth at ``xs``.
    Real arguments, integers too, become float64, complex ones complex128; float32 and
    complex64 where the active backend has no float64. All are moved along one random
    direction, the same every time.

    Args:
        f: The function, with whatever gradient is to be checked inside.
        xs: Arrays, tensors, variables, numbers or lists.
        order: 2 checks the gradients of the gradients too.
        eps: How far to move; 1e-6, or 1e-2 in float32.
        rtol: The relative tolerance; 1e-5, or 2e-2 in float32. 1e-4 in second order if
            that is more.

    Raises:
        AssertionError: They differ; says by how much, for which argument and element.
        ValueError: ``order`` is neither 1 nor 2, ``eps`` or ``rtol`` not positive.
        TypeError: ``xs`` hold no numbers, or ``f`` returns nothing floating.

    """
    from .tools.debug import check_gradients

    check_gradients(f, xs, order, eps, rtol)
