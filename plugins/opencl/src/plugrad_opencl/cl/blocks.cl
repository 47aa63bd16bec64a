// Weights of 4 or 8 bits in blocks of CODES codes, each of which has a scale, and an offset
// if OFFSET is 1. A block of codes has CHUNK bytes. With 4 bits, the low half of byte i is
// code 2i, the high half code 2i + 1.
#if BITS == 4
#define CHUNK (CODES / 2)
typedef uchar C;
typedef uchar16 C16;
#define FOUR_CODES as_uchar4
#else
#define CHUNK CODES
typedef $code C;
typedef ${code}16 C16;
#define FOUR_CODES as_${code}4
#endif

// An item reads 16 bytes of codes at once. On a GPU, it multiplies four at a time: PoCL may
// compile kernels for GPUs for a processor on which wider vectors give wrong numbers.
#if CPU
typedef float16 Sums;
#define CONVERT convert_float16
#define NUMBERS(p) vload16(0, p)
#else
typedef float4 Sums;
#define CONVERT convert_float4
#define NUMBERS(p) vload4(0, p)
#endif

// Add the products of a vector v of codes, from byte i of a block on.
#if BITS == 4
#define MULTIPLY(v, i)                                         \
  for (int m = 0; m < M; m++) {                                \
    __global const float *from = x + m * inputs + b * CODES + (i); \
    a[m] += CONVERT((v) & (C)15) * NUMBERS(from);              \
    a[m] += CONVERT((v) >> (C)4) * NUMBERS(from + CHUNK);      \
  }
#else
#define MULTIPLY(v, i)                                         \
  for (int m = 0; m < M; m++)                                  \
    a[m] += CONVERT(v) * NUMBERS(x + m * inputs + b * CODES + (i));
#endif

// Convert the weights to float. An item unpacks one byte; on a CPU, a block of bytes.
__kernel GROUPED void unpack(__global const C *restrict codes,
                             __global const float *restrict scale,
                             __global const float *restrict offset, __global float *restrict y,
                             long count) {
#if CPU
  const long first = (long)get_global_id(0) * ITEMS, last = min(first + ITEMS, count);
  for (long i = first; i < last; i++) {
#else
  const long i = get_global_id(0);
  if (i < count) {
#endif
    const float by = scale[i / CHUNK];
#if BITS == 4
    float a = (codes[i] & 15) * by, b = (codes[i] >> 4) * by;
    if (OFFSET) a += offset[i / CHUNK], b += offset[i / CHUNK];
    y[2 * i] = a, y[2 * i + 1] = b;
#else
    float a = codes[i] * by;
    if (OFFSET) a += offset[i / CHUNK];
    y[i] = a;
#endif
  }
}

// Prepare a block of x for the products, and compute its sum. If ROUNDED, its elements are
// rounded to 8 bits. With codes of 4 bits, elements with even indices come first.
__kernel GROUPED void prepare(__global const float *restrict x, __global float *restrict to,
                              __global float *restrict sums, long blocks) {
#if CPU
  const long first = (long)get_global_id(0) * ITEMS, last = min(first + ITEMS, blocks);
  for (long b = first; b < last; b++) {
#else
  const long b = get_global_id(0);
  if (b < blocks) {
#endif
    __global const float *restrict from = x + b * CODES;
    float largest = 0, factor = 1, back = 1, sum = 0;
#if ROUNDED
    int finite = 1;
    for (int i = 0; i < CODES; i++) {
      finite &= isfinite(from[i]);
      largest = fmax(largest, fabs(from[i]));
    }
    factor = largest > 0 ? 127 / largest : 0;
    back = finite ? largest * (1.0f / 127) : NAN;
#endif
    for (int i = 0; i < CODES; i++) {
      const float value = ROUNDED ? rint(from[i] * factor) * back : from[i];
      sum += value;
      to[b * CODES + (BITS == 4 ? i % 2 * CHUNK + i / 2 : i)] = value;
    }
    sums[b] = sum;
  }
}

// y = x w for M rows. On a GPU, the items of a group share an output: each multiplies every
// GROUP-th block. On a CPU, an item computes a block of outputs.
__kernel GROUPED void multiply(__global const float *restrict x,
                               __global const float *restrict sums,
                               __global const C *restrict codes,
                               __global const float *restrict scale,
                               __global const float *restrict offset,
                               __global float *restrict y, long outputs, long inputs) {
  const long blocks = inputs / CODES;
#if CPU
  const long first = (long)get_global_id(0) * ITEMS, last = min(first + ITEMS, outputs);
  const long me = 0, step = 1;
  for (long n = first; n < last; n++) {
#else
  __local float shared[M][GROUP];
  const long n = get_group_id(0), me = get_local_id(0), step = GROUP;
  {
#endif
    Sums total[M];
    float rest[M];
    for (int m = 0; m < M; m++) total[m] = 0, rest[m] = 0;
    for (long b = me; b < blocks; b += step) {
      Sums a[M];
      for (int m = 0; m < M; m++) a[m] = 0;
      for (int i = 0; i < CHUNK; i += 16) {
        // aligned, because CHUNK is a multiple of 16; PoCL's vload16 reads two bytes at once
        __global const C *from = codes + (n * blocks + b) * CHUNK + i;
#if CPU
        const C16 v = *(__global const C16 *)from;
        MULTIPLY(v, i)
#else
        const uint4 v = *(__global const uint4 *)from;
        MULTIPLY(FOUR_CODES(v.s0), i)
        MULTIPLY(FOUR_CODES(v.s1), i + 4)
        MULTIPLY(FOUR_CODES(v.s2), i + 8)
        MULTIPLY(FOUR_CODES(v.s3), i + 12)
#endif
      }
      const float by = scale[n * blocks + b];
      for (int m = 0; m < M; m++) {
        total[m] += a[m] * by;
        if (OFFSET) rest[m] += offset[n * blocks + b] * sums[m * blocks + b];
      }
    }
    for (int m = 0; m < M; m++) {
#if CPU
      const float8 half_sums = total[m].lo + total[m].hi;
      const float4 c = half_sums.lo + half_sums.hi;
#else
      const float4 c = total[m];
#endif
      const float sum = (c.s0 + c.s2) + (c.s1 + c.s3) + rest[m];
#if CPU
      y[m * outputs + n] = sum;
#else
      shared[m][me] = sum;
#endif
    }
#if !CPU
    for (int reach = GROUP / 2; reach; reach /= 2) {
      barrier(CLK_LOCAL_MEM_FENCE);
      if (me < reach)
        for (int m = 0; m < M; m++) shared[m][me] += shared[m][me + reach];
    }
    if (!me)
      for (int m = 0; m < M; m++) y[m * outputs + n] = shared[m][0];
#endif
  }
}
