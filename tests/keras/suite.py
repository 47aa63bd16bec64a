"""Run Keras' own tests with this backend; the wheel of Keras does not contain them.

The tests come from a checkout of Keras, and run with the Keras that is installed::

    make test-keras SUITE=../keras FILES="ops/nn_test.py layers/core"

As long as a nightly build has no tag, its tests are those of another day. Some names
have moved since: ``backend.cast`` is ``backend.ops.cast`` today, for example. This
module adds the old names, so that such tests run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
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


def main() -> int:
    """Copy the tests into a folder without packages, and run them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", type=Path, help="a checkout of Keras")
    parser.add_argument("files", nargs="*", help="files or folders of keras/src")
    parser.add_argument("-k", default="", help="passed to pytest")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for path in files_of(options.suite, options.files):
            name = "__".join(path.parts)
            shutil.copy(options.suite / "keras" / "src" / path, Path(folder) / name)
        command = [sys.executable, "-m", "pytest", "-q", "--rootdir", folder, folder]
        command += ["-p", "tests.keras.suite", "-p", "no:cacheprovider", "--tb=line"]
        command += ["--continue-on-collection-errors"]
        command += ["-k", options.k] if options.k else []
        environment = {"KERAS_BACKEND": "plugrad", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=os.environ | environment, check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
