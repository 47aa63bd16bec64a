"""Beam search over the sequences of labels that a CTC model may mean.

A beam is a sequence of labels so far, with two logarithms: the probability of all
paths that yield these labels and end with the blank, and of those that end with the
last label. Beams have two int64 numbers that stand for the labels and for the labels
but the last, so that equal sequences are found without comparing labels. Two sequences
of one search have the same number by chance with a probability below 10⁻¹⁰.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import plugrad as pg
from plugrad import Tensor

FACTOR = 0x5851F42D4C957F2D  # of a generator by D. Knuth, with 64 bits
NEVER = -math.inf


class Beams(NamedTuple):
    """Sequences of labels, ``[batch, beams]``, best first."""

    labels: Tensor  # [batch, beams, steps], filled with -1
    length: Tensor  # the number of labels
    last: Tensor  # label; -1 if there is none
    name: Tensor  # stands for the labels
    parent: Tensor  # the name of the labels but the last
    blank: Tensor  # log probability of paths that end with the blank
    label: Tensor  # log probability of paths that end with the last label


class Candidates(NamedTuple):
    """What beams may become in a step."""

    blank: Tensor  # [batch, beams]: the same labels, ending with the blank
    label: Tensor  # [batch, beams]: the same labels, ending with the last one
    longer: Tensor  # [batch, beams, classes]: one more label


def best_prefixes(
    logits: Tensor, lengths: Tensor, beam_width: int, top_paths: int, blank: int
) -> tuple[Tensor, Tensor]:
    """Return the most probable sequences of labels and their log probabilities."""
    if top_paths > beam_width:
        raise ValueError(
            f"ctc_decode: `top_paths` must be at most `beam_width`. Received: "
            f"top_paths={top_paths}, beam_width={beam_width}"
        )
    batch, steps, _ = logits.shape
    logs = pg.log_softmax(logits, axis=-1)
    beams = _first(batch, steps, logs)
    for step in range(steps):
        found = _next(beams, logs[:, step], beam_width, blank)
        beams = _selected(step < lengths, found, beams)
    scores = pg.logaddexp(beams.blank, beams.label)
    is_path = pg.expand_dims(scores > NEVER, axis=-1)
    labels = pg.where(is_path, beams.labels, -1)[:, :top_paths]
    missing = [(0, 0), (0, max(top_paths - labels.shape[1], 0))]
    labels = pg.pad(labels, [*missing, (0, 0)], constant_values=-1)
    scores = pg.pad(scores[:, :top_paths], missing, constant_values=NEVER)
    return pg.permute_dims(labels, (1, 0, 2)), scores


def _first(batch: int, steps: int, logs: Tensor) -> Beams:
    """Return the beam without labels."""
    shape = (batch, 1)
    return Beams(
        labels=pg.full((batch, 1, steps), -1, dtype="int32"),
        length=pg.zeros(shape, dtype="int32"),
        last=pg.full(shape, -1, dtype="int32"),
        name=pg.zeros(shape, dtype="int64"),
        parent=pg.zeros(shape, dtype="int64"),
        blank=pg.zeros(shape, dtype=logs.dtype),
        label=pg.full(shape, NEVER, dtype=logs.dtype),
    )


def _next(beams: Beams, logs: Tensor, width: int, blank: int) -> Beams:
    """Return the beams after one more step, ``logs`` of ``[batch, classes]``."""
    batch, classes = logs.shape
    kept = _merged(beams, _candidates(beams, logs, blank))
    same = pg.expand_dims(pg.logaddexp(kept.blank, kept.label), axis=-1)
    choices = pg.concat([same, kept.longer], axis=-1)
    flat = pg.reshape(choices, (batch, -1))
    scores, at = pg.top_k(flat, min(width, flat.shape[1]))
    source = at // (classes + 1)
    label = at % (classes + 1) - 1  # -1: no more label
    grows = label >= 0
    old = Beams(*[_taken(x, source) for x in beams])
    place = pg.arange(beams.labels.shape[2], dtype="int32")
    is_place = place == pg.expand_dims(old.length, axis=-1)
    is_place = pg.logical_and(is_place, pg.expand_dims(grows, axis=-1))
    return Beams(
        labels=pg.where(is_place, pg.expand_dims(label, axis=-1), old.labels),
        length=old.length + pg.astype(grows, "int32"),
        last=pg.where(grows, label, old.last),
        name=pg.where(grows, _named(old.name, label), old.name),
        parent=pg.where(grows, old.name, old.parent),
        blank=pg.where(grows, NEVER, _taken(kept.blank, source)),
        label=pg.where(grows, scores, _taken(kept.label, source)),
    )


def _candidates(beams: Beams, logs: Tensor, blank: int) -> Candidates:
    """Return what each beam may become; equal sequences are not merged yet."""
    total = pg.logaddexp(beams.blank, beams.label)
    last = pg.take_along_axis(logs, pg.maximum(beams.last, 0), axis=1)
    classes = pg.arange(logs.shape[1], dtype="int32")
    # To repeat a label, a path needs a blank in between.
    repeats = classes == pg.expand_dims(beams.last, axis=-1)
    before = pg.where(
        repeats, pg.expand_dims(beams.blank, -1), pg.expand_dims(total, -1)
    )
    longer = before + pg.expand_dims(logs, axis=1)
    return Candidates(
        blank=total + logs[:, blank : blank + 1],
        label=beams.label + last,
        longer=pg.where(classes == blank, NEVER, longer),
    )


def _merged(beams: Beams, found: Candidates) -> Candidates:
    """Return candidates in which no sequence occurs twice.

    Beam i with one more label may be beam j: then j gets its paths.
    """
    total = pg.logaddexp(beams.blank, beams.label)
    exists = pg.logical_and(beams.length > 0, total > NEVER)
    is_parent = pg.expand_dims(beams.name, -1) == pg.expand_dims(beams.parent, 1)
    is_parent = pg.logical_and(is_parent, pg.expand_dims(exists, 1))
    at = pg.expand_dims(pg.maximum(beams.last, 0), axis=1)
    gained = pg.where(is_parent, pg.take_along_axis(found.longer, at, axis=2), NEVER)
    kind = found.longer.dtype
    own = pg.one_hot(beams.last, found.longer.shape[2], dtype=kind)
    moved = pg.matmul(pg.astype(is_parent, kind), own) > 0
    return Candidates(
        blank=found.blank,
        label=pg.logaddexp(found.label, pg.max(gained, axis=1)),
        longer=pg.where(moved, NEVER, found.longer),
    )


def _named(name: Tensor, label: Tensor) -> Tensor:
    """Return the names of sequences with one more label."""
    mixed = pg.bitwise_xor(name, pg.bitwise_right_shift(name, 29))
    return (mixed + pg.astype(label, "int64") + 1) * FACTOR


def _taken(x: Tensor, source: Tensor) -> Tensor:
    """Return the beams at these places."""
    at = source if len(x.shape) == 2 else pg.expand_dims(source, axis=-1)
    return pg.take_along_axis(x, at, axis=1)


def _selected(is_active: Tensor, new: Beams, old: Beams) -> Beams:
    """Return the new beams of sequences that have this step, and old ones of others."""
    width = new.length.shape[1]
    fill = (-1, 0, -1, 0, 0, NEVER, NEVER)
    found = []
    for x, y, filling in zip(new, old, fill, strict=True):
        pairs = [(0, 0), (0, width - y.shape[1]), (0, 0)][: len(y.shape)]
        padded = pg.pad(y, pairs, constant_values=filling)
        condition = pg.reshape(is_active, (-1, *[1] * (len(x.shape) - 1)))
        found.append(pg.where(condition, x, padded))
    return Beams(*found)
