/* The matrix product of gemm.h, blocked for the caches and run on all threads.

   Contents: packing; blocking; products with few rows, which are not packed.
*/
#include "tile.h"

/* --- packing --------------------------------------------------------------------- */

/* Buffers for packed blocks of A and B. On native targets several products may run at the
   same time, so each thread has its own buffers, and contiguous rows of A are read in
   place. */
#if !READS_IN_PLACE
#ifdef THREADS
static _Alignas(64) f32 packed_a[MAX_THREADS][MC * KC];
#else
static _Alignas(64) f32 packed_a[1][MC * KC];
#endif
static _Alignas(64) f32 packed_b[KC * NC];

static f32 *a_buffer(void) { return packed_a[thread_id()]; }
static f32 *b_buffer(void) { return packed_b; }
enum { PACK_FIRST_MAX_ROWS = 0, PACK_GROUP_PANELS = 1 };
enum { TASK_MIN_MULTIPLY_ADDS = 0, TASK_MAX_MULTIPLY_ADDS = 1, TASKS_PER_THREAD = 0 };
enum { IN_PLACE_MAX_SPAN = 0, PAGE_ELEMENTS = 1, PACK_A_MIN_COLUMNS = 0 };
enum { TASK_MIN_PANELS = 1 };
#else
/* The minimum number of multiply-adds for which waking a thread (about 5 us) pays off,
   and the maximum number per task (2 to 4 ms). */
enum { TASK_MIN_MULTIPLY_ADDS = 1 << 19, TASK_MAX_MULTIPLY_ADDS = 1 << 28 };
enum { TASKS_PER_THREAD = 2 };
/* The maximum distance between the first and the last row of a transposed A that is
   read in place, in elements: 64 pages, which fit the TLB. */
enum { IN_PLACE_MAX_SPAN = 1 << 16 };
/* Rows that are a multiple of a page apart compete for the same few lines of the
   first-level cache. Such rows of B are always packed, and those of A if C has at least
   PACK_A_MIN_COLUMNS columns. */
enum { PAGE_ELEMENTS = 4096 / sizeof(f32), PACK_A_MIN_COLUMNS = 256 };
/* The number of panels of B that are packed together. If A has at most
   PACK_FIRST_MAX_ROWS rows, B is packed before any rows are computed; otherwise, it may
   be packed while the first rows are computed. */
enum { PACK_GROUP_PANELS = 8, PACK_FIRST_MAX_ROWS = 64 };
/* A task has at least this many panels, because each task has to read its rows of A. */
enum { TASK_MIN_PANELS = 128 / NR };
static f32 *a_buffer(void) { return thread_scratch(0, MC * KC * sizeof(f32)); }
static f32 *b_buffer(void) { return thread_scratch(1, KC * NC * sizeof(f32)); }
#endif

static void pack_a(const Gemm *g, const f32 *a, u32 i, u32 rows, u32 k, u32 depth,
                   f32 *block) {
    i32 row = g->a_row, column = g->a_column;
    u32 r = 0;
    if (row == 1) { /* for each k, pack all full panels, which share cache lines */
        const f32 *p = a + i + (i32)k * column;
        for (u32 q = 0; q < depth; q++, p += column)
            for (r = 0; r + PACKED_MR <= rows; r += PACKED_MR)
                memcpy(block + r * depth + q * PACKED_MR, p + r, PACKED_MR * sizeof(f32));
    }
    for (; r < rows; r += 4) {
        const f32 *p = a + (i32)(i + r) * row + (i32)k * column;
        f32 *to = packed_row(block, r, depth);
        u32 used = MIN(4, rows - r), q = 0;
        INSIDE(p, 4);
        INSIDE(p + (i32)(used - 1) * row + (i32)(depth - 1) * column, 4);
        if (used == 4 && column == 1)
            for (; q + 4 <= depth; q += 4, p += 4, to += 4 * PACKED_MR)
                transpose4x4(p, p + row, p + 2 * row, p + 3 * row, to, PACKED_MR);
        for (; q < depth; q++, p += column, to += PACKED_MR)
            for (u32 t = 0; t < 4; t++) to[t] = t < used ? p[(i32)t * row] : 0;
    }
}

