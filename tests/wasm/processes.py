"""Run Python in a separate process, with the backend wasm open."""

import os
import subprocess
import sys
import textwrap

COUNT = """
    def count():
        x = upload(np.zeros(1000, np.uint32))
        machine.kernel("test_count")(x.pointer, 1000, 10)
        return download(x).tolist() == list(range(1000))
"""


def run(threads, code, timeout=60, **environment):
    """Run code in a new process with a machine; return the words that it prints."""
    head = """
        import os, signal, sys, threading, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # if ignored
        from functools import partial
        import numpy as np
        import plugrad as pg
        from plugrad import BackendError
        pg.set_backend("wasm")
        pg.zeros(())
        from plugrad.plugin import runtime
        from plugrad_wasm import arrays
        machine = runtime("wasm").arrays.machine
        upload = runtime("wasm").arrays.upload
        empty, download = partial(arrays.empty, machine), arrays.download
    """
    quiet = "ignore:This process"  # "is multi-threaded": Python 3.12 at every fork
    code = "".join(map(textwrap.dedent, (head, COUNT, code)))
    done = subprocess.run(
        [sys.executable, "-W", quiet, "-c", code],
        env={**os.environ, "PLUGRAD_WASM_THREADS": str(threads), **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr
    return done.stdout.split()
