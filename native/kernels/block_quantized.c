/* Products of a few rows with 4-bit or 8-bit weights. Each block of adjacent weights
   has a scale and may have an offset. The weights are not unpacked in memory. */
#include "plugrad.h"
#include INTRINSICS

typedef u8 Bytes __attribute__((ext_vector_type(LANES)));
typedef i8 SignedBytes __attribute__((ext_vector_type(LANES)));
typedef i32 Integers __attribute__((ext_vector_type(LANES)));
typedef f32 Floats __attribute__((ext_vector_type(LANES)));

typedef enum { FOUR_BITS, UNSIGNED, SIGNED } Codes;

typedef struct {
    const f32 *x, *sums;    /* float32 rows; the sum of each block of a row */
    const i16 *rounded;     /* used instead of `x` if rows are rounded */
    const i8 *bytes;        /* used instead of `rounded` for a single row */
    const f32 *factors;     /* the factor of each block of the rounded rows */
    const u8 *codes;
    const f32 *scale, *offset;
    f32 *y;
    u32 rows, outputs, inputs, block;
    Codes kind;
} Product;

enum { MAX_BLOCK = 256 };
#if defined(DOT_U8_I8) && DOT_BYTES == 32
#define PAIRS_OF_RUNS 1 /* a vector has the codes of two runs of 32 */
#else
#define PAIRS_OF_RUNS 0
#endif

INLINE size_t bytes_of(Codes kind, u32 n) { return kind == FOUR_BITS ? n / 2 : n; }

/* Prefetches the codes that a product will read next. Rows of codes follow each other in
   memory, but the hardware prefetcher stops at each page. */
INLINE void prefetch_codes(const u8 *codes, size_t bytes) {
#if CACHE_CONTROL
    enum { AHEAD = 2048, CACHE_LINE = 64 };
    for (size_t i = 0; i < bytes; i += CACHE_LINE) __builtin_prefetch(codes + AHEAD + i);
#endif
}

/* --- rows of x -------------------------------------------------------------------- */

/* Copies a block. For 4-bit codes, the elements at even indices, whose codes are the
   low halves of bytes, are moved to the front. */
#define COPY_BLOCK(T)                                                                    \
    static void copy_block_##T(const T *x, T *y, u32 n, Codes kind) {                    \
        if (kind != FOUR_BITS) memcpy(y, x, n * sizeof(T));                              \
        else                                                                             \
            for (u32 i = 0; i < n / 2; i++) y[i] = x[2 * i], y[n / 2 + i] = x[2 * i + 1]; \
    }
COPY_BLOCK(f32)
COPY_BLOCK(i16)

/* Copies a block as bytes. For 4-bit codes, the elements of a run of 32 are separated: the
   codes of those at even indices are the low halves of bytes. Two runs are stored together:
   first both halves for the low halves of bytes, then those for the high halves. A run at
   the end of a row, or for a target with short vectors, is stored on its own. */
static void copy_block_i8(const i16 *x, i8 *row, u32 block, u32 b, u32 inputs, Codes kind) {
    i8 *y = row + (size_t)b * block;
    if (kind != FOUR_BITS) {
        for (u32 i = 0; i < block; i++) y[i] = (i8)x[i];
        return;
    }
    for (u32 run = b * block / 32, end = run + block / 32; run < end; run++, x += 32) {
        bool in_pair = PAIRS_OF_RUNS && (run | 1) < inputs / 32;
        i8 *low = row + (in_pair ? run / 2 * 64 + run % 2 * 16 : run * 32);
        i8 *high = low + (in_pair ? 32 : 16);
        for (u32 i = 0; i < 16; i++) low[i] = (i8)x[2 * i], high[i] = (i8)x[2 * i + 1];
    }
}

static void prepare_row(const f32 *x, f32 *y, f32 *sums, u32 inputs, u32 block, Codes kind) {
    for (u32 b = 0; b * block < inputs; b++, x += block, y += block) {
        f32 sum = 0;
        for (u32 i = 0; i < block; i++) sum += x[i];
        sums[b] = sum;
        copy_block_f32(x, y, block, kind);
    }
}

