"""The charts of ``python -m benchmarks.report``, drawn from the records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks import ratios
from benchmarks.charts import Bars, Group, Panels
from benchmarks.ratios import Ratios, Results, mean
from benchmarks.records import Label

RATIO_AXIS = "time of {} / time of plugrad"
NETWORKS = {  # workloads on the front page, and their titles there
    "mlp_train": "MLP, training step",
    "cnn_train": "CNN, training step",
    "transformer": "transformer block, gradient",
}


def groups_of(columns: dict[str, Ratios], *, means: bool = True) -> tuple[Group, ...]:
    """Return a group for the geometric means, followed by one for each name."""
    first = next(iter(columns.values()))
    groups = [
        Group(str(name), tuple(column.get(name) for column in columns.values()))
        for name in first
    ]
    if means:
        found = tuple(mean(column.values()) for column in columns.values())
        groups.insert(0, Group("geometric mean", found, strong=True))
    return tuple(groups)


def front(results: Results) -> Bars:
    """Draw PyTorch and JAX relative to plugrad: means, and some networks."""
    record = results[ratios.MAIN]
    eager = ratios.column_ratios(record, "torch", "cpu")
    jit = ratios.jit_column(record)
    torch = ratios.column_ratios(record, "torch", jit)
    jax = ratios.column_ratios(record, "jax-jit", jit)
    means = mean(torch.values()), mean(jax.values())
    groups = [
        Group(f"{len(eager)} workloads, eager", (mean(eager.values()), None), True),
        Group("MobileNetV2, inference, eager", (eager["mobilenet_v2"], None)),
        Group(f"{len(torch)} workloads, jit", means, True),
    ]
    for name, title in NETWORKS.items():
        groups.append(Group(f"{title}, jit", (torch[name], jax[name])))
    return Bars(
        title="Time of PyTorch and JAX, relative to plugrad on a CPU",
        axis=RATIO_AXIS.format("the other library"),
        caption=f"{record.place_and_time()}. Bold: geometric means.",
        series=("PyTorch, eager", "JAX, jit"),
        groups=tuple(groups),
        logarithmic=False,
    )


def eager(results: Results) -> Bars:
    """Draw PyTorch relative to eager plugrad, for each workload."""
    record = results[ratios.MAIN]
    return Bars(
        title="Eager workloads: time of PyTorch, relative to plugrad",
        axis=f"{RATIO_AXIS.format('PyTorch')} (logarithmic)",
        caption=f"{record.place_and_time()}. Both libraries run eagerly.",
        series=("PyTorch, eager",),
        groups=groups_of({"": ratios.column_ratios(record, "torch", "cpu")}),
    )


def jit(results: Results) -> Bars:
    """Draw PyTorch and JAX relative to plugrad's jit, for each workload under jit."""
    record = results[ratios.MAIN]
    ours = ratios.jit_column(record)
    columns = {
        name: ratios.column_ratios(record, name, ours) for name in ("torch", "jax-jit")
    }
    return Bars(
        title="Workloads under jit: time of PyTorch and JAX, relative to plugrad",
        axis=f"{RATIO_AXIS.format('the other library')} (logarithmic)",
        caption=f"{record.place_and_time()}. {ratios.COMPILERS[ours]}.",
        series=("PyTorch, eager", "JAX, jit"),
        groups=groups_of(columns),
    )


def onnx(results: Results) -> Bars:
    """Draw ONNX Runtime relative to plugrad for pretrained models, fastest first."""
    record = results[ratios.PRETRAINED]
    found = ratios.inverse(record.column("cpu"))
    ordered = dict(sorted(found.items(), key=lambda item: -item[1]))
    return Bars(
        title="Pretrained ONNX models: time of ONNX Runtime, relative to plugrad",
        axis=f"{RATIO_AXIS.format('ONNX Runtime')} (logarithmic)",
        caption=f"{record.place_and_time()}. Backend cpu, the faster of eager and jit.",
        series=("ONNX Runtime",),
        groups=groups_of({"": ordered}),
    )


def training(results: Results) -> Bars:
    """Draw PyTorch and JAX relative to plugrad, for training workloads."""
    found = ratios.training(results, threads=1)
    record = results[ratios.MAIN]
    return Bars(
        title="Training: time of PyTorch and JAX, relative to plugrad",
        axis=f"{RATIO_AXIS.format('the other library')} (logarithmic)",
        caption=f"{record.place_and_time()}. plugrad with jit and plugrad-llvm.",
        series=("PyTorch, eager", "JAX, jit"),
        groups=groups_of(found, means=False),
    )


def gpu(results: Results) -> Bars:
    """Draw PyTorch and JAX relative to plugrad on a GPU, for each workload."""
    record = results[ratios.GPU]
    columns = {
        name: ratios.column_ratios(record, name, "opencl-mixed")
        for name in ("torch-cuda", "jax-cuda")
    }
    return Bars(
        title="Workloads on a GPU: time of PyTorch and JAX, relative to plugrad",
        axis=f"{RATIO_AXIS.format('the other library')} (logarithmic)",
        caption=(
            f"{record.place_and_time()}. plugrad with jit where it helps, and with "
            "PLUGRAD_OPENCL_TF32=3."
        ),
        series=("PyTorch, eager", "JAX, jit"),
        groups=groups_of(columns),
    )


# --- growth ----------------------------------------------------------------------

GROWTH_WORKLOADS = ["exp_1m", "softmax", "matmul_512", "conv3x3"]
GROWTH_WORKLOADS += ["mlp_train", "cnn_train", "mobilenet_v2", "transformer"]


def growth(results: Results) -> Panels:
    """Draw the time per element of eight workloads."""
    return _growth(results, GROWTH_WORKLOADS)


def growth_all(results: Results) -> Panels:
    """Draw the time per element of all workloads."""
    return _growth(results, [*dict.fromkeys(results[ratios.GROWTH].names())])


def _growth(results: Results, names: Sequence[Label]) -> Panels:
    record = results[ratios.GROWTH]
    curves = ratios.curves(record)
    return Panels(
        title="Time per element by size, eager",
        x_axis="size, relative to the workload",
        y_axis=record.unit_of("1"),
        caption=f"{record.place_and_time()}. All axes are logarithmic.",
        series=("plugrad", "PyTorch"),
        ticks=record.columns[record.labels :],
        panels={str(n): [curves[n, "cpu"], curves[n, "torch"]] for n in names},
    )


CHARTS: dict[str, Callable[[Results], Bars | Panels]] = {
    "front": front,
    "eager": eager,
    "jit": jit,
    "onnx": onnx,
    "growth": growth,
    "growth-all": growth_all,
    "training": training,
    "gpu": gpu,
}
