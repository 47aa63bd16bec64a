"""Data-parallel training on MPI: collectives with gradients, for every backend.

MPI starts when a function first needs it, not with ``import plugrad_mpi``. A module is
imported when one of its names is first used, because plugrad imports this package
whenever it loads entry points.

Contents: ``contracts``, ``plugin`` and ``kernels``, the collectives as kernels;
``collectives``, the same as functions; ``world``, the ranks and the watchdog;
``parallel``, gradients, data, checkpoints and messages; ``zero``, an optimizer with
sharded state.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .collectives import (
        all_gather,
        all_reduce,
        broadcast,
        receive,
        reduce_scatter,
        send,
    )
    from .parallel import (
        Checkpoints,
        average,
        broadcast_parameters,
        data_parallel,
        log,
        overlap,
        shard,
    )
    from .world import DivergenceError, barrier, rank, size
    from .zero import Sharded, sharded

__all__ = [
    "Checkpoints",
    "DivergenceError",
    "Sharded",
    "all_gather",
    "all_reduce",
    "average",
    "barrier",
    "broadcast",
    "broadcast_parameters",
    "data_parallel",
    "log",
    "overlap",
    "rank",
    "receive",
    "reduce_scatter",
    "send",
    "shard",
    "sharded",
    "size",
]
_MODULES = ("collectives", "parallel", "zero", "world")


def __getattr__(name: str) -> Any:
    """Look up a public name or the version on first use."""
    if name == "__version__":
        from importlib.metadata import version

        return version("plugrad-mpi")
    for module in _MODULES if name in __all__ else ():
        value = getattr(import_module(f"{__name__}.{module}"), name, None)
        if value is not None:
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
