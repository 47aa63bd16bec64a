// Windows of up to three axes, channel by channel. On a CPU, an item computes a row of
// outputs, in vectors of channels; the last vector overlaps the one before it. `g` contains
// the sizes of the input, of the output and of a window, the strides, the dilations and the
// padding before the input.
typedef $type S;
VECTOR(T, S);
VECTOR(I, $integer);
VECTOR(N, int);
$functions
static inline T product(T a, T b, T sum) { return $product; }
static inline T finish(T y, $real alpha) { return $finish; }
#define IN(a) g[a]
#define OUT(a) g[3 + a]
#define POSITIONS(a) g[6 + a]
#define STRIDE(a) g[9 + a]
#define DILATION(a) g[12 + a]
#define BEFORE(a) g[15 + a]
#define LOAD(x) (*(__global const T *)(x))

static inline I lanes(int start) {
  I y;
  for (int l = 0; l < WIDTH; l++) LANE(y, l) = start + l;
  return y;
}

// Run the statements for each kernel position that is inside of x: `position` is its
// number, and `p` the index of its element in x.
#define EACH_POSITION(...)                                                     \
  for (int i = 0; i < POSITIONS(0); i++) {                                     \
    const int d = d0 + i * DILATION(0);                                        \
    if ((uint)d >= (uint)IN(0)) continue;                                      \
    for (int j = 0; j < POSITIONS(1); j++) {                                   \
      const int h = h0 + j * DILATION(1);                                      \
      if ((uint)h >= (uint)IN(1)) continue;                                    \
      for (int k = 0; k < POSITIONS(2); k++) {                                 \
        const int w = w0 + k * DILATION(2);                                    \
        if ((uint)w >= (uint)IN(2)) continue;                                  \
        const int position = (i * POSITIONS(1) + j) * POSITIONS(2) + k;        \
        const int p = (d * IN(1) + h) * IN(2) + w;                             \
        const long at = start + (long)p * channels;                            \
        __VA_ARGS__                                                            \
      }                                                                        \
    }                                                                          \
  }

// Compute y[to]: run the code of `start`, then that of `position` for each kernel position
// inside of x, then that of `end` (see windows.py).
static inline void compute_output(
    __global const S *restrict x, __global const S *restrict f, __global S *restrict y,
    __global int *restrict index, __global const S *restrict bias,
    __global const int *restrict g, int channels, int first, long start, long to, int d0,
    int h0, int w0, int c, $real alpha) {
  int count = 0;
  $start
  EACH_POSITION(const T value = LOAD(x + at); count++; $position)
  $end
}

#if CPU
// The same for four outputs at once, whose windows are inside of x along the last axis.
static inline void compute_four(__global const S *restrict x,
                                __global const S *restrict f, __global S *restrict y,
                                __global const S *restrict bias,
                                __global const int *restrict g, int channels, long start,
                                long to, int d0, int h0, int w0, int c, $real alpha) {
  const long across = (long)STRIDE(2) * channels, next = (long)DILATION(2) * channels;
  T total[4];
  for (int q = 0; q < 4; q++) total[q] = $zero;
  for (int i = 0; i < POSITIONS(0); i++) {
    const int d = d0 + i * DILATION(0);
    if ((uint)d >= (uint)IN(0)) continue;
    for (int j = 0; j < POSITIONS(1); j++) {
      const int h = h0 + j * DILATION(1);
      if ((uint)h >= (uint)IN(1)) continue;
      __global const S *from = x + start + (((long)d * IN(1) + h) * IN(2) + w0) * channels;
      __global const S *with = f + (long)(i * POSITIONS(1) + j) * POSITIONS(2) * channels + c;
      for (int k = 0; k < POSITIONS(2); k++, from += next, with += channels) {
        const T factor = LOAD(with);
        _Pragma("unroll") for (int q = 0; q < 4; q++)
          total[q] = product(LOAD(from + q * across), factor, total[q]);
      }
    }
  }
  _Pragma("unroll") for (int q = 0; q < 4; q++)
    *(__global T *)(y + to + q * channels) = finish(total[q], alpha);
}
#endif

__kernel GROUPED void window(__global const S *restrict x, __global const S *restrict f,
                             __global S *restrict y, __global int *restrict index,
                             __global const S *restrict bias,
                             __global const int *restrict g, int batch, int channels,
                             int counts, $real alpha) {
  const long item = get_global_id(0);
#if CPU
  const long row = item;
#else
  const int c = item % channels, w = item / channels % OUT(2);
  const long row = item / channels / OUT(2);
  if (row >= (long)batch * OUT(0) * OUT(1)) return;
#endif
  const int h = row % OUT(1), d = row / OUT(1) % OUT(0), n = row / OUT(1) / OUT(0);
  const int area = IN(0) * IN(1) * IN(2), first = counts ? n * area : 0;
  const long image = (long)n * area * channels, line = row * OUT(2) * channels;
  const int d0 = d * STRIDE(0) - BEFORE(0), h0 = h * STRIDE(1) - BEFORE(1);
#if CPU
  for (int v = 0; v < channels; v += WIDTH) {
    const int c = min(v, channels - WIDTH), reach = (POSITIONS(2) - 1) * DILATION(2);
    for (int w = 0; w < OUT(2); w++) {
      const long to = line + (long)w * channels + c;
      const int w0 = w * STRIDE(2) - BEFORE(2);
#if FOUR
      if (w0 >= 0 && w + 4 <= OUT(2) && w0 + 3 * STRIDE(2) + reach < IN(2)) {
        compute_four(x, f, y, bias, g, channels, image + c, to, d0, h0, w0, c, alpha);
        w += 3;
        continue;
      }
#endif
      compute_output(x, f, y, index, bias, g, channels, first, image + c, to, d0, h0, w0, c,
                     alpha);
    }
  }
#else
  compute_output(x, f, y, index, bias, g, channels, first, image + c,
                 line + (long)w * channels + c, d0, h0, w * STRIDE(2) - BEFORE(2), c,
                 alpha);
#endif
}

