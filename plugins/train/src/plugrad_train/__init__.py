"""Training with plugrad: ``import plugrad_train as pt``.

Optimizers are pairs of pure functions over trees. Checkpoints, batches, losses and the
training loop ``fit`` can be used independently. docs/train.md is the guide.
"""

from . import initializers, losses, metrics, schedules, transforms
from .checkpoints import CheckpointError, Checkpoints, CheckpointWarning, Restored
from .data import Batches, IterableBatches, Padded, Prefetch, padded
from .logs import EarlyStopping, draw_curves, read_log
from .loop import Fitted, Progress, fit, train_step
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
from .rematerialization import remat
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
from .wrappers import (
    NonFiniteError,
    accumulate,
    all_finite,
    average_params,
    cast_floating,
    check_finite,
    half_precision,
    scale_loss,
    skip_nonfinite,
)

__all__ = [
    "Batches",
    "CheckpointError",
    "CheckpointWarning",
    "Checkpoints",
    "EarlyStopping",
    "Fitted",
    "IterableBatches",
    "NonFiniteError",
    "Optimizer",
    "Padded",
    "Prefetch",
    "Progress",
    "Restored",
    "Transform",
    "accumulate",
    "adagrad",
    "adam",
    "adamw",
    "add_decayed_weights",
    "all_finite",
    "average_params",
    "cast_floating",
    "chain",
    "check_finite",
    "clip_by_global_norm",
    "clip_by_value",
    "draw_curves",
    "fit",
    "global_norm",
    "half_precision",
    "initializers",
    "learning_rate",
    "lion",
    "losses",
    "metrics",
    "of_transform",
    "padded",
    "read_log",
    "remat",
    "rmsprop",
    "scale",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_lion",
    "scale_by_rms",
    "scale_by_rss",
    "scale_by_schedule",
    "scale_loss",
    "schedules",
    "set_learning_rate",
    "sgd",
    "skip_nonfinite",
    "trace",
    "train_step",
    "transforms",
]


def __getattr__(name: str) -> str:
    """Look up the version on first use: reading metadata would slow down imports."""
    if name != "__version__":
        from plugrad.plugin import missing

        raise missing(__name__, name, __all__)
    from importlib.metadata import version

    return version("plugrad-train")
