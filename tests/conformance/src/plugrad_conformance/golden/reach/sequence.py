"""How the golden cases reach the ops of ``sequence``."""

from typing import Any

import plugrad as pg

KERNELS: dict[str, Any] = {}

OPS = {"basicLSTMCell": pg.basic_lstm_cell}
