"""``from plugrad import *`` brings every public name, for type checkers too."""

from __future__ import annotations

from plugrad import *

x: Tensor = sigmoid(linalg.det(asarray([[1.0]])))
y: Variable = Variable(dropout(x, 0.5))
use_backend(get_backend())
