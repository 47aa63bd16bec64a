/* y[...] = x[...] by strides, on all threads: elements are only moved.

   The axes are put into the order of y's strides, and become as few as possible; before
   the last one comes that along which x is contiguous. These two are a plane, of n rows
   and m columns, which is cut into tiles. A tile is copied row by row; by blocks that are
   turned in registers, where x is contiguous along the rows' axis and y along the
   columns'; or one by one. */
#include <stdlib.h>

#include "rows.h"

enum { TILE = 128, BYTES = 1 << 16, MAX_AXES = 64 };

typedef struct {
    i64 n, from, to;
} Axis;

typedef struct Copy Copy;
typedef void Tile(const Copy *c, const u8 *x, u8 *y, u64 n, u64 m);

struct Copy {
    const u8 *x;
    u8 *y;
    const Axis *axes; /* around the planes */
    i64 x_row, x_column, y_row, y_column;
    u64 n, m, rows, columns; /* of a plane, and of a tile */
    u32 outer, down, across, size;
    Tile *tile;
};

static void copy_rows_of(const Copy *c, const u8 *x, u8 *y, u64 n, u64 m) {
    i64 from = c->x_row, to = c->y_row;
    u64 width = m * c->size;
    if (width > UINT32_MAX) { /* one long row */
        for (; n; n--, x += from, y += to) memcpy(y, x, width);
        return;
    }
#define ROWS(width)                                                                      \
    for (; n; n--, x += from, y += to) COPY(y, x, width);
    BY_WIDTH((u32)width, ROWS)
}

/* Elements of type T at any distance; those of few columns column by column. */
#define ONE_BY_ONE(T)                                                                    \
    static void each_##T(const Copy *c, const u8 *x, u8 *y, u64 n, u64 m) {              \
        bool high = m < 16 && n > m;                                                     \
        i64 from = high ? c->x_row : c->x_column, to = high ? c->y_row : c->y_column;    \
        i64 x_row = high ? c->x_column : c->x_row, y_row = high ? c->y_column : c->y_row;\
        i64 size = sizeof(T);                                                            \
        u64 rows = high ? m : n;                                                         \
        m = high ? n : m;                                                                \
        for (u64 i = 0; i < rows; i++, x += x_row, y += y_row) {                         \
            T *restrict out = (T *)y;                                                    \
            const T *restrict in = (const T *)x;                                         \
            if (to == size && from == 0) {                                               \
                T value = *in;                                                           \
                for (u64 j = 0; j < m; j++) out[j] = value;                              \
            } else if (to == size && from == -size)                                      \
                for (i64 j = 0; j < (i64)m; j++) out[j] = in[-j];                        \
            else                                                                         \
                for (i64 j = 0; j < (i64)m; j++)                                         \
                    *(T *)(y + j * to) = *(const T *)(x + j * from);                     \
        }                                                                                \
    }

/* A block of N x N elements in N vectors. Each round takes turns of the elements of two
   vectors that are N / 2 apart: after log2(N) rounds rows are columns. */
#define ROUND(N, ...)                                                                    \
    for (int i = 0; i < N / 2; i++) {                                                    \
        b[2 * i] = __builtin_shufflevector(a[i], a[i + N / 2], __VA_ARGS__);             \
        b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + N / 2], HIGH_##N);            \
    }                                                                                    \
    memcpy(a, b, sizeof a);
#define LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define LOW_4 0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define ROUNDS_16 ROUND(16, LOW_16) ROUND(16, LOW_16) ROUND(16, LOW_16) ROUND(16, LOW_16)
#define ROUNDS_8 ROUND(8, LOW_8) ROUND(8, LOW_8) ROUND(8, LOW_8)
#define ROUNDS_4 ROUND(4, LOW_4) ROUND(4, LOW_4)
#define TURN(...) TURN_(__VA_ARGS__)
#define TURN_(T, NAME, N, REST) /* what is smaller than a block is left to another function */ \
    typedef T row_of_##NAME##_##T __attribute__((vector_size(sizeof(T) * N)));           \
    static void NAME##_##T(const Copy *c, const u8 *x, u8 *y, u64 n, u64 m) {            \
        i64 from = c->x_column, to = c->y_row, size = sizeof(T);                         \
        if (n < N || m < N) {                                                            \
            REST##_##T(c, x, y, n, m);                                                   \
            return;                                                                      \
        }                                                                                \
        for (u64 i = 0; i < n; i += N)                                                   \
            for (u64 j = 0; j < m; j += N) { /* the last blocks overlap others */        \
                row_of_##NAME##_##T a[N], b[N];                                          \
                i64 row = (i64)MIN(i, n - N), column = (i64)MIN(j, m - N);               \
                const u8 *in = x + row * size + column * from;                           \
                u8 *out = y + column * size + row * to;                                  \
                for (int k = 0; k < N; k++) memcpy(&a[k], in + k * from, sizeof a[k]);   \
                ROUNDS_##N                                                               \
                for (int k = 0; k < N; k++) memcpy(out + k * to, &a[k], sizeof a[k]);    \
            }                                                                            \
    }
typedef struct {
    u64 low, high;
} u128;
ONE_BY_ONE(u8)
ONE_BY_ONE(u16)
ONE_BY_ONE(u32)
ONE_BY_ONE(u64)
ONE_BY_ONE(u128)
/* Larger blocks of these would not stay in registers. */
#if REGISTER == 16
#define LONG 8
#else
#define LONG 4
#endif
TURN(u8, turn_few, 4, each)
TURN(u8, turn, 16, turn_few)
TURN(u16, turn_few, 4, each)
TURN(u16, turn, 16, turn_few)
TURN(u32, turn_few, 4, each)
TURN(u32, turn, REGISTER, turn_few)
TURN(u64, turn_few, 4, each)
TURN(u64, turn, LONG, turn_few)

