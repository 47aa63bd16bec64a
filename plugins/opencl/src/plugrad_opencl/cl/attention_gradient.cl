// The gradient of attention on a GPU, in two launches. All heads of a group share keys and
// values, so their queries are the rows of one matrix. A tile is the scores of ROWS rows
// for KEYS keys; it is computed three times, so that scores are never in global memory.
//
// A key has SIZE elements, a value VALUE elements. An item computes the scores of one key
// for SHARE rows.
typedef float S;
typedef S Y;
VECTOR(T, S);
VECTOR(I, int);
$functions

$parts
#define SHARE (ROWS * KEYS / GROUP)
#define ITEMS_OF_ROW (GROUP / ROWS)
#define COLUMNS(size) ((size + GROUP - 1) / GROUP)
#define K_PITCH (SIZE + 1)
#define V_PITCH (VALUE + 1)
#define STATISTICS 3  // of a row: its largest score, 1 / sum of exponentials, sum of p dp

// The scores of SHARE rows for a key, and the products of dy and its value.
static inline void multiply(__local const float *own, __local const float *given,
                            __local const float *k, __local const float *v, float *scores,
                            float *products) {
  EACH(int r = 0; r < SHARE; r++) scores[r] = products[r] = 0;
  for (int i = 0; i < SIZE; i++) {
    const float x = k[i];
    EACH(int r = 0; r < SHARE; r++) scores[r] = fma(own[r * SIZE + i], x, scores[r]);
  }
  for (int i = 0; i < VALUE; i++) {
    const float x = v[i];
    EACH(int r = 0; r < SHARE; r++) products[r] = fma(given[r * VALUE + i], x, products[r]);
  }
}

// Applies scale and mask to the scores of a key. The first row of the tile is `first`.
#define MASK_SCORES                                                                        \
  for (int r = 0; r < SHARE; r++) {                                                        \
    const long at = first + above + r;                                                     \
    const long place = batch * of_batch + (head + at / queries) * of_head +                \
                       at % queries * of_query + from + key;                               \
    const bool is_read = from + key < keys_of(at, rows, queries, length);                  \
    scores[r] = is_read ? masked(scores[r] * scale, mask, place) : -INFINITY;              \
  }