/* Packs one panel of B, which begins at `b`, as [depth][NR]. */
static void pack_b_panel(const f32 *b, i32 row, i32 column, u32 columns, u32 depth,
                         f32 *to) {
    u32 q = 0;
    INSIDE(b, 4);
    INSIDE(b + (i32)(columns - 1) * column + (i32)(depth - 1) * row, 4);
    INSIDE(to, NR * depth * 4);
    if (columns == NR && column == 1) {
        for (; q < depth; q++, b += row, to += NR) memcpy(to, b, NR * 4);
    } else if (columns == NR && row == 1) {
        for (; q + 4 <= depth; q += 4, b += 4, to += 4 * NR)
            for (u32 t = 0; t < NR; t += 4) {
                const f32 *c = b + (i32)t * column;
                transpose4x4(c, c + column, c + 2 * column, c + 3 * column, to + t, NR);
            }
    }
    for (; q < depth; q++, b += row, to += NR)
        for (u32 t = 0; t < NR; t++) to[t] = t < columns ? b[(i32)t * column] : 0;
}

/* Packs several full panels row by row. A panel occupies one cache line in each row,
   and rows are far apart; packing whole rows uses the following cache lines, which the
   processor fetches as well. */
static void pack_b_panels(const f32 *b, i32 row, u32 panels, u32 depth, f32 *to) {
    for (u32 q = 0; q < depth; q++, b += row, to += NR)
        for (u32 p = 0; p < panels; p++)
            memcpy(to + (u64)p * NR * depth, b + p * NR, NR * 4);
}

/* --- blocking -------------------------------------------------------------------- */

/* The partition of C into tasks. Either all tasks share one packed block of B, for
   some of the batches, or each task packs the part of B that it reads, and the tasks
   together cover all of B. */
typedef struct {
    const Gemm *g;
    f32 *b;                          /* a block of B, packed */
    u32 batch, j, columns, k, depth; /* where the block begins, and its size */
    u32 panels;                      /* panels of B per batch */
    u32 height, across;              /* rows and panels per task */
    u32 down, tasks;                 /* tasks per column of tasks; tasks per batch */
    u32 interleaved; /* number of batches whose rows of C form one row, or 1 */
    bool a_in_place;                 /* A is read in place */
    bool b_in_place; /* the first rows read B in place, and copy it for the others */
    bool packs_b;    /* each task packs B itself, one block at a time */
} Blocking;

static const f32 *batch_start(const f32 *x, const i32 *at, u32 batch, i32 step) {
    return x + (at ? at[batch] : (i32)batch * step);
}

/* Packs panel `i`; panels are numbered across the batches. */
static void pack_numbered_panel(const Blocking *s, u32 i, f32 *to) {
    const Gemm *g = s->g;
    u32 batch = i / s->panels, j = (i % s->panels) * NR;
    const f32 *b = batch_start(g->b, g->b_at, s->batch + batch, g->b_batch);
    b += (i32)s->k * g->b_row + (i32)(s->j + j) * g->b_column;
    pack_b_panel(b, g->b_row, g->b_column, MIN(NR, s->columns - j), s->depth, to);
}

static void pack_b(u32 begin, u32 end, void *ctx) {
    const Blocking *s = ctx;
    for (u32 i = begin; i < end; i++)
        pack_numbered_panel(s, i, s->b + i * NR * s->depth);
}

/* Returns the panels of B for all but the first rows of A: the copies, if there are
   any. */
static PanelsB packed_panels(PanelsB b, u32 depth) {
    return b.to ? (PanelsB){b.to, b.last, NR, NR * (i64)depth, 0} : b;
}

