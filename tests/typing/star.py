"""``from plugrad import *`` imports every public name, also for type checkers."""

from __future__ import annotations

from plugrad import *

x: Tensor = sigmoid(linalg.det(asarray([[1.0]])))
y: Variable = Variable(dropout(x, 0.5))
use_backend(get_backend())
