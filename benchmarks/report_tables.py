"""The blocks of docs/benchmarks.md and the front page: an answer, a chart, a table.

A block is a function of the records and of the path of the page. All its numbers come
from the records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks import ratios
from benchmarks.markdown import (
    alternative_text,
    extreme,
    joined,
    mean_of,
    paragraph,
    picture,
    span,
    table,
    two_decimals,
)
from benchmarks.ratios import Ratios, Results, mean
from benchmarks.records import Record, threads_in_words
from benchmarks.report_details import DETAILS

Block = Callable[[Results, str], str]


def place(record: Record) -> list[str]:
    """Return the cells that say where and when a record was measured."""
    return [record.machine, str(record.threads), record.day()]


# --- the questions of docs/benchmarks.md -----------------------------------------


def eager(results: Results, page: str) -> str:
    """Answer how fast eager code is on a CPU."""
    found = {
        name: ratios.column_ratios(results[name], "torch", "cpu")
        for name in ratios.WORKLOADS
    }
    record, first = results[ratios.MAIN], found[ratios.MAIN]
    others = [mean(x.values()) for name, x in found.items() if name != ratios.MAIN]
    rows = [
        [*place(results[name]), mean_of(x), extreme(x, min), extreme(x, max)]
        for name, x in found.items()
    ]
    head = ["machine", "threads", "date", "PyTorch / plugrad", "smallest", "largest"]
    return joined(
        paragraph(
            f"On {threads_in_words(record.threads or 1)} of an {record.machine}, "
            f"PyTorch takes {mean_of(first)} times as long as plugrad in the geometric "
            f"mean of {len(first)} workloads; with two threads, and on two other "
            f"processors, the mean is {span(others)}."
        ),
        picture("eager", alternative_text(first, "of PyTorch to eager plugrad"), page),
        table(head, rows, "lrl"),
    )


def jit(results: Results, page: str) -> str:
    """Answer how much jit gains."""
    rows = []
    columns = {}
    for name in ratios.WORKLOADS:
        record = results[name]
        ours = ratios.jit_column(record)
        columns[name] = [
            ratios.column_ratios(record, peer, ours)
            for peer in ("cpu", "torch", "jax-jit")
        ]
        compiler = "plugrad-llvm" if ours == "cpu-jit" else "cpu's own"
        rows.append([*place(record), compiler, *map(mean_of, columns[name])])
    eager, torch, jax = columns[ratios.MAIN]
    head = ["machine", "threads", "date", "compiler", "plugrad, eager"]
    return joined(
        paragraph(
            f"`jit` makes {len(torch)} workloads {mean_of(eager)} times as fast in the "
            f"geometric mean: eager PyTorch then takes {mean_of(torch)} times as long "
            f"as plugrad, and JAX under `jax.jit` {mean_of(jax)} times."
        ),
        picture(
            "jit", alternative_text(torch, "of PyTorch to plugrad under jit"), page
        ),
        paragraph(
            "Each of the last three columns shows the geometric mean of a time divided "
            "by the time of plugrad under `jit`; the compiler is plugrad's."
        ),
        table([*head, "PyTorch, eager", "JAX, `jit`"], rows, "lrll"),
    )


def onnx(results: Results, page: str) -> str:
    """Answer how fast ONNX models are."""
    record, others = results[ratios.PRETRAINED], results[ratios.PRETRAINED_OTHERS]
    backends = ("cpu", "wasm", "opencl")
    cpu, wasm, opencl = (
        ratios.inverse(source.column(name))
        for source, name in zip((record, others, others), backends, strict=True)
    )
    networks = [_networks(results, name) for name in backends]
    later = results["onnx-networks-zen3-1"]
    elsewhere = ratios.inverse(later.column("cpu, jit"))
    rows = [
        ["pretrained models", *_means(record, [cpu]), "", ""],
        ["pretrained models", *_means(others, [{}, wasm, opencl])],
        ["networks", *_means(results["onnx-shipped-xeon-1"], networks)],
        ["networks", *_means(later, [elsewhere]), "", ""],
    ]
    faster = sum(ratio >= 1 for ratio in cpu.values())
    return joined(
        paragraph(
            f"On the backend cpu, ONNX Runtime takes {mean_of(cpu)} times as long as "
            f"plugrad in the geometric mean of {len(cpu)} pretrained models; plugrad "
            f"is at least as fast in {faster} of them."
        ),
        picture("onnx", alternative_text(cpu, "of ONNX Runtime to plugrad"), page),
        paragraph(
            "Each backend's column shows the geometric mean of ONNX Runtime's time "
            "divided by that of the backend, on one thread. The networks run under "
            "`jit`; for the pretrained models, the faster of eager and `jit` counts."
        ),
        table(["models", "number", "machine", "date", *backends], rows, "lrll"),
    )


def _networks(results: Results, backend: str) -> Ratios:
    """Return the ratios of ONNX Runtime to plugrad under jit for all networks."""
    found: Ratios = {}
    for name in ("onnx-shipped-xeon-1", "onnx-generated-xeon-1"):
        found |= ratios.column_ratios(results[name], "onnxruntime", f"{backend}, jit")
    return found


def _means(record: Record, columns: Sequence[Ratios]) -> list[str]:
    """Return a row: the number of models, the machine, the date, and the means."""
    means = [mean_of(column) if column else "" for column in columns]
    return [str(len(columns[-1])), record.machine, record.day(), *means]


def growth(results: Results, page: str) -> str:
    """Answer how the cost grows with the size of the arrays."""
    record = results[ratios.GROWTH]
    curves = ratios.curves(record)
    names = [*dict.fromkeys(record.names())]
    rows, means = [], []
    for number, size in enumerate(record.columns[record.labels :]):
        found: Ratios = {}
        for name in names:
            ours, theirs = curves[name, "cpu"][number], curves[name, "torch"][number]
            if ours and theirs:
                found[name] = theirs / ours
        means.append(mean(found.values()))
        faster = sum(ratio < 1 for ratio in found.values())
        rows.append([size, two_decimals(means[-1]), f"{faster} of {len(found)}"])
    return joined(
        paragraph(
            "The time per element rises where the arrays no longer fit into a cache: "
            f"at {rows[-1][0]} times the size of the workloads, PyTorch takes "
            f"{two_decimals(means[-1])} times as long as plugrad in the geometric mean."
        ),
        picture("growth", "Curves of the time per element by size", page),
        table(["size", "PyTorch / plugrad", "PyTorch is faster in"], rows, "r"),
        paragraph(
            f"{record.place_and_time()}. Both libraries run eagerly; size 1 is the "
            "workload."
        ),
    )


def training(results: Results, page: str) -> str:
    """Answer how fast training is."""
    columns = [
        found
        for threads in (1, 2)
        for found in ratios.training(results, threads=threads).values()
    ]
    rows = [
        [
            str(name),
            *(two_decimals(found[name]) if name in found else "" for found in columns),
        ]
        for name in columns[0]
    ]
    head = ["", "PyTorch, one thread", "JAX, one thread"]
    head += ["PyTorch, two threads", "JAX, two threads"]
    record, torch, jax = results[ratios.MAIN], columns[0], columns[1]
    return joined(
        paragraph(
            f"On one thread, eager PyTorch takes {span(torch.values())} times as long "
            f"as plugrad under `jit`, and JAX under `jax.jit` {span(jax.values())} "
            "times."
        ),
        picture(
            "training",
            alternative_text(torch, "of PyTorch to plugrad in training"),
            page,
        ),
        paragraph(
            "Each column shows a library's time divided by the time of plugrad under "
            "`jit` with plugrad-llvm. JAX's AdamW is that of optax."
        ),
        table(head, rows, "l"),
        paragraph(f"{record.machine}, {record.day()}."),
    )


COMPOSED = "gradients, training steps, networks"


def gpu(results: Results, page: str) -> str:
    """Answer how fast a GPU is."""
    record = results[ratios.GPU]
    torch, jax = (
        ratios.column_ratios(record, peer, "opencl-mixed")
        for peer in ("torch-cuda", "jax-cuda")
    )
    parts = [
        ("all", torch, jax),
        ("single ops", ratios.single_ops(torch), ratios.single_ops(jax)),
        (COMPOSED, ratios.composed(torch), ratios.composed(jax)),
    ]
    rows = [
        [title, str(len(left)), mean_of(left), mean_of(right), extreme(left, min)]
        for title, left, right in parts
    ]
    head = ["workloads", "number", "PyTorch / plugrad", "JAX / plugrad"]
    return joined(
        paragraph(
            f"On an {record.machine}, eager PyTorch takes {mean_of(torch)} times as "
            f"long as plugrad in the geometric mean of {len(torch)} workloads, and JAX "
            f"{mean_of(jax)} times; for the single ops alone, the means are "
            f"{rows[1][2]} and {rows[1][3]}."
        ),
        picture("gpu", alternative_text(torch, "of PyTorch to plugrad on a GPU"), page),
        table([*head, "smallest, PyTorch"], rows, "l"),
        paragraph(
            f"{record.place_and_time()}; PyTorch {record.versions['PyTorch']} and JAX "
            f"{record.versions['JAX']}. plugrad runs with `jit` where it helps, and "
            "with `PLUGRAD_OPENCL_TF32=3`, which is not the default."
        ),
    )


# --- the front page --------------------------------------------------------------


def front(results: Results, page: str) -> str:
    """Return the chart of the front page, and a table of the means."""
    cpu, on_gpu = results[ratios.MAIN], results[ratios.GPU]
    ours = ratios.jit_column(cpu)
    eager = ratios.column_ratios(cpu, "torch", "cpu")
    torch, jax = (ratios.column_ratios(cpu, x, ours) for x in ("torch", "jax-jit"))
    pytorch, option = f"PyTorch {_version(cpu, 'PyTorch')}", "`PLUGRAD_OPENCL_TF32=3`"
    rows = [
        (cpu.place_and_time(), f"{pytorch}, both eager", eager),
        ("", f"{pytorch} eager, plugrad with `jit`", torch),
        ("", f"JAX {_version(cpu, 'JAX')}, both with `jit`", jax),
        (
            on_gpu.place_and_time(),
            f"PyTorch {_version(on_gpu, 'PyTorch')}, plugrad with `jit` and {option}, "
            "which is not the default",
            ratios.column_ratios(on_gpu, "torch-cuda", "opencl-mixed"),
        ),
    ]
    cells = [
        [where, what, str(len(found)), mean_of(found)] for where, what, found in rows
    ]
    alternative = (
        "Bars of the time of PyTorch and JAX, divided by that of plugrad. Eager: "
        f"PyTorch {mean_of(eager)}. Under jit: PyTorch {mean_of(torch)}, JAX "
        f"{mean_of(jax)}. Four networks have bars of their own"
    )
    head = ["machine", "compared", "workloads", "time of the other / time of plugrad"]
    return joined(picture("front", alternative, page), table(head, cells, "ll"))


def _version(record: Record, library: str) -> str:
    """Return the major and minor version of a library."""
    return ".".join(record.versions[library].split(".")[:2])


BLOCKS: dict[str, Block] = {
    "front": front,
    "eager": eager,
    "jit": jit,
    "onnx": onnx,
    "growth": growth,
    "training": training,
    "gpu": gpu,
    **DETAILS,
}