/* Multiplies some rows of A by the panels of B for columns j to `last - 1`. */
static void macro_kernel(const Blocking *s, PanelA a, u32 height, f32 *const *rows,
                         PanelsB b, u32 j, u32 last, const Epilogue *f) {
    bool add = s->k > 0 || s->g->accumulate, quick = !f || f->activation <= RELU6;
#if !READS_IN_PLACE
    for (u32 column = j; column < last; column += NR, b.at += b.next) {
        PanelA panel = a;
        for (u32 i = 0; i < height; i += PACKED_MR, panel.at += PACKED_MR * s->depth)
            micro_kernel(panel, s->depth, b, rows + i, MIN(PACKED_MR, height - i),
                         s->j + column, MIN(NR, last - column), add, quick ? f : 0);
    }
#else
    for (u32 i = 0; i < height; i += PACKED_MR, a.at += PACKED_MR * s->depth) {
        micro_kernel(a, s->depth, b, rows + i, MIN(PACKED_MR, height - i), s->j + j,
                     last - j, add, quick ? f : 0);
        b = packed_panels(b, s->depth);
    }
#endif
    for (u32 r = 0; r < height && !quick; r++)
        apply_epilogue(f, rows[r] + s->j + j, s->j + j, last - j);
}

/* Returns the panels of B for columns j to `last - 1`. They are packed, unless A has so
   many `rows` that it is faster to copy them while the first rows are computed. */
static PanelsB prepare_b(const Blocking *s, u32 batch, u32 j, u32 last, u32 rows) {
    const Gemm *g = s->g;
    i64 size = NR * (i64)s->depth;
    u32 first = batch * s->panels + j / NR, count = CEIL_DIV(last - j, NR);
    f32 *to = s->packs_b ? b_buffer() : s->b + first * size;
    const f32 *b = batch_start(g->b, g->b_at, s->batch + batch, g->b_batch);
    b += (i32)s->k * g->b_row + (i32)(s->j + j) * g->b_column;
    u32 whole = g->b_column == 1 ? (last - j) / NR : 0;
    bool copies = s->b_in_place && rows > PACK_FIRST_MAX_ROWS;
    for (u32 q = 0, n; s->packs_b && !copies && q < whole; q += n) {
        n = MIN(PACK_GROUP_PANELS, whole - q);
        pack_b_panels(b + q * NR, g->b_row, n, s->depth, to + q * size);
    }
    for (u32 q = whole; s->packs_b && q < count; q++)
        pack_numbered_panel(s, first + q, to + q * size);
    PanelsB packed = {to, to + (count - 1) * size, NR, size, 0};
    if (!copies) return packed;
    return (PanelsB){b, packed.last, g->b_row, NR, rows > PACKED_MR ? to : 0};
}

/* Returns whether A is read in place. A transposed A is read in place if C has too few
   columns for packing to pay off, or if the rows of A are close to each other. */
static bool reads_in_place(const Gemm *g, u32 depth) {
    if (!READS_IN_PLACE || g->pack) return false;
    if (g->starts) return true;
    if (g->a_column == 1) return g->a_row % PAGE_ELEMENTS || g->n < PACK_A_MIN_COLUMNS;
    i64 span = (i64)depth * g->a_column;
    bool is_near = -IN_PLACE_MAX_SPAN <= span && span <= IN_PLACE_MAX_SPAN;
    return g->a_row == 1 && (g->n <= 2 * NR || is_near);
}