static void tiles(u32 item, u32 end, void *ctx) {
    const Copy *c = ctx;
    const Axis *last = c->axes + c->outer - 1;
    while (item < end) {
        u32 column = item % c->across, rest = item / c->across;
        u32 row = rest % c->down, number = rest / c->down, along = 1;
        if (c->down * c->across == 1) /* planes that are not cut */
            along = MIN(end - item, (u32)last->n - number % (u32)last->n);
        i64 i = row * (i64)c->rows, j = column * (i64)c->columns;
        const u8 *x = c->x + i * c->x_row + j * c->x_column;
        u8 *y = c->y + i * c->y_row + j * c->y_column;
        u64 n = MIN(c->n - (u64)i, c->rows), m = MIN(c->m - (u64)j, c->columns);
        for (u32 axis = c->outer; axis--; number /= (u32)c->axes[axis].n) {
            u32 at = number % (u32)c->axes[axis].n;
            x += at * c->axes[axis].from, y += at * c->axes[axis].to;
        }
        for (item += along; along--; x += last->from, y += last->to)
            c->tile(c, x, y, n, m);
    }
}

/* Puts the axes into order; returns their number, 3 or more. */
static u32 arrange(const i64 *how, Axis *axes) {
    u32 rank = (u32)how[0], count = 0, nearest = 0;
    const i64 *n = how + 1, *from = n + rank, *to = from + rank;
    Axis sorted[MAX_AXES];
    for (u32 i = 0; i < rank; i++) {
        if (n[i] == 1) continue;
        u32 at = count++;
        for (; at && llabs(sorted[at - 1].to) < llabs(to[i]); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = (Axis){n[i], from[i], to[i]};
    }
    u32 few = 3; /* the first three are there to make planes of what has no axes */
    axes[0] = axes[1] = axes[2] = (Axis){1, 0, 0};
    for (u32 i = 0; i < count; i++) {
        Axis *last = &axes[few - 1], next = sorted[i];
        if (i && last->from == next.from * next.n && last->to == next.to * next.n)
            *last = (Axis){last->n * next.n, next.from, next.to};
        else
            axes[few++] = next;
    }
    for (u32 i = 1; i < few; i++) {
        bool nearer = llabs(axes[i].from) < llabs(axes[nearest].from);
        if (axes[i].from && (!axes[nearest].from || nearer)) nearest = i;
    }
    Axis turned = axes[nearest];
    if (nearest < few - 1 && turned.from) {
        for (u32 i = nearest; i < few - 2; i++) axes[i] = axes[i + 1];
        axes[few - 2] = turned;
    }
    return few;
}

/* `how` is the rank, the sizes, the strides of x, and those of y, in bytes. */
EXPORT("copy") void copy_strided(const u8 *x, u8 *y, const i64 *how, u32 size) {
    static Tile *const each[] = {each_u8, each_u16, each_u32, each_u64, each_u128};
    static Tile *const turn[] = {turn_u8, turn_u16, turn_u32, turn_u64};
    Axis axes[MAX_AXES + 3];
    u32 outer = arrange(how, axes) - 2, log = (u32)__builtin_ctz(size);
    Axis rows = axes[outer], columns = axes[outer + 1];
    Copy c = {.x = x, .y = y, .axes = axes, .outer = outer, .size = size};
    c.n = (u64)rows.n, c.m = (u64)columns.n;
    c.x_row = rows.from, c.x_column = columns.from;
    c.y_row = rows.to, c.y_column = columns.to;
    c.tile = each[log], c.columns = MIN(c.m, BYTES / size);
    if (c.y_column == size && c.x_column == size)
        c.tile = copy_rows_of;
    else if (c.y_column == size && c.x_row == size && c.x_column && log < 4)
        c.tile = turn[log], c.columns = MIN(c.m, MAX(TILE, BYTES / size / c.n & ~15ull));
    c.rows = MIN(c.n, MAX(16, BYTES / size / c.columns & ~15ull));
    c.down = (u32)CEIL_DIV(c.n, c.rows), c.across = (u32)CEIL_DIV(c.m, c.columns);
    u64 planes = 1, work = c.rows * c.columns * size;
    for (u32 axis = 0; axis < outer; axis++) planes *= (u64)axes[axis].n;
    parallel_for(tiles, &c, (u32)planes * c.down * c.across,
                 (u32)MAX(1, 2 * BYTES / work));
}

/* --- joining ---------------------------------------------------------------------- */

typedef struct {
    const u8 *x;
    u64 width; /* bytes of a row */
} Part;

typedef struct {
    const Part *parts;
    u8 *y;
    u64 width, rows;
    u32 count, down;
} Joined;

static void joining(u32 item, u32 end, void *ctx) {
    const Joined *s = ctx;
    for (; item < end; item++) {
        const Part *part = s->parts + item % s->count;
        u64 row = item / s->count * (u64)s->down, n = MIN(s->rows - row, s->down), at = 0;
        for (const Part *p = s->parts; p < part; p++) at += p->width;
        Copy c = {.x_row = (i64)part->width, .y_row = (i64)s->width, .size = 1};
        copy_rows_of(&c, part->x + row * part->width, s->y + row * s->width + at, n,
                     part->width);
    }
}

/* Each of the rows of y, of `width` bytes, is that of one part after the other. */
EXPORT("join") void join(const Part *parts, u32 count, u8 *y, u32 rows, u32 width) {
    u32 down = MAX(1, BYTES / width);
    Joined s = {parts, y, width, rows, count, down};
    u64 grain = 2ull * BYTES * count / ((u64)down * width);
    parallel_for(joining, &s, CEIL_DIV(rows, down) * count, (u32)MAX(1, grain));
}
