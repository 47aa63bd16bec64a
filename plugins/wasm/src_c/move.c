/* Copies elements by strides, with one function per element size; creates elements. */
#include "elementwise.h"
#include "rows.h"

typedef struct {
    u64 low, high;
} u128;

/* take_<bytes>(x, y, n, shape): reads x by strides, and writes y in order.
   put_<bytes>(x, y, n, shape): reads x in order, and writes y by strides.
   fill_<bytes>(value, y, n): sets all elements to the element at `value`. */
#define MOVE(N, T)                                                                       \
    static void take_##N##_row(const Operands *o, void *to, u32 n) {                     \
        const T *restrict x = o->in[0];                                                  \
        T *restrict y = to;                                                              \
        i32 step = o->step[0];                                                           \
        if (step == 1)                                                                   \
            copy((u8 *)y, (const u8 *)x, n * sizeof(T));                                             \
        else if (step == 0)                                                              \
            for (u32 i = 0; i < n; i++) y[i] = *x;                                       \
        else                                                                             \
            for (u32 i = 0; i < n; i++, x += step) y[i] = *x;                            \
    }                                                                                    \
    EXPORT("take_" #N) void take_##N(const T *x, T *y, u32 n, const i32 *shape) {        \
        broadcast(take_##N##_row, (Operands){{x}, {sizeof(T)}, {1}}, 1, y, sizeof(T), n, \
                  shape, GRAIN);                                                         \
    }                                                                                    \
    static void put_##N##_row(const Operands *o, void *from, u32 n) {                    \
        const T *restrict x = from;                                                      \
        T *restrict y = (void *)o->in[0];                                                \
        i32 step = o->step[0];                                                           \
        if (step == 1)                                                                   \
            copy((u8 *)y, (const u8 *)x, n * sizeof(T));                                             \
        else                                                                             \
            for (u32 i = 0; i < n; i++, y += step) *y = x[i];                            \
    }                                                                                    \
    EXPORT("put_" #N) void put_##N(const T *x, T *y, u32 n, const i32 *shape) {          \
        broadcast(put_##N##_row, (Operands){{y}, {sizeof(T)}, {1}}, 1, (void *)x,        \
                  sizeof(T), n, shape, GRAIN);                                           \
    }                                                                                    \
    static void fill_##N##_piece(u32 i, u32 end, void *ctx) {                            \
        T value = *(const T *)((Flat *)ctx)->x, *y = ((Flat *)ctx)->y;                   \
        INSIDE(y + i, (u64)(end - i) * sizeof(T));                                       \
        for (; i < end; i++) y[i] = value;                                               \
    }                                                                                    \
    EXPORT("fill_" #N) void fill_##N(const T *value, T *y, u32 n) {                      \
        parallel_for(fill_##N##_piece, &(Flat){value, y, 0, 0}, n, GRAIN);               \
    }
MOVE(1, u8)
MOVE(2, u16)
MOVE(4, u32)
MOVE(8, u64)
MOVE(16, u128)

/* range_<dtype>(y, n, start, step): y[i] = start + i step; integers wrap. */
#define RANGE(T, W)                                                                      \
    EXPORT("range_" #T) void range_##T(T *y, u32 n, W start, W step) {                   \
        INSIDE(y, (u64)n * sizeof(T));                                                   \
        for (u32 i = 0; i < n; i++) y[i] = (T)(start + (W)i * step);                     \
    }
RANGE(i64, u64)
RANGE(f64, f64)
