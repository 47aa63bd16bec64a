"""Every nonzero byte of a bool array is True.

Files and memory from other libraries may contain bytes other than 0 and 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import plugrad as pg
import pytest

BYTES = b"\x07\x00\xff\x01\x80\x00"
EXPECTED = [True, False, True, True, True, False]

Read = Callable[[Path], pg.Tensor]


def uploaded(_: Path) -> pg.Tensor:
    return pg.asarray(np.frombuffer(BYTES, bool))


def transposed(_: Path) -> pg.Tensor:
    """Read an array that is not contiguous."""
    table = np.frombuffer(BYTES, bool).reshape(2, 3).T
    return pg.reshape(pg.permute_dims(pg.asarray(table), (1, 0)), (6,))


def loaded(folder: Path) -> pg.Tensor:
    """Read a safetensors file from another writer."""
    entry = {"dtype": "BOOL", "shape": [6], "data_offsets": [0, 6]}
    header = json.dumps({"mask": entry}).encode()
    file = folder / "mask.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + BYTES)
    return pg.load(file)["mask"]


USES: dict[str, tuple[Callable[[pg.Tensor], pg.Tensor], object]] = {
    "read": (lambda x: x, EXPECTED),
    "==": (lambda x: x == pg.asarray(EXPECTED), [True] * 6),
    "!=": (lambda x: x != pg.asarray(EXPECTED), [False] * 6),
    "~": (lambda x: ~x, [not value for value in EXPECTED]),
    "&": (lambda x: x & pg.asarray([True] * 6), EXPECTED),
    "^": (lambda x: x ^ pg.asarray([True] * 6), [not value for value in EXPECTED]),
    "astype": (lambda x: pg.astype(x, "int32"), [1, 0, 1, 1, 1, 0]),
    "sum of int32": (lambda x: pg.sum(pg.astype(x, "int32")), 4),
    "times a float": (lambda x: x * 1.0, [1.0, 0.0, 1.0, 1.0, 1.0, 0.0]),
    "count_nonzero": (lambda x: pg.count_nonzero(x), 4),
    "where": (lambda x: pg.where(x, 1.0, 2.0), [1.0, 2.0, 1.0, 1.0, 1.0, 2.0]),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("read", [uploaded, transposed, loaded])
def test_every_nonzero_byte_is_true(
    read: Read, use: str, tmp_path: Path, backend: str
) -> None:
    function, expected = USES[use]
    x = read(tmp_path)
    assert (x.backend, x.dtype) == (backend, np.dtype(bool))
    assert function(x).tolist() == expected
