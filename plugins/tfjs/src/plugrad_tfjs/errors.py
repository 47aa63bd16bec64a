"""``ModelError``, and what a model says of its inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["ModelError", "ValueInfo", "inputs_text", "printable"]

LINE = 500  # characters of a problem that are shown


class ModelError(ValueError):
    """A model that cannot be loaded; ``problems`` says all that is in the way."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(dict.fromkeys(map(_line, problems)))
        count = len(self.problems)
        lines = "".join(f"\n- {problem}" for problem in self.problems[:50])
        rest = f"\n- and {count - 50} more" if count > 50 else ""
        word = "a problem" if count == 1 else f"{count} problems"
        super().__init__(f"load: the model has {word}:{lines}{rest}")


def printable(text: str) -> str:
    """Return text of a file as a terminal may print it: control characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _line(problem: str) -> str:
    shown = printable(problem[: LINE + 1])
    return shown if len(problem) <= LINE else f"{shown[:LINE]}..."


def inputs_text(least: int, most: float) -> str:
    """Return "2 inputs", "2 or 3 inputs", "2 to 5 inputs" or "2 inputs or more"."""
    if least == most:
        return f"{least} input{'s' if least != 1 else ''}"
    if most == float("inf"):
        return f"{least} input{'s' if least != 1 else ''} or more"
    return f"{least} {'or' if most == least + 1 else 'to'} {most:.0f} inputs"


@dataclass(frozen=True)
class ValueInfo:
    """The name, dtype and shape of an input, as far as the file tells them.

    ``shape`` is None if the file does not tell it, and so are sizes in it.
    """

    name: str
    dtype: str = "float32"
    shape: tuple[int | None, ...] | None = None

    def __str__(self) -> str:
        """Return "x: float32[?, 3]"."""
        sizes = "[...]"
        if self.shape is not None:
            sizes = f"[{', '.join('?' if n is None else str(n) for n in self.shape)}]"
        return printable(f"{self.name}: {self.dtype}{sizes}")
