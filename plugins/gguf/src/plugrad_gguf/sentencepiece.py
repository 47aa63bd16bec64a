"""Splits text into the pieces of a SentencePiece vocabulary, as Llama 2 does."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

__all__ = ["SentencePiece"]

SPACE = "\u2581"  # stands for a space in pieces
BYTE = 6  # the type of a piece for one byte, such as <0x0A>


class SentencePiece:
    """A vocabulary whose pieces have scores: the best pair is merged first.

    Source:
        T. Kudo and J. Richardson, "SentencePiece: A simple and language independent
        subword tokenizer and detokenizer for Neural Text Processing", 2018.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        scores: Sequence[float],
        kinds: Sequence[int],
        unknown: int,
    ) -> None:
        self._tokens, self._unknown = tokens, unknown
        self._codes: dict[str, int] = {}
        self._scores: dict[str, float] = {}
        self._bytes: dict[int, int] = {}  # the token ID of each byte
        for code, (token, kind) in enumerate(zip(tokens, kinds, strict=True)):
            if kind == BYTE:
                self._bytes[_byte_value(token, code)] = code
            elif token not in self._codes:
                self._codes[token] = code
                self._scores[token] = float(scores[code])
        self._values = {code: value for value, code in self._bytes.items()}

    def encode(self, text: str) -> list[int]:
        """Return the token IDs of a text, without special tokens."""
        codes: list[int] = []
        for piece in self._merge(text.replace(" ", SPACE)):
            if piece in self._codes:
                codes.append(self._codes[piece])
                continue
            # Text from the command line may contain halves of surrogate pairs.
            data = piece.encode("utf-8", "replace")
            codes += [self._bytes.get(value, self._unknown) for value in data]
        return codes

    def to_bytes(self, code: int) -> bytes:
        """Return the bytes that a token adds to the text, in UTF-8."""
        if code in self._values:
            return bytes([self._values[code]])
        return self._tokens[code].replace(SPACE, " ").encode()

    def _merge(self, text: str) -> list[str]:
        """Return the pieces; among equally good pairs, the leftmost is merged first."""
        pieces: list[str] = list(text)
        following = [*range(1, len(pieces)), -1]
        previous = [*range(-1, len(pieces) - 1)]
        heap: list[tuple[float, int, str]] = []

        def offer(left: int) -> None:
            if left >= 0 and following[left] >= 0:
                pair = pieces[left] + pieces[following[left]]
                if pair in self._scores:
                    heapq.heappush(heap, (-self._scores[pair], left, pair))

        for i in range(len(pieces)):
            offer(i)
        while heap:
            _, left, pair = heapq.heappop(heap)
            right = following[left]
            if not pieces[left] or right < 0 or pieces[left] + pieces[right] != pair:
                continue  # one of the two has been merged since
            pieces[left], pieces[right] = pair, ""
            following[left] = following[right]
            if following[left] >= 0:
                previous[following[left]] = left
            offer(previous[left])
            offer(left)
        return [piece for piece in pieces if piece]


def _byte_value(token: str, code: int) -> int:
    """Return the value of a byte piece: 10 for ``<0x0A>``."""
    try:
        value = int(token.removeprefix("<0x").removesuffix(">"), 16)
    except ValueError:
        value = -1
    if not 0 <= value < 256:
        raise ValueError(
            f"tokenizer: token {code} is of the type byte, but it is {token!r} and not "
            "like '<0x0A>'; the file is damaged"
        )
    return value
