"""The compiled modules match their sources, and import nothing from the system."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

package = pytest.importorskip("plugrad_wasm", reason="plugrad-wasm is not installed")
wasmtime = pytest.importorskip("wasmtime")
pytest.importorskip("ziglang", reason="ziglang, which compiles, is not installed")

MODULES = pathlib.Path(package.__file__).parent / "modules"
PLUGIN = pathlib.Path(__file__).parents[2] / "plugins" / "wasm"


@pytest.fixture(scope="module")
def build():
    spec = importlib.util.spec_from_file_location(
        "hatch_build", PLUGIN / "hatch_build.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_build_gives_the_same_bytes_again(build, tmp_path):
    once = tmp_path / "once"
    again = tmp_path / "again"
    build.compile_modules(once)
    build.compile_modules(again)
    names = {path.relative_to(once) for path in once.glob("*/*")}
    assert len(names) == 2 * (len(build.files_of_modules()) + 1)  # and one index
    for name in names:
        assert (once / name).read_bytes() == (again / name).read_bytes()
        if not build.outdated():
            assert (once / name).read_bytes() == (MODULES / name).read_bytes()


@pytest.mark.parametrize("kind", ["plain", "threaded"])
def test_modules_import_at_most_two_functions_and_memory(kind, build):
    """In memory, the data of each module follows the data of the previous module."""
    config = wasmtime.Config()
    config.wasm_threads = config.shared_memory = True
    engine = wasmtime.Engine(config)
    ends = [build.STACK >> 16]
    for name in build.files_of_modules():
        content = (MODULES / kind / f"{name}.wasm").read_bytes()
        imports = {i.name: i for i in wasmtime.Module(engine, content).imports}
        assert {i.module for i in imports.values()} <= {"plugrad", "env"}
        assert imports.keys() <= {"poll", "fail", "memory"}
        ends.append(imports["memory"].type.limits.min)
        assert b"/tmp/" not in content
    assert ends == sorted(ends)
    index = json.loads((MODULES / kind / "index.json").read_text())
    assert index["heap"] == ends[-1] << 16
    assert index["owners"]["exp_f32"] == "unary"


@pytest.mark.parametrize("kind", ["plain", "threaded"])
def test_the_region_module_has_loops_and_no_kernels(kind, build):
    content = (MODULES / kind / "region.wasm").read_bytes()
    names = {*build.exports(dict(build.read_sections(content))[build.EXPORT])}
    assert names - build.RUNTIME == {"run_region", "region_loops"}
    families = [MODULES / kind / f"{name}.wasm" for name in build.COPIES["region"]]
    whole = sum(path.stat().st_size for path in families)
    assert len(content) < 0.57 * whole  # 100 of 176 kB when the module was added


def test_thread_local_data_is_small(build):
    """Each thread gets ``TLS`` bytes for each module."""
    from plugrad_wasm.instance import TLS, Instance, SharedMemory

    config = wasmtime.Config()
    config.wasm_threads = config.shared_memory = True
    engine = wasmtime.Engine(config)
    for path in (MODULES / "threaded").glob("*.wasm"):
        module = wasmtime.Module(engine, path.read_bytes())
        store = wasmtime.Store(engine)
        hosts = {
            n: wasmtime.Func(store, wasmtime.FuncType([], []), lambda: None)
            for n in ("poll", "fail")
        }
        kind = next(i.type for i in module.imports if i.name == "memory")
        memory = SharedMemory(engine, kind)
        instance = Instance(
            store, module, [hosts.get(i.name, memory) for i in module.imports]
        )
        assert 0 < instance.value("__tls_size") <= TLS


def test_only_what_is_needed_is_compiled_when_the_backend_opens(tmp_path):
    """Without a cache, the first kernel compiles one module; opening compiles none."""
    code = """
        import plugrad as pg, wasmtime
        made = []
        compile = wasmtime.Module.__init__
        def noted(self, engine, content):
            made.append(len(content))
            compile(self, engine, content)
        wasmtime.Module.__init__ = noted
        pg.set_backend("wasm")
        pg.get_kernels_for_backend("wasm")
        print(len(made))
        assert pg.exp([0.0]).tolist() == [1]
        print(len(made), sum(made) < 80_000)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["0", "1", "True"], done.stderr


def test_debug_builds_check_bounds(build, tmp_path):
    folder = tmp_path / "debug"
    build.compile_modules(folder, debug=True)
    for kind in build.KINDS:
        name = f"{kind}/gather.wasm"
        assert b"is out of bounds" in (folder / name).read_bytes()
        assert b"is out of bounds" not in (MODULES / name).read_bytes()
