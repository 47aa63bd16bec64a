// y[a, part, m] = reduction of x[a, n, m] over one of the parts of n. x is an array, or
// what a region computes of some: MANY_AT and ONE_AT are its elements from a place on.
// ZERO is what changes nothing, JOIN(a, b) puts two together.
typedef $type S;
VECTOR(T, S);
$functions

#define START $zero
static inline T join(T a, T b) { return $join; }
static inline S join_one(S a, S b) { return $join; }
#define EACH _Pragma("unroll") for
#define MANY 8  // vectors side by side
#define LEVEL 64  // steps that are added up before they go to the sum of all

__kernel GROUPED void reduce($arguments, __global S *restrict y, long a, long n, long m,
                             long parts) {
#if CPU
  const long columns = (m + STRIP - 1) / STRIP;
  const long item = get_global_id(0), strip = item % columns;
  const long part = item / columns % parts, row = item / columns / parts;
  const long begin = n * part / parts, end = n * (part + 1) / parts;
  const long first = strip * STRIP, last = min(first + STRIP, m);
  __global S *restrict to = y + (row * parts + part) * m;
#if ROWS  // m is 1: along the elements
  const long from = row * n;
  T total = (T)(START);
  long i = begin;
  while (i + 4 * WIDTH <= end) {
    const long stop = min(end - 4 * WIDTH + 1, i + (long)LEVEL * 4 * WIDTH);
    T some[4];
    EACH(int v = 0; v < 4; v++) some[v] = (T)(START);
    for (; i < stop; i += 4 * WIDTH)
      EACH(int v = 0; v < 4; v++) some[v] = join(some[v], MANY_AT(from + i + v * WIDTH));
    total = join(total, join(join(some[0], some[1]), join(some[2], some[3])));
  }
  for (; i + WIDTH <= end; i += WIDTH) total = join(total, MANY_AT(from + i));
  S one = FIRST(total);  // in order, as what is very large and very small may meet
#if WIDTH > 1
  for (int k = 1; k < WIDTH; k++) one = join_one(one, total[k]);
#endif
  for (; i < end; i++) one = join_one(one, ONE_AT(from + i));
  to[0] = one;
#else  // across them
  const long from = row * n * m;
  long j = first;
  for (; j + MANY * WIDTH <= last; j += MANY * WIDTH) {
    T total[MANY];
    EACH(int v = 0; v < MANY; v++) total[v] = (T)(START);
    for (long i = begin; i < end;) {
      const long stop = min(end, i + LEVEL);
      T some[MANY];
      EACH(int v = 0; v < MANY; v++) some[v] = (T)(START);
      for (; i < stop; i++)
        EACH(int v = 0; v < MANY; v++)
          some[v] = join(some[v], MANY_AT(from + i * m + j + v * WIDTH));
      EACH(int v = 0; v < MANY; v++) total[v] = join(total[v], some[v]);
    }
    EACH(int v = 0; v < MANY; v++) *(__global T *)(to + j + v * WIDTH) = total[v];
  }
  for (; j + WIDTH <= last; j += WIDTH) {
    T total = (T)(START);
    for (long i = begin; i < end;) {
      const long stop = min(end, i + LEVEL);
      T some = (T)(START);
      for (; i < stop; i++) some = join(some, MANY_AT(from + i * m + j));
      total = join(total, some);
    }
    *(__global T *)(to + j) = total;
  }
  for (; j < last; j++) {
    T total = (T)(START);
    for (long i = begin; i < end;) {
      const long stop = min(end, i + LEVEL);
      T some = (T)(START);
      for (; i < stop; i++) some = join(some, (T)(ONE_AT(from + i * m + j)));
      total = join(total, some);
    }
    to[j] = FIRST(total);
  }
#endif
#else
#if ROWS  // a work group a part, and a tree in local memory
  __local S shared[GROUP];
  const long item = get_group_id(0), part = item % parts, row = item / parts;
  const int me = get_local_id(0);
  const long begin = n * part / parts, end = n * (part + 1) / parts;
  S total = START;
  for (long i = begin + me; i < end;) {
    const long stop = min(end, i + (long)LEVEL * GROUP);
    S some = START;
    for (; i < stop; i += GROUP) some = join(some, ONE_AT(row * n + i));
    total = join(total, some);
  }
  shared[me] = total;
  for (int reach = GROUP / 2; reach; reach /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < reach) shared[me] = join(shared[me], shared[me + reach]);
  }
  if (me == 0) y[item] = shared[0];
#else  // a work group does STRIP columns, and some of its items each of them
#define LINES (GROUP / STRIP)
  __local S shared[LINES][STRIP];
  const long strips = (m + STRIP - 1) / STRIP, item = get_group_id(0);
  const long part = item / strips % parts, row = item / strips / parts;
  const int column = get_local_id(0) % STRIP, line = get_local_id(0) / STRIP;
  const long begin = n * part / parts, end = n * (part + 1) / parts;
  const long j = item % strips * STRIP + column, from = row * n * m + j;
  S total = START;
  for (long i = begin + line; j < m && i < end;) {
    const long stop = min(end, i + (long)LEVEL * LINES);
    S some = START;
    for (; i < stop; i += LINES) some = join(some, ONE_AT(from + i * m));
    total = join(total, some);
  }
  shared[line][column] = total;
  for (int reach = LINES / 2; reach; reach /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (line < reach)
      shared[line][column] = join(shared[line][column], shared[line + reach][column]);
  }
  if (line == 0 && j < m) y[(row * parts + part) * m + j] = shared[0][column];
#endif
#endif
}
