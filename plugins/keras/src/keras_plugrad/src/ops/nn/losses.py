"""Cross entropies, and the ratio of signal and noise."""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad import Tensor

from keras_plugrad.src.keras_names import canonicalize_axis, config

from ..core.variables import convert_to_tensor, floating, promoted


def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Tensor:
    """Return the cross entropy of each element of probabilities or logits."""
    output = floating(output)
    target = convert_to_tensor(target, dtype=output.dtype)
    _check_shapes(target, output)
    if from_logits:
        return pg.losses.sigmoid_cross_entropy(target, output, reduction="none")
    p = _inside(output)
    return -(target * pg.log(p) + (1 - target) * pg.log(1 - p))


def categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """Return the cross entropy of distributions along an axis."""
    output = floating(output)
    target = convert_to_tensor(target, dtype=output.dtype)
    _check_shapes(target, output)
    axis = _class_axis(output, axis)
    if not from_logits:
        return -pg.sum(target * _logs_of_shares(output, axis), axis=axis)
    if axis != len(output.shape) - 1:
        target, output = pg.moveaxis(target, axis, -1), pg.moveaxis(output, axis, -1)
    return pg.losses.softmax_cross_entropy(target, output, reduction="none")


def sparse_categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """Return the cross entropy of classes and distributions; 0 if there is no class."""
    output = floating(output)
    target = convert_to_tensor(target, dtype="int32")
    axis = _class_axis(output, axis)
    if len(target.shape) == len(output.shape) and target.shape[-1] == 1:
        target = pg.squeeze(target, axis=-1)
    if target.shape != output.shape[:axis] + output.shape[axis + 1 :]:
        raise ValueError(
            "Arguments `target` and `output` must have the same shape but for the "
            f"class axis {axis}. Received: target.shape={target.shape}, "
            f"output.shape={output.shape}"
        )
    if from_logits:
        logs = pg.log_softmax(output, axis=axis)
    else:
        logs = _logs_of_shares(output, axis)
    classes = output.shape[axis]
    at = pg.expand_dims(pg.clip(target, 0, classes - 1), axis=axis)
    chosen = pg.squeeze(pg.take_along_axis(logs, at, axis=axis), axis=axis)
    is_class = pg.logical_and(target >= 0, target < classes)
    return pg.where(is_class, -chosen, 0.0)


def psnr(x1: Any, x2: Any, max_val: Any) -> Tensor:
    """Return the peak signal-to-noise ratio of two signals, in decibels."""
    a, b = promoted(x1, x2, to=(float,))
    if a.shape != b.shape:
        raise ValueError(
            "psnr: `x1` and `x2` must have the same shape. "
            f"Received: x1.shape={a.shape}, x2.shape={b.shape}"
        )
    noise = pg.mean(pg.squared_difference(a, b))
    peak = convert_to_tensor(max_val, dtype=a.dtype)
    return 20 * pg.log10(peak) - 10 * pg.log10(noise)


def _inside(p: Tensor) -> Tensor:
    """Return probabilities that are not closer than epsilon to 0 and 1."""
    epsilon = float(config.epsilon())
    return pg.clip(p, epsilon, 1 - epsilon)


def _logs_of_shares(p: Tensor, axis: int) -> Tensor:
    """Return the logarithms of numbers divided by their sum along an axis."""
    return pg.log(_inside(p / pg.sum(p, axis=axis, keepdims=True)))


def _class_axis(output: Tensor, axis: int) -> int:
    if not output.shape:
        raise ValueError(
            "Argument `output` must have at least one axis, that of the classes. "
            f"Received: output.shape={output.shape}"
        )
    return canonicalize_axis(axis, len(output.shape))


def _check_shapes(target: Tensor, output: Tensor) -> None:
    if target.shape != output.shape:
        raise ValueError(
            "Arguments `target` and `output` must have the same shape. Received: "
            f"target.shape={target.shape}, output.shape={output.shape}"
        )
