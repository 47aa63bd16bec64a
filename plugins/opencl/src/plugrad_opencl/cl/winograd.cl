// Convolution with windows of 3 x 3, which needs 16 instead of 36 products for each 2 x 2
// outputs (Winograd; Lavin and Gray, 2016). `spread` transforms x to v, `prepare` transforms
// the filter to u, and `collect` transforms the products of v and u to y. Letters: p tile,
// c input channel, k output channel.
typedef $type S;
VECTOR(T, S);
VECTOR(I, $integer);
$functions
static inline T finish(T y, S alpha) { return $finish; }
#define EACH _Pragma("unroll") for
#define LOAD(x) (*(__global const T *)(x))

// An item computes a row of tiles, or an input channel. GPUs do not use these kernels.
#define ROWS_OF(count, channels)         \
  const long row = get_global_id(0);     \
  for (long j = 0; j < count; j++)       \
    for (long n = 0; n < channels; n += WIDTH) { \
      const long channel = min(n, channels - WIDTH);

// v[16, p, c]
__kernel GROUPED void spread(__global const S *restrict x, __global S *restrict v,
                             long rows, long down, long across, long h, long w,
                             long channels, long top, long left) {
  ROWS_OF(across, channels)
      const long n = row / down, i0 = row % down * 2 - top, j0 = j * 2 - left;
      T d[4][4], t[4][4];
      EACH(int i = 0; i < 4; i++) EACH(int k = 0; k < 4; k++) {
        const int inside = i0 + i >= 0 && i0 + i < h && j0 + k >= 0 && j0 + k < w;
        const long from = ((n * h + i0 + i) * w + j0 + k) * channels + channel;
        d[i][k] = inside ? LOAD(x + (inside ? from : 0)) : (T)(0);
      }
      EACH(int k = 0; k < 4; k++) {
        t[0][k] = d[0][k] - d[2][k];
        t[1][k] = d[1][k] + d[2][k];
        t[2][k] = d[2][k] - d[1][k];
        t[3][k] = d[1][k] - d[3][k];
      }
      __global S *restrict to = v + (row * across + j) * channels + channel;
      const long plane = rows * across * channels;
      EACH(int i = 0; i < 4; i++) {
        *(__global T *)(to + (i * 4) * plane) = t[i][0] - t[i][2];
        *(__global T *)(to + (i * 4 + 1) * plane) = t[i][1] + t[i][2];
        *(__global T *)(to + (i * 4 + 2) * plane) = t[i][2] - t[i][1];
        *(__global T *)(to + (i * 4 + 3) * plane) = t[i][1] - t[i][3];
      }
    }
}

// u[16, c, k]
__kernel GROUPED void prepare(__global const S *restrict f, __global S *restrict u,
                              long rows, long channels) {
  ROWS_OF(1, channels)
      const long from = (row + j) * channels + channel, plane = rows * channels;
      T t[4][3];
      EACH(int k = 0; k < 3; k++) {
        const T a = LOAD(f + k * plane + from), b = LOAD(f + (3 + k) * plane + from);
        const T c = LOAD(f + (6 + k) * plane + from);
        t[0][k] = a;
        t[1][k] = (a + b + c) * (S)0.5;
        t[2][k] = (a - b + c) * (S)0.5;
        t[3][k] = c;
      }
      EACH(int i = 0; i < 4; i++) {
        __global S *restrict to = u + i * 4 * plane + from;
        *(__global T *)(to) = t[i][0];
        *(__global T *)(to + plane) = (t[i][0] + t[i][1] + t[i][2]) * (S)0.5;
        *(__global T *)(to + 2 * plane) = (t[i][0] - t[i][1] + t[i][2]) * (S)0.5;
        *(__global T *)(to + 3 * plane) = t[i][2];
      }
    }
}

// Compute one output by the definition of a convolution: for infinities, whose differences
// are NaN.
static T direct(__global const S *restrict x, __global const S *restrict f, long h, long w,
                long channels, long outs, long i0, long j0) {
  T total = (T)(0);
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      if (i0 + i < 0 || i0 + i >= h || j0 + j < 0 || j0 + j >= w) continue;
      __global const S *from = x + ((i0 + i) * w + j0 + j) * channels;
      for (long c = 0; c < channels; c++)
        total += (T)(from[c]) * LOAD(f + ((i * 3 + j) * channels + c) * outs);
    }
  return total;
}

// y from m[16, p, k]
__kernel GROUPED void collect(__global const S *restrict m, __global const S *restrict x,
                              __global const S *restrict f,
                              __global const S *restrict bias, __global S *restrict y,
                              long rows, long down, long across, long h, long w,
                              long channels, long top, long left, long height, long width,
                              long outs, S alpha) {
  ROWS_OF(across, outs)
      const long n = row / down, i0 = row % down * 2, j0 = j * 2;
      __global const S *restrict from = m + (row * across + j) * outs + channel;
      const long plane = rows * across * outs;
      T s[2][4], out[2][2];
      EACH(int k = 0; k < 4; k++) {
        const T a = LOAD(from + k * plane), b = LOAD(from + (4 + k) * plane);
        const T c = LOAD(from + (8 + k) * plane), d = LOAD(from + (12 + k) * plane);
        s[0][k] = a + b + c;
        s[1][k] = b - c - d;
      }
      EACH(int i = 0; i < 2; i++) {
        out[i][0] = s[i][0] + s[i][1] + s[i][2];
        out[i][1] = s[i][1] - s[i][2] - s[i][3];
      }
      const T add = BIAS ? LOAD(bias + channel) : (T)(0);
      EACH(int i = 0; i < 2; i++) EACH(int k = 0; k < 2; k++) {
        if (i0 + i >= height || j0 + k >= width) continue;
        T result = out[i][k];
        if (!EVERY(result - result == (S)0))
          result = direct(x + n * h * w * channels, f + channel, h, w, channels, outs,
                        i0 + i - top, j0 + k - left);
        __global S *to = y + ((n * height + i0 + i) * width + j0 + k) * outs + channel;
        *(__global T *)to = finish(result + add, alpha);
      }
    }
}
