"""``ModelError``, and what a model says of its inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["ModelError", "ValueInfo"]


class ModelError(ValueError):
    """A model that cannot be loaded; ``problems`` says all that is in the way."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        count = len(self.problems)
        lines = "".join(f"\n- {problem}" for problem in self.problems[:50])
        rest = f"\n- and {count - 50} more" if count > 50 else ""
        word = "a problem" if count == 1 else f"{count} problems"
        super().__init__(f"load: the model has {word}:{lines}{rest}")


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
        return f"{self.name}: {self.dtype}{sizes}"
