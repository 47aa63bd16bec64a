/* The product of gemm.h, in blocks and on threads.

   Map: packing; blocks; few rows.
*/
#include "tile.h"

/* --- packing --------------------------------------------------------------------- */

/* Blocks of A and B. On a processor several runs may be under way, so every thread of it
   has its own; and where rows of A are contiguous, they are read where they lie. */
#if !READS_IN_PLACE
#ifdef THREADS
static _Alignas(64) f32 packed_a[MAX_THREADS][ROWS * DEPTH];
#else
static _Alignas(64) f32 packed_a[1][ROWS * DEPTH];
#endif
static _Alignas(64) f32 packed_b[DEPTH * COLUMNS];

static f32 *block_of_a(void) { return packed_a[thread_id()]; }
static f32 *block_of_b(void) { return packed_b; }
enum { FEW = 0, BESIDE = 1 };
enum { DIRECT = 0, LEAST_WORK = 0, MOST_WORK = 1, NEAR = 0, TASKS = 0 };
enum { PAGE = 1, MANY = 0, STRIP = 1 };
#define thread_count() (u32)1 /* on which nothing depends here */
#else
/* Products that are worth a thread, 5 us, and those of a task at most, 2 to 4 ms. */
enum { DIRECT = 1, LEAST_WORK = 1 << 19, MOST_WORK = 1 << 28, TASKS = 2 /* a thread */ };
/* Elements from the first row of A turned to the last, if it is read where it lies: 64
   pages, of which a processor knows where they are. */
enum { NEAR = 1 << 16 };
/* Rows that are multiples of a page apart share a few lines of the nearest cache: those of
   B are packed before they are used, and those of A if C has so many columns. */
enum { PAGE = 4096 / sizeof(f32), MANY = 256 };
/* Panels that are packed together; and of so few rows, B is packed before they are
   computed, not meanwhile. */
enum { BESIDE = 8, FEW = 64 };
enum { STRIP = 128 / PANEL_B }; /* panels of a task at least: each reads its rows of A */
static f32 *block_of_a(void) { return kept_memory(0, ROWS * DEPTH * sizeof(f32)); }
static f32 *block_of_b(void) { return kept_memory(1, DEPTH * COLUMNS * sizeof(f32)); }
#endif

static void pack_rows(const Gemm *g, const f32 *a, u32 i, u32 rows, u32 k, u32 depth,
                      f32 *block) {
    i32 row = g->a_row, column = g->a_column;
    u32 r = 0;
    if (row == 1) { /* whole panels side by side, as they are in lines of the cache */
        const f32 *p = a + i + (i32)k * column;
        for (u32 q = 0; q < depth; q++, p += column)
            for (r = 0; r + PANEL_A <= rows; r += PANEL_A)
                memcpy(block + r * depth + q * PANEL_A, p + r, PANEL_A * sizeof(f32));
    }
    for (; r < rows; r += 4) {
        const f32 *p = a + (i32)(i + r) * row + (i32)k * column;
        f32 *to = row_of_panel(block, r, depth);
        u32 here = MIN(4, rows - r), q = 0;
        INSIDE(p, 4);
        INSIDE(p + (i32)(here - 1) * row + (i32)(depth - 1) * column, 4);
        if (here == 4 && column == 1)
            for (; q + 4 <= depth; q += 4, p += 4, to += 4 * PANEL_A)
                turn4(p, p + row, p + 2 * row, p + 3 * row, to, PANEL_A);
        for (; q < depth; q++, p += column, to += PANEL_A)
            for (u32 t = 0; t < 4; t++) to[t] = t < here ? p[(i32)t * row] : 0;
    }
}