/* Returns the rows of A from row i on, packed unless they can be read in place. */
static PanelA prepare_a(const Blocking *s, const f32 *a, u32 i, u32 height) {
    const Gemm *g = s->g;
    f32 *block = a_buffer();
    if (READS_IN_PLACE && g->starts) {
        const i32 *starts = g->starts + (g->transposed ? s->k : i);
        const i32 *places = g->places + (g->transposed ? i : s->k);
        return (PanelA){g->transposed ? INDEXED_TRANSPOSED : INDEXED, a, 0, starts, places};
    }
    if (s->a_in_place && height % UNPACKED_ROW_MULTIPLE == 0) {
        a += (i32)i * g->a_row + (i32)s->k * g->a_column;
        if (g->a_column == 1) return (PanelA){ROW_MAJOR, .at = a, .step = g->a_row};
        return (PanelA){PACKED, .at = a, .step = g->a_column};
    }
    (g->pack ? g->pack : pack_a)(g, a, i, height, s->k, s->depth, block);
    return (PanelA){PACKED, .at = block, .step = PACKED_MR};
}

/* Computes columns j to `last - 1` of at most MC rows of C, from row i on. */
static void multiply_block(const Blocking *s, u32 batch, u32 i, u32 height, u32 j,
                           u32 last, PanelsB b) {
    const Gemm *g = s->g;
    f32 *rows[MC], *c = g->c + (i32)batch * g->c_batch;
    PanelA a = prepare_a(s, batch_start(g->a, g->a_at, batch, g->a_batch), i, height);
    for (u32 r = 0; r < height; r++)
        rows[r] = c + (g->offset ? g->offset(g, i + r) : (i + r) * (u32)g->c_row);
    CHECK(height <= MC && s->depth <= KC, "a block is too large");
    INSIDE(rows[0], g->n * 4);
    INSIDE(rows[height - 1], g->n * 4);
    Epilogue f, *epilogue = 0;
    if (g->epilogue && s->k + s->depth == g->k) {
        f = *g->epilogue, epilogue = &f;
        if (f.bias) f.bias += batch * (u32)g->epilogue_batch;
        if (f.slopes) f.slopes += batch * (u32)g->epilogue_batch;
    }
    macro_kernel(s, a, height, rows, b, j, last, epilogue);
}

/* Computes rows i to `below - 1` and columns j to `last - 1` (at most NC) of C. Sums
   over one block of k, or over all of k if the task packs B. */
static void multiply_columns(Blocking s, u32 batch, u32 i, u32 below, u32 j, u32 last) {
    u32 step = s.a_in_place ? PACKED_MR : MC, depth = s.depth;
    do {
        s.depth = MIN(depth, s.g->k - s.k);
        PanelsB b = prepare_b(&s, batch, j, last, below - i);
        for (u32 r = i; r < below; r += step, b = packed_panels(b, s.depth))
            multiply_block(&s, s.batch + batch, r, MIN(step, below - r), j, last, b);
        s.k += s.depth;
    } while (s.packs_b && s.k < s.g->k);
}

static void run_tasks(u32 begin, u32 end, void *ctx) {
    const Blocking *s = ctx;
    for (u32 task = begin; task < end; task++) {
        u32 group = s->tasks * s->interleaved, task_in_group = task % group;
        u32 batch = task / group * s->interleaved + task_in_group % s->interleaved;
        u32 part = task_in_group / s->interleaved;
        u32 i = (part % s->down) * s->height, j = (part / s->down) * s->across * NR;
        u32 below = MIN(s->g->m, i + s->height);
        u32 last = MIN(s->columns, j + s->across * NR);
        for (; j < last; j += NC)
            multiply_columns(*s, batch, i, below, j, MIN(last, j + NC));
    }
}

/* Partitions C into tasks. On native targets, a task is a batch or, if there are
   few batches, a part of a batch. If A is read row by row and is not much larger
   than B, this part is a strip of columns, or some rows of a strip; otherwise, it
   is a block of rows. Convolutions are partitioned into blocks of rows; the blocks
   are smaller if there would be too few tasks. */
