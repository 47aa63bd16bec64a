/* Attention of many queries, and its gradient, in float32.

   A block of queries is multiplied by all keys that one of them attends to, so that only
   the scores of this block are stored, not queries x keys of each head. The products are
   those of gemm.c. All blocks of a group of heads add to the gradients of its keys and
   values, one block after the other, so that the sums do not depend on the threads.

   Contents: blocks; the products; softmax and its gradient; kernels.
*/
#include "attention.h"
#include "gemm.h"
#include "mathematics.h"

/* --- blocks ----------------------------------------------------------------------- */

typedef struct {
    const f32 *q, *k, *v, *dy; /* without dy: attention itself */
    const void *mask;
    const i32 *lengths;
    f32 *y, *dq, *dk, *dv;
    /* The scores of a block for each slot; then, for a gradient, as much for their
       gradients; and then the queries of a block for each slot. */
    f32 *memory;
    AttentionSizes sizes;
    u32 rows, slots; /* the largest number of queries of a block */
    f32 scale;
} Task;

/* The same queries of one head in each of `count` groups. A group is numbered across
   the batches; its heads share keys and values. */
typedef struct {
    const Task *s;
    u32 group, count, head, query, rows;
    u32 keys, stride; /* keys that a query attends to; elements of a row of p */
    f32 *p, *dp;      /* [count, rows, stride]: softmax of the scores; its gradient */
    f32 *q;           /* [count, rows, size]: the queries times the scale */
} Block;

/* Rows of scores are padded to whole vectors. */
static u32 padded(u32 keys) { return CEIL_DIV(keys, 16u) * 16; }

static u32 heads_per_group(const Task *s) { return s->sizes.heads / s->sizes.groups; }

/* Returns the index of the first row of the block in q, y and their gradients. */
static size_t first_row(const Block *b) {
    size_t heads = (size_t)b->group * heads_per_group(b->s) + b->head;
    return heads * b->s->sizes.queries + b->query;
}

/* --- the products ----------------------------------------------------------------- */

typedef struct {
    const f32 *at;
    u32 row, column;
    size_t batch; /* strides */
} Matrix;

static Matrix transposed(Matrix x) { return (Matrix){x.at, x.column, x.row, x.batch}; }

/* The rows of the block in q, or in another array of `width` columns. */
static Matrix rows_of(const Block *b, const f32 *x, u32 width) {
    size_t batch = (size_t)heads_per_group(b->s) * b->s->sizes.queries * width;
    return (Matrix){x + first_row(b) * width, width, 1, batch};
}

/* The keys or the values of the groups of the block. */
static Matrix keys_of(const Block *b, const f32 *x, u32 width) {
    size_t batch = (size_t)b->s->sizes.keys * width;
    return (Matrix){x + b->group * batch, width, 1, batch};
}

/* A matrix of the block in its own memory. */
static Matrix own(const Block *b, const f32 *x, u32 width) {
    return (Matrix){x, width, 1, (size_t)b->rows * width};
}

/* Computes z = x y or, if `accumulate`, z += x y. z must not be transposed. */
static void multiply(const Block *b, Matrix x, Matrix y, Matrix z, u32 m, u32 n, u32 k,
                     bool accumulate) {
    Gemm g = {.m = m, .n = n, .k = k, .batches = b->count, .a = x.at,
              .a_row = (i32)x.row, .a_column = (i32)x.column, .a_batch = (i32)x.batch,
              .b = y.at, .b_row = (i32)y.row, .b_column = (i32)y.column,
              .b_batch = (i32)y.batch, .c = (f32 *)z.at, .c_row = (i32)z.row,
              .c_batch = (i32)z.batch, .accumulate = accumulate};
    gemm(&g);
}

/* --- softmax and its gradient ----------------------------------------------------- */

/* Turns the first `n` of the scores of a row into their softmax, and the others into
   zeros. The result is 0 if all scores are -inf. */
static void soften(f32 *p, u32 n, u32 stride) {
    for (u32 j = n; j < stride; j++) p[j] = -INFINITY;
    vec peaks = VEC(-INFINITY), sum = VEC(0);
    for (u32 j = 0; j < stride; j += LANES) peaks = PMAX(peaks, VLOAD(p + j));
    f32 peak = reduce_max(peaks); /* NaN scores are ignored */
    vec shift = VEC(peak == -INFINITY ? 0 : peak);
    for (u32 j = 0; j < stride; j += LANES) {
        vec e = exp_below(SUB(VLOAD(p + j), shift));
        STORE(p + j, e);
        sum = ADD(sum, e);
    }
    f32 total = reduce_add(sum);
    vec by = VEC(total == 0 ? 0 : 1 / total);
    for (u32 j = 0; j < stride; j += LANES) STORE(p + j, MUL(VLOAD(p + j), by));
}

/* Multiplies the queries by the scale before their products, so that these overflow
   only if their results do. */
