/* Products of 8-bit integers that are summed in 32 bits: y = a b. They are exact; sums wrap.

   b is packed: panels of 16 columns, [words][16 columns][4], whose words are four numbers
   along k. `pack_panels_i8` packs weights so. A word is multiplied at once
   where the processor has a product of four bytes (VNNI of AVX-512); else bytes become 16
   bits, and pairs of them are multiplied. Rows of A are words of the one or the other.

   Map: the sum of products of words; tiles; rows of A; the product; panels.
*/
#include "integer.h"

#include INTRINSICS

typedef i32 Sums __attribute__((vector_size(4 * LANES)));
typedef i64 Words __attribute__((vector_size(4 * LANES)));
typedef i16 Halves __attribute__((vector_size(4 * LANES)));
typedef i8 Bytes __attribute__((vector_size(2 * LANES)));
enum { HEIGHT = LANES == 16 ? 8 : 4, PANEL = 16, WORD = 4 * PANEL, BLOCK = 64 };

/* --- the sum of products of words ------------------------------------------------- */

#define PAIRS(s, a, b) ((s) + (Sums)MADD_I16(a, b))

/* --- tiles ------------------------------------------------------------------------ */

/* out[ROWS][columns] of ROWS rows of A that are `step` bytes apart. The columns are those of
   two vectors of a panel, the second `second` bytes behind the first: 2 LANES of them, or,
   of pairs, of which two are a column, LANES. One row alone has TURNS sums, each of every
   TURNS-th word: a sum has to wait for the one before. */
typedef void Tile(const u8 *a, u32 step, u32 words, const i8 *b, u32 second, i32 *out);
#define STEP(A, SPLAT_OF, B, DOT, ROWS, sums)                                            \
    {                                                                                    \
        B b0, b1;                                                                        \
        memcpy(&b0, b, sizeof b0), memcpy(&b1, b + second, sizeof b1);                   \
        _Pragma("clang loop unroll(full)") for (u32 r = 0; r < ROWS; r++) {              \
            A word;                                                                      \
            memcpy(&word, a + r * step, sizeof word);                                    \
            SPLAT_OF x = word + (SPLAT_OF){0};                                           \
            sums[r][0] = DOT(sums[r][0], x, b0), sums[r][1] = DOT(sums[r][1], x, b1);    \
        }                                                                                \
        q++, b += WORD, a += sizeof(A);                                                  \
    }
#define TILE(NAME, TARGET, A, SPLAT_OF, B, DOT, ROWS, TURNS, ...)                        \
    TARGET static void NAME(const u8 *a, u32 step, u32 words, const i8 *b, u32 second,   \
                            i32 *out) {                                                  \
        Sums s[ROWS][2] = {0}, more[TURNS][ROWS][2] = {0};                               \
        u32 q = 0;                                                                       \
        while (TURNS > 1 && q + TURNS <= words)                                          \
            _Pragma("clang loop unroll(full)") for (u32 u = 0; u < TURNS; u++)           \
                STEP(A, SPLAT_OF, B, DOT, ROWS, more[u])                                 \
        while (q < words) STEP(A, SPLAT_OF, B, DOT, ROWS, s)                             \
        for (u32 u = 0; u < TURNS; u++)                                                  \
            for (u32 r = 0; r < ROWS; r++)                                               \
                s[r][0] += more[u][r][0], s[r][1] += more[u][r][1];                      \
        __VA_ARGS__                                                                      \
    }

#define WIDENED(s, a, b) PAIRS(s, a, __builtin_convertvector(b, Halves))
#define OF_PAIRS(ROWS)                                                                   \
    i32 t[ROWS][2 * LANES];                                                              \
    memcpy(t, s, sizeof t);                                                              \
    for (u32 r = 0; r < ROWS; r++)                                                       \
        for (u32 j = 0; j < LANES; j++)                                                  \
            out[r * LANES + j] = (i32)((u32)t[r][2 * j] + (u32)t[r][2 * j + 1]);
