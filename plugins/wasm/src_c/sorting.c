/* Top k and sorting, by integer keys that ascend as elements descend; NaN is first. A
   32-bit key and the index form one 64-bit number, so that all numbers are distinct.

   Contents: keys; sorting; selection; rows; sorting of values without indices. */
#include "plugrad.h"

enum { INSERTION_MAX_K = 32, INSERTION_MAX_ELEMENTS = 48, RADIX_DIGITS = 256 };

/* --- keys ------------------------------------------------------------------------ */

INLINE u32 key_i32(i32 x) { return ~((u32)x ^ 0x80000000u); }
INLINE u64 key_i64(i64 x) { return ~((u64)x ^ 0x8000000000000000u); }
/* The bits of floating-point numbers ascend like integers, from 0 in both directions.
   */
INLINE u32 key_f32(f32 x) {
    union { f32 x; i32 bits; } u = {x + 0}; /* -0 equals 0 */
    return x != x ? 0 : key_i32(u.bits ^ (u.bits >> 31 & INT32_MAX));
}
INLINE u64 key_f64(f64 x) {
    union { f64 x; i64 bits; } u = {x + 0};
    return x != x ? 0 : key_i64(u.bits ^ (u.bits >> 63 & INT64_MAX));
}

/* --- sorting --------------------------------------------------------------------- */

static void insertion_sort(u64 *p, u32 n) {
    for (u32 i = 1; i < n; i++) {
        u64 one = p[i];
        u32 j = i;
        for (; j && p[j - 1] > one; j--) p[j] = p[j - 1];
        p[j] = one;
    }
}

/* Sorts stably by bytes `first` to `last`, where byte 0 is the lowest. `workspace` is
   as long as p. */
static void radix_sort(u64 *p, u64 *workspace, u32 n, u32 first, u32 last) {
    u64 *from = p, *to = workspace;
    for (u32 byte = first; byte <= last; byte++) {
        u32 start[RADIX_DIGITS] = {0}, shift = byte * 8;
        for (u32 i = 0; i < n; i++) start[from[i] >> shift & 255]++;
        if (start[from[0] >> shift & 255] == n) continue; /* all equal */
        for (u32 d = 0, sum = 0; d < RADIX_DIGITS; d++) {
            u32 count = start[d];
            start[d] = sum, sum += count;
        }
        for (u32 i = 0; i < n; i++) to[start[from[i] >> shift & 255]++] = from[i];
        u64 *t = from;
        from = to, to = t;
        poll_cancel();
    }
    if (from != p) memcpy(p, from, n * sizeof(u64));
}

static void sort_pairs(u64 *p, u64 *workspace, u32 n) {
    if (n <= INSERTION_MAX_ELEMENTS)
        insertion_sort(p, n);
    else
        radix_sort(p, workspace, n, 4, 7); /* indices are already in order */
}

/* --- selection ------------------------------------------------------------------- */

/* Moves the k smallest of the n pairs to the front, in their original order. */
static void select_pairs(u64 *p, u32 n, u32 k) {
    u64 limit = 0; /* the largest of the k pairs, found digit by digit */
    u32 left = k;
    for (i32 shift = 56; shift >= 0; shift -= 8) {
        u32 count[RADIX_DIGITS] = {0}, d = 0;
        u64 known = shift == 56 ? 0 : ~0ull << (shift + 8);
        for (u32 i = 0; i < n; i++)
            if (((p[i] ^ limit) & known) == 0) count[p[i] >> shift & 255]++;
        for (; left > count[d]; d++) left -= count[d];
        limit |= (u64)d << shift;
        if (left == count[d]) { /* all pairs with this digit */
            limit |= ((u64)1 << shift) - 1;
            break;
        }
    }
    for (u32 i = 0, j = 0; i < n; i++) {
        p[j] = p[i];
        j += p[i] <= limit;
        if (j == k) break;
    }
    poll_cancel();
}

/* --- rows ------------------------------------------------------------------------ */

typedef struct {
    const void *x;
    void *values;
    i32 *indices;
    u64 *workspace;
    u32 n, k;
    bool sorted, row_workspace;
} Task;

