/* Reading, writing and accumulating rows at indices.

   An index consists of `depth` int32 coordinates, one for each axis in `sizes`. An
   index out of range is skipped, except by `scatter_put`, and `*bad` is set.

   Contents: indices; gather; scatter; scatter-add; one-hot. */
#include "rows.h"

enum { GRAIN = 65536, COLUMNS = 64 };
#define OUTSIDE UINT32_MAX
#if SMALL_CODE
enum { SINGLE_NUMBERS = 0 };
#else
enum { SINGLE_NUMBERS = 1 }; /* there is a separate loop for rows of one element */
#endif

typedef struct {
    const void *x;
    void *y;
    const i32 *indices, *sizes;
    u32 *bad;
    u32 depth, count, outer, size, width;
} Rows;

/* Returns the row to which index i refers, counting in row-major order of `sizes`. */
INLINE u32 find_row(const Rows *r, u32 i) {
    const i32 *index = r->indices + i * r->depth;
    u32 row = 0;
    for (u32 axis = 0; axis < r->depth; axis++) {
        u32 n = (u32)r->sizes[axis];
        if ((u32)index[axis] >= n) {
            *r->bad = 1;
            return OUTSIDE;
        }
        row = row * n + (u32)index[axis];
    }
    return row;
}

/* --- gather ---------------------------------------------------------------------- */

/* Reads `count` rows. Parameters are passed by value, because writes to y might alias
   `r`. */
INLINE void read_line(const i32 *indices, const u8 *x, u8 *y, u32 *bad, u32 n, u32 count,
                      u32 width) {
    u32 out_of_range = 0;
    for (u32 i = 0; i < count; i++, y += width) {
        u32 row = (u32)indices[i];
        if (row < n) {
            INSIDE(x + (size_t)row * width, width);
            INSIDE(y, width);
            COPY(y, x + (size_t)row * width, width);
        } else
            out_of_range = 1;
    }
    if (out_of_range) *bad = 1;
}

static void read_rows(u32 i, u32 end, void *ctx) {
    const Rows *r = ctx;
    u32 n = r->size, width = r->width;
    for (u32 rows; i < end; i += rows) {
        u32 lead = i / r->count, k = i % r->count, first = lead / r->outer * r->count + k;
        const u8 *x = (const u8 *)r->x + (size_t)lead * n * width;
        u8 *y = (u8 *)r->y + (size_t)i * width;
        rows = MIN(end - i, r->count - k);
        if (r->depth == 1) {
#define READ(width) read_line(r->indices + first, x, y, r->bad, n, rows, width)
            BY_WIDTH(width, READ)
            continue;
        }
        for (u32 j = 0; j < rows; j++, y += width) {
            u32 row = find_row(r, first + j);
            if (row != OUTSIDE) copy(y, x + (size_t)row * width, width);
        }
    }
}

/* y [batch, outer, count] = x [batch, outer, sizes] at indices [batch, count]. An
   element is a row of `width` bytes; `size` is the product of `sizes`. */
EXPORT("gather")
void gather(const u8 *x, const i32 *indices, u8 *y, u32 *bad, u32 batch, u32 outer,
            u32 count, u32 depth, const i32 *sizes, u32 size, u32 width) {
    Rows r = {x, y, indices, sizes, bad, depth, count, outer, size, width};
    INSIDE(indices, (u64)batch * count * depth * 4);
    parallel_for(read_rows, &r, batch * outer * count, MAX(1, GRAIN / (width + 8)));
}

/* --- scatter --------------------------------------------------------------------- */

/* y[indices] = x, in order: the last row written to an index remains. If an index is out
   of range, nothing is written. */
EXPORT("scatter_put")
void scatter_put(const u8 *x, const i32 *indices, u8 *y, u32 *bad, u32 count, u32 depth,
                 const i32 *sizes, u32 width) {
    Rows r = {x, y, indices, sizes, bad, depth, count, 1, 0, width};
    INSIDE(indices, (u64)count * depth * 4);
    for (u32 i = 0; i < count; i++)
        if (find_row(&r, i) == OUTSIDE) return;
    for (u32 i = 0; i < count; i++) {
        copy(y + (size_t)find_row(&r, i) * width, x + (size_t)i * width, width);
        if (i % 1024 == 0) poll_cancel();
    }
}

