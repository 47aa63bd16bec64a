"""Calls of SciPy functions on arrays of any namespace.

The argument of a call, ``a``, contains arrays of one dtype, and their namespace ``xp``.
"""

from types import SimpleNamespace

import numpy as np
from scipy import (
    cluster,
    constants,
    differentiate,
    fft,
    integrate,
    interpolate,
    linalg,
    ndimage,
    optimize,
    signal,
    special,
    stats,
)
from scipy.optimize import elementwise
from scipy.spatial import transform


def values():
    """Return the arrays that the rows use, in float64."""
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(2, 4, 6))
    walk = rng.normal(size=12).cumsum()
    time = np.arange(64) / 8
    return SimpleNamespace(
        x=x,
        y=y,
        p=rng.uniform(0.2, 3.0, size=(4, 6)),  # positive
        u=rng.uniform(0.05, 0.95, size=(4, 6)),  # probabilities
        v=walk,
        w=np.abs(walk[::-1]) + 0.5,
        s=np.sin(time) + 0.3 * rng.normal(size=64),  # a signal
        image=rng.uniform(size=(9, 8)),
        blobs=np.kron(np.array([[1, 0, 1], [0, 0, 1], [1, 0, 0]]), np.ones((3, 3))),
        knots=np.linspace(0.0, 2.0, 9),
        between=np.array([0.1, 0.77, 1.3, 1.99]),
        quaternions=rng.normal(size=(5, 4)),
        points=rng.normal(size=(10, 2)) + np.repeat([[0.0], [5.0]], 5, 0),
        b=np.array([0.2, 0.3, 0.1]),  # a filter of order 2
        a=np.array([1.0, -0.5, 0.2]),
        sos=np.array([[0.2, 0.3, 0.1, 1.0, -0.5, 0.2]]),
        matrix=rng.normal(size=(3, 3)),
        one=np.array(0.75),
    )