static void partition(Blocking *s, u32 m, u32 batches) {
    enum { MIN_TASKS = 8, TASK_MIN_ROWS = MAX(16, 2 * PACKED_MR) };
    const Gemm *g = s->g;
    u32 threads = thread_count(), uneven = batches > threads && batches % threads;
    u32 parts = CEIL_DIV((uneven ? 4 : 1) * TASKS_PER_THREAD * threads, batches);
    parts = MAX(parts, (u32)((u64)m * s->columns * g->k / TASK_MAX_MULTIPLY_ADDS));
    bool are_matrices = READS_IN_PLACE && !g->pack && !g->starts;
    bool interleaves = READS_IN_PLACE && batches == g->batches &&
                       (i64)batches * g->c_batch <= g->c_row;
    s->height = m, s->across = s->panels, s->interleaved = interleaves ? batches : 1;
    if (!are_matrices && (!READS_IN_PLACE || threads > 1)) {
        s->height = TASK_ROWS;
        if (CEIL_DIV(m, TASK_ROWS) * batches < MIN_TASKS) {
            u32 fair = CEIL_DIV(m * batches, MIN_TASKS * PACKED_MR) * PACKED_MR;
            s->height = MIN(TASK_ROWS, MAX(TASK_MIN_ROWS, fair));
        }
        u32 rest = CEIL_DIV(MIN_TASKS, CEIL_DIV(m, s->height) * batches);
        if (rest > 1) s->across = MAX(8, CEIL_DIV(s->panels, rest));
    } else if (threads > 1 && parts > 1) {
        if (g->a_column == 1 && m <= 2 * s->columns) {
            u32 least = MIN(TASK_MIN_PANELS, CEIL_DIV(s->panels, threads));
            s->across = MAX(least, s->panels / parts);
            u32 down = CEIL_DIV(parts, CEIL_DIV(s->panels, s->across));
            s->height = CEIL_DIV(m, down * PACKED_MR) * PACKED_MR;
        } else
            s->height = MIN(TASK_ROWS, CEIL_DIV(m, parts * PACKED_MR) * PACKED_MR);
    }
    if (s->interleaved > 1) s->height = MIN(s->height, TASK_ROWS);
    s->down = CEIL_DIV(m, s->height);
    s->tasks = s->down * CEIL_DIV(s->panels, s->across);
}

static bool skips_packing(const Gemm *g);
static void gemv(const Gemm *g);

/* Runs the tasks of some batches over `depth` elements of k. */
static void run_batches(Blocking *s, u32 batches, u32 depth) {
    u64 task = (u64)s->g->m * s->columns * depth / s->tasks;
    parallel_for(run_tasks, s, s->tasks * batches,
                 (u32)(TASK_MIN_MULTIPLY_ADDS / task) + 1);
}

/* Computes C one block of B at a time; all threads pack the block and share it. */
static void multiply_shared_b(Blocking s, u32 depth) {
    const Gemm *g = s.g;
    for (s.j = 0; s.j < g->n; s.j += NC) {
        s.columns = MIN(NC, g->n - s.j), s.panels = CEIL_DIV(s.columns, NR);
        u32 room = KC * NC / (s.panels * NR * MIN(KC, g->k));
        for (s.batch = 0; s.batch < g->batches; s.batch += room) {
            u32 batches = MIN(room, g->batches - s.batch);
            partition(&s, g->m, batches);
            for (s.k = 0; s.k < g->k; s.k += depth) {
                s.depth = MIN(depth, g->k - s.k);
                parallel_for(pack_b, &s, s.panels * batches, 16);
                run_batches(&s, batches, s.depth);
            }
        }
    }
}

void gemm(const Gemm *g) {
    if (skips_packing(g)) {
        gemv(g);
        return;
    }
    bool is_matrix = READS_IN_PLACE && !g->starts && !g->pack;
    u32 depth = KC;
    if (READS_IN_PLACE) depth = CEIL_DIV(CEIL_DIV(g->k, CEIL_DIV(g->k, KC)), 8) * 8;
    Blocking s = {.g = g, .b = b_buffer(), .columns = g->n, .depth = depth};
    s.panels = CEIL_DIV(g->n, NR), s.a_in_place = reads_in_place(g, depth);
    s.b_in_place = is_matrix && g->b_column == 1 && g->b_row % PAGE_ELEMENTS && g->n >= NR;
    partition(&s, g->m, g->batches);
    s.packs_b = READS_IN_PLACE && (s.down == 1 || s.b_in_place);
    if (s.packs_b)
        run_batches(&s, g->batches, g->k);
    else
        multiply_shared_b(s, depth);
}