/* One panel of B: columns j.., rows k.., as [k][PANEL_B]. */
static void pack_panel(const f32 *b, i32 row, i32 column, u32 here, u32 depth,
                       f32 *to) {
    u32 q = 0;
    INSIDE(b, 4);
    INSIDE(b + (i32)(here - 1) * column + (i32)(depth - 1) * row, 4);
    INSIDE(to, PANEL_B * depth * 4);
    if (here == PANEL_B && column == 1) {
        for (; q < depth; q++, b += row, to += PANEL_B) memcpy(to, b, PANEL_B * 4);
    } else if (here == PANEL_B && row == 1) {
        for (; q + 4 <= depth; q += 4, b += 4, to += 4 * PANEL_B)
            for (u32 t = 0; t < PANEL_B; t += 4) {
                const f32 *c = b + (i32)t * column;
                turn4(c, c + column, c + 2 * column, c + 3 * column, to + t, PANEL_B);
            }
    }
    for (; q < depth; q++, b += row, to += PANEL_B)
        for (u32 t = 0; t < PANEL_B; t++) to[t] = t < here ? b[(i32)t * column] : 0;
}

/* Several panels whose columns are all there, row by row: a row of one panel is a line of
   the cache, of many far from each other, and what lies behind it is fetched with it. */
static void pack_beside(const f32 *b, i32 row, u32 panels, u32 depth, f32 *to) {
    for (u32 q = 0; q < depth; q++, b += row, to += PANEL_B)
        for (u32 p = 0; p < panels; p++)
            memcpy(to + (u64)p * PANEL_B * depth, b + p * PANEL_B, PANEL_B * 4);
}

/* --- blocks ---------------------------------------------------------------------- */

/* What the threads work on, and how C is cut: a block of B for some batches or, if tasks
   pack what they read, all of B. */
typedef struct {
    const Gemm *g;
    f32 *b;                          /* a block of B, packed */
    u32 batch, j, columns, k, depth; /* which: for batch and those after it */
    u32 panels;                      /* of B in a batch */
    u32 height, across;              /* rows and panels of a task */
    u32 down, tasks;                 /* tasks in a batch: down in a column, and all */
    u32 beside;                      /* batches whose rows of C are one row: one after the
                                        other writes a part of it; 1 if there are none */
    bool a_in_place;                 /* A is read where it lies */
    bool in_place; /* B, too; a task copies it while its first rows are computed */
    bool own;      /* a task packs B itself, one block after the other */
} Blocks;

static const f32 *part(const f32 *x, const i32 *at, u32 batch, i32 step) {
    return x + (at ? at[batch] : (i32)batch * step);
}

/* Panel i, counted through the batches. */
static void pack_number(const Blocks *s, u32 i, f32 *to) {
    const Gemm *g = s->g;
    u32 batch = i / s->panels, j = (i % s->panels) * PANEL_B;
    const f32 *b = part(g->b, g->b_at, s->batch + batch, g->b_batch);
    b += (i32)s->k * g->b_row + (i32)(s->j + j) * g->b_column;
    pack_panel(b, g->b_row, g->b_column, MIN(PANEL_B, s->columns - j), s->depth, to);
}

static void pack_panels(u32 begin, u32 end, void *ctx) {
    const Blocks *s = ctx;
    for (u32 i = begin; i < end; i++)
        pack_number(s, i, s->b + i * PANEL_B * s->depth);
}

/* B for the rows of A behind the first ones. */
static Right copied(Right b, u32 depth) {
    return b.to ? (Right){b.to, b.last, PANEL_B, PANEL_B * (i64)depth, 0} : b;
}

/* The product of some rows of A and the panels of B from column j to `last`. */
static void multiply(const Blocks *s, Left a, u32 height, f32 *const *rows, Right b, u32 j,
                     u32 last, const Finish *f) {
    bool add = s->k > 0, quick = !f || f->activation <= RELU6;
#if !READS_IN_PLACE
    for (u32 at = j; at < last; at += PANEL_B, b.at += b.next) {
        Left panel = a;
        for (u32 i = 0; i < height; i += PANEL_A, panel.at += PANEL_A * s->depth)
            tile(panel, s->depth, b, rows + i, MIN(PANEL_A, height - i), s->j + at,
                 MIN(PANEL_B, last - at), add, quick ? f : 0);
    }
#else
    for (u32 i = 0; i < height; i += PANEL_A, a.at += PANEL_A * s->depth) {
        tile(a, s->depth, b, rows + i, MIN(PANEL_A, height - i), s->j + j, last - j, add,
             quick ? f : 0);
        b = copied(b, s->depth);
    }
#endif
    for (u32 r = 0; r < height && !quick; r++)
        finish(f, rows[r] + s->j + j, s->j + j, last - j);
}

