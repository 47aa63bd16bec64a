// Kernels that work on rows. On a CPU, an item computes several rows, in vectors. On a GPU,
// LANES items share a row. They read it once, and each item holds PER elements. If a row is
// too long for that, PER is 0, and the items read the row again in each step. FUSED kernels
// are regions on a GPU: PROLOGUE computes the held elements, EPILOGUE uses the result.
typedef $type S;
typedef S Y;
VECTOR(T, S);
VECTOR(I, $integer);
$functions
#define LEVEL 64  // additions to a partial sum before it is added to the total

#if CPU
// The last elements of a row, which do not fill a vector; the rest of the vector is ``other``.
static inline T partial_vector(__global const S *restrict x, long i, long n, S other) {
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
  (whole ? *(__global const T *)(from + i) : partial_vector(from, i, n, other))
// Run the statements for all vectors of a row; the last one is filled up with ``other``.
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
#else
// The row of an item, and its lane in the row. Items beyond the last row have a row without
// elements, because all items of a group must reach the barriers.
#define PLACE                                                     \
  __local S shared[3][GROUP];                                     \
  const int me = get_local_id(0), lane = me % LANES;              \
  const long row = get_group_id(0) * (long)(GROUP / LANES) + me / LANES; \
  const N count = row < rows ? n : 0;

#if PER
typedef int N;
#define UNROLLED(k, by) _Pragma("unroll") for (int k = 0; k < PER; k += by)
#define ELEMENT(k) ((k / VEC * LANES + lane) * VEC + k % VEC)  // of e[k], in the row
#if VEC == 1
#define READ(e, k, from, i) e[k] = from[i];
#define WRITE(to, i, e, k) to[i] = e[k];
#elif VEC == 2
typedef $vector V;  // VEC divides the length of rows, so that vectors are aligned
#define READ(e, k, from, i)                                       \
  const V v = *(__global const V *)(from + i);                    \
  e[k] = v.s0, e[k + 1] = v.s1;
#define WRITE(to, i, e, k) *(__global V *)(to + i) = (V)(e[k], e[k + 1]);
#else
typedef $vector V;
#define READ(e, k, from, i)                                       \
  const V v = *(__global const V *)(from + i);                    \
  e[k] = v.s0, e[k + 1] = v.s1, e[k + 2] = v.s2, e[k + 3] = v.s3;
#define WRITE(to, i, e, k)                                        \
  *(__global V *)(to + i) = (V)(e[k], e[k + 1], e[k + 2], e[k + 3]);
#endif
#if FUSED
$steps
#define AT_ROW(x)
#define HOLD(e, from)
#define PUT_ROW(e, to, value)                                     \
  UNROLLED(k, 1) e[k] = value;                                    \
  EPILOGUE(e)
#else
#define PROLOGUE
#define AT_ROW(x) x += row * n;
// Read the elements of an item into ``e``. OF(e, from) is e[k].
#define HOLD(e, from)                                             \
  S e[PER];                                                       \
  UNROLLED(k, 1) e[k] = 0;                                        \
  UNROLLED(k, VEC) {                                              \
    const int i = ELEMENT(k);                                     \
    if (i < count) {                                              \
      READ(e, k, from, i)                                         \
    }                                                             \
  }
#define PUT_ROW(e, to, value)                                     \
  UNROLLED(k, 1) e[k] = value;                                    \
  UNROLLED(k, VEC) {                                              \
    const int i = ELEMENT(k);                                     \
    if (i < count) {                                              \
      WRITE(to, i, e, k)                                          \
    }                                                             \
  }
#endif
#define OF(e, from) e[k]
#define KEEP(e, value) (e[k] = (value))  // AGAIN reads this value later
#define AGAIN(e, value) e[k]
#define EACH(...)                                                 \
  UNROLLED(k, 1) {                                                \
    const int i = ELEMENT(k);                                     \
    if (i < count) {                                              \
      __VA_ARGS__                                                 \
    }                                                             \
  }
#define SUM(total, value) EACH(total += value;)
#else
typedef long N;
#define PROLOGUE
#define AT_ROW(x) x += row * n;
#define HOLD(e, from)
#define OF(e, from) from[i]
#define KEEP(e, value) (value)
#define AGAIN(e, value) (value)
#define EACH(...) for (long i = lane; i < count; i += LANES) { __VA_ARGS__ }
#define SUM(total, value)                                         \
  for (long i = lane; i < count;) {                               \
    const long stop = min(count, i + (long)LEVEL * LANES);        \
    S some = 0;                                                   \
    for (; i < stop; i += LANES) some += value;                   \
    total += some;                                                \
  }
#define PUT_ROW(e, to, value) EACH(to[i] = value;)
#endif

// A tree in local memory, which joins four values at a time, because each step needs a
// barrier. All items run ``first``, ``step`` joins the value at ``from``, and ``last``
// reads the result at ``root``.
#define TREE(first, step, last)                                   \
  {                                                               \
    first;                                                        \
    for (int reach = LANES; reach > 1;) {                         \
      const int next = reach >= 4 ? reach / 4 : 1;                \
      barrier(CLK_LOCAL_MEM_FENCE);                               \
      if (lane < next)                                            \
        for (int from = me + next; from < me - lane + reach; from += next) step; \
      reach = next;                                               \
    }                                                             \
    barrier(CLK_LOCAL_MEM_FENCE);                                 \
    const int root = me - lane;                                   \
    last;                                                         \
  }
// Join the values ``one`` of all items of a row; all items get the result. Consecutive
// calls need different slots, so that no item writes where another item still reads.
#define JOIN(slot, one, join)                                     \
  TREE(shared[slot][me] = one,                                    \
       {                                                          \
         const S a = shared[slot][me];                            \
         const S b = shared[slot][from];                          \
         shared[slot][me] = join;                                 \
       },                                                         \
       one = shared[slot][root])
// Add up two values at once.
#define JOIN_SUMS(slot, one, other_slot, other)                   \
  TREE((shared[slot][me] = one, shared[other_slot][me] = other),  \
       {                                                          \
         shared[slot][me] += shared[slot][from];                  \
         shared[other_slot][me] += shared[other_slot][from];      \
       },                                                         \
       (one = shared[slot][root], other = shared[other_slot][root]))
#endif