TILE(pairs_of_many, , i64, Words, Bytes, WIDENED, HEIGHT, 1, OF_PAIRS(HEIGHT))
TILE(pairs_of_one, , i64, Words, Bytes, WIDENED, 1, 4, OF_PAIRS(1))

#ifdef DOT_I8
#define FOURS(s, a, b) (Sums)DOT_I8(s, a, b)
TILE(fours_of_many, WITH_DOT_I8, i32, Sums, Sums, FOURS, HEIGHT, 1,
     memcpy(out, s, sizeof s);)
TILE(fours_of_one, WITH_DOT_I8, i32, Sums, Sums, FOURS, 1, 4, memcpy(out, s, sizeof s);)
#else
#define fours_of_many pairs_of_many
#define fours_of_one pairs_of_one
static bool has_dot_i8(void) { return false; }
#endif

/* --- rows of A -------------------------------------------------------------------- */

typedef struct {
    const Windows *w; /* 0: row i is x[i k] to x[i k + k - 1] */
    const u8 *x, *rows;
    const i8 *panels;
    void *y;
    const End *end;
    u32 m, n, k, words, first; /* rows are packed from the first on */
    u32 step, columns, across; /* bytes of a row; columns of a tile; tiles */
    i32 zero;
    bool is_signed, fours;
    Tile *many, *one;
} Product;

/* A call of memcpy takes longer than to copy a few bytes; two copies may overlap. */
INLINE void copy_bytes(u8 *to, const u8 *x, u32 n) {
    if (n < 8 || n > 32) memcpy(to, x, n);
    else if (n < 16) memcpy(to, x, 8), memcpy(to + n - 8, x + n - 8, 8);
    else memcpy(to, x, 16), memcpy(to + n - 16, x + n - 16, 16);
}

/* Puts bytes behind each other: `n` from x on, or zero points if there is no x. Signed ones
   become unsigned ones by adding 128, where the processor multiplies these. */
INLINE u8 *put(const Product *s, u8 *to, const u8 *x, u32 n) {
    u8 flip = s->fours && s->is_signed ? 128 : 0;
    if (s->fours) {
        if (!x) memset(to, (u8)s->zero ^ flip, n);
        else if (!flip) copy_bytes(to, x, n);
        else for (u32 q = 0; q < n; q++) to[q] = x[q] ^ flip;
        return to + n;
    }
    i16 *y = (i16 *)to;
    if (!x) for (u32 q = 0; q < n; q++) y[q] = (i16)s->zero;
    else if (s->is_signed) for (u32 q = 0; q < n; q++) y[q] = (i8)x[q];
    else for (u32 q = 0; q < n; q++) y[q] = x[q];
    return to + n * sizeof(i16);
}

/* What a window sees, position by position; of neighbours at once. */
static u8 *put_window(const Product *s, u32 i, u8 *to) {
    const Axis *a = s->w->axes[0];
    u32 c = (u32)s->w->in;
    Span p = span_of(a, output_of(a, i));
    i32 first = p.first[2], last = p.last[2], gap = a[2].gap;
    for (i32 t0 = 0; t0 < a[0].positions; t0++)
        for (i32 t1 = 0; t1 < a[1].positions; t1++) {
            bool inside = p.first[0] <= t0 && t0 < p.last[0] && p.first[1] <= t1 &&
                          t1 < p.last[1] && first < last;
            if (!inside) {
                to = put(s, to, 0, (u32)a[2].positions * c);
                continue;
            }
            i32 line = ((i32)p.image * a[0].size + p.at[0] + t0 * a[0].gap) * a[1].size;
            line = (line + p.at[1] + t1 * a[1].gap) * a[2].size + p.at[2];
            const u8 *x = s->x + (u32)(line + first * gap) * c;
            u32 n = (u32)(last - first);
            to = put(s, to, 0, (u32)first * c);
            if (gap == 1) to = put(s, to, x, n * c);
            else for (u32 t = 0; t < n; t++) to = put(s, to, x + t * (u32)gap * c, c);
            to = put(s, to, 0, (u32)(a[2].positions - last) * c);
        }
    return to;
}

