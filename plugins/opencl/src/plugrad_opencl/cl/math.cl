// Functions of floating-point vectors and scalars, with errors of up to 3 ulp. DOUBLE is 1
// if T is float64. They use polynomials, which are always inlined, because PoCL does not
// always inline its built-in functions.

#if DOUBLE
#define F(x) (x)
#define f_exp exp
#define f_exp2 exp2
#define f_expm1 expm1
#define f_log log
#define f_log1p log1p
#else
#define F(x) (x##f)
// Reduce c = whole ln(2) + r, and return e^r - 1 (polynomial of Cephes).
static inline T f_expm1_reduced(T c, I *whole) {
  const T shifted = MULTIPLY_ADD(c, F(1.44269504), F(12582912.0));
  const T n = shifted - F(12582912.0);
  *whole = AS(I, shifted) - 0x4B400000;
  T r = MULTIPLY_ADD(n, F(-0.693359375), c);
  r = MULTIPLY_ADD(n, F(2.12194440e-4), r);
  T p = MULTIPLY_ADD(F(1.9875691500e-4), r, F(1.3981999507e-3));
  p = MULTIPLY_ADD(p, r, F(8.3334519073e-3));
  p = MULTIPLY_ADD(p, r, F(4.1665795894e-2));
  p = MULTIPLY_ADD(p, r, F(1.6666665459e-1));
  p = MULTIPLY_ADD(p, r, F(5.0000001201e-1));
  return MULTIPLY_ADD(p, r * r, r);
}

static inline T f_two_to(I n) { return AS(T, (n + 127) << 23); }

// Multiply by the power of 2 in two steps, for denormal results.
static inline T f_exp(T x) {
  I whole;
  T c = x > F(89.0) ? (T)F(89.0) : x;
  const T e = f_expm1_reduced(c < F(-104.0) ? (T)F(-104.0) : c, &whole);
  const I part = whole >> 1;
  return (e + F(1.0)) * f_two_to(part) * f_two_to(whole - part);
}

// 2^x = 2^whole 2^r, with x rounded to an integer and r from -1/2 to 1/2.
static inline T f_exp2(T x) {
  T c = x > F(129.0) ? (T)F(129.0) : x;
  c = c < F(-151.0) ? (T)F(-151.0) : c;
  const T shifted = c + F(12582912.0), r = c - (shifted - F(12582912.0));
  T p = MULTIPLY_ADD(F(1.534581097e-4), r, F(1.33999309e-3));
  p = MULTIPLY_ADD(p, r, F(9.618489072e-3));
  p = MULTIPLY_ADD(p, r, F(5.550328642e-2));
  p = MULTIPLY_ADD(p, r, F(2.402264625e-1));
  p = MULTIPLY_ADD(p, r, F(6.931471825e-1));
  p = MULTIPLY_ADD(p, r, F(1.0));
  const I whole = AS(I, shifted) - 0x4B400000, part = whole >> 1;
  return p * f_two_to(part) * f_two_to(whole - part);
}

// 2^n e + 2^n - 1 is computed divided by 2^(n/2), then multiplied: 2^n may overflow.
static inline T f_expm1(T x) {
  I whole;
  T c = x > F(89.0) ? (T)F(89.0) : x;
  const T e = f_expm1_reduced(c < F(-20.0) ? (T)F(-20.0) : c, &whole);
  const I part = whole >> 1, rest = whole - part;
  const T scaled = MULTIPLY_ADD(f_two_to(part), e, f_two_to(part) - f_two_to(-rest));
  const T y = scaled * f_two_to(rest);
  return x == F(0.0) ? x : y;
}

