"""The other blocks of ``python -m benchmarks.report``: whole tables of records.

They are on docs/measurements.md, and on the pages about ``jit``, ONNX and training.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks import ratios
from benchmarks.markdown import (
    cell,
    extreme,
    folded,
    joined,
    mean_of,
    paragraph,
    picture,
    table,
    two_decimals,
)
from benchmarks.ratios import Ratios, Results, mean
from benchmarks.records import Label, Record

UNITS = {"us": "microseconds", "ms": "milliseconds"}
Pairs = Sequence[tuple[str, str]]  # pairs of columns, whose ratios become columns

# --- whole records ---------------------------------------------------------------


def whole(record: Record, pairs: Pairs = ()) -> str:
    """Return the table of a record, with columns of ratios and their means."""
    found = [ratios.column_ratios(record, *pair) for pair in pairs]
    rows = [
        [
            *map(cell, row),
            *(two_decimals(x[row[0]]) if row[0] in x else "" for x in found),
        ]
        for row in record.rows
    ]
    if pairs:
        means = [mean_of(x) for x in found]
        rows.append(["geometric mean", *[""] * (len(record.columns) - 1), *means])
    head = [*record.columns, *(" / ".join(pair) for pair in pairs)]
    return table(head, rows, "l" * record.labels)


def source(record: Record) -> str:
    """Return a paragraph that says how a record was measured."""
    versions = ", ".join(f"{name} {value}" for name, value in record.versions.items())
    parts = [f"`{record.command}`", record.conditions, versions]
    text = "; ".join(part for part in parts if part)
    return paragraph(" ".join([f"{text}.", *record.notes]))


def details(results: Results, page: str, names: Sequence[str], pairs: Pairs) -> str:
    """Return whole records, each folded."""
    parts = []
    for name in names:
        record = results[name]
        body = joined(whole(record, pairs), source(record))
        parts.append(folded(f"{record.place_and_time()}{unit_caption(record)}", body))
    return joined(*parts)


def plain(results: Results, page: str, name: str, pairs: Pairs = ()) -> str:
    """Return a whole record that is not folded."""
    record = results[name]
    caption = f"{record.place_and_time()}{unit_caption(record)}."
    return joined(whole(record, pairs), caption, source(record))


def unit_caption(record: Record) -> str:
    """Return the unit as part of a caption."""
    if isinstance(record.unit, str):
        return f", in {UNITS.get(record.unit, record.unit)}"
    return ""


# --- workloads -------------------------------------------------------------------


def torch_advantage(results: Results, page: str, machine: str) -> str:
    """Return the workloads in which PyTorch beats eager plugrad, and by how much."""
    found = []
    for threads in (1, 2):
        record = results[f"workloads-{machine}-{threads}"]
        by_name = ratios.column_ratios(record, "torch", "cpu")
        percents = {name: round(100 / x - 100) for name, x in by_name.items()}
        found.append({name: n for name, n in percents.items() if n > 0})
    rows = [
        [str(name), *(f"{x[name]} %" if name in x else "" for x in found)]
        for name in dict.fromkeys([*found[0], *found[1]])
    ]
    if not rows:
        return paragraph(
            "Eager plugrad is at least as fast as PyTorch in all workloads."
        )
    return table(["PyTorch is faster in", "one thread", "two threads"], rows)


def jax_single_ops(results: Results, page: str) -> str:
    """Return the mean ratios of JAX under jit to eager plugrad, for single ops."""
    rows = []
    for name in ratios.WORKLOADS:
        record = results[name]
        found = ratios.single_ops(ratios.column_ratios(record, "jax-jit", "cpu"))
        means = mean_of(found), extreme(found, min), extreme(found, max)
        rows.append([record.place_and_time(), str(len(found)), *means])
    head = ["", "single ops", "JAX, `jit` / plugrad, eager", "smallest", "largest"]
    return table(head, rows)


def tfjs(results: Results, page: str) -> str:
    """Return the ratios of TensorFlow.js' times to those of cpu and wasm."""
    rows, shown = [], ("geometric mean", "smallest", "largest")
    for name in ("tfjs-xeon-1", "tfjs-zen3-1"):
        record = results[name]
        for row in record.rows:
            cells = dict(zip(record.columns, row, strict=True))
            known = [cell(cells.get(name)) for name in shown]
            rows.append([record.place_and_time(), str(row[0]), *known])
    head = ["", "backend", "TensorFlow.js / plugrad", *shown[1:]]
    return table(head, rows, "ll")


