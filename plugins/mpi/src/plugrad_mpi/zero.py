"""ZeRO-1: each rank stores and updates a part of the optimizer's state.

The parameters of each dtype form a vector, padded to a multiple of ``size()``. A step
consists of a reduce-scatter of the gradients, the optimizer on the part of this rank,
and an all-gather of the parameters. Together, the two collectives move as many bytes as
an all-reduce of the gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import plugrad as pg
from plugrad import Tensor

from .collectives import FLOATING, all_gather, reduce_scatter
from .world import world

Tree = Any


class Sharded(NamedTuple):
    """An optimizer whose state is divided among the ranks.

    Attributes:
        init: ``init(params)`` returns the state of this rank.
        update: ``update(grads, state, params)`` returns the new parameters, the same on
            all ranks, and the state of this rank. The gradients are those of this rank:
            ``update`` averages them.
        gather: ``gather(state, params)`` returns the whole state, for a checkpoint. The
            whole state does not depend on the number of ranks.
        scatter: ``scatter(whole, params)`` returns the state of this rank.

    """

    init: Callable[[Tree], Any]
    update: Callable[[Tree, Any, Tree], tuple[Tree, Any]]
    gather: Callable[[Any, Tree], Any]
    scatter: Callable[[Any, Tree], Any]


class _Vectors:
    """Joins the leaves of a tree into one vector per dtype."""

    def __init__(self, params: Tree) -> None:
        self.here = world()
        self.params, self.structure = pg.tree.flatten(params)
        self.lengths: dict[str, int] = {}
        for p in self.params:
            if not isinstance(p, Tensor) or not pg.isdtype(p.dtype, FLOATING):
                raise TypeError(
                    f"sharded: a parameter must be a floating tensor, got {p!r}; "
                    "remove values that are not trained from the tree"
                )
            name = str(p.dtype)
            self.lengths[name] = self.lengths.get(name, 0) + p.size

    def rows(self, name: str) -> int:
        """Return the length of one rank's part of the vector of a dtype."""
        return -(-self.lengths[name] // self.here.size)

    def join(self, leaves: list[Tensor]) -> dict[str, Tensor]:
        """Join leaves into one padded vector for each dtype."""
        found = {}
        for name, length in self.lengths.items():
            parts = [x.reshape(-1) for x in leaves if str(x.dtype) == name]
            padding = self.rows(name) * self.here.size - length
            found[name] = pg.pad(pg.concat(parts), [(0, padding)])
        return found

    def part(self, vector: Tensor, name: str) -> Tensor:
        """Return this rank's part of a padded vector."""
        first = self.rows(name) * self.here.rank
        return vector[first : first + self.rows(name)]

    def split(self, vectors: dict[str, Tensor]) -> Tree:
        """Split vectors into the leaves of the tree."""
        offsets = dict.fromkeys(vectors, 0)
        leaves = []
        for p in self.params:
            name = str(p.dtype)
            leaves.append(
                vectors[name][offsets[name] : offsets[name] + p.size].reshape(p.shape)
            )
            offsets[name] += p.size
        return self.structure(leaves)

    def vector_name(self, state: Tensor) -> str | None:
        """Return the name of the vector to which a state tensor belongs, or None."""
        names = [n for n in self.lengths if state.shape == (self.rows(n),)]
        if str(state.dtype) in names:
            return str(state.dtype)
        if len(names) > 1:
            raise ValueError(
                f"sharded: a {state.dtype} state of {state.shape[0]} elements may "
                f"belong to the parameters of {' or '.join(names)}; pad the parameters "
                "of one dtype so that the sizes differ"
            )
        return names[0] if names else None

    def parts(self) -> dict[str, Tensor]:
        """Return this rank's parts of the parameters."""
        return {n: self.part(x, n) for n, x in self.join(self.params).items()}


def sharded(optimizer: Any) -> Sharded:
    """Return an optimizer whose state is divided among the ranks (ZeRO stage 1).

    Pass the gradients of this rank to ``update``, without ``data_parallel``, because
    ``update`` averages them.

    Args:
        optimizer: An object with ``init(params)`` and ``update(grads, state, params)``,
            like those of plugrad-train. Its state is a tree of tensors, and the update
            of an element depends only on that element, as in Adam but not in clipping
            by the global norm.

    Example:
        >>> class SGD:
        ...     def init(self, params):
        ...         return ()
        ...     def update(self, grads, state, params):
        ...         step = lambda p, g: p - 0.5 * g
        ...         return pg.tree.map(step, params, grads), state
        >>> optimizer, params = mpi.sharded(SGD()), {"w": pg.ones(3)}
        >>> state = optimizer.init(params)
        >>> params, state = optimizer.update({"w": pg.ones(3)}, state, params)
        >>> params["w"].tolist()
        [0.5, 0.5, 0.5]

    Source:
        Rajbhandari et al. (2020), "ZeRO: Memory Optimizations Toward Training Trillion
        Parameter Models"; ``ZeroRedundancyOptimizer`` of PyTorch.

    """

    def init(params: Tree) -> Any:
        return optimizer.init(_Vectors(params).parts())

    def update(grads: Tree, state: Any, params: Tree) -> tuple[Tree, Any]:
        vectors = _Vectors(params)
        what = "sharded: the gradients differ in structure from the parameters"
        given = vectors.join(list(vectors.structure.match(grads, what)))
        means = {n: reduce_scatter(g, op="mean") for n, g in given.items()}
        parts, state = optimizer.update(means, state, vectors.parts())
        return vectors.split({n: all_gather(p) for n, p in parts.items()}), state

    def map_state(state: Any, params: Tree, change: Callable[..., Tensor]) -> Any:
        """Apply a change to the leaves of a state that are parts of vectors."""
        vectors = _Vectors(params)
        like = optimizer.init(vectors.parts())

        def leaf(x: Any, own: Any) -> Any:
            name = vectors.vector_name(own)
            return x if name is None else change(vectors, x, name)

        return pg.tree.map(leaf, state, like)

    def gather_part(vectors: _Vectors, x: Tensor, name: str) -> Tensor:
        return all_gather(x)[: vectors.lengths[name]]

    def scatter_whole(vectors: _Vectors, x: Tensor, name: str) -> Tensor:
        padding = vectors.rows(name) * vectors.here.size - vectors.lengths[name]
        return vectors.part(pg.pad(x, [(0, padding)]), name)

    return Sharded(
        init,
        update,
        lambda state, params: map_state(state, params, gather_part),
        lambda state, params: map_state(state, params, scatter_whole),
    )
