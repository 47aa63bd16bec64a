"""Connectionist temporal classification (CTC): the loss, and decoding."""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..core.variables import convert_to_tensor, promoted
from .beams import best_prefixes


def ctc_loss(
    target: Any,
    output: Any,
    target_length: Any,
    output_length: Any,
    mask_index: int = 0,
) -> Tensor:
    """Return the negative logarithm of the probability of each sequence of labels."""
    labels = convert_to_tensor(target, dtype="int32")
    logits = _wide(output)
    if len(labels.shape) != 2 or len(logits.shape) != 3:
        raise ValueError(
            "ctc_loss: `target` must have 2 axes, [batch, labels], and `output` 3, "
            f"[batch, steps, classes]. Received: target.shape={labels.shape}, "
            f"output.shape={logits.shape}"
        )
    classes = logits.shape[2]
    blank = int(mask_index) % classes if classes else 0
    return pg.losses.ctc_loss(
        labels,
        logits,
        label_lengths=convert_to_tensor(target_length, dtype="int32"),
        logit_lengths=convert_to_tensor(output_length, dtype="int32"),
        blank=blank,
        reduction="none",
    )


def ctc_decode(
    inputs: Any,
    sequence_lengths: Any,
    strategy: str = "greedy",
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = True,
    mask_index: int = 0,
) -> tuple[Tensor, Tensor]:
    """Return the most probable sequences of labels, filled with -1, and their scores.

    The beam search merges repeated classes of all paths, whatever ``merge_repeated``
    is: this is how CTC defines the labels of a path.
    """
    logits = _wide(inputs)
    lengths = convert_to_tensor(sequence_lengths, dtype="int32")
    blank = int(mask_index) % max(logits.shape[-1], 1)
    if strategy == "greedy":
        return _greedy(logits, lengths, merge_repeated, blank)
    if strategy == "beam_search":
        return best_prefixes(logits, lengths, int(beam_width), int(top_paths), blank)
    raise ValueError(
        f"Invalid strategy {strategy!r}. Supported values are 'greedy' and "
        "'beam_search'."
    )


def _wide(x: Any) -> Tensor:
    """Return logits in float32, or wider."""
    x = convert_to_tensor(x)
    return promoted(x, to=("float32",))[0]


def _greedy(
    logits: Tensor, lengths: Tensor, merge_repeated: bool, blank: int
) -> tuple[Tensor, Tensor]:
    """Return the labels of the most probable class of each step."""
    batch, steps, _ = logits.shape
    is_step = pg.arange(steps, dtype="int32") < pg.expand_dims(lengths, 1)
    best = pg.astype(pg.argmax(logits, axis=-1), "int32")
    score = pg.sum(pg.where(is_step, pg.max(logits, axis=-1), 0.0), 1, keepdims=True)
    is_label = pg.logical_and(is_step, best != blank)
    if merge_repeated and steps > 1:
        changes = best[:, 1:] != best[:, :-1]
        first = pg.ones((batch, 1), dtype="bool")
        is_label = pg.logical_and(is_label, pg.concat([first, changes], axis=1))
    order = pg.argsort(pg.astype(pg.logical_not(is_label), "int32"), axis=1)
    labels = pg.take_along_axis(best, order, axis=1)
    labels = pg.where(pg.take_along_axis(is_label, order, axis=1), labels, -1)
    return pg.expand_dims(labels, axis=0), -score