/* Rounds a row to 8 bits in blocks, as the kernel's contract specifies: x is
   approximately the rounded row times `factors`. The rounded row is written to `bytes`
   or, if that is null, to y. A block that contains NaN or infinities gets the factor
   NaN. */
static void round_row(const f32 *x, i16 *y, i8 *bytes, f32 *factors, f32 *sums, u32 inputs,
                      u32 block, Codes kind) {
    i16 rounded[MAX_BLOCK];
    for (u32 b = 0; b * block < inputs; b++, x += block) {
        u32 bits = 0; /* the largest absolute value; such bits are ordered as values are */
        for (u32 i = 0; i < block; i++) {
            u32 each;
            memcpy(&each, x + i, sizeof each);
            bits = MAX(bits, each & 0x7fffffff);
        }
        bool is_finite = bits < 0x7f800000; /* the bits of infinity */
        f32 largest;
        memcpy(&largest, &bits, sizeof largest);
        f32 factor = is_finite && largest > 0 ? 127 / largest : 0;
        i32 sum = 0;
        for (u32 i = 0; i < block; i++) {
            f32 scaled = is_finite ? __builtin_rintf(x[i] * factor) : 0;
            rounded[i] = (i16)scaled, sum += (i16)scaled;
        }
        factors[b] = is_finite ? largest * (1.f / 127) : NAN;
        sums[b] = (f32)sum * factors[b];
        if (bytes) copy_block_i8(rounded, bytes, block, b, inputs, kind);
        else copy_block_i16(rounded, y + b * block, block, kind);
    }
}

/* --- products --------------------------------------------------------------------- */

/* Returns the contribution of the offsets to an output of a row. */
INLINE f32 sum_of_offsets(const Product *s, u32 output, u32 row) {
    if (!s->offset) return 0;
    u32 blocks = s->inputs / s->block;
    const f32 *offset = s->offset + (size_t)output * blocks;
    const f32 *sums = s->sums + (size_t)row * blocks;
    vec sum = VEC(0);
    f32 rest = 0;
    u32 b = 0;
    for (; b + LANES <= blocks; b += LANES)
        sum = FMA(VLOAD(offset + b), VLOAD(sums + b), sum);
    for (; b < blocks; b++) rest += offset[b] * sums[b];
    return reduce_add(sum) + rest;
}

/* Widens the codes in LANES bytes: to w[0] or, for 4-bit codes, those in the low halves
   of the bytes to w[0] and those in the high halves to w[1]. */
INLINE void floats_of(const u8 *p, Codes kind, vec w[2]) {
    Bytes b;
    memcpy(&b, p, sizeof b);
    if (kind == FOUR_BITS) {
        Integers wide = __builtin_convertvector(b, Integers);
        w[0] = (vec)__builtin_convertvector(wide & 15, Floats);
        w[1] = (vec)__builtin_convertvector(wide >> 4, Floats);
    } else if (kind == SIGNED) {
        w[0] = (vec)__builtin_convertvector((SignedBytes)b, Floats);
    } else {
        w[0] = (vec)__builtin_convertvector(b, Floats);
    }
}

/* Computes an output of `rows` rows, which begin with `row`. Memory is read fastest if the
   codes of one output are read at a time. */
INLINE void multiply(const Product *s, u32 output, u32 row, u32 rows, Codes kind, u32 block) {
    u32 n = s->inputs, blocks = n / block, chunk = bytes_of(kind, block);
    const u8 *codes = s->codes + output * bytes_of(kind, n);
    const f32 *scale = s->scale + (size_t)output * blocks, *x = s->x + (size_t)row * n;
    vec total[4];
    for (u32 r = 0; r < rows; r++) total[r] = VEC(0);
    for (u32 b = 0; b < blocks; b++, codes += chunk) {
        vec a[4];
        for (u32 r = 0; r < rows; r++) a[r] = VEC(0);
        prefetch_codes(codes, chunk);
        for (u32 i = 0; i < chunk; i += LANES) {
            vec w[2];
            floats_of(codes + i, kind, w);
            for (u32 half = 0; half < (kind == FOUR_BITS ? 2u : 1u); half++)
                for (u32 r = 0; r < rows; r++) {
                    const f32 *at = x + (size_t)r * n + b * block + half * chunk + i;
                    a[r] = FMA(w[half], VLOAD(at), a[r]);
                }
        }
        for (u32 r = 0; r < rows; r++) total[r] = FMA(a[r], VEC(scale[b]), total[r]);
    }
    for (u32 r = 0; r < rows; r++) {
        f32 sum = reduce_add(total[r]) + sum_of_offsets(s, output, row + r);
        s->y[(size_t)(row + r) * s->outputs + output] = sum;
    }
}

