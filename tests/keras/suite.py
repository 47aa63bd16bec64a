"""Run Keras' own tests with this backend; the wheel of Keras does not contain them.

The tests come from a checkout of Keras, and run with the Keras that is installed::

    make test-keras SUITE=../keras FILES="ops/nn_test.py layers/core"

Tests of dtypes compare with JAX, which has to be installed. To find out which failures
are this backend's, run the same tests on JAX, and compare (see ``outcomes.py``)::

    python -m tests.keras.suite ../keras --results plugrad.jsonl
    python -m tests.keras.suite ../keras --results jax.jsonl --backend jax
    python -m tests.keras.outcomes plugrad.jsonl jax.jsonl

As long as a nightly build has no tag, its tests are those of another day. Some names
have moved since: ``backend.cast`` is ``backend.ops.cast`` today, for example. This
module adds the old names, so that such tests run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = "PLUGRAD_KERAS_RESULTS"
OLD_NAMES = (
    "cast",
    "cond",
    "convert_to_numpy",
    "convert_to_tensor",
    "is_tensor",
    "linalg",
    "math",
    "nn",
    "numpy",
    "random_seed_dtype",
    "shape",
)

# Tests of the trainer name the trainer of each backend that they know, and its steps.
ADAPTED = {
    "trainers__trainer_test.py": {
        '    raise ImportError(f"Invalid backend: {backend.backend()}")': (
            "    from keras_plugrad.src.trainer import Trainer"
        ),
        'if backend.backend() == "jax":\n            model =': (
            'if backend.backend() in ("jax", "plugrad"):\n            model ='
        ),
        "import JAXTrainer as Trainer": "import Trainer",
        "CPU_DEVICES[backend.backend()]": 'CPU_DEVICES.get(backend.backend(), "cpu")',
    }
}

# Some tests import helpers from others.
IMPORTED = re.compile(r"from keras\.src\.([\w.]+_test)\b")


def pytest_configure() -> None:
    """Add names that Keras has moved; pytest calls this in the process of the tests."""
    import keras.src.backend as backend
    from keras.src.backend.common import masking, variables

    old = {name: getattr(backend.ops, name) for name in OLD_NAMES}
    old |= {
        "standardize_dtype": variables.standardize_dtype,
        "AutocastScope": variables.AutocastScope,
        "set_keras_mask": masking.set_keras_mask,
        "get_keras_mask": masking.get_keras_mask,
    }
    for name, value in old.items():
        if not hasattr(backend, name):
            setattr(backend, name, value)


def pytest_runtest_logreport(report) -> None:
    """Append the outcome of a test to the file of results, if one was asked for."""
    path = os.environ.get(RESULTS)
    if path is None or (report.when != "call" and report.passed):
        return
    row = {"test": report.nodeid, "when": report.when, "outcome": report.outcome}
    if report.failed:
        row["reason"] = str(report.longrepr.reprcrash.message)[:400]
    with Path(path).open("a") as file:
        file.write(json.dumps(row) + "\n")


def files_of(suite: Path, wanted: list[str]) -> list[Path]:
    """Return test files of a checkout, relative to ``keras/src``."""
    folder = suite / "keras" / "src"
    found = []
    for name in wanted or ["."]:
        path = folder / name
        found += [path] if path.is_file() else sorted(path.rglob("*_test.py"))
    if not found:
        raise SystemExit(f"{folder} contains no tests in {wanted}")
    return [path.relative_to(folder) for path in found]


def copy_test(source: Path, path: Path, folder: Path) -> str:
    """Copy a test file, and the test files that it imports; return its new name."""
    name = "__".join(path.parts)
    text = (source / path).read_text()
    for old, new in ADAPTED.get(name, {}).items():
        text = text.replace(old, new)
    for module in IMPORTED.findall(text):
        copy_test(source, Path(*module.split(".")).with_suffix(".py"), folder)
    text = IMPORTED.sub(lambda found: f"from {found[1].replace('.', '__')}", text)
    (folder / name).write_text(text)
    return name


def run(options: argparse.Namespace, folder: str) -> int:
    """Run the tests of the files, in ``folder``."""
    suite = options.suite / "keras" / "src"
    paths = files_of(options.suite, options.files)
    names = [copy_test(suite, path, Path(folder)) for path in paths]
    files = [str(Path(folder) / name) for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", folder, *files]
    command += ["-p", "tests.keras.suite", "-p", "no:cacheprovider", "--tb=line"]
    command += ["--continue-on-collection-errors"]
    command += ["-k", options.k] if options.k else []
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {"KERAS_BACKEND": options.backend, "PYTHONPATH": path}
    if options.results:
        environment[RESULTS] = str(options.results.absolute())
    return subprocess.run(command, env=os.environ | environment, check=False).returncode


def main() -> int:
    """Copy the tests into a folder without packages, and run them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", type=Path, help="a checkout of Keras")
    parser.add_argument("files", nargs="*", help="files or folders of keras/src")
    parser.add_argument("-k", default="", help="passed to pytest")
    parser.add_argument("--backend", default="plugrad", help="a backend of Keras")
    parser.add_argument("--results", type=Path, help="append outcomes, as JSON lines")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return run(options, folder)


if __name__ == "__main__":
    sys.exit(main())