/* There is a workspace per row if there are few rows, else per thread. */
#define SLOT_OF(t, row) ((t)->row_workspace ? (row) : thread_id())

#define SELECT_SORTED(KEY)                                                               \
    /* Finds the k smallest in order by insertion: fast for small k only. */             \
    u32 have = 0;                                                                        \
    for (u32 i = 0; i < n; i++) {                                                        \
        u64 one = (u64)KEY(x[i]) << 32 | i;                                              \
        if (have == k && one > p[k - 1]) continue;                                       \
        u32 j = have < k ? have++ : k - 1;                                               \
        for (; j && p[j - 1] > one; j--) p[j] = p[j - 1];                                \
        p[j] = one;                                                                      \
    }

#define WRITE_ROW                                                                        \
    for (u32 j = 0; j < k; j++) {                                                        \
        u32 index = (u32)p[j];                                                           \
        indices[j] = (i32)index, values[j] = x[index];                                   \
    }

#define ROW(T)                                                                           \
    const Task *t = ctx;                                                                 \
    u32 n = t->n, k = t->k;                                                              \
    u64 *p = t->workspace + (u64)SLOT_OF(t, row) * 2 * n, *workspace = p + n;            \
    const T *x = (const T *)t->x + row * n;                                              \
    T *values = (T *)t->values + row * k;                                                \
    i32 *indices = t->indices + row * k;                                                 \
    INSIDE(p, (u64)n * 2 * sizeof(u64));                                                 \
    INSIDE(x, (u64)n * sizeof(T));                                                       \
    INSIDE(values, (u64)k * sizeof(T));                                                  \
    INSIDE(indices, (u64)k * sizeof(i32));

static void sort_by_index(u64 *p, u32 n) {
    for (u32 i = 0; i < n; i++) p[i] = (u32)p[i];
    insertion_sort(p, n);
}

#define TOP_K_EXPORT(T)                                                                  \
    EXPORT("top_k_" #T)                                                                  \
    void top_k_##T(const T *x, T *values, i32 *indices, u64 *workspace, u32 rows, u32 n, \
                   u32 k, u32 sorted, u32 row_workspace) {                               \
        Task t = {x, values, indices, workspace, n, k, sorted, row_workspace};           \
        parallel_for(rows_##T, &t, rows, MAX(1, 8192 / n));                              \
    }

#define TOP_K(T)                                                                         \
    static void rows_##T(u32 row, u32 end, void *ctx) {                                  \
        for (; row < end; row++) {                                                       \
            ROW(T)                                                                       \
            if (k <= INSERTION_MAX_K && k < n) {                                         \
                SELECT_SORTED(key_##T)                                                   \
                if (!t->sorted) sort_by_index(p, k);                                     \
            } else {                                                                     \
                for (u32 i = 0; i < n; i++) p[i] = (u64)key_##T(x[i]) << 32 | i;         \
                if (k < n) select_pairs(p, n, k);                                        \
                if (t->sorted) sort_pairs(p, workspace, k);                              \
            }                                                                            \
            WRITE_ROW                                                                    \
        }                                                                                \
    }                                                                                    \
    TOP_K_EXPORT(T)
TOP_K(f32)
TOP_K(i32)

/* 64-bit keys are sorted by the lower half, then by the upper half. */
#define TOP_K_64(T)                                                                      \
    static void rows_##T(u32 row, u32 end, void *ctx) {                                  \
        for (; row < end; row++) {                                                       \
            ROW(T)                                                                       \
            for (u32 i = 0; i < n; i++) p[i] = key_##T(x[i]) << 32 | i;                  \
            radix_sort(p, workspace, n, 4, 7);                                           \
            for (u32 i = 0; i < n; i++)                                                  \
                p[i] = key_##T(x[(u32)p[i]]) >> 32 << 32 | (u32)p[i];                    \
            radix_sort(p, workspace, n, 4, 7);                                           \
            if (!t->sorted) radix_sort(p, workspace, k, 0, 3);                           \
            WRITE_ROW                                                                    \
        }                                                                                \
    }                                                                                    \
    TOP_K_EXPORT(T)
TOP_K_64(f64)
TOP_K_64(i64)