SHOWN_UNDER_JIT = {  # workloads on docs/jit.md, and their titles there
    "grad_small": "gradient of an 8x8 array",
    "tiny_mlp_train": "training step of an MLP of 16 units",
    "gelu_1m": "gelu of 1,000,000 numbers",
    "adam_1m": "step of Adam, 1,048,576 weights",
    "mlp_train": "training step of an MLP of 256 units, batch 128",
    "cnn_train": "training step of a small convolutional network",
    "transformer": "gradient of a transformer block of width 256",
}


def jit_workloads(results: Results, page: str) -> str:
    """Return the times of the workloads on docs/jit.md."""
    record = results[ratios.MAIN]
    columns = [record.cells(x) for x in ("cpu", "cpu-jit-own", "torch", "jax-jit")]
    rows = [
        [title, *(cell(column[name]) for column in columns)]
        for name, title in SHOWN_UNDER_JIT.items()
    ]
    head = ["one thread, us", "eager", "jit", "PyTorch", "JAX, jitted"]
    caption = f"{record.place_and_time()}: `{record.command}`."
    return joined(table(head, rows), paragraph(caption))


# --- ONNX models -----------------------------------------------------------------

BACKENDS = ("cpu", "wasm", "opencl")


def onnx_shipped(results: Results, page: str) -> str:
    """Return the times of the networks that the package onnx ships."""
    record = results["onnx-shipped-xeon-1"]
    jitted = [f"{name}, jit" for name in BACKENDS]
    columns = [record.cells(name) for name in ("onnxruntime", "cpu", *jitted)]
    rows = [
        [str(name), *(cell(column[name]) for column in columns)]
        for name in record.names()
    ]
    head = ["milliseconds", "ONNX Runtime", "cpu", *(f"{x}, `jit`" for x in BACKENDS)]
    means = [
        f"{mean_of(x)} on {name}" for name, x in _ratios_to_runtime(record).items()
    ]
    text = (
        f"{record.place_and_time()}. The geometric mean of the ratios to ONNX "
        f"Runtime's time under `jit` is {', '.join(means[:-1])} and {means[-1]}."
    )
    return joined(table(head, rows), paragraph(text))


def _ratios_to_runtime(record: Record) -> dict[str, Ratios]:
    """Return the time under jit divided by that of ONNX Runtime, by backend."""
    return {
        name: ratios.column_ratios(record, f"{name}, jit", "onnxruntime")
        for name in BACKENDS
    }


