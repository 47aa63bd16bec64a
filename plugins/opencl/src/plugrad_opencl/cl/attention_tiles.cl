// Attention on a GPU. All heads of a group share keys and values, so their queries are the
// rows of one matrix. A work group computes ROWS rows in one pass over blocks of KEYS keys:
// each block updates the maximum, the sum of exponentials and the weighted sum of each row,
// so the scores are never in global memory.
//
// A key has SIZE elements, a value VALUE elements. An item computes the scores of one key
// for SHARE rows, and COLUMNS elements of the weighted sums of all rows.
typedef float S;
typedef S Y;
VECTOR(T, S);
VECTOR(I, int);
$functions

$parts
#define SHARE (ROWS * KEYS / GROUP)
#define COLUMNS ((VALUE + GROUP - 1) / GROUP)
#define ITEMS_OF_ROW (GROUP / ROWS)
#define PITCH ((SIZE > VALUE ? SIZE : VALUE) + 1)  // odd: neighbors use other banks

__kernel GROUPED void attend_tiles(__global const float *restrict q,
                                   __global const float *restrict k,
                                   __global const float *restrict v,
                                   __global const $mask *restrict mask,
                                   __global const int *restrict lengths,
                                   __global float *restrict y, long heads, long groups,
                                   long queries, long keys, long of_batch, long of_head,
                                   long of_query, float scale) {
  __local float own[ROWS * SIZE], tile[KEYS * PITCH], p[ROWS * KEYS];
  __local float parts[GROUP], peaks[ROWS], ratios[ROWS], totals[ROWS];
  const long rows = heads / groups * queries, blocks = (rows + ROWS - 1) / ROWS;
  const long item = get_group_id(0), first = item % blocks * ROWS, group = item / blocks;
  const long batch = group / groups, head = group % groups * (heads / groups);
  const long length = filled(lengths, batch, keys);
  const int me = get_local_id(0), key = me % KEYS, above = me / KEYS * SHARE;
  const int row = me / ITEMS_OF_ROW, member = me % ITEMS_OF_ROW;
  const long start = (batch * heads + head) * queries + first;

  fetch(own, q + start * SIZE, rows - first, SIZE, ROWS, SIZE);
  if (me < ROWS) peaks[me] = -INFINITY, totals[me] = 0;
  long limit = 0;  // of all rows
  for (int r = 0; r < ROWS; r++) limit = max(limit, keys_of(first + r, rows, queries, length));
  float sums[COLUMNS][ROWS];
  EACH(int c = 0; c < COLUMNS; c++) EACH(int r = 0; r < ROWS; r++) sums[c][r] = 0;

  for (long from = 0; from < limit; from += KEYS) {
    barrier(CLK_LOCAL_MEM_FENCE);
    fetch(tile, k + (group * keys + from) * SIZE, limit - from, SIZE, KEYS, PITCH);
    barrier(CLK_LOCAL_MEM_FENCE);
    float scores[SHARE];
    EACH(int r = 0; r < SHARE; r++) scores[r] = 0;
    for (int i = 0; i < SIZE; i++) {
      const float x = tile[key * PITCH + i];
      EACH(int r = 0; r < SHARE; r++)
        scores[r] = fma(own[(above + r) * SIZE + i], x, scores[r]);
    }
    for (int r = 0; r < SHARE; r++) {
      const long at = first + above + r;
      const long place = batch * of_batch + (head + at / queries) * of_head +
                         at % queries * of_query + from + key;
      const bool is_read = from + key < keys_of(at, rows, queries, length);
      const float score = is_read ? masked(scores[r] * scale, mask, place) : -INFINITY;
      p[(above + r) * KEYS + key] = score;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // The items of a row share its scores.
    float largest = -INFINITY;
    for (int j = member; j < KEYS; j += ITEMS_OF_ROW) largest = fmax(largest, p[row * KEYS + j]);
    parts[me] = largest;
    fetch(tile, v + (group * keys + from) * VALUE, limit - from, VALUE, KEYS, PITCH);
    barrier(CLK_LOCAL_MEM_FENCE);
    const float peak = peaks[row];
    largest = peak;
    for (int m = 0; m < ITEMS_OF_ROW; m++)
      largest = fmax(largest, parts[row * ITEMS_OF_ROW + m]);
    const float shift = largest == -INFINITY ? 0 : largest;
    float part = 0;
    for (int j = member; j < KEYS; j += ITEMS_OF_ROW) {
      const float e = f_exp(p[row * KEYS + j] - shift);
      p[row * KEYS + j] = e;
      part += e;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    parts[me] = part;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (member == 0) {
      const float ratio = peak == -INFINITY ? 0 : f_exp(peak - shift);
      float total = totals[row] * ratio;
      for (int m = 0; m < ITEMS_OF_ROW; m++) total += parts[row * ITEMS_OF_ROW + m];
      totals[row] = total, ratios[row] = ratio, peaks[row] = largest;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    EACH(int c = 0; c < COLUMNS; c++) {
      const int column = me + c * GROUP;
      if (column >= VALUE) continue;
      EACH(int r = 0; r < ROWS; r++) sums[c][r] *= ratios[r];
      for (int j = 0; j < KEYS; j++) {
        const float x = tile[j * PITCH + column];
        EACH(int r = 0; r < ROWS; r++) sums[c][r] = fma(p[r * KEYS + j], x, sums[c][r]);
      }
    }
  }
  EACH(int c = 0; c < COLUMNS; c++) {
    const int column = me + c * GROUP;
    if (column >= VALUE) continue;
    for (int r = 0; r < ROWS && first + r < rows; r++) {
      const float total = limit ? totals[r] : 0;
      y[(start + r) * VALUE + column] = total == 0 ? 0 : sums[c][r] / total;
    }
  }
}