/* `multiply_rounded` is like `multiply`, but for rounded rows: it sums products of
   16-bit integers in 32 bits. */
#ifdef HALF_MADD_I16 /* a block of 32 4-bit codes has only 16 bytes */
enum { WORDS = WORDS_MADD_I16 };
#define MADD_WORDS(a, b) (Sums)HALF_MADD_I16(a, b)
#else
enum { WORDS = 2 * REGISTER };
#define MADD_WORDS(a, b) (Sums)MADD_I16(a, b)
#endif
typedef i16 Words __attribute__((ext_vector_type(WORDS)));
typedef u8 WordBytes __attribute__((ext_vector_type(WORDS)));
typedef i8 SignedWordBytes __attribute__((ext_vector_type(WORDS)));
typedef i32 Sums __attribute__((ext_vector_type(WORDS / 2)));
typedef f32 Totals __attribute__((ext_vector_type(WORDS / 2)));

INLINE void words_of(const u8 *p, Codes kind, Words w[2]) { /* like `floats_of` */
    WordBytes b;
    memcpy(&b, p, sizeof b);
    w[0] = kind == SIGNED ? __builtin_convertvector((SignedWordBytes)b, Words)
                          : __builtin_convertvector(b, Words);
    if (kind == FOUR_BITS) w[1] = w[0] >> 4, w[0] &= 15;
}

INLINE void multiply_rounded(const Product *s, u32 output, u32 row, u32 rows, Codes kind,
                             u32 block) {
    u32 n = s->inputs, blocks = n / block, chunk = bytes_of(kind, block);
    const u8 *codes = s->codes + output * bytes_of(kind, n);
    const f32 *scale = s->scale + (size_t)output * blocks;
    const f32 *factors = s->factors + (size_t)row * blocks;
    const i16 *x = s->rounded + (size_t)row * n;
    Totals total[4];
    for (u32 r = 0; r < rows; r++) total[r] = 0;
    for (u32 b = 0; b < blocks; b++, codes += chunk) {
        Sums a[4];
        for (u32 r = 0; r < rows; r++) a[r] = 0;
        prefetch_codes(codes, chunk);
        for (u32 i = 0; i < chunk; i += WORDS) {
            Words w[2], v;
            words_of(codes + i, kind, w);
            for (u32 half = 0; half < (kind == FOUR_BITS ? 2u : 1u); half++)
                for (u32 r = 0; r < rows; r++) {
                    memcpy(&v, x + (size_t)r * n + b * block + half * chunk + i, sizeof v);
                    a[r] += MADD_WORDS(w[half], v);
                }
        }
        for (u32 r = 0; r < rows; r++) {
            f32 by = scale[b] * factors[r * blocks + b];
            total[r] += __builtin_convertvector(a[r], Totals) * by;
        }
    }
    for (u32 r = 0; r < rows; r++) {
        f32 sum = 0;
        for (u32 i = 0; i < WORDS / 2; i++) sum += total[r][i];
        sum += sum_of_offsets(s, output, row + r);
        s->y[(size_t)(row + r) * s->outputs + output] = sum;
    }
}

#define ROWS(MULTIPLY, KIND, BLOCK)                                                      \
    {                                                                                    \
        if (rows == 1) MULTIPLY(s, output, row, 1, KIND, BLOCK);                         \
        else if (rows == 2) MULTIPLY(s, output, row, 2, KIND, BLOCK);                    \
        else if (rows == 3) MULTIPLY(s, output, row, 3, KIND, BLOCK);                    \
        else MULTIPLY(s, output, row, 4, KIND, BLOCK);                                   \
    }
