"""Compile the kernels in C into one shared library for each level of processors.

The sources are those of ``native/kernels``, which plugrad-wasm compiles, too, and of
``src_c/library``. The compiler is clang out of ziglang, on every platform. ``setup.py``
calls this, and so does ``tests/native/platforms.py``, for other platforms than that of
the machine.

Python calls kernels by entry points (``src_c/library/entry.h``). ``with_entries``
writes a source that includes one of them, and has an entry point for each kernel in it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent
# The C that backends share: an sdist has a copy, and a checkout has it at its top.
NATIVE = next(
    path for path in (ROOT / "native", ROOT.parents[1] / "native") if path.is_dir()
)
FOLDERS = [NATIVE / "kernels", ROOT / "src_c/library"]
# Loops that wait for memory. On Zen 4, whose caches move 256 bits at once, vectors of
# 512 take up to a third longer. Not measured on processors of Intel.
NARROW = {"binary", "cast", "compare"}
FLAGS = ["-std=gnu17", "-O3", "-ffp-contract=off", "-fno-math-errno"]
FLAGS += ["-fno-trapping-math"]
# Between quotation marks alone: <windows.h> is no header of ours.
INCLUDES = [
    word
    for folder in (*FOLDERS, NATIVE)
    for word in ("-iquote", Path(os.path.relpath(folder, ROOT)).as_posix())
]
FLAGS += INCLUDES
FLAGS += ["-Wall", "-Wno-unknown-attributes", "-Wno-unknown-pragmas"]
SANITIZE = os.environ.get("PLUGRAD_CPU_SANITIZE", "0") != "0"
# zig has the runtime of UBSan. It drops -fsanitize=address, for which it has none: the
# compiler behind it takes the option, and the runtime of gcc fits.
FLAGS += (
    ["-g", "-fsanitize=undefined", "-Xclang", "-fsanitize=address"]
    if SANITIZE
    else ["-fno-sanitize=all"]
)
# What EXPORT of plugrad.h is here: a word that no source has.
MARK = "@kernel"
KERNEL = re.compile(rf"{MARK}\s+void\s+(\w+)\s*\(([^()]*)\)\s*\{{")
FIELDS = {"p": "address", "u": "count", "d": "number"}  # of an Argument, by kind


def default_levels(machine: str) -> str | None:
    """Return the levels of processors that are compiled; None if there are none."""
    x86 = "x86_64_v3 x86_64_v4"
    levels = {"x86_64": x86, "amd64": x86, "aarch64": "aarch64", "arm64": "aarch64"}
    return levels.get(machine.lower())


def suffix(system: str) -> str:
    """Return the end of the names of libraries on a system, by zig's name of it."""
    return ".dll" if system.startswith("windows") else ".so"


def build_library(to: Path, level: str, system: str) -> None:
    """Compile the sources for one level, side by side, and link them.

    Args:
        to: The library.
        level: That of the processor, such as ``x86_64_v3``; or ``aarch64``.
        system: The rest of zig's name of the target, such as ``linux-gnu.2.17``.

    Raises:
        subprocess.CalledProcessError: ziglang is missing, or fails.
        ValueError: A kernel has no prototype that Python can call.

    """
    machine = "aarch64" if level == "aarch64" else "x86_64"
    target = ["-target", f"{machine}-{system}"]
    target += [f"-mcpu={level}"] if machine == "x86_64" else []
    target += [] if system.startswith("windows") else ["-fPIC"]
    kind = "sanitized" if SANITIZE else "kernels"
    folder = ROOT / "build" / kind / system / level
    folder.mkdir(parents=True, exist_ok=True)

    def compiled(path: Path) -> str:
        wide = [f"-mprefer-vector-width={256 if path.stem in NARROW else 512}"]
        flags = [*target, *(wide if level == "x86_64_v4" else []), *FLAGS]
        source = folder / f"{path.stem}_entries.c"
        made = str(folder / f"{path.stem}.o")
        source.write_text(with_entries(path, flags))
        zig("cc", *flags, "-c", str(source), "-o", made)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as executor:
        objects = list(executor.map(compiled, sources()))
    options = ["-fsanitize=undefined"] if SANITIZE else ["-s"]
    libraries = [] if system.startswith("windows") else ["-lm"]
    made = folder / to.name  # beside which zig puts what Windows' linkers want
    zig("cc", *target, "-shared", *options, *objects, *libraries, "-o", str(made))
    new = to.with_suffix(".new")  # programs may be using the old one
    shutil.copy(made, new)
    new.replace(to)


def sources() -> list[Path]:
    """Return what is compiled: the shared kernels, and those of this plugin."""
    return [path for folder in FOLDERS for path in sorted(folder.glob("*.c"))]


def with_entries(path: Path, flags: list[str]) -> str:
    """Return a source that includes another one and has entry points of its kernels."""
    mark = [f"-DEXPORT(name)={MARK}", "-w", "-E", "-P"]
    text = zig("cc", *flags, *mark, str(path))
    kernels = KERNEL.findall(text)
    if len(kernels) != text.count(MARK):
        raise ValueError(
            f"{path.name}: of {text.count(MARK)} kernels {len(kernels)} are "
            "definitions as `void name(...) {`, which Python can call"
        )
    entries = [entry(kernel, parameters) for kernel, parameters in kernels]
    return "\n".join([f'#include "{path.name}"', '#include "entry.h"', *entries, ""])


def entry(name: str, parameters: str) -> str:
    """Return the entry point of a kernel, by the text of its parameters.

    >>> print(entry("scale", "const f32 *x, f32 *y, u32 n, f64 factor"))
    ENTRY(scale, "scale(const f32 *x, f32 *y, u32 n, f64 factor)", "ppud",
          a[0].address, a[1].address, a[2].count, a[3].number)
    """
    words = [" ".join(each.split()) for each in parameters.split(",")]
    kinds = "".join([kind_of(name, each) for each in words])
    values = ", ".join([f"a[{k}].{FIELDS[kind]}" for k, kind in enumerate(kinds)])
    prototype = f"{name}({', '.join(words)})"
    return f'ENTRY({name}, "{prototype}", "{kinds}",\n      {values})'


def kind_of(kernel: str, parameter: str) -> str:
    """Return the kind of a parameter, as in entry.h."""
    if "*" in parameter:
        return "p"
    kind = {"u32": "u", "f64": "d"}.get(parameter.partition(" ")[0])
    if kind is None:
        raise ValueError(
            f"{kernel}: Python passes addresses, u32 and f64, not `{parameter}`"
        )
    return kind


def zig(*arguments: str) -> str:
    """Run a tool of ziglang, and return what it prints."""
    cache = str(ROOT / "build" / "zig")
    caches = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), cache)
    done = subprocess.run(
        [sys.executable, "-m", "ziglang", *arguments],
        check=True,
        cwd=ROOT,
        env=caches | os.environ,
        capture_output=True,
        text=True,
    )
    return done.stdout
