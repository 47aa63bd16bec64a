/* Products of 8-bit integers that are summed in 32 bits: c = a b. They are exact; sums wrap.

   Elements along k are packed in words: four bytes where the processor has a product of
   four bytes (VNNI of AVX-512), else two of 16 bits. Rows of A are [words]; panels of B are
   [words][COLUMNS].

   Map: the sum of products of words; tiles; packing; the product.
*/
#include "plugrad.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

typedef i32 Sums __attribute__((vector_size(4 * LANES)));
enum { HEIGHT = LANES == 16 ? 8 : 4, COLUMNS = 2 * LANES, MOST_COLUMNS = 32 };
_Static_assert(MOST_COLUMNS % COLUMNS == 0, "Python allots memory for panels of 32");

/* --- the sum of products of words ------------------------------------------------- */

#if defined(__AVX512BW__)
#define PAIRS(s, a, b) ((s) + (Sums)_mm512_madd_epi16((__m512i)(a), (__m512i)(b)))
#elif defined(__AVX2__)
#define PAIRS(s, a, b) ((s) + (Sums)_mm256_madd_epi16((__m256i)(a), (__m256i)(b)))
#elif defined(__x86_64__)
#define PAIRS(s, a, b) ((s) + (Sums)_mm_madd_epi16((__m128i)(a), (__m128i)(b)))
#elif defined(__aarch64__)
INLINE Sums pairs(Sums s, int16x8_t a, int16x8_t b) {
    int32x4_t low = vmull_s16(vget_low_s16(a), vget_low_s16(b));
    return s + (Sums)vpaddq_s32(low, vmull_high_s16(a, b));
}
#define PAIRS(s, a, b) pairs(s, (int16x8_t)(a), (int16x8_t)(b))
#else
#define PAIRS(s, a, b) ((s) + (Sums)wasm_i32x4_dot_i16x8((v128_t)(a), (v128_t)(b)))
#endif

/* --- tiles ------------------------------------------------------------------------ */

/* out[ROWS][COLUMNS] of ROWS rows of A that are `step` words apart, and a panel of B. */
typedef void Tile(const i32 *a, u32 step, u32 words, const i32 *b, i32 *out);
#define TILE(NAME, TARGET, DOT, ROWS)                                                    \
    TARGET static void NAME(const i32 *a, u32 step, u32 words, const i32 *b, i32 *out) { \
        Sums s[ROWS][2] = {0}, b0, b1;                                                   \
        for (u32 q = 0; q < words; q++, b += COLUMNS) {                                  \
            memcpy(&b0, b, sizeof b0), memcpy(&b1, b + LANES, sizeof b1);                \
            _Pragma("clang loop unroll(full)") for (u32 r = 0; r < ROWS; r++) {          \
                Sums x = a[r * step + q] + (Sums){0};                                    \
                s[r][0] = DOT(s[r][0], x, b0), s[r][1] = DOT(s[r][1], x, b1);            \
            }                                                                            \
        }                                                                                \
        memcpy(out, s, sizeof s);                                                        \
    }

TILE(pairs_of_many, , PAIRS, HEIGHT)
TILE(pairs_of_one, , PAIRS, 1)

#if defined(__AVX512BW__)
#define VNNI __attribute__((target("avx512vnni")))
#define FOURS(s, a, b)                                                                   \
    (Sums)_mm512_dpbusd_epi32((__m512i)(s), (__m512i)(a), (__m512i)(b))
TILE(fours_of_many, VNNI, FOURS, HEIGHT)
TILE(fours_of_one, VNNI, FOURS, 1)

/* Whether the processor multiplies four bytes: bit 11 of what cpuid tells of it. */
static bool has_fours(void) {
    u32 a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 11 & 1);
}
#else
#define fours_of_many pairs_of_many
#define fours_of_one pairs_of_one
static bool has_fours(void) { return false; }
#endif

