"""Free-threaded Python: no extension module of plugrad enables the GIL again."""

import importlib.util
import subprocess
import sys
import sysconfig

import pytest
from plugrad._src.engine import accelerated

EXTENSIONS = "plugrad._speedups", "plugrad_cpu._native"
PROGRAM = """
import sys
import plugrad as pg
from plugrad._src.engine import accelerated
with pg.use_backend("cpu"):
    assert pg.grad(pg.exp)(0.0).item() == 1.0
print(sys._is_gil_enabled(), accelerated.fast_path_language())
"""


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has the GIL"
)
def test_plugrad_does_not_enable_the_gil():
    warning_filter = "error:The global interpreter lock:RuntimeWarning"
    command = [sys.executable, "-W", warning_filter, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    language = "Python" if accelerated._speedups is None else "C"
    assert done.stdout == f"False {language}\n"


@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_can_be_loaded_twice(name):
    spec = importlib.util.find_spec(name)
    if spec is None:
        pytest.skip(f"{name} has not been compiled")
    first = importlib.import_module(name)
    second = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(second)
    assert second is not first
    assert vars(second).keys() >= {n for n in vars(first) if not n.startswith("__")}