static void scale_rows(u32 begin, u32 end, void *ctx) {
    const Block *b = ctx;
    Matrix rows = rows_of(b, b->s->q, b->s->sizes.size);
    u32 size = b->s->sizes.size;
    for (u32 i = begin; i < end; i++) {
        const f32 *q = rows.at + i / b->rows * rows.batch + i % b->rows * size;
        f32 *restrict to = b->q + (size_t)i * size;
        for (u32 j = 0; j < size; j++) to[j] = q[j] * b->s->scale;
    }
}

static void soften_rows(u32 begin, u32 end, void *ctx) {
    const Block *b = ctx;
    const Task *s = b->s;
    for (u32 i = begin; i < end; i++) {
        u32 group = b->group + i / b->rows, query = b->query + i % b->rows;
        u32 batch = group / s->sizes.groups;
        u32 head = group % s->sizes.groups * heads_per_group(s) + b->head;
        u32 n = keys_before(&s->sizes, s->lengths, batch, query);
        f32 *p = b->p + (size_t)i * b->stride;
        mask_scores(&s->sizes, s->mask, p, batch, head, query, 0, n);
        soften(p, n, b->stride);
    }
}

/* Turns the gradient of each row of the softmax into that of q k, without the mask. */
static void pull_back_rows(u32 begin, u32 end, void *ctx) {
    const Block *b = ctx;
    vec scale = VEC(b->s->scale);
    for (u32 i = begin; i < end; i++) {
        const f32 *p = b->p + (size_t)i * b->stride;
        f32 *dp = b->dp + (size_t)i * b->stride;
        for (u32 j = b->keys; j < b->stride; j++) dp[j] = 0;
        vec sum = VEC(0);
        for (u32 j = 0; j < b->stride; j += LANES)
            sum = FMA(VLOAD(p + j), VLOAD(dp + j), sum);
        vec mean = VEC(reduce_add(sum));
        for (u32 j = 0; j < b->stride; j += LANES)
            STORE(dp + j, MUL(MUL(VLOAD(p + j), scale), SUB(VLOAD(dp + j), mean)));
    }
}

/* --- kernels ---------------------------------------------------------------------- */

static void clear(const Block *b, f32 *x, u32 width) {
    Matrix rows = rows_of(b, x, width);
    for (u32 i = 0; i < b->count; i++)
        memset((f32 *)rows.at + i * rows.batch, 0, (size_t)b->rows * width * sizeof(f32));
}

static void attend(const Block *b) {
    const Task *s = b->s;
    u32 size = s->sizes.size, width = s->sizes.width, keys = b->keys, rows = b->rows;
    u32 grain = MAX(1, 65536 / b->stride);
    Matrix k = keys_of(b, s->k, size), v = keys_of(b, s->v, width);
    Matrix p = own(b, b->p, b->stride), dp = own(b, b->dp, b->stride);
    parallel_for(scale_rows, (void *)b, b->count * rows, MAX(1, 65536 / size));
    multiply(b, own(b, b->q, size), transposed(k), p, rows, keys, size, false);
    parallel_for(soften_rows, (void *)b, b->count * rows, grain);
    if (!s->dy) {
        multiply(b, p, v, rows_of(b, s->y, width), rows, width, keys, false);
        return;
    }
    Matrix dy = rows_of(b, s->dy, width), dk = keys_of(b, s->dk, size);
    Matrix q = rows_of(b, s->q, size);
    multiply(b, transposed(p), dy, keys_of(b, s->dv, width), keys, width, rows, true);
    multiply(b, dy, transposed(v), dp, rows, keys, width, false);
    parallel_for(pull_back_rows, (void *)b, b->count * rows, grain);
    multiply(b, dp, k, rows_of(b, s->dq, size), rows, size, keys, false);
    multiply(b, transposed(dp), q, dk, keys, size, rows, true);
}

/* Returns the number of blocks into which the queries of a head are divided. */
static u32 blocks_per_head(const Task *s) { return CEIL_DIV(s->sizes.queries, s->rows); }

/* Computes block `i` of the heads of some groups, in the memory of `slot` and the slots
   after it. Blocks are numbered across the heads of a group. */
static void attend_block(const Task *s, u32 group, u32 count, u32 i, u32 slot) {
    const AttentionSizes *n = &s->sizes;
    size_t size = (size_t)s->rows * padded(n->keys);
    Block b = {.s = s, .group = group, .count = count, .p = s->memory + slot * size};
    b.dp = b.p + s->slots * size;
    b.q = s->memory + s->slots * size * (s->dy ? 2 : 1) + (size_t)slot * s->rows * n->size;
    b.head = i / blocks_per_head(s), b.query = i % blocks_per_head(s) * s->rows;
    b.rows = MIN(s->rows, n->queries - b.query);
    for (u32 g = group; g < group + count; g++) { /* the last query has the most keys */
        u32 last = b.query + b.rows - 1;
        b.keys = MAX(b.keys, keys_before(n, s->lengths, g / n->groups, last));
    }
    b.stride = padded(b.keys);
    if (b.keys)
        attend(&b);
    else if (s->dy)
        clear(&b, s->dq, n->size);
    else
        clear(&b, s->y, n->width);
}

static void attend_groups(const Task *s, u32 group, u32 count, u32 slot) {
    u32 blocks = heads_per_group(s) * blocks_per_head(s);
    for (u32 i = 0; i < blocks; i++) attend_block(s, group, count, i, slot);
}