static void pack_rows(u32 begin, u32 end, void *ctx) {
    const Product *s = ctx;
    for (u32 i = begin; i < end; i++) {
        u8 *row = (u8 *)s->rows + (u64)i * s->step, *to;
        u32 number = s->first + i;
        if (s->w) to = put_window(s, number, row);
        else to = put(s, row, s->x + (u64)number * s->k, s->k);
        memset(to, 0, (u32)(row + s->step - to));
    }
}

/* --- the product ------------------------------------------------------------------ */

/* A block of rows, and the columns of a tile: these stay in the cache. */
static void multiply(u32 begin, u32 end, void *ctx) {
    const Product *s = ctx;
    u32 size = s->end->to <= TO_FLOAT32 ? 4 : 1;
    for (u32 task = begin; task < end; task++) {
        u32 from = task / s->across * BLOCK, j = task % s->across * s->columns;
        u32 to = MIN(from + BLOCK, s->m), width = MIN(s->columns, s->n - j);
        const i8 *b = s->panels + (u64)(j / PANEL) * s->words * WORD + j % PANEL * 4;
        u32 second = !s->fours ? 2 * LANES : width > PANEL ? s->words * WORD : 0;
        for (u32 i = from; i < to;) {
            i32 out[HEIGHT * MOST_COLUMNS];
            u32 height = to - from < HEIGHT ? 1 : HEIGHT;
            u32 row = MIN(i, to - height); /* the last ones may be computed twice */
            const u8 *a = s->rows + (u64)row * s->step;
            (height == 1 ? s->one : s->many)(a, s->step, s->words, b, second, out);
            for (u32 r = 0; r < height; r++) {
                u8 *y = (u8 *)s->y + (u64)(s->first + row + r) * s->n * size;
                if (s->fours) end_row(s->end, out + r * 2 * LANES, j, width, 2 * LANES, y);
                else end_row(s->end, out + r * LANES, j, width, LANES, y);
            }
            i = row + height;
        }
    }
}

/* Runs the product of all rows, so many at once, which are packed in `memory` if they do not
   lie as they are needed. */
static void product(Product *s, u32 m, u8 *memory, u32 at_once) {
    bool as_it_is = !s->w && s->fours && !s->is_signed && s->k % 4 == 0;
    s->columns = s->fours ? 2 * LANES : LANES;
    s->across = CEIL_DIV(s->n, s->columns);
    s->step = s->words * (s->fours ? 4 : 8);
    s->many = s->fours ? fours_of_many : pairs_of_many;
    s->one = s->fours ? fours_of_one : pairs_of_one;
    u64 work = (u64)BLOCK * s->columns * (s->k + 1);
    for (s->first = 0; s->first < m; s->first += s->m) {
        s->m = as_it_is ? m : MIN(at_once, m - s->first);
        s->rows = as_it_is ? s->x : memory;
        if (!as_it_is) parallel_for(pack_rows, s, s->m, 65536 / (s->k + 1) + 1);
        u32 blocks = CEIL_DIV(s->m, BLOCK);
        parallel_for(multiply, s, s->across * blocks, (u32)((1 << 21) / work) + 1);
    }
}

/* Whether each window is an element of the input, one after the other. */
static bool is_plain(const Windows *w) {
    const Axis *a = w->axes[0];
    for (u32 d = 0; d < 3; d++)
        if (a[d].positions != 1 || a[d].first || a[d].step != 1 || a[d].outputs != a[d].size)
            return false;
    return true;
}

/* Runs a product with columns that `pack_panels_i8` has packed. `scale` has none, one, or
   as many elements as there are columns. Memory has 2 N + 2 rows W words, N being the
   columns rounded up to a multiple of 32, and W the words of a panel. */
