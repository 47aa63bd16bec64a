"""Chooses tokens, and turns tokens into text piece by piece."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Sampler", "TextBuffer"]


class Sampler:
    """Chooses the next token from its logits.

    Args:
        temperature: The divisor of the logits; 0 chooses the most likely token.
        top_k: Choose among this number of the most likely tokens; None: among all.
        top_p: Then choose among the most likely tokens that together have this
            probability; None: among all.
        seed: The seed of the random choices; None: a different one each time.

    Raises:
        ValueError: An argument is out of range.

    Source:
        A. Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020.

    """

    def __init__(
        self,
        temperature: float,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> None:
        if not 0 <= temperature < float("inf"):
            raise ValueError(
                f"generate: temperature must be 0 or more, got {temperature!r}"
            )
        if top_k is not None and top_k < 1:
            raise ValueError(f"generate: top_k must be 1 or more, got {top_k!r}")
        if top_p is not None and not 0 < top_p <= 1:
            raise ValueError(f"generate: top_p must be in (0, 1], got {top_p!r}")
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self._rng = np.random.default_rng(seed)

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is chosen."""
        return self.temperature == 0 or self.top_k == 1

    def choose(self, logits: np.ndarray[Any, Any]) -> int:
        """Return the ID of the next token, given its logits."""
        if self.is_greedy:
            return int(np.argmax(logits))
        values = logits.astype(np.float64)
        if not np.isfinite(values.max()):
            raise ValueError(
                f"generate: the largest logit is {values.max()}; the weights of the "
                "file are damaged"
            )
        order = np.argsort(-values, kind="stable")[: self.top_k]
        chances = np.exp((values[order] - values[order[0]]) / self.temperature)
        sums = np.cumsum(chances)
        if self.top_p is not None:
            last = np.searchsorted(sums, self.top_p * sums[-1])
            sums = sums[: last + 1]
        found = np.searchsorted(sums, self._rng.random() * sums[-1], side="right")
        return int(order[min(found, len(sums) - 1)])


class TextBuffer:
    """Holds back text that may be half a character or the beginning of a stop word.

    Args:
        stop: Stop words: the text ends before the first of them.

    """

    def __init__(self, stop: str | Sequence[str]) -> None:
        words = [stop] if isinstance(stop, str) else [*stop]
        if not all(words):
            raise ValueError(f"generate: stop words must be non-empty, got {words!r}")
        self._stop = words
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""

    def add(self, data: bytes) -> tuple[str, bool]:
        """Add bytes; return text that is now final, and whether a stop word follows."""
        return self._release(self._decoder.decode(data))

    def finish(self) -> str:
        """Return the rest of the text after the last token."""
        text, has_stopped = self._release(self._decoder.decode(b"", final=True))
        return text if has_stopped else text + self._pending

    def _release(self, new: str) -> tuple[str, bool]:
        text = self._pending + new
        found = [at for word in self._stop if (at := text.find(word)) >= 0]
        if found:
            self._pending = ""
            return text[: min(found)], True
        held = 0
        for word in self._stop:
            sizes = range(1, min(len(word), len(text) + 1))
            fits = (n for n in sizes if text.endswith(word[:n]))
            held = max(held, *fits, 0)
        self._pending = text[len(text) - held :]
        return text[: len(text) - held], False