// x = 2^whole (1 + m), with 1 + m between the square roots of 1/2 and 2 (polynomial of
// Cephes).
static inline T f_log(T x) {
  const T size = x < F(1.17549435e-38) ? x * F(8388608.0) : x;  // denormal
  const I whole = (AS(I, size) - 0x3F3504F3) >> 23;
  const T m = AS(T, AS(I, size) - (whole << 23)) - F(1.0);
  const T n = TO(T, whole) - (x < F(1.17549435e-38) ? (T)F(23.0) : (T)F(0.0));
  T p = MULTIPLY_ADD(F(7.0376836292e-2), m, F(-1.1514610310e-1));
  p = MULTIPLY_ADD(p, m, F(1.1676998740e-1));
  p = MULTIPLY_ADD(p, m, F(-1.2420140846e-1));
  p = MULTIPLY_ADD(p, m, F(1.4249322787e-1));
  p = MULTIPLY_ADD(p, m, F(-1.6668057665e-1));
  p = MULTIPLY_ADD(p, m, F(2.0000714765e-1));
  p = MULTIPLY_ADD(p, m, F(-2.4999993993e-1));
  p = MULTIPLY_ADD(p, m, F(3.3333331174e-1));
  const T s = m * m;
  T y = MULTIPLY_ADD(p, m * s, n * F(-2.12194440e-4));
  y = MULTIPLY_ADD(n, F(0.693359375), m + MULTIPLY_ADD(F(-0.5), s, y));
  y = x == F(0.0) ? (T)(-INFINITY) : x < F(0.0) ? (T)(NAN) : y;
  return x < (T)INFINITY ? y : x;
}

// The logarithm of the rounded sum, corrected by the rounding error.
static inline T f_log1p(T x) {
  const T sum = x + F(1.0), y = f_log(sum), rest = (x - (sum - F(1.0))) / sum;
  const T exact = (sum > F(0.0)) & (sum < (T)INFINITY) ? y + rest : y;
  return x == F(0.0) ? x : exact;
}
#endif

static inline T f_sign_of(T size, T x) {
#if DOUBLE
  return AS(T, AS(I, size) | (AS(I, x) & (I)(1L << 63)));
#else
  return AS(T, AS(I, size) | (AS(I, x) & (I)(1 << 31)));
#endif
}

#if DOUBLE
#define f_tanh tanh
#else
// e / (e + 2) with e = e^(2|x|) - 1, as in plugrad-cpu. The last bits of `sum` are the
// exponent of the power of 2. The rounding error of ln(2) / 2 is multiplied by the exponent,
// but where the exponent is large, the error hardly changes the result.
static inline T f_tanh(T x) {
  const T a = fabs(x), b = a > F(10.0) ? (T)F(10.0) : a;
  const T sum = MULTIPLY_ADD(b, F(2.88539004), F(12583039.0));
  const T r = MULTIPLY_ADD(sum - F(12583039.0), F(-0.346573591), b);
  T p = MULTIPLY_ADD(F(4.43786122e-2), r, F(1.33862788e-1));
  p = MULTIPLY_ADD(p, r, F(3.33339721e-1));
  p = MULTIPLY_ADD(p, r, F(6.66661800e-1));
  p = MULTIPLY_ADD(p, r, F(0.99999994));
  const T rest = MULTIPLY_ADD(p, r * r, r), power = AS(T, AS(I, sum) << 23);
  const T e = MULTIPLY_ADD(power + power, rest, power - F(1.0));
  return f_sign_of(e / (e + F(2.0)), x);
}
#endif

#if defined(cl_khr_fp64) && !DOUBLE
// float32 functions computed in float64, so that only the last step rounds.
VECTOR(f_real, double);
VECTOR(f_whole, long);
// Use the expression `one` for each element k of y for which `near` is false.
#define F_EACH(near, y, one)                 \
  if (!EVERY(near))                          \
    for (int k = 0; k < WIDTH; k++)          \
      if (!LANE(near, k)) LANE(y, k) = one;

// Return x - n pi/2 for the nearest n; accurate enough below 2^20.
static inline f_real f_reduced_angle(T x, f_whole *n) {
  const f_real large = TO(f_real, x);
  const f_real shifted = MULTIPLY_ADD(large, 0.63661977236758134, 6755399441055744.0);
  const f_real whole = shifted - 6755399441055744.0;
  *n = AS(f_whole, shifted);
  const f_real rest = MULTIPLY_ADD(whole, -1.57079632673412561417, large);
  return MULTIPLY_ADD(whole, -6.07710050650619224932e-11, rest);
}

static inline f_real f_sine(f_real r) {
  const f_real s = r * r;
  f_real p = MULTIPLY_ADD(2.7557319223985893e-06, s, -1.984126984126984e-04);
  p = MULTIPLY_ADD(p, s, 8.333333333333333e-03);
  p = MULTIPLY_ADD(p, s, -1.6666666666666666e-01);
  return r * MULTIPLY_ADD(p, s, 1.0);
}

