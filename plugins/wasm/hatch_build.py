"""Compiles the modules of the wheel, with clang out of ziglang.

The sources are those of ``native/kernels``, which plugrad-cpu compiles, too, and of
``src_c``. In a checkout ``native`` is at the top; an sdist has a copy of it.

Every family is a module of its own, which becomes machine code when one of its kernels
is first needed. All import one memory, in which each has a place for its data; none
calls another. There is a plain and a threaded one of each, and an ``index.json`` that
says which module exports what.

They land in ``src/plugrad_wasm/modules``, so that an editable install finds them; they
are made anew when a source is newer. ``python hatch_build.py`` does the same by hand.
With PLUGRAD_WASM_DEBUG_BUILD=1 in the environment kernels check their bounds.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
NATIVE = next(
    path for path in (ROOT / "native", ROOT.parents[1] / "native") if path.is_dir()
)
FOLDERS = [NATIVE / "kernels", ROOT / "src_c"]
INCLUDES = [f"-iquote{folder}" for folder in (NATIVE, NATIVE / "kernels")]
MODULES = ROOT / "src" / "plugrad_wasm" / "modules"
KINDS = ("plain", "threaded")
# Files in which kernels call functions of the others' are one module.
MODULES_OF_FILES = {"matmul": ["matmul", "gemm", "conv", "depthwise"]}
MODULES_OF_FILES["matmul"] += ["recurrent", "winograd"]
MODULES_OF_FILES["region"] = ["region", "loops"]
# Families of which a module has a copy of its own: of the functions that it calls.
COPIES = {"region": ["activation", "binary", "cast", "compare", "unary"]}
# What all modules may use: a copy of it is in each that does.
COMMON = ["runtime", "elementwise"]
STACK = 1 << 20  # bytes of it at the beginning of memory; then the data

# The C library is there for its mathematics alone: nothing imports any of WASI.
COMPILE = [
    *("-target", "wasm32-wasi", "-mexec-model=reactor", "-std=gnu17", "-O3"),
    *("-msimd128", "-mrelaxed-simd", "-ffp-contract=off"),
    *("-fno-math-errno", "-fno-trapping-math"),
    *("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-s"),
]
SHARED = ["-DTHREADS", "-matomics", "-mbulk-memory", "-Wl,--shared-memory"]
SHARED += ["-Wl,--import-memory", "-Wl,--max-memory=4294901760"]
LINK = [
    *("-s", "--no-entry", "--gc-sections", "--stack-first", f"-zstack-size={STACK}"),
    *("--import-memory", "--max-memory=4294901760", "--export=__stack_pointer"),
    "--extra-features=bulk-memory",  # else zeros of imported memory are in the module
]
THREADED = ["--shared-memory", "--export=this_module"]
THREADED += ["--export=__wasm_init_tls", "--export=__tls_size"]


def compile_modules(to: Path = MODULES, *, debug: bool | None = None) -> None:
    """Write all modules, and the index, into a folder."""
    if debug is None:
        debug = os.environ.get("PLUGRAD_WASM_DEBUG_BUILD", "0") not in ("", "0")
    new = to.resolve().with_name(f"{to.name}.new")  # programs may be reading the old
    shutil.rmtree(new, ignore_errors=True)
    for kind in KINDS:
        (new / kind).mkdir(parents=True)
        index = link(new / kind, *compile_all(kind, debug))
        (new / kind / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    shutil.rmtree(to, ignore_errors=True)
    new.rename(to)


def sources() -> dict[str, Path]:
    """Return the sources by their names."""
    found = [path for folder in FOLDERS for path in folder.glob("*.c")]
    return {path.stem: path for path in sorted(found, key=lambda path: path.stem)}


def families() -> dict[str, list[str]]:
    """Return the files of each module by its name."""
    alone = {*sources()} - {*COMMON}
    alone -= {file for files in MODULES_OF_FILES.values() for file in files}
    return {name: [name] for name in sorted(alone)} | MODULES_OF_FILES


def compile_all(kind: str, debug: bool) -> tuple[dict[str, str], list[str]]:
    """Return where the object of each file is, and the libraries.

    Those of copies, which export nothing, are ``copies/NAME``.
    """
    flags = COMPILE + (SHARED if kind == "threaded" else [])
    flags += ["-DPLUGRAD_DEBUG"] if debug else []
    objects, libraries = compile_files(f"{kind}.wasm", flags, [*sources()])
    flags += ["-DEXPORT(name)="]
    files = [*sorted({x for files in COPIES.values() for x in files}), *COMMON]
    copies, _ = compile_files(f"{kind}-copies.wasm", flags, files)
    return objects | {f"copies/{name}": copies[name] for name in copies}, libraries


def compile_files(
    name: str, flags: list[str], files: list[str]
) -> tuple[dict[str, str], list[str]]:
    """Return where the objects of some files are, and the libraries.

    All are linked into one module, which nobody needs: it shows that nothing is
    undefined, and the linker's command, which names them.
    """
    output = ROOT / "build" / name
    output.parent.mkdir(exist_ok=True)
    paths = [str(sources()[file]) for file in files]
    said = ziglang("cc", *flags, *INCLUDES, *paths, "-o", str(output))
    (command,) = [line for line in said.splitlines() if line.startswith("wasm-ld ")]
    words = [Path(word) for word in shlex.split(command)]
    objects = {p.stem: str(p) for p in words if p.suffix == ".o"}
    return objects, [str(p) for p in words if p.suffix == ".a"]


def link(to: Path, objects: dict[str, str], libraries: list[str]) -> dict[str, Any]:
    """Write all modules of a kind, each with its data behind that of the one before.

    Returns:
        The index: where the data ends, and the module of each function.

    Raises:
        RuntimeError: Two modules export the same name.

    """
    end = STACK
    owners = dict[str, str]()
    threaded = THREADED if to.name == "threaded" else []
    for name, files in families().items():
        made = to / f"{name}.wasm"
        copies = [f"copies/{file}" for file in COPIES.get(name, [])]
        parts = [*[objects[file] for file in (*files, *copies, *COMMON)], *libraries]
        place = f"--global-base={end}"
        ziglang("wasm-ld", *LINK, *threaded, place, *parts, "-o", str(made))
        sections = dict(read_sections(made.read_bytes()))
        end = memory_pages(sections[IMPORT]) << 16
        for function in {*exports(sections[EXPORT])} - RUNTIME:
            if owners.setdefault(function, name) != name:
                raise RuntimeError(f"{name} and {owners[function]} export {function}")
    return {"heap": end, "owners": dict(sorted(owners.items()))}


def ziglang(*arguments: str) -> str:
    """Run a tool of ziglang among the sources, and return what it says.

    Raises:
        RuntimeError: It fails; with what it says.

    """
    cache = str(ROOT / "build" / "zig")
    done = subprocess.run(
        [sys.executable, "-m", "ziglang", *arguments],
        env={
            "ZIG_GLOBAL_CACHE_DIR": cache,
            "ZIG_LOCAL_CACHE_DIR": cache,
            **os.environ,
            "ZIG_VERBOSE_LINK": "1",
        },
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"ziglang {arguments[0]} fails:\n{done.stderr}")
    return done.stderr


# --- what is in a module ---------------------------------------------------------


IMPORT, EXPORT = 2, 7  # the numbers of sections
FUNCTION, MEMORY = 0, 2  # and of kinds
# What Python calls of each module.
RUNTIME = {"work", "worker_failed", "settle", "start", "quit", "__wasm_init_tls"}


def read_sections(module: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and contents of each section of a module."""
    at = 8
    while at < len(module):
        size, begin = number(module, at + 1)
        yield module[at], module[begin : begin + size]
        at = begin + size


