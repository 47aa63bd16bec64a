"""plugrad-cpu's gather: what NumPy's ``take`` does not survive."""

import plugrad as pg
import pytest

pytest.importorskip("plugrad_cpu", reason="plugrad-cpu is not there")


def test_a_result_of_too_many_axes_is_refused():
    """``take`` ends the process instead of raising an error."""
    with pg.use_backend("cpu"):
        x = pg.zeros((1,) * 40)
        indices = pg.zeros((1,) * 40, dtype="int32")
        with pytest.raises(ValueError, match="would have 79 axes, more than 64"):
            pg.take(x, indices, axis=0)
