// Rows: on a CPU an item has some, in vectors; on a GPU a work group has one.
typedef $type S;
VECTOR(T, S);

#if CPU
// The last elements of a row, fewer than a vector has.
static inline T rest_of(__global const S *restrict x, long i, long n, S other) {
  T y = (T)(other);
  for (int l = 0; i + l < n; l++) y[l] = x[i + l];
  return y;
}

#define PUT(i, value)                                             \
  do {                                                            \
    const T some = value;                                         \
    if (whole) *(__global T *)(to + i) = some;                    \
    else                                                          \
      for (int l = 0; i + l < n; l++) to[i + l] = some[l];        \
  } while (0)
#define GET(from, i, other) \
  (whole ? *(__global const T *)(from + i) : rest_of(from, i, n, other))
// All vectors of a row, the last one with ``other`` where there is nothing.
#define EACH_OF(begin, from, other, ...)                          \
  {                                                               \
    long i = begin;                                               \
    for (; i + WIDTH <= n; i += WIDTH) {                          \
      const int whole = 1;                                        \
      const T value = GET(from, i, other);                        \
      __VA_ARGS__                                                 \
    }                                                             \
    if (i < n) {                                                  \
      const int whole = 0;                                        \
      const T value = GET(from, i, other);                        \
      __VA_ARGS__                                                 \
    }                                                             \
  }
#define LEVEL 64  // vectors that are added up before they go to the sum of all
#else
// Joins the ``one`` of all items of a group, by way of local memory, for all of them.
#define JOIN(one, join)                                           \
  shared[me] = one;                                               \
  for (int reach = GROUP / 2; reach; reach /= 2) {                \
    barrier(CLK_LOCAL_MEM_FENCE);                                 \
    if (me < reach) {                                             \
      const S a = shared[me], b = shared[me + reach];             \
      shared[me] = join;                                          \
    }                                                             \
  }                                                               \
  barrier(CLK_LOCAL_MEM_FENCE);                                   \
  one = shared[0];                                                \
  barrier(CLK_LOCAL_MEM_FENCE);
#endif
