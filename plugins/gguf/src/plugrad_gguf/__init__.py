"""Language models in GGUF files on every plugrad backend, with gradients.

``load`` maps a file and returns a ``Model``: it generates text, computes logits,
explains an answer by gradients, and can be steered.
"""

from typing import Any

from plugrad.importing import ModelError

from .adapters import Adapter
from .config import Config
from .explain import TokenScores
from .generate import Context, Stream
from .model import Model, load
from .tokenizer import Tokenizer

__all__ = [
    "Adapter",
    "Config",
    "Context",
    "Model",
    "ModelError",
    "Stream",
    "TokenScores",
    "Tokenizer",
    "load",
]


def __getattr__(name: str) -> Any:
    """Look up the version of the distribution."""
    if name == "__version__":
        from importlib.metadata import version

        return version("plugrad-gguf")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
