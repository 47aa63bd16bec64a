"""Compile the modules of the wheel with the clang in ziglang.

The sources are in ``src_c`` and in ``native/kernels``, which plugrad-cpu also compiles.
``native`` is at the top of a checkout; an sdist contains a copy of it.

Each family is a separate module, which wasmtime compiles to machine code when one of
its kernels is first needed. All modules import the same memory, in which each has its
own range for data; no module calls another. Each module is built in a plain and a
threaded version. An ``index.json`` lists which module exports which function.

The modules are written to ``src/plugrad_wasm/modules``, so that an editable install
finds them. A build recompiles them if a source is newer; ``python hatch_build.py``
always recompiles them. With PLUGRAD_WASM_DEBUG_BUILD=1 in the environment, kernels
check their bounds.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
# Files whose functions call each other are linked into one module.
MODULES_OF_FILES = {"matmul": ["matmul", "gemm", "conv", "depthwise"]}
MODULES_OF_FILES["matmul"] += ["attention_blocks", "recurrent", "winograd"]
MODULES_OF_FILES["region"] = ["region", "loops"]
# Files whose functions a module calls; it links a copy of them that exports nothing.
COPIES = {"region": ["activation", "binary", "cast", "compare", "unary"]}
# Files that any module may use; each module that uses them links a copy.
COMMON = ["runtime", "elementwise"]
STACK = 1 << 20  # stack size in bytes; the stack precedes the data in memory

# The C library is used only for its mathematical functions; nothing imports WASI.
COMPILE = [
    *("-target", "wasm32-wasi", "-mexec-model=reactor", "-std=gnu17", "-O3"),
    *("-msimd128", "-mrelaxed-simd", "-ffp-contract=off"),
    *("-fno-math-errno", "-fno-trapping-math"),
    *("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-s"),
]
SHARED = ["-DTHREADS", "-matomics", "-mbulk-memory"]
SHARED_LINK = ["-Wl,--shared-memory", "-Wl,--import-memory"]
SHARED_LINK += ["-Wl,--max-memory=4294901760"]
LINK = [
    *("-s", "--no-entry", "--gc-sections", "--stack-first", f"-zstack-size={STACK}"),
    *("--import-memory", "--max-memory=4294901760", "--export=__stack_pointer"),
    "--extra-features=bulk-memory",  # otherwise modules would contain zeros
]
THREADED = ["--shared-memory", "--export=this_module"]
THREADED += ["--export=__wasm_init_tls", "--export=__tls_size"]


def compile_modules(to: Path = MODULES, *, debug: bool | None = None) -> None:
    """Build all modules and their indexes into a folder."""
    if debug is None:
        debug = os.environ.get("PLUGRAD_WASM_DEBUG_BUILD", "0") not in ("", "0")
    # Running programs may be reading the old folder.
    new = to.resolve().with_name(f"{to.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    objects, archives = compile_all(debug)
    for kind in KINDS:
        (new / kind).mkdir(parents=True)
        index = link(new / kind, objects[kind], archives)
        (new / kind / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    shutil.rmtree(to, ignore_errors=True)
    new.rename(to)


def sources() -> dict[str, Path]:
    """Return the C files by name."""
    found = [path for folder in FOLDERS for path in folder.glob("*.c")]
    return {path.stem: path for path in sorted(found, key=lambda path: path.stem)}


def files_of_modules() -> dict[str, list[str]]:
    """Return the C files of each module, by module name."""
    alone = {*sources()} - {*COMMON}
    alone -= {file for files in MODULES_OF_FILES.values() for file in files}
    return {name: [name] for name in sorted(alone)} | MODULES_OF_FILES


def compile_all(debug: bool) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return the paths of the objects of each kind, and those of the libraries.

    For each kind, a dictionary maps the names of files to objects. The key of a copy,
    which exports nothing, is ``copies/NAME``.
    """
    flags = COMPILE + (["-DPLUGRAD_DEBUG"] if debug else [])
    copies = [*sorted({x for files in COPIES.values() for x in files}), *COMMON]
    silent = [*flags, "-DEXPORT(name)="]
    objects = {}
    for kind in KINDS:
        shared = SHARED if kind == "threaded" else []
        made = compile_files(kind, flags + shared, [*sources()])
        copied = compile_files(f"{kind}/copies", silent + shared, copies)
        objects[kind] = made | {f"copies/{name}": copied[name] for name in copies}
    return objects, libraries(flags + SHARED + SHARED_LINK)