static void quantized(Product *s, u32 m, const i32 *sums, const void *x_zero,
                      const i32 *bias, const f32 *scale, const void *zero, i32 *memory,
                      u32 scales, u32 to, u32 rows) {
    u32 wide = CEIL_DIV(s->n, MOST_COLUMNS) * MOST_COLUMNS;
    s->words = CEIL_DIV(s->k, 4), s->fours = has_dot_i8();
    s->zero = byte_at(x_zero, s->is_signed);
    i32 factor = s->zero + (s->fours && s->is_signed ? 128 : 0);
    INSIDE(s->panels, (u64)CEIL_DIV(s->n, PANEL) * s->words * WORD);
    INSIDE(memory, ((u64)2 * wide + (u64)2 * rows * s->words) * sizeof(i32));
    End end = end_of(s->n, memory, sums, factor, bias, scale, scales, to, zero);
    s->end = &end;
    product(s, m, (u8 *)(memory + 2 * wide), rows);
}

/* Of windows with one group. */
EXPORT("quantized_conv_i8")
void quantized_conv_i8(const Windows *w, const u8 *x, const i8 *panels, const i32 *sums,
                       const void *x_zero, const i32 *bias, const f32 *scale,
                       const void *zero, void *y, i32 *memory, u32 is_signed, u32 scales,
                       u32 to, u32 rows) {
    check_tensors(w, x, y, 1);
    Product s = {.w = is_plain(w) ? 0 : w, .x = x, .panels = panels, .y = y,
                 .n = (u32)w->out, .k = positions_of(w->axes[0]) * (u32)w->in,
                 .is_signed = is_signed};
    u32 m = (u32)w->batch * outputs_of(w->axes[0]);
    quantized(&s, m, sums, x_zero, bias, scale, zero, memory, scales, to, rows);
}

/* Of a matrix [m, k]. */
EXPORT("quantized_matmul_i8")
void quantized_matmul_i8(const u8 *a, const i8 *panels, const i32 *sums,
                         const void *a_zero, const i32 *bias, const f32 *scale,
                         const void *zero, void *y, i32 *memory, u32 is_signed,
                         u32 scales, u32 to, u32 rows, u32 m, u32 n, u32 k) {
    INSIDE(a, (u64)m * k);
    INSIDE(y, (u64)m * n * (to <= TO_FLOAT32 ? 4 : 1));
    Product s = {.x = a, .panels = panels, .y = y, .n = n, .k = k, .is_signed = is_signed};
    quantized(&s, m, sums, a_zero, bias, scale, zero, memory, scales, to, rows);
}

/* --- panels ----------------------------------------------------------------------- */

typedef struct {
    const i8 *b;
    i8 *panels;
    i32 *sums;
    u32 n, k, words;
    i32 row, column; /* the steps of b along k and n */
} Packing;

typedef i8 Line __attribute__((vector_size(PANEL)));
typedef i16 Pairs __attribute__((vector_size(PANEL)));
#define ZIP8(a, b, n)                                                                    \
    (Pairs) __builtin_shufflevector(a, b, n, 16 + n, n + 1, 17 + n, n + 2, 18 + n,       \
                                    n + 3, 19 + n, n + 4, 20 + n, n + 5, 21 + n, n + 6,  \
                                    22 + n, n + 7, 23 + n)
#define ZIP16(a, b, n)                                                                   \
    __builtin_shufflevector(a, b, n, 8 + n, n + 1, 9 + n, n + 2, 10 + n, n + 3, 11 + n)

/* Four rows of b, whose columns lie beside each other, as words. */
INLINE void zip(const i8 *b, i32 row, i8 *to) {
    Line x[4];
    for (u32 t = 0; t < 4; t++) memcpy(&x[t], b + (i64)t * row, PANEL);
    Pairs a = ZIP8(x[0], x[1], 0), c = ZIP8(x[2], x[3], 0), y[4];
    y[0] = ZIP16(a, c, 0), y[1] = ZIP16(a, c, 4);
    a = ZIP8(x[0], x[1], 8), c = ZIP8(x[2], x[3], 8);
    y[2] = ZIP16(a, c, 0), y[3] = ZIP16(a, c, 4);
    memcpy(to, y, WORD);
}