static inline f_real f_cosine(f_real r) {
  const f_real s = r * r;
  f_real p = MULTIPLY_ADD(-2.755731922398589e-07, s, 2.48015873015873e-05);
  p = MULTIPLY_ADD(p, s, -1.388888888888889e-03);
  p = MULTIPLY_ADD(p, s, 4.1666666666666664e-02);
  p = MULTIPLY_ADD(p, s, -0.5);
  return MULTIPLY_ADD(p, s, 1.0);
}

static inline T f_sine_quarters(T x, long quarters) {
  f_whole n;
  const f_real r = f_reduced_angle(x, &n);
  n += quarters;
  const f_real y = (n & 1L) != 0L ? f_cosine(r) : f_sine(r);
  return TO(T, (n & 2L) != 0L ? -y : y);
}

static inline I f_is_near(T x) {
  return (fabs(x) <= F(1e6)) | (x != x) | (fabs(x) == (T)INFINITY);
}

static inline T f_sin(T x) {
  const I near = f_is_near(x);
  T y = f_sine_quarters(x, 0);
  F_EACH(near, y, sin((S)LANE(x, k)))
  return y;
}

static inline T f_cos(T x) {
  const I near = f_is_near(x);
  T y = f_sine_quarters(x, 1);
  F_EACH(near, y, cos((S)LANE(x, k)))
  return y;
}

static inline T f_tan(T x) {
  const I near = f_is_near(x);
  f_whole n;
  const f_real r = f_reduced_angle(x, &n), a = f_sine(r), b = f_cosine(r);
  const f_whole odd = (n & 1L) != 0L;
  T y = TO(T, (odd ? -b : a) / (odd ? a : b));
  F_EACH(near, y, tan((S)LANE(x, k)))
  return y;
}

// 2^(b log2|a|). |a| is 2^n m, and the logarithm of m is 2 atanh(s).
static inline T f_pow(T x, T z) {
  const f_real a = TO(f_real, x), b = TO(f_real, z), size = fabs(a);
  const f_whole bits = AS(f_whole, size), n = (bits - 0x3FE6A09E667F3BCDL) >> 52;
  const f_real m = AS(f_real, bits - (n << 52)), s = (m - 1.0) / (m + 1.0), t = s * s;
  f_real p = MULTIPLY_ADD(0.15384615384615385, t, 0.18181818181818182);
  p = MULTIPLY_ADD(p, t, 0.2222222222222222);
  p = MULTIPLY_ADD(p, t, 0.2857142857142857);
  p = MULTIPLY_ADD(p, t, 0.4);
  p = MULTIPLY_ADD(p, t, 0.6666666666666666);
  p = MULTIPLY_ADD(p, t, 2.0);
  f_real log2 = MULTIPLY_ADD(s * p, 1.4426950408889634, TO(f_real, n));
  log2 = size == 0.0 ? (f_real)(-INFINITY) : size < (f_real)INFINITY ? log2 : size;
  f_real power = b * log2;
  power = power > 200.0 ? (f_real)200.0 : power < -200.0 ? (f_real)-200.0 : power;
  const f_real shifted = power + 6755399441055744.0;
  const f_real r = (power - (shifted - 6755399441055744.0)) * 0.6931471805599453;
  f_real q = MULTIPLY_ADD(2.48015873015873e-05, r, 1.984126984126984e-04);
  q = MULTIPLY_ADD(q, r, 1.388888888888889e-03);
  q = MULTIPLY_ADD(q, r, 8.333333333333333e-03);
  q = MULTIPLY_ADD(q, r, 4.1666666666666664e-02);
  q = MULTIPLY_ADD(q, r, 0.16666666666666666);
  q = MULTIPLY_ADD(q, r, 0.5);
  q = MULTIPLY_ADD(q, r * r, r) + 1.0;
  f_real y = q * AS(f_real, (AS(f_whole, shifted) - 0x4338000000000000L + 1023L) << 52);
  y = (size == 1.0) | (b == 0.0) ? (f_real)1.0 : y;
  y = (b == floor(b)) & (floor(b * 0.5) != b * 0.5) & (AS(f_whole, a) < 0L) ? -y : y;
  const f_whole none = (a < 0.0) & (b != floor(b)) & (size != (f_real)INFINITY);
  return TO(T, none ? (f_real)(NAN) : y);
}

