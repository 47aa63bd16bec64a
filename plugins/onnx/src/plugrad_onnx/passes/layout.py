"""Makes images channels-last, as plugrad kernels expect; ONNX is channels-first.

The pass keeps a value channels-last from one convolution to the next and transposes it
back where a node needs the layout of the file. A filter is transposed once.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import plugrad as pg

from .. import registry
from ..graph import Graph, Node
from ..ops import elementwise
from ..program import KnownValues
from ..registry import Value, op

__all__ = ["with_channels_last"]

# Ops that the pass always rewrites.
ALWAYS_REWRITTEN = (
    *("Conv", "ConvTranspose", "plugrad.QuantizedConv"),
    *("MaxPool", "AveragePool", "LpPool"),
)
# Ops that compute a filter from another filter.
FILTERS = ("plugrad.FoldedFilter", "plugrad.ScaledFilter")
# Ops that the pass rewrites only if an input is channels-last.
FOLLOWS = """
BatchNormalization GlobalAveragePool GlobalLpPool GlobalMaxPool InstanceNormalization
LRN Resize Upsample
"""
ONE_INPUT = """
Cast Celu Clip Elu Gelu HardSigmoid HardSwish Identity IsInf LeakyRelu Relu Selu Shrink
Softsign Swish ThresholdedRelu
"""
MANY_INPUTS = """
Add And BitShift Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mod Mul
Or PRelu Pow Sub Sum Where Xor
"""
BY_AXIS = "Concat Split Softmax LogSoftmax ArgMax ArgMin"
FOLLOWING = frozenset(FOLLOWS.split())
ELEMENTWISE = elementwise.UNARY | {*ONE_INPUT.split()}
BROADCASTING = frozenset(MANY_INPUTS.split())
ALONG_AN_AXIS = frozenset(BY_AXIS.split())


@op("ChannelsLast", domain="plugrad")
def _channels_last(x: Value, *, rank: int) -> Value:
    """Reshape to broadcast against a channels-last tensor of the given rank."""
    wide = pg.reshape(x, (*[1] * (rank - x.ndim), *x.shape))
    return pg.permute_dims(wide, (0, *range(2, rank), 1))


def with_channels_last(graph: Graph, known: KnownValues, changes: Counter[str]) -> None:
    """Rewrite the nodes of a graph so that images stay channels-last."""
    if any(node.op in ALWAYS_REWRITTEN for node in graph.nodes):
        _Layout(graph, known, changes).run()


class _Ranks(Mapping[str, int]):
    """A read-only mapping from the names of arrays to their ranks."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.arrays = arrays

    def __getitem__(self, name: str) -> int:
        return int(self.arrays[name].ndim)

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


