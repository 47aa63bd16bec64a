/* y[...] = x[...] by strides, on all threads: elements are only moved.

   Python orders the axes: those of y from the longest stride to the shortest. `how` is
   the rank, 2 or more, then the sizes, then the strides of x, then those of y, in bytes.
   Every pair of the two last axes is a plane, of n rows and m columns, which is cut into
   tiles. A tile is copied row by row; by blocks that are turned in registers, where x is
   contiguous along the rows' axis and y along the columns'; or one by one. */
#include "rows.h"

enum { TILE = 128, BYTES = 1 << 16 };

typedef struct Copy Copy;
typedef void Tile(const Copy *c, const u8 *x, u8 *y, u64 n, u64 m);

struct Copy {
    const u8 *x;
    u8 *y;
    const i64 *sizes, *from, *to; /* of the axes around the planes */
    i64 x_row, x_column, y_row, y_column;
    u64 n, m, rows, columns; /* of a plane, and of a tile */
    u32 outer, down, across, size;
    Tile *tile;
};

static void copy_rows_of(const Copy *c, const u8 *x, u8 *y, u64 n, u64 m) {
    u64 from = (u64)c->x_row, to = (u64)c->y_row, width = m * c->size;
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
#define ROUNDS_16 ROUND(16, LOW_16) ROUND(16, LOW_16) ROUND(16, LOW_16) ROUND(16, LOW_16)
#define ROUNDS_8 ROUND(8, LOW_8) ROUND(8, LOW_8) ROUND(8, LOW_8)
#define TURN(T, N)                                                                       \
    typedef T row_of_##T __attribute__((vector_size(sizeof(T) * N)));                    \
    static void turn_##T(const Copy *c, const u8 *x, u8 *y, u64 n, u64 m) {              \
        i64 from = c->x_column, to = c->y_row, size = sizeof(T);                         \
        u64 n_whole = n - n % N, m_whole = m - m % N;                                    \
        for (u64 i = 0; i < n_whole; i += N)                                             \
            for (u64 j = 0; j < m_whole; j += N) {                                       \
                row_of_##T a[N], b[N];                                                   \
                const u8 *in = x + (i64)i * size + (i64)j * from;                        \
                u8 *out = y + (i64)j * size + (i64)i * to;                               \
                for (int k = 0; k < N; k++) memcpy(&a[k], in + k * from, sizeof a[k]);   \
                ROUNDS_##N                                                               \
                for (int k = 0; k < N; k++) memcpy(out + k * to, &a[k], sizeof a[k]);    \
            }                                                                            \
        each_##T(c, x + (i64)m_whole * from, y + (i64)m_whole * size, n_whole,           \
                 m - m_whole);                                                           \
        each_##T(c, x + (i64)n_whole * size, y + (i64)n_whole * to, n - n_whole, m);     \
    }
typedef struct {
    u64 low, high;
} u128;
ONE_BY_ONE(u8)
ONE_BY_ONE(u16)
ONE_BY_ONE(u32)
ONE_BY_ONE(u64)
ONE_BY_ONE(u128)
TURN(u8, 16)
TURN(u16, 16)
TURN(u32, 16)
TURN(u64, 8)

static void tiles(u32 item, u32 end, void *ctx) {
    const Copy *c = ctx;
    for (; item < end; item++) {
        u64 column = item % c->across * c->columns, rest = item / c->across;
        u64 row = rest % c->down * c->rows, number = rest / c->down;
        const u8 *x = c->x + (i64)row * c->x_row + (i64)column * c->x_column;
        u8 *y = c->y + (i64)row * c->y_row + (i64)column * c->y_column;
        for (u32 axis = c->outer; axis--; number /= (u64)c->sizes[axis]) {
            i64 at = (i64)(number % (u64)c->sizes[axis]);
            x += at * c->from[axis], y += at * c->to[axis];
        }
        c->tile(c, x, y, MIN(c->n - row, c->rows), MIN(c->m - column, c->columns));
    }
}

EXPORT("copy") void copy_strided(const u8 *x, u8 *y, const i64 *how, u32 size) {
    static Tile *const each[] = {each_u8, each_u16, each_u32, each_u64, each_u128};
    static Tile *const turn[] = {turn_u8, turn_u16, turn_u32, turn_u64};
    u32 rank = (u32)how[0], outer = rank - 2, log = (u32)__builtin_ctz(size);
    const i64 *n = how + 1, *from = n + rank, *to = from + rank;
    Copy c = {.x = x, .y = y, .sizes = n, .from = from, .to = to, .outer = outer};
    c.n = (u64)n[outer], c.m = (u64)n[outer + 1], c.size = size;
    c.x_row = from[outer], c.x_column = from[outer + 1];
    c.y_row = to[outer], c.y_column = to[outer + 1];
    c.tile = each[log], c.columns = MIN(c.m, BYTES / size);
    if (c.y_column == size && c.x_column == size)
        c.tile = copy_rows_of;
    else if (c.y_column == size && c.x_row == size && c.x_column && log < 4)
        c.tile = turn[log], c.columns = MIN(c.m, MAX(TILE, BYTES / size / c.n & ~15ull));
    c.rows = MIN(c.n, MAX(16, BYTES / size / c.columns & ~15ull));
    c.down = (u32)CEIL_DIV(c.n, c.rows), c.across = (u32)CEIL_DIV(c.m, c.columns);
    u64 planes = 1, work = c.rows * c.columns * size;
    for (u32 axis = 0; axis < outer; axis++) planes *= (u64)n[axis];
    parallel_for(tiles, &c, (u32)planes * c.down * c.across,
                 (u32)MAX(1, 2 * BYTES / work));
}
