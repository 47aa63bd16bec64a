"""Generates text token by token: ``Context`` is the state, ``Stream`` the iterator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import plugrad as pg

from .config import Config
from .llama import Caches, Changes, embed, rotary_tables, run, to_logits
from .sampling import Sampler, TextBuffer
from .tokenizer import Tokenizer
from .weights import Params

__all__ = ["Context", "Step", "Stream", "make_step"]

Step = Callable[..., Any]
# The number of positions in a cache is a multiple of this, so that texts of similar
# length share a recording of jit.
ROOM_MULTIPLE = 256
PROMPT_CHUNK = 512  # tokens of a prompt that run at once, which bounds the memory


def make_step(config: Config, params: Params) -> Step:
    """Return a function, compiled by ``jit``, that reads a token at any position.

    The weights are constants of its recordings. As arguments, they would be hundreds of
    tensors that ``jit`` compares in each call.
    """

    def step(
        code: pg.Tensor,
        rotary: tuple[pg.Tensor, pg.Tensor],
        caches: Caches,
        position: pg.Tensor,
        changes: Changes,
    ) -> tuple[pg.Tensor, pg.Tensor]:
        x = embed(params, code)
        x = run(params, config, x, rotary, caches, position, changes)
        logits = to_logits(params, x)[0]
        return logits, pg.argmax(logits)

    compiled: Step = pg.jit(step)
    return compiled


class Context:
    """The tokens that a model has read, and the keys and values of its layers.

    A context saves time when a text continues an earlier one: their common prefix is
    not computed again.

    Attributes:
        tokens: The tokens that the model has read.

    """

    def __init__(
        self,
        config: Config,
        params: Params,
        step: Step,
        backend: str,
        changes: Changes,
    ) -> None:
        self.tokens: list[int] = []
        self.backend = backend
        self._config, self._params, self._step = config, params, step
        self._changes = changes
        self._room = 0

    def read(self, tokens: Sequence[int], room: int) -> tuple[pg.Tensor, int]:
        """Read a whole text; return the logits and the most likely token after it.

        Args:
            tokens: The tokens of the whole text, including those read before.
            room: The largest number of tokens that the text will have.

        """
        with pg.use_backend(self.backend):
            self._reserve(room)
            pairs = zip(self.tokens, tokens[:-1], strict=False)
            differ = (i for i, (old, new) in enumerate(pairs) if old != new)
            common = next(differ, min(len(self.tokens), len(tokens) - 1))
            del self.tokens[common:]
            while len(self.tokens) < len(tokens):
                start = len(self.tokens)
                part = [*tokens[start : start + PROMPT_CHUNK]]
                x = embed(self._params, pg.asarray(part, dtype="int32"))
                x = self._run(x, start)
                self.tokens += part
            logits = to_logits(self._params, x[-1:])[0]
            return logits, int(pg.argmax(logits))

    def step(self, code: int) -> tuple[pg.Tensor, int]:
        """Read one token; return the logits ``[tokens]`` and the most likely token."""
        with pg.use_backend(self.backend):
            logits, best = self._step(
                pg.asarray([code], dtype="int32"),
                self._rotary,
                self._caches,
                pg.asarray(len(self.tokens), dtype="int32"),
                self._changes,
            )
            self.tokens.append(code)
            return logits, int(best)

    def _run(self, x: pg.Tensor, start: int) -> pg.Tensor:
        params, config = self._params, self._config
        return run(params, config, x, self._rotary, self._caches, start, self._changes)

    def _reserve(self, room: int) -> None:
        """Create caches with enough room; the content of smaller ones is discarded."""
        if room <= self._room:
            return
        self.tokens = []
        room = max(room, 2 * self._room)  # few new caches per conversation
        self._room = -(-room // ROOM_MULTIPLE) * ROOM_MULTIPLE
        self._caches = Caches.empty(self._config, self._room)
        self._rotary = rotary_tables(self._config, self._params, self._room)


class Stream:
    """An iterator over the text that a model writes.

    A piece of text never ends within a character, and never contains a part of a stop
    word.

    Attributes:
        tokens: The tokens that have been written.
        prompt_tokens: The tokens of the prompt.
        reason: Why the text has ended: "end" (the model ended it), "stop" (a stop
            word), "length" (``max_tokens``, or the context is full), None (not yet).
        prompt_seconds: The time for reading the prompt and choosing the first token.
        seconds: The time for choosing the other tokens.

    """

    def __init__(
        self,
        context: Context,
        tokenizer: Tokenizer,
        tokens: Sequence[int],
        count: int,
        sampler: Sampler,
        buffer: TextBuffer,
    ) -> None:
        self.tokens: list[int] = []
        self.prompt_tokens = [*tokens]
        self.reason: str | None = None
        self.prompt_seconds = self.seconds = 0.0
        self._context, self._tokenizer, self._count = context, tokenizer, count
        self._sampler, self._buffer = sampler, buffer
        self._pieces = self._write()

    def __iter__(self) -> Iterator[str]:
        """Return the iterator itself."""
        return self

    def __next__(self) -> str:
        """Return the next piece of text."""
        return next(self._pieces)

    def _write(self) -> Iterator[str]:
        """Yield pieces of text; a piece may come from several tokens."""
        while self.reason is None:
            if len(self.tokens) == self._count:
                self.reason = "length"
                break
            code = self._next_token()
            if code in self._tokenizer.ends:
                self.reason = "end"
                break
            self.tokens.append(code)
            is_known = code < len(self._tokenizer.tokens)  # else it is padding
            data = self._tokenizer.to_bytes(code) if is_known else b""
            text, has_stopped = self._buffer.add(data)
            if has_stopped:
                self.reason = "stop"
            if text:
                yield text
        if self.reason != "stop" and (rest := self._buffer.finish()):
            yield rest

    def _next_token(self) -> int:
        start = time.perf_counter()
        if self.tokens:
            logits, best = self._context.step(self.tokens[-1])
        else:
            room = len(self.prompt_tokens) + self._count
            logits, best = self._context.read(self.prompt_tokens, room)
        if not self._sampler.is_greedy:
            best = self._sampler.choose(np.asarray(logits.numpy()))
        seconds = time.perf_counter() - start
        if self.tokens:
            self.seconds += seconds
        else:
            self.prompt_seconds += seconds
        return best
