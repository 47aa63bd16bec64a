"""Checks of runs that do not come from an op.

An op checks its arguments and runs a kernel with attributes in canonical form: a
non-negative ``axis``, tuples, objects of ``plugrad.geometry``. For a run by
``run_kernel`` or ``plugrad.plugin.run``, this module does the same, based on the
contract: the kinds of its inputs and attributes, ``canonicalize`` and ``out``. An
implementation therefore never gets values that its contract excludes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plugrad._src.tensor.dtypes import DType, dtype_kind, named
from plugrad._src.tensor.explained import explained, replacing

from .contract import Kernel, Spec
from .signature import canonical_attribute, check_dtype

Given = Sequence[Spec | None]


def canonical(kernel: Kernel, inputs: Given, attrs: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a run in the form that implementations get.

    Args:
        kernel: The contract.
        inputs: The specs of the inputs; None for an optional input that is omitted.
        attrs: The attributes of the contract, or those that ``canonicalize`` accepts.

    Raises:
        TypeError: An attribute is missing, unknown or of another kind, or an input has
            a dtype that the contract does not accept.
        ValueError: An attribute is out of range, or the shapes do not fit.

    """
    _check_dtypes(kernel, inputs)
    attrs = _contract_attributes(kernel, inputs, attrs)
    shape = next((x.shape for x in inputs if x is not None), ())
    attrs = {
        name: canonical_attribute(kernel.name, name, value, kernel.kinds[name], shape)
        for name, value in attrs.items()
    }
    try:
        if kernel.out is not None:
            kernel.out(*inputs, **attrs)
    except ValueError as error:
        rule, colon, text = str(error).partition(": ")
        if rule != "output" or not colon:
            raise
        raise replacing(error, ValueError(f"{kernel.name}: {text}")) from None
    return attrs


def _check_dtypes(kernel: Kernel, inputs: Given) -> None:
    """Raise a TypeError unless the inputs have the dtypes of their kinds."""
    dtypes: dict[str, DType] = {}  # of the inputs checked so far
    for name, value in kernel.bind(inputs).items():
        kind = kernel.kinds[name]
        for x in value if name == kernel.variadic else (value,):
            if x is None:
                continue
            if kind and kind not in kernel.inputs:
                check_dtype(kernel.name, name, x.dtype, kind)
            like = kind if kind in kernel.inputs else name
            if not kind and kernel.broadcasts and dtype_kind(x.dtype) != "b":
                like = "the other inputs"
            wanted = dtypes.setdefault(like, x.dtype)
            if x.dtype is not wanted:
                op = f"the op {kernel.op} promotes" if kernel.op != kernel.name else ""
                error = TypeError(
                    f"{kernel.name}: {name!r} must be {named(wanted)}, the dtype of "
                    f"{like}, got {named(x.dtype)}; {op or 'cast one'}, kernels do "
                    "not promote"
                )
                raise explained(error, "kernels-do-not-promote")
            dtypes[name] = x.dtype


def _contract_attributes(
    kernel: Kernel, inputs: Given, attrs: dict[str, Any]
) -> dict[str, Any]:
    """Return the attributes of the contract, converted from the user's if necessary."""
    own = {*attrs, *kernel.defaults}
    if kernel.canonicalize is not None and own != set(kernel.attrs):
        try:
            attrs = kernel.canonicalize(*inputs, **attrs)
        except TypeError:
            _check_call(kernel, inputs, attrs)
            raise
    attrs = kernel.defaults | attrs
    lacking = [name for name in kernel.attrs if name not in attrs]
    unknown = [name for name in attrs if name not in kernel.attrs]
    wrong = []
    if lacking:
        wrong.append(f"lacks {', '.join(lacking)}")
    if unknown:
        wrong.append(f"has no {', '.join(unknown)}")
    if wrong:
        error = TypeError(f"{kernel.name}: {' and '.join(wrong)}; it is {kernel}")
        raise explained(error, "inputs-do-not-fit-the-contract")
    return attrs


def _check_call(kernel: Kernel, inputs: Given, attrs: dict[str, Any]) -> None:
    """Raise if attributes for ``canonicalize`` are missing or unknown."""
    import inspect  # only for an error

    assert kernel.canonicalize is not None
    signature = inspect.signature(kernel.canonicalize)
    try:
        signature.bind(*inputs, **attrs)
    except TypeError as error:
        takes = signature.parameters.values()
        known = ", ".join(p.name for p in takes if p.kind is p.KEYWORD_ONLY)
        raise TypeError(
            f"{kernel.name}: {error}; give {known}, or {', '.join(kernel.attrs)} as in "
            f"the contract {kernel}"
        ) from None