SPECIAL = {
    "logsumexp": lambda a: special.logsumexp(a.x, axis=1),
    "softmax": lambda a: special.softmax(a.x, axis=0),
    "log_softmax": lambda a: special.log_softmax(a.x, axis=1),
    "expit": lambda a: special.expit(a.x),
    "logit": lambda a: special.logit(a.u),
    "xlogy": lambda a: special.xlogy(a.p, a.u),
    "xlog1py": lambda a: special.xlog1py(a.p, a.u),
    "entr": lambda a: special.entr(a.u),
    "rel_entr": lambda a: special.rel_entr(a.u, a.p),
    "kl_div": lambda a: special.kl_div(a.u, a.p),
    "gammaln": lambda a: special.gammaln(a.p),
    "gamma": lambda a: special.gamma(a.p),
    "gammainc": lambda a: special.gammainc(a.p, a.u),
    "gammaincc": lambda a: special.gammaincc(a.p, a.u),
    "multigammaln": lambda a: special.multigammaln(a.p + 2.0, 3),
    "digamma": lambda a: special.digamma(a.p),
    "polygamma": lambda a: special.polygamma(2, a.p),
    "zeta": lambda a: special.zeta(a.p + 1.0, a.p),
    "betaln": lambda a: special.betaln(a.p, a.u),
    "betainc": lambda a: special.betainc(a.p, a.p, a.u),
    "erf": lambda a: special.erf(a.x),
    "erfc": lambda a: special.erfc(a.x),
    "erfinv": lambda a: special.erfinv(a.u),
    "ndtr": lambda a: special.ndtr(a.x),
    "ndtri": lambda a: special.ndtri(a.u),
    "log_ndtr": lambda a: special.log_ndtr(a.x),
    "i0": lambda a: special.i0(a.x),
    "i0e": lambda a: special.i0e(a.x),
    "i1": lambda a: special.i1(a.x),
    "j0": lambda a: special.j0(a.x),
    "k0": lambda a: special.k0(a.p),
    "y1": lambda a: special.y1(a.p),
    "chdtr": lambda a: special.chdtr(a.p, a.u),
    "stdtr": lambda a: special.stdtr(a.p, a.x),
    "binom": lambda a: special.binom(a.p, a.u),
    "boxcox": lambda a: special.boxcox(a.p, a.u),
    "huber": lambda a: special.huber(a.p, a.x),
    "expn": lambda a: special.expn(2, a.p),
    "exp2": lambda a: special.exp2(a.x),
    "cbrt": lambda a: special.cbrt(a.x),
    "sinc": lambda a: special.sinc(a.x),
}
STATS = {
    "zscore": lambda a: stats.zscore(a.x, axis=1),
    "zmap": lambda a: stats.zmap(a.x, a.y),
    "gzscore": lambda a: stats.gzscore(a.p),
    "gmean": lambda a: stats.gmean(a.p, axis=0),
    "hmean": lambda a: stats.hmean(a.p, axis=1),
    "pmean": lambda a: stats.pmean(a.p, 3),
    "gstd": lambda a: stats.gstd(a.p),
    "tmean": lambda a: stats.tmean(a.v),
    "tvar": lambda a: stats.tvar(a.v, (-3, 8)),
    "tstd": lambda a: stats.tstd(a.v),
    "sem": lambda a: stats.sem(a.x),
    "variation": lambda a: stats.variation(a.p),
    "moment": lambda a: stats.moment(a.x, 3, axis=1),
    "skew": lambda a: stats.skew(a.x, axis=1),
    "kurtosis": lambda a: stats.kurtosis(a.x, axis=1),
    "describe": lambda a: stats.describe(a.x),
    "kstat": lambda a: stats.kstat(a.v, 3),
    "lmoment": lambda a: stats.lmoment(a.v),
    "entropy": lambda a: stats.entropy(a.p, a.u),
    "differential_entropy": lambda a: stats.differential_entropy(a.v),
    "quantile": lambda a: stats.quantile(a.x, a.one, axis=1),
    "iqr": lambda a: stats.iqr(a.x, axis=1),
    "median_abs_deviation": lambda a: stats.median_abs_deviation(a.x, axis=0),
    "mode": lambda a: stats.mode(a.xp.round(a.x), axis=1),
    "trim_mean": lambda a: stats.trim_mean(a.x, 0.2, axis=1),
    "sigmaclip": lambda a: stats.sigmaclip(a.v, 1.5, 1.5),
    "rankdata": lambda a: stats.rankdata(a.x, axis=1),
    "circmean": lambda a: stats.circmean(a.p),
    "circvar": lambda a: stats.circvar(a.p),
    "directional_stats": lambda a: stats.directional_stats(a.x),
    "pearsonr": lambda a: stats.pearsonr(a.x, a.y, axis=1),
    "spearmanrho": lambda a: stats.spearmanrho(a.v, a.w),
    "chatterjeexi": lambda a: stats.chatterjeexi(a.v, a.w),
    "ttest_1samp": lambda a: stats.ttest_1samp(a.x, 0.1),
    "ttest_ind": lambda a: stats.ttest_ind(a.x, a.y),
    "ttest_rel": lambda a: stats.ttest_rel(a.x, a.y),
    "f_oneway": lambda a: stats.f_oneway(a.v, a.w),
    "mannwhitneyu": lambda a: stats.mannwhitneyu(a.v, a.w, method="asymptotic"),
    "wilcoxon": lambda a: stats.wilcoxon(a.v, method="asymptotic"),
    "kruskal": lambda a: stats.kruskal(a.v, a.w),
    "friedmanchisquare": lambda a: stats.friedmanchisquare(a.v, a.w, a.v * a.w),
    "bartlett": lambda a: stats.bartlett(a.v, a.w),
    "levene": lambda a: stats.levene(a.v, a.w),
    "ansari": lambda a: stats.ansari(a.v, a.w),
    "mood": lambda a: stats.mood(a.v, a.w),
    "brunnermunzel": lambda a: stats.brunnermunzel(a.v, a.w),
    "ks_1samp": lambda a: stats.ks_1samp(a.v, special.ndtr),
    "cramervonmises": lambda a: stats.cramervonmises(a.v, special.ndtr),
    "chisquare": lambda a: stats.chisquare(a.p, axis=1),
    "jarque_bera": lambda a: stats.jarque_bera(a.v),
    "skewtest": lambda a: stats.skewtest(a.v),
    "combine_pvalues": lambda a: stats.combine_pvalues(a.u[0, :]),
    "false_discovery_control": lambda a: stats.false_discovery_control(a.u[0, :]),
    "boxcox_llf": lambda a: stats.boxcox_llf(0.5, a.w),
}
CLUSTER = {
    "whiten": lambda a: cluster.vq.whiten(a.x),
    "vq": lambda a: cluster.vq.vq(a.points, a.points[::5, :]),
    "kmeans": lambda a: cluster.vq.kmeans(a.points, a.points[::5, :]),
    "kmeans2": lambda a: cluster.vq.kmeans2(a.points, a.points[::5, :]),
    "linkage": lambda a: cluster.hierarchy.linkage(a.points, "average"),
    "cophenet": lambda a: cluster.hierarchy.cophenet(
        cluster.hierarchy.linkage(a.points)
    ),
    "fcluster": lambda a: cluster.hierarchy.fcluster(
        cluster.hierarchy.ward(a.points), 2, "maxclust"
    ),
    "leaves_list": lambda a: cluster.hierarchy.leaves_list(
        cluster.hierarchy.linkage(a.points)
    ),
}
SIGNAL = {
    "convolve": lambda a: signal.convolve(a.s, a.v, mode="same"),
    "correlate": lambda a: signal.correlate(a.s, a.v),
    "convolve2d": lambda a: signal.convolve2d(a.image, a.matrix, mode="same"),
    "fftconvolve": lambda a: signal.fftconvolve(a.s, a.v),
    "deconvolve": lambda a: signal.deconvolve(a.v, a.a),
    "detrend": lambda a: signal.detrend(a.s),
    "hilbert": lambda a: signal.hilbert(a.s),
    "envelope": lambda a: signal.envelope(a.s),
    "lfilter": lambda a: signal.lfilter(a.b, a.a, a.s),
    "lfilter_zi": lambda a: signal.lfilter_zi(a.b, a.a),
    "filtfilt": lambda a: signal.filtfilt(a.b, a.a, a.s),
    "resample": lambda a: signal.resample(a.s, 40),
    "resample_poly": lambda a: signal.resample_poly(a.s, 3, 2),
    "upfirdn": lambda a: signal.upfirdn(a.b, a.s, 2, 3),
    "medfilt": lambda a: signal.medfilt(a.s, 5),
    "wiener": lambda a: signal.wiener(a.s, 5),
    "order_filter": lambda a: signal.order_filter(a.s, a.xp.ones_like(a.b), 1),
    "freqz": lambda a: signal.freqz(a.b, a.a, worN=16),
    "freqs": lambda a: signal.freqs(a.b, a.a, worN=a.p[0, :]),
    "group_delay": lambda a: signal.group_delay((a.b, a.a), w=8),
    "bilinear": lambda a: signal.bilinear(a.b, a.a),
    "tf2zpk": lambda a: signal.zpk2tf(*signal.tf2zpk(a.b, a.a)),
    "sos2tf": lambda a: signal.sos2tf(a.sos),
    "lp2hp": lambda a: signal.lp2hp(a.b, a.a),
    "vectorstrength": lambda a: signal.vectorstrength(a.v, a.one),
    "qspline1d": lambda a: signal.qspline1d(a.s),
    "hann": lambda a: signal.windows.hann(9, xp=a.xp),
    "kaiser": lambda a: signal.windows.kaiser(9, 3.0, xp=a.xp),
    "taylor": lambda a: signal.windows.taylor(9, xp=a.xp),
    "get_window": lambda a: signal.get_window(("tukey", 0.3), 9, xp=a.xp),
}
NDIMAGE = {
    "gaussian_filter": lambda a: ndimage.gaussian_filter(a.image, 1.2),
    "uniform_filter": lambda a: ndimage.uniform_filter(a.image, 3),
    "median_filter": lambda a: ndimage.median_filter(a.image, 3),
    "maximum_filter": lambda a: ndimage.maximum_filter(a.image, 3),
    "percentile_filter": lambda a: ndimage.percentile_filter(a.image, 30, 3),
    "sobel": lambda a: ndimage.sobel(a.image),
    "laplace": lambda a: ndimage.laplace(a.image),
    "convolve": lambda a: ndimage.convolve(a.image, a.matrix),
    "correlate1d": lambda a: ndimage.correlate1d(a.image, a.b),
    "zoom": lambda a: ndimage.zoom(a.image, 1.5),
    "rotate": lambda a: ndimage.rotate(a.image, 30),
    "shift": lambda a: ndimage.shift(a.image, 0.6),
    "affine_transform": lambda a: ndimage.affine_transform(a.image, a.matrix[:2, :2]),
    "map_coordinates": lambda a: ndimage.map_coordinates(a.image, a.p[:2, :]),
    "label": lambda a: ndimage.label(a.blobs),
    "center_of_mass": lambda a: ndimage.center_of_mass(a.image),
    "sum_labels": lambda a: ndimage.sum_labels(a.blobs, a.blobs > 0),
    "grey_dilation": lambda a: ndimage.grey_dilation(a.image, 3),
    "binary_erosion": lambda a: ndimage.binary_erosion(a.blobs > 0),
    "binary_fill_holes": lambda a: ndimage.binary_fill_holes(a.blobs > 0),
    "distance_transform_edt": lambda a: ndimage.distance_transform_edt(a.blobs > 0),
    "vectorized_filter": lambda a: ndimage.vectorized_filter(
        a.image, a.xp.mean, size=3
    ),
}
FFT = {
    "fft": lambda a: fft.fft(a.x),
    "ifft": lambda a: fft.ifft(a.x),
    "fft2": lambda a: fft.fft2(a.image),
    "rfft": lambda a: fft.rfft(a.x, 8),
    "irfft": lambda a: fft.irfft(fft.rfft(a.x), 6),
    "rfftn": lambda a: fft.rfftn(a.image),
    "hfft": lambda a: fft.hfft(a.x),
    "dct": lambda a: fft.dct(a.x),
    "idct": lambda a: fft.idct(a.x, norm="ortho"),
    "dst": lambda a: fft.dst(a.x, 3),
    "dctn": lambda a: fft.dctn(a.image),
    "fht": lambda a: fft.fht(a.s, 0.1, 0.5),
    "fftshift": lambda a: fft.fftshift(a.x),
    "fftfreq": lambda a: fft.fftfreq(9, 0.5, xp=a.xp),
}
INTEGRATE = {
    "trapezoid": lambda a: integrate.trapezoid(a.x, axis=1),
    "cumulative_trapezoid": lambda a: integrate.cumulative_trapezoid(a.v, initial=0),
    "cumulative_simpson": lambda a: integrate.cumulative_simpson(a.v, dx=0.5),
    "romb": lambda a: integrate.romb(a.knots, dx=0.25),
    "cubature": lambda a: (
        integrate.cubature(
            lambda x: a.xp.exp(-(x[:, 0] ** 2)), a.knots[:1], a.knots[-1:], rtol=1e-4
        ).estimate
    ),
    "tanhsinh": lambda a: (
        integrate.tanhsinh(lambda x: a.xp.exp(-(x**2)), a.one, 2 * a.one).integral
    ),
}
INTERPOLATE = {
    "CubicSpline": lambda a: interpolate.CubicSpline(a.knots, a.v[:9])(a.between),
    "PchipInterpolator": lambda a: interpolate.PchipInterpolator(a.knots, a.v[:9])(
        a.between
    ),
    "Akima1DInterpolator": lambda a: interpolate.Akima1DInterpolator(a.knots, a.v[:9])(
        a.between
    ),
    "make_interp_spline": lambda a: interpolate.make_interp_spline(a.knots, a.v[:9])(
        a.between
    ),
    "make_smoothing_spline": lambda a: interpolate.make_smoothing_spline(
        a.knots, a.v[:9]
    )(a.between),
    "RegularGridInterpolator": lambda a: interpolate.RegularGridInterpolator(
        (a.knots,), a.v[:9]
    )(a.between),
    "derivative of BSpline": lambda a: interpolate.make_interp_spline(
        a.knots, a.v[:9]
    ).derivative()(a.between),
}
LINALG = {
    "block_diag": lambda a: linalg.block_diag(a.x, a.matrix),
    "fiedler": lambda a: linalg.fiedler(a.v),
    "orthogonal_procrustes": lambda a: linalg.orthogonal_procrustes(a.x.T, a.y.T),
}
OPTIMIZE = {
    "rosen": lambda a: optimize.rosen(a.v),
    "rosen_der": lambda a: optimize.rosen_der(a.v),
    "rosen_hess": lambda a: optimize.rosen_hess(a.v),
    "rosen_hess_prod": lambda a: optimize.rosen_hess_prod(a.v, a.w),
    "find_root": lambda a: (
        elementwise.find_root(lambda x: x**3 - a.one, (0 * a.one, 2 * a.one)).x
    ),
    "bracket_root": lambda a: (
        elementwise.bracket_root(lambda x: x**3 - 9, a.one).bracket
    ),
    "find_minimum": lambda a: (
        elementwise.find_minimum(
            lambda x: (x - 1.2) ** 2, (0 * a.one, a.one, 3 * a.one)
        ).f_x
    ),
}
OTHERS = {
    "differentiate.derivative": lambda a: differentiate.derivative(a.xp.exp, a.v).df,
    "differentiate.jacobian": lambda a: (
        differentiate.jacobian(optimize.rosen, a.v[:3]).df
    ),
    "spatial.transform.Rotation": lambda a: transform.Rotation.from_quat(
        a.quaternions
    ).apply(a.matrix[0, :]),
    "spatial.transform.RigidTransform": lambda a: (
        transform.RigidTransform.from_translation(a.matrix).as_matrix()
    ),
    "constants.convert_temperature": lambda a: constants.convert_temperature(
        a.v, "Celsius", "Kelvin"
    ),
    "constants.lambda2nu": lambda a: constants.lambda2nu(a.w),
}
MODULES = {
    "cluster": CLUSTER,
    "fft": FFT,
    "integrate": INTEGRATE,
    "interpolate": INTERPOLATE,
    "linalg": LINALG,
    "ndimage": NDIMAGE,
    "optimize": OPTIMIZE,
    "signal": SIGNAL,
    "special": SPECIAL,
    "stats": STATS,
    "": OTHERS,
}
ROWS = {
    ".".join(filter(None, (module, name))): call
    for module, rows in MODULES.items()
    for name, call in rows.items()
}


