// One pass of a Fourier transform (Stockham): from transforms over `length` elements, which
// are n / length apart, to transforms over length * RADIX elements. roots[t] is
// e^(-2 pi i t / n). For the inverse, `sign` is -1, and the last pass scales.
#define TIMES(a, b) \
  (float2)((a).x * (b).x - (a).y * (b).y, (a).x * (b).y + (a).y * (b).x)
#if RADIX < 8
#define EACH _Pragma("unroll") for
#else
#define EACH for
#endif

__kernel GROUPED void fft(__global const float2 *restrict x, __global float2 *restrict y,
                          __global const float2 *restrict roots, long count, long n,
                          long length, float sign, float scale) {
  const long stride = n / RADIX, apart = stride / length;
#if CPU
  const long first = (long)get_global_id(0) * ITEMS, last = min(first + ITEMS, count);
  long row = first / stride, s = first % stride / length, k = first % stride % length;
  for (long item = first; item < last; item++) {
#else
  const long item = get_global_id(0), row = item / stride;
  const long s = item % stride / length, k = item % stride % length;
  if (item < count) {
#endif
    __global const float2 *restrict from = x + row * n + s * length + k;
    __global float2 *restrict to = y + row * n + s * length * RADIX + k;
    float2 part[RADIX];
    EACH(int u = 0; u < RADIX; u++) {
      const float2 root = roots[apart * u * k], value = from[apart * length * u];
      part[u] = u && k ? TIMES(value, (float2)(root.x, sign * root.y)) : value;
    }
#if RADIX == 2
    to[0] = (part[0] + part[1]) * scale;
    to[length] = (part[0] - part[1]) * scale;
#elif RADIX == 4
    const float2 a = part[0] + part[2], b = part[0] - part[2], c = part[1] + part[3];
    const float2 odd = (part[1] - part[3]) * sign, d = (float2)(odd.y, -odd.x);
    to[0] = (a + c) * scale;
    to[length] = (b + d) * scale;
    to[2 * length] = (a - c) * scale;
    to[3 * length] = (b - d) * scale;
#else
    EACH(int v = 0; v < RADIX; v++) {
      float2 total = part[0];
      EACH(int u = 1; u < RADIX; u++) {
        const float2 root = roots[u * v % RADIX * stride];
        total += v ? TIMES(part[u], ((float2)(root.x, sign * root.y))) : part[u];
      }
      to[v * length] = total * scale;
    }
#endif
#if CPU
    if (++k == length) {
      k = 0;
      if (++s == apart) s = 0, row++;
    }
#endif
  }
}