/* --- packing ---------------------------------------------------------------------- */

typedef struct {
    const u8 *a;
    const i8 *b;
    i32 *c, *rows, *panels, *less; /* less: what is subtracted from a column */
    u32 m, n, k, words, across;
    i32 b_row, b_column;
    bool is_signed, fours;
    Tile *many, *one;
} Product;

/* Signed bytes become unsigned ones by adding 128, where the processor multiplies these. */
static void pack_rows(u32 begin, u32 end, void *ctx) {
    const Product *s = ctx;
    for (u32 row = begin, k = s->k; row < end; row++) {
        const u8 *a = s->a + (u64)row * k;
        i32 *to = s->rows + (u64)row * s->words;
        to[s->words - 1] = 0;
        if (s->fours) {
            u8 *y = (u8 *)to, flip = s->is_signed ? 128 : 0;
            for (u32 q = 0; q < k; q++) y[q] = a[q] ^ flip;
        } else {
            i16 *y = (i16 *)to;
            if (s->is_signed) for (u32 q = 0; q < k; q++) y[q] = (i8)a[q];
            else for (u32 q = 0; q < k; q++) y[q] = a[q];
        }
    }
}

#if defined(__AVX512BW__)
typedef i8 Bytes __attribute__((vector_size(16)));
typedef i16 Halves __attribute__((vector_size(16)));
#define ZIP8(a, b, n)                                                                    \
    (Halves) __builtin_shufflevector(a, b, n, 16 + n, n + 1, 17 + n, n + 2, 18 + n,      \
                                     n + 3, 19 + n, n + 4, 20 + n, n + 5, 21 + n, n + 6, \
                                     22 + n, n + 7, 23 + n)
#define ZIP16(a, b, n)                                                                   \
    __builtin_shufflevector(a, b, n, 8 + n, n + 1, 9 + n, n + 2, 10 + n, n + 3, 11 + n)

/* Four rows of b, whose columns lie beside each other, as words. */
INLINE void zip_fours(const i8 *b, i32 row, i8 *to) {
    for (u32 j = 0; j + 16 <= COLUMNS; j += 16, b += 16, to += 64) {
        Bytes x[4];
        for (u32 t = 0; t < 4; t++) memcpy(&x[t], b + (i64)t * row, 16);
        Halves a = ZIP8(x[0], x[1], 0), c = ZIP8(x[2], x[3], 0), y[4];
        y[0] = ZIP16(a, c, 0), y[1] = ZIP16(a, c, 4);
        a = ZIP8(x[0], x[1], 8), c = ZIP8(x[2], x[3], 8);
        y[2] = ZIP16(a, c, 0), y[3] = ZIP16(a, c, 4);
        memcpy(to, y, 64);
    }
}
#endif

/* Two rows. */
INLINE void zip_pairs(const i8 *b, i32 row, i16 *to) {
    for (u32 j = 0; j < COLUMNS; j++) to[2 * j] = b[j], to[2 * j + 1] = b[row + j];
}

/* A panel; what of k or of the columns is missing is 0. */
#define PACK(NAME, T, GROUP, ZIP)                                                        \
    static void NAME(const Product *s, const i8 *b, u32 here, T *to) {                   \
        for (u32 q = 0; q < s->words; q++, to += GROUP * COLUMNS) {                      \
            u32 rest = s->k - q * GROUP;                                                 \
            const i8 *p = b + (i64)q * GROUP * s->b_row;                                 \
            if (here == COLUMNS && rest >= GROUP && s->b_column == 1) {                  \
                ZIP(p, s->b_row, to);                                                    \
                continue;                                                                \
            }                                                                            \
            for (u32 j = 0; j < COLUMNS; j++)                                            \
                for (u32 t = 0; t < GROUP; t++)                                          \
                    to[j * GROUP + t] = j < here && t < rest                             \
                        ? p[(i64)j * s->b_column + (i64)t * s->b_row] : 0;               \
        }                                                                                \
    }
