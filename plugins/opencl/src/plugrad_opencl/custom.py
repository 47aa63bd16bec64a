"""Custom kernels in OpenCL C: contract, kernel, gradient and op in one call.

Contents: ``elementwise_kernel``, from an expression; ``source_kernel``, from a whole
kernel; ``CustomKernel``, the op that both return; contracts. ``custom_source`` handles
the C code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import plugrad as pg
from plugrad import geometry, plugin
from plugrad.plugin import Kernel, Spec, Tensor, TensorLike

from . import source
from .arrays import ClArray, ClArrays, DType, empty
from .custom_source import Source, body, number, without_comments, working_dtype
from .elementwise import Function, elementwise

Gradients = Mapping[str, Function | None]
Outputs = Callable[..., Spec | tuple[Spec, ...]]
FLOATING = "float32 float64"
GROUP_ITEMS = 64  # items in a work group of ``source_kernel``, on every device


def elementwise_kernel(
    kernel: str | Kernel,
    code: str,
    *,
    dtypes: str = FLOATING,
    out_dtype: str = "",
    gradients: Gradients | None = None,
    decomposition: Function | None = None,
) -> CustomKernel:
    """Return an op that computes each element by ``code``; its inputs broadcast.

    Example: ``elementwise_kernel("mylib.Swish(x)", "y = x / (1 + exp(-x))")``. The
    kernel is registered for the process, on the backends of all devices.

    Args:
        kernel: The signature of a new kernel, as ``plugrad.plugin.Kernel`` accepts it;
            its attributes are numbers. Alternatively, the contract or the name of an
            existing kernel, which keeps its gradient.
        code: Statements in OpenCL C. The last assignment is the output, and gives it
            its name. Inputs are variables of type ``T``, or ``uchar`` if they are bool.
            Attributes are numbers of type ``T``; the op accepts them by keyword.
        dtypes: The dtypes that ``T`` may be; complex64 is ``float2``. If no integer
            dtype is listed, the op converts integers to float32.
        out_dtype: The dtype of the result, if it is not ``T``.
        gradients: A function for each input, as for ``plugrad.register_gradient``.
        decomposition: The same computation with ops, for other backends.

    Raises:
        ValueError: The name has no dot or is taken, the code assigns nothing, or a
            gradient does not match the signature.
        TypeError: A dtype is unknown. At a call: there is no code for the dtype of an
            input, or an attribute is not a number of that dtype.

    If the code does not compile, its first use raises a BackendError with the
    compiler's log, which refers to the lines of ``code``.

    """
    caller = "elementwise_kernel"
    y = _assigned_name(kernel, code)
    supported = [_dtype(caller, name) for name in dtypes.split()]
    out = _broadcast_rule(_dtype(caller, out_dtype) if out_dtype else None)
    contract = _contract(caller, kernel, out, y)
    if not contract.inputs or contract.outputs != (y,):
        raise ValueError(
            f"{caller}: {contract} needs at least one input, and its code must assign "
            f"the output last; it assigns {y!r} last"
        )
    run = elementwise(
        re.sub(r"\W", "_", contract.name),
        " ".join(contract.inputs),
        out=out_dtype,
        attrs=" ".join(contract.attrs),
        alone="biuf",
        **{d.kind: body(contract, code, d.kind) for d in supported},
    )
    implementation = _with_checks(contract, run, supported)
    return CustomKernel(contract, implementation, gradients, decomposition, supported)


def _assigned_name(kernel: str | Kernel, code: str) -> str:
    """Return the name of the last variable to which the code assigns."""
    assigned = re.findall(r"(\w+)\s*=(?!=)", without_comments(code))
    if assigned:
        return str(assigned[-1])
    raise ValueError(
        f"elementwise_kernel: {kernel}: {code!r} assigns nothing; write 'y = ...'"
    )


def _broadcast_rule(dtype: DType | None) -> Outputs:
    """Return the rule for an output of ``dtype``; None: the dtype of ``T``."""

    def out(*xs: Spec, **_: Any) -> Spec:
        shape = geometry.broadcast("elementwise_kernel", *[x.shape for x in xs])
        return Spec(shape, dtype or working_dtype([x.dtype for x in xs]))

    return out


def _with_checks(
    contract: Kernel, run: Function, supported: Sequence[DType]
) -> Function:
    """Return ``run`` with a check of the dtypes of inputs and of the attributes."""

    def implementation(*xs: ClArray, **values: Any) -> Any:
        work = working_dtype([x.dtype for x in xs])
        if work in supported:
            for name, value in values.items():
                number(contract, name, value, work)
            return run(*xs, **values)
        if contract.decomposition is not None:
            return NotImplemented
        known = " ".join(map(str, supported))
        raise TypeError(
            f"{contract.op}: no code for {work}; dtypes= lists {known}, so cast to one "
            "of these"
        )

    return implementation


def source_kernel(
    kernel: str | Kernel,
    code: str,
    *,
    out: Outputs = plugin.same,
    items: Callable[..., int] | None = None,
    group: int = GROUP_ITEMS,
    gradients: Gradients | None = None,
    decomposition: Function | None = None,
) -> CustomKernel:
    """Return an op that runs one ``__kernel`` function in OpenCL C.

    The parameters of the function are recognized by their names, in any order. Inputs
    and outputs are ``__global`` pointers, and attributes are numbers. ``x_size`` is the
    number of elements of ``x``, and ``x_shape0`` the size of its first axis. ``T`` is
    the type of the first input that is not bool, and ``x_t`` the type of ``x``. A
    pointer of another type, such as ``float``, restricts the op to that dtype. Arrays
    are row-major. Nothing checks for an index out of bounds, or for two work items that
    write the same element: the code must avoid both.

    Args:
        kernel: The signature of a new kernel, as ``plugrad.plugin.Kernel`` accepts it.
            Alternatively, the contract or the name of an existing kernel, which keeps
            its gradient.
        code: OpenCL C, with one ``__kernel void name(...)``.
        out: A function that returns the specs of the outputs, from the specs of the
            inputs and the attributes.
        items: A function of the same arguments that returns the number of work items;
            by default one for each element of the first output. The number is rounded
            up to whole groups: items past the end must return.
        group: The number of work items in a group.
        gradients: A function for each input, as for ``plugrad.register_gradient``.
        decomposition: The same computation with ops, for other backends.

    Raises:
        ValueError: The name has no dot or is taken, a parameter or a gradient does not
            match the signature, or the group size is invalid.
        TypeError: At a call: inputs or attributes do not have the types in ``code``.

    If the code does not compile, its first use raises a BackendError with the
    compiler's log, which refers to the lines of ``code``.

    """
    contract = _contract("source_kernel", kernel, out)
    if contract.out is None:
        raise ValueError(f"source_kernel: {contract} has no rule for its outputs")
    if group not in range(1, 2**31):
        raise ValueError(f"source_kernel: group {group!r} must be an int, 1 or more")
    program = Source(contract, code, group)

    def implementation(*xs: Any, **values: Any) -> Any:
        device = xs[0].device  # without inputs, xs[0] is the Arrays of the backend
        arrays = [x for x in xs if not isinstance(x, ClArrays)]
        specs = [Spec(x.shape, x.dtype) for x in arrays]
        found = contract.out(*specs, **values)  # type: ignore[misc]
        if found is None:
            raise ValueError(f"{contract.name}: out= gives no specs for {specs}")
        wanted = [found] if isinstance(found, Spec) else found
        ys = [empty(device, *spec) for spec in wanted]
        count = items(*specs, **values) if items else ys[0].size
        if count:
            program.launch(device, count, [*arrays, *ys], values)
        return ys[0] if contract.single else tuple(ys)

    return CustomKernel(contract, implementation, gradients, decomposition)


class CustomKernel:
    """The op of a custom kernel; call it with tensors, and attributes by keyword.

    Attributes:
        kernel: The contract of the kernel.
        backends: The names of the backends on which the kernel is registered.

    """

    def __init__(
        self,
        contract: Kernel,
        implementation: Function,
        gradients: Gradients | None,
        decomposition: Function | None,
        dtypes: Sequence[DType] | None = None,
    ) -> None:
        self._dtypes = dtypes  # None for a source kernel: inputs may differ in dtype
        self._rules: dict[str, Any] = dict(gradients or {})
        known = plugin.contracts().get(contract.name)
        if "." not in contract.name and (known is None or decomposition is not None):
            raise ValueError(
                f"{contract.name}: a new kernel needs a dotted name, such as "
                f"'mylib.{contract.name}'; only a new kernel takes decomposition="
            )
        _check(contract, self._rules, decomposition)
        found = [n for n in pg.backends() if re.fullmatch(r"opencl(-\d+)?", n)]
        self.backends = tuple(found or ["opencl"])
        for backend in self.backends:
            pg.register_kernel(
                contract if "." in contract.name else contract.name,
                backend,
                implementation,
            )
        self.kernel = plugin.contracts()[contract.name]  # registered first
        if decomposition is not None:
            self.kernel.decomposition = decomposition
        if self._rules:
            pg.register_gradient(contract.name, **self._rules)

    def __call__(self, *inputs: TensorLike, **attrs: Any) -> Any:
        """Return the output, or a tuple of several outputs."""
        if self._dtypes is None:
            xs: list[Any] = [pg.asarray(x) for x in inputs]
        else:
            xs = self._common_dtype(inputs, self._dtypes)
            geometry.broadcast(self.kernel.op, *[x.shape for x in xs])
        return pg.run_kernel(self.kernel.name, xs, attrs)

    def unregister(self) -> None:
        """Remove the kernel and its gradients; those that they replaced apply again."""
        for backend in self.backends:
            pg.unregister_kernel(self.kernel.name, backend)
        if self._rules:
            pg.unregister_gradient(self.kernel.name)

    def _common_dtype(self, xs: Sequence[Any], allowed: Sequence[DType]) -> list[Any]:
        """Return inputs with a common dtype; Python numbers adopt the tensors' dtype.

        bool tensors are masks and keep their dtype if there are other tensors.
        """
        given = [x if isinstance(x, int | float) else pg.asarray(x) for x in xs]
        tensors = [x for x in given if isinstance(x, Tensor)]
        tensors = tensors or [pg.asarray(x) for x in given]
        numbers = [x.dtype for x in tensors if x.dtype.kind != "b"]
        floating = [d for d in numbers if d.kind in "fc"]
        dtype = np.result_type(*floating or numbers or [np.dtype(bool)])
        real = np.dtype(np.float32)
        weak = any(type(x) is float for x in given)  # makes integers floating
        if dtype.kind in "biu" and (weak or (dtype not in allowed and real in allowed)):
            dtype = real
        masks = [x for x in tensors if x.dtype.kind == "b" and numbers]
        return [
            x if any(x is m for m in masks) else pg.asarray(x, dtype=dtype)
            for x in given
        ]


# --- contracts -------------------------------------------------------------------


def _contract(
    caller: str, kernel: str | Kernel, out: Outputs, assigned: str = ""
) -> Kernel:
    """Return the contract; each of its inputs and outputs must be a single array.

    ``assigned`` is the name of the output of an elementwise kernel, whose inputs
    broadcast.
    """
    if isinstance(kernel, Kernel):
        contract = kernel
    elif not isinstance(kernel, str):
        raise TypeError(f"{caller}: expected a signature or a Kernel, got {kernel!r}")
    elif kernel in plugin.contracts():
        contract = plugin.contracts()[kernel]
    elif "(" not in kernel:
        raise ValueError(
            f"{caller}: there is no kernel {kernel!r}; a new one needs a signature, "
            "such as 'mylib.Name(x, y; attribute)'"
        )
    else:
        has_outputs = "->" in kernel or not assigned
        contract = Kernel(kernel if has_outputs else f"{kernel} -> {assigned}", out=out)
        contract.broadcasts = bool(assigned) and len(contract.inputs) > 1
    if contract.variadic or contract.variadic_outputs or contract.optional:
        raise ValueError(
            f"{caller}: {contract} has variadic or optional inputs or outputs"
        )
    return contract


def _check(
    contract: Kernel, rules: dict[str, Any], decomposition: Function | None
) -> None:
    """Raise unless the rules fit the contract, before anything is registered."""
    copy = Kernel(str(contract), fused=contract.fused)
    plugin.gradients(copy, **rules)
    if decomposition is not None:
        plugin.decomposition(contract)(decomposition)


def _dtype(caller: str, name: str) -> DType:
    known = [str(d) for d in source.C]
    if name not in known:
        raise TypeError(f"{caller}: unknown dtype {name!r}; use {', '.join(known)}")
    return np.dtype(name)
