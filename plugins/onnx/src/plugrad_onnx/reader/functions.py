"""Resolves the attributes of inlined functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx
import plugrad as pg
from onnx import AttributeProto, FunctionProto, NodeProto

from ..dtypes import domain_of

__all__ = ["default_attributes", "with_attributes"]


def default_attributes(
    body: FunctionProto, name: str
) -> Iterator[tuple[str, AttributeProto]]:
    """Yield the attributes that have defaults in the schema of an op."""
    domain = domain_of(body.domain)
    if body.attribute and onnx.defs.has(name, domain):
        for key, attribute in onnx.defs.get_schema(
            name, domain=domain
        ).attributes.items():
            if attribute.default_value.name:
                yield key, attribute.default_value


def with_attributes(
    node: NodeProto, call_attributes: Mapping[str, AttributeProto], budget: pg.Budget
) -> NodeProto:
    """Return a node with references to attributes of its function resolved."""
    if not _refers(node):
        return node
    copy = NodeProto()
    budget.allocate(node.ByteSize())
    copy.CopyFrom(node)
    _resolve(copy, call_attributes, budget)
    return copy


def _refers(node: NodeProto) -> bool:
    """Return whether a node refers to an attribute of its function."""
    return any(
        attribute.ref_attr_name
        or any(_refers(one) for g in (attribute.g, *attribute.graphs) for one in g.node)
        for attribute in node.attribute
    )


def _resolve(
    node: NodeProto, call_attributes: Mapping[str, AttributeProto], budget: pg.Budget
) -> None:
    kept = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in call_attributes:
                continue
            value = AttributeProto()
            budget.allocate(call_attributes[attribute.ref_attr_name].ByteSize())
            value.CopyFrom(call_attributes[attribute.ref_attr_name])
            value.name = attribute.name
            attribute = value
        for graph in [attribute.g, *attribute.graphs]:
            for inner in graph.node:
                _resolve(inner, call_attributes, budget)
        kept.append(attribute)
    del node.attribute[:]
    node.attribute.extend(kept)