/* The panels of B from column j to `last`, for so many rows of A. */
static Right panels_of_b(const Blocks *s, u32 batch, u32 j, u32 last, u32 rows) {
    const Gemm *g = s->g;
    i64 size = PANEL_B * (i64)s->depth;
    u32 first = batch * s->panels + j / PANEL_B, count = CEIL_DIV(last - j, PANEL_B);
    f32 *to = s->own ? block_of_b() : s->b + first * size;
    const f32 *b = part(g->b, g->b_at, s->batch + batch, g->b_batch);
    b += (i32)s->k * g->b_row + (i32)(s->j + j) * g->b_column;
    u32 whole = g->b_column == 1 ? (last - j) / PANEL_B : 0;
    bool copies = s->in_place && rows > FEW;
    for (u32 q = 0, n; s->own && !copies && q < whole; q += n) {
        n = MIN(BESIDE, whole - q);
        pack_beside(b + q * PANEL_B, g->b_row, n, s->depth, to + q * size);
    }
    for (u32 q = whole; s->own && q < count; q++)
        pack_number(s, first + q, to + q * size);
    Right packed = {to, to + (count - 1) * size, PANEL_B, size, 0};
    if (!copies) return packed;
    return (Right){b, packed.last, g->b_row, PANEL_B, rows > PANEL_A ? to : 0};
}

/* Tells whether A is read where it lies. Turned, it is if few columns of C do not pay for
   packing, or if its rows are near to each other. */
static bool reads_in_place(const Gemm *g, u32 depth) {
    if (!DIRECT || g->pack) return false;
    if (g->starts) return true;
    if (g->a_column == 1) return g->a_row % PAGE || g->n < MANY;
    i64 far = (i64)depth * g->a_column;
    return g->a_row == 1 && (g->n <= 2 * PANEL_B || (-NEAR <= far && far <= NEAR));
}

/* Rows i.. of A, which are packed unless they can be read where they lie. */
static Left rows_of_a(const Blocks *s, const f32 *a, u32 i, u32 height) {
    const Gemm *g = s->g;
    f32 *block = block_of_a();
    if (DIRECT && g->starts) {
        const i32 *starts = g->starts + (g->turned ? s->k : i);
        const i32 *places = g->places + (g->turned ? i : s->k);
        return (Left){g->turned ? IN_COLUMNS : INDEXED, a, 0, starts, places};
    }
    if (s->a_in_place && height % EXACT == 0) {
        a += (i32)i * g->a_row + (i32)s->k * g->a_column;
        if (g->a_column == 1) return (Left){IN_ROWS, .at = a, .step = g->a_row};
        return (Left){PACKED, .at = a, .step = g->a_column};
    }
    (g->pack ? g->pack : pack_rows)(g, a, i, height, s->k, s->depth, block);
    return (Left){PACKED, .at = block, .step = PANEL_A};
}

/* Rows i.. of C, at most ROWS, from column j to `last`. */
static void block(const Blocks *s, u32 which, u32 i, u32 height, u32 j, u32 last, Right b) {
    const Gemm *g = s->g;
    f32 *rows[ROWS], *c = g->c + (i32)which * g->c_batch;
    Left a = rows_of_a(s, part(g->a, g->a_at, which, g->a_batch), i, height);
    for (u32 r = 0; r < height; r++)
        rows[r] = c + (g->offset ? g->offset(g, i + r) : (i + r) * (u32)g->c_row);
    CHECK(height <= ROWS && s->depth <= DEPTH, "a block is too large");
    INSIDE(rows[0], g->n * 4);
    INSIDE(rows[height - 1], g->n * 4);
    Finish f, *end_of = 0;
    if (g->end && s->k + s->depth == g->k) {
        f = *g->end, end_of = &f;
        if (f.bias) f.bias += which * (u32)g->finish_batch;
        if (f.slopes) f.slopes += which * (u32)g->finish_batch;
    }
    multiply(s, a, height, rows, b, j, last, end_of);
}

/* Rows i to `below` of C, columns j to `last`, at most COLUMNS: of one block of the sum, or
   of all. */