/* --- products with few rows ------------------------------------------------------- */

/* In products of at most GEMV_MAX_ROWS rows, b is not packed, because it is read only
   once, for all rows. */
enum { GEMV_MAX_ROWS = 4 };
/* The numbers of rows and columns of b that are read together, so that the sums are
   rarely loaded and stored. */
enum { ROWS_AT_ONCE = 8, COLUMNS_AT_ONCE = 8 };
/* The number of rows of a for which a row of b is read once: with 32 registers, two. */
enum { ROWS_OF_A = LANES == 16 ? 2 : 1 };
/* The number of vectors of columns that are computed together. On WebAssembly, each
   computed address costs instructions, and constant offsets do not. */
enum { PARTS_AT_ONCE = READS_IN_PLACE ? 1 : 8 };

#if READS_IN_PLACE
typedef Vector Part;
INLINE Part part_at(const f32 *p) { return *(const Part *)p; }
INLINE void set_part(f32 *p, Part x) { *(Part *)p = x; }
INLINE Part repeated(f32 x) { return x - (Part){0}; }
INLINE Part multiply_add(Part x, Part y, Part sum) {
#pragma clang fp contract(fast)
    return x * y + sum;
}
INLINE f32 sum_of(Part x) {
    for (u32 half = WIDTH / 2; half; half /= 2)
        for (u32 i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
}
#else
enum { WIDTH = 4 };
typedef v4 Part;
INLINE Part part_at(const f32 *p) { return LOAD(p); }
INLINE void set_part(f32 *p, Part x) { STORE(p, x); }
INLINE Part repeated(f32 x) { return SPLAT(x); }
INLINE Part multiply_add(Part x, Part y, Part sum) { return FMA(x, y, sum); }
INLINE f32 sum_of(Part x) { return reduce_add(x); }
#endif

/* The operands of a product with few rows, and the number of rows and columns. */
typedef struct {
    const f32 *a, *b;
    f32 *c;
    i32 a_row, a_column, b_row, b_column, c_row;
    u32 rows, columns, k;
} Thin;

/* Adds a b to `high` rows of c for `count` rows of b (at most ROWS_AT_ONCE), in `parts`
   vectors of columns at a time, from column j on. Returns the column after the last one.
   The elements of each row are contiguous. */
INLINE u32 add_parts(const Thin *s, u32 high, u32 count, u32 parts, u32 j,
                     Part (*factors)[ROWS_AT_ONCE], const f32 *b, f32 *restrict c) {
    Part sums[ROWS_OF_A][PARTS_AT_ONCE];
    for (; j + parts * WIDTH <= s->columns; j += parts * WIDTH) {
        f32 *to = c + j;
        for (u32 i = 0; i < high; i++)
            for (u32 p = 0; p < parts; p++)
                sums[i][p] = part_at(to + (i32)i * s->c_row + p * WIDTH);
        for (u32 r = 0; r < count; r++) {
            const f32 *row = b + (i64)r * s->b_row + j;
            for (u32 p = 0; p < parts; p++) {
                Part y = part_at(row + p * WIDTH);
                for (u32 i = 0; i < high; i++)
                    sums[i][p] = multiply_add(factors[i][r], y, sums[i][p]);
            }
        }
        for (u32 i = 0; i < high; i++)
            for (u32 p = 0; p < parts; p++)
                set_part(to + (i32)i * s->c_row + p * WIDTH, sums[i][p]);
    }
    return j;
}

/* Adds a b to `high` rows of c for `count` rows of b. */
INLINE void add_rows(const Thin *s, u32 high, u32 count, const f32 *a, const f32 *b,
                     f32 *restrict c) {
    Part factors[ROWS_OF_A][ROWS_AT_ONCE];
    for (u32 i = 0; i < high; i++)
        for (u32 r = 0; r < count; r++)
            factors[i][r] = repeated(a[(i32)i * s->a_row + (i32)r * s->a_column]);
    u32 j = add_parts(s, high, count, PARTS_AT_ONCE, 0, factors, b, c);
    if (PARTS_AT_ONCE > 1) j = add_parts(s, high, count, 1, j, factors, b, c);
    for (; j < s->columns; j++)
        for (u32 i = 0; i < high; i++)
            for (u32 r = 0; r < count; r++)
                c[(i32)i * s->c_row + (i32)j] +=
                    a[(i32)i * s->a_row + (i32)r * s->a_column] * b[(i64)r * s->b_row + j];
}

/* Computes c = a b, where the elements of a row of b are contiguous. Reads several rows
   of b at a time. */
static void multiply_rows(const Thin *s) {
    const f32 *a = s->a, *b = s->b;
    for (u32 i = 0; i < s->rows; i++)
        memset(s->c + (i32)i * s->c_row, 0, s->columns * sizeof(f32));
    for (u32 q = 0; q < s->k;) {
        u32 count = q + ROWS_AT_ONCE <= s->k ? ROWS_AT_ONCE : 1;
        for (u32 i = 0, high; i < s->rows; i += high) {
            high = i + ROWS_OF_A <= s->rows ? ROWS_OF_A : 1;
            const f32 *row = a + (i32)i * s->a_row;
            f32 *c = s->c + (i32)i * s->c_row;
            if (count == 1)
                for (u32 t = 0; t < high; t++)
                    add_rows(s, 1, 1, row + (i32)t * s->a_row, b, c + (i32)t * s->c_row);
            else if (high == 1)
                add_rows(s, 1, ROWS_AT_ONCE, row, b, c);
            else
                add_rows(s, ROWS_OF_A, ROWS_AT_ONCE, row, b, c);
        }
        q += count, a += (i32)count * s->a_column, b += (i64)count * s->b_row;
    }
}

/* Computes `rows` x `columns` elements of c from column j on; their sums stay in
   registers. */
INLINE void multiply_tile(const Thin *s, u32 j, u32 rows, u32 columns) {
    Part sums[GEMV_MAX_ROWS][COLUMNS_AT_ONCE] = {0};
    const f32 *a = s->a, *b = s->b + (i64)j * s->b_column;
    u32 q = 0;
    for (; q + WIDTH <= s->k; q += WIDTH)
        for (u32 t = 0; t < columns; t++) {
            Part y = part_at(b + (i64)t * s->b_column + q);
            for (u32 i = 0; i < rows; i++) {
                Part x = part_at(a + (i32)i * s->a_row + q);
                sums[i][t] = multiply_add(x, y, sums[i][t]);
            }
        }
    for (u32 i = 0; i < rows; i++)
        for (u32 t = 0; t < columns; t++) {
            const f32 *x = a + (i32)i * s->a_row, *y = b + (i64)t * s->b_column;
            f32 sum = sum_of(sums[i][t]);
            for (u32 r = q; r < s->k; r++) sum += x[r] * y[r];
            s->c[(i32)i * s->c_row + (i32)(j + t)] = sum;
        }
}

/* Computes c = a b as dot products, several columns at a time. The elements of each
   column of b and of each row of a are contiguous. */
#define MULTIPLY_COLUMNS(ROWS, COLUMNS)                                                \
    static void multiply_columns_##ROWS(const Thin *s) {                               \
        u32 j = 0;                                                                     \
        for (; j + COLUMNS <= s->columns; j += COLUMNS)                                \
            multiply_tile(s, j, ROWS, COLUMNS);                                        \
        for (; j < s->columns; j++) multiply_tile(s, j, ROWS, 1);                      \
    }