/* --- values without indices ------------------------------------------------------ */

/* Ascending keys. -0 comes before 0, which put_zeros corrects; all NaN are equal. */
INLINE u32 ascending_i32(i32 x) { return (u32)x ^ 0x80000000u; }
INLINE i32 from_key_i32(u32 key) { return (i32)(key ^ 0x80000000u); }
INLINE u32 ascending_f32(f32 x) {
    union { f32 x; u32 bits; } u = {x};
    return x != x ? UINT32_MAX : u.bits >> 31 ? ~u.bits : u.bits | 0x80000000u;
}
INLINE f32 from_key_f32(u32 key) {
    union { u32 bits; f32 x; } u = {key >> 31 ? key ^ 0x80000000u : ~key};
    return u.x;
}

/* Restores the order that zeros of both signs, which compare equal, have in x. */
static void put_zeros_f32(const f32 *x, f32 *y, u32 n) {
    for (u32 i = 0, j = 0; i < n; i++) {
        if (x[i] != 0) continue;
        while (y[j] != 0) j++;
        y[j++] = x[i];
    }
}
#define put_zeros_i32(x, y, n) /* integers have a single zero */

enum { MAX_RADIX_BITS = 11 };

/* Sorts keys by their digits, which are short if there are few keys. Returns the buffer
   that contains the sorted keys: `from` or `to`. */
static u32 *sort_keys(u32 *from, u32 *to, u32 n) {
    u32 bits = n < 8192 ? 8 : MAX_RADIX_BITS, digits = 1u << bits, passes = CEIL_DIV(32, bits);
    u32 starts[4][1 << MAX_RADIX_BITS];
    for (u32 k = 0; k < passes; k++) memset(starts[k], 0, digits * sizeof(u32));
    for (u32 i = 0; i < n; i++)
        for (u32 k = 0; k < passes; k++) starts[k][from[i] >> k * bits & (digits - 1)]++;
    for (u32 k = 0; k < passes; k++) {
        u32 *start = starts[k], shift = k * bits;
        if (start[from[0] >> shift & (digits - 1)] == n) continue; /* all equal */
        for (u32 d = 0, sum = 0; d < digits; d++) {
            u32 count = start[d];
            start[d] = sum, sum += count;
        }
        for (u32 i = 0; i < n; i++) to[start[from[i] >> shift & (digits - 1)]++] = from[i];
        u32 *t = from;
        from = to, to = t;
        poll_cancel();
    }
    return from;
}

#define SORT(T)                                                                          \
    static void sort_rows_##T(u32 row, u32 end, void *ctx) {                             \
        const Task *t = ctx;                                                             \
        u32 n = t->n;                                                                    \
        for (; row < end; row++) {                                                       \
            u32 *workspace = (u32 *)t->workspace + (u64)SLOT_OF(t, row) * 2 * n;         \
            INSIDE(workspace, (u64)n * 2 * sizeof(u32));                                 \
            const T *x = (const T *)t->x + row * n;                                      \
            T *y = (T *)t->values + row * n;                                             \
            INSIDE(x, (u64)n * sizeof(T));                                               \
            INSIDE(y, (u64)n * sizeof(T));                                               \
            for (u32 i = 0; i < n; i++) workspace[i] = ascending_##T(x[i]);              \
            const u32 *p = sort_keys(workspace, workspace + n, n);                       \
            if (t->sorted)                                                               \
                for (u32 i = 0; i < n; i++) y[i] = from_key_##T(p[n - 1 - i]);           \
            else                                                                         \
                for (u32 i = 0; i < n; i++) y[i] = from_key_##T(p[i]);                   \
            put_zeros_##T(x, y, n);                                                      \
        }                                                                                \
    }                                                                                    \
    EXPORT("sort_" #T)                                                                   \
    void sort_##T(const T *x, T *y, u32 *workspace, u32 rows, u32 n, u32 descending,     \
                  u32 row_workspace) {                                                   \
        Task t = {x, y, 0, (u64 *)workspace, n, n, descending, row_workspace};           \
        parallel_for(sort_rows_##T, &t, rows, MAX(1, 8192 / n));                         \
    }
SORT(f32)
SORT(i32)
