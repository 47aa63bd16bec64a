/* Cumulative sums and products along the middle axis of [outer, n, inner], computed in
   double precision. */
#include "loops.h"

enum { STRIP_COLUMNS = 64, GRAIN = 32768, POLL_ELEMENTS = 1024 };
#if SMALL_CODE
enum { PARALLEL_SUMS = 1 };
#else
enum { PARALLEL_SUMS = 8 }; /* rows summed together, to hide the latency of additions */
#endif

typedef struct {
    const void *x;
    void *y;
    u32 n, inner, strips;
    bool exclusive, reverse;
} Scan;

#define SCAN(NAME, T, A, START, OP, HOW)                                                 \
    INLINE void NAME##_rows(const T *restrict x, T *restrict y, u32 n, i32 step,         \
                            bool exclusive) {                                            \
        A total[PARALLEL_SUMS];                                                          \
        for (u32 r = 0; r < PARALLEL_SUMS; r++) total[r] = START;                        \
        for (u32 i = 0; i < n; i++, x += step, y += step)                                \
            for (u32 r = 0; r < PARALLEL_SUMS; r++) {                                    \
                A next = total[r] OP(A) x[(size_t)r * n];                                \
                y[(size_t)r * n] = (T)(exclusive ? total[r] : next);                     \
                total[r] = next;                                                         \
            }                                                                            \
    }                                                                                    \
    static void NAME##_piece(u32 item, u32 end, void *ctx) {                             \
        const Scan *s = ctx;                                                             \
        for (; item < end; item++) {                                                     \
            u32 first = item % s->strips * STRIP_COLUMNS, m = MIN(STRIP_COLUMNS, s->inner - first); \
            u32 at = item / s->strips * s->n * s->inner + first;                         \
            i32 step = s->reverse ? -(i32)s->inner : (i32)s->inner;                      \
            if (s->reverse) at += (s->n - 1) * s->inner;                                 \
            const T *restrict x = (const T *)s->x + at;                                  \
            T *restrict y = (T *)s->y + at;                                              \
            if (PARALLEL_SUMS > 1 && s->inner == 1 && item + PARALLEL_SUMS <= end) {     \
                NAME##_rows(x, y, s->n, step, s->exclusive);                             \
                item += PARALLEL_SUMS - 1;                                               \
                continue;                                                                \
            }                                                                            \
            A total[STRIP_COLUMNS];                                                      \
            HOW for (u32 j = 0; j < m; j++) total[j] = START;                            \
            for (u32 i = 0; i < s->n; i++, x += step, y += step) {                       \
                INSIDE(x, m * sizeof(T));                                                \
                INSIDE(y, m * sizeof(T));                                                \
                if (s->exclusive)                                                        \
                    HOW for (u32 j = 0; j < m; j++) {                                    \
                        y[j] = (T)total[j];                                              \
                        total[j] = total[j] OP(A) x[j];                                  \
                    }                                                                    \
                else if (m == 1)                                                         \
                    y[0] = (T)(total[0] = total[0] OP(A) x[0]);                          \
                else                                                                     \
                    HOW for (u32 j = 0; j < m; j++)                                      \
                        y[j] = (T)(total[j] = total[j] OP(A) x[j]);                      \
                if (i % POLL_ELEMENTS == 0) poll_cancel();                               \
            }                                                                            \
        }                                                                                \
    }                                                                                    \
    EXPORT(#NAME) void NAME(const T *x, T *y, u32 outer, u32 n, u32 inner,               \
                            u32 exclusive, u32 reverse) {                                \
        Scan s = {x, y, n, inner, CEIL_DIV(inner, STRIP_COLUMNS), exclusive, reverse};   \
        u32 work = n * MIN(inner, STRIP_COLUMNS);                                        \
        parallel_for(NAME##_piece, &s, outer * s.strips, MAX(1, GRAIN / MAX(1, work)));  \
    }
SCAN(cumsum_f32, f32, f64, 0, +, )
SCAN(cumsum_f64, f64, f64, 0, +, SMALL)
SCAN(cumsum_i32, i32, u32, 0, +, SMALL)
SCAN(cumsum_i64, i64, u64, 0, +, SMALL)
SCAN(cumprod_f32, f32, f64, 1, *, SMALL)
SCAN(cumprod_f64, f64, f64, 1, *, SMALL)
SCAN(cumprod_i32, i32, u32, 1, *, SMALL)
SCAN(cumprod_i64, i64, u64, 1, *, SMALL)
