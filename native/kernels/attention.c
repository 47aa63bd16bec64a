/* Attention for a small number of queries, and rotary embeddings, in float32. */
#include "attention.h"
#include "mathematics.h"

/* --- attention -------------------------------------------------------------------- */

/* The keys are read in blocks. The scores of a block are not stored: they only
   update the maximum, the sum of exponentials and the weighted sum of values of
   each row (M. Milakov and N. Gimelshein, "Online normalizer calculation for
   softmax", 2018). Four rows share the loads of keys and values. */
enum { ROWS = 4, KEYS = 64, MAX_SIZE = 256 };
#define PADDED(n) (CEIL_DIV(n, (u32)LANES) * LANES)

typedef struct {
    const f32 *q, *k, *v;
    const void *mask;
    const i32 *lengths;
    f32 *y;
    AttentionSizes sizes;
    f32 scale;
} Attention;

/* The state of up to four rows. A row is one query of one head; the heads of these rows
   share one group of keys and values. */
typedef struct {
    f32 q[ROWS][MAX_SIZE], y[ROWS][MAX_SIZE], p[ROWS][KEYS], peak[ROWS], by[ROWS];
    f64 total[ROWS];
    u32 limit[ROWS], head[ROWS], query[ROWS], longest;
} Block;

static void begin_rows(const Attention *s, Block *b, u32 batch, u32 group, u32 first,
                       u32 rows) {
    const AttentionSizes *n = &s->sizes;
    u32 share = n->heads / n->groups * n->queries, size = n->size;
    const f32 *q = s->q + ((size_t)(batch * n->groups + group) * share + first) * size;
    b->longest = 0;
    for (u32 r = 0; r < rows; r++) {
        b->query[r] = (first + r) % n->queries;
        b->head[r] = group * (n->heads / n->groups) + (first + r) / n->queries;
        b->limit[r] = keys_before(n, s->lengths, batch, b->query[r]);
        b->longest = MAX(b->longest, b->limit[r]);
        b->peak[r] = -INFINITY, b->total[r] = 0;
        for (u32 i = 0; i < PADDED(size); i++)
            b->q[r][i] = i < size ? q[r * size + i] * s->scale : 0;
        memset(b->y[r], 0, PADDED(n->width) * sizeof(f32));
    }
}

/* Computes the scores of `rows` rows for two keys, k0 and k1. For a single key, both are
   the same. The scores have room for one more. */
INLINE void score_pair(Block *b, const f32 *k0, const f32 *k1, u32 size, u32 j, u32 rows) {
    vec a[ROWS], c[ROWS];
    for (u32 r = 0; r < rows; r++) a[r] = c[r] = VEC(0);
    u32 i = 0;
    for (; i + LANES <= size; i += LANES) {
        vec x = VLOAD(k0 + i), y = VLOAD(k1 + i);
        for (u32 r = 0; r < rows; r++) {
            vec q = VLOAD(b->q[r] + i);
            a[r] = FMA(q, x, a[r]), c[r] = FMA(q, y, c[r]);
        }
    }
    if (i < size) {
        vec x = vload_partial(k0 + i, size - i), y = vload_partial(k1 + i, size - i);
        for (u32 r = 0; r < rows; r++) {
            vec q = VLOAD(b->q[r] + i);
            a[r] = FMA(q, x, a[r]), c[r] = FMA(q, y, c[r]);
        }
    }
    for (u32 r = 0; r < rows; r++) {
        b->p[r][j] = reduce_add(a[r]);
        b->p[r][j + 1] = reduce_add(c[r]);
    }
}

/* Turns the scores of row r in a block into e^(score - peak), and updates the peak and
   the sum of the row. */
static void exponentiate(Block *b, u32 r, u32 first, u32 n) {
    f32 *p = b->p[r], before = b->peak[r];
    u32 valid = b->limit[r] > first ? MIN(n, b->limit[r] - first) : 0, end = PADDED(n);
    for (u32 j = valid; j < end; j++) p[j] = -INFINITY;
    vec peaks = VEC(before), sum = VEC(0);
    for (u32 j = 0; j < end; j += LANES) peaks = PMAX(peaks, VLOAD(p + j));
    f32 peak = reduce_max(peaks); /* NaN scores are ignored */
    f32 shift = peak == -INFINITY ? 0 : peak, ratio[LANES];
    for (u32 j = 0; j < end; j += LANES) {
        vec e = exp_below(SUB(VLOAD(p + j), VEC(shift)));
        STORE(p + j, e);
        sum = ADD(sum, e);
    }
    STORE(ratio, exp_below(VEC(before - shift)));
    b->by[r] = before == -INFINITY ? 0 : ratio[0];
    b->total[r] = b->total[r] * b->by[r] + reduce_add(sum);
    b->peak[r] = peak;
}

