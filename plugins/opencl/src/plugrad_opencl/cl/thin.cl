// y = finish(a b + bias) for few rows, on a GPU. It takes as long as reading b once. An item
// holds M rows of WIDE columns, or of WIDE steps along k, in registers.
//
// With DOTS, the columns of b are contiguous, and LANES items share a column. Else the rows
// of b are contiguous: a group computes LANES times WIDE columns, and its items share the
// steps along k. In both cases, a tree adds the sums of the items.
typedef $type S;
VECTOR(T, S);
VECTOR(I, $integer);
typedef $vector Four;
$reading
$functions
static inline S product(S a, S b, S sum) { return $product; }
static inline S finish(S y, $real alpha) { return $finish; }

#define EACH _Pragma("unroll") for
#define LINES (GROUP / LANES)
#define AHEAD 4   // loads of b that are in flight
#define LEVEL 64  // steps that are added up before they are added to the total
#define STRIDE (DOTS ? LANES * WIDE : LINES)  // along k, from one step to the next

static inline void split(Four four, S *restrict to) {
  to[0] = four.s0, to[1] = four.s1, to[2] = four.s2, to[3] = four.s3;
}
static inline void load(__global const B *restrict from, S *restrict to) {
#if WIDE == 4
  split(READ4(from), to);
#else
  to[0] = READ1(from);
#endif
}

__kernel GROUPED void thin(__global const S *restrict a, __global const B *restrict b,
                           __global S *restrict y, __global const S *restrict bias, long n,
                           long k, long parts, long a_batch, long a_row, long a_step,
                           long b_batch, long b_row, long b_step, long y_part,
                           $real alpha) {
  __local S shared[WIDE][GROUP];
  const long across = DOTS ? LINES : LANES * WIDE;  // columns of a group
  const long strips = (n + across - 1) / across, item = get_group_id(0);
  const long strip = item % strips, part = item / strips % parts, z = item / strips / parts;
  const int me = get_local_id(0), lane = me % LANES, line = me / LANES;
  const long steps = (k + STRIDE - 1) / STRIDE;
  const long begin = steps * part / parts * STRIDE;
  const long end = min(k, steps * (part + 1) / parts * STRIDE);
  const long column = strip * across + (DOTS ? line : lane * WIDE);
  const int inside = column < n;
  a += z * a_batch;
  b += z * b_batch + (inside ? column : 0) * b_step;

  S total[M][WIDE];
  EACH(int i = 0; i < M; i++) EACH(int v = 0; v < WIDE; v++) total[i][v] = (S)(0);
  for (long l = begin + (DOTS ? lane * WIDE : line); l < end;) {
    S chunk[M][WIDE];
    EACH(int i = 0; i < M; i++) EACH(int v = 0; v < WIDE; v++) chunk[i][v] = (S)(0);
    for (int level = 0; level < LEVEL && l < end; level += AHEAD) {
      S w[AHEAD][WIDE];
      EACH(int s = 0; s < AHEAD; s++)
        load(b + min(l + s * STRIDE, k - (DOTS ? WIDE : 1)) * b_row, w[s]);
      EACH(int s = 0; s < AHEAD; s++, l += STRIDE) {
        if (l >= end) continue;
        EACH(int i = 0; i < M; i++) {
          S x[WIDE];
#if DOTS && ROWS_CONTIGUOUS
          split(*(__global const Four *)(a + i * a_row + l), x);
#elif DOTS
          EACH(int v = 0; v < WIDE; v++) x[v] = a[i * a_row + (l + v) * a_step];
#else
          x[0] = a[i * a_row + l * a_step];
#endif
          EACH(int v = 0; v < WIDE; v++)
            chunk[i][v] = product(x[DOTS ? v : 0], w[s][v], chunk[i][v]);
        }
      }
    }
    EACH(int i = 0; i < M; i++) EACH(int v = 0; v < WIDE; v++) total[i][v] += chunk[i][v];
  }
  EACH(int i = 0; i < M; i++) {
    EACH(int v = 0; v < WIDE; v++) shared[v][me] = total[i][v];
    // The items that share a column are LANES neighbors, or the lines of a lane.
    for (int reach = (DOTS ? LANES : LINES) / 2; reach; reach /= 2) {
      barrier(CLK_LOCAL_MEM_FENCE);
      if ((DOTS ? lane : line) < reach)
        EACH(int v = 0; v < WIDE; v++)
          shared[v][me] += shared[v][me + reach * (DOTS ? 1 : LANES)];
    }
    if (inside && !(DOTS ? lane : line)) {
      __global S *to = y + part * y_part + (z * M + i) * n + column;
#if DOTS
      S sum = shared[0][me];
      EACH(int v = 1; v < WIDE; v++) sum += shared[v][me];
      to[0] = finish(sum + (BIAS ? bias[column] : (S)(0)), alpha);
#else
      EACH(int v = 0; v < WIDE; v++)
        to[v] = finish(shared[v][me] + (BIAS ? bias[column + v] : (S)(0)), alpha);
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