static void column_of_blocks(Blocks s, u32 batch, u32 i, u32 below, u32 j, u32 last) {
    u32 step = s.a_in_place ? PANEL_A : ROWS, depth = s.depth;
    do {
        s.depth = MIN(depth, s.g->k - s.k);
        Right b = panels_of_b(&s, batch, j, last, below - i);
        for (u32 r = i; r < below; r += step, b = copied(b, s.depth))
            block(&s, s.batch + batch, r, MIN(step, below - r), j, last, b);
        s.k += s.depth;
    } while (s.own && s.k < s.g->k);
}

static void tasks(u32 begin, u32 end, void *ctx) {
    const Blocks *s = ctx;
    for (u32 task = begin; task < end; task++) {
        u32 all = s->tasks * s->beside, in = task % all;
        u32 batch = task / all * s->beside + in % s->beside, at = in / s->beside;
        u32 i = (at % s->down) * s->height, j = (at / s->down) * s->across * PANEL_B;
        u32 below = MIN(s->g->m, i + s->height);
        u32 last = MIN(s->columns, j + s->across * PANEL_B);
        for (; j < last; j += COLUMNS)
            column_of_blocks(*s, batch, i, below, j, MIN(last, j + COLUMNS));
    }
}

/* Cuts C into tasks. On processors, a task of matrices is a batch or, where these are few,
   strips of columns, or parts of them, if A is read row by row and is not much larger, or
   rows. What windows see is cut into blocks of rows, and smaller ones so that there are enough. */
static void cut(Blocks *s, u32 m, u32 batches) {
    enum { ENOUGH = 8, LEAST = MAX(16, 2 * PANEL_A) };
    const Gemm *g = s->g;
    u32 threads = thread_count(), uneven = batches > threads && batches % threads;
    u32 parts = CEIL_DIV((uneven ? 4 : 1) * TASKS * threads, batches);
    parts = MAX(parts, (u32)((u64)m * s->columns * g->k / MOST_WORK));
    bool are_matrices = DIRECT && !g->pack && !g->starts;
    bool beside = DIRECT && batches == g->batches && (i64)batches * g->c_batch <= g->c_row;
    s->height = m, s->across = s->panels, s->beside = beside ? batches : 1;
    if (!are_matrices && (!DIRECT || threads > 1)) {
        s->height = HEIGHT;
        if (CEIL_DIV(m, HEIGHT) * batches < ENOUGH) {
            u32 fair = CEIL_DIV(m * batches, ENOUGH * PANEL_A) * PANEL_A;
            s->height = MIN(HEIGHT, MAX(LEAST, fair));
        }
        u32 rest = CEIL_DIV(ENOUGH, CEIL_DIV(m, s->height) * batches);
        if (rest > 1) s->across = MAX(8, CEIL_DIV(s->panels, rest));
    } else if (threads > 1 && parts > 1) {
        if (g->a_column == 1 && m <= 2 * s->columns) {
            u32 least = MIN(STRIP, CEIL_DIV(s->panels, threads));
            s->across = MAX(least, s->panels / parts);
            u32 down = CEIL_DIV(parts, CEIL_DIV(s->panels, s->across));
            s->height = CEIL_DIV(m, down * PANEL_A) * PANEL_A;
        } else
            s->height = MIN(HEIGHT, CEIL_DIV(m, parts * PANEL_A) * PANEL_A);
    }
    if (s->beside > 1) s->height = MIN(s->height, HEIGHT);
    s->down = CEIL_DIV(m, s->height);
    s->tasks = s->down * CEIL_DIV(s->panels, s->across);
}

static bool is_few(const Gemm *g);
static void few(const Gemm *g);

/* Runs the tasks of some batches, over so much of the sum. */
static void run(Blocks *s, u32 batches, u32 depth) {
    u64 task = (u64)s->g->m * s->columns * depth / s->tasks;
    parallel_for(tasks, s, s->tasks * batches, (u32)(LEAST_WORK / task) + 1);
}