class _Layout:
    """Rewrites one graph.

    Attributes:
        last: The name of the channels-last copy of each value that has one.
        plain: Names of the values that exist in the layout of the file.
        ones: Names of the values whose spatial axes have size 1.
        filters: For each folded filter, the original filter.

    """

    def __init__(self, graph: Graph, known: KnownValues, changes: Counter[str]) -> None:
        self.graph = graph
        self.known = known
        self.changes = changes
        self.last: dict[str, str] = {}
        arrays: Any = (_Ranks(known.params), _Ranks(known.constants))
        self.ranks: ChainMap[str, int] = ChainMap({}, *arrays, graph.ranks)
        made = {name for node in graph.nodes for name in node.outputs}
        own = {*graph.ranks, *graph.constants, *graph.params}
        self.plain = {*own, *graph.free_names()} - made
        self.filters: dict[str, str] = {}
        self.plain |= {info.name for info in graph.inputs}
        self.ones: set[str] = set()
        self.nodes: list[Node] = []

    def run(self) -> None:
        for node in self.graph.nodes:
            if not self.rewrite(node):
                inner = [name for g in node.subgraphs for name in g.free_names()]
                for name in [*node.inputs, *inner]:
                    self.to_file_layout(name)
                self.nodes.append(node)
                self.plain.update(node.outputs)
                if node.op in FILTERS:
                    self.filters[node.outputs[0]] = node.inputs[0]
        for info in self.graph.outputs:
            self.to_file_layout(info.name)
        self.graph.nodes[:] = self.nodes

    # --- values in one layout or the other -----------------------------------------

    def add(
        self, name: str, domain: str, inputs: list[str], output: str, **attrs: Any
    ) -> str:
        """Append a node and return the name of its output."""
        row = registry.find(domain, name, 10**6)
        assert row is not None
        self.nodes.append(Node(row, 1, f"layout of {output}", inputs, [output], attrs))
        return output

    def to_file_layout(self, name: str) -> None:
        """Append a transpose if a value is missing in the layout of the file."""
        if name in self.last and name not in self.plain:
            rank = self.ranks[name]
            perm = (0, rank - 1, *range(1, rank - 1))
            self.add("Transpose", "", [self.last[name]], name, perm=perm)
            self.plain.add(name)

    def to_channels_last(self, name: str) -> str:
        """Return the name of a channels-last value; append a transpose if needed."""
        if name not in self.last:
            rank = self.ranks[name]
            perm = (0, *range(2, rank), 1)
            output = f"{name}@last"
            self.last[name] = self.add("Transpose", "", [name], output, perm=perm)
        return self.last[name]

    def define_channels_last(self, node: Node, rank: int) -> list[str]:
        """Return the names of the channels-last outputs of a node."""
        for name in filter(None, node.outputs):
            self.last[name] = f"{name}@last"
            self.ranks[name] = rank
        return [name and f"{name}@last" for name in node.outputs]

    def constant(self, name: str, values: Sequence[int]) -> str:
        array = np.array(values, np.int64)
        self.graph.constants[name] = self.known.constants[name] = array
        return name

    def numbers(self, node: Node, i: int, name: str) -> tuple[int, ...] | None:
        """Return integers from an input or an attribute; None if not constant."""
        if name in node.attrs:
            return tuple(node.attrs[name])
        given = node.inputs[i] if i < len(node.inputs) else ""
        array = self.known.constants.get(given)
        return None if array is None else tuple(array.reshape(-1).tolist())

    # --- rules ---------------------------------------------------------------------

    def rewrite(self, node: Node) -> bool:
        """Append the channels-last form of a node; False if it has none."""
        rules: dict[str, Callable[[Node], bool]] = {
            "Transpose": self.rewrite_transpose,
            "Pad": self.rewrite_pad,
            "Slice": self.rewrite_slice,
            "Flatten": self.rewrite_flatten,
            "Reshape": self.rewrite_flatten,
            "Squeeze": self.rewrite_squeeze,
            "plugrad.Shuffle": self.rewrite_shuffle,
            "QuantizeLinear": self.rewrite_quantized,
            "DequantizeLinear": self.rewrite_quantized,
            "plugrad.FakeQuantize": self.rewrite_quantized,
        }
        name = node.op
        if not node.inputs or node.subgraphs:
            return False
        if name in ALWAYS_REWRITTEN:
            return self.rewrite_window(node)
        if not any(one in self.last for one in node.inputs) and name != "Transpose":
            return False
        if name in FOLLOWING:
            return self.rewrite_image(node)
        if name in ELEMENTWISE:
            return self.rewrite_unary(node)
        if name in BROADCASTING and node.version >= 7:
            return self.rewrite_broadcast(node)
        if name in ALONG_AN_AXIS:
            return self.rewrite_axis(node)
        if name.startswith("Reduce"):
            return self.rewrite_reduction(node)
        return name in rules and rules[name](node)

    def rewrite_window(self, node: Node) -> bool:
        x = node.inputs[0]
        inputs = list(node.inputs)
        if node.op.startswith("Conv"):
            rank = self.weights_rank(node.inputs[1])
        else:
            rank = len(node.attrs.get("kernel_shape", ())) + 2
        if rank < 3 or len(node.outputs) > 1:
            return False
        self.ranks[x] = rank
        inputs[0] = self.to_channels_last(x)
        if node.op == "Conv":
            group = node.attrs.get("group", 1)
            output = f"{node.outputs[0]}@filter"
            self.add("Filter", "plugrad", [inputs[1]], output, group=group)
            inputs[1] = output
        return self.rewrite_image(replace(node, inputs=inputs), rank)

    def weights_rank(self, name: str) -> int:
        """Return the rank of weights, or 0 if they depend on the inputs."""
        while name in self.filters:
            name = self.filters[name]
        return self.ranks.get(name, 0) if name in self.known else 0

    def rewrite_image(self, node: Node, rank: int = 0) -> bool:
        x = node.inputs[0]
        if not rank:
            if x not in self.last:
                return False
            rank = self.ranks[x]
            x = self.last[x]
        attrs = {**node.attrs, "channels_last": 1}
        if len([name for name in node.outputs if name]) > 1:
            return False
        if node.op.startswith("Global"):
            self.ones.add(node.outputs[0])
        inputs = [x, *node.inputs[1:]]
        outputs = self.define_channels_last(node, rank)
        self.nodes.append(replace(node, inputs=inputs, outputs=outputs, attrs=attrs))
        return True

    def rewrite_unary(self, node: Node) -> bool:
        x = node.inputs[0]
        if x not in self.last:
            return False
        self.ones |= {*node.outputs} if x in self.ones else set()
        inputs = [self.last[x], *node.inputs[1:]]
        outputs = self.define_channels_last(node, self.ranks[x])
        self.nodes.append(replace(node, inputs=inputs, outputs=outputs))
        return True

    def rewrite_quantized(self, node: Node) -> bool:
        """Rewrite a quantization or dequantization, and renumber its axis."""
        if self.ranks.get(node.inputs[1], 2) > 1 or node.attrs.get("block_size"):
            return False
        rank = self.ranks[node.inputs[0]]
        axis = self.moved_axis(node.attrs.get("axis", 1), rank)
        return self.rewrite_unary(replace(node, attrs={**node.attrs, "axis": axis}))

    def rewrite_broadcast(self, node: Node) -> bool:
        rank = max(self.ranks[name] for name in node.inputs if name in self.last)
        ranks = [self.ranks.get(name, rank + 1) for name in node.inputs]
        if max(ranks) > rank:
            return False
        inputs = []
        for name, own in zip(node.inputs, ranks, strict=True):
            if name in self.last or own == rank:
                inputs.append(self.operand(name, rank))
            elif own == 0:
                inputs.append(name)
            else:
                output = f"{name}@last{rank}"
                if output not in self.last:
                    self.add("ChannelsLast", "plugrad", [name], output, rank=rank)
                    self.last[output] = output
                inputs.append(output)
        if all(name in self.ones for name in node.inputs if name in self.last):
            self.ones.update(n for n in node.outputs if all(r < 2 for r in ranks[1:]))
        outputs = self.define_channels_last(node, rank)
        self.nodes.append(replace(node, inputs=inputs, outputs=outputs))
        return True

    def operand(self, name: str, rank: int) -> str:
        return (
            self.to_channels_last(name) if self.ranks[name] == rank else self.last[name]
        )

    def rewrite_axis(self, node: Node) -> bool:
        rank = next(self.ranks[name] for name in node.inputs if name in self.last)
        images = node.inputs if node.op == "Concat" else node.inputs[:1]
        flattens = node.op.endswith("oftmax") and node.version < 13
        if flattens or any(self.ranks.get(name) != rank for name in images):
            return False
        if node.op.startswith("Arg") and not node.attrs.get("keepdims", 1):
            return False
        default = -1 if node.op.endswith("oftmax") else 0
        axis = self.moved_axis(node.attrs.get("axis", default), rank)
        inputs = [self.to_channels_last(name) for name in images]
        inputs += node.inputs[len(images) :]
        outputs = self.define_channels_last(node, rank)
        attrs = {**node.attrs, "axis": axis}
        self.nodes.append(replace(node, inputs=inputs, outputs=outputs, attrs=attrs))
        return True

    @staticmethod
    def moved_axis(axis: int, rank: int) -> int:
        """Return the index that an axis has in the channels-last layout."""
        axis %= rank
        return 0 if axis == 0 else rank - 1 if axis == 1 else axis - 1

    def rewrite_reduction(self, node: Node) -> bool:
        x = node.inputs[0]
        axes = self.numbers(node, 1, "axes")
        if x not in self.last or axes is None:
            return False
        rank = self.ranks[x]
        spatial = {a % rank for a in axes} == {*range(2, rank)}
        keep = node.attrs.get("keepdims", 1)
        if not keep and not spatial:
            return False
        return self.append_with_axes(node, axes, last=bool(keep), ones=spatial)

    def append_with_axes(
        self, node: Node, axes: Sequence[int], *, last: bool, ones: bool = False
    ) -> bool:
        """Append a node with renumbered axes; ``last``: the output is channels-last."""
        x = node.inputs[0]
        rank = self.ranks[x]
        places = tuple(self.moved_axis(a, rank) for a in axes)
        attrs = dict(node.attrs)
        inputs = [self.last[x], *node.inputs[1:]]
        if "axes" in attrs:
            attrs["axes"] = places
        else:
            inputs[1] = self.constant(f"{node.outputs[0]}@axes", places)
        if last:
            self.ones |= {*node.outputs} if ones else set()
            outputs = self.define_channels_last(node, rank)
        else:
            outputs = node.outputs
            self.plain.update(outputs)
        self.nodes.append(replace(node, inputs=inputs, outputs=outputs, attrs=attrs))
        return True

    def rewrite_squeeze(self, node: Node) -> bool:
        x = node.inputs[0]
        axes = self.numbers(node, 1, "axes")
        if x not in self.last or axes is None:
            return False
        rank = self.ranks[x]
        if {a % rank for a in axes} != {*range(2, rank)}:
            return False
        return self.append_with_axes(node, axes, last=False)

    def rewrite_shuffle(self, node: Node) -> bool:
        """Rewrite a channel shuffle that keeps the rank."""
        same = self.ranks[node.inputs[0]] == len(node.attrs["narrow"])
        return same and self.rewrite_image(node)

    def rewrite_flatten(self, node: Node) -> bool:
        """Rewrite a flatten if the spatial size is 1: elements keep their order."""
        x = node.inputs[0]
        if x not in self.ones or node.attrs.get("axis", 1) != 1:
            return False
        if node.op == "Reshape":
            shape = self.numbers(node, 1, "shape")
            if shape is None or len(shape) != 2 or shape[1] == 0:
                return False
        self.nodes.append(replace(node, inputs=[self.last[x], *node.inputs[1:]]))
        self.plain.update(node.outputs)
        return True

    def rewrite_transpose(self, node: Node) -> bool:
        x = node.inputs[0]
        perm = node.attrs.get("perm", ())
        rank = len(perm)
        if rank < 3:
            return False
        if x in self.last and tuple(perm) == (0, *range(2, rank), 1):
            self.add("Identity", "", [self.last[x]], node.outputs[0])
            self.plain.add(node.outputs[0])
        elif x in self.plain and tuple(perm) == (0, rank - 1, *range(1, rank - 1)):
            self.last[node.outputs[0]] = x
            self.ranks[node.outputs[0]] = rank
        else:
            return False
        self.changes["transposes cancelled"] += 1
        return True

    def rewrite_pad(self, node: Node) -> bool:
        x = node.inputs[0]
        pads = self.numbers(node, 1, "pads")
        if x not in self.last or pads is None or len(node.inputs) > 3:
            return False
        n = self.ranks[x]
        moved = [pads[i + k] for k in (0, n) for i in (0, *range(2, n), 1)]
        attrs = dict(node.attrs)
        inputs = [self.last[x], *node.inputs[1:]]
        if "pads" in attrs:
            attrs["pads"] = tuple(moved)
        else:
            inputs[1] = self.constant(f"{node.outputs[0]}@pads", moved)
        outputs = self.define_channels_last(node, n)
        self.nodes.append(replace(node, inputs=inputs, outputs=outputs, attrs=attrs))
        return True

    def rewrite_slice(self, node: Node) -> bool:
        x = node.inputs[0]
        axes = self.numbers(node, 3, "axes")
        if x not in self.last or axes is None:
            return False
        rank = self.ranks[x]
        places = tuple(self.moved_axis(a, rank) for a in axes)
        attrs = dict(node.attrs)
        inputs = [self.last[x], *node.inputs[1:]]
        if "axes" in attrs:
            attrs["axes"] = places
        else:
            inputs[3] = self.constant(f"{node.outputs[0]}@axes", places)
        outputs = self.define_channels_last(node, rank)
        self.nodes.append(replace(node, inputs=inputs, outputs=outputs, attrs=attrs))
        return True