#if READS_IN_PLACE
static void attend_each_group(u32 begin, u32 end, void *ctx) {
    for (u32 i = begin; i < end; i++) attend_groups(ctx, i, 1, thread_id());
}

static void attend_each_block(u32 begin, u32 end, void *ctx) {
    u32 blocks = heads_per_group(ctx) * blocks_per_head(ctx);
    for (u32 i = begin; i < end; i++)
        attend_block(ctx, i / blocks, 1, i % blocks, thread_id());
}

/* Lets each thread compute blocks of its own. Returns false if there are too few: then
   all threads share each product. */
static bool run_in_parallel(const Task *s) {
    enum { FAIR = 4, SHORT = 1 << 25 }; /* groups per thread; multiply-adds of a group */
    const AttentionSizes *n = &s->sizes;
    u32 threads = thread_count(), groups = n->batch * n->groups;
    u32 blocks = groups * heads_per_group(s) * blocks_per_head(s);
    u64 work = (u64)heads_per_group(s) * n->queries * n->keys * (n->size + n->width);
    bool is_even = groups % threads == 0 || groups >= FAIR * threads;
    if (threads > s->slots) return false;
    if (!s->dy && blocks >= threads)
        parallel_for(attend_each_block, (void *)s, blocks, 1);
    else if (s->dy && (is_even || (groups >= threads && work < SHORT)))
        parallel_for(attend_each_group, (void *)s, groups, 1);
    else
        return false;
    return true;
}
#endif

static void run(const Task *s) {
#if READS_IN_PLACE
    if (run_in_parallel(s)) return;
#endif
    /* Groups that are computed together must have the same number of filled keys,
       because the keys after it may not be read. */
    u32 groups = s->sizes.batch * s->sizes.groups, most = s->slots;
    if (s->sizes.length_count > 1) {
        most = MIN(s->slots, s->sizes.groups);
        while (s->sizes.groups % most) most--;
    }
    for (u32 i = 0; i < groups; i += most) attend_groups(s, i, MIN(most, groups - i), 0);
}

static Task described(const f32 *q, const f32 *k, const f32 *v, const void *mask,
                      const i32 *lengths, f32 *memory, const u32 *numbers, f64 scale) {
    Task s = {.q = q, .k = k, .v = v, .mask = mask, .lengths = lengths,
              .memory = memory, .scale = (f32)scale};
    memcpy(&s.sizes, numbers, sizeof(s.sizes));
    s.rows = numbers[sizeof(s.sizes) / sizeof(u32)];
    s.slots = numbers[sizeof(s.sizes) / sizeof(u32) + 1];
    INSIDE(q, query_rows(&s.sizes) * s.sizes.size * sizeof(f32));
    INSIDE(k, key_rows(&s.sizes) * s.sizes.size * sizeof(f32));
    INSIDE(v, key_rows(&s.sizes) * s.sizes.width * sizeof(f32));
    return s;
}

/* Writes [batch, heads, queries, width]; see the kernel Attention. `numbers` contains the
   AttentionSizes, `rows` and `slots`: the queries of a block, and the number of blocks
   for which there is `memory`; as many as threads are best on native targets. The mask
   has stride 1 along its key axis. No size is 0. */
EXPORT("attention_blocks_f32")
void attention_blocks_f32(const f32 *q, const f32 *k, const f32 *v, const void *mask,
                          const i32 *lengths, f32 *y, f32 *memory, const u32 *numbers,
                          f64 scale) {
    Task s = described(q, k, v, mask, lengths, memory, numbers, scale);
    s.y = y;
    INSIDE(y, query_rows(&s.sizes) * s.sizes.width * sizeof(f32));
    INSIDE(memory, (u64)s.slots * s.rows * (padded(s.sizes.keys) + s.sizes.size) * 4);
    run(&s);
}

/* Writes the gradients dq, dk and dv; see the kernel AttentionGrad. The arguments are
   those of attention_blocks_f32, but for the size of `memory`. */
EXPORT("attention_gradient_f32")
void attention_gradient_f32(const f32 *dy, const f32 *q, const f32 *k, const f32 *v,
                            const void *mask, const i32 *lengths, f32 *dq, f32 *dk,
                            f32 *dv, f32 *memory, const u32 *numbers, f64 scale) {
    Task s = described(q, k, v, mask, lengths, memory, numbers, scale);
    s.dy = dy, s.dq = dq, s.dk = dk, s.dv = dv;
    INSIDE(dy, query_rows(&s.sizes) * s.sizes.width * sizeof(f32));
    INSIDE(dq, query_rows(&s.sizes) * s.sizes.size * sizeof(f32));
    INSIDE(memory, (u64)s.slots * s.rows * (2 * padded(s.sizes.keys) + s.sizes.size) * 4);
    memset(dk, 0, key_rows(&s.sizes) * s.sizes.size * sizeof(f32));
    memset(dv, 0, key_rows(&s.sizes) * s.sizes.width * sizeof(f32));
    run(&s);
}
