"""The tokenizer in a GGUF file: text to token IDs and back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .bytelevel import PRETOKENIZERS, ByteLevel
from .sentencepiece import SentencePiece

__all__ = ["Tokenizer"]

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4  # the types of tokens in GGUF
# Tokens that end a text even if the metadata does not name them.
ENDS = (
    "</s>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|im_end|>",
)


class Tokenizer:
    """Converts between text and token IDs, by the vocabulary of a model.

    Args:
        metadata: The metadata of a GGUF file.

    Attributes:
        tokens: The texts of the tokens, as the file writes them.
        bos: The token that begins a text, or None.
        eos: The token that ends a text, or None.
        ends: All tokens that end a text.
        adds_bos: Whether a text begins with ``bos``.

    Raises:
        ValueError: There is no vocabulary, it is damaged, or it is of an unknown kind.

    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self._metadata = metadata
        kind = self._get("model")
        if not isinstance(kind, str) or kind not in ("gpt2", "llama"):
            raise ValueError(
                f"tokenizer: the file has the tokenizer {kind!r}; supported are 'gpt2' "
                "(byte-level BPE) and 'llama' (SentencePiece): pass token IDs "
                "instead of text"
            )
        self.tokens = self._get_texts("tokens")
        self._kinds = self._get_numbers("token_type", NORMAL, "iu")
        self.bos, self.eos = (self._get_code(f"{x}_token_id") for x in ("bos", "eos"))
        pre = str(self._get("pre", "default"))
        is_llama3 = PRETOKENIZERS.get(pre) == "llama-bpe"
        default = kind == "llama" or is_llama3
        self.adds_bos = (
            self._get_flag("add_bos_token", default) and self.bos is not None
        )
        self._adds_space = kind == "llama" and self._get_flag("add_space_prefix", True)
        self._model = (
            self._make_bytelevel(pre) if kind == "gpt2" else self._make_pieces()
        )
        self.ends = self._find_ends()
        self._special = self._pattern((UNKNOWN, CONTROL, USER_DEFINED))
        self._added = self._pattern((USER_DEFINED,))
        self._codes = {token: code for code, token in enumerate(self.tokens)}

    def encode(
        self, text: str, *, special: bool = True, bos: bool | None = None
    ) -> list[int]:
        """Return the token IDs of a text.

        Args:
            text: The text.
            special: Whether names of control tokens in the text, such as
                ``<|im_end|>``, are read as these tokens. Pass False for text that you
                do not trust.
            bos: Whether ``bos`` is added at the beginning. None: as the file says,
                unless the text itself begins with the name of ``bos``.

        """
        codes: list[int] = []
        pattern = self._special if special else self._added
        space = self._adds_space
        begin = 0
        for match in pattern.finditer(text) if pattern else ():
            codes += self._encode_plain(text[begin : match.start()], space)
            codes.append(self._codes[match[0]])
            begin, space = match.end(), self._adds_space
        codes += self._encode_plain(text[begin:], space)
        wanted = self.adds_bos and codes[:1] != [self.bos] if bos is None else bos
        if not wanted:
            return codes
        if self.bos is None:
            raise ValueError("encode: the file names no token that begins a text")
        return [self.bos, *codes]

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Return the text of tokens.

        Args:
            tokens: The token IDs.
            special: Whether control tokens are shown by their names.

        Raises:
            ValueError: An ID is not in the vocabulary.

        """
        codes = [int(code) for code in tokens]
        data = b"".join(self.to_bytes(code, special=special) for code in codes)
        text = data.decode("utf-8", "replace")
        starts = codes[1:] if codes[:1] == [self.bos] else codes
        if self._adds_space and not special and starts:
            return text.removeprefix(" ")  # encode has added it
        return text

    def to_bytes(self, code: int, *, special: bool = False) -> bytes:
        """Return the bytes that a token adds to the text; none for a control token."""
        if not 0 <= code < len(self.tokens):
            raise ValueError(
                f"decode: there is no token {code}; the vocabulary has "
                f"{len(self.tokens)} tokens"
            )
        if self._kinds[code] in (UNKNOWN, CONTROL):
            return self.tokens[code].encode() if special else b""
        if self._kinds[code] == USER_DEFINED:
            return self.tokens[code].encode()
        return self._model.to_bytes(code)

    def _encode_plain(self, text: str, space: bool) -> list[int]:
        if not text:
            return []
        return self._model.encode(f" {text}" if space else text)

    # --- reading the metadata --------------------------------------------------------

    def _get(self, key: str, default: Any = None) -> Any:
        return self._metadata.get(f"tokenizer.ggml.{key}", default)

    def _get_flag(self, key: str, default: bool) -> bool:
        value = self._get(key, default)
        if type(value) is not bool:
            raise ValueError(
                f"tokenizer: tokenizer.ggml.{key} is {value!r}, and must be true or "
                "false; the file is damaged"
            )
        return value

    def _get_texts(self, key: str) -> list[str]:
        values = self._get(key)
        if not isinstance(values, list) or not all(isinstance(x, str) for x in values):
            raise ValueError(
                f"tokenizer: tokenizer.ggml.{key} is missing or not a list of strings; "
                "the file may contain only a model: pass token IDs instead of text"
            )
        return values

    def _get_numbers(self, key: str, default: float, kinds: str) -> list[Any]:
        """Return a number for each token, of a dtype whose kind is in ``kinds``."""
        values, count = self._get(key), len(self.tokens)
        if values is None:
            return [default] * count
        is_array = isinstance(values, np.ndarray)
        if not is_array or values.shape != (count,) or values.dtype.kind not in kinds:
            shown = f"{values.dtype}{[*values.shape]}" if is_array else type(values)
            raise ValueError(
                f"tokenizer: tokenizer.ggml.{key} must be {count} numbers, one for "
                f"each token, not {shown}; the file is damaged"
            )
        return values.tolist()

    def _get_code(self, key: str) -> int | None:
        code = self._get(key)
        if code is None:
            return None
        if type(code) is not int or not 0 <= code < len(self.tokens):
            raise ValueError(
                f"tokenizer: tokenizer.ggml.{key} is {code!r}; the vocabulary has "
                f"{len(self.tokens)} tokens: the file is damaged"
            )
        return code

    def _make_bytelevel(self, pre: Any) -> ByteLevel:
        if pre not in PRETOKENIZERS:
            raise ValueError(
                f"tokenizer: the pre-tokenizer {pre!r} is unknown; supported are "
                f"{', '.join(PRETOKENIZERS)}: pass token IDs instead of text"
            )
        return ByteLevel(self.tokens, self._get_texts("merges"), pre)

    def _make_pieces(self) -> SentencePiece:
        unknown = self._get_code("unknown_token_id")
        scores = self._get_numbers("scores", 0.0, "iuf")
        return SentencePiece(self.tokens, scores, self._kinds, unknown or 0)

    def _find_ends(self) -> frozenset[int]:
        named = (self._get_code(f"{name}_token_id") for name in ("eos", "eot", "eom"))
        others = [
            code
            for code, token in enumerate(self.tokens)
            if self._kinds[code] == CONTROL and token in ENDS
        ]
        return frozenset(code for code in (*named, *others) if code is not None)

    def _pattern(self, kinds: Sequence[int]) -> re.Pattern[str] | None:
        """Return a pattern that finds tokens of some types, the longest first."""
        found = {
            token
            for token, kind in zip(self.tokens, self._kinds, strict=True)
            if kind in kinds and token
        }
        if not found:
            return None
        ordered = sorted(found, key=lambda token: (-len(token), token))
        return re.compile("|".join(map(re.escape, ordered)))
