"""Measure the errors of first and second derivatives over the whole range of floats.

    python benchmarks/tails.py                       # cpu, a table on the screen
    python benchmarks/tails.py --backend opencl --only "tanh;gelu"
    python benchmarks/tails.py --peers PYTHON --write docs/tails.md

PYTHON is an interpreter with torch and jax. The reference is mpmath. The unit is the
ulp of the exact result: the distance between the two nearest numbers of the dtype.
Where x is 0.5 to 1.5 times a zero of the derivative, the derivative may change by more
than this ulp when x changes by half an ulp of x. If so, this change is the unit.
Results below 1024 times the smallest normal number, and results that the dtype cannot
represent, are left out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

DTYPES = ("float32", "float64")
TABLE_MARKER = "<!-- tails -->\n"
Array = np.ndarray[Any, Any]


def points(low: float, high: float, dtype: str) -> Array:
    """Return numbers of all exponents and both signs, and some near special points."""
    info = np.finfo(dtype)
    exponents = np.arange(info.minexp - info.nmant, info.maxexp)
    exponents = exponents if dtype == "float32" else exponents[::7]
    sizes = np.ldexp(np.asarray([[1.0], [1.37]]), exponents).ravel()
    top = 50 if dtype == "float32" else 800
    far = np.linspace(0, top, 400)
    close = [0.25, 0.5, 1, 2**0.5, 2, np.pi / 2, 9.2, 17, 88.5, 103, 1024.0000000000002]
    steps = np.asarray([0, 1e-12, 1e-7, 1e-4, 0.01])
    near_special = np.outer(close, np.concatenate([1 + steps, 1 - steps])).ravel()
    x = np.concatenate([sizes, np.linspace(0, 12, 400), far, near_special])
    with np.errstate(all="ignore"):
        x = np.concatenate([-x, x, low + sizes, high - sizes]).astype(dtype)
    return np.unique(x[np.isfinite(x) & (x > low) & (x < high) & (x != 0)])


def errors(found: Array, x: Array, exact: Callable[[Any], Any]) -> Array:
    """Return the errors of ``found`` in the module's unit; 0 for results left out."""
    import mpmath as mp

    info = np.finfo(found.dtype)
    exact_values = [exact(mp.mpf(float(v))) for v in x]
    rounded = np.asarray([float(t) for t in exact_values])
    included = (np.abs(rounded) >= info.tiny * 1024) & (
        np.abs(rounded) < float(info.max)
    )
    with np.errstate(all="ignore"):
        gaps = np.spacing(np.abs(rounded).astype(found.dtype)).astype(float)
    for i in indices_near_zeros(x, rounded):
        shifted = exact(mp.mpf(float(x[i])) * (1 + mp.mpf(2) ** -60))
        change = abs(shifted - exact_values[i]) * mp.mpf(2) ** 60 * float(info.eps) / 2
        gaps[i] = max(gaps[i], float(change))
    result = np.zeros(len(x))
    for i in np.flatnonzero(included):
        if np.isfinite(found[i]):
            result[i] = float(
                abs(mp.mpf(float(found[i])) - exact_values[i]) / mp.mpf(gaps[i])
            )
        else:
            result[i] = np.inf
    return result


def indices_near_zeros(x: Array, y: Array) -> Iterable[int]:
    """Return the indices where x is 0.5 to 1.5 times a zero of y."""
    signs = np.sign(y)
    x = np.asarray(x, float)
    crossed = np.flatnonzero(
        (signs[:-1] * signs[1:] < 0) & (np.sign(x[:-1]) == np.sign(x[1:]))
    )
    near = np.zeros(len(x), bool)
    for zero in (x[crossed] + x[crossed + 1]) / 2:
        near |= np.abs(x - zero) <= 0.5 * np.abs(zero)
    return np.flatnonzero(near)


def plugrad_derivatives(op: Callable[..., Any], x: Array) -> tuple[Array, Array]:
    """Return the first and second derivatives of an op."""
    import plugrad as pg

    first = pg.grad(lambda x: pg.sum(op(x)))
    second = pg.grad(lambda x: pg.sum(first(x)))
    t = pg.asarray(x)
    return first(t).numpy(), second(t).numpy()