// The index, along one axis, of the window that has the element at this kernel position; -1
// if there is none.
static inline int window_of(int element, int position, int stride, int dilation, int before,
                       int windows) {
  const int o = element + before - position * dilation;
  if (o < 0) return -1;
  if (stride == 1) return o < windows ? o : -1;
  return o % stride == 0 && o / stride < windows ? o / stride : -1;
}

// dx[element], from all windows that contain it.
__kernel GROUPED void back(__global const S *restrict dy, __global const S *restrict f,
                           __global S *restrict dx, __global const int *restrict index,
                           __global const int *restrict g, int batch, int channels) {
  const long item = get_global_id(0);
#if CPU
  const long row = item;
  for (int w = 0; w < IN(2); w++)
    for (int v = 0; v < channels; v += WIDTH) {
      const int c = min(v, channels - WIDTH);
#else
  const int c = item % channels, w = item / channels % IN(2);
  const long row = item / channels / IN(2);
  if (row < (long)batch * IN(0) * IN(1)) {
    {
#endif
      const int h = row % IN(1), d = row / IN(1) % IN(0), n = row / IN(1) / IN(0);
      const int p = (d * IN(1) + h) * IN(2) + w;
      const I me = lanes(p * channels + c);
      T total = (T)(0);
      for (int i = 0; i < POSITIONS(0); i++) {
        const int od = window_of(d, i, STRIDE(0), DILATION(0), BEFORE(0), OUT(0));
        if (od < 0) continue;
        for (int j = 0; j < POSITIONS(1); j++) {
          const int oh = window_of(h, j, STRIDE(1), DILATION(1), BEFORE(1), OUT(1));
          if (oh < 0) continue;
          for (int k = 0; k < POSITIONS(2); k++) {
            const int ow = window_of(w, k, STRIDE(2), DILATION(2), BEFORE(2), OUT(2));
            if (ow < 0) continue;
            const int position = (i * POSITIONS(1) + j) * POSITIONS(2) + k;
            const long output = ((long)n * OUT(0) + od) * OUT(1) + oh;
            const long from = (output * OUT(2) + ow) * channels + c;
            const T value = LOAD(dy + from);
            $back
          }
        }
      }
      *(__global T *)(dx + (row * IN(2) + w) * channels + c) = total;
    }
#if !CPU
  }
#endif
}

// df[position, c]. An item adds up the products in a part of the rows of outputs, for STRIP
// vectors of channels.
#define STRIP 4
__kernel GROUPED void filters(__global const S *restrict x, __global const S *restrict dy,
                              __global S *restrict df, __global const int *restrict g,
                              int batch, int channels, int parts) {
  const long item = get_global_id(0);
  const int positions = POSITIONS(0) * POSITIONS(1) * POSITIONS(2), strip = STRIP * WIDTH;
#if CPU
  const int strips = (channels + strip - 1) / strip;
#else
  const int strips = channels;
  if (item >= (long)parts * positions * strips) return;
#endif
  const int s = item % strips, rest = item / strips;
  const int position = rest % positions, part = rest / positions;
  const int k = position % POSITIONS(2), line = position / POSITIONS(2);
  const int j = line % POSITIONS(1), i = line / POSITIONS(1);
  const long rows = (long)batch * OUT(0) * OUT(1);
  int at[STRIP];
  T total[STRIP];
  for (int v = 0; v < STRIP; v++) {
    at[v] = CPU ? min(s * strip + v * WIDTH, channels - WIDTH) : s;
    total[v] = (T)(0);
  }
  for (long row = rows * part / parts; row < rows * (part + 1) / parts; row++) {
    const int oh = row % OUT(1), od = row / OUT(1) % OUT(0), n = row / OUT(1) / OUT(0);
    const int h = oh * STRIDE(1) - BEFORE(1) + j * DILATION(1);
    const int d = od * STRIDE(0) - BEFORE(0) + i * DILATION(0);
    if ((uint)h >= (uint)IN(1) || (uint)d >= (uint)IN(0)) continue;
    const long line = ((long)n * IN(0) + d) * IN(1) + h;
    for (int ow = 0; ow < OUT(2); ow++) {
      const int w = ow * STRIDE(2) - BEFORE(2) + k * DILATION(2);
      if ((uint)w >= (uint)IN(2)) continue;
      __global const S *restrict x_pixel = x + (line * IN(2) + w) * channels;
      __global const S *restrict dy_pixel = dy + (row * OUT(2) + ow) * channels;
      for (int v = 0; v < (CPU ? STRIP : 1); v++)
        total[v] = product(LOAD(x_pixel + at[v]), LOAD(dy_pixel + at[v]), total[v]);
    }
  }
  df += ((long)part * positions + position) * channels;
  for (int v = 0; v < (CPU ? STRIP : 1); v++) *(__global T *)(df + at[v]) = total[v];
}
