"""``load``, and the ``Model`` that it returns."""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.importing import loading, on_backend, open_backend, printable

from .adapters import Adapter, check_pair, make_adapter, read_adapter
from .chat import Message, render
from .config import Config, read_config
from .explain import TokenScores, score_tokens
from .generate import Context, Step, Stream, make_step
from .llama import Changes, embed, rotary_tables, run, to_logits
from .reader import Array, GgufFile, read
from .sampling import Sampler, TextBuffer
from .tokenizer import Tokenizer
from .weights import Params, stored_bytes

__all__ = ["Model", "load"]


def load(
    path: str | os.PathLike[str],
    *,
    backend: str | None = None,
    rounded: bool = False,
    budget: pg.Budget | None = None,
) -> Model:
    """Return the language model in a GGUF file.

    The file is mapped into memory; a backend converts the weights when the model first
    runs on it. The file must not change while the model is in use.

    Args:
        path: The file.
        backend: The backend to run on; None: the backend that is active in each call.
        rounded: Whether to round the inputs of products: with packed weights to 8 bits,
            as llama.cpp does, and with bfloat16 weights to bfloat16, as PyTorch does.
            This changes the text; docs/gguf.md says where it is faster.
        budget: Limits on the memory and time of loading, including the weights. By
            default, the weights may use as much memory as their types imply.

    Raises:
        OSError: The file cannot be opened.
        ModelError: The file is damaged, the architecture, a setting or a tensor is not
            supported (the message names all of them), or the file exceeds the budget.
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
        needed = stored_bytes(file.tensors.values())
        # 2-bit tensors grow by more than a budget allows by default. The reader rejects
        # overlapping tensors, so a small file cannot need much memory.
        budget.measure(needed)
        budget.allocate(needed)
    return Model(file, config, backend, rounded=rounded)


class Model:
    """A language model: text, logits, gradients.

    Attributes:
        config: The sizes of the model.
        metadata: The metadata of the file, by name.
        backend: The backend that the model runs on; None: the one that is active in
            each call.
        rounded: Whether inputs of products with packed weights are rounded to 8 bits,
            and those with bfloat16 weights to bfloat16.

    """

    def __init__(
        self,
        file: GgufFile,
        config: Config,
        backend: str | None,
        *,
        rounded: bool = False,
    ) -> None:
        self.backend = backend
        self.rounded = rounded
        self.config = config
        self.metadata: Mapping[str, Any] = MappingProxyType(dict(file.metadata))
        self._file = file
        self._params: dict[str, Params] = {}  # by backend
        self._steering: tuple[tuple[int, Array], ...] = ()
        self._adapter: Adapter | None = None
        self._steps: dict[str, Step] = {}  # by backend

    def __jit_state__(self) -> tuple[Any, ...]:
        """Return the state that calls read and that may change between calls."""
        return self.backend, self._params, self._steering, self._adapter

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer; raises ``ValueError`` if the file has no supported one."""
        tokenizer = Tokenizer(self.metadata)
        if len(tokenizer.tokens) > self.config.vocabulary:
            raise ValueError(
                f"tokenizer: the file names {len(tokenizer.tokens)} tokens, but the "
                f"model has {self.config.vocabulary}; the file is damaged"
            )
        return tokenizer

    def to(self, backend: str | None) -> Model:
        """Return the same model on another backend; None: the active one."""
        if backend is not None:
            open_backend("to", backend)
        return Model(self._file, self.config, backend, rounded=self.rounded)

    def embeddings(self, tokens: Sequence[int] | str) -> pg.Tensor:
        """Return the embeddings of tokens, which ``logits`` also accepts.

        Args:
            tokens: A text, or a sequence of token IDs.

        Returns:
            A tensor of shape ``[number of tokens, config.width]``.

        Raises:
            ValueError: There are no tokens or too many, or an ID is out of range.

        """
        return self._embed("embeddings", tokens)

    def logits(self, tokens: Sequence[int] | str | pg.Tensor) -> pg.Tensor:
        """Return the logits of the token that follows each token.

        Args:
            tokens: A text, a sequence of token IDs, or the embeddings of tokens, a
                tensor ``[number of tokens, config.width]``, with respect to which the
                logits can be differentiated.

        Returns:
            A tensor of shape ``[number of tokens, config.vocabulary]``.

        Raises:
            ValueError: There are no tokens or too many, an ID is out of range, or
                embeddings have another shape.

        """
        x = tokens if isinstance(tokens, pg.Tensor) else self._embed("logits", tokens)
        if not self._are_embeddings(x):
            raise ValueError(
                f"logits: embeddings must be floating, [tokens, {self.config.width}], "
                f"with 1 to {self.config.context} tokens; got "
                f"{x.dtype}{[*x.shape]}"
            )
        with on_backend(self.backend):
            params = self._active_params()
            rotary = rotary_tables(self.config, params, len(x))
            y = run(params, self.config, x, rotary, changes=self._changes())
            return to_logits(params, y)

    def loss(
        self,
        tokens: Sequence[int] | str,
        *,
        adapter: Adapter | None = None,
        prompt_tokens: int = 0,
    ) -> pg.Tensor:
        """Return the mean negative log-likelihood of the tokens of a text.

        Args:
            tokens: A text, or a sequence of token IDs; each token is predicted from
                those before it.
            adapter: The adapter to use, such as one whose ``params`` are
                differentiated; None: that of ``use_adapter``, if there is one.
            prompt_tokens: The number of tokens at the beginning that the mean leaves
                out.

        Returns:
            A scalar, in nats per token.

        Raises:
            ValueError: No token is left to predict, there are too many, or an ID is out
                of range.

        Example:
            Train an adapter with a few steps of gradient descent::

                adapter = model.new_adapter(rank=4)
                params = adapter.params

                def loss(params):
                    return model.loss(text, adapter=adapter.with_params(params))

                for _ in range(20):
                    grads = pg.grad(loss)(params)
                    params = pg.tree.map(lambda p, g: p - 0.1 * g, params, grads)

        """
        codes = self._to_codes("loss", tokens)
        first = max(prompt_tokens, 1)
        if first >= len(codes):
            raise ValueError(
                f"loss: no token is left to predict; the text has {len(codes)} "
                f"tokens, and prompt_tokens is {prompt_tokens}"
            )
        with on_backend(self.backend):
            params = self._active_params()
            x = embed(params, pg.asarray(codes[:-1], dtype="int32"))
            rotary = rotary_tables(self.config, params, len(codes) - 1)
            y = run(params, self.config, x, rotary, changes=self._changes(adapter))
            logits = to_logits(params, y[first - 1 :])
            labels = pg.asarray(codes[first:], dtype="int32")
            return pg.losses.sparse_softmax_cross_entropy(labels, logits)

    def new_adapter(
        self,
        rank: int = 8,
        *,
        alpha: float = 16.0,
        targets: Sequence[str] = ("attn_q", "attn_v"),
        seed: int = 0,
    ) -> Adapter:
        """Return a new low-rank adapter (LoRA), which does not change the model yet.

        Args:
            rank: The number of rows of ``a``, and of columns of ``b``.
            alpha: The product ``b a`` is multiplied by ``alpha / rank``.
            targets: The matrices of each layer to adapt: some of attn_q, attn_k,
                attn_v, attn_output, ffn_gate, ffn_up, ffn_down.
            seed: The seed of ``a``; each ``b`` is 0.

        Raises:
            ValueError: The rank is not positive, or a target is not the name of a
                matrix.

        Source:
            E. J. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021.

        """
        with on_backend(self.backend):
            return make_adapter(self.config, rank, alpha, targets, seed)

    def load_adapter(
        self, path: str | os.PathLike[str], *, budget: pg.Budget | None = None
    ) -> Adapter:
        """Return the adapter in a GGUF file written by ``Adapter.save`` or llama.cpp.

        Args:
            path: The file.
            budget: Limits on the memory and time of loading.

        Raises:
            OSError: The file cannot be opened.
            ModelError: The file is damaged, or does not fit the model; the message
                names all problems.

        """
        budget = pg.Budget.started(budget, "load_adapter")
        with on_backend(self.backend), loading():
            file = read(path, budget)
            budget.allocate(sum(4 * math.prod(x.shape) for x in file.tensors.values()))
            return read_adapter(file, self.config)

    @contextlib.contextmanager
    def use_adapter(self, adapter: Adapter | None) -> Iterator[None]:
        """Return a context manager in which all methods use an adapter.

        A ``Context`` or ``Stream`` keeps the adapter that was active when it was
        created.

        Args:
            adapter: The adapter; None: use no adapter.

        Raises:
            ValueError: The adapter does not fit the model.

        """
        if adapter is not None:
            pairs = adapter.params.items()
            problems = [
                problem
                for name, pair in pairs
                for problem in check_pair(name, pair, self.config)
            ]
            if problems:
                raise ValueError(f"use_adapter: {'; '.join(problems)}")
        old = self._adapter
        self._adapter = adapter
        try:
            yield
        finally:
            self._adapter = old

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int = 128,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        stop: str | Sequence[str] = (),
        stream: Callable[[str], object] | None = None,
        context: Context | None = None,
    ) -> str:
        """Return the text that follows a prompt.

        Args:
            prompt: A text, or a sequence of token IDs. Names of control tokens in a
                text, such as ``<|im_end|>``, are read as these tokens.
            max_tokens: The largest number of tokens.
            temperature: The divisor of the logits before a token is drawn; 0 chooses
                the most likely token.
            top_k: Draw among this number of the most likely tokens; None: among all.
            top_p: Draw among the most likely tokens that together have this
                probability; None: among all.
            seed: The seed of the draws; equal seeds give equal texts. None: a
                different text each time.
            stop: One or several stop words; the text ends before the first of them.
            stream: A function that is called with each piece of text.
            context: The result of ``new_context``; it saves time if the prompt
                continues a text that the context has read.

        Raises:
            ValueError: The prompt is empty or too long, or an argument is out of range.

        Source:
            A. Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020,
            for ``top_p``.

        """
        pieces = self.stream(
            prompt,
            max_tokens=max_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            stop=stop,
            context=context,
        )
        found = []
        for piece in pieces:
            found.append(piece)
            if stream is not None:
                stream(piece)
        return "".join(found)

    def stream(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int = 128,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        stop: str | Sequence[str] = (),
        context: Context | None = None,
    ) -> Stream:
        """Return an iterator over the text that follows a prompt.

        The arguments are those of ``generate``. The iterator also counts tokens and
        time: see ``Stream``.

        Raises:
            ValueError: The prompt is empty or too long, or an argument is out of range.

        """
        codes = self._to_codes("generate", prompt)
        if max_tokens < 0:
            raise ValueError(
                f"generate: max_tokens must be 0 or more, got {max_tokens!r}"
            )
        sampler = Sampler(temperature, top_k, top_p, seed)
        buffer = TextBuffer(stop)
        # The last token of a text is never read, so it needs no position.
        count = min(max_tokens, self.config.context - len(codes) + 1)
        context = self.new_context() if context is None else context
        return Stream(context, self.tokenizer, codes, count, sampler, buffer)

    def new_context(self) -> Context:
        """Return an empty context, on the active backend and with the active steering.

        Pass it to several calls of ``generate`` or ``stream`` whose prompts begin
        alike, such as the turns of a conversation.
        """
        with on_backend(self.backend):
            backend, params = pg.get_backend(), self._active_params()
            if backend not in self._steps:
                self._steps[backend] = make_step(self.config, params)
            step = self._steps[backend]
            return Context(self.config, params, step, backend, self._changes())

    def chat_prompt(self, messages: Sequence[Message], *, reply: bool = True) -> str:
        """Return messages as a prompt, rendered with the chat template of the file.

        Args:
            messages: Dicts with ``role`` ("system", "user", "assistant") and
                ``content``.
            reply: Whether to append the text that introduces the model's reply.

        Raises:
            ImportError: Jinja is not installed; the extra ``chat`` installs it.
            ValueError: The file has no chat template, or it fails.

        """
        tokens = self.tokenizer.tokens
        bos, eos = (
            "" if code is None else tokens[code]
            for code in (self.tokenizer.bos, self.tokenizer.eos)
        )
        template = self.metadata.get("tokenizer.chat_template")
        return render(template, messages, bos, eos, reply)

    def explain(
        self, prompt: str | Sequence[int], answer: str | Sequence[int]
    ) -> TokenScores:
        """Return the contribution of each token of a prompt to an answer.

        Args:
            prompt: A text, or a sequence of token IDs.
            answer: The expected continuation, such as ``" Paris"``. The logit of its
                first token is explained.

        Returns:
            The gradient of the logit with respect to the embedding of each token: its
            product with the embedding, and its norm.

        Raises:
            ValueError: The prompt is empty or too long, or the answer is empty.

        Source:
            A. Shrikumar et al., "Not Just a Black Box", 2016.

        """
        codes = self._to_codes("explain", prompt)
        target = self._to_codes("explain", answer, bos=False)[0]
        with on_backend(self.backend):
            params, changes = self._active_params(), self._changes()
            found = score_tokens(params, self.config, codes, target, changes)
            logits, scores, norms = (x.numpy().astype(np.float64) for x in found)
        chances = np.exp(logits - logits.max())
        texts = [
            self.tokenizer.decode([code], special=True) for code in [*codes, target]
        ]
        return TokenScores(
            tokens=tuple(texts[:-1]),
            answer=texts[-1],
            logit=float(logits[target]),
            probability=float(chances[target] / chances.sum()),
            scores=tuple(scores.tolist()),
            norms=tuple(norms.tolist()),
        )

    @contextlib.contextmanager
    def steering(self, layer: int, vector: Any) -> Iterator[None]:
        """Return a context manager that adds a vector to the residual stream.

        ``with`` blocks can be nested. A ``Context`` or ``Stream`` keeps the vectors
        that were active when it was created.

        Args:
            layer: The layer after which the vector is added; negative numbers count
                from the last.
            vector: A tensor or an array of shape ``[config.width]``.

        Raises:
            ValueError: There is no such layer, or the vector has the wrong shape.

        Source:
            A. Turner et al., "Steering Language Models With Activation Engineering",
            2023.

        """
        layers, width = self.config.layers, self.config.width
        if not -layers <= layer < layers:
            raise ValueError(
                f"steering: there is no layer {layer!r}; the model has {layers} layers"
            )
        values = pg.asarray(vector).numpy()
        if values.shape != (width,) or values.dtype.kind not in "biuf":
            raise ValueError(
                f"steering: the vector must be float32[{width}], got "
                f"{values.dtype}{[*values.shape]}"
            )
        old = self._steering
        self._steering = (*old, (layer % layers, values.astype(np.float32)))
        try:
            yield
        finally:
            self._steering = old

    def __repr__(self) -> str:
        """Return the architecture and the sizes."""
        c = self.config
        name = self.metadata.get("general.name")
        title = printable(name) if isinstance(name, str) else "Model"
        return (
            f"<{title}: {c.architecture}, {c.layers} layers, width {c.width}, "
            f"{c.vocabulary} tokens, context {c.context}>"
        )

    # --- helpers ---------------------------------------------------------------------

    def _active_params(self) -> Params:
        """Return the weights on the active backend."""
        backend = pg.get_backend()
        if backend not in self._params:
            with pg.outside(), pg.use_backend(backend):  # tensors outlive the call
                self._params[backend] = Params.from_file(
                    self._file, rounded=self.rounded
                )
        return self._params[backend]

    def _embed(self, function: str, tokens: Sequence[int] | str) -> pg.Tensor:
        """Return the embeddings of tokens after checking them."""
        codes = self._to_codes(function, tokens)
        with on_backend(self.backend):
            return embed(self._active_params(), pg.asarray(codes, dtype="int32"))

    def _are_embeddings(self, x: pg.Tensor) -> bool:
        """Return whether a tensor may be embeddings of tokens."""
        is_matrix = x.ndim == 2 and x.shape[1] == self.config.width
        return x.dtype.kind == "f" and is_matrix and 0 < len(x) <= self.config.context

    def _changes(self, adapter: Adapter | None = None) -> Changes:
        """Return the changes in force, on the active backend."""
        sums: dict[int, Array] = {}
        for layer, values in self._steering:
            sums[layer] = sums.get(layer, np.float32(0)) + values
        vectors = {layer: pg.asarray(values) for layer, values in sums.items()}
        adapter = self._adapter if adapter is None else adapter
        return Changes(vectors, {} if adapter is None else adapter.pairs())

    def _to_codes(
        self, function: str, tokens: str | Sequence[int], bos: bool | None = None
    ) -> list[int]:
        """Return the token IDs of a text after checking them."""
        if isinstance(tokens, str):
            tokens = self.tokenizer.encode(tokens, bos=bos)
        codes = [operator.index(code) for code in tokens]
        if not 0 < len(codes) <= self.config.context:
            raise ValueError(
                f"{function}: the text has {len(codes)} tokens; it must have 1 to "
                f"{self.config.context}, the context of the model"
            )
        wrong = [code for code in codes if not 0 <= code < self.config.vocabulary]
        if wrong:
            raise ValueError(
                f"{function}: there is no token {wrong[0]}; the model has "
                f"{self.config.vocabulary} tokens"
            )
        return codes
