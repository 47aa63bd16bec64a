// For GPUs: concatenate arrays to rows of y, or split rows of y into arrays. The rows of x0
// end at column e0 of y, those of x1 at e1, and so on. Rows of y are y_row apart. Offsets
// have the unsigned type N. An item reads all its elements before it writes.
typedef $type S;
typedef $size L;
typedef $index N;
#define PER_ITEM $each

__kernel GROUPED void $name($arrays, L n, L y_start, L y_row, $ends) {
  const N first = (N)get_group_id(0) * (GROUP * PER_ITEM) + (N)get_local_id(0);
  S value[PER_ITEM];
  __global S *target[PER_ITEM];
  _Pragma("unroll") for (int k = 0; k < PER_ITEM; k++) {
    const N i = min(first + k * GROUP, (N)(n - 1));
    const N row = i / (N)$last, column = i - row * (N)$last;
    __global $part *x = x0;
    N begin = 0, width = (N)e0;
    $choices
    x += row * width + (column - begin);
    __global $whole *all = y + ((N)y_start + row * (N)y_row + column);
    value[k] = *$source;
    target[k] = $target;
  }
  _Pragma("unroll") for (int k = 0; k < PER_ITEM; k++)
    if (first + k * GROUP < (N)n) *target[k] = value[k];
}
