/* Strided copies y[...] = x[...], on all threads.

   The axes are sorted by the strides of y and merged where possible. The axis along
   which x is contiguous becomes the second-to-last axis. These two axes form a plane of
   n rows and m columns, which is divided into tiles. A tile is copied in one of three
   ways: row by row; in blocks that are transposed in registers, if x is contiguous
   along the axis of rows and y along that of columns; or element by element. */
#include <stdlib.h>

#include "rows.h"

enum { TILE_ELEMENTS = 128, TILE_BYTES = 1 << 16, MAX_AXES = 64 };

typedef struct {
    i64 n, from, to;
} Axis;

typedef struct Copy Copy;
typedef void Tile(const Copy *c, const u8 *x, u8 *y, u64 n, u64 m);

struct Copy {
    const u8 *x;
    u8 *y;
    const Axis *axes; /* the outer axes */
    i64 x_row, x_column, y_row, y_column;
    u64 n, m, rows, columns; /* sizes of a plane and of a tile */
    u32 outer, down, across, size; /* outer axes; tiles per plane; bytes per element */
    Tile *tile;
};

static void copy_rows(const Copy *c, const u8 *x, u8 *y, u64 n, u64 m) {
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

/* Copies elements of type T with any strides; a plane with few columns is copied column
   by column. */
#define STRIDED(T)                                                                       \
    static void strided_##T(const Copy *c, const u8 *x, u8 *y, u64 n, u64 m) {           \
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

/* Transposes a block of N x N elements in N vectors. Each of log2(N) rounds interleaves
   the elements of pairs of vectors that are N / 2 apart. */
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
#define TRANSPOSE(...) TRANSPOSE_(__VA_ARGS__)
/* SMALLER copies tiles that are smaller than a block. */
#define TRANSPOSE_(T, NAME, N, SMALLER)                                                  \
    typedef T row_of_##NAME##_##T __attribute__((vector_size(sizeof(T) * N)));           \
    static void NAME##_##T(const Copy *c, const u8 *x, u8 *y, u64 n, u64 m) {            \
        i64 from = c->x_column, to = c->y_row, size = sizeof(T);                         \
        if (n < N || m < N) {                                                            \
            SMALLER##_##T(c, x, y, n, m);                                                \
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
STRIDED(u8)
STRIDED(u16)
STRIDED(u32)
STRIDED(u64)
STRIDED(u128)
/* The size of a block of u64: larger blocks would not stay in registers. */
#if REGISTER == 16
#define U64_BLOCK 8
#else
#define U64_BLOCK 4
#endif
TRANSPOSE(u8, transpose_small, 4, strided)
TRANSPOSE(u8, transpose_block, 16, transpose_small)
TRANSPOSE(u16, transpose_small, 4, strided)
TRANSPOSE(u16, transpose_block, 16, transpose_small)
TRANSPOSE(u32, transpose_small, 4, strided)
TRANSPOSE(u32, transpose_block, REGISTER, transpose_small)
TRANSPOSE(u64, transpose_small, 4, strided)
TRANSPOSE(u64, transpose_block, U64_BLOCK, transpose_small)

static void copy_tiles(u32 item, u32 end, void *ctx) {
    const Copy *c = ctx;
    const Axis *last = c->axes + c->outer - 1;
    while (item < end) {
        u32 column = item % c->across, rest = item / c->across;
        u32 row = rest % c->down, number = rest / c->down, along = 1;
        if (c->down * c->across == 1) /* planes of a single tile */
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

/* Sorts and merges the axes. Returns their number, at least 3. */
static u32 order_axes(const i64 *how, Axis *axes) {
    u32 rank = (u32)how[0], count = 0, closest = 0;
    const i64 *n = how + 1, *from = n + rank, *to = from + rank;
    Axis sorted[MAX_AXES];
    for (u32 i = 0; i < rank; i++) {
        if (n[i] == 1) continue;
        u32 at = count++;
        for (; at && llabs(sorted[at - 1].to) < llabs(to[i]); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = (Axis){n[i], from[i], to[i]};
    }
    u32 axis_count = 3; /* axes of size 1, so that there is always a plane */
    axes[0] = axes[1] = axes[2] = (Axis){1, 0, 0};
    for (u32 i = 0; i < count; i++) {
        Axis *last = &axes[axis_count - 1], next = sorted[i];
        if (i && last->from == next.from * next.n && last->to == next.to * next.n)
            *last = (Axis){last->n * next.n, next.from, next.to};
        else
            axes[axis_count++] = next;
    }
    for (u32 i = 1; i < axis_count; i++) {
        bool nearer = llabs(axes[i].from) < llabs(axes[closest].from);
        if (axes[i].from && (!axes[closest].from || nearer)) closest = i;
    }
    Axis contiguous = axes[closest];
    if (closest < axis_count - 1 && contiguous.from) {
        for (u32 i = closest; i < axis_count - 2; i++) axes[i] = axes[i + 1];
        axes[axis_count - 2] = contiguous;
    }
    return axis_count;
}

/* `how` contains the rank, the sizes, the strides of x and the strides of y, in bytes.
   */
EXPORT("copy") void copy_strided(const u8 *x, u8 *y, const i64 *how, u32 size) {
    static Tile *const strided[] = {strided_u8, strided_u16, strided_u32, strided_u64,
                                    strided_u128};
    static Tile *const transpose_block[] = {transpose_block_u8, transpose_block_u16,
                                            transpose_block_u32, transpose_block_u64};
    Axis axes[MAX_AXES + 3];
    u32 outer = order_axes(how, axes) - 2, log = (u32)__builtin_ctz(size);
    Axis rows = axes[outer], columns = axes[outer + 1];
    Copy c = {.x = x, .y = y, .axes = axes, .outer = outer, .size = size};
    c.n = (u64)rows.n, c.m = (u64)columns.n;
    c.x_row = rows.from, c.x_column = columns.from;
    c.y_row = rows.to, c.y_column = columns.to;
    c.tile = strided[log], c.columns = MIN(c.m, TILE_BYTES / size);
    if (c.y_column == size && c.x_column == size)
        c.tile = copy_rows;
    else if (c.y_column == size && c.x_row == size && c.x_column && log < 4)
        c.tile = transpose_block[log], c.columns = MIN(c.m, MAX(TILE_ELEMENTS,
                                                                TILE_BYTES / size / c.n & ~15ull));
    c.rows = MIN(c.n, MAX(16, TILE_BYTES / size / c.columns & ~15ull));
    c.down = (u32)CEIL_DIV(c.n, c.rows), c.across = (u32)CEIL_DIV(c.m, c.columns);
    u64 planes = 1, work = c.rows * c.columns * size;
    for (u32 axis = 0; axis < outer; axis++) planes *= (u64)axes[axis].n;
    parallel_for(copy_tiles, &c, (u32)planes * c.down * c.across,
                 (u32)MAX(1, 2 * TILE_BYTES / work));
}

/* --- concatenation ---------------------------------------------------------------- */

typedef struct {
    const u8 *x;
    u64 width; /* bytes per row */
} Part;

typedef struct {
    const Part *parts;
    u8 *y;
    u64 width, rows;
    u32 count, down;
} Joined;

static void join_rows(u32 item, u32 end, void *ctx) {
    const Joined *s = ctx;
    for (; item < end; item++) {
        const Part *part = s->parts + item % s->count;
        u64 row = item / s->count * (u64)s->down, n = MIN(s->rows - row, s->down), at = 0;
        for (const Part *p = s->parts; p < part; p++) at += p->width;
        Copy c = {.x_row = (i64)part->width, .y_row = (i64)s->width, .size = 1};
        copy_rows(&c, part->x + row * part->width, s->y + row * s->width + at, n,
                  part->width);
    }
}

/* Concatenates the rows of the parts: each row of y has `width` bytes. If several parts
   write to the same cache line, the rows of a task stay in the first-level cache. */
EXPORT("join") void join(const Part *parts, u32 count, u8 *y, u32 rows, u32 width) {
    enum { CACHE_LINE = 64, NARROW_BYTES = 1 << 14 };
    u32 down = MAX(1, (width < count * CACHE_LINE ? NARROW_BYTES : TILE_BYTES) / width);
    Joined s = {parts, y, width, rows, count, down};
    u64 grain = 2ull * TILE_BYTES * count / ((u64)down * width);
    parallel_for(join_rows, &s, CEIL_DIV(rows, down) * count, (u32)MAX(1, grain));
}
