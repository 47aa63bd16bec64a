"""The hook that makes Keras accept the name of this backend."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import keras
import keras_plugrad_hook
import pytest

SHOW = "import keras; print(keras.config.backend())"


def run(code, folder, **environment):
    """Run a program in a new process; the installed .pth file starts the hook."""
    return subprocess.run(
        [sys.executable, "-c", f"import sys; {code}"],
        env={"KERAS_HOME": str(folder), "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_environment_selects_the_backend(tmp_path):
    done = run(SHOW, tmp_path, KERAS_BACKEND="plugrad")
    assert done.stdout.split() == ["plugrad"], done.stderr


def test_the_file_selects_the_backend(tmp_path):
    settings = {
        "backend": "plugrad",
        "floatx": "float32",
        "epsilon": 1e-7,
        "image_data_format": "channels_last",
    }
    (tmp_path / "keras.json").write_text(json.dumps(settings))
    done = run(SHOW, tmp_path)
    assert done.stdout.split() == ["plugrad"], done.stderr


def test_the_program_selects_the_backend(tmp_path):
    code = f"import os; os.environ['KERAS_BACKEND'] = 'plugrad'; {SHOW}"
    done = run(code, tmp_path)
    assert done.stdout.split() == ["plugrad"], done.stderr


def test_another_backend_is_left_alone(tmp_path):
    code = (
        "\ntry:\n    import keras\n"
        "except ImportError:  # such as that of a backend that is not installed\n"
        "    pass\n"
        "print(sys.modules['keras.src.backend.config'].backend())\n"
        "print('keras_plugrad' in sys.modules)"
    )
    done = run(code, tmp_path, KERAS_BACKEND="jax")
    assert done.stdout.split() == ["jax", "False"], done.stderr


def test_starting_python_imports_nothing_else(tmp_path):
    code = "print(sorted(set(sys.modules) - before))"
    start = "import sys; before = set(sys.modules); "
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"{start}import keras_plugrad_hook; {code}"],
        env={"PYTHONPATH": str(Path(keras_plugrad_hook.__file__).parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(ast.literal_eval(done.stdout)) <= {"keras_plugrad_hook", "__future__"}


def test_a_keras_that_is_too_old_is_an_error(tmp_path):
    package = tmp_path / "keras" / "src" / "backend"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").write_text("")
    config = "import os\ndef backend(): return os.environ['KERAS_BACKEND']\n"
    (package / "config.py").write_text(config)
    code = f"sys.path.insert(0, {str(tmp_path)!r})\nimport keras.src.backend.config"
    done = run(code, tmp_path, KERAS_BACKEND="plugrad")
    assert "keras-plugrad needs Keras 3.16 or later" in done.stderr
    assert run(code, tmp_path, KERAS_BACKEND="numpy").returncode == 0


def test_the_backend_is_active():
    assert keras.config.backend() == "plugrad"
    assert keras.src.backend.SUPPORTS_GRADIENT
    with pytest.raises(ValueError, match="Unsupported backend"):
        keras.src.utils.module_utils.get_pluggable_backend_module(backend="nothing")
