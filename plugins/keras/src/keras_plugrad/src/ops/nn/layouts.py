"""Numbers for each spatial axis, and the layouts of images, in plugrad's words."""

from __future__ import annotations

from typing import Any, NamedTuple

from plugrad import Tensor

from keras_plugrad.src.keras_names import config

FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


class Layout(NamedTuple):
    """Where the axes of a batch of images are."""

    spatial: int  # the number of spatial axes
    channels: int  # the axis of the channels
    name: str  # plugrad's name of the layout

    @property
    def first(self) -> int:
        """The first spatial axis."""
        return 1 if self.channels < 0 else 2


def layout(op: str, x: Tensor, data_format: str | None) -> Layout:
    """Return the layout of ``x``, a batch of one to three spatial axes."""
    spatial = len(x.shape) - 2
    if spatial not in FORMATS:
        raise ValueError(
            f"{op}: `inputs` must have a batch axis, 1 to 3 spatial axes and a channel "
            f"axis. Received: inputs.shape={x.shape}"
        )
    is_last = config.standardize_data_format(data_format) == "channels_last"
    last, first = FORMATS[spatial]
    return Layout(spatial, -1 if is_last else 1, last if is_last else first)


def numbers(op: str, name: str, value: Any, count: int) -> tuple[int, ...]:
    """Return a number for each spatial axis."""
    found = (value,) * count if not hasattr(value, "__len__") else tuple(value)
    if len(found) != count:
        raise ValueError(
            f"{op}: `{name}` must be an integer or {count} integers, one for each "
            f"spatial axis. Received: {name}={value}"
        )
    return tuple([int(n) for n in found])


def known_padding(op: str, padding: str) -> Any:
    """Return ``"same"`` or ``"valid"``."""
    found = str(padding).lower()
    if found not in ("same", "valid"):
        raise ValueError(
            f"{op}: `padding` must be 'valid' or 'same'. Received: padding={padding!r}"
        )
    return found
