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

INLINE size_t bytes_of(Codes kind, u32 n) { return kind == FOUR_BITS ? n / 2 : n; }

/* Prefetches the weights of some outputs. The arrays are too short for the hardware
   prefetcher to recognize them in time. */
INLINE void prefetch_outputs(const Product *s, u32 first, u32 count) {
#if CACHE_CONTROL
    enum { CACHE_LINE = 64 };
    if (first + count > s->outputs) return;
    size_t bytes = bytes_of(s->kind, s->inputs), blocks = s->inputs / s->block * sizeof(f32);
    const u8 *codes = s->codes + first * bytes, *scale = (const u8 *)s->scale + first * blocks;
    for (size_t i = 0; i < count * bytes; i += CACHE_LINE) __builtin_prefetch(codes + i);
    for (size_t i = 0; i < count * blocks; i += CACHE_LINE) __builtin_prefetch(scale + i);
    if (!s->offset) return;
    const u8 *offset = (const u8 *)s->offset + first * blocks;
    for (size_t i = 0; i < count * blocks; i += CACHE_LINE) __builtin_prefetch(offset + i);
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

/* Copies a block as bytes. For 4-bit codes, each run of 32 elements is reordered: first
   the 16 at even indices, whose codes are the low halves of 16 bytes, then the 16 at
   odd indices, whose codes are the high halves. */
static void copy_block_i8(const i16 *x, i8 *y, u32 n, Codes kind) {
    for (u32 i = 0; i < n; i++)
        y[kind == FOUR_BITS ? i / 32 * 32 + i % 2 * 16 + i % 32 / 2 : i] = (i8)x[i];
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
        f32 largest = 0;
        bool is_finite = true;
        for (u32 i = 0; i < block; i++) {
            f32 size = fabsf(x[i]);
            largest = size > largest ? size : largest, is_finite &= size < INFINITY;
        }
        f32 factor = is_finite && largest > 0 ? 127 / largest : 0;
        i32 sum = 0;
        for (u32 i = 0; i < block; i++) {
            f32 scaled = is_finite ? __builtin_rintf(x[i] * factor) : 0;
            rounded[i] = (i16)scaled, sum += (i16)scaled;
        }
        factors[b] = is_finite ? largest * (1.f / 127) : NAN;
        sums[b] = (f32)sum * factors[b];
        if (bytes) copy_block_i8(rounded, bytes + b * block, block, kind);
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

/* For `rows` rows from `row` on, computes `columns` outputs, beginning with `first`. */
INLINE void multiply(const Product *s, u32 first, u32 columns, u32 row, u32 rows, Codes kind,
                     u32 block) {
    u32 n = s->inputs, blocks = n / block, chunk = kind == FOUR_BITS ? block / 2 : block;
    const u8 *codes = s->codes + first * bytes_of(kind, n);
    const f32 *scale = s->scale + (size_t)first * blocks, *x = s->x + (size_t)row * n;
    vec total[2][4];
    for (u32 c = 0; c < columns; c++)
        for (u32 r = 0; r < rows; r++) total[c][r] = VEC(0);
    for (u32 b = 0; b < blocks; b++) {
        vec a[2][4];
        for (u32 c = 0; c < columns; c++)
            for (u32 r = 0; r < rows; r++) a[c][r] = VEC(0);
        for (u32 i = 0; i < chunk; i += LANES)
            for (u32 c = 0; c < columns; c++) {
                vec w[2];
                floats_of(codes + c * bytes_of(kind, n) + (size_t)b * chunk + i, kind, w);
                for (u32 half = 0; half < (kind == FOUR_BITS ? 2u : 1u); half++)
                    for (u32 r = 0; r < rows; r++) {
                        const f32 *at = x + (size_t)r * n + b * block + half * chunk + i;
                        a[c][r] = FMA(w[half], VLOAD(at), a[c][r]);
                    }
            }
        for (u32 c = 0; c < columns; c++)
            for (u32 r = 0; r < rows; r++)
                total[c][r] = FMA(a[c][r], VEC(scale[c * blocks + b]), total[c][r]);
    }
    for (u32 c = 0; c < columns; c++)
        for (u32 r = 0; r < rows; r++) {
            f32 sum = reduce_add(total[c][r]);
            sum += sum_of_offsets(s, first + c, row + r);
            s->y[(size_t)(row + r) * s->outputs + first + c] = sum;
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

INLINE void multiply_rounded(const Product *s, u32 first, u32 columns, u32 row, u32 rows,
                             Codes kind, u32 block) {
    u32 n = s->inputs, blocks = n / block, chunk = kind == FOUR_BITS ? block / 2 : block;
    const u8 *codes = s->codes + first * bytes_of(kind, n);
    const f32 *scale = s->scale + (size_t)first * blocks;
    const f32 *factors = s->factors + (size_t)row * blocks;
    const i16 *x = s->rounded + (size_t)row * n;
    Totals total[2][4];
    for (u32 c = 0; c < columns; c++)
        for (u32 r = 0; r < rows; r++) total[c][r] = 0;
    for (u32 b = 0; b < blocks; b++) {
        Sums a[2][4];
        for (u32 c = 0; c < columns; c++)
            for (u32 r = 0; r < rows; r++) a[c][r] = 0;
        for (u32 i = 0; i < chunk; i += WORDS)
            for (u32 c = 0; c < columns; c++) {
                Words w[2], v;
                words_of(codes + c * bytes_of(kind, n) + (size_t)b * chunk + i, kind, w);
                for (u32 half = 0; half < (kind == FOUR_BITS ? 2u : 1u); half++)
                    for (u32 r = 0; r < rows; r++) {
                        memcpy(&v, x + (size_t)r * n + b * block + half * chunk + i, sizeof v);
                        a[c][r] += MADD_WORDS(w[half], v);
                    }
            }
        for (u32 c = 0; c < columns; c++)
            for (u32 r = 0; r < rows; r++) {
                f32 by = scale[c * blocks + b] * factors[r * blocks + b];
                total[c][r] += __builtin_convertvector(a[c][r], Totals) * by;
            }
    }
    for (u32 c = 0; c < columns; c++)
        for (u32 r = 0; r < rows; r++) {
            f32 sum = 0;
            for (u32 i = 0; i < WORDS / 2; i++) sum += total[c][r][i];
            sum += sum_of_offsets(s, first + c, row + r);
            s->y[(size_t)(row + r) * s->outputs + first + c] = sum;
        }
}

/* Computes both outputs of a pair together or, for more than two rows, one after the
   other. */
#define PAIR(MULTIPLY, KIND, BLOCK)                                                      \
    {                                                                                    \
        for (u32 c = 0; c < columns && rows > 2; c++)                                    \
            if (rows == 3) MULTIPLY(s, first + c, 1, row, 3, KIND, BLOCK);               \
            else MULTIPLY(s, first + c, 1, row, 4, KIND, BLOCK);                         \
        if (rows == 2 && columns == 2) MULTIPLY(s, first, 2, row, 2, KIND, BLOCK);       \
        if (rows == 2 && columns == 1) MULTIPLY(s, first, 1, row, 2, KIND, BLOCK);       \
        if (rows == 1 && columns == 2) MULTIPLY(s, first, 2, row, 1, KIND, BLOCK);       \
        if (rows == 1 && columns == 1) MULTIPLY(s, first, 1, row, 1, KIND, BLOCK);       \
    }
#define OUTPUTS(MULTIPLY, KIND)                                                          \
    static void MULTIPLY##_##KIND(u32 begin, u32 end, void *ctx) {                       \
        const Product *s = ctx;                                                          \
        for (u32 pair = begin; pair < end; pair++) {                                     \
            u32 first = 2 * pair, columns = MIN(2u, s->outputs - first);                 \
            prefetch_outputs(s, first + 6, 2);                                           \
            for (u32 row = 0; row < s->rows; row += 4) {                                 \
                u32 rows = MIN(4u, s->rows - row);                                       \
                if (s->block == 32) PAIR(MULTIPLY, KIND, 32)                             \
                else PAIR(MULTIPLY, KIND, s->block)                                      \
            }                                                                            \
        }                                                                                \
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

/* Multiplies one row, rounded to bytes, by 4-bit or signed codes without widening them.
   Four outputs share the loads of the row. */
#ifdef DOT_U8_I8
enum { BYTES = 32 };
typedef u8 HalfBytes __attribute__((ext_vector_type(BYTES / 2)));
typedef u8 Bytes32 __attribute__((ext_vector_type(BYTES)));
typedef i8 SignedBytes32 __attribute__((ext_vector_type(BYTES)));
typedef i32 ByteSums __attribute__((ext_vector_type(BYTES / 4)));
typedef f32 ByteTotals __attribute__((ext_vector_type(BYTES / 4)));

INLINE ByteSums dot_bytes(const u8 *codes, const i8 *x, u32 block, Codes kind) {
    ByteSums sum = 0;
    for (u32 i = 0; i < block; i += BYTES) {
        SignedBytes32 v;
        memcpy(&v, x + i, sizeof v);
        if (kind == FOUR_BITS) {
            HalfBytes c;
            memcpy(&c, codes + i / 2, sizeof c);
            Bytes32 w = __builtin_shufflevector(
                c & 15, c >> 4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
                17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
            sum += (ByteSums)DOT_U8_I8(w, v);
        } else { /* the sign of a code moves to x, so that the code is unsigned */
            SignedBytes32 c;
            memcpy(&c, codes + i, sizeof c);
            SignedBytes32 sign = c >> 7; /* -1 where a code is negative */
            sum += (ByteSums)DOT_U8_I8((c ^ sign) - sign, (v ^ sign) - sign);
        }
    }
    return sum;
}

INLINE void dot_columns(const Product *s, u32 first, u32 columns, Codes kind, u32 block) {
    u32 n = s->inputs, blocks = n / block;
    const u8 *codes = s->codes + first * bytes_of(kind, n);
    const f32 *scale = s->scale + (size_t)first * blocks;
    ByteTotals total[4];
    for (u32 c = 0; c < columns; c++) total[c] = 0;
    for (u32 b = 0; b < blocks; b++)
        for (u32 c = 0; c < columns; c++) {
            const u8 *from = codes + c * bytes_of(kind, n) + b * bytes_of(kind, block);
            ByteSums a = dot_bytes(from, s->bytes + b * block, block, kind);
            f32 by = scale[c * blocks + b] * s->factors[b];
            total[c] += __builtin_convertvector(a, ByteTotals) * by;
        }
    for (u32 c = 0; c < columns; c++) {
        f32 sum = 0;
        for (u32 i = 0; i < BYTES / 4; i++) sum += total[c][i];
        sum += sum_of_offsets(s, first + c, 0);
        s->y[first + c] = sum;
    }
}

#define DOTS(KIND)                                                                       \
    static void dots_##KIND(u32 begin, u32 end, void *ctx) {                             \
        const Product *s = ctx;                                                          \
        for (u32 four = begin; four < end; four++) {                                     \
            u32 first = 4 * four, last = MIN(s->outputs, first + 4);                     \
            prefetch_outputs(s, first + 8, 4);                                           \
            if (last - first == 4 && s->block == 32) dot_columns(s, first, 4, KIND, 32); \
            else for (; first < last; first++) dot_columns(s, first, 1, KIND, s->block); \
        }                                                                                \
    }
DOTS(FOUR_BITS)
DOTS(SIGNED)

INLINE bool multiply_bytes(const Product *s, u32 grain) {
    if (!s->bytes) return false;
    parallel_for(s->kind == SIGNED ? dots_SIGNED : dots_FOUR_BITS, (void *)s,
                 CEIL_DIV(s->outputs, 4u), MAX(1, grain / 2));
    return true;
}
#define IN_BYTES(rows, block, kind) ((rows) == 1 && (block) % BYTES == 0 && (kind) != UNSIGNED)
#else
INLINE bool multiply_bytes(const Product *s, u32 grain) { return false; }
#define IN_BYTES(rows, block, kind) false
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
    i8 *bytes = rounded && IN_BYTES(rows, block, kind) ? (i8 *)work : 0;
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
    u32 grain = (1 << 18) / MAX(1, rows * inputs);
    if (multiply_bytes(&s, grain)) return;
    parallel_for(rounded ? multiply_rounded_all[kind] : multiply_all[kind], &s,
                 CEIL_DIV(outputs, 2u), MAX(1, grain));
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