def onnx_generated(results: Results, page: str) -> str:
    """Return the times of generated networks, and their ratios to ONNX Runtime."""
    record = results["onnx-generated-xeon-1"]
    runtime, rows = record.cells("onnxruntime"), []
    for model in record.names():
        cells = [str(model), cell(runtime[model])]
        for name, by_model in _ratios_to_runtime(record).items():
            ratio, time = by_model[model], record.cells(f"{name}, jit")[model]
            cells += [cell(time), f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"]
        rows.append(cells)
    head = ["", "ONNX Runtime", *(part for name in BACKENDS for part in (name, ""))]
    return joined(table(head, rows), f"{record.place_and_time()}, in milliseconds.")


OTHER_NETWORKS = re.compile("int8|lstm|gru")  # all but float32 image networks


def onnx_on_zen3(results: Results, page: str) -> str:
    """Return the ratios of a later run, on the Zen 3 processor."""
    record = results["onnx-networks-zen3-1"]
    found = record.column("cpu, jit")
    images = [x for name, x in found.items() if not OTHER_NETWORKS.search(str(name))]
    text = (
        f"{record.place_and_time()}. The geometric mean is {mean_of(found)}, and "
        f"{two_decimals(mean(images))} for the {len(images)} image networks in float32."
    )
    return joined(whole(record), paragraph(text))


def onnx_pretrained(results: Results, page: str) -> str:
    """Return the times of pretrained models."""
    record, others = results[ratios.PRETRAINED], results[ratios.PRETRAINED_OTHERS]
    columns = [record.cells(name) for name in ("package", "onnxruntime", "cpu")]
    columns += [
        others.cells("wasm"),
        others.cells("opencl"),
        record.cells("difference"),
    ]
    rows = [
        [str(name), *(cell(column[name]) for column in columns)]
        for name in record.names()
    ]
    cpu = mean_of(record.column("cpu"))
    wasm, opencl = (mean_of(others.column(name)) for name in ("wasm", "opencl"))
    text = (
        f"{record.place_and_time()}; wasm and opencl {others.day()}. The geometric "
        f"mean is {cpu} on cpu, {wasm} on wasm and {opencl} on opencl."
    )
    head = ["", "package", "ONNX Runtime", *BACKENDS, "largest difference"]
    return joined(table(head, rows, "ll"), paragraph(text))


# --- training and growth ---------------------------------------------------------

CONTESTANTS = {  # of the language model, and their titles on docs/train.md
    "torch": "PyTorch, eager",
    "cpu": "cpu, `jit`",
    "cpu-eager": "cpu",
    "opencl": "opencl, `jit`",
    "wasm": "wasm, `jit`",
}


def language_model(results: Results, page: str) -> str:
    """Return the tokens per second of the language model."""
    record = results["language-model-xeon"]
    tokens = record.column("tokens")
    rows = [
        [title, f"{tokens[name]:,.0f}", two_decimals(tokens[name] / tokens["torch"])]
        for name, title in CONTESTANTS.items()
    ]
    head = ["", "tokens/s", "ratio to PyTorch"]
    return joined(table(head, rows), f"{record.place_and_time()}.")


def growth_of_all(results: Results, page: str) -> str:
    """Return the chart of all workloads."""
    record = results[ratios.GROWTH]
    names: set[Label] = {*record.names()}
    alternative = f"The time per element by size, for {len(names)} workloads"
    return joined(picture("growth-all", alternative, page), source(record))


# --- all blocks ------------------------------------------------------------------

OWN_COMPILER_PAIRS = (
    ("torch", "cpu"),
    ("torch", "cpu-jit-own"),
    ("jax-jit", "cpu-jit-own"),
)
LLVM_JIT_PAIRS = (("torch", "cpu-jit"), ("jax-jit", "cpu-jit"))
LLVM_PAIRS = (("torch", "cpu"), ("jax-jit", "cpu"), *LLVM_JIT_PAIRS)
TORCH_COMPILE_PAIRS = (("torch-compile", "cpu-jit"), *LLVM_JIT_PAIRS)
GPU_PAIRS = (("torch-cuda", "opencl-mixed"), ("jax-cuda", "opencl-mixed"))
OPENCL_RUNTIME_PAIRS = (("torch", "opencl"), ("torch", "opencl-1"))
WASM_PAIRS = (
    ("torch", "wasm"),
    ("tfjs", "wasm"),
    ("torch", "opencl"),
    ("tfjs", "opencl"),
)

DETAILS: dict[str, Callable[[Results, str], str]] = {
    "workloads on the Xeon": partial(
        details,
        names=["workloads-xeon-1", "workloads-xeon-2"],
        pairs=OWN_COMPILER_PAIRS,
    ),
    "workloads on Zen 4": partial(
        details,
        names=["workloads-zen4-1", "workloads-zen4-2"],
        pairs=OWN_COMPILER_PAIRS,
    ),
    "workloads on Zen 3": partial(
        details, names=["workloads-zen3-1", "workloads-zen3-2"], pairs=LLVM_PAIRS
    ),
    "slower on the Xeon": partial(torch_advantage, machine="xeon"),
    "slower on Zen 4": partial(torch_advantage, machine="zen4"),
    "slower on Zen 3": partial(torch_advantage, machine="zen3"),
    "JAX and single ops": jax_single_ops,
    "TensorFlow.js": tfjs,
    "torch.compile": partial(
        plain, name="torch-compile-xeon", pairs=TORCH_COMPILE_PAIRS
    ),
    "pool and C kernels": partial(plain, name="pool-and-c-kernels-xeon"),
    "AdamW": partial(plain, name="adamw-xeon"),
    "memory of training": partial(plain, name="memory-zen3"),
    "growth of all workloads": growth_of_all,
    "wasm": partial(details, names=["wasm-1"], pairs=(("tfjs", "wasm"),)),
    "wasm and opencl": partial(details, names=["wasm-opencl-2"], pairs=WASM_PAIRS),
    "OpenCL runtimes": partial(
        details, names=["opencl-runtimes-1"], pairs=OPENCL_RUNTIME_PAIRS
    ),
    "workloads on a GPU": partial(
        details, names=["gpu-workloads-h100"], pairs=GPU_PAIRS
    ),
    "bandwidth of a GPU": partial(plain, name="gpu-bandwidth-h100"),
    "products on a GPU": partial(plain, name="gpu-products-h100"),
    "jit of workloads": jit_workloads,
    "networks of onnx": onnx_shipped,
    "generated networks": onnx_generated,
    "networks on Zen 3": onnx_on_zen3,
    "pretrained models": onnx_pretrained,
    "language model": language_model,
}
