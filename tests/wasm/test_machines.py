"""Machines are objects: a process may have several, and imports create none."""

import os
import subprocess
import sys
import textwrap

import pytest

from .processes import run

pytest.importorskip("plugrad_wasm", reason="plugrad-wasm is not installed")


def test_a_backend_that_is_opened_again_has_another_machine():
    """Arrays of the first machine are unchanged, and kernels still run on them."""
    found = run(
        2,
        """
        from plugrad_wasm.plugin import plugrad_backends
        (backend,), x = plugrad_backends(), pg.ones((3,))
        exp, first = pg.get_kernel("Exp", "wasm"), x._data
        pg.remove_backend("wasm")
        pg.register_backend(backend)
        with pg.use_backend("wasm"):
            y = pg.exp([0.0])
        print(y.backend, runtime("wasm").arrays.machine is not machine, count())
        print(np.allclose(download(exp(first)), np.e))
        """,
    )
    assert found == ["wasm", "True", "True", "True"]


def test_importing_starts_nothing():
    code = """
        import threading
        from plugrad_wasm import arrays, kernels, launch, runtime, sandbox
        from plugrad_wasm.instance import engine
        print(threading.active_count(), engine.cache_info().currsize)
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PLUGRAD_WASM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1", "0"]


@pytest.mark.parametrize("threads", [(1, 1), (2, 1), (2, 2)], ids=str)
def test_two_machines_in_one_process(threads):
    """Each machine has its own memory and threads, and runs kernels on its arrays."""
    found = run(
        1,
        f"""
        from plugrad_wasm.kernels import KERNELS
        from plugrad_wasm.runtime import Machine
        machines = [Machine(threads) for threads in {threads}]
        x = np.arange(300_000, dtype=np.float32).reshape(300, 1000)
        held = [[arrays.upload(m, x) for m in machines] for _ in range(2)]
        for _ in range(2):
            for m, a, b in zip(machines, *held):
                row = arrays.upload(m, x[:1])
                total = KERNELS["Sum"](a, axis=(1,), keepdims=False)
                ys = [KERNELS["Add"](a, b), KERNELS["Add"](a, row), total]
                ys.append(KERNELS["Transpose"](a, axes=(1, 0)))
                wanted = [x + x, x + x[:1], x.sum(1), x.T]
                print(all(y.machine is m for y in ys))
                print(*[np.allclose(download(y), w) for y, w in zip(ys, wanted)])
        machines[0].close()
        used = machines[1].heap.used()
        KERNELS["Add"](held[0][0], held[1][0])
        print(machines[1].heap.used() == used, machines[0].heap.used() > 2 * x.nbytes)
        """,
    )
    assert found == ["True"] * 22
