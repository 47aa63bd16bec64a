// The k largest elements of each row, by a radix sort with digits of 8 bits, from the
// lowest digit to the highest. Equal elements stay in order. NaN is the largest.
typedef $type S;
typedef $key K;
#define BITS ((int)sizeof(K) * 8)
#define TOP ((K)((K)1 << (BITS - 1)))

// A key whose order is the reverse of that of x.
static inline K key_of(S x) {
#if FLOATING
  if (x != x) return 0;
  if (x == 0) x = 0;  // -0 is 0
  const K bits = __builtin_astype(x, K);
  return bits & TOP ? bits : (K)(~bits & (K)~TOP);
#elif SIGNED
  return (K)~((K)x ^ TOP);
#else
  return (K)~(K)x;
#endif
}

__kernel GROUPED void top(__global const S *restrict x, __global int *restrict scratch,
                          __global K *restrict keys, __global S *restrict values,
                          __global int *restrict indices, long rows, int n, int k,
                          int sorted) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  x += row * n;
  __global int *a = scratch + row * 2 * n, *b = a + n;
  __global K *from = keys + row * 2 * n, *to = from + n;
  for (int i = 0; i < n; i++) a[i] = i, from[i] = key_of(x[i]);
  for (int shift = 0; shift < BITS; shift += 8) {
    int start[256];
    for (int d = 0; d < 256; d++) start[d] = 0;
    for (int i = 0; i < n; i++) start[(from[i] >> shift) & 255]++;
    if (start[(from[0] >> shift) & 255] == n) continue;  // all digits are equal
    for (int d = 0, sum = 0; d < 256; d++) {
      const int count = start[d];
      start[d] = sum;
      sum += count;
    }
    for (int i = 0; i < n; i++) {
      const int slot = start[(from[i] >> shift) & 255]++;
      b[slot] = a[i];
      to[slot] = from[i];
    }
    __global int *old_a = a;
    a = b;
    b = old_a;
    __global K *old_from = from;
    from = to;
    to = old_from;
  }
  if (!sorted) {  // return them in their order in x
    for (int i = 0; i < n; i++) b[i] = 0;
    for (int i = 0; i < k; i++) b[a[i]] = 1;
    for (int i = 0, next = 0; i < n; i++)
      if (b[i]) a[next++] = i;
  }
  for (int i = 0; i < k; i++) {
    indices[row * k + i] = a[i];
    values[row * k + i] = x[a[i]];
  }
}