/* What of k or of the columns is missing is 0. */
static void pack_panels(u32 begin, u32 end, void *ctx) {
    const Packing *s = ctx;
    for (u32 i = begin; i < end; i++) {
        u32 j = i * PANEL, here = MIN(PANEL, s->n - j);
        i8 *to = s->panels + (u64)i * s->words * WORD;
        i32 sums[PANEL] = {0};
        for (u32 q = 0; q < s->words; q++, to += WORD) {
            u32 rest = s->k - q * 4;
            const i8 *p = s->b + (i64)j * s->column + (i64)q * 4 * s->row;
            if (here == PANEL && rest >= 4 && s->column == 1) {
                zip(p, s->row, to);
            } else
                for (u32 c = 0; c < PANEL; c++)
                    for (u32 t = 0; t < 4; t++)
                        to[c * 4 + t] = c < here && t < rest
                            ? p[(i64)c * s->column + (i64)t * s->row] : 0;
            for (u32 c = 0; c < PANEL; c++)
                sums[c] += to[4 * c] + to[4 * c + 1] + to[4 * c + 2] + to[4 * c + 3];
        }
        memcpy(s->sums + j, sums, here * sizeof(i32));
    }
}

/* b is [k, n]. Panels have n rounded up to a multiple of PANEL, times k rounded up to one of
   4 elements. */
EXPORT("pack_panels_i8")
void pack_panels_i8(const i8 *b, i8 *panels, i32 *sums, u32 k, u32 n) {
    Packing p = {.b = b, .panels = panels, .sums = sums, .n = n, .k = k,
                 .words = CEIL_DIV(k, 4), .row = (i32)n, .column = 1};
    INSIDE(b, (u64)n * k);
    INSIDE(panels, (u64)CEIL_DIV(n, PANEL) * p.words * WORD);
    INSIDE(sums, (u64)n * sizeof(i32));
    parallel_for(pack_panels, &p, CEIL_DIV(n, PANEL), 32768 / k / PANEL + 1);
}

/* b is [k, n], or [n, k] if it is turned. Memory has 3 N + (N + 2 rows) W words, N being n
   rounded up to a multiple of 32, and W k / 4 rounded up. */
EXPORT("matmul_integer_i8")
void matmul_integer_i8(const u8 *a, const i8 *b, i32 *y, i32 *memory, u32 m, u32 n, u32 k,
                       u32 is_signed, u32 turn_b, u32 rows) {
    u32 words = CEIL_DIV(k, 4), wide = CEIL_DIV(n, MOST_COLUMNS) * MOST_COLUMNS;
    bool fours = has_dot_i8();
    i32 *sums = memory + 2 * wide, *panels = sums + wide;
    Packing p = {.b = b, .panels = (i8 *)panels, .sums = sums, .n = n, .k = k,
                 .words = words, .row = turn_b ? 1 : (i32)n, .column = turn_b ? (i32)k : 1};
    INSIDE(a, (u64)m * k);
    INSIDE(b, (u64)n * k);
    INSIDE(y, (u64)m * n * sizeof(i32));
    INSIDE(memory, ((u64)3 * wide + ((u64)wide + 2 * rows) * words) * sizeof(i32));
    parallel_for(pack_panels, &p, CEIL_DIV(n, PANEL), 32768 / k / PANEL + 1);
    i32 factor = fours && is_signed ? 128 : 0;
    End end = end_of(n, memory, sums, factor, 0, 0, 0, TO_INT32, 0);
    Product s = {.x = a, .panels = (const i8 *)panels, .y = y, .end = &end, .n = n, .k = k,
                 .words = words, .is_signed = is_signed, .fours = fours};
    product(&s, m, (u8 *)(panels + (u64)wide * words), rows);
}
