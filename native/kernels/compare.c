/* Comparisons, and selection by a condition. */
#include "elementwise.h"

#define COMPARE(BINARY, T)                                                                       \
    BINARY(equal_##T, T, u8, GRAIN, p == q)                                              \
    BINARY(less_##T, T, u8, GRAIN, p < q)                                                \
    BINARY(less_equal_##T, T, u8, GRAIN, p <= q)
COMPARE(BINARY, f32)
COMPARE(BINARY_SMALL, f64)
COMPARE(BINARY, i32)
COMPARE(BINARY_SMALL, i64)
COMPARE(BINARY_SMALL, u32)
COMPARE(BINARY_SMALL, u64)

/* select_<bytes>(condition, t, e, y, n, shape) */
typedef struct {
    u64 low, high;
} u128;
#define CHOOSE(T, ic, it, ie)                                                            \
    for (u32 i = 0; i < n; i++) {                                                        \
        T a = t[it], b = e[ie]; /* reading both avoids a branch */                     \
        y[i] = c[ic] ? a : b;                                                            \
    }
#define SELECT(NAME, T)                                                                  \
    void NAME##_row(const Operands *o, void *to, u32 n) {                         \
        const u8 *restrict c = o->in[0];                                                 \
        const T *restrict t = o->in[1], *restrict e = o->in[2];                          \
        T *restrict y = to;                                                              \
        u32 dc = o->step[0], dt = o->step[1], de = o->step[2];                           \
        if (dc && dt && de)                                                              \
            CHOOSE(T, i, i, i)                                                           \
        else if (dc && dt)                                                               \
            CHOOSE(T, i, i, 0)                                                           \
        else if (dc && de)                                                               \
            CHOOSE(T, i, 0, i)                                                           \
        else                                                                             \
            CHOOSE(T, i * dc, i * dt, i * de)                                            \
    }                                                                                    \
    EXPORT(#NAME) void NAME(const u8 *c, const T *t, const T *e, T *y, u32 n,            \
                            const i32 *shape) {                                          \
        broadcast(NAME##_row, (Operands){{c, t, e}, {1, sizeof(T), sizeof(T)}, {1, 1, 1}},\
                  3, y, sizeof(T), n, shape, GRAIN);                                     \
    }
SELECT(select_1, u8)
SELECT(select_2, u16)
SELECT(select_4, u32)
SELECT(select_8, u64)
SELECT(select_16, u128)
