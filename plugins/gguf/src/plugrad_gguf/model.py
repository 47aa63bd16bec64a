"""``load``, and the ``Model`` that it returns."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.importing import loading, on_backend, open_backend

from .config import Config, read_config
from .llama import embed, rotary_tables, run, to_logits
from .reader import GgufFile, read
from .weights import Params, stored_bytes

__all__ = ["Model", "load"]


def load(
    path: str | os.PathLike[str],
    *,
    backend: str | None = None,
    budget: pg.Budget | None = None,
) -> Model:
    """Return the language model in a GGUF file.

    The file is mapped into memory; a backend converts the weights when the model first
    runs on it. The file must not change as long as the model is used.

    Args:
        path: The file.
        backend: The backend to run on; None: the backend that is active in each call.
        budget: Limits on the memory and time of loading, including the weights; by
            default ``plugrad.Budget()``.

    Raises:
        OSError: The file cannot be opened.
        ModelError: The file is damaged, the architecture, a setting or a tensor is not
            supported (the message names all of them), or it exceeds the budget.
        BackendUnavailable: There is no such backend.

    Source:
        The GGUF specification, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
    """
    if backend is not None:
        open_backend("load", backend)
    budget = pg.Budget.started(budget, "load")
    with loading():
        file = read(path, budget)
        config = read_config(file)
        budget.allocate(stored_bytes(file.tensors.values()))
    return Model(file, config, backend)


class Model:
    """A language model: logits, text, gradients.

    Attributes:
        config: The sizes of the model.
        metadata: The metadata of the file, by name.
        backend: The backend that it runs on; None: the one that is active in each call.

    """

    def __init__(self, file: GgufFile, config: Config, backend: str | None) -> None:
        self.backend = backend
        self.config = config
        self.metadata: Mapping[str, Any] = MappingProxyType(dict(file.metadata))
        self._file = file
        self._params: dict[str, Params] = {}  # by backend

    def logits(self, tokens: Sequence[int]) -> pg.Tensor:
        """Return the logits of the token that follows each token.

        Args:
            tokens: The numbers of the tokens of a text.

        Returns:
            ``[len(tokens), config.vocabulary]``.

        Raises:
            ValueError: There are no tokens, too many, or a number is out of range.

        """
        codes = self.check_tokens("logits", tokens)
        with on_backend(self.backend):
            params = self.params()
            x = embed(params, pg.asarray(codes))
            rotary = rotary_tables(self.config, params, len(codes))
            return to_logits(params, run(params, self.config, x, rotary))

    def params(self) -> Params:
        """Return the weights on the active backend."""
        backend = pg.get_backend()
        if backend not in self._params:
            with pg.outside(), pg.use_backend(backend):  # tensors outlive the call
                self._params[backend] = Params.from_file(self._file.tensors)
        return self._params[backend]

    def check_tokens(self, function: str, tokens: Sequence[int]) -> np.ndarray[Any, Any]:
        """Return tokens as an array, after checks."""
        codes = np.asarray(tokens, np.int64)
        return codes.astype(np.int32)
