"""How random words become numbers, which does not depend on the size of chunks."""

import math
from statistics import NormalDist

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.ops.random import _draws
from plugrad._src.ops.random import random as module
from plugrad_conformance.ops.test_random import OPS


@pytest.mark.parametrize("op", OPS)
def test_numbers_do_not_depend_on_the_size_of_chunks(op, monkeypatch):
    n = 2 * _draws.CHUNK_NUMBERS + 1
    with pg.use_backend("cpu"):
        expected = OPS[op](n, seed=5).numpy()
        monkeypatch.setattr(_draws, "CHUNK_NUMBERS", 1 << 10)
        monkeypatch.setattr(module, "NOISE_PER_RUN", 1000)
        np.testing.assert_array_equal(OPS[op](n, seed=5).numpy(), expected)


# --- logarithm, exponential, quantile --------------------------------------------


def test_log_exp_and_quantile_are_accurate():
    rng = np.random.default_rng(0)
    spread = 10 ** rng.uniform(-300, 300, 3000)
    x = np.concatenate([spread, 1 + rng.normal(size=3000) * 1e-6, rng.random(3000)])
    np.testing.assert_allclose(_draws.log(x), [*map(math.log, x)], rtol=1e-15)
    x = -np.concatenate([10 ** rng.uniform(-20, 2.8, 3000), [0.0]])
    np.testing.assert_allclose(_draws.exp(x), [*map(math.exp, x)], rtol=1e-15)
    assert _draws.exp(np.asarray([-1e300])) == 0
    p = np.concatenate([rng.random(3000) / 2, 10 ** rng.uniform(-16, -0.31, 3000)])
    expected = [-NormalDist().inv_cdf(q) for q in p]
    np.testing.assert_allclose(_draws._normal_quantile(p), expected, rtol=1e-14)
    assert NormalDist().cdf(-2) == pytest.approx(_draws.P_ABOVE_2, rel=1e-15)


EXTREME_WORDS = np.asarray([0, 1, 2**64 - 1, 2**63, 2**12], np.uint64)


def test_the_smallest_and_the_largest_random_word():
    assert _draws.half_open(EXTREME_WORDS).tolist()[:3] == [0, 0, 1 - 2**-53]
    inside = _draws.open_interval(EXTREME_WORDS)
    assert inside.tolist()[:3] == [2**-53, 2**-53, 1 - 2**-53]
    normal = _draws.normal(EXTREME_WORDS)
    assert normal[0] == -normal[1] == pytest.approx(8.2923611)
    assert abs(normal[2]) < 1e-15 > abs(_draws.truncated_normal(EXTREME_WORDS)[2])
    assert _draws.truncated_normal(EXTREME_WORDS)[:2].tolist() == pytest.approx([2, -2])
    assert _draws.exponential(EXTREME_WORDS)[0] == pytest.approx(53 * math.log(2))
    assert 0 < _draws.exponential(EXTREME_WORDS)[2] < 2e-16
    assert np.isfinite(_draws.gumbel(EXTREME_WORDS)).all()
    assert np.isfinite(
        _draws.inverse_exponential(EXTREME_WORDS).astype(np.float32)
    ).all()