#define OUTPUTS(MULTIPLY, KIND)                                                          \
    static void MULTIPLY##_##KIND(u32 begin, u32 end, void *ctx) {                       \
        const Product *s = ctx;                                                          \
        for (u32 output = begin; output < end; output++)                                 \
            for (u32 row = 0; row < s->rows; row += 4) {                                 \
                u32 rows = MIN(4u, s->rows - row);                                       \
                if (s->block == 32) ROWS(MULTIPLY, KIND, 32)                             \
                else ROWS(MULTIPLY, KIND, s->block)                                      \
            }                                                                            \
    }
#define OUTPUTS_OF_ALL(MULTIPLY)                                                         \
    OUTPUTS(MULTIPLY, FOUR_BITS)                                                         \
    OUTPUTS(MULTIPLY, UNSIGNED)                                                          \
    OUTPUTS(MULTIPLY, SIGNED)                                                            \
    static void (*const MULTIPLY##_all[])(u32, u32, void *) = {                          \
        MULTIPLY##_FOUR_BITS, MULTIPLY##_UNSIGNED, MULTIPLY##_SIGNED};
OUTPUTS_OF_ALL(multiply)
OUTPUTS_OF_ALL(multiply_rounded)

/* --- products of one rounded row -------------------------------------------------- */

/* Multiplies one row, rounded to bytes, by 4-bit or signed codes without widening them. */
#ifdef DOT_U8_I8
#define BYTE_VECTOR(T) __attribute__((ext_vector_type(DOT_BYTES / sizeof(T)))) T
typedef u8 Codes16 __attribute__((ext_vector_type(16)));
typedef BYTE_VECTOR(i8) ByteRow;
typedef BYTE_VECTOR(i32) ByteSums;
typedef BYTE_VECTOR(f32) ByteTotals;
typedef BYTE_VECTOR(u8) ByteCodes;
#define HAS_SIGNED_DOT (DOT_BYTES == 32)

/* Returns the sums of four adjacent products, for the 32 4-bit codes of a run. */
INLINE ByteSums dot_4_bits(const u8 *codes, const i8 *x) {
    Codes16 c;
    memcpy(&c, codes, sizeof c);
    Codes16 low = c & 15, high = c >> 4;
    ByteRow v;
#if PAIRS_OF_RUNS
    memcpy(&v, x, sizeof v);
    return (ByteSums)DOT_U8_I8(
        __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                                15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
                                30, 31), v);
#else
    ByteRow w;
    memcpy(&v, x, sizeof v), memcpy(&w, x + 16, sizeof w);
    return (ByteSums)DOT_U8_I8(low, v) + (ByteSums)DOT_U8_I8(high, w);
#endif
}

/* Returns the same for 32 signed codes. The sign of a code moves to x, so that the code is
   unsigned. */
INLINE ByteSums dot_signed(const u8 *codes, const i8 *x) {
    ByteRow c, v;
    memcpy(&c, codes, sizeof c), memcpy(&v, x, sizeof v);
    ByteRow sign = c >> 7; /* -1 where a code is negative */
    return (ByteSums)DOT_U8_I8((c ^ sign) - sign, (v ^ sign) - sign);
}

/* Adds the products of `runs` runs of 32 codes, whose sums have the factors `by`. Two
   totals hide the latency of the additions. */