def compile_files(folder: str, flags: list[str], files: list[str]) -> dict[str, str]:
    """Compile files into a folder of ``build``, and return the paths of the objects."""
    to = ROOT / "build" / folder
    to.mkdir(parents=True, exist_ok=True)
    objects = {file: str(to / f"{file}.o") for file in files}

    def compiled(file: str) -> None:
        source = str(sources()[file])
        ziglang("cc", *flags, *INCLUDES, "-c", source, "-o", objects[file])

    with ThreadPoolExecutor(os.cpu_count()) as executor:
        list(executor.map(compiled, files))
    return objects


def libraries(flags: list[str]) -> list[str]:
    """Return the paths of the C libraries for modules of any kind.

    zig builds them when it first links a module, and prints the command of the linker,
    which contains the paths. If each kind were linked in this way, zig would build
    separate libraries for it, with the same code.
    """
    source = ROOT / "build" / "libraries.c"
    source.write_text("int nothing;\n")
    output = source.with_suffix(".wasm")
    messages = ziglang("cc", *flags, str(source), "-o", str(output))
    (command,) = [line for line in messages.splitlines() if line.startswith("wasm-ld ")]
    return [word for word in shlex.split(command) if word.endswith(".a")]


def link(to: Path, objects: dict[str, str], libraries: list[str]) -> dict[str, Any]:
    """Link all modules of a kind, each with its data after the previous module's data.

    Returns:
        The index: where the data of all modules ends, and the module of each function.

    Raises:
        RuntimeError: Two modules export the same name.

    """
    end = STACK
    owners = dict[str, str]()
    threaded = THREADED if to.name == "threaded" else []
    for name, files in files_of_modules().items():
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
    """Run a ziglang tool in the folder of the sources, and return its messages.

    Raises:
        RuntimeError: The tool fails. The error contains its messages.

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
        raise RuntimeError(f"ziglang {arguments[0]} failed:\n{done.stderr}")
    return done.stderr


# --- the contents of a module ----------------------------------------------------


IMPORT, EXPORT = 2, 7  # section numbers
FUNCTION, MEMORY = 0, 2  # kinds of imports and exports
# Functions that every module exports for Python.
RUNTIME = {"work", "worker_failed", "settle", "start", "quit", "__wasm_init_tls"}


def read_sections(module: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the contents of each section of a module."""
    at = 8
    while at < len(module):
        size, begin = number(module, at + 1)
        yield module[at], module[begin : begin + size]
        at = begin + size


def memory_pages(section: bytes) -> int:
    """Return the minimum size of the imported memory, in units of 64 KiB."""
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
    """Read a LEB128 number; return it and the offset of its end."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift = shift + 7
        at = at + 1
        if data[at - 1] < 0x80:
            return value, at


def text(data: bytes, at: int) -> tuple[str, int]:
    """Read a name; return it and the offset of its end."""
    size, at = number(data, at)
    return data[at : at + size].decode(), at + size


def outdated() -> bool:
    """Return whether a module is missing or older than a source."""
    files = [path for folder in (NATIVE, ROOT / "src_c") for path in folder.rglob("*")]
    made = [
        MODULES / kind / f"{name}.wasm" for name in files_of_modules() for kind in KINDS
    ]
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
        """Compiles the modules before a wheel or an editable install is built."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Rebuild outdated modules, and add them to the wheel."""
            if self.target_name == "sdist":
                build_data["force_include"][str(NATIVE)] = "native"
                return
            if outdated() or os.environ.get("PLUGRAD_WASM_DEBUG_BUILD"):
                compile_modules()
            build_data["pure_python"] = True
            build_data["artifacts"] += ["src/plugrad_wasm/modules/**/*"]
