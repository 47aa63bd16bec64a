"""Runs a quantization and the dequantization after it as one op.

Models that were quantized with QuantizeLinear and DequantizeLinear compute in floats
between these pairs. As one op, a pair needs no integers: it gives the same numbers, and
gradient rules for ``round`` and ``clip``, such as straight-through estimators, pass
through it. The conversion to an integer dtype has no gradient.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..graph import Graph, producers
from ..registry import pass_op

__all__ = ["fuse_fake_quantization"]

SHARED = {"axis": 1, "block_size": 0}  # attributes that a pair shares, with defaults


def fuse_fake_quantization(graph: Graph, changes: Counter[str]) -> None:
    """Replace each DequantizeLinear that undoes a QuantizeLinear.

    The QuantizeLinear stays if another node needs the integers.
    """
    producer = producers(graph)
    for i, node in enumerate(graph.nodes):
        maker = producer.get(node.inputs[0]) if node.inputs else None
        if node.op != "DequantizeLinear" or maker is None:
            continue
        steps = [one.inputs[1:] for one in (maker, node)]
        grids = [
            {name: one.attrs.get(name, default) for name, default in SHARED.items()}
            for one in (maker, node)
        ]
        if (
            maker.op == "QuantizeLinear"
            and steps[0] == steps[1]
            and grids[0] == grids[1]
            and not node.attrs.keys() - SHARED.keys()
            and not maker.attrs.keys() - {*SHARED, "output_dtype", "saturate"}
        ):
            changes["quantizations fused with dequantizations"] += 1
            row = pass_op("FakeQuantize")
            attrs = dict(maker.attrs)
            attrs.pop("saturate", None)
            graph.nodes[i] = replace(node, row=row, inputs=maker.inputs, attrs=attrs)
