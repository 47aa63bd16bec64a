"""The incomplete gamma functions: values, limits, derivatives, errors."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes

NAN, INF = np.nan, np.inf

# a, x, P(a, x), Q(a, x), and the derivatives of P by a and by x, computed by mpmath
# with 330 digits. Many of the points are next to the limits of a formula.
TABLE = [
    (
        9.5367431640625e-07,
        0.5,
        0.9999994661580328,
        5.338419671675147e-07,
        -0.5597741543528377,
        1.156865296656804e-06,
    ),
    (
        9.5367431640625e-07,
        2.875,
        0.9999999854026275,
        1.4597372483086259e-08,
        -0.015306481610240884,
        1.8713985070908503e-08,
    ),
    (
        0.0625,
        0.0009765625,
        0.6701073740829409,
        0.32989262591705915,
        -4.324526676132511,
        42.847471421528006,
    ),
    (
        0.0625,
        5.0,
        0.9999172003862978,
        8.279961370211773e-05,
        -0.0015102451870767496,
        9.625788511750355e-05,
    ),
    (
        0.5,
        0.25,
        0.5204998778130465,
        0.4795001221869535,
        -0.797947316783223,
        0.8787825789354448,
    ),
    (
        0.5,
        1.75,
        0.9386311708605979,
        0.06136882913940217,
        -0.17668490930633582,
        0.07411236904749624,
    ),
    (
        0.75,
        40.0,
        1.0,
        1.3701874121884645e-18,
        -6.575533680066747e-18,
        1.378548120761538e-18,
    ),
    (
        1.0,
        1.5,
        0.7768698398515702,
        0.22313016014842982,
        -0.3192853006630692,
        0.22313016014842982,
    ),
    (
        2.5,
        0.125,
        0.0015208185533684398,
        0.9984791814466316,
        -0.004855885686395028,
        0.02933877723035829,
    ),
    (
        2.5,
        4.0,
        0.8437643724222776,
        0.15623562757772233,
        -0.14765686908718714,
        0.11022392188849095,
    ),
    (
        2.5,
        60.0,
        1.0,
        3.138579772755296e-24,
        -1.0696234590510459e-23,
        3.0614118691989543e-24,
    ),
    (
        7.75,
        8.0,
        0.5826300513480593,
        0.4173699486519407,
        -0.1420091629701654,
        0.13680099642973917,
    ),
    (
        8.0,
        20.0,
        0.9992214099174926,
        0.000778590082507363,
        -0.0008158853696708997,
        0.0005234675866510623,
    ),
    (
        19.5,
        21.25,
        0.6772619864282379,
        0.3227380135717622,
        -0.08067973663220444,
        0.07665166555024502,
    ),
    (
        19.5,
        21.75,
        0.714312666937865,
        0.285687333062135,
        -0.0761098713647711,
        0.07148754826633374,
    ),
    (
        20.0,
        9.0,
        0.0010559536843590019,
        0.998944046315641,
        -0.0009026726815326245,
        0.0013704485036215622,
    ),
    (
        20.0,
        9.5,
        0.0019624137922509633,
        0.9980375862077491,
        -0.0015767738407594864,
        0.0023219683792897808,
    ),
    (
        20.0,
        20.0,
        0.52974273316076,
        0.47025726683923996,
        -0.08957920553912253,
        0.08883531739208522,
    ),
    (
        20.0,
        37.0,
        0.9991410659159475,
        0.000858934084052443,
        -0.0005918108289812624,
        0.00043837149412955293,
    ),
    (
        20.0,
        38.0,
        0.9994874874034148,
        0.0005125125965852197,
        -0.00036570301448311034,
        0.0002676722824491863,
    ),
    (
        150.0,
        60.0,
        1.339206924619056e-22,
        1.0,
        -1.2373045506755596e-22,
        2.0233231058771423e-22,
    ),
    (
        150.0,
        150.5,
        0.5271043634204465,
        0.47289563657955347,
        -0.03251036409167384,
        0.032420283724800554,
    ),
    (
        150.0,
        290.0,
        1.0,
        4.7987165409197835e-20,
        -3.212867513578226e-20,
        2.3501727325107938e-20,
    ),
    (
        1000.0,
        900.0,
        0.0005499022657117829,
        0.9994500977342882,
        -6.245709035841566e-05,
        6.585503650465444e-05,
    ),
    (
        1000.0,
        1000.0,
        0.5042052441802155,
        0.4957947558197845,
        -0.012616713994069625,
        0.012614611348721499,
    ),
    (
        1000.0,
        1150.0,
        0.9999971262239397,
        2.8737760603923574e-06,
        -4.206413362900052e-07,
        3.925040139143911e-07,
    ),
    (
        10000.0,
        9800.0,
        0.022207543813969693,
        0.9777924561860303,
        -0.0005308191313024515,
        0.0005362084783323951,
    ),
    (
        10000.0,
        10100.0,
        0.8413487504471796,
        0.15865124955282037,
        -0.0024156880031763668,
        0.002403669257862049,
    ),
]
COLUMNS = np.asarray(TABLE).T
PAIRS = [(pg.gammainc, 2, 1), (pg.gammaincc, 3, -1)]
each_op = pytest.mark.parametrize(
    ("op", "column", "sign"), PAIRS, ids=["gammainc", "gammaincc"]
)


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-13), ("float32", 1e-5)])
@each_op
def test_known_values(op, column, sign, dtype, rtol, backend):
    require_dtypes(backend, dtype)
    a, x = COLUMNS[:2].astype(dtype)
    y = op(a, x)
    assert y.dtype == dtype
    np.testing.assert_allclose(y.numpy(), COLUMNS[column], rtol=rtol)


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-12), ("float32", 2e-5)])
@each_op
def test_derivatives(op, column, sign, dtype, rtol, backend):
    require_dtypes(backend, dtype)
    a, x = (pg.asarray(row.astype(dtype)) for row in COLUMNS[:2])
    da, dx = pg.grads(lambda a, x: pg.sum(op(a, x)))(a, x)
    np.testing.assert_allclose(da.numpy() * sign, COLUMNS[4], rtol=rtol)
    np.testing.assert_allclose(dx.numpy() * sign, COLUMNS[5], rtol=rtol)


def test_gradients(backend):
    a = np.asarray([0.3, 2.5, 9.0, 30.0, 30.0])
    x = np.asarray([0.8, 6.0, 4.0, 10.0, 33.0])
    for op in (pg.gammainc, pg.gammaincc):
        check_gradients(op, a, x)


LIMITS = [  # a, x, P(a, x)
    (2.0, 0.0, 0),
    (2.0, INF, 1),
    (0.0, 2.0, 1),
    (INF, 2.0, 0),
    (0.0, INF, 1),
    (INF, 0.0, 0),
    (0.0, 0.0, NAN),
    (INF, INF, NAN),
    (-1.0, 2.0, NAN),
    (1.0, -2.0, NAN),
    (-INF, 2.0, NAN),
    (NAN, 0.0, NAN),
    (0.0, NAN, NAN),
    (NAN, 1.0, NAN),
    (1.0, 300.0, 1),
    (1e30, 1.0, 0),
    (1e-30, 30.0, 1),
]


@each_op
def test_limits(op, column, sign, backend):
    a, x, p = np.asarray(LIMITS, np.float32).T
    y = op(a, x).numpy()
    expected = p if sign > 0 else 1 - p
    np.testing.assert_allclose(y, expected, atol=1e-12)
    da, dx = pg.grads(lambda a, x: pg.sum(op(a, x)))(pg.asarray(a), pg.asarray(x))
    np.testing.assert_allclose(
        [da.numpy(), dx.numpy()], np.zeros((2, len(a))), atol=1e-12
    )


def test_the_two_functions_add_up_to_1(backend):
    rng = np.random.default_rng(0)
    a = 10 ** rng.uniform(-4, 5, (500, 1)).astype(np.float32)
    x = a * rng.uniform(0.1, 3, (500, 20)).astype(np.float32)
    p, q = pg.gammainc(a, x).numpy(), pg.gammaincc(a, x).numpy()
    np.testing.assert_allclose(p + q, 1, atol=1e-6)
    assert min(p.min(), q.min()) >= 0


def test_other_dtypes_and_shapes(backend):
    y = pg.gammainc([1, 2], 1)
    assert (y.dtype, y.shape) == (np.float32, (2,))
    assert pg.gammaincc(np.ones((0, 3), "f"), np.ones(3, "f")).shape == (0, 3)
    require_dtypes(backend, "float16")
    half = pg.gammainc(np.float16([25.0]), np.float16([24.0]))
    assert (half.dtype, half.item()) == (np.float16, np.float16(0.446))


ERRORS = [
    (lambda: pg.gammainc(1j, 1.0), TypeError, "gammainc: .* complex"),
    (lambda: pg.gammaincc("a", 1.0), TypeError, "gammaincc: .* string"),
    (lambda: pg.gammainc([1.0, 2.0], [1.0] * 3), ValueError, "gammainc: .*broadcast"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
