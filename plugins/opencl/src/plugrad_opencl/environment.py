"""Prepares the environment for the first OpenCL call: folders, linker, drivers.

PoCL ends the process if it finds no linker, has no devices if it cannot write its
cache, and does not compile for processors that are newer than itself.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import pathlib
import shlex
import shutil
import sys
import tempfile
import threading

from . import _pocl

Path = pathlib.Path


@functools.cache
def folder() -> Path:
    """Return the folder for compiled programs: in the user's cache, or temporary."""
    temporary = os.path.join(tempfile.gettempdir(), f"cache-{os.getuid()}")
    for folder in (_cache_home(), temporary):
        found = Path(folder, "plugrad-opencl")
        if _ensure_writable(found):
            return found
    return Path(tempfile.mkdtemp(prefix="plugrad-opencl-"))


def _cache_home() -> str:
    """Return the user's cache folder; XDG says to ignore a relative XDG_CACHE_HOME."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return given if os.path.isabs(given) else os.path.expanduser("~/.cache")


def save(file: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file atomically: even a power failure leaves the old or the new one."""
    file.parent.mkdir(exist_ok=True)
    temporary = file.with_name(f"{file.name}.{os.getpid()}-{threading.get_ident()}")
    with temporary.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    temporary.chmod(mode)
    temporary.replace(file)


def _ensure_writable(path: Path) -> bool:
    """Create a folder; return whether this user owns it and can write files there."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path.stat().st_uid == os.getuid()  # or others could put code there
    except OSError:
        return False


def remarks() -> list[str]:
    """Return problems with the environment, and how to solve them."""
    if folder().parent == Path(_cache_home()):
        return []
    return [
        f"cannot write to {Path(_cache_home(), 'plugrad-opencl')}, so compiled "
        f"programs are kept in the temporary folder {folder()} and may be lost; set "
        "XDG_CACHE_HOME to a writable folder"
    ]


@functools.cache
def prepare() -> None:
    """Set the OpenCL environment variables that the user has not set."""
    given = os.environ.get("POCL_CACHE_DIR")
    if not given or not _ensure_writable(Path(given)):
        cache = folder() / f"pocl-{_pocl.processor() or 'own'}"
        cache.mkdir(exist_ok=True)
        os.environ["POCL_CACHE_DIR"] = str(cache)
    # Disable pyopencl's cache: a damaged or read-only cache raises errors, and the
    # cache makes nothing faster.
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    os.environ.setdefault("POCL_DEVICES", "basic pthread")
    _find_linker()
    _add_intel()


# --- the linker ------------------------------------------------------------------


def has_linker() -> bool:
    """Return whether PoCL will find an ``ld``."""
    return shutil.which("ld") is not None


def _find_linker() -> None:
    """Put an ``ld`` on PATH if there is none: a script that runs `_linker`.

    A frozen program, or one that embeds Python, has no interpreter for the script.
    There the script runs the linker of the package ziglang, if that is installed.
    """
    command = [] if has_linker() else _own_linker() or _linker_of_ziglang()
    if not command:
        return
    shim = folder() / "bin" / "ld"
    text = _SHIM.format(command=shlex.join(command)).encode()
    if not shim.exists() or shim.read_bytes() != text:
        save(shim, text, mode=0o755)
    os.environ["PATH"] = f"{shim.parent}{os.pathsep}{os.environ.get('PATH', '')}"


def _own_linker() -> list[str]:
    """Return the command of `_linker`; nothing if there is no interpreter."""
    interpreter = Path(sys.executable or "")
    program = Path(__file__).with_name("_linker.py")  # missing in an archive
    # An executable with a different name is a program that embeds Python.
    is_python = interpreter.name.startswith(("python", "pypy"))
    if getattr(sys, "frozen", False) or not is_python or not program.is_file():
        return []
    executable = os.access(interpreter, os.X_OK)
    code = _RUN.format(folder=str(program.parent))
    return [str(interpreter), "-I", "-S", "-c", code] if executable else []


# Python caches the bytecode of an imported module, but not of a script.
_RUN = (
    "import sys; sys.path.append({folder!r}); import _linker; "
    "sys.exit(_linker.main(sys.argv[1:]))"
)


def _linker_of_ziglang() -> list[str]:
    """Return the command of ziglang's linker; nothing if the package is missing."""
    found = importlib.util.find_spec("ziglang")
    if found is None or found.origin is None:
        return []
    zig = Path(found.origin).with_name("zig")
    return [str(zig), "ld.lld"] if os.access(zig, os.X_OK) else []


# The script drops the arguments that name libraries: kernels call nothing in libc and
# libgcc, and the development files of these may be missing.
_SHIM = """\
#!/bin/sh
for argument; do
  shift
  case "$argument" in
    -l* | -L* | --as-needed | --no-as-needed) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {command} "$@"
"""


# --- drivers ---------------------------------------------------------------------


def _add_intel() -> None:
    """Add Intel's runtime for CPUs from the package index to the system's drivers.

    The .icd file in its package contains a path of the machine that built the package.
    """
    library = Path(sys.prefix, "lib", "libintelocl.so")
    if "OCL_ICD_VENDORS" in os.environ or not library.exists():
        return
    digest = hashlib.sha256(str(library).encode()).hexdigest()[:12]
    vendors = folder() / f"vendors-{digest}"
    vendors.mkdir(exist_ok=True)
    for old in vendors.iterdir():
        old.unlink(missing_ok=True)
    for icd in Path("/etc/OpenCL/vendors").glob("*.icd"):
        shutil.copy(icd, vendors)
    (vendors / "intel-cpu.icd").write_text(f"{library}\n")
    os.environ["OCL_ICD_VENDORS"] = str(vendors)
