"""plugrad-cpu's gather refuses arguments that crash NumPy's ``take``."""

import plugrad as pg
import pytest

pytest.importorskip("plugrad_cpu", reason="needs plugrad-cpu")


def test_a_result_with_too_many_axes_is_refused():
    """NumPy's ``take`` crashes instead of raising an error."""
    with pg.use_backend("cpu"):
        x = pg.zeros((1,) * 40)
        indices = pg.zeros((1,) * 40, dtype="int32")
        with pytest.raises(ValueError, match="would have 79 axes, more than 64"):
            pg.take(x, indices, axis=0)
