/* Copies of equally spaced rows, and transposition; these are faster than take and put.
   */
#include "rows.h"

enum { GRAIN = 65536, BLOCK = 16 };

typedef struct {
    const u8 *x;
    u8 *y;
    u32 width;
    i32 from, to;
} Rows;

static void copy_task(u32 i, u32 end, void *ctx) {
    Rows r = *(const Rows *)ctx;
    const u8 *x = r.x + (i64)i * r.from;
    u8 *y = r.y + (i64)i * r.to;
#define COPY_ROWS(width)                                                                 \
    for (; i < end; i++, x += r.from, y += r.to) {                                       \
        INSIDE(x, width);                                                                \
        INSIDE(y, width);                                                                \
        COPY(y, x, width);                                                               \
    }
    BY_WIDTH(r.width, COPY_ROWS)
}

/* Copies n rows of `width` bytes, given the distances between rows in bytes. */
EXPORT("copy_rows")
void copy_rows(const u8 *x, u8 *y, u32 n, u32 width, i32 from, i32 to) {
    parallel_for(copy_task, &(Rows){x, y, width, from, to}, n, MAX(1, GRAIN / (width + 8)));
}

typedef struct {
    const u8 *x;
    u32 width; /* bytes per row */
} Part;

typedef struct {
    const Part *parts;
    u32 count, width;
    u8 *y;
} Joined;

static void join_task(u32 i, u32 end, void *ctx) {
    const Joined *s = ctx;
    u8 *y = s->y;
    for (const Part *p = s->parts; p < s->parts + s->count; y += p++->width)
        copy_task(i, end, &(Rows){p->x, y, p->width, (i32)p->width, (i32)s->width});
}

/* Concatenates the rows of the parts: each of the n rows of y has `width` bytes. */
EXPORT("join_rows")
void join_rows(const Part *parts, u32 count, u8 *y, u32 n, u32 width) {
    INSIDE(parts, count * sizeof(Part));
    INSIDE(y, (u64)n * width);
    parallel_for(join_task, &(Joined){parts, count, width, y}, n,
                 MAX(1, GRAIN / (width + 8)));
}

typedef struct {
    const void *x;
    void *y;
    u32 n, m, blocks;
    i32 outer, step;
} Turn;

/* y [outer, n, m] = x[o * outer + i + j * step]. An item is a block of rows of y. */
#define TURN(N, T, FOURS)                                                                \
    static void turn_##N##_block(u32 item, u32 end, void *ctx) {                         \
        Turn t = *(const Turn *)ctx;                                                     \
        for (; item < end; item++) {                                                     \
            u32 o = item / t.blocks, i = item % t.blocks * BLOCK, j = 0;                 \
            u32 rows = MIN(BLOCK, t.n - i), m = t.m;                                     \
            const T *x = (const T *)t.x + (i64)o * t.outer + i;                          \
            T *y = (T *)t.y + (o * t.n + i) * m;                                         \
            INSIDE(y, (u64)rows * m * sizeof(T));                                        \
            if (rows == BLOCK) {                                                         \
                FOURS                                                                    \
            }                                                                            \
            for (; j < m; j++) {                                                         \
                INSIDE(x + (i64)j * t.step, rows * sizeof(T));                           \
                SMALL for (u32 r = 0; r < rows; r++) y[r * m + j] = x[(i64)j * t.step + r]; \
            }                                                                            \
        }                                                                                \
    }                                                                                    \
    EXPORT("turn_" #N)                                                                   \
    void turn_##N(const T *x, T *y, u32 outer, u32 n, u32 m, i32 outer_step, i32 step) { \
        Turn t = {x, y, n, m, CEIL_DIV(n, BLOCK), outer_step, step};                     \
        u32 grain = MAX(1, GRAIN / (BLOCK * m));                                         \
        parallel_for(turn_##N##_block, &t, outer * t.blocks, grain);                     \
    }
#define BY_FOUR                                                                          \
    for (u32 n; (n = MIN(BLOCK, m - j) & ~3u); j += n)                                   \
        for (u32 r = 0; r < BLOCK; r += 4)                                               \
            for (u32 q = j; q < j + n; q += 4) { /* a cache line per row */              \
                const f32 *p = (const f32 *)x + (i64)q * t.step + r;                     \
                f32 *to = (f32 *)y + r * m + q; /* lanes are only moved */               \
                transpose4x4(p, p + t.step, p + 2 * t.step, p + 3 * t.step, to, m);      \
            }
TURN(1, u8, )
TURN(2, u16, )
TURN(4, u32, BY_FOUR)
TURN(8, u64, )
