"""``from_dlpack``: arrays of other libraries as tensors, without a copy if possible.

``Tensor.__dlpack__`` is the counterpart that exports tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plugrad._src.engine.dispatch import active
from plugrad._src.ops.basis._convert import asarray, call_on_device, notify_created
from plugrad._src.ops.basis.variable import Variable
from plugrad._src.registry.backend import OpenBackend, share
from plugrad._src.tensor import dlpack
from plugrad._src.tensor.arguments import flag
from plugrad._src.tensor.dtypes import DType, canonical
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.tensor import HOST, Native, Tensor


def from_dlpack(
    x: Any, /, *, device: str | None = None, copy: bool | None = None
) -> Tensor:
    """Return the array of another library as a tensor on the active backend.

    Args:
        x: An object with ``__dlpack__``, from NumPy, PyTorch, JAX, CuPy... A plugrad
            tensor or variable is returned unchanged, with its gradient.
        device: The backend of the tensor; by default the active one.
        copy: None shares memory if the backend can do so (cpu can), and copies
            otherwise; do not write to shared memory. True always copies, False never
            does.

    Returns:
        A tensor.

    Raises:
        TypeError: ``x`` has no ``__dlpack__``, or a dtype that plugrad or the backend
            lacks.
        BufferError: The backend cannot share the memory and ``copy`` is False, or the
            other library does not export it (PyTorch: detach the tensor first).

    Example:
        >>> pg.from_dlpack(np.asarray([1.0, 2.0], np.float32))
        Tensor([1., 2.], dtype=float32, backend='cpu')

    """
    if device is not None:
        return call_on_device(device, from_dlpack, x, copy=copy)
    if isinstance(x, Tensor | Variable):
        return asarray(x, copy=copy)
    kind = type(x).__name__
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise TypeError(f"from_dlpack: {kind} has no __dlpack__; use asarray")
    copy = None if copy is None else flag("from_dlpack", "copy", copy)
    backend = active()
    try:
        native = _taken(x, backend, copy)
    except RuntimeError as error:  # NumPy lacks the dtype
        raise TypeError(
            f"from_dlpack: {kind} of dtype {getattr(x, 'dtype', '?')}: {error}; cast "
            "it first"
        ) from error
    if _known(native.dtype) not in backend.dtypes:
        wrong = TypeError(
            f"from_dlpack: backend {backend.name!r} has no {native.dtype}; cast first"
        )
        raise explained(wrong, "backend-lacks-the-dtype")
    return notify_created(Tensor(native, backend))


def _taken(x: Any, backend: OpenBackend, copy: bool | None) -> Native:
    """Return a native array that shares the memory of ``x``, or has a copy."""
    take = None if copy else getattr(backend.runtime.arrays, "from_dlpack", None)
    is_half = dlpack.is_bfloat16(x)
    native = NotImplemented if take is None or is_half else take(x)
    if native is not NotImplemented:
        return share(native)
    place = tuple(x.__dlpack_device__())
    can_share = is_half and take is not None and place == HOST
    if copy is False and not can_share:
        raise BufferError(
            f"from_dlpack: backend {backend.name!r} cannot share memory of device "
            f"{place} with {type(x).__name__}; allow a copy"
        )
    # The other library copies from its device.
    device: Any = None if place == HOST else "cpu"
    host = (dlpack.host_array if is_half else np.from_dlpack)(x, device=device)
    native = backend.upload(np.array(host, _known(host.dtype), copy=copy))
    is_shared = isinstance(native, np.ndarray) and np.may_share_memory(native, host)
    return share(native) if is_shared else native


def _known(dtype: DType) -> DType:
    try:
        return canonical(dtype)
    except TypeError as error:
        raise TypeError(f"from_dlpack: {error}; cast first") from None