/* One block of B after the other, which the threads pack together. */
static void take_turns(Blocks s, u32 depth) {
    const Gemm *g = s.g;
    for (s.j = 0; s.j < g->n; s.j += COLUMNS) {
        s.columns = MIN(COLUMNS, g->n - s.j), s.panels = CEIL_DIV(s.columns, PANEL_B);
        u32 room = DEPTH * COLUMNS / (s.panels * PANEL_B * MIN(DEPTH, g->k));
        for (s.batch = 0; s.batch < g->batches; s.batch += room) {
            u32 batches = MIN(room, g->batches - s.batch);
            cut(&s, g->m, batches);
            for (s.k = 0; s.k < g->k; s.k += depth) {
                s.depth = MIN(depth, g->k - s.k);
                parallel_for(pack_panels, &s, s.panels * batches, 16);
                run(&s, batches, s.depth);
            }
        }
    }
}

void gemm(const Gemm *g) {
    if (is_few(g)) {
        few(g);
        return;
    }
    bool is_matrix = DIRECT && !g->starts && !g->pack;
    u32 depth = DEPTH;
    if (DIRECT) depth = CEIL_DIV(CEIL_DIV(g->k, CEIL_DIV(g->k, DEPTH)), 8) * 8;
    Blocks s = {.g = g, .b = block_of_b(), .columns = g->n, .depth = depth};
    s.panels = CEIL_DIV(g->n, PANEL_B), s.a_in_place = reads_in_place(g, depth);
    s.in_place = is_matrix && g->b_column == 1 && g->b_row % PAGE && g->n >= PANEL_B;
    cut(&s, g->m, g->batches);
    s.own = DIRECT && (s.down == 1 || s.in_place);
    if (s.own)
        run(&s, g->batches, g->k);
    else
        take_turns(s, depth);
}

/* --- few rows -------------------------------------------------------------------- */

/* c = a b for one row a, without packing: b is read once, four rows at a time. */
#if !READS_IN_PLACE
static void by_rows(const f32 *a, i32 step, const f32 *b, i32 row, u32 k, f32 *c,
                    u32 n) {
    memset(c, 0, n * sizeof(f32));
    u32 q = 0;
    for (; q + 4 <= k; q += 4, a += 4 * step, b += 4 * row) {
        const f32 *b1 = b + row, *b2 = b1 + row, *b3 = b2 + row;
        f32 a0 = a[0], a1 = a[step], a2 = a[2 * step], a3 = a[3 * step];
        v4 s0 = SPLAT(a0), s1 = SPLAT(a1), s2 = SPLAT(a2), s3 = SPLAT(a3);
        u32 j = 0;
        for (; j + 4 <= n; j += 4) {
            v4 y = FMA(s0, LOAD(b + j), LOAD(c + j));
            y = FMA(s1, LOAD(b1 + j), y), y = FMA(s2, LOAD(b2 + j), y);
            STORE(c + j, FMA(s3, LOAD(b3 + j), y));
        }
        for (; j < n; j++) c[j] += a0 * b[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j];
    }
    for (; q < k; q++, a += step, b += row)
        for (u32 j = 0; j < n; j++) c[j] += *a * b[j];
}

/* The same where the columns of b are contiguous, and a is. */
static void by_columns(const f32 *a, const f32 *b, i32 column, u32 k, f32 *c, u32 n) {
    for (u32 j = 0; j < n; j++, b += column) {
        v4 s0 = SPLAT(0), s1 = s0;
        u32 q = 0;
        for (; q + 8 <= k; q += 8) {
            s0 = FMA(LOAD(a + q), LOAD(b + q), s0);
            s1 = FMA(LOAD(a + q + 4), LOAD(b + q + 4), s1);
        }
        f32 sum = sum_of(ADD(s0, s1));
        for (; q < k; q++) sum += a[q] * b[q];
        c[j] = sum;
    }
}
#else
static void by_rows(const f32 *a, i32 step, const f32 *b, i32 row, u32 k, f32 *restrict c,
                    u32 n) {
#pragma clang fp contract(fast)
    memset(c, 0, n * sizeof(f32));
    u32 q = 0;
    for (; q + 4 <= k; q += 4, a += 4 * step, b += 4 * (i64)row) {
        const f32 *b1 = b + row, *b2 = b1 + row, *b3 = b2 + row;
        f32 a0 = a[0], a1 = a[step], a2 = a[2 * step], a3 = a[3 * step];
        for (u32 j = 0; j < n; j++)
            c[j] = a3 * b3[j] + (a2 * b2[j] + (a1 * b1[j] + (a0 * b[j] + c[j])));
    }
    for (; q < k; q++, a += step, b += row)
        for (u32 j = 0; j < n; j++) c[j] += *a * b[j];
}

