/* Matrix products of 8-bit integers with 32-bit sums: y = a b. Results are exact unless
   a sum overflows; then it wraps.

   b is packed by `pack_panels_i8` into panels of NR = 16 columns, [words][16 columns][4].
   A word consists of four numbers along k. A four-byte dot product (AVX-512 VNNI)
   processes a word in one operation; without it, bytes are widened to 16 bits and
   multiplied in pairs. The packing of rows of A depends on which of the two is used.

   Contents: sums of products; micro-kernels; rows of A; the product; panels of B. */
#include "integer.h"

#include INTRINSICS

typedef i32 Sums __attribute__((vector_size(4 * LANES)));
typedef i64 Words __attribute__((vector_size(4 * LANES)));
typedef i16 Halves __attribute__((vector_size(4 * LANES)));
typedef i8 Bytes __attribute__((vector_size(2 * LANES)));
enum { MR = LANES == 16 ? 8 : 4, NR = 16, WORD_BYTES = 4 * NR, TASK_ROWS = 64 };

/* --- sums of products ------------------------------------------------------------- */

#define MADD(s, a, b) ((s) + (Sums)MADD_I16(a, b))

/* --- micro-kernels ---------------------------------------------------------------- */

/* Computes out[ROWS][columns] from ROWS rows of A, `step` bytes apart, and two vectors
   of a panel; the second vector is `second` bytes after the first. Dot products give 2
   LANES columns; pairs give LANES columns, because two sums make a column. A single row
   is summed in CHAINS independent accumulators, each over every CHAINS-th word, to hide
   the latency. */
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
        q++, b += WORD_BYTES, a += sizeof(A);                                            \
    }
#define TILE(NAME, TARGET, A, SPLAT_OF, B, DOT, ROWS, CHAINS, ...)                       \
    TARGET static void NAME(const u8 *a, u32 step, u32 words, const i8 *b, u32 second,   \
                            i32 *out) {                                                  \
        Sums s[ROWS][2] = {0}, chains[CHAINS][ROWS][2] = {0};                            \
        u32 q = 0;                                                                       \
        while (CHAINS > 1 && q + CHAINS <= words)                                        \
            _Pragma("clang loop unroll(full)") for (u32 u = 0; u < CHAINS; u++)          \
                STEP(A, SPLAT_OF, B, DOT, ROWS, chains[u])                               \
        while (q < words) STEP(A, SPLAT_OF, B, DOT, ROWS, s)                             \
        for (u32 u = 0; u < CHAINS; u++)                                                 \
            for (u32 r = 0; r < ROWS; r++)                                               \
                s[r][0] += chains[u][r][0], s[r][1] += chains[u][r][1];                  \
        __VA_ARGS__                                                                      \
    }

#define MADD_WIDENED(s, a, b) MADD(s, a, __builtin_convertvector(b, Halves))
#define ADD_PAIRS(ROWS)                                                                  \
    i32 t[ROWS][2 * LANES];                                                              \
    memcpy(t, s, sizeof t);                                                              \
    for (u32 r = 0; r < ROWS; r++)                                                       \
        for (u32 j = 0; j < LANES; j++)                                                  \
            out[r * LANES + j] = (i32)((u32)t[r][2 * j] + (u32)t[r][2 * j + 1]);
TILE(madd_tile, , i64, Words, Bytes, MADD_WIDENED, MR, 1, ADD_PAIRS(MR))
TILE(madd_row, , i64, Words, Bytes, MADD_WIDENED, 1, 4, ADD_PAIRS(1))

#ifdef DOT_I8
#define DOT_WORDS(s, a, b) (Sums)DOT_I8(s, a, b)
TILE(dot_tile, WITH_DOT_I8, i32, Sums, Sums, DOT_WORDS, MR, 1,
     memcpy(out, s, sizeof s);)
TILE(dot_row, WITH_DOT_I8, i32, Sums, Sums, DOT_WORDS, 1, 4, memcpy(out, s, sizeof s);)
#else
#define dot_tile madd_tile
#define dot_row madd_row
static bool has_dot_i8(void) { return false; }
#endif

/* --- rows of A -------------------------------------------------------------------- */

typedef struct {
    const Windows *w; /* null: row i is x[i * k] to x[i * k + k - 1] */
    const u8 *x, *rows;
    const i8 *panels;
    void *y;
    const QuantizedEpilogue *end;
    u32 m, n, k, words, first; /* `first`: index of the first packed row */
    u32 step, columns, across; /* bytes per row; columns per tile; tiles per row */
    i32 zero;
    bool is_signed, uses_dot;
    Tile *tile, *row_tile;
} Product;

/* Copies n bytes. For 8 to 32 bytes, two copies that may overlap are faster than a call
   to memcpy. */
