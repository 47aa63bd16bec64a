"""Run an untrusted kernel in a sandbox, and print the error of each failure.

``untrusted.c`` doubles its input and then misbehaves in the way that its attribute
selects: it loops forever, reads or writes out of bounds, recurses without end, or
traps. It is compiled to WebAssembly and runs in the sandbox of the backend wasm::

    pip install ./core ./plugins/cpu ./plugins/wasm ziglang
    python examples/gallery/sandbox.py

Each failure is a ``BackendError``, and the next call of the kernel works.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import plugrad as pg
from plugrad.plugin import Kernel, run, same
from plugrad_wasm import get_include, load_kernel

UNTRUSTED = Kernel("gallery.Untrusted(x; harm)", out=same)

MISBEHAVIOURS = (
    "behaves",
    "never ends",
    "reads out of bounds",
    "writes out of bounds",
    "recurses for ever",
    "traps",
)
ZIG = [sys.executable, "-m", "ziglang", "cc"]
FLAGS = "-target wasm32-freestanding -O1 -nostdlib -s -Wl,--no-entry"


def compile_module(source: Path) -> bytes:
    """Compile a file in C with clang; return the module."""
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder, "untrusted.wasm")
        command: list[str | Path] = [
            *ZIG,
            *FLAGS.split(),
            "-I",
            get_include(),
            source,
            "-o",
            module,
        ]
        subprocess.run(command, check=True)
        return module.read_bytes()


def attempt(harm: int) -> tuple[str, float, list[float]]:
    """Call the kernel; return the error, the seconds and the next call's result."""
    x = pg.asarray([1.0, 2.0])
    message = "none"
    start = time.perf_counter()
    try:
        run(UNTRUSTED, x, harm=harm).numpy()
    except pg.BackendError as error:
        message = str(error)
    seconds = time.perf_counter() - start
    return message, seconds, run(UNTRUSTED, x, harm=0).tolist()


def main() -> dict[str, tuple[str, float, list[float]]]:
    """Run each misbehavior; print and return the results."""
    module = compile_module(Path(__file__).with_name("untrusted.c"))
    kernel = load_kernel(module, UNTRUSTED, memory=1 << 22, time_limit=0.5)
    pg.register_kernel(UNTRUSTED, "wasm", kernel)
    found = {}
    print("the kernel            stopped after  the next call  error")
    with pg.use_backend("wasm"):
        for harm, name in enumerate(MISBEHAVIOURS):
            message, seconds, after = found[name] = attempt(harm)
            reason = message.rpartition(": ")[2]
            print(f"{name:20}  {seconds:11.3f} s  {after!s:13}  {reason}")
    pg.unregister_kernel(UNTRUSTED.name, "wasm")
    return found


if __name__ == "__main__":
    main()
