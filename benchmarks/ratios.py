"""Ratios that the report computes from the records, and their geometric means.

A ratio is the time of another library divided by the time of plugrad: above 1, plugrad
is faster.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from benchmarks.records import Label, Record

Results = dict[str, Record]
Ratios = dict[Label, float]

# Names of records that several charts and tables show.
MAIN = "workloads-xeon-1"  # the record that the front page shows
PRETRAINED = "onnx-pretrained-zen3-1"
PRETRAINED_OTHERS = "onnx-pretrained-others-zen3-1"  # the backends wasm and opencl
GROWTH = "growth-xeon-1"
GPU = "gpu-workloads-h100"
WORKLOADS = [
    f"workloads-{machine}-{threads}"
    for machine in ("xeon", "zen4", "zen3")
    for threads in (1, 2)
]
# Gradients, training steps and networks; the other workloads are single ops.
COMPOSED = {"grad_small", "custom_grad", "adam_1m", "tiny_mlp_train", "mlp_train"}
COMPOSED |= {"tiny_transformer", "transformer", "cnn_train", "mobilenet_v2"}
COMPILERS = {  # by the column of a record
    "cpu-jit-own": "plugrad with the compiler of the backend cpu",
    "cpu-jit": "plugrad with plugrad-llvm",
}


def mean(values: Iterable[float]) -> float:
    """Return the geometric mean."""
    return statistics.geometric_mean(values)


def column_ratios(record: Record, peer: str, ours: str) -> Ratios:
    """Return the ratio of two columns for each row that has a number in both."""
    ours_by_name = record.column(ours)
    return {
        name: time / ours_by_name[name]
        for name, time in record.column(peer).items()
        if name in ours_by_name
    }


def inverse(found: Ratios) -> Ratios:
    """Return the inverses of ratios."""
    return {name: 1 / ratio for name, ratio in found.items()}


def jit_column(record: Record) -> str:
    """Return the column of times under jit: with cpu's own compiler, if measured."""
    return next(name for name in COMPILERS if name in record.columns)


def single_ops(found: Ratios) -> Ratios:
    """Return the ratios of the workloads that are single ops."""
    return {name: ratio for name, ratio in found.items() if name not in COMPOSED}


def composed(found: Ratios) -> Ratios:
    """Return the ratios of gradients, training steps and networks."""
    return {name: ratio for name, ratio in found.items() if name in COMPOSED}


def curves(record: Record) -> dict[tuple[Label, Label], list[float | None]]:
    """Return the numbers of each row, by the row's two names."""
    return {
        (row[0], row[1]): [None if x is None else float(x) for x in row[2:]]
        for row in record.rows
    }


# --- training --------------------------------------------------------------------

TRAINING = {  # training workloads, and their titles in the table
    "tiny_mlp_train": "MLP 8-16-16-2, step of SGD",
    "mlp_train": "MLP 784-256-128-10, step of SGD",
    "cnn_train": "small CNN, step of SGD",
    "tiny_transformer": "transformer block of width 32, gradient",
    "transformer": "transformer block of width 256, gradient",
}
ADAMW = "AdamW, 10 million parameters in {:,} tensors"
LANGUAGE_MODEL = "language model of 4 layers, step of AdamW"


def training(results: Results, threads: int) -> dict[str, Ratios]:
    """Return the ratios of PyTorch and of JAX to plugrad with plugrad-llvm, by name."""
    workloads = results[f"workloads-xeon-{threads}"]
    found: dict[str, Ratios] = {}
    for peer in ("torch", "jax-jit"):
        by_workload = column_ratios(workloads, peer, "cpu-jit")
        found[peer] = {title: by_workload[name] for name, title in TRAINING.items()}
    torch, jax = found.values()
    adamw = results["adamw-xeon"]
    for row in adamw.rows:
        cells = dict(zip(adamw.columns, row, strict=True))
        if cells["threads"] == threads:
            name = ADAMW.format(cells["tensors"])
            torch[name] = float(cells["PyTorch"] / cells["plugrad, next to PyTorch"])
            jax[name] = float(cells["optax"] / cells["plugrad, next to optax"])
    tokens = results["language-model-xeon"]
    if tokens.threads == threads:
        rate = tokens.column("tokens")
        torch[LANGUAGE_MODEL] = rate["cpu"] / rate["torch"]
    return found
