// y = a b for few rows, on a CPU. It takes as long as reading b once in memory order. With
// DOTS, the columns of b and the rows of a are contiguous; without it, the rows of b are.
typedef $type S;
VECTOR(T, S);
$reading
$functions
static inline T product(T a, T b, T sum) { return $product; }
static inline S product1(S a, S b, S sum) { return $product; }
#define VECTORS (STRIP / WIDTH)

__kernel GROUPED void matmul(__global const S *restrict a, __global const B *restrict b,
                             __global S *restrict y, long z, long m, long n, long k,
                             long a_batch, long a_row, long a_step, long b_batch,
                             long b_row, long b_step) {
  const long strips = (n + STRIP - 1) / STRIP;
  const long item = get_global_id(0), strip = item % strips, row = item / strips;
  const long i = row % m, batch = row / m, first = strip * STRIP;
  const int count = min((long)STRIP, n - first);
  a += batch * a_batch + i * a_row;
  b += batch * b_batch + first * b_step;
  y += row * n + first;
#if DOTS
  for (int j = 0; j < count; j++, b += b_step) {
    T even = (T)(0), odd = (T)(0);
    long l = 0;
    for (; l + 2 * WIDTH <= k; l += 2 * WIDTH) {
      even = product(*(__global const T *)(a + l), READ(b + l), even);
      odd = product(*(__global const T *)(a + l + WIDTH),
                     READ(b + l + WIDTH), odd);
    }
    even += odd;
    S total = FIRST(even);
#if WIDTH > 1
    for (int c = 1; c < WIDTH; c++) total += even[c];
#endif
    for (; l < k; l++) total = product1(a[l], READ1(b + l), total);
    y[j] = total;
  }
#else
  int j = 0;
  if (count == STRIP) {
    T total[VECTORS];
    _Pragma("unroll") for (int v = 0; v < VECTORS; v++) total[v] = (T)(0);
    for (long l = 0; l < k; l++) {
      const T x = (T)(a[l * a_step]);
      __global const B *from = b + l * b_row;
      _Pragma("unroll") for (int v = 0; v < VECTORS; v++)
        total[v] = product(x, READ(from + v * WIDTH), total[v]);
    }
    _Pragma("unroll") for (int v = 0; v < VECTORS; v++)
      *(__global T *)(y + v * WIDTH) = total[v];
    return;
  }
  for (; j + WIDTH <= count; j += WIDTH) {
    T total = (T)(0);
    for (long l = 0; l < k; l++)
      total = product((T)(a[l * a_step]), READ(b + l * b_row + j), total);
    *(__global T *)(y + j) = total;
  }
  for (; j < count; j++) {
    S total = 0;
    for (long l = 0; l < k; l++) total = product1(a[l * a_step], READ1(b + l * b_row + j), total);
    y[j] = total;
  }
#endif
}