INLINE void add_runs(ByteTotals total[2], const u8 *codes, const i8 *x, const f32 *by,
                     u32 runs, Codes kind) {
    u32 r = 0;
#if PAIRS_OF_RUNS
    for (; kind == FOUR_BITS && r + 2 <= runs; r += 2, codes += 32, x += 64) {
        ByteCodes c;
        ByteRow v, w;
        memcpy(&c, codes, sizeof c), memcpy(&v, x, sizeof v), memcpy(&w, x + 32, sizeof w);
        ByteSums a = (ByteSums)DOT_U8_I8(c & 15, v) + (ByteSums)DOT_U8_I8(c >> 4, w);
        f32 p = by[r], q = by[r + 1];
        ByteTotals factors = {p, p, p, p, q, q, q, q};
        ByteTotals *to = &total[r / 2 % 2];
        *to = (ByteTotals)DOT_FMA(__builtin_convertvector(a, ByteTotals), factors, *to);
    }
#endif
    for (; r < runs; r++, codes += bytes_of(kind, 32), x += 32) {
        ByteSums a = kind == FOUR_BITS ? dot_4_bits(codes, x) : dot_signed(codes, x);
        ByteTotals *to = &total[r % 2];
        *to = (ByteTotals)DOT_FMA(__builtin_convertvector(a, ByteTotals), (ByteTotals)by[r],
                                  *to);
    }
}

/* Multiplies `runs` runs of x, from run r on, by the codes of an output. */
INLINE void add_group(const Product *s, ByteTotals total[2], u32 output, u32 r, u32 runs,
                      Codes kind, u32 block) {
    size_t bytes = bytes_of(kind, 32);
    const u8 *codes = s->codes + output * bytes_of(kind, s->inputs) + r * bytes;
    const f32 *scale = s->scale + (size_t)output * (s->inputs / block);
    f32 by[LANES]; /* the factors of the sums */
    if (block == 32 && runs == LANES)
        STORE(by, MUL(VLOAD(scale + r), VLOAD(s->factors + r)));
    else
        for (u32 i = 0; i < runs; i++) {
            u32 b = (r + i) * 32 / block;
            by[i] = scale[b] * s->factors[b];
        }
    prefetch_codes(codes, runs * bytes);
    add_runs(total, codes, s->bytes + r * 32, by, runs, kind);
}

INLINE void dot_row(const Product *s, u32 output, Codes kind, u32 block) {
    u32 runs = s->inputs / 32, r = 0;
    ByteTotals total[2] = {0, 0};
    for (; r + LANES <= runs; r += LANES) add_group(s, total, output, r, LANES, kind, block);
    for (; r + 2 <= runs; r += 2) add_group(s, total, output, r, 2, kind, block);
    if (r < runs) add_group(s, total, output, r, 1, kind, block);
    ByteTotals sums = total[0] + total[1];
#if DOT_BYTES == 32
    f32 sum = reduce_add((v4)(sums.lo + sums.hi));
#else
    f32 sum = reduce_add((v4)sums);
#endif
    s->y[output] = sum + sum_of_offsets(s, output, 0);
}

#define DOTS(KIND)                                                                       \
    static void dots_##KIND(u32 begin, u32 end, void *ctx) {                             \
        const Product *s = ctx;                                                          \
        for (u32 output = begin; output < end; output++)                                 \
            if (s->block == 32) dot_row(s, output, KIND, 32);                            \
            else dot_row(s, output, KIND, s->block);                                     \
    }
DOTS(FOUR_BITS)
#if HAS_SIGNED_DOT
DOTS(SIGNED)
#else
#define dots_SIGNED 0
#endif

INLINE bool multiply_bytes(const Product *s, u32 grain) {
    if (!s->bytes) return false;
    parallel_for(s->kind == SIGNED ? dots_SIGNED : dots_FOUR_BITS, (void *)s,
                 s->outputs, MAX(1, grain));
    return true;
}

INLINE bool in_bytes(u32 rows, u32 block, Codes kind) {
    return rows == 1 && block % 32 == 0 &&
           (kind == FOUR_BITS || (kind == SIGNED && HAS_SIGNED_DOT));
}
#else
INLINE bool multiply_bytes(const Product *s, u32 grain) { return false; }
INLINE bool in_bytes(u32 rows, u32 block, Codes kind) { return false; }
#endif

/* Writes [rows, outputs]; see the kernel BlockQuantizedMatMul. `work` has room for x
   and for two values per block of x. A block has at most MAX_BLOCK codes. They occupy
   `block` bytes, or half as many with 4 bits; this number of bytes is a multiple of
   LANES and of WORDS. */
