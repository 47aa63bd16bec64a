"""The profiler for TensorBoard, which plugrad lacks: see ``plugrad.profile``."""

import warnings


def start_trace(logdir: str) -> None:
    """Warn that nothing is recorded."""
    warnings.warn(
        "keras-plugrad records no profile for TensorBoard; use plugrad.profile",
        stacklevel=2,
    )


def stop_trace(save: bool) -> None:
    """Do nothing."""


def start_batch_trace(batch: int) -> None:
    """Do nothing."""


def stop_batch_trace(batch_trace_context: None) -> None:
    """Do nothing."""
