"""Training with plugrad: ``import plugrad_train as pt``.

docs/train.md is the guide. Everything is composed of plugrad's public functions.
"""

from . import schedules, transforms
from .optimizers import (
    Optimizer,
    adagrad,
    adam,
    adamw,
    chain,
    lion,
    of_transform,
    rmsprop,
    sgd,
)
from .transforms import (
    Transform,
    add_decayed_weights,
    clip_by_global_norm,
    clip_by_value,
    global_norm,
    learning_rate,
    scale,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_lion,
    scale_by_rms,
    scale_by_rss,
    scale_by_schedule,
    set_learning_rate,
    trace,
)

__all__ = [
    "Optimizer",
    "Transform",
    "adagrad",
    "adam",
    "adamw",
    "add_decayed_weights",
    "chain",
    "clip_by_global_norm",
    "clip_by_value",
    "global_norm",
    "learning_rate",
    "lion",
    "of_transform",
    "rmsprop",
    "scale",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_lion",
    "scale_by_rms",
    "scale_by_rss",
    "scale_by_schedule",
    "schedules",
    "set_learning_rate",
    "sgd",
    "trace",
    "transforms",
]