def torch_derivatives(text: str, x: Array) -> tuple[Array, Array]:
    """Return the first and second derivatives of a PyTorch expression."""
    import torch

    op = eval(text, {"torch": torch, "F": torch.nn.functional})
    t = torch.tensor(x, requires_grad=True)
    (first,) = torch.autograd.grad(op(t).sum(), t, create_graph=True)
    if not first.requires_grad:
        return first.numpy(), np.zeros_like(x)
    (second,) = torch.autograd.grad(first.sum(), t, allow_unused=True)
    second = torch.zeros_like(t) if second is None else second
    return first.detach().numpy(), second.numpy()


def jax_derivatives(text: str, x: Array) -> tuple[Array, Array]:
    """Return the first and second derivatives of a JAX expression."""
    import jax

    jax.config.update("jax_enable_x64", True)
    op = eval(text, {"jnp": jax.numpy, "jax": jax})
    first = jax.grad(lambda x: op(x).sum())
    second = jax.grad(lambda x: first(x).sum())
    return np.asarray(first(x)), np.asarray(second(x))


PEERS = {"torch": torch_derivatives, "jax": jax_derivatives}


def answer_request(path: str) -> None:
    """Replace the requests in a file with their answers; runs in the peers' Python."""
    requests = np.load(path)
    found = {}
    for key in requests.files:
        peer, text = key.split(" ", 1)
        first, second = PEERS[peer](text.rsplit(" ", 1)[0], requests[key])
        found[f"{key} 1"], found[f"{key} 2"] = first, second
    np.savez(path, **found)


def ask_peers(python: str, rows: dict[str, Any]) -> dict[str, Array]:
    """Return the peers' derivatives, by peer, expression, dtype and order."""
    requests = {
        f"{peer} {getattr(row, peer)} {dtype}": points(row.low, row.high, dtype)
        for row in rows.values()
        for peer in PEERS
        for dtype in DTYPES
    }
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "requests.npz"))
        np.savez(path, **requests)
        subprocess.run([python, __file__, "--answer", path], check=True)
        return dict(np.load(path))


def largest_errors(
    row: Any, dtype: str, peers: dict[str, Array]
) -> dict[str, list[float]]:
    """Return the largest errors of first and second derivatives, by library."""
    x = points(row.low, row.high, dtype)
    found = {"plugrad": plugrad_derivatives(row.op, x)}
    for peer in PEERS if peers else ():
        key = f"{peer} {getattr(row, peer)} {dtype}"
        found[peer] = peers[f"{key} 1"], peers[f"{key} 2"]
    return {
        name: [
            float(errors(y, x, exact).max())
            for y, exact in zip(ys, (row.first, row.second), strict=True)
        ]
        for name, ys in found.items()
    }


def error_text(error: float) -> str:
    """Return an error as text."""
    if not np.isfinite(error):
        return "∞"
    return f"{error:.1f}" if error < 100 else f"{error:.0e}".replace("e+0", "e")


def main() -> None:
    """Measure, print, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--only", default="", help="functions, separated by semicolons")
    parser.add_argument("--peers", help="an interpreter with torch and jax")
    parser.add_argument("--write", type=Path, help="the page whose table is replaced")
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        answer_request(options.answer)
        return
    import mpmath as mp
    import plugrad as pg
    from tails_functions import FUNCTIONS

    mp.mp.prec = 400
    names = options.only.split(";") if options.only else [*FUNCTIONS]
    rows = {name: FUNCTIONS[name] for name in names}
    peers = ask_peers(options.peers, rows) if options.peers else {}
    libraries = ["plugrad", *(PEERS if peers else ())]
    lines = [
        "| function | dtype | " + " | ".join(f"{n} f′ | {n} f″" for n in libraries)
    ]
    lines += ["| --- | --- |" + " ---: |" * (2 * len(libraries))]
    with pg.use_backend(options.backend):
        for name, row in rows.items():
            for dtype in DTYPES:
                found = largest_errors(row, dtype, peers)
                cells = [error_text(e) for library in libraries for e in found[library]]
                lines.append(f"| `{name}` | {dtype} | {' | '.join(cells)} |")
                print(lines[-1], flush=True)
    if options.write:
        before, _, after = options.write.read_text().split(TABLE_MARKER)
        table = "\n".join([lines[0] + " |", *lines[1:]]) + "\n"
        options.write.write_text(f"{before}{TABLE_MARKER}{table}{TABLE_MARKER}{after}")


if __name__ == "__main__":
    main()
    sys.exit(0)