// Exact if a / b is below 2^28: then the quotient and its product with b are exact.
static inline T f_fmod(T a, T b) {
  const I near = (fabs(a) < fabs(b) * F(268435456.0)) & (fabs(b) < (T)INFINITY);
  const f_real x = TO(f_real, a), z = TO(f_real, b);
  T y = TO(T, x - trunc(x / z) * z);
  y = f_sign_of(fabs(y), a);
  F_EACH(near, y, fmod((S)LANE(a, k), (S)LANE(b, k)))
  return y;
}
#elif WIDTH > 1
// On some versions of PoCL, a large or NaN element makes all other elements wrong.
#define ONE_BY_ONE(f)                                                    \
  static inline T f_##f(T x) {                                           \
    const I near = fabs(x) <= (DOUBLE ? (S)1e13 : (S)100);               \
    T y = f(near ? x : (T)(0));                                            \
    if (!all(near))                                                      \
      for (int k = 0; k < WIDTH; k++)                                    \
        if (!near[k]) y[k] = f((S)x[k]);                                 \
    return y;                                                            \
  }
ONE_BY_ONE(sin)
ONE_BY_ONE(cos)
ONE_BY_ONE(tan)
#define f_pow pow
static inline T f_fmod(T a, T b) {
  for (int k = 0; k < WIDTH; k++) a[k] = fmod((S)a[k], (S)b[k]);
  return a;
}
#else
#define f_sin sin
#define f_cos cos
#define f_tan tan
#define f_pow pow
#define f_fmod fmod
#endif

// The remainder, with the sign of b even if the remainder is 0.
static inline T f_mod(T a, T b) {
  const T r = f_fmod(a, b), y = (r < F(0.0)) ^ (b < F(0.0)) ? r + b : r;
  return r != F(0.0) ? y : f_sign_of(fabs(r), b);
}

// As in NumPy, computed from the exact remainder, and rounded to the nearest integer.
static inline T f_floor_div(T a, T b) {
  const T r = f_fmod(a, b), all = (a - r) / b, whole = a / b;
  const T q = (r != F(0.0)) & ((r < F(0.0)) ^ (b < F(0.0))) ? all - F(1.0) : all;
  const T low = floor(q), y = q - low > F(0.5) ? low + F(1.0) : low;
  const I plain = (b == F(0.0)) | (a - a != F(0.0)) | (b - b != F(0.0));
  return plain ? floor(whole) : q == F(0.0) ? f_sign_of(fabs(q), whole) : y;
}

// This computes only exponentials of negative numbers: others would overflow.
static inline T f_sigmoid(T x) {
  const T e = f_exp(-fabs(x));
  return (x < F(0.0) ? e : (T)F(1.0)) / (F(1.0) + e);
}

// The derivative of the sigmoid, without 1 - y, in which digits would cancel.
static inline T f_sigmoid_slope(T x) {
  const T e = f_exp(-fabs(x)), r = F(1.0) / (F(1.0) + e);
  return e * r * r;
}

static inline T f_softplus(T x) {
  const T above = x < F(0.0) ? (T)F(0.0) : x;
  return above + f_log1p(f_exp(-fabs(x)));
}

// ERF_NEAR, ERF_FAR and ERF_END come from plugrad.plugin.erf_polynomials.
static inline T f_erf(T x) {
  const T a = fabs(x), s = x * x, b = a > ERF_END ? (T)ERF_END : a;
  const T p = ERF_NEAR(s), q = ERF_FAR(b);
  const T far = f_sign_of(F(1.0) - f_exp(q), x);
  return a < F(1.0) ? MULTIPLY_ADD(x, p, x) : x != x ? x : far;
}

// y (1 + correction) e^(-x^2 factor) for a factor of 1 or 1/2 and a small correction. `c` is
// x rounded to so few bits that its square is exact; the rest of x^2 is small.
static inline T f_times_gaussian(T y, T correction, T x, S factor) {
  const S steps = DOUBLE ? (S)1048576 : (S)256;
  const T c = rint(x * steps) * ((S)1 / steps), rest = (c - x) * (c + x);
  const T small = f_expm1(rest * factor) + correction, power = f_exp(c * c * -factor);
#if defined(cl_khr_fp64) && !DOUBLE  // one rounding instead of three
  const f_real wide = TO(f_real, y);
  return TO(T, (wide + wide * TO(f_real, small)) * TO(f_real, power));
#else
  return (y + y * small) * power;
#endif
}

