// Complex numbers are float2, with the real part first. Special values follow C99, annex G.

static inline float2 c_mul(float2 a, float2 b) {
  return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// The initial value of products is 1 - 0i. It is skipped: infinity times it would be NaN.
static inline bool c_is_initial(float2 a) { return a.x == 1 && as_uint(a.y) == 0x80000000; }

static inline float2 c_product(float2 a, float2 b) {
  return c_is_initial(a) ? b : c_is_initial(b) ? a : c_mul(a, b);
}

// Smith's algorithm: the square of the absolute value, which may overflow, is avoided.
static inline float2 c_div(float2 a, float2 b) {
  if (fabs(b.x) >= fabs(b.y)) {
    if (b.x == 0 && b.y == 0) return (float2)(a.x / fabs(b.x), a.y / fabs(b.x));
    const float ratio = b.y / b.x, scale = 1 / (b.x + b.y * ratio);
    return (float2)((a.x + a.y * ratio) * scale, (a.y - a.x * ratio) * scale);
  }
  const float ratio = b.x / b.y, scale = 1 / (b.y + b.x * ratio);
  return (float2)((a.x * ratio + a.y) * scale, (a.y * ratio - a.x) * scale);
}

// Not c_div(1, a): its imaginary part 0 would change the signs of zeros.
static inline float2 c_reciprocal(float2 a) {
  if (fabs(a.x) >= fabs(a.y)) {
    const float ratio = a.y / a.x, size = a.x + a.y * ratio;
    return (float2)(1 / size, -ratio / size);
  }
  const float ratio = a.x / a.y, size = a.x * ratio + a.y;
  return (float2)(ratio / size, -1 / size);
}

// A part that is 0 stays 0, even if the absolute value is infinite.
static inline float2 c_polar(float size, float angle) {
  if (angle == 0) return (float2)(size, angle);
  return (float2)(size * cos(angle), size * sin(angle));
}

static inline float2 c_exp(float2 a) {
  if (!isfinite(a.y)) {
    if (!isinf(a.x)) return (float2)(NAN, NAN);
    return a.x < 0 ? (float2)(0, 0) : (float2)(INFINITY, NAN);
  }
  if (a.x > 88.7f && isfinite(a.x)) {  // |e^a| overflows before its parts do
    const float2 scaled = c_polar(exp(a.x - 88), a.y);
    return scaled * 1.6516363e38f;
  }
  return c_polar(exp(a.x), a.y);
}

static inline float2 c_expm1(float2 a) {
  if (a.y == 0) return (float2)(expm1(a.x) + 0.0f, a.y);
  if (!isfinite(a.x) || !isfinite(a.y)) return c_exp(a) - (float2)(1, 0);
  const float s = sin(a.y / 2), e = exp(a.x);
  return (float2)(expm1(a.x) * cos(a.y) - 2 * s * s, e * sin(a.y));
}

// log |x + iy| without a square that overflows, and without cancellation next to 1.
static inline float c_log_size(float x, float y) {
  const float big = fmax(fabs(x), fabs(y)), small = fmin(fabs(x), fabs(y));
  if (isinf(x) || isinf(y)) return INFINITY;
  if (isnan(x) || isnan(y)) return NAN;
  if (big > 0.5f && big < 2)
    return 0.5f * log1p((big - 1) * (big + 1) + small * small);
  return big == 0 ? -INFINITY : log(big) + 0.5f * log1p((small / big) * (small / big));
}

static inline float2 c_log(float2 a) {
  return (float2)(c_log_size(a.x, a.y), atan2(a.y, a.x));
}

static inline float2 c_log1p(float2 a) {
  const float near = 0.5f * log1p(a.x * (2 + a.x) + a.y * a.y);
  const float size = hypot(a.x, a.y) < 0.5f ? near : c_log_size(1 + a.x, a.y);
  return (float2)(size, atan2(a.y, 1 + a.x));
}

static inline float2 c_sqrt(float2 a) {
  if (a.x == 0 && a.y == 0) return (float2)(0, a.y);
  if (isinf(a.y)) return (float2)(INFINITY, a.y);
  if (isinf(a.x))
    return a.x > 0 ? (float2)(a.x, isnan(a.y) ? a.y : copysign(0.0f, a.y))
                   : (float2)(isnan(a.y) ? a.y : 0, copysign(INFINITY, a.y));
  // Scale by an even power of two, so that the absolute value neither overflows nor
  // underflows.
  const float big = fmax(fabs(a.x), fabs(a.y));
  const float scale = big > 1e37f ? 0.25f : big < 1e-30f ? 0x1p+48f : 1;
  const float unscale = big > 1e37f ? 2 : big < 1e-30f ? 0x1p-24f : 1;
  const float x = a.x * scale, y = a.y * scale;
  const float t = sqrt((fabs(x) + hypot(x, y)) * 0.5f);
  if (x >= 0) return (float2)(t, y / (2 * t)) * unscale;
  return (float2)(fabs(y) / (2 * t), copysign(t, y)) * unscale;
}

static inline float2 c_sinh(float2 a) {
  if (!isfinite(a.y)) return (float2)(a.x == 0 || isinf(a.x) ? a.x : NAN, NAN);
  if (a.y == 0) return (float2)(sinh(a.x), a.y);
  return (float2)(sinh(a.x) * cos(a.y), cosh(a.x) * sin(a.y));
}

static inline float2 c_cosh(float2 a) {
  if (!isfinite(a.y))
    return isinf(a.x) ? (float2)(INFINITY, NAN) : (float2)(NAN, a.x == 0 ? 0 : NAN);
  if (a.x == 0 || a.y == 0)
    return (float2)(cosh(a.x) * cos(a.y), copysign(1.0f, a.x) * sin(a.y) * 0.0f);
  return (float2)(cosh(a.x) * cos(a.y), sinh(a.x) * sin(a.y));
}

// sin z = -i sinh(iz), cos z = cosh(iz)
static inline float2 c_sin(float2 a) {
  const float2 y = c_sinh((float2)(-a.y, a.x));
  return (float2)(y.y, -y.x);
}

static inline float2 c_cos(float2 a) { return c_cosh((float2)(-a.y, a.x)); }

static inline float2 c_tanh(float2 a) {
  if (isinf(a.x)) return (float2)(copysign(1.0f, a.x), copysign(0.0f, a.y));
  if (a.y == 0) return (float2)(tanh(a.x), a.y);
  if (!isfinite(a.y)) return (float2)(a.x == 0 ? a.x : NAN, NAN);
  if (fabs(a.x) > 11) {
    const float y = 4 * sin(a.y) * cos(a.y) * exp(-2 * fabs(a.x));
    return (float2)(copysign(1.0f, a.x), y);
  }
  const float s = sinh(a.x), c = cosh(a.x), sy = sin(a.y), cy = cos(a.y);
  const float size = s * s + cy * cy;
  return (float2)(s * c / size, sy * cy / size);
}

static inline float2 c_pow(float2 a, float2 b) {
  if (b.x == 0 && b.y == 0) return (float2)(1, 0);
  if (a.x == 0 && a.y == 0) return b.x > 0 ? (float2)(0, 0) : (float2)(NAN, NAN);
  if (b.y == 0 && b.x == floor(b.x) && fabs(b.x) < 100) {
    if (b.x == 1) return a;  // not times 1: an infinity would become NaN
    if (b.x == 2) return c_mul(a, a);
    if (b.x == 3) return c_mul(a, c_mul(a, a));
    float2 y = (float2)(1, 0), base = a;
    for (int n = abs((int)b.x); n; n >>= 1) {
      if (n & 1) y = c_mul(y, base);
      base = c_mul(base, base);
    }
    return b.x < 0 ? c_div((float2)(1, 0), y) : y;
  }
  return c_exp(c_mul(b, c_log(a)));
}
