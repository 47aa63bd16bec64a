"""Scores the tokens of a prompt by the gradient of the logit of an answer."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np
import plugrad as pg
from plugrad.importing import printable
from plugrad.plugin import html_table

from .config import Config
from .llama import Changes, embed, rotary_tables, run, to_logits
from .weights import Params

__all__ = ["TokenScores", "score_tokens"]

BAR_CHARACTERS = 20
MAX_OPACITY = 0.6  # opacity of token backgrounds; text is readable in any theme
# The RGB colors of tokens that raise the logit, and of those that lower it.
RAISING_COLOR, LOWERING_COLOR = "70, 160, 90", "215, 90, 75"


@dataclass(frozen=True, repr=False)
class TokenScores:
    """The contribution of each token of a prompt to the logit of an answer.

    ``print`` shows a table; a notebook shows the prompt with colored tokens: green ones
    raise the logit, red ones lower it.

    Attributes:
        tokens: The texts of the tokens of the prompt.
        answer: The text of the first token of the answer.
        logit: The logit of the answer.
        probability: The probability of the answer.
        scores: For each token, the gradient times the embedding.
        norms: For each token, the Euclidean norm of the gradient.

    """

    tokens: tuple[str, ...]
    answer: str
    logit: float
    probability: float
    scores: tuple[float, ...]
    norms: tuple[float, ...]

    def __repr__(self) -> str:
        """Return a row for each token, with a bar for its score."""
        shown = [printable(repr(token)) for token in self.tokens]
        width = max(map(len, shown))
        largest = self._largest()
        rows = [self._caption()]
        rows.append(f"{'token':<{width}} {'score':>9} {'norm':>9}")
        for token, score, norm in zip(shown, self.scores, self.norms, strict=True):
            length = round(BAR_CHARACTERS * abs(score) / largest)
            bar = ("+" if score > 0 else "-") * length
            rows.append(f"{token:<{width}} {score:9.3g} {norm:9.3g} {bar}".rstrip())
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        """Return the prompt with colored tokens, and a table, for notebooks."""
        spans = []
        largest = self._largest()
        for token, score in zip(self.tokens, self.scores, strict=True):
            color = RAISING_COLOR if score > 0 else LOWERING_COLOR
            opacity = MAX_OPACITY * abs(score) / largest
            text = html.escape(token).replace("\n", "\u23ce<br>")
            spans.append(
                f'<span title="{score:.3g}" style="background: rgba({color}, '
                f'{opacity:.3f}); white-space: pre-wrap">{text}</span>'
            )
        rows = [
            (repr(token), score, norm)
            for token, score, norm in zip(
                self.tokens, self.scores, self.norms, strict=True
            )
        ]
        titles = ["token", "score", "norm"]
        table = html_table(self._caption(), titles, rows, text_columns=["token"])
        return f"<p>{''.join(spans)}</p>{table}"

    def _caption(self) -> str:
        answer = printable(repr(self.answer))
        return f"{answer} has the logit {self.logit:.4g}, p = {self.probability:.3g}"

    def _largest(self) -> float:
        """Return the largest magnitude of a score, the scale of bars and colors."""
        found = max((abs(x) for x in self.scores if np.isfinite(x)), default=0.0)
        return found or 1.0


def score_tokens(
    params: Params,
    config: Config,
    codes: list[int],
    answer: int,
    changes: Changes,
) -> tuple[pg.Tensor, pg.Tensor, pg.Tensor]:
    """Return the logits after the last token, and the score and norm of each token.

    Source:
        K. Simonyan et al., "Deep Inside Convolutional Networks", 2014, for the
        gradient; A. Shrikumar et al., "Not Just a Black Box", 2016, for its product
        with the input.
    """
    rotary = rotary_tables(config, params, len(codes))

    def logit(x: pg.Tensor) -> tuple[pg.Tensor, pg.Tensor]:
        y = run(params, config, x, rotary, changes=changes)
        logits = to_logits(params, y[-1:])[0]
        return logits[answer], logits

    x = embed(params, pg.asarray(codes, dtype="int32"))
    gradient, logits = pg.grad(logit, has_aux=True)(x)
    norms = pg.sqrt(pg.sum(gradient * gradient, axis=-1))
    return logits, pg.sum(gradient * x, axis=-1), norms