MULTIPLY_COLUMNS(1, COLUMNS_AT_ONCE)
#if LANES == 16 /* 32 registers */
MULTIPLY_COLUMNS(2, 8)
MULTIPLY_COLUMNS(3, 6)
MULTIPLY_COLUMNS(4, 6)
#else
MULTIPLY_COLUMNS(2, 4)
MULTIPLY_COLUMNS(3, 2)
MULTIPLY_COLUMNS(4, 2)
#endif
#undef MULTIPLY_COLUMNS

static void multiply_thin(const Thin *s) {
    if (s->b_column == 1 || s->a_column != 1) {
        multiply_rows(s);
        return;
    }
    switch (s->rows) {
    case 1: multiply_columns_1(s); break;
    case 2: multiply_columns_2(s); break;
    case 3: multiply_columns_3(s); break;
    default: multiply_columns_4(s);
    }
}

static void gemv_tasks(u32 begin, u32 end, void *ctx) {
    const Gemm *g = ctx;
    u32 piece = task_columns(g->n), across = CEIL_DIV(g->n, piece);
    for (u32 task = begin; task < end; task++) {
        u32 batch = task / across, j = task % across * piece, n = MIN(piece, g->n - j);
        const f32 *b = batch_start(g->b, g->b_at, batch, g->b_batch) + (i32)j * g->b_column;
        const f32 *a = batch_start(g->a, g->a_at, batch, g->a_batch);
        f32 *c = g->c + (i32)batch * g->c_batch + j;
        for (u32 i = 0; i < g->m; i += GEMV_MAX_ROWS) {
            Thin s = {a + (i32)i * g->a_row, b, c + (i32)i * g->c_row, g->a_row,
                      g->a_column, g->b_row, g->b_column, g->c_row,
                      MIN(GEMV_MAX_ROWS, g->m - i), n, g->k};
            multiply_thin(&s);
            for (u32 r = 0; r < s.rows && g->epilogue; r++)
                apply_epilogue(g->epilogue, s.c + (i32)r * g->c_row,
                               (u32)(batch * g->epilogue_batch) + j, n);
        }
    }
}