#if defined(__AVX512BW__)
PACK(pack_fours, i8, 4, zip_fours)
#else
#define pack_fours(s, b, here, to) (void)(to)
#endif
PACK(pack_pairs, i16, 2, zip_pairs)

static void pack_panels(u32 begin, u32 end, void *ctx) {
    const Product *s = ctx;
    for (u32 i = begin; i < end; i++) {
        u32 j = i * COLUMNS, here = MIN(COLUMNS, s->n - j);
        const i8 *b = s->b + (i64)j * s->b_column;
        i32 *to = s->panels + (u64)j * s->words;
        if (s->fours) {
            pack_fours(s, b, here, (i8 *)to);
            /* 128 times the sums of columns: the row behind those of A is of 128 */
            s->one(s->rows + (u64)s->m * s->words, 0, s->words, to, s->less + j);
        } else {
            pack_pairs(s, b, here, (i16 *)to);
        }
    }
}

/* --- the product ------------------------------------------------------------------ */

static void multiply(u32 begin, u32 end, void *ctx) {
    const Product *s = ctx;
    for (u32 task = begin; task < end; task++) {
        u32 i = task / s->across * HEIGHT, j = task % s->across * COLUMNS;
        u32 height = MIN(HEIGHT, s->m - i), width = MIN(COLUMNS, s->n - j);
        i32 out[HEIGHT * COLUMNS];
        const i32 *a = s->rows + (u64)i * s->words, *b = s->panels + (u64)j * s->words;
        if (height == HEIGHT) s->many(a, s->words, s->words, b, out);
        else for (u32 r = 0; r < height; r++)
            s->one(a + (u64)r * s->words, 0, s->words, b, out + r * COLUMNS);
        for (u32 r = 0; r < height; r++) {
            i32 *c = s->c + (u64)(i + r) * s->n + j;
            const i32 *sums = out + r * COLUMNS;
            if (s->fours && s->is_signed)
                for (u32 q = 0; q < width; q++) c[q] = (i32)((u32)sums[q] - (u32)s->less[j + q]);
            else
                memcpy(c, sums, width * sizeof(i32));
        }
    }
}

/* b is [k, n], or [n, k] if it is turned. Memory has (m + 1 + N) (k + 1) / 2 + N words, N
   being n rounded up to a multiple of 32. */
EXPORT("matmul_integer_i8")
void matmul_integer_i8(const u8 *a, const i8 *b, i32 *c, i32 *memory, u32 m, u32 n, u32 k,
                       u32 is_signed, u32 turn_b) {
    bool fours = has_fours();
    u32 words = CEIL_DIV(k, fours ? 4 : 2), across = CEIL_DIV(n, COLUMNS);
    i32 *panels = memory + (u64)(m + 1) * words;
    Product s = {.a = a, .b = b, .c = c, .rows = memory, .panels = panels,
                 .less = panels + (u64)across * COLUMNS * words, .m = m, .n = n, .k = k,
                 .words = words, .across = across, .b_row = turn_b ? 1 : (i32)n,
                 .b_column = turn_b ? (i32)k : 1, .is_signed = is_signed, .fours = fours,
                 .many = fours ? fours_of_many : pairs_of_many,
                 .one = fours ? fours_of_one : pairs_of_one};
    INSIDE(a, (u64)m * k);
    INSIDE(b, (u64)n * k);
    INSIDE(c, (u64)m * n * sizeof(i32));
    memset(memory + (u64)m * words, 128, words * sizeof(i32));
    parallel_for(pack_rows, &s, m, 65536 / k + 1);
    parallel_for(pack_panels, &s, across, 32768 / k / COLUMNS + 1);
    u64 work = (u64)HEIGHT * COLUMNS * k;
    parallel_for(multiply, &s, across * CEIL_DIV(m, HEIGHT), (u32)((1 << 21) / work) + 1);
}
