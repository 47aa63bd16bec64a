"""Backends with one fault each, installed for a process that runs the kit on them."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

BACKEND = """
from plugrad.plugin import Backend, Runtime, hookimpl
{at_import}

def open_faulty():
    import numpy as np
    import plugrad as pg
    from plugrad.plugin import runtime
    from plugrad_conformance.primitives import DATA_DEPENDENT, HOST, PRIMITIVES

    class Arrays:
        def upload(self, values):
            return np.array(values)

        def download(self, native):
            return np.array(native)

        def nbytes(self, native):
            return native.nbytes

    cpu = pg.get_kernels_for_backend("cpu")
    kernels = {{name: cpu[name] for name in PRIMITIVES}}
    options = {{
        "dtypes": ("bool", "int32", "float32", "float64", "complex64"),
        "wrap": runtime("cpu").wrap,
        "host": "cpu",
        "host_kernels": [*DATA_DEPENDENT, *HOST],
    }}
{fault}
    return Runtime(arrays=Arrays(), kernels=kernels, **options)

@hookimpl
def plugrad_backends():
    return [Backend("faulty", open=open_faulty)]
"""
PARTS = ("backend", "golden", "ops")
METADATA = "Name: plugrad-faulty\nVersion: 2.5\nRequires-Dist: plugrad-cpu\n"


class Kit:
    """The kit, and a folder in which a backend is installed for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.report = folder / "score.json"

    def install(self, fault: str = "", at_import: str = "") -> None:
        """Write the distribution; ``fault`` changes kernels, Arrays or options."""
        info = self.folder / "plugrad_faulty-2.5.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(METADATA)
        (info / "entry_points.txt").write_text(
            "[plugrad.v1]\nfaulty = plugrad_faulty\n"
        )
        body = textwrap.indent(textwrap.dedent(fault), "    ")
        source = BACKEND.format(fault=body, at_import=at_import)
        (self.folder / "plugrad_faulty.py").write_text(source)

    def run(
        self, *arguments: str, backends: tuple[str, ...] = ("faulty",)
    ) -> subprocess.CompletedProcess[str]:
        """Run pytest on parts of the kit, such as ``backend.test_life``; "" means all.

        Empty ``backends`` means all that are installed.
        """
        parts = [a for a in arguments if a.split(".")[0] in ("", *PARTS)]
        rest = [a for a in arguments if a not in parts]
        modules = [f"plugrad_conformance.{part}".rstrip(".") for part in parts]
        path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
                *[f"--plugrad-backend={name}" for name in backends],
                f"--plugrad-report={self.report}",
                *("--pyargs", *modules, *rest),
            ],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": path, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def score(self) -> dict:
        """Return the backend's part of the report."""
        return json.loads(self.report.read_text())["backends"]["faulty"]

    def failed(self) -> list[str]:
        """Return the tests that have failed."""
        return [entry["test"] for entry in self.score()["failed"]]


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)