/* Returns whether packing would cost more than it saves. */
static bool skips_packing(const Gemm *g) {
    if (g->pack || g->offset || g->starts || g->accumulate) return false;
    if (g->n == 1) return g->c_row == 1 && g->b_row == 1;
    bool are_dots = g->b_column != 1 && g->a_column == 1;
    bool small = g->m <= GEMV_MAX_ROWS || (u64)g->m * g->n * g->k <= 512;
    return small && (g->b_column == 1 || are_dots);
}

/* Computes a column vector as a row: cᵀ = bᵀ aᵀ. */
static void gemv(const Gemm *g) {
    Gemm t = *g;
    bool as_row = g->n == 1;
    if (as_row) {
        t.m = 1, t.n = g->m, t.epilogue = 0;
        t.a = g->b, t.a_at = g->b_at, t.a_batch = g->b_batch, t.a_column = g->b_row;
        t.b = g->a, t.b_at = g->a_at, t.b_batch = g->a_batch;
        t.b_row = g->a_column, t.b_column = g->a_row;
    }
    u32 piece = task_columns(t.n);
    u64 work = (u64)t.m * t.k * MIN(t.n, piece);
    u32 grain = (u32)MAX(1, 65536 / work);
    parallel_for(gemv_tasks, &t, t.batches * CEIL_DIV(t.n, piece), grain);
    if (as_row && g->epilogue)
        for (u32 i = 0; i < g->batches * g->m; i++)
            apply_epilogue(g->epilogue, g->c + i, i / g->m * (u32)g->epilogue_batch, 1);
}