INLINE void copy_bytes(u8 *to, const u8 *x, u32 n) {
    if (n < 8 || n > 32) memcpy(to, x, n);
    else if (n < 16) memcpy(to, x, 8), memcpy(to + n - 8, x + n - 8, 8);
    else memcpy(to, x, 16), memcpy(to + n - 16, x + n - 16, 16);
}

/* Appends `n` bytes of x, or zero points if x is null, and returns the new end. The dot
   product requires unsigned bytes, so 128 is added to signed bytes. */
INLINE u8 *append(const Product *s, u8 *to, const u8 *x, u32 n) {
    u8 flip = s->uses_dot && s->is_signed ? 128 : 0;
    if (s->uses_dot) {
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

/* Appends the input of a window; adjacent positions are copied at once. */
static u8 *append_window(const Product *s, u32 i, u8 *to) {
    const Axis *a = s->w->axes[0];
    u32 c = (u32)s->w->in;
    Span p = span_of(a, output_of(a, i));
    i32 first = p.first[2], last = p.last[2], gap = a[2].gap;
    for (i32 t0 = 0; t0 < a[0].positions; t0++)
        for (i32 t1 = 0; t1 < a[1].positions; t1++) {
            bool inside = p.first[0] <= t0 && t0 < p.last[0] && p.first[1] <= t1 &&
                          t1 < p.last[1] && first < last;
            if (!inside) {
                to = append(s, to, 0, (u32)a[2].positions * c);
                continue;
            }
            i32 line = ((i32)p.image * a[0].size + p.at[0] + t0 * a[0].gap) * a[1].size;
            line = (line + p.at[1] + t1 * a[1].gap) * a[2].size + p.at[2];
            const u8 *x = s->x + (u32)(line + first * gap) * c;
            u32 n = (u32)(last - first);
            to = append(s, to, 0, (u32)first * c);
            if (gap == 1) to = append(s, to, x, n * c);
            else for (u32 t = 0; t < n; t++) to = append(s, to, x + t * (u32)gap * c, c);
            to = append(s, to, 0, (u32)(a[2].positions - last) * c);
        }
    return to;
}

static void pack_rows(u32 begin, u32 end, void *ctx) {
    const Product *s = ctx;
    for (u32 i = begin; i < end; i++) {
        u8 *row = (u8 *)s->rows + (u64)i * s->step, *to;
        u32 number = s->first + i;
        if (s->w) to = append_window(s, number, row);
        else to = append(s, row, s->x + (u64)number * s->k, s->k);
        memset(to, 0, (u32)(row + s->step - to));
    }
}

/* --- the product ------------------------------------------------------------------ */

/* Runs tasks. A task covers TASK_ROWS rows and the columns of one tile, so that its
   operands stay in the cache. */
static void multiply_tasks(u32 begin, u32 end, void *ctx) {
    const Product *s = ctx;
    u32 size = s->end->to <= TO_FLOAT32 ? 4 : 1;
    for (u32 task = begin; task < end; task++) {
        u32 from = task / s->across * TASK_ROWS, j = task % s->across * s->columns;
        u32 to = MIN(from + TASK_ROWS, s->m), width = MIN(s->columns, s->n - j);
        const i8 *b = s->panels + (u64)(j / NR) * s->words * WORD_BYTES + j % NR * 4;
        u32 second = !s->uses_dot ? 2 * LANES : width > NR ? s->words * WORD_BYTES : 0;
        for (u32 i = from; i < to;) {
            i32 out[MR * MAX_TILE_COLUMNS];
            u32 height = to - from < MR ? 1 : MR;
            u32 row = MIN(i, to - height); /* the last rows may be computed twice */
            const u8 *a = s->rows + (u64)row * s->step;
            (height == 1 ? s->row_tile : s->tile)(a, s->step, s->words, b, second, out);
            for (u32 r = 0; r < height; r++) {
                u8 *y = (u8 *)s->y + (u64)(s->first + row + r) * s->n * size;
                if (s->uses_dot)
                    store_row(s->end, out + r * 2 * LANES, j, width, 2 * LANES, y);
                else
                    store_row(s->end, out + r * LANES, j, width, LANES, y);
            }
            i = row + height;
        }
    }
}

/* Multiplies all rows, `at_once` rows at a time. Rows are packed into `memory` unless
   they can be read in place. */
static void multiply_rows(Product *s, u32 m, u8 *memory, u32 at_once) {
    bool in_place = !s->w && s->uses_dot && !s->is_signed && s->k % 4 == 0;
    s->columns = s->uses_dot ? 2 * LANES : LANES;
    s->across = CEIL_DIV(s->n, s->columns);
    s->step = s->words * (s->uses_dot ? 4 : 8);
    s->tile = s->uses_dot ? dot_tile : madd_tile;
    s->row_tile = s->uses_dot ? dot_row : madd_row;
    u64 work = (u64)TASK_ROWS * s->columns * (s->k + 1);
    for (s->first = 0; s->first < m; s->first += s->m) {
        s->m = in_place ? m : MIN(at_once, m - s->first);
        s->rows = in_place ? s->x : memory;
        if (!in_place) parallel_for(pack_rows, s, s->m, 65536 / (s->k + 1) + 1);
        u32 blocks = CEIL_DIV(s->m, TASK_ROWS);
        parallel_for(multiply_tasks, s, s->across * blocks, (u32)((1 << 21) / work) + 1);
    }
}

/* Returns whether each window i reads only element i of the input, as in a 1 x 1
   convolution. */
static bool is_plain(const Windows *w) {
    const Axis *a = w->axes[0];
    for (u32 d = 0; d < 3; d++)
        if (a[d].positions != 1 || a[d].first || a[d].step != 1 || a[d].outputs != a[d].size)
            return false;
    return true;
}

/* Multiplies by a packed b (see `pack_panels_i8`). `scale` contains 0, 1 or n elements.
   `memory` is a workspace of 2 N + 2 W * rows elements, where N is n rounded up to a
   multiple of 32 and W is the number of words of a panel. */
static void multiply_quantized(Product *s, u32 m, const i32 *sums, const void *x_zero,
                      const i32 *bias, const f32 *scale, const void *zero, i32 *memory,
                      u32 scales, u32 to, u32 rows) {
    u32 wide = CEIL_DIV(s->n, MAX_TILE_COLUMNS) * MAX_TILE_COLUMNS;
    s->words = CEIL_DIV(s->k, 4), s->uses_dot = has_dot_i8();
    s->zero = byte_at(x_zero, s->is_signed);
    i32 factor = s->zero + (s->uses_dot && s->is_signed ? 128 : 0);
    INSIDE(s->panels, (u64)CEIL_DIV(s->n, NR) * s->words * WORD_BYTES);
    INSIDE(memory, ((u64)2 * wide + (u64)2 * rows * s->words) * sizeof(i32));
    QuantizedEpilogue end = quantized_epilogue(s->n, memory, sums, factor, bias, scale,
                                               scales, to, zero);
    s->end = &end;
    multiply_rows(s, m, (u8 *)(memory + 2 * wide), rows);
}

/* Computes a convolution with one group. */
EXPORT("quantized_conv_i8")
void quantized_conv_i8(const Windows *w, const u8 *x, const i8 *panels, const i32 *sums,
                       const void *x_zero, const i32 *bias, const f32 *scale,
                       const void *zero, void *y, i32 *memory, u32 is_signed, u32 scales,
                       u32 to, u32 rows) {
    check_tensors(w, x, y, 1);
    Product s = {.w = is_plain(w) ? 0 : w, .x = x, .panels = panels, .y = y,
                 .n = (u32)w->out, .k = position_count(w->axes[0]) * (u32)w->in,
                 .is_signed = is_signed};
    u32 m = (u32)w->batch * output_count(w->axes[0]);
    multiply_quantized(&s, m, sums, x_zero, bias, scale, zero, memory, scales, to, rows);
}

/* Computes the product of a matrix [m, k] and the packed b. */
EXPORT("quantized_matmul_i8")
void quantized_matmul_i8(const u8 *a, const i8 *panels, const i32 *sums,
                         const void *a_zero, const i32 *bias, const f32 *scale,
                         const void *zero, void *y, i32 *memory, u32 is_signed,
                         u32 scales, u32 to, u32 rows, u32 m, u32 n, u32 k) {
    INSIDE(a, (u64)m * k);
    INSIDE(y, (u64)m * n * (to <= TO_FLOAT32 ? 4 : 1));
    Product s = {.x = a, .panels = panels, .y = y, .n = n, .k = k, .is_signed = is_signed};
    multiply_quantized(&s, m, sums, a_zero, bias, scale, zero, memory, scales, to, rows);
}

/* --- panels ----------------------------------------------------------------------- */

typedef struct {
    const i8 *b;
    i8 *panels;
    i32 *sums;
    u32 n, k, words;
    i32 row, column; /* strides of b along k and n */
} Packing;

typedef i8 Line __attribute__((vector_size(NR)));
typedef i16 Pairs __attribute__((vector_size(NR)));
#define ZIP8(a, b, n)                                                                    \
    (Pairs) __builtin_shufflevector(a, b, n, 16 + n, n + 1, 17 + n, n + 2, 18 + n,       \
                                    n + 3, 19 + n, n + 4, 20 + n, n + 5, 21 + n, n + 6,  \
                                    22 + n, n + 7, 23 + n)
#define ZIP16(a, b, n)                                                                   \
    __builtin_shufflevector(a, b, n, 8 + n, n + 1, 9 + n, n + 2, 10 + n, n + 3, 11 + n)

/* Interleaves four rows of b with contiguous columns into words. */
INLINE void interleave_rows(const i8 *b, i32 row, i8 *to) {
    Line x[4];
    for (u32 t = 0; t < 4; t++) memcpy(&x[t], b + (i64)t * row, NR);
    Pairs a = ZIP8(x[0], x[1], 0), c = ZIP8(x[2], x[3], 0), y[4];
    y[0] = ZIP16(a, c, 0), y[1] = ZIP16(a, c, 4);
    a = ZIP8(x[0], x[1], 8), c = ZIP8(x[2], x[3], 8);
    y[2] = ZIP16(a, c, 0), y[3] = ZIP16(a, c, 4);
    memcpy(to, y, WORD_BYTES);
}

/* Packs panels; rows and columns beyond the end are 0. */
static void pack_panels(u32 begin, u32 end, void *ctx) {
    const Packing *s = ctx;
    for (u32 i = begin; i < end; i++) {
        u32 j = i * NR, columns = MIN(NR, s->n - j);
        i8 *to = s->panels + (u64)i * s->words * WORD_BYTES;
        i32 sums[NR] = {0};
        for (u32 q = 0; q < s->words; q++, to += WORD_BYTES) {
            u32 rest = s->k - q * 4;
            const i8 *p = s->b + (i64)j * s->column + (i64)q * 4 * s->row;
            if (columns == NR && rest >= 4 && s->column == 1) {
                interleave_rows(p, s->row, to);
            } else
                for (u32 c = 0; c < NR; c++)
                    for (u32 t = 0; t < 4; t++)
                        to[c * 4 + t] = c < columns && t < rest
                            ? p[(i64)c * s->column + (i64)t * s->row] : 0;
            for (u32 c = 0; c < NR; c++)
                sums[c] += to[4 * c] + to[4 * c + 1] + to[4 * c + 2] + to[4 * c + 3];
        }
        memcpy(s->sums + j, sums, columns * sizeof(i32));
    }
}

/* Packs b, which is [k, n], and sums its columns. The panels have N K elements, where N
   is n rounded up to a multiple of NR and K is k rounded up to a multiple of 4. */
EXPORT("pack_panels_i8")
void pack_panels_i8(const i8 *b, i8 *panels, i32 *sums, u32 k, u32 n) {
    Packing p = {.b = b, .panels = panels, .sums = sums, .n = n, .k = k,
                 .words = CEIL_DIV(k, 4), .row = (i32)n, .column = 1};
    INSIDE(b, (u64)n * k);
    INSIDE(panels, (u64)CEIL_DIV(n, NR) * p.words * WORD_BYTES);
    INSIDE(sums, (u64)n * sizeof(i32));
    parallel_for(pack_panels, &p, CEIL_DIV(n, NR), 32768 / k / NR + 1);
}

/* b is [k, n], or [n, k] if `turn_b`. `memory` is a workspace of 3 N + (N + 2 * rows) W
   elements, where N is n rounded up to a multiple of 32 and W is k / 4 rounded up. */
EXPORT("matmul_integer_i8")
void matmul_integer_i8(const u8 *a, const i8 *b, i32 *y, i32 *memory, u32 m, u32 n, u32 k,
                       u32 is_signed, u32 turn_b, u32 rows) {
    u32 words = CEIL_DIV(k, 4), wide = CEIL_DIV(n, MAX_TILE_COLUMNS) * MAX_TILE_COLUMNS;
    bool uses_dot = has_dot_i8();
    i32 *sums = memory + 2 * wide, *panels = sums + wide;
    Packing p = {.b = b, .panels = (i8 *)panels, .sums = sums, .n = n, .k = k,
                 .words = words, .row = turn_b ? 1 : (i32)n, .column = turn_b ? (i32)k : 1};
    INSIDE(a, (u64)m * k);
    INSIDE(b, (u64)n * k);
    INSIDE(y, (u64)m * n * sizeof(i32));
    INSIDE(memory, ((u64)3 * wide + ((u64)wide + 2 * rows) * words) * sizeof(i32));
    parallel_for(pack_panels, &p, CEIL_DIV(n, NR), 32768 / k / NR + 1);
    i32 factor = uses_dot && is_signed ? 128 : 0;
    QuantizedEpilogue end = quantized_epilogue(n, memory, sums, factor, 0, 0, 0, TO_INT32,
                                               0);
    Product s = {.x = a, .panels = (const i8 *)panels, .y = y, .end = &end, .n = n, .k = k,
                 .words = words, .is_signed = is_signed, .uses_dot = uses_dot};
    multiply_rows(&s, m, (u8 *)(panels + (u64)wide * words), rows);
}
