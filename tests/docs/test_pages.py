"""Every program on every page runs, and prints what it promises.

A Python block that prints is a program. Other blocks are modules and excerpts, which
the tests in ``Page.elsewhere`` check.
"""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import plugrad as pg
import pytest

from docs.site import translations
from tests.docs.blocks import ROOT, blocks, promised, published_backend, texts
from tests.plugins.wheels import install


def compile_example(page, folder):
    """Write the C example of a page, and run the commands that compile it."""
    pytest.importorskip("ziglang", reason="ziglang, which compiles, is not installed")
    (source,) = (code for code in page.blocks("c") if "#include" in code)
    (commands,) = page.blocks("sh")
    install, _, build = commands.partition("\n")
    assert install == "pip install ziglang"
    (folder / re.search(r"(\w+\.c) ", build)[1]).write_text(source)
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    caches = dict.fromkeys(("ZIG_LOCAL_CACHE_DIR", "ZIG_GLOBAL_CACHE_DIR"), str(folder))
    env = os.environ | caches | {"PATH": path}
    subprocess.run(["sh", "-c", build], cwd=folder, env=env, check=True)


@dataclass(frozen=True)
class Page:
    """A page, and how its programs are run: each in a new process and a new folder.

    Attributes:
        path: Its path.
        programs: The minimum number of programs that are run here.
        elsewhere: The file that tests its other blocks.
        shows: The plugrad functions that its programs call.
        backend: The backend without which its programs are skipped.
        prepare: A function that puts files into the folder of a program.
        continued: Whether each program continues those before it, which run first.

    """

    path: str
    programs: int = 0
    elsewhere: str = ""
    shows: str = ""
    backend: str = "cpu"
    prepare: Callable | None = None
    continued: bool = False

    def __str__(self):
        return self.path

    def blocks(self, language):
        return blocks(language, (ROOT / self.path).read_text())

    def programs_to_run(self):
        found = [*filter(promised, self.blocks("python"))]
        if self.continued:
            return ["\n".join(found[: i + 1]) for i in range(len(found))]
        return found


