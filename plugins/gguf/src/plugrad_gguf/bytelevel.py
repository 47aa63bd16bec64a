"""Splits text by byte-level BPE, as GPT-2, Llama 3, Qwen2 and SmolLM do.

The package ``tokenizers`` performs the merges. The vocabulary represents each byte by a
printable character: a space is ``Ġ``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

__all__ = ["PRETOKENIZERS", "ByteLevel"]

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WORDS = (
    r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,%d}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
# How text is split before the merges, by the name of the pre-tokenizer in the file.
PRETOKENIZERS = {
    "default": "gpt-2",
    "gpt-2": "gpt-2",
    "llama-bpe": "llama-bpe",
    "llama3": "llama-bpe",
    "llama-v3": "llama-bpe",
    "qwen2": "qwen2",
    "deepseek-r1-qwen": "qwen2",
    "smollm": "smollm",
    "starcoder": "smollm",
}


def _printable_bytes() -> dict[int, str]:
    """Return the character that stands for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [value for value in range(256) if value not in plain]
    found = {value: chr(value) for value in plain}
    return found | {value: chr(256 + i) for i, value in enumerate(others)}


CHARACTERS = _printable_bytes()
VALUES = {character: value for value, character in CHARACTERS.items()}


class ByteLevel:
    """A vocabulary of byte sequences, and the order of merges.

    Source:
        A. Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
    """

    def __init__(
        self, tokens: Sequence[str], merges: Sequence[str], pretokenizer: str
    ) -> None:
        self._tokens = tokens
        codes: dict[str, int] = {}
        for code, token in enumerate(tokens):
            codes.setdefault(token, code)
        pairs = [_split_merge(i, merge, codes) for i, merge in enumerate(merges)]
        style = PRETOKENIZERS[pretokenizer]
        whole = style == "llama-bpe"  # a word that is a token stays whole
        model = models.BPE(codes, pairs, ignore_merges=whole)
        self._tokenizer = Tokenizer(model)
        self._tokenizer.pre_tokenizer = _make_pretokenizer(style)
        if style == "qwen2":
            self._tokenizer.normalizer = normalizers.NFC()

    def encode(self, text: str) -> list[int]:
        """Return the token IDs of a text, without special tokens.

        Bytes that the vocabulary lacks are left out, as in the package ``tokenizers``.
        """
        plain = text.encode("utf-8", "replace").decode()  # no lone surrogates
        return list(self._tokenizer.encode(plain, add_special_tokens=False).ids)

    def to_bytes(self, code: int) -> bytes:
        """Return the bytes that a token adds to the text."""
        token = self._tokens[code]
        if all(character in VALUES for character in token):
            return bytes(VALUES[character] for character in token)
        return token.encode()


def _split_merge(number: int, merge: str, codes: dict[str, int]) -> tuple[str, str]:
    """Return the two parts of a merge; they and their union must be tokens."""
    left, _, right = merge.partition(" ")
    if not (left in codes and right in codes and left + right in codes):
        raise ValueError(
            f"tokenizer: merge {number} is {merge!r}, but not all of {left!r}, "
            f"{right!r} and {left + right!r} are tokens; the file is damaged"
        )
    return left, right


def _make_pretokenizer(style: str) -> Any:
    """Return a pre-tokenizer that splits text into words and encodes their bytes."""
    if style in ("gpt-2", "smollm"):
        words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        if style == "gpt-2":
            return words
        digits = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([digits, words])
    pattern = CONTRACTIONS + WORDS % (3 if style == "llama-bpe" else 1)
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    encode = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([split, encode])