// Return y with e^(a^2) erfc(a) = y (1 + correction), for a >= 0. ERFC_TAIL and the other
// macros come from plugrad.plugin.erfc_polynomial.
static inline T f_scaled_erfc(T a, T *correction) {
  const T divisor = a + ERFC_OFFSET, part = divisor - a;
  *correction = -((a - (divisor - part)) + (ERFC_OFFSET - part)) / divisor;
  const T q = (a - ERFC_MIDDLE) / (a + ERFC_MIDDLE);
  return ERFC_TAIL(q) / divisor;
}

static inline T f_erfc(T x) {
  const T size = fabs(x), a = size > ERFC_END ? (T)ERFC_END : size;
  T correction;
  T y = f_scaled_erfc(a, &correction);
  y = f_times_gaussian(y, correction, a, F(1.0));
  return x < F(0.0) ? F(2.0) - y : y;
}

// e^-|u| for u = sqrt(8 / pi) (x + 0.044715 x^3), with x clipped. `c` is x rounded to few
// bits, and GELU_LINE and GELU_CUBE are the rounded factors of x and x^3. Therefore the sum
// of their products with c and c^3 is exact, and the rest of u is small.
#if DOUBLE
#define GELU_STEPS 256.0
#define GELU_LIMIT 22.0
#define GELU_LINE 1.5957691216026433
#define GELU_LINE_REST 3.0874305383944692e-12
#define GELU_CUBE 0.07135391235351562
#define GELU_CUBE_REST 9.039190846237764e-07
#else
#define GELU_STEPS 8.0f
#define GELU_LIMIT 11.0f
#define GELU_LINE 1.59576416015625f
#define GELU_LINE_REST 4.96144948071176e-06f
#define GELU_CUBE 0.0703125f
#define GELU_CUBE_REST 0.0010423162726002487f
#endif
static inline T f_exp_gelu_tanh(T x) {
  x = x < -GELU_LIMIT ? (T)-GELU_LIMIT : x > GELU_LIMIT ? (T)GELU_LIMIT : x;
  const T c = rint(x * GELU_STEPS) * (F(1.0) / GELU_STEPS), cube = c * c * c;
  T rest = c * GELU_LINE_REST + cube * GELU_CUBE_REST;
  rest += (x - c) * ((x * x + x * c + c * c) * F(0.07135481627260025) + F(1.5957691216057308));
  const T e = f_exp(-fabs(c * GELU_LINE + cube * GELU_CUBE));
  return e * f_exp(x < F(0.0) ? rest : -rest);
}

// The result is NaN if an input is NaN, unlike with the built-in functions.
static inline T f_max(T a, T b) { return ((a > b) | (a != a)) ? a : b; }
static inline T f_min(T a, T b) { return ((a < b) | (a != a)) ? a : b; }

// Scale by a power of 2 that keeps the squares in range. The result is infinite if an input
// is, even if the other one is NaN.
static inline T f_hypot(T a, T b) {
  const T x = fabs(a), z = fabs(b), big = x > z ? x : z;
#if DOUBLE
  const T scale = big > 0x1p+500 ? (T)0x1p-560 : big < 0x1p-450 ? (T)0x1p+640 : (T)1.0;
  const T unscale = big > 0x1p+500 ? (T)0x1p+560 : big < 0x1p-450 ? (T)0x1p-640 : (T)1.0;
#else
  const T scale = big > 0x1p+60f ? (T)0x1p-66f : big < 0x1p-50f ? (T)0x1p+98f : (T)1.0f;
  const T unscale = big > 0x1p+60f ? (T)0x1p+66f : big < 0x1p-50f ? (T)0x1p-98f : (T)1.0f;
#endif
  const T u = x * scale, v = z * scale, y = sqrt(u * u + v * v) * unscale;
  return (x == (T)INFINITY) | (z == (T)INFINITY) ? (T)INFINITY : y;
}