def memory_pages(section: bytes) -> int:
    """Return how large the memory has to be, in units of 64 KiB."""
    count, at = number(section, 0)
    for _ in range(count):
        for _ in ("module", "name"):
            _, at = text(section, at)
        kind = section[at]
        at = at + 1
        if kind == MEMORY:
            return number(section, at + 1)[0]
        _, at = number(section, at)  # a function
    raise RuntimeError("no memory is imported")


def exports(section: bytes) -> Iterator[str]:
    """Yield the names of the functions that a module exports."""
    count, at = number(section, 0)
    for _ in range(count):
        name, at = text(section, at)
        kind = section[at]
        _, at = number(section, at + 1)
        if kind == FUNCTION:
            yield name


def number(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte; return where it ends, too."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift = shift + 7
        at = at + 1
        if data[at - 1] < 0x80:
            return value, at


def text(data: bytes, at: int) -> tuple[str, int]:
    """Read a name; return where it ends, too."""
    size, at = number(data, at)
    return data[at : at + size].decode(), at + size


def outdated() -> bool:
    """Tell whether a module is missing, or older than a source."""
    files = [path for folder in (NATIVE, ROOT / "src_c") for path in folder.rglob("*")]
    made = [MODULES / kind / f"{name}.wasm" for name in families() for kind in KINDS]
    made += [MODULES / kind / "index.json" for kind in KINDS]
    if not all(path.exists() for path in made):
        return True
    newest = max(path.stat().st_mtime for path in (*files, Path(__file__)))
    return newest > min(path.stat().st_mtime for path in made)


if __name__ == "__main__":
    compile_modules()
else:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class Hook(BuildHookInterface[Any]):
        """Compiles before a wheel or an editable install is made."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Bring the modules up to date and into the wheel."""
            if self.target_name == "sdist":
                build_data["force_include"][str(NATIVE)] = "native"
                return
            if outdated() or os.environ.get("PLUGRAD_WASM_DEBUG_BUILD"):
                compile_modules()
            build_data["pure_python"] = True
            build_data["artifacts"] += ["src/plugrad_wasm/modules/**/*"]
