// y[a, :, m] = cumulative sums or products of x. The first element is not joined with the
// initial value: the complex product of 1 and an infinity is NaN.
// An item computes one line, or on a CPU a strip of lines. W is wider than S.
typedef $type S;
typedef $wide W;
static inline W join(W a, W b) { return $join; }

__kernel GROUPED void scan(__global const S *restrict x, __global S *restrict y, long n,
                           long m, long lines, int exclusive, int reverse) {
#if CPU
  const long strips = (m + STRIP - 1) / STRIP, item = get_global_id(0);
  const long a = item / strips, first = item % strips * STRIP;
  const int count = min((long)STRIP, m - first);
#else
  const long item = get_global_id(0), a = item / m, first = item % m;
  const int count = 1;
  if (item >= lines) return;
#endif
  x += a * n * m + first;
  y += a * n * m + first;
  W total[STRIP];
  for (int j = 0; j < count; j++) total[j] = $start;
  for (long i = 0; i < n; i++) {
    const long offset = (reverse ? n - 1 - i : i) * m;
    for (int j = 0; j < count; j++) {
      const W value = $widened(x[offset + j]), next = i ? join(total[j], value) : value;
      y[offset + j] = $narrowed(exclusive ? total[j] : next);
      total[j] = next;
    }
  }
}
