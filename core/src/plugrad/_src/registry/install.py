"""The command that installs a distribution, for messages and pages.

plugrad is not on a package index yet: its distributions are installed from a checkout.
Every piece of advice to install one of them comes from here. When the first version is
published, only ``RELEASED`` changes: see ``docs/releasing.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

RELEASED = False  # whether plugrad's distributions are on package indexes

# The folder of each distribution in a checkout.
FOLDERS = {
    "keras-plugrad": "plugins/keras",
    "plugrad": "core",
    "plugrad-attribution": "plugins/attribution",
    "plugrad-cpu": "plugins/cpu",
    "plugrad-gguf": "plugins/gguf",
    "plugrad-llvm": "plugins/llvm",
    "plugrad-mpi": "plugins/mpi",
    "plugrad-onnx": "plugins/onnx",
    "plugrad-opencl": "plugins/opencl",
    "plugrad-tfjs": "plugins/tfjs",
    "plugrad-train": "plugins/train",
    "plugrad-wasm": "plugins/wasm",
    "plugrad-webgpu": "plugins/webgpu",
    "plugrad-conformance": "tests/conformance",
    "plugrad-gradient-packs": "examples/gradient_packs",
}
NEED_CPU = ("plugrad-llvm", "plugrad-opencl", "plugrad-wasm", "plugrad-webgpu")


def advice(*requirements: str, upgrade: bool = False) -> str:
    """Return the command in backticks, and where to run it if that matters.

    Examples:
        >>> advice("far>=2", upgrade=True)
        "`pip install --upgrade 'far>=2'`"

    """
    text = f"`{command(*requirements, upgrade=upgrade)}`"
    if "./" not in text:
        return text
    return f"{text} in {'an updated' if upgrade else 'a'} checkout of plugrad"


def command(*requirements: str, upgrade: bool = False) -> str:
    """Return the pip command that installs distributions.

    Args:
        requirements: Names, or names with versions, such as ``"plugrad-cpu>=0.1"``. A
            distribution in ``FOLDERS`` is installed from a checkout until it is on a
            package index.
        upgrade: Whether to install newer versions.

    """
    words = list(dict.fromkeys(_arguments(requirements)))
    options = ["--upgrade"] if upgrade and not words[0].startswith("./") else []
    return " ".join(["pip install", *options, *words])


def _arguments(requirements: tuple[str, ...]) -> Iterator[str]:
    """Yield the arguments of pip; folders of a checkout come first."""
    named = {text: re.split(r"[^\w.-]", text, maxsplit=1)[0] for text in requirements}
    ours = [] if RELEASED else [name for name in named.values() if name in FOLDERS]
    if ours:
        yield "./core"
    if any(name in NEED_CPU for name in ours):
        yield "./plugins/cpu"
    yield from (f"./{FOLDERS[name]}" for name in ours)
    for text, name in named.items():
        if name not in ours:
            yield text if text == name else f"'{text}'"
