// y[b, i, j, c] is interpolated between the pixels before and after its position, or with
// NEAREST read from one pixel. On a CPU, an item computes a row of y.
typedef $type S;
VECTOR(T, S);
#define LOAD(x) (*(__global const T *)(x))

__kernel GROUPED void resize(__global const S *restrict x, __global S *restrict y,
                             __global const int *restrict top,
                             __global const int *restrict bottom,
                             __global const S *restrict down,
                             __global const int *restrict left,
                             __global const int *restrict right,
                             __global const S *restrict across, long rows, long h, long w,
                             long height, long width, long channels) {
  const long item = get_global_id(0);
#if CPU
  const long row = item;
  for (long j = 0; j < width; j++)
    for (long v = 0; v < channels; v += WIDTH) {
      const long c = min(v, channels - WIDTH);
#else
  const long c = item % channels, j = item / channels % width;
  const long row = item / channels / width;
  if (row < rows) {
    {
#endif
      const long i = row % height;
      __global const S *restrict from = x + row / height * h * w * channels + c;
      __global const S *restrict above = from + (top[i] * w + left[j]) * channels;
      T value = LOAD(above);
#if !NEAREST
      const long to_right = (right[j] - left[j]) * channels;
      const long to_bottom = (bottom[i] - top[i]) * w * channels;
      const T near = value * (1 - down[i]) + LOAD(above + to_bottom) * down[i];
      const T far = LOAD(above + to_right) * (1 - down[i]) +
                    LOAD(above + to_right + to_bottom) * down[i];
      value = near * (1 - across[j]) + far * across[j];
#endif
      *(__global T *)(y + (row * width + j) * channels + c) = value;
    }
#if !CPU
  }
#endif
}
