"""Compare TensorFlow.js models on each backend with TensorFlow.js' wasm backend.

The models are those of the npm package nsfwjs, which npm downloads into a folder: two
MobileNetV2 models and one InceptionV3. A row shows the fastest call in milliseconds,
eager and under jit, and the largest difference from TensorFlow.js' answer. Everything
runs on one thread. ``make peers`` installs TensorFlow.js::

    python benchmarks/tfjs_models.py FOLDER --backend cpu,wasm,opencl
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = "nsfwjs@4.3.0"
PEER_SCRIPT = Path(__file__).parent / "peers/tfjs_models.mjs"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "PLUGRAD_CPU_THREADS", "PLUGRAD_WASM_THREADS")
TIMED_CALLS = 12  # calls of each model on each backend; the fastest counts


def download_package(folder: Path) -> Path:
    """Return the folder of the package; download it if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "package").exists():
        command = ["npm", "pack", "--silent", PACKAGE]
        done = subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True
        )
        with tarfile.open(folder / done.stdout.split()[-1]) as archive:
            archive.extractall(folder, filter="data")
    return folder / "package"


def image(size: int) -> np.ndarray[Any, Any]:
    """Return the image that ``peers/tfjs_models.mjs`` uses."""
    numbers = np.arange(size * size * 3) * 7919 % 1000 / 1000
    return numbers.astype(np.float32).reshape(1, size, size, 3)


def fastest_ms(f: Callable[[], Any]) -> float:
    """Return the milliseconds of the fastest call."""
    best = math.inf
    for _ in range(TIMED_CALLS):
        start = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def measure_plugrad(
    folder: Path, size: int, backend: str
) -> tuple[float, float, float]:
    """Return the times, eager and under jit, and the answer's largest difference."""
    import plugrad as pg
    from plugrad_tfjs import load

    def run(f: Any) -> Any:
        y = f(x)
        return (y[0] if isinstance(y, list | tuple) else y).numpy()

    with pg.use_backend(backend):
        model = load(folder / "model.json")
        x = pg.asarray(image(size))
        replayed = pg.jit(model.__call__)
        answer = np.array(json.loads((folder / "answer.json").read_text()))
        off = float(np.abs(run(model).ravel() - answer).max())
        return fastest_ms(lambda: run(model)), fastest_ms(lambda: run(replayed)), off


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each model and backend."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--backend", default="cpu,wasm,opencl")
    options = parser.parse_args(arguments)
    os.environ |= dict.fromkeys((*THREAD_VARIABLES, "POCL_MAX_PTHREAD_COUNT"), "1")
    package = download_package(options.folder)
    command = ["node", str(PEER_SCRIPT), str(package)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    for line in done.stdout.splitlines():
        model = json.loads(line)
        name, size = model["name"], model["size"]
        print(f"{name:18} TensorFlow.js {model['ms']:8.1f} ms")
        for backend in options.backend.split(","):
            eager, jit, off = measure_plugrad(package / name, size, backend)
            times = f"{eager:8.1f} ms, jit {jit:8.1f}, off {off:.0e}"
            print(f"{'':18} {backend:13} {times}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
