"""Software bills of materials for wheels, in CycloneDX format.

The third-party parts of our wheels come from ziglang: the C library functions that
plugrad-wasm calls, and the runtime functions that compiled code calls. Dependencies are
not part of a wheel; pip installs them.
"""

import email
import importlib.metadata
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ZIG = ("zig", "compiler_rt and mathematics of ziglang, linked into the code")
RUNTIME = ("zig", "compiler_rt of ziglang, which detects processor features")
MUSL = ("musl", "mathematics of the C library, linked into the modules")
WASI = ("wasi-libc", "the C library for WebAssembly, linked into the modules")
BUNDLED = {"plugrad-cpu": [RUNTIME], "plugrad-wasm": [ZIG, MUSL, WASI]}


def documents(wheel: Path) -> dict[str, str]:
    """Return the SBOM documents of a wheel by name; each wheel has exactly one."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    distribution, version = metadata["Name"], metadata["Version"]
    toolchain = importlib.metadata.version("ziglang")
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": component(
                distribution, version, metadata["License-Expression"]
            )
            | {"type": "library", "purl": f"pkg:pypi/{distribution}@{version}"}
        },
        "components": [
            component(part, f"of ziglang {toolchain}", "MIT") | {"description": what}
            for part, what in BUNDLED.get(distribution, [])
        ],
        "dependencies": [
            {
                "ref": distribution,
                "dependsOn": [part for part, _ in BUNDLED.get(distribution, [])],
            }
        ],
    }
    return {f"{distribution}.cdx.json": json.dumps(document, indent=2) + "\n"}


def component(name: str, version: str, license: str) -> dict[str, Any]:
    """Return the entry of one component."""
    return {
        "type": "library",
        "bom-ref": name,
        "name": name,
        "version": version,
        "licenses": [{"expression": license}],
    }


def faults(wheel: Path) -> Iterator[str]:
    """Yield the violations of the CycloneDX JSON schema in the SBOMs of a wheel."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    validator = JsonStrictValidator(SchemaVersion.V1_6)
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".cdx.json")]
        texts = {name: archive.read(name).decode() for name in names}
    if not texts:
        yield f"{wheel.name}: it has no SBOM"
    for name, text in texts.items():
        for error in validator.validate_str(text, all_errors=True) or ():
            yield f"{wheel.name}: {name}: {error.data.json_path}: {error.data.message}"
