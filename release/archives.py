"""Reproducible archives: their bytes depend only on their contents.

Files are sorted by name and have the time of the commit, one owner, and the permissions
644 or 755. zlib compresses them; the same zlib version always gives the same bytes.
"""

import base64
import gzip
import hashlib
import io
import tarfile
import time
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

WHEEL = """\
Wheel-Version: 1.0
Generator: plugrad
Root-Is-Purelib: true
Tag: py3-none-any
"""


def write_sdist(sdist: Path, target: Path, epoch: int) -> None:
    """Rewrite an sdist reproducibly."""
    raw = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=raw, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            if not member.isfile():
                continue
            info = tarfile.TarInfo(member.name)
            info.size, info.mtime = member.size, epoch
            info.mode = 0o755 if member.mode & 0o100 else 0o644
            new.addfile(info, old.extractfile(member))
    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=epoch) as out,
    ):
        out.write(raw.getvalue())


def write_wheel(
    wheel: Path, target: Path, epoch: int, sboms: Mapping[str, str]
) -> None:
    """Rewrite a wheel reproducibly, with its SBOMs (PEP 770)."""
    with zipfile.ZipFile(wheel) as archive:
        files = {info.filename: archive.read(info) for info in archive.infolist()}
        modes = {info.filename: info.external_attr for info in archive.infolist()}
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    folder = record.removesuffix("RECORD")
    files |= {f"{folder}sboms/{name}": text.encode() for name, text in sboms.items()}
    files = {name: data for name, data in files.items() if not name.endswith("/")}
    del files[record]
    rows = [
        f"{name},{digest(data)},{len(data)}" for name, data in sorted(files.items())
    ]
    files |= {record: "\n".join([*rows, f"{record},,", ""]).encode()}
    date = time.gmtime(epoch)[:6]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        # The specification recommends that the metadata come last.
        for name in sorted(files, key=lambda name: (name.startswith(folder), name)):
            info = zipfile.ZipInfo(name, date)
            executable = modes.get(name, 0) >> 16 & 0o100
            info.external_attr = (0o100755 if executable else 0o100644) << 16
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
            archive.writestr(info, files[name])


def write_module_wheel(
    folder: Path,
    name: str,
    source: str,
    entry_points: str,
    requires: Iterable[str] = (),
) -> Path:
    """Write a wheel of version 1.0 that contains one module; return its path."""
    module = name.replace("-", "_")
    info = f"{module}-1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    metadata += "".join([f"Requires-Dist: {need}\n" for need in requires])
    files = {
        f"{module}.py": source,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": WHEEL,
        f"{info}/entry_points.txt": entry_points,
    }
    rows = [
        f"{path},{digest(text.encode())},{len(text.encode())}"
        for path, text in files.items()
    ]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    wheel = folder / f"{module}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


def digest(data: bytes) -> str:
    """Return the hash of a file in the format of RECORD."""
    code = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return f"sha256={code.decode()}"