PAGES = [
    Page("README.md", 1, shows="override_gradient use_backend grad"),
    Page(
        "docs/glossary.md",
        1,
        shows="register_kernel get_kernel register_gradient override_gradient vjp",
    ),
    Page("docs/index.md", 1, shows="override_gradient use_backend grad"),
    Page("docs/start.md", 4, shows="asarray grad use_backend"),
    Page(
        "docs/sharp-bits.md",
        23,
        shows="use_backend profile jit where random.fold_in debug",
    ),
    Page(
        "docs/how-it-works.md",
        3,
        "plugins/test_wheels.py",
        shows="explain grad set_backend",
    ),
    Page("docs/coming-from.md", 4, shows="zeros variable_grads vmap"),
    Page("docs/coming-from-attribution.md", 2, shows="name_scope allclose"),
    Page("docs/security.md", 1, shows="load"),
    Page("docs/troubleshooting.md", 1, shows="asarray"),
    Page("docs/attribution.md", 11, shows="jit grad name_scope use_gradients"),
    Page("docs/errors.md", elsewhere="docs/test_errors.py"),
    Page("docs/consumers.md", 5, shows="use_backend asarray grad", backend="wasm"),
    Page("docs/from-scratch.md", elsewhere="docs/test_from_scratch.py"),
    Page("core/README.md", 1, shows="asarray square grad"),
    *(
        Page(f"docs/gallery/{path.name}", elsewhere="examples/test_gallery_pages.py")
        for path in sorted((ROOT / "docs" / "gallery").glob("*.md"))
    ),
    Page("docs/guide.md", elsewhere="examples/test_guide.py"),
    Page("docs/interchange.md", 6, shows="from_dlpack save load"),
    Page("docs/override.md", 13, shows="override_gradient check_gradients name_scope"),
    Page("docs/profile.md", elsewhere="examples/test_profile_step.py"),
    Page("docs/publish.md", elsewhere="plugins/test_generators.py"),
    Page(
        "docs/tools.md",
        6,
        shows="tidy keep memory profile debug check_gradients explain",
    ),
    Page(
        "docs/random.md", 2, shows="random.seed random.key random.split random.fold_in"
    ),
    Page("docs/mpi.md", 7, shows="value_and_grad jit grad tree.map save load"),
    Page("docs/train.md", 7, shows="grad value_and_grad random.key"),
    Page("docs/trees.md", 3, shows="tree.map tree.leaves tree.register grad"),
    Page("docs/jit.md", 3, shows="jit Variable variable_grads where"),
    Page("docs/onnx.md", 3, shows="grad override_gradient", backend="wasm"),
    Page("docs/tfjs.md", 1, shows="grad override_gradient sum", backend="wasm"),
    Page("docs/gguf.md", 3, continued=True),
    Page("docs/keras.md", 7, continued=True),
    Page("docs/vmap.md", 4, shows="vmap grad vjp where"),
    Page("docs/language-models.md", 2, shows="jit rms_norm rotary_embedding grad"),
    Page("examples/gradient_packs/README.md", 2, shows="use_gradients"),
    Page("plugins/attribution/README.md", 1),
    Page("plugins/cpu/README.md", 1, shows="set_backend softmax"),
    Page("plugins/gguf/README.md", 1),
    Page("plugins/keras/README.md", 1),
    Page("plugins/llvm/README.md", 1, shows="set_backend jit tanh"),
    Page("plugins/mpi/README.md", 1, shows="value_and_grad mean"),
    Page("plugins/onnx/README.md", 1),
    Page("plugins/opencl/README.md", 3, "docs/test_excerpts.py", backend="opencl"),
    Page("plugins/tfjs/README.md", 1),
    Page("plugins/train/README.md", 1, shows="tanh zeros mean"),
    Page(
        "plugins/wasm/README.md",
        2,
        "docs/test_excerpts.py",
        backend="wasm",
        prepare=compile_example,
    ),
    Page("plugins/webgpu/README.md", 2, backend="webgpu"),
    Page("tests/conformance/README.md", elsewhere="docs/test_excerpts.py"),
]
PROGRAMS = {
    f"{page}:{number}": (page, code)
    for page in PAGES
    if page.programs
    for number, code in enumerate(page.programs_to_run())
}
NEEDS = {
    "keras": "needs Keras: pip install keras-nightly",
    "mpi4py": "needs mpi4py and an MPI implementation",
    "plugrad_attribution": "plugins/attribution is not installed",
    "plugrad_gguf": "plugrad-gguf is not installed",
    "plugrad_mpi": "plugins/mpi is not installed",
    "plugrad_onnx": "plugrad-onnx is not installed",
    "plugrad_tfjs": "plugrad-tfjs is not installed",
    "torch": "needs torch, from the bench group: make .venv/.group-bench",
    "sklearn": "needs scikit-learn, from the demo group: make demo",
    "array_api_extra": "needs array-api-extra, from the consumers group",
    "einops": "needs einops, from the consumers group",
    "opt_einsum": "needs opt_einsum, from the consumers group",
    "plugrad_train": "plugins/train is not installed",
    "safetensors": "needs safetensors: pip install safetensors",
    "plugrad_gradient_packs": "examples/gradient_packs is not installed",
}
OPTIONAL = ("wasm", "opencl", "webgpu")  # backends that some programs choose
DEVICE = re.compile(r"\d+: .* \((gpu|cpu|accelerator), .*\)")


def without_devices(lines):
    """Replace the lines that list a machine's devices by a single one."""
    left = [line for line in lines if not DEVICE.fullmatch(line)]
    return left + ["devices"] * (len(left) < len(lines))


def test_every_page_with_code_has_a_row():
    shown = {
        path
        for path, text in texts().items()
        if blocks("(?:python|c)", text) and not translations.original(path)
    }
    assert shown == {page.path for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_shows_what_it_claims(page):
    programs = [code for owner, code in PROGRAMS.values() if owner is page]
    assert len(programs) >= page.programs
    calls = {f"pg.{name}(" for name in page.shows.split()}
    assert not [call for call in calls if call not in "".join(programs)]
    run = filter(promised, page.blocks("python")) if page.programs else ()
    others = {*page.blocks("(?:python|c)")} - {*run}
    assert bool(others) == bool(page.elsewhere)
    assert (ROOT / "tests" / page.elsewhere).exists()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Install the backend of docs/how-it-works.md, and a program that uses it."""
    folder = tmp_path_factory.mktemp("mine")
    target = tmp_path_factory.mktemp("site")
    published_backend(folder)
    (folder / "program.py").write_text("import plugrad\nplugrad.set_backend('mine')\n")
    install(folder, target)
    return target


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_it_promises(name, site, tmp_path):
    page, code = PROGRAMS[name]
    chosen = [name for name in OPTIONAL if f'_backend("{name}")' in code]
    for backend in (page.backend, *chosen):
        if backend not in pg.backends():
            pytest.skip(f"{backend} does not run here")
    for module, reason in NEEDS.items():
        if module in code and importlib.util.find_spec(module) is None:
            pytest.skip(reason)
    if page.prepare is not None:
        page.prepare(page, tmp_path)
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    assert without_devices(done.stdout.splitlines()) == without_devices(promised(code))