/* Multiplies the rows of y by `by` and adds the product of p and v, in the columns from
   `at` on: one vector of `n0` columns and, if `n1` is not 0, a second one of `n1`
   columns. */
INLINE void add_columns(Block *b, const f32 *v, u32 width, u32 keys, u32 rows, u32 at, u32 n0,
                        u32 n1) {
    vec a[ROWS], c[ROWS];
    for (u32 r = 0; r < rows; r++) {
        vec by = VEC(b->by[r]);
        a[r] = MUL(VLOAD(b->y[r] + at), by);
        if (n1) c[r] = MUL(VLOAD(b->y[r] + at + LANES), by);
    }
    for (u32 j = 0; j < keys; j++) {
        const f32 *from = v + (size_t)j * width + at;
        vec x = n0 == LANES ? VLOAD(from) : vload_partial(from, n0), y = x;
        if (n1) y = VLOAD(from + LANES);
        for (u32 r = 0; r < rows; r++) {
            vec p = VEC(b->p[r][j]);
            a[r] = FMA(p, x, a[r]);
            if (n1) c[r] = FMA(p, y, c[r]);
        }
    }
    for (u32 r = 0; r < rows; r++) {
        STORE(b->y[r] + at, a[r]);
        if (n1) STORE(b->y[r] + at + LANES, c[r]);
    }
}

/* Prefetches `rows` rows of float32. For a single query, each key and value is read once,
   from memory; the hardware prefetcher stops at each page. */
INLINE void prefetch_rows(const f32 *p, u32 rows, u32 size) {
#if CACHE_CONTROL
    enum { CACHE_LINE = 64 / sizeof(f32) };
    for (u32 i = 0; i < rows * size; i += CACHE_LINE) __builtin_prefetch(p + i);
#endif
}

INLINE void attend(const Attention *s, Block *b, u32 batch, u32 group, u32 first, u32 rows) {
    const AttentionSizes *sizes = &s->sizes;
    u32 size = sizes->size, width = sizes->width;
    size_t head = batch * sizes->groups + group;
    const f32 *k = s->k + head * sizes->keys * size, *v = s->v + head * sizes->keys * width;
    begin_rows(s, b, batch, group, first, rows);
    for (u32 from = 0; from < b->longest; from += KEYS) {
        u32 n = MIN((u32)KEYS, b->longest - from), j = 0, at = 0;
        const f32 *keys = k + (size_t)from * size, *values = v + (size_t)from * width;
        for (; j + 2 <= n; j += 2) {
            prefetch_rows(values + j * width, 2, width);
            prefetch_rows(keys + (j + KEYS) * size, 2, size);
            score_pair(b, keys + j * size, keys + (j + 1) * size, size, j, rows);
        }
        if (j < n) score_pair(b, keys + j * size, keys + j * size, size, j, rows);
        for (u32 r = 0; r < rows; r++) {
            mask_scores(sizes, s->mask, b->p[r], batch, b->head[r], b->query[r], from, n);
            exponentiate(b, r, from, n);
        }
        for (; at + 2 * LANES <= width; at += 2 * LANES)
            add_columns(b, values, width, n, rows, at, LANES, LANES);
        if (at + LANES <= width) {
            add_columns(b, values, width, n, rows, at, LANES, 0);
            at += LANES;
        }
        if (at < width) add_columns(b, values, width, n, rows, at, width - at, 0);
    }
    u32 share = sizes->heads / sizes->groups * sizes->queries;
    for (u32 r = 0; r < rows; r++) {
        f32 *restrict y = s->y + (head * share + first + r) * width;
        f32 by = b->total[r] == 0 ? 0 : (f32)(1 / b->total[r]);
        for (u32 i = 0; i < width; i++) y[i] = b->y[r][i] * by;
    }
}

static void attend_blocks(u32 begin, u32 end, void *ctx) {
    const Attention *s = ctx;
    Block b;
    u32 groups = s->sizes.groups, share = s->sizes.heads / groups * s->sizes.queries;
    u32 blocks = CEIL_DIV(share, (u32)ROWS);
    for (u32 i = begin; i < end; i++) {
        u32 first = i % blocks * ROWS, head = i / blocks;
        u32 batch = head / groups, group = head % groups;
        switch (MIN((u32)ROWS, share - first)) {
            case 1: attend(s, &b, batch, group, first, 1); break;
            case 2: attend(s, &b, batch, group, first, 2); break;
            case 3: attend(s, &b, batch, group, first, 3); break;
            default: attend(s, &b, batch, group, first, 4);
        }
    }
}