EXPORT("block_matmul_f32")
void block_matmul_f32(const f32 *x, const u8 *codes, const f32 *scale, const f32 *offset,
                      f32 *work, f32 *y, u32 rows, u32 outputs, u32 inputs, u32 block,
                      u32 kind, u32 rounded) {
    u32 blocks = inputs / block;
    f32 *sums = work + (size_t)rows * inputs, *factors = sums + (size_t)rows * blocks;
    i16 *words = (i16 *)work;
    i8 *bytes = rounded && in_bytes(rows, block, kind) ? (i8 *)work : 0;
    CHECK(block <= MAX_BLOCK && bytes_of(kind, block) % MAX(LANES, WORDS) == 0,
          "blocks have the wrong size");
    INSIDE(x, (u64)rows * inputs * sizeof(f32));
    INSIDE(work, (u64)rows * (inputs + 2 * blocks) * sizeof(f32));
    INSIDE(codes, (u64)outputs * bytes_of(kind, inputs));
    INSIDE(scale, (u64)outputs * blocks * sizeof(f32));
    INSIDE(offset, (u64)(offset ? outputs : 0) * blocks * sizeof(f32));
    INSIDE(y, (u64)rows * outputs * sizeof(f32));
    for (size_t r = 0; r < rows; r++)
        if (rounded)
            round_row(x + r * inputs, words + r * inputs, bytes, factors + r * blocks,
                      sums + r * blocks, inputs, block, kind);
        else
            prepare_row(x + r * inputs, work + r * inputs, sums + r * blocks, inputs, block,
                        kind);
    Product s = {work, sums, words, bytes, factors, codes, scale, offset, y,
                 rows, outputs, inputs, block, kind};
    u32 grain = (1 << 16) / MAX(1, rows * inputs);
    if (multiply_bytes(&s, grain)) return;
    parallel_for(rounded ? multiply_rounded_all[kind] : multiply_all[kind], &s, outputs,
                 MAX(1, grain));
}

/* --- unpacking -------------------------------------------------------------------- */

static void unpack_rows(u32 begin, u32 end, void *ctx) {
    const Product *s = ctx;
    u32 blocks = s->inputs / s->block, bytes = bytes_of(s->kind, s->block);
    for (u32 i = begin; i < end; i++) {
        const u8 *codes = s->codes + (size_t)i * blocks * bytes;
        f32 *restrict y = s->y + (size_t)i * s->inputs;
        for (u32 b = 0; b < blocks; b++, codes += bytes, y += s->block) {
            f32 scale = s->scale[(size_t)i * blocks + b];
            if (s->kind == FOUR_BITS)
                for (u32 j = 0; j < bytes; j++)
                    y[2 * j] = (codes[j] & 15) * scale, y[2 * j + 1] = (codes[j] >> 4) * scale;
            else if (s->kind == SIGNED)
                for (u32 j = 0; j < bytes; j++) y[j] = (i8)codes[j] * scale;
            else
                for (u32 j = 0; j < bytes; j++) y[j] = codes[j] * scale;
            if (!s->offset) continue;
            f32 offset = s->offset[(size_t)i * blocks + b];
            for (u32 j = 0; j < s->block; j++) y[j] += offset;
        }
    }
}

/* Writes the weights of `rows` rows: see the kernel DequantizeBlocks. */
EXPORT("dequantize_blocks_f32")
void dequantize_blocks_f32(const u8 *codes, const f32 *scale, const f32 *offset, f32 *y,
                           u32 rows, u32 inputs, u32 block, u32 kind) {
    INSIDE(codes, (u64)rows * bytes_of(kind, inputs));
    INSIDE(scale, (u64)rows * (inputs / block) * sizeof(f32));
    INSIDE(offset, (u64)(offset ? rows : 0) * (inputs / block) * sizeof(f32));
    INSIDE(y, (u64)rows * inputs * sizeof(f32));
    Product s = {.codes = codes, .scale = scale, .offset = offset, .y = y,
                 .inputs = inputs, .block = block, .kind = kind};
    parallel_for(unpack_rows, &s, rows, MAX(1, 65536 / MAX(1, inputs)));
}