/* The same where the columns of b are contiguous, and a is. */
static void by_columns(const f32 *a, const f32 *b, i32 column, u32 k, f32 *c, u32 n) {
#pragma clang fp contract(fast)
    enum { SUMS = 4 };
    for (u32 j = 0; j < n; j++, b += column) {
        Vector s[SUMS] = {0};
        u32 q = 0;
        for (; q + SUMS * WIDTH <= k; q += SUMS * WIDTH)
            for (u32 i = 0; i < SUMS; i++)
                s[i] += *(const Vector *)(a + q + i * WIDTH) *
                        *(const Vector *)(b + q + i * WIDTH);
        Vector all = (s[0] + s[1]) + (s[2] + s[3]);
        f32 sum = 0;
        for (u32 i = 0; i < WIDTH; i++) sum += all[i];
        for (; q < k; q++) sum += a[q] * b[q];
        c[j] = sum;
    }
}
#endif

/* Columns of a task. On processors it has long parts of the rows of B, which are fetched
   ahead, and whose sums stay in the nearest cache: as many as give each thread a task. */
enum { PIECE = 256, LONGEST = 4096 };

static u32 piece_of(u32 n) {
    u32 fair = CEIL_DIV(n, thread_count() * PIECE) * PIECE;
    return DIRECT ? MIN(fair, LONGEST) : PIECE;
}

static void pieces(u32 begin, u32 end, void *ctx) {
    const Gemm *g = ctx;
    u32 piece = piece_of(g->n), across = CEIL_DIV(g->n, piece);
    for (u32 task = begin; task < end; task++) {
        u32 batch = task / across, j = task % across * piece, n = MIN(piece, g->n - j);
        const f32 *b = part(g->b, g->b_at, batch, g->b_batch) + (i32)j * g->b_column;
        for (u32 i = 0; i < g->m; i++) {
            const f32 *a = part(g->a, g->a_at, batch, g->a_batch) + (i32)i * g->a_row;
            f32 *c = g->c + (i32)batch * g->c_batch + (i32)i * g->c_row + j;
            if (g->b_column == 1 || g->a_column != 1)
                by_rows(a, g->a_column, b, g->b_row, g->k, c, n);
            else
                by_columns(a, b, g->b_column, g->k, c, n);
            if (g->end) finish(g->end, c, (u32)(batch * g->finish_batch) + j, n);
        }
    }
}

/* Tells whether packing would cost more than it saves. */
static bool is_few(const Gemm *g) {
    if (g->pack || g->offset || g->starts) return false;
    if (g->n == 1) return g->c_row == 1 && g->b_row == 1;
    bool small = g->m < 4 || (u64)g->m * g->n * g->k <= 512;
    return small && (g->b_column == 1 || g->a_column == 1);
}

/* A column is taken for a row: cᵀ = bᵀ aᵀ. */
static void few(const Gemm *g) {
    Gemm t = *g;
    bool turn = g->n == 1;
    if (turn) {
        t.m = 1, t.n = g->m, t.end = 0;
        t.a = g->b, t.a_at = g->b_at, t.a_batch = g->b_batch, t.a_column = g->b_row;
        t.b = g->a, t.b_at = g->a_at, t.b_batch = g->a_batch;
        t.b_row = g->a_column, t.b_column = g->a_row;
    }
    u32 piece = piece_of(t.n);
    u64 work = (u64)t.m * t.k * MIN(t.n, piece);
    u32 grain = (u32)MAX(1, 65536 / work);
    parallel_for(pieces, &t, t.batches * CEIL_DIV(t.n, piece), grain);
    if (turn && g->end)
        for (u32 i = 0; i < g->batches * g->m; i++)
            finish(g->end, g->c + i, i / g->m * (u32)g->finish_batch, 1);
}
