// Attention on a CPU, and rotary embeddings.
typedef float S;
typedef S Y;
VECTOR(T, S);
VECTOR(I, int);
$functions

#if ATTENTION
// A key has SIZE elements, a value VALUE elements. A query is computed in one pass over
// blocks of KEYS keys: each block updates the maximum, the sum of exponentials and the
// weighted sum.
#define KEYS 64

static inline float dot_of(const float *q, __global const float *restrict k) {
  T sum = (T)(0);
  int i = 0;
  for (; i + WIDTH <= SIZE; i += WIDTH) sum += *(const T *)(q + i) * *(__global const T *)(k + i);
  float rest = 0;
  for (; i < SIZE; i++) rest += q[i] * k[i];
  for (int l = 0; l < WIDTH; l++) rest += LANE(sum, l);
  return rest;
}

__kernel GROUPED void attend(__global const float *restrict q,
                             __global const float *restrict k,
                             __global const float *restrict v,
                             __global const $mask *restrict mask,
                             __global const int *restrict lengths, __global float *restrict y,
                             long heads, long groups, long queries, long keys, long of_batch,
                             long of_head, long of_query, long rows, float scale) {
  const long row = get_global_id(0);
  if (row >= rows) return;
  const long query = row % queries, head = row / queries % heads;
  const long batch = row / queries / heads, group = batch * groups + head / (heads / groups);
  const long length = LENGTHS ? clamp((long)lengths[LENGTHS > 1 ? batch : 0], 0L, keys) : keys;
  long limit = length;
  if (CAUSAL) limit = clamp(query + 1 + (LENGTHS ? length - queries : 0), 0L, length);
  __global const float *key = k + group * keys * SIZE, *value = v + group * keys * VALUE;
  mask += batch * of_batch + head * of_head + query * of_query;

  float own[SIZE], sum[VALUE], p[KEYS], peak = -INFINITY, total = 0;
  for (int i = 0; i < SIZE; i++) own[i] = q[row * SIZE + i] * scale;
  for (int i = 0; i < VALUE; i++) sum[i] = 0;
  for (long from = 0; from < limit; from += KEYS) {
    const int n = min((long)KEYS, limit - from);
    float largest = peak;
    for (int j = n; j < KEYS; j++) p[j] = -INFINITY;
    for (int j = 0; j < n; j++) {
      p[j] = dot_of(own, key + (from + j) * SIZE);
#if MASK == 1
      if (!mask[from + j]) p[j] = -INFINITY;
#elif MASK == 2
      p[j] = mask[from + j] == -INFINITY ? -INFINITY : p[j] + mask[from + j];
#endif
      largest = fmax(largest, p[j]);
    }
    const float shift = largest == -INFINITY ? 0 : largest;
    const T ratios = f_exp((T)(peak - shift));
    const float ratio = peak == -INFINITY ? 0 : LANE(ratios, 0);
    T part = (T)(0);
    for (int j = 0; j < KEYS; j += WIDTH) {
      const T e = f_exp(*(const T *)(p + j) - shift);
      *(T *)(p + j) = e;
      part += e;
    }
    total *= ratio;
    for (int l = 0; l < WIDTH; l++) total += LANE(part, l);
    int i = 0;
    for (; i + WIDTH <= VALUE; i += WIDTH) {
      T a = *(const T *)(sum + i) * ratio;
      for (int j = 0; j < n; j++)
        a += p[j] * *(__global const T *)(value + (from + j) * VALUE + i);
      *(T *)(sum + i) = a;
    }
    for (; i < VALUE; i++) {
      float a = sum[i] * ratio;
      for (int j = 0; j < n; j++) a += p[j] * value[(from + j) * VALUE + i];
      sum[i] = a;
    }
    peak = largest;
  }
  const float by = total == 0 ? 0 : 1 / total;
  for (int i = 0; i < VALUE; i++) y[row * VALUE + i] = sum[i] * by;
}
#else
// Rotate pairs in the first 2 * HALF of the SIZE elements of each row, and copy the others.
// On a GPU, an item rotates one pair or copies one element; on a CPU, it computes rows.
#define STEPS (SIZE - HALF)

static inline void turn(__global const float *restrict x, __global const float *restrict cos,
                        __global const float *restrict sin, __global float *restrict y, int j) {
  if (j >= HALF) {
    y[HALF + j] = x[HALF + j];
    return;
  }
  const int first = INTERLEAVED ? 2 * j : j, second = INTERLEAVED ? 2 * j + 1 : j + HALF;
  const float a = x[first], b = x[second];
  y[first] = a * cos[j] - b * sin[j];
  y[second] = b * cos[j] + a * sin[j];
}

__kernel GROUPED void rotate_rows(__global const float *restrict x,
                                  __global const float *restrict cos,
                                  __global const float *restrict sin,
                                  __global float *restrict y, long count, long repeat,
                                  long rows) {
#if CPU
  const long first = (long)get_global_id(0) * ITEMS, last = min(first + ITEMS, count);
  for (long row = first; row < last; row++) {
#else
  const long row = get_global_id(0) / STEPS;
  if (row < count) {
#endif
    const long angle = (row / (repeat * rows) * rows + row % rows) * HALF;
#if CPU
    for (int j = 0; j < STEPS; j++)
#else
    const int j = get_global_id(0) % STEPS;
#endif
      turn(x + row * SIZE, cos + angle, sin + angle, y + row * SIZE, j);
  }
}
#endif