/* Returns the largest number of filled keys. */
static u32 longest(const Attention *s) {
    i64 found = 0;
    if (!s->sizes.length_count) return s->sizes.keys;
    for (u32 i = 0; i < s->sizes.length_count; i++) found = MAX(found, s->lengths[i]);
    return (u32)MIN(found, (i64)s->sizes.keys);
}

/* Writes [batch, heads, queries, width]; see the kernel Attention. `numbers` contains
   the AttentionSizes. `size` and `width` are at most MAX_SIZE. The mask has stride 1
   along its key axis. */
EXPORT("attention_f32")
void attention_f32(const f32 *q, const f32 *k, const f32 *v, const void *mask,
                   const i32 *lengths, f32 *y, const u32 *numbers, f64 scale) {
    Attention s = {.q = q, .k = k, .v = v, .mask = mask, .lengths = lengths, .y = y};
    memcpy(&s.sizes, numbers, sizeof(s.sizes));
    s.scale = (f32)scale;
    const AttentionSizes *n = &s.sizes;
    CHECK(n->size <= MAX_SIZE && n->width <= MAX_SIZE, "heads are too large");
    INSIDE(q, query_rows(n) * n->size * sizeof(f32));
    INSIDE(k, key_rows(n) * n->size * sizeof(f32));
    INSIDE(v, key_rows(n) * n->width * sizeof(f32));
    INSIDE(y, query_rows(n) * n->width * sizeof(f32));
    u32 blocks = CEIL_DIV(n->heads / n->groups * n->queries, (u32)ROWS);
    u64 work = (u64)ROWS * longest(&s) * (n->size + n->width) + 1;
    parallel_for(attend_blocks, &s, n->batch * n->groups * blocks, MAX(1, (1 << 19) / work));
}

/* --- rotary embeddings ------------------------------------------------------------ */

typedef struct {
    const f32 *x, *cos, *sin;
    f32 *y;
    u32 repeat, rows, size, half, interleaved;
} Rotary;

static void rotate_rows(u32 begin, u32 end, void *ctx) {
    const Rotary *s = ctx;
    u32 n = s->half, size = s->size;
    for (u32 i = begin; i < end; i++) {
        u32 angle = i / (s->repeat * s->rows) * s->rows + i % s->rows;
        const f32 *x = s->x + (size_t)i * size;
        const f32 *restrict cos = s->cos + (size_t)angle * n;
        const f32 *restrict sin = s->sin + (size_t)angle * n;
        f32 *restrict y = s->y + (size_t)i * size;
        if (s->interleaved)
            for (u32 j = 0; j < n; j++) {
                y[2 * j] = x[2 * j] * cos[j] - x[2 * j + 1] * sin[j];
                y[2 * j + 1] = x[2 * j + 1] * cos[j] + x[2 * j] * sin[j];
            }
        else
            for (u32 j = 0; j < n; j++) {
                y[j] = x[j] * cos[j] - x[j + n] * sin[j];
                y[j + n] = x[j + n] * cos[j] + x[j] * sin[j];
            }
        memcpy(y + 2 * n, x + 2 * n, (size - 2 * n) * sizeof(f32));
    }
}

/* Rotates x, [outer, repeat, rows, size]. `cos` and `sin` are [outer, rows, half]; they
   contain the cosines and sines of the angles. */
EXPORT("rotary_embedding_f32")
void rotary_embedding_f32(const f32 *x, const f32 *cos, const f32 *sin, f32 *y, u32 outer,
                          u32 repeat, u32 rows, u32 size, u32 half, u32 interleaved) {
    Rotary s = {x, cos, sin, y, repeat, rows, size, half, interleaved};
    INSIDE(x, (u64)outer * repeat * rows * size * sizeof(f32));
    INSIDE(y, (u64)outer * repeat * rows * size * sizeof(f32));
    INSIDE(cos, (u64)outer * rows * half * sizeof(f32));
    INSIDE(sin, (u64)outer * rows * half * sizeof(f32));
    parallel_for(rotate_rows, &s, outer * repeat * rows, MAX(1, 16384 / MAX(1, size)));
}
