// y[a, part, m] = reduction of x[a, n, m] over one of the parts of n. x is an array, or a
// region computes its elements. DONE0 is applied to a result before it is written.
// CPU: VECTOR_AT and SCALAR_AT read a vector and a scalar at an offset. START is the
// identity, and `join` combines two values.
// GPU: several reductions may be computed at once, and G is a struct with a value of each.
// ELEMENT(row, i, j) reads the values at x[row, i, j].
typedef $type S;
VECTOR(T, S);
$functions

#define EACH _Pragma("unroll") for
#define VECS 8  // neighboring vectors
#define LEVEL 64  // steps that are combined before they are added to the total
#define AHEAD 4  // elements that an item of a GPU reads before it combines them

__kernel GROUPED void reduce($arguments, $results, long a, long n, long m, long parts) {
#if CPU
  const long columns = (m + STRIP - 1) / STRIP;
  const long item = get_global_id(0), strip = item % columns;
  const long part = item / columns % parts, row = item / columns / parts;
  const long begin = n * part / parts, end = n * (part + 1) / parts;
  const long first = strip * STRIP, last = min(first + STRIP, m);
  __global S *restrict to = y0 + (row * parts + part) * m;
#if ROWS  // m is 1: reduce neighbors
  const long from = row * n;
  T total = (T)(START);
  long i = begin;
  while (i + 4 * WIDTH <= end) {
    const long stop = min(end - 4 * WIDTH + 1, i + (long)LEVEL * 4 * WIDTH);
    T run[4];
    EACH(int v = 0; v < 4; v++) run[v] = (T)(START);
    for (; i < stop; i += 4 * WIDTH)
      EACH(int v = 0; v < 4; v++) run[v] = join(run[v], VECTOR_AT(from + i + v * WIDTH));
    total = join(total, join(join(run[0], run[1]), join(run[2], run[3])));
  }
  for (; i + WIDTH <= end; i += WIDTH) total = join(total, VECTOR_AT(from + i));
  S result = FIRST(total);  // in order, as large elements of both signs may cancel
#if WIDTH > 1
  for (int k = 1; k < WIDTH; k++) result = join_one(result, total[k]);
#endif
  for (; i < end; i++) result = join_one(result, SCALAR_AT(from + i));
  to[0] = DONE0(result);
#else  // reduce elements that are m apart
  const long from = row * n * m;
  long j = first;
  for (; j + VECS * WIDTH <= last; j += VECS * WIDTH) {
    T total[VECS];
    EACH(int v = 0; v < VECS; v++) total[v] = (T)(START);
    for (long i = begin; i < end;) {
      const long stop = min(end, i + LEVEL);
      T run[VECS];
      EACH(int v = 0; v < VECS; v++) run[v] = (T)(START);
      for (; i < stop; i++)
        EACH(int v = 0; v < VECS; v++)
          run[v] = join(run[v], VECTOR_AT(from + i * m + j + v * WIDTH));
      EACH(int v = 0; v < VECS; v++) total[v] = join(total[v], run[v]);
    }
    EACH(int v = 0; v < VECS; v++) *(__global T *)(to + j + v * WIDTH) = DONE0(total[v]);
  }
  for (; j + WIDTH <= last; j += WIDTH) {
    T total = (T)(START);
    for (long i = begin; i < end;) {
      const long stop = min(end, i + LEVEL);
      T run = (T)(START);
      for (; i < stop; i++) run = join(run, VECTOR_AT(from + i * m + j));
      total = join(total, run);
    }
    *(__global T *)(to + j) = DONE0(total);
  }
  for (; j < last; j++) {
    T total = (T)(START);
    for (long i = begin; i < end;) {
      const long stop = min(end, i + LEVEL);
      T run = (T)(START);
      for (; i < stop; i++) run = join(run, (T)(SCALAR_AT(from + i * m + j)));
      total = join(total, run);
    }
    to[j] = DONE0(FIRST(total));
  }
#endif
#else
// LINES items of a work group compute a result. Each item combines every LINES-th element,
// and then a tree in local memory combines the values of the items. Neighboring items read
// neighboring elements: for the same result if m is 1, else for different results.
#define RESULTS (GROUP / LINES)
  __local G shared[GROUP];
  const int me = get_local_id(0);
#if ROWS
#define STEP 1
  const int line = me % LINES;
  const long target = (long)get_group_id(0) * RESULTS + me / LINES, j = 0;
  const long part = target % parts, row = target / parts;
  const int inside = target < a * parts;
#else
#define STEP RESULTS
  const int line = me / RESULTS;
  const long strips = (m + RESULTS - 1) / RESULTS, item = get_group_id(0);
  const long part = item / strips % parts, row = item / strips / parts;
  const long j = item % strips * RESULTS + me % RESULTS;
  const long target = (row * parts + part) * m + j;
  const int inside = j < m;
#endif
  const long begin = n * part / parts, end = inside ? n * (part + 1) / parts : begin;
  G total = start();
  for (long i = begin + line; i < end;) {
    const long stop = min(end, i + (long)LEVEL * LINES);
    G run = start();
    for (; i + (AHEAD - 1) * LINES < stop; i += AHEAD * LINES) {
      G next[AHEAD];
      EACH(int k = 0; k < AHEAD; k++) next[k] = ELEMENT(row, i + k * LINES, j);
      EACH(int k = 0; k < AHEAD; k++) run = join(run, next[k]);
    }
    for (; i < stop; i += LINES) run = join(run, ELEMENT(row, i, j));
    total = join(total, run);
  }
  shared[me] = total;
  for (int reach = LINES; reach > 1;) {  // four at a time: fewer barriers
    const int next = reach >= 4 ? reach / 4 : 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (line < next) {
      for (int k = next; k < reach; k += next) total = join(total, shared[me + k * STEP]);
      shared[me] = total;
    }
    reach = next;
  }
  if (line == 0 && inside) {
    WRITE(target, total)
  }
#endif
}
