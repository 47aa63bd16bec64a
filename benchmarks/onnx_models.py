"""Time models of ONNX on each backend, eager and with jit, beside ONNX Runtime.

    python benchmarks/onnx_models.py model.onnx --backend cpu,wasm,opencl --threads 1

Each model runs on random inputs; sizes that the file leaves open are ``--size``. A row
has milliseconds of the fastest of some calls, and the largest difference from ONNX
Runtime's answer, relative to its largest value. Without paths it takes the networks
that the package ``onnx`` has for its own tests, whose weights are constants.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, Any]


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--backend", default="cpu,wasm,opencl")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--size", type=int, default=1, help="of axes that are open")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each time")
    parser.add_argument(
        "--plain", action="store_true", help="load(optimize=False), too"
    )
    return parser.parse_args(arguments)


def with_threads(count: int) -> None:
    """Tell all backends how many threads they have; before they are imported."""
    names = ("OMP_NUM_THREADS", "PLUGRAD_CPU_THREADS", "PLUGRAD_WASM_THREADS")
    os.environ |= dict.fromkeys((*names, "POCL_MAX_PTHREAD_COUNT"), str(count))


def shipped() -> list[Path]:
    """Return the networks in the package ``onnx``."""
    import onnx

    return sorted(Path(onnx.__file__).parent.glob("backend/test/data/light/*.onnx"))


def drawn(infos: Sequence[Any], size: int) -> Arrays:
    """Return random inputs; integers are 0 or 1."""
    rng, found = np.random.default_rng(0), {}
    for info in infos:
        shape = [n if isinstance(n, int) else size for n in info.shape or ()]
        floating = info.dtype.kind == "f"
        x = rng.normal(size=shape) if floating else rng.integers(0, 2, shape)
        found[info.name] = x.astype(info.dtype)
    return found


def fastest(f: Callable[[], Any], seconds: float) -> float:
    """Return the milliseconds of the fastest call, of at least three."""
    best, end, count = math.inf, time.perf_counter() + seconds, 0
    while count < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        f()
        best, count = min(best, time.perf_counter() - start), count + 1
    return best * 1e3


def of_runtime(path: Path, inputs: Arrays, options: argparse.Namespace) -> Any:
    """Return ONNX Runtime's answers and its time."""
    import onnxruntime

    how = onnxruntime.SessionOptions()
    how.intra_op_num_threads = options.threads
    how.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), how)
    answers = session.run(None, inputs)
    return answers, fastest(lambda: session.run(None, inputs), options.seconds)


def of_plugrad(
    path: Path,
    backend: str,
    inputs: Arrays,
    answers: Any,
    options: argparse.Namespace,
    **how: Any,
) -> tuple[float, float, float]:
    """Return the times of plugrad, eager and jit, and the difference of the answers."""
    import plugrad as pg
    from plugrad_onnx import load

    with pg.use_backend(backend):
        model = load(path, backend=backend, **how)
        given = {name: pg.asarray(x) for name, x in inputs.items()}

        def run(f: Any) -> list[Any]:
            found = f(**given)
            found = found if isinstance(found, tuple) else (found,)
            return [x.numpy() for x in found]

        pairs = zip(run(model), answers, strict=True)
        off = max(
            float(np.max(np.abs(a - b), initial=0) / max(np.max(np.abs(b)), 1e-30))
            for a, b in pairs
        )
        replayed = pg.jit(model.__call__)
        run(replayed)
        eager = fastest(lambda: run(model), options.seconds)
        return eager, fastest(lambda: run(replayed), options.seconds), off


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each model and backend, and the means."""
    options = parsed(arguments)
    with_threads(options.threads)
    from plugrad_onnx import load

    ratios: dict[str, list[float]] = {}
    ways: list[dict[str, Any]] = [{}, {"optimize": False}] if options.plain else [{}]
    for path in options.paths or shipped():
        inputs = drawn(load(path).inputs, options.size)
        answers, reference = of_runtime(path, inputs, options)
        print(f"{path.stem:28} onnxruntime {reference:9.2f} ms")
        for backend in options.backend.split(","):
            for how in ways:
                eager, jit, off = of_plugrad(
                    path, backend, inputs, answers, options, **how
                )
                name = f"{backend}{' plain' if how else ''}"
                ratios.setdefault(name, []).append(min(eager, jit) / reference)
                times = f"{eager:9.2f} ms, jit {jit:9.2f}, off {off:.1e}"
                print(f"{'':28} {name:11} {times}")
    for name, found in ratios.items():
        mean = math.exp(sum(map(math.log, found)) / len(found))
        print(f"{name}: {mean:.2f} of ONNX Runtime's time (geometric mean)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