# Here SciPy creates arrays without giving a dtype; in plugrad they are float32.
WITHOUT_DTYPE = """
    fft.fftfreq integrate.cumulative_simpson interpolate.Akima1DInterpolator
    signal.taylor stats.brunnermunzel stats.mode stats.rankdata
"""
# These compute with complex numbers as precise as their arguments ...
WITH_COMPLEX = """
    fft.fft fft.ifft fft.fft2 fft.rfft fft.irfft fft.rfftn fft.hfft signal.fftconvolve
    signal.hilbert signal.envelope signal.resample signal.freqz signal.freqs
    signal.vectorstrength
"""
COMPLEX128 = {"fft.fht", "signal.tf2zpk"}  # ... and these with complex128.
# Rows that run without --all: a few from each module.
RUN_BY_DEFAULT = """
    cluster.whiten cluster.linkage constants.lambda2nu differentiate.derivative fft.fft
    fft.dct integrate.trapezoid interpolate.CubicSpline linalg.block_diag ndimage.label
    ndimage.gaussian_filter optimize.rosen_hess optimize.find_root signal.convolve
    signal.hilbert signal.lfilter spatial.transform.Rotation special.logsumexp
    special.gammaln special.xlogy stats.zscore stats.entropy stats.pearsonr
"""
DEFAULT_DTYPE, COMPLEX, QUICK = (
    set(names.split()) for names in (WITHOUT_DTYPE, WITH_COMPLEX, RUN_BY_DEFAULT)
)