/* --- scatter-add ----------------------------------------------------------------- */

/* y[indices] += x for `count` rows. An item is a strip of columns, so that no two
   threads add to the same element. */
#define SCATTER_ADD(NAME, X, Y, HOW)                                                     \
    static void NAME##_strip(u32 strip, u32 end, void *ctx) {                            \
        const Rows *r = ctx;                                                             \
        if (SINGLE_NUMBERS && r->width == 1 && r->depth == 1) {                          \
            const X *restrict x = r->x;                                                  \
            const i32 *restrict at = r->indices;                                         \
            Y *restrict y = r->y;                                                        \
            u32 n = (u32)*r->sizes, out_of_range = 0;                                    \
            for (u32 i = 0; i < r->count; i++)                                           \
                if ((u32)at[i] < n)                                                      \
                    y[at[i]] += (Y)x[i];                                                 \
                else                                                                     \
                    out_of_range = 1;                                                    \
            if (out_of_range) *r->bad = 1;                                               \
            return;                                                                      \
        }                                                                                \
        for (; strip < end; strip++) {                                                   \
            u32 first = strip * COLUMNS, m = MIN(COLUMNS, r->width - first);             \
            for (u32 i = 0; i < r->count; i++) {                                         \
                u32 row = find_row(r, i);                                                \
                if (i % 4096 == 0) poll_cancel();                                        \
                if (row == OUTSIDE) continue;                                            \
                const X *restrict x = (const X *)r->x + i * r->width + first;            \
                Y *restrict y = (Y *)r->y + row * r->width + first;                      \
                INSIDE(x, m * sizeof(X));                                                \
                INSIDE(y, m * sizeof(Y));                                                \
                if (m == 1)                                                              \
                    y[0] += (Y)x[0];                                                     \
                else                                                                     \
                    HOW for (u32 j = 0; j < m; j++) y[j] += (Y)x[j];                     \
            }                                                                            \
        }                                                                                \
    }                                                                                    \
    EXPORT(#NAME) void NAME(const X *x, const i32 *indices, Y *y, u32 *bad, u32 count,   \
                            u32 depth, const i32 *sizes, u32 width) {                    \
        Rows r = {x, y, indices, sizes, bad, depth, count, 1, 0, width};                 \
        INSIDE(indices, (u64)count * depth * 4);                                         \
        parallel_for(NAME##_strip, &r, CEIL_DIV(width, COLUMNS), 1);                     \
    }
SCATTER_ADD(scatter_add_f32, f32, f32, )
SCATTER_ADD(scatter_add_wide_f32, f32, f64, SMALL)
SCATTER_ADD(scatter_add_f64, f64, f64, SMALL)
SCATTER_ADD(scatter_add_i32, u32, u32, SMALL)
SCATTER_ADD(scatter_add_i64, u64, u64, SMALL)

/* --- one-hot --------------------------------------------------------------------- */

static void set_rows(u32 i, u32 end, void *ctx) {
    const Rows *r = ctx;
    for (; i < end; i++) {
        u32 index = (u32)r->indices[i], inner = r->outer, depth = r->size;
        if (index >= depth) continue;
        size_t to = (i / inner * depth + index) * inner + i % inner;
        u8 *y = (u8 *)r->y + to * r->width;
        copy(y, r->x, r->width);
    }
}

/* Writes the element at `value` into y [outer, depth, inner] at indices [outer, inner].
   */
EXPORT("one_hot")
void one_hot(const i32 *indices, u8 *y, const u8 *value, u32 n, u32 depth, u32 inner,
             u32 width) {
    Rows r = {value, y, indices, 0, 0, 1, n, inner, depth, width};
    INSIDE(indices, (u64)n * 4);
    parallel_for(set_rows, &r, n, GRAIN / 4);
}
