"""Compile the C kernels into one shared library for each processor level.

The sources are in ``native/kernels``, which plugrad-wasm also compiles, and in
``src_c/library``. The compiler is the clang in ziglang, on every platform. ``setup.py``
uses this module, and so does ``tests/native/platforms.py``, which cross-compiles for
other platforms.

Python calls kernels through entry points (``src_c/library/entry.h``). ``with_entries``
writes a source that includes another source and adds an entry point for each kernel in
it.
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
# The C sources that backends share: at the top of a checkout, or copied into an sdist.
NATIVE = next(
    path for path in (ROOT / "native", ROOT.parents[1] / "native") if path.is_dir()
)
FOLDERS = [NATIVE / "kernels", ROOT / "src_c/library"]
# Files with memory-bound loops. On Zen 4, whose caches transfer 256 bits at a time,
# 512-bit vectors take up to a third longer. Not measured on Intel processors.
NARROW = {"binary", "cast", "compare", "reduce"}
FLAGS = ["-std=gnu17", "-O3", "-ffp-contract=off", "-fno-math-errno"]
FLAGS += ["-fno-trapping-math"]
# -iquote applies to #include "..." only; <windows.h> is still the system header.
INCLUDES = [
    word
    for folder in (*FOLDERS, NATIVE)
    for word in ("-iquote", Path(os.path.relpath(folder, ROOT)).as_posix())
]
FLAGS += INCLUDES
FLAGS += ["-Wall", "-Wno-unknown-attributes", "-Wno-unknown-pragmas"]
SANITIZE = os.environ.get("PLUGRAD_CPU_SANITIZE", "0") != "0"
# zig includes the UBSan runtime but no ASan runtime, so it drops -fsanitize=address.
# -Xclang passes the option to clang itself; gcc's ASan runtime is compatible.
FLAGS += (
    ["-g", "-fsanitize=undefined", "-Xclang", "-fsanitize=address"]
    if SANITIZE
    else ["-fno-sanitize=all"]
)
# To find the kernels, EXPORT of plugrad.h is defined as this word, which no source
# contains.
MARK = "@kernel"
KERNEL = re.compile(rf"{MARK}\s+void\s+(\w+)\s*\(([^()]*)\)\s*\{{")
FIELDS = {"p": "address", "u": "count", "d": "number"}  # fields of Argument by kind


def default_levels(machine: str) -> str | None:
    """Return the processor levels to compile for; None for an unknown machine."""
    x86 = "x86_64_v3 x86_64_v4"
    levels = {"x86_64": x86, "amd64": x86, "aarch64": "aarch64", "arm64": "aarch64"}
    return levels.get(machine.lower())


def suffix(system: str) -> str:
    """Return the suffix of library names on a system, given zig's name for it."""
    return ".dll" if system.startswith("windows") else ".so"


def build_library(to: Path, level: str, system: str) -> None:
    """Compile the sources for one level in parallel, and link them.

    Args:
        to: The path of the library.
        level: The processor level: ``aarch64``, or one like ``x86_64_v3``.
        system: The operating system and C library in zig's target name, such as
            ``linux-gnu.2.17``.

    Raises:
        subprocess.CalledProcessError: ziglang is missing, or fails.
        ValueError: A kernel has a prototype that Python cannot call.

    """
    machine = "aarch64" if level == "aarch64" else "x86_64"
    target = ["-target", f"{machine}-{system}"]
    target += [] if system.startswith("windows") else ["-fPIC"]
    processor = [f"-mcpu={level}"] if machine == "x86_64" else []
    kind = "sanitized" if SANITIZE else "kernels"
    folder = ROOT / "build" / kind / system / level
    folder.mkdir(parents=True, exist_ok=True)

    def compiled(path: Path) -> str:
        wide = [f"-mprefer-vector-width={256 if path.stem in NARROW else 512}"]
        flags = [*target, *processor, *(wide if level == "x86_64_v4" else []), *FLAGS]
        source = folder / f"{path.stem}_entries.c"
        made = str(folder / f"{path.stem}.o")
        source.write_text(with_entries(path, flags))
        zig("cc", *flags, "-c", str(source), "-o", made)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as executor:
        objects = list(executor.map(compiled, sources()))
    options = ["-fsanitize=undefined"] if SANITIZE else ["-s"]
    libraries = [] if system.startswith("windows") else ["-lm"]
    made = folder / to.name  # zig writes an import library next to it on Windows
    # No -mcpu here, so that zig builds its own libraries once for all levels.
    zig("cc", *target, "-shared", *options, *objects, *libraries, "-o", str(made))
    new = to.with_suffix(".new")  # running programs may use the old library
    shutil.copy(made, new)
    new.replace(to)


def sources() -> list[Path]:
    """Return the C files to compile: the shared kernels and those of this plugin."""
    return [path for folder in FOLDERS for path in sorted(folder.glob("*.c"))]


def with_entries(path: Path, flags: list[str]) -> str:
    """Return a source that includes ``path`` and adds entry points for its kernels."""
    mark = [f"-DEXPORT(name)={MARK}", "-w", "-E", "-P"]
    text = zig("cc", *flags, *mark, str(path))
    kernels = KERNEL.findall(text)
    if len(kernels) != text.count(MARK):
        raise ValueError(
            f"{path.name}: Python can call only {len(kernels)} of {text.count(MARK)} "
            "kernels; define each as `void name(...) {`"
        )
    entries = [entry(kernel, parameters) for kernel, parameters in kernels]
    return "\n".join([f'#include "{path.name}"', '#include "entry.h"', *entries, ""])


def entry(name: str, parameters: str) -> str:
    """Return the C code of a kernel's entry point, given the text of its parameters.

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
    """Return the kind of a parameter: a letter of entry.h."""
    if "*" in parameter:
        return "p"
    kind = {"u32": "u", "f64": "d"}.get(parameter.partition(" ")[0])
    if kind is None:
        raise ValueError(
            f"{kernel}: Python passes addresses, u32 and f64, not `{parameter}`"
        )
    return kind


def zig(*arguments: str) -> str:
    """Run a ziglang tool and return its output."""
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
