"""Language models from GGUF files on every plugrad backend, with gradients."""

from plugrad.importing import ModelError

from .model import Model, load

__all__ = ["Model", "ModelError", "load"]
