"""Files of named tensors, as safetensors: ``save`` and ``load``.

The format contains values, shapes, dtypes and names, but no code. The ``safetensors``
package reads and writes it; ``plugrad[io]`` installs this package, which is imported
when needed.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

import numpy as np

from plugrad._src.ops.basis._convert import asarray, tensor_of
from plugrad._src.registry.plugins import printable
from plugrad._src.tensor import arguments
from plugrad._src.tensor.dtypes import BFLOAT16, DTYPES, DType, named
from plugrad._src.tensor.tensor import Tensor, TensorLike

from .budget import Budget

fcntl: Any = None
with suppress(ImportError):  # on Windows
    fcntl = importlib.import_module("fcntl")

DRAFT = re.compile(r"\.[0-9a-f]{8}\.tmp")
NO_LOCKS = -1
PICKLE_HEAD_BYTES = 256  # includes the name of the first file in PyTorch's archives
Path = str | os.PathLike[str]

_CODES = {  # dtype names of the format -> plugrad's
    "BOOL": "bool",
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "BF16": "bfloat16",
    "C64": "complex64",
}
_WRITABLE_DTYPES = frozenset(DTYPES[name] for name in _CODES.values())


def save(path: Path, tensors: Mapping[str, TensorLike], /) -> None:
    """Write named tensors to a safetensors file; the file is complete or not written.

    Args:
        path: The file. An existing one is replaced when the new one is complete.
        tensors: A mapping from names to tensors of any backend, variables, arrays or
            numbers.

    Raises:
        ImportError: The safetensors package is not installed.
        TypeError: A name is not a string, or a tensor has a dtype that the format does
            not support: complex128 or string.
        ValueError: A name is empty or ``__metadata__``, which the format reserves.
        OSError: The file cannot be written; an existing one is left unchanged.

    Example:
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "weights.safetensors")
        ...     pg.save(path, {"w": [1.0, 2.0]})
        ...     pg.load(path)["w"].tolist()
        [1.0, 2.0]

    """
    package = _package("save")
    path = arguments.path("save", path)
    if not isinstance(tensors, Mapping):
        raise TypeError(
            "save: expected a mapping from names to tensors, got "
            f"{type(tensors).__name__}"
        )
    for name, x in tensors.items():
        if _has_dict(x):
            raise TypeError(
                f"save: {name!r} is a {type(x).__name__}, and save takes a flat dict "
                "of tensors; plugrad_train.Checkpoints saves trees"
            )
    arrays = {_checked_name(name): _values(name, x) for name, x in tensors.items()}
    target = os.path.realpath(path)  # so that a link is not replaced
    with _draft_folder(target) as folder:
        draft = os.path.join(folder, "draft")
        open(draft, "xb").close()  # creates the file with the default mode
        like = os.stat(target if os.path.exists(target) else draft)
        _write(package, arrays, draft, target)
        os.chmod(draft, stat.S_IMODE(like.st_mode))
        with open(draft, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(draft, target)


def _has_dict(value: object) -> bool:
    """Return whether a value is a dict, or a list or tuple with a dict inside."""
    if isinstance(value, list | tuple):
        return any(map(_has_dict, value))
    return isinstance(value, Mapping)


@contextmanager
def _draft_folder(target: str) -> Iterator[str]:
    """Make a folder next to ``target``, in which the block writes a draft.

    It also contains the temporary files of the safetensors package. The lock of the
    folder ends with the process, so the next process that saves ``target`` can remove
    the folder of a process that was killed.
    """
    _remove_abandoned(target)
    handle = None
    while handle is None:
        folder = f"{target}.{os.urandom(4).hex()}.tmp"
        os.mkdir(folder)
        with suppress(FileNotFoundError):  # another process considered it abandoned
            handle = _locked(folder, wait=True)
        if handle is not None and not os.path.exists(folder):  # removed as well
            _unlock(handle)
            handle = None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _unlock(handle)


def _remove_abandoned(target: str) -> None:
    """Remove the folders of processes that were killed while they saved ``target``."""
    parent, name = os.path.split(target)
    with suppress(OSError):  # saving will raise an error about the folder
        for entry in os.listdir(parent):
            if entry.startswith(name) and DRAFT.fullmatch(entry[len(name) :]):
                folder = os.path.join(parent, entry)
                with suppress(OSError):  # in use, or another process has removed it
                    handle = _locked(folder, wait=False)
                    if handle != NO_LOCKS:
                        shutil.rmtree(folder, ignore_errors=True)
                    _unlock(handle)


def _locked(folder: str, *, wait: bool) -> int:
    """Lock a folder and return its handle; ``NO_LOCKS`` if the system has no locks.

    Raises:
        BlockingIOError: Another process has locked it, and ``wait`` is false.
        OSError: There is no such folder.

    """
    if fcntl is None:
        return NO_LOCKS
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:  # a file system without locks
        os.close(handle)
        return NO_LOCKS
    return handle


def _unlock(handle: int) -> None:
    if handle != NO_LOCKS:
        fcntl.flock(handle, fcntl.LOCK_UN)  # a child may have inherited the handle
        os.close(handle)


def _write(
    package: ModuleType, arrays: Mapping[str, Any], draft: str, target: str
) -> None:
    """Write a file; turn operating-system errors of the package into OSErrors."""
    try:
        package.numpy.save_file(arrays, draft)
    except package.SafetensorError as error:
        code = re.search(r"\(os error (\d+)\)", str(error))
        if code is None:
            raise
        number = int(code[1])  # on Windows a winerror, which OSError translates
        raise OSError(number, f"save: {error}", target, number) from error


def load(path: Path, /, *, budget: Budget | None = None) -> dict[str, Tensor]:
    """Return the tensors in a safetensors file by name, on the active backend.

    The whole file is checked before the first tensor is made.

    Args:
        path: The file.
        budget: What loading may cost; by default ``Budget()``.

    Returns:
        A dict from name to tensor.

    Raises:
        ImportError: The safetensors package is not installed.
        OSError: The file cannot be read.
        ValueError: The file is not a safetensors file, or is damaged.
        BudgetError: The file has more tensors or bytes than the budget allows.
        TypeError: The file has a dtype that plugrad or the active backend lacks.

    Example:
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "weights.safetensors")
        ...     pg.save(path, {"w": [1.0, 2.0]})
        ...     list(pg.load(path))
        ['w']

    """
    package = _package("load")
    path = arguments.path("load", path)
    budget = Budget.started(budget, "load")
    try:
        budget.open(path).close()  # raises if it cannot be read
    except ValueError as error:
        raise ValueError(f"load: {error}") from None
    try:
        with package.safe_open(path, framework="np") as file:
            names = file.keys()
            budget.count(len(names))
            rows = {name: file.get_slice(name) for name in names}
            codes = {name: row.get_dtype() for name, row in rows.items()}
            for name, code in codes.items():
                width = _width(name, code, path)
                shape = rows[name].get_shape()
                budget.allocate(width * math.prod(shape))
            arrays = {n: file.get_tensor(n) for n in codes if codes[n] != "BF16"}
        arrays |= _read_bfloat16(path, [n for n in codes if n not in arrays])
    except package.SafetensorError as error:
        what = "a complete safetensors file"
        reason = _other_format(path) or printable(str(error))
        raise ValueError(f"load: {path} is not {what}: {reason}") from error
    return {name: _new_tensor(name, arrays[name]) for name in codes}


# What to do with files of other formats, by their first bytes.
_FORMATS = {
    b"GGUF": "it is a GGUF file; GGUFReader of the package gguf reads its tensors",
    b"\x93NUMPY": "it is a NumPy file; pass numpy.load(path) to asarray",
    b"\x89HDF\r\n": "it is an HDF5 file; h5py reads its arrays, which asarray accepts",
}


def _other_format(path: Path) -> str:
    """Return how to read a file of another format; empty for an unknown one."""
    with open(path, "rb") as file:
        head = file.read(PICKLE_HEAD_BYTES)
    is_pickle = head.startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"))
    if is_pickle or (head.startswith(b"PK\x03\x04") and b"data.pkl" in head):
        return "it is a PyTorch pickle; save it with safetensors.torch.save_file"
    if head.startswith(b"PK\x03\x04") and b".npy" in head:
        return "it is a NumPy archive; pass the arrays of numpy.load(path) to asarray"
    return next(
        (text for start, text in _FORMATS.items() if head.startswith(start)), ""
    )


def _width(name: str, code: str, path: Path) -> int:
    """Return the bytes per element; raise for a dtype that plugrad lacks."""
    if code not in _CODES:
        raise TypeError(
            f"load: {name!r} in {path} has dtype {code}, which plugrad does not "
            f"support; it reads {', '.join(_CODES)}"
        )
    return DTYPES[_CODES[code]].itemsize


def _read_bfloat16(path: Path, names: list[str]) -> dict[str, Any]:
    """Read bfloat16 tensors, which the package cannot convert to NumPy arrays."""
    found: dict[str, Any] = {}
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size)) if names else {}
    for name in names:
        begin, end = header[name]["data_offsets"]
        count = (end - begin) // 2
        offset = 8 + size + begin
        bits = np.fromfile(path, "<u2", count, offset=offset).astype(np.uint16)
        found[name] = bits.view(BFLOAT16).reshape(header[name]["shape"])
    return found


def _package(who: str) -> ModuleType:
    try:
        importlib.import_module("safetensors.numpy")
        return importlib.import_module("safetensors")
    except ImportError as error:
        raise ImportError(
            f"{who}: needs the safetensors package; try `pip install safetensors`"
        ) from error


def _checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"save: a name must be a str, got {name!r}")
    if name in ("", "__metadata__"):
        raise ValueError(f"save: a tensor cannot be named {name!r}; choose another")
    return name


def _values(name: str, x: TensorLike) -> np.ndarray[Any, DType]:
    """Return the values in C order, as the package expects them."""
    values = asarray(x)._values()
    if values.dtype not in _WRITABLE_DTYPES:
        raise TypeError(
            f"save: {name!r} is {named(values.dtype)}, which safetensors does not "
            "support; save its parts, or cast it"
        )
    return np.asarray(values, order="C")


def _new_tensor(name: str, values: np.ndarray[Any, DType]) -> Tensor:
    try:
        return tensor_of(values, copy=False)
    except TypeError as error:
        raise TypeError(f"load: {name!r}: {error}") from None
