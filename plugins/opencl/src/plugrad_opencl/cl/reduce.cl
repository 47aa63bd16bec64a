// y[a, part, m] = reduction of x[a, n, m] over one of the parts of n. x is an array, or
// what a region computes of some. DONE0 is what becomes of a result before it is written.
// CPU: MANY_AT and ONE_AT are the elements from a place on; START changes nothing, join
// combines two. GPU: there may be several reductions at once, and G has a value of each;
// ELEMENT(row, i, j) is the one of x[row, i, j].
typedef $type S;
VECTOR(T, S);
$functions

#define EACH _Pragma("unroll") for
#define MANY 8  // vectors side by side
#define LEVEL 64  // steps that are added up before they go to the sum of all
#define AHEAD 4  // elements that an item of a GPU reads before it combines them

__kernel GROUPED void reduce($arguments, $results, long a, long n, long m, long parts) {
#if CPU
  const long columns = (m + STRIP - 1) / STRIP;
  const long item = get_global_id(0), strip = item % columns;
  const long part = item / columns % parts, row = item / columns / parts;
  const long begin = n * part / parts, end = n * (part + 1) / parts;
  const long first = strip * STRIP, last = min(first + STRIP, m);
  __global S *restrict to = y0 + (row * parts + part) * m;
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
  to[0] = DONE0(one);
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
    EACH(int v = 0; v < MANY; v++) *(__global T *)(to + j + v * WIDTH) = DONE0(total[v]);
  }
  for (; j + WIDTH <= last; j += WIDTH) {
    T total = (T)(START);
    for (long i = begin; i < end;) {
      const long stop = min(end, i + LEVEL);
      T some = (T)(START);
      for (; i < stop; i++) some = join(some, MANY_AT(from + i * m + j));
      total = join(total, some);
    }
    *(__global T *)(to + j) = DONE0(total);
  }
  for (; j < last; j++) {
    T total = (T)(START);
    for (long i = begin; i < end;) {
      const long stop = min(end, i + LEVEL);
      T some = (T)(START);
      for (; i < stop; i++) some = join(some, (T)(ONE_AT(from + i * m + j)));
      total = join(total, some);
    }
    to[j] = DONE0(FIRST(total));
  }
#endif
#else
// LINES items of a work group compute a result: each combines every LINES-th element, and
// a tree in local memory combines what they have. Items side by side read elements that
// lie side by side: of one result if m is 1, else of several.
#define RESULTS (GROUP / LINES)
  __local G shared[GROUP];
  const int me = get_local_id(0);
#if ROWS
#define STEP 1
  const int line = me % LINES;
  const long place = (long)get_group_id(0) * RESULTS + me / LINES, j = 0;
  const long part = place % parts, row = place / parts;
  const int inside = place < a * parts;
#else
#define STEP RESULTS
  const int line = me / RESULTS;
  const long strips = (m + RESULTS - 1) / RESULTS, item = get_group_id(0);
  const long part = item / strips % parts, row = item / strips / parts;
  const long j = item % strips * RESULTS + me % RESULTS;
  const long place = (row * parts + part) * m + j;
  const int inside = j < m;
#endif
  const long begin = n * part / parts, end = inside ? n * (part + 1) / parts : begin;
  G total = start();
  for (long i = begin + line; i < end;) {
    const long stop = min(end, i + (long)LEVEL * LINES);
    G some = start();
    for (; i + (AHEAD - 1) * LINES < stop; i += AHEAD * LINES) {
      G next[AHEAD];
      EACH(int k = 0; k < AHEAD; k++) next[k] = ELEMENT(row, i + k * LINES, j);
      EACH(int k = 0; k < AHEAD; k++) some = join(some, next[k]);
    }
    for (; i < stop; i += LINES) some = join(some, ELEMENT(row, i, j));
    total = join(total, some);
  }
  shared[me] = total;
  for (int reach = LINES; reach > 1;) {  // four at a time, as each step is a barrier
    const int next = reach >= 4 ? reach / 4 : 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (line < next) {
      for (int k = next; k < reach; k += next) total = join(total, shared[me + k * STEP]);
      shared[me] = total;
    }
    reach = next;
  }
  if (line == 0 && inside) {
    WRITE(place, total)
  }
#endif
}