// Computes dq of ROWS rows, and the statistics of these rows.
__kernel GROUPED void attend_back_rows(
    __global const float *restrict dy, __global const float *restrict q,
    __global const float *restrict k, __global const float *restrict v,
    __global const $mask *restrict mask, __global const int *restrict lengths,
    __global float *restrict dq, __global float *restrict statistics, long heads, long groups,
    long queries, long keys, long of_batch, long of_head, long of_query, float scale) {
  __local float own[ROWS * SIZE], given[ROWS * VALUE];
  __local float tile[KEYS * K_PITCH], values[KEYS * V_PITCH];
  __local float p[ROWS * KEYS], dp[ROWS * KEYS], parts[GROUP], others[GROUP];
  __local float peaks[ROWS], totals[ROWS], means[ROWS];
  const long rows = heads / groups * queries, blocks = (rows + ROWS - 1) / ROWS;
  const long item = get_group_id(0), first = item % blocks * ROWS, group = item / blocks;
  const long batch = group / groups, head = group % groups * (heads / groups);
  const long length = filled(lengths, batch, keys);
  const int me = get_local_id(0), key = me % KEYS, above = me / KEYS * SHARE;
  const int row = me / ITEMS_OF_ROW, member = me % ITEMS_OF_ROW;
  const long start = (batch * heads + head) * queries + first;

  fetch(own, q + start * SIZE, rows - first, SIZE, ROWS, SIZE);
  fetch(given, dy + start * VALUE, rows - first, VALUE, ROWS, VALUE);
  if (me < ROWS) peaks[me] = -INFINITY, totals[me] = means[me] = 0;
  long limit = 0;  // of all rows
  for (int r = 0; r < ROWS; r++) limit = max(limit, keys_of(first + r, rows, queries, length));
  float scores[SHARE], products[SHARE];

  for (long from = 0; from < limit; from += KEYS) {
    barrier(CLK_LOCAL_MEM_FENCE);
    fetch(tile, k + (group * keys + from) * SIZE, limit - from, SIZE, KEYS, K_PITCH);
    fetch(values, v + (group * keys + from) * VALUE, limit - from, VALUE, KEYS, V_PITCH);
    barrier(CLK_LOCAL_MEM_FENCE);
    multiply(own + above * SIZE, given + above * VALUE, tile + key * K_PITCH,
             values + key * V_PITCH, scores, products);
    MASK_SCORES
    for (int r = 0; r < SHARE; r++) {
      p[(above + r) * KEYS + key] = scores[r];
      dp[(above + r) * KEYS + key] = products[r];
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // The items of a row share its scores.
    float largest = -INFINITY;
    for (int j = member; j < KEYS; j += ITEMS_OF_ROW) largest = fmax(largest, p[row * KEYS + j]);
    parts[me] = largest;
    barrier(CLK_LOCAL_MEM_FENCE);
    const float peak = peaks[row];
    largest = peak;
    for (int m = 0; m < ITEMS_OF_ROW; m++)
      largest = fmax(largest, parts[row * ITEMS_OF_ROW + m]);
    const float shift = largest == -INFINITY ? 0 : largest;
    float total = 0, mean = 0;
    for (int j = member; j < KEYS; j += ITEMS_OF_ROW) {
      const float e = f_exp(p[row * KEYS + j] - shift);
      total += e;
      mean = fma(e, dp[row * KEYS + j], mean);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    parts[me] = total, others[me] = mean;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (member == 0) {
      const float ratio = peak == -INFINITY ? 0 : f_exp(peak - shift);
      total = totals[row] * ratio, mean = means[row] * ratio;
      for (int m = 0; m < ITEMS_OF_ROW; m++) {
        total += parts[row * ITEMS_OF_ROW + m];
        mean += others[row * ITEMS_OF_ROW + m];
      }
      totals[row] = total, means[row] = mean, peaks[row] = largest;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (me < ROWS) {
    const float by = totals[me] == 0 ? 0 : 1 / totals[me];
    const float peak = peaks[me] == -INFINITY ? 0 : peaks[me];
    totals[me] = by, means[me] *= by, peaks[me] = peak;
    if (first + me < rows) {
      __global float *to = statistics + (start + me) * STATISTICS;
      to[0] = peak, to[1] = by, to[2] = means[me];
    }
  }

  float sums[COLUMNS(SIZE)][ROWS];
  EACH(int c = 0; c < COLUMNS(SIZE); c++) EACH(int r = 0; r < ROWS; r++) sums[c][r] = 0;
  for (long from = 0; from < limit; from += KEYS) {
    barrier(CLK_LOCAL_MEM_FENCE);
    fetch(tile, k + (group * keys + from) * SIZE, limit - from, SIZE, KEYS, K_PITCH);
    fetch(values, v + (group * keys + from) * VALUE, limit - from, VALUE, KEYS, V_PITCH);
    barrier(CLK_LOCAL_MEM_FENCE);
    multiply(own + above * SIZE, given + above * VALUE, tile + key * K_PITCH,
             values + key * V_PITCH, scores, products);
    MASK_SCORES
    for (int r = 0; r < SHARE; r++) {
      const int at = above + r;
      const float weight = f_exp(scores[r] - peaks[at]) * totals[at];
      p[at * KEYS + key] = weight * (products[r] - means[at]) * scale;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    EACH(int c = 0; c < COLUMNS(SIZE); c++) {
      const int column = me + c * GROUP;
      if (column >= SIZE) continue;
      for (int j = 0; j < KEYS; j++) {
        const float x = tile[j * K_PITCH + column];
        EACH(int r = 0; r < ROWS; r++) sums[c][r] = fma(p[r * KEYS + j], x, sums[c][r]);
      }
    }
  }
  EACH(int c = 0; c < COLUMNS(SIZE); c++) {
    const int column = me + c * GROUP;
    if (column >= SIZE) continue;
    for (int r = 0; r < ROWS && first + r < rows; r++)
      dq[(start + r) * SIZE + column] = sums[c][r];
  }
}

// Computes dk and dv of KEYS keys, from the statistics of all rows.
__kernel GROUPED void attend_back_keys(
    __global const float *restrict dy, __global const float *restrict q,
    __global const float *restrict k, __global const float *restrict v,
    __global const $mask *restrict mask, __global const int *restrict lengths,
    __global const float *restrict statistics, __global float *restrict dk,
    __global float *restrict dv, long heads, long groups, long queries, long keys,
    long of_batch, long of_head, long of_query, float scale) {
  __local float own[ROWS * SIZE], given[ROWS * VALUE];
  __local float tile[KEYS * K_PITCH], values[KEYS * V_PITCH];
  __local float p[ROWS * KEYS], ds[ROWS * KEYS];
  const long rows = heads / groups * queries, blocks = (keys + KEYS - 1) / KEYS;
  const long item = get_group_id(0), from = item % blocks * KEYS, group = item / blocks;
  const long batch = group / groups, head = group % groups * (heads / groups);
  const long length = filled(lengths, batch, keys);
  const int me = get_local_id(0), key = me % KEYS, above = me / KEYS * SHARE;
  const long start = (batch * heads + head) * queries;

  fetch(tile, k + (group * keys + from) * SIZE, length - from, SIZE, KEYS, K_PITCH);
  fetch(values, v + (group * keys + from) * VALUE, length - from, VALUE, KEYS, V_PITCH);
  float k_sums[COLUMNS(SIZE)][KEYS], v_sums[COLUMNS(VALUE)][KEYS];
  EACH(int c = 0; c < COLUMNS(SIZE); c++) EACH(int j = 0; j < KEYS; j++) k_sums[c][j] = 0;
  EACH(int c = 0; c < COLUMNS(VALUE); c++) EACH(int j = 0; j < KEYS; j++) v_sums[c][j] = 0;

  for (long first = 0; first < rows; first += ROWS) {
    long limit = 0;
    for (int r = 0; r < ROWS; r++)
      limit = max(limit, keys_of(first + r, rows, queries, length));
    if (limit <= from) continue;  // the same for all items
    barrier(CLK_LOCAL_MEM_FENCE);
    fetch(own, q + (start + first) * SIZE, rows - first, SIZE, ROWS, SIZE);
    fetch(given, dy + (start + first) * VALUE, rows - first, VALUE, ROWS, VALUE);
    barrier(CLK_LOCAL_MEM_FENCE);
    float scores[SHARE], products[SHARE];
    multiply(own + above * SIZE, given + above * VALUE, tile + key * K_PITCH,
             values + key * V_PITCH, scores, products);
    MASK_SCORES
    for (int r = 0; r < SHARE; r++) {
      const int at = above + r;
      float weight = 0, slope = 0;
      if (first + at < rows) {
        __global const float *of = statistics + (start + first + at) * STATISTICS;
        weight = f_exp(scores[r] - of[0]) * of[1];
        slope = weight * (products[r] - of[2]) * scale;
      }
      p[at * KEYS + key] = weight, ds[at * KEYS + key] = slope;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    EACH(int c = 0; c < COLUMNS(SIZE); c++) {
      const int column = me + c * GROUP;
      if (column >= SIZE) continue;
      for (int r = 0; r < ROWS; r++) {
        const float x = own[r * SIZE + column];
        EACH(int j = 0; j < KEYS; j++) k_sums[c][j] = fma(ds[r * KEYS + j], x, k_sums[c][j]);
      }
    }
    EACH(int c = 0; c < COLUMNS(VALUE); c++) {
      const int column = me + c * GROUP;
      if (column >= VALUE) continue;
      for (int r = 0; r < ROWS; r++) {
        const float x = given[r * VALUE + column];
        EACH(int j = 0; j < KEYS; j++) v_sums[c][j] = fma(p[r * KEYS + j], x, v_sums[c][j]);
      }
    }
  }
  EACH(int c = 0; c < COLUMNS(SIZE); c++) {
    const int column = me + c * GROUP;
    for (int j = 0; j < KEYS && column < SIZE && from + j < keys; j++)
      dk[(group * keys + from + j) * SIZE + column] = k_sums[c][j];
  }
  EACH(int c = 0; c < COLUMNS(VALUE); c++) {
    const int column = me + c * GROUP;
    for (int j = 0; j < KEYS && column < VALUE && from + j < keys; j++)
      dv[(group * keys + from + j) * VALUE + column] = v_sums[c][j];
  }
}
