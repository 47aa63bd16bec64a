/* Casts. Common pairs of types have their own loops. The others are converted in blocks
   through the widest type of their kind: i64, which also represents u64, or f64. */
#include "bfloat16.h"
#include "elementwise.h"
#include "loops.h"

UNARY(cast_i32_f32, i32, f32, GRAIN, (f32)a)
UNARY(cast_u8_f32, u8, f32, GRAIN, (f32)a)
UNARY(cast_u8_i32, u8, i32, GRAIN, a)
UNARY(cast_f32_f64, f32, f64, GRAIN, a)
UNARY(cast_f64_f32, f64, f32, GRAIN, (f32)a)
UNARY(cast_i32_u8, i32, u8, GRAIN, (u8)a)
UNARY(cast_i32_b8, i32, u8, GRAIN, a != 0)
UNARY(cast_f32_b8, f32, u8, GRAIN, a != 0)

UNARY(cast_bf16_f32, u16, f32, GRAIN, from_bfloat16(a))
UNARY(cast_f32_bf16, f32, u16, GRAIN, to_bfloat16(a))

/* Truncates. Values out of range wrap; NaN and infinities give 0. */
static i64 to_integer(f64 x) {
    if (x >= -0x1p63 && x < 0x1p63) return (i64)x;
    if (x - x != 0) return 0;
    x = fmod(trunc(x), 0x1p64);
    return (i64)(x < 0 ? -(u64)-x : (u64)x);
}

#if !SMALL_CODE /* vectorized for blocks whose values are all in range */
#define TRUNCATE(NAME, X, T, Y, LIMIT)                                                   \
    static void NAME##_piece(u32 i, u32 end, void *ctx) {                                \
        const X *restrict x = ((Flat *)ctx)->x;                                          \
        Y *restrict y = ((Flat *)ctx)->y;                                                \
        for (u32 n; i < end; i += n) {                                                   \
            u32 in_range = 1;                                                            \
            n = MIN(end - i, 256);                                                       \
            for (u32 j = i; j < i + n; j++) in_range &= x[j] > -LIMIT && x[j] < LIMIT;   \
            if (in_range)                                                                \
                for (u32 j = i; j < i + n; j++) y[j] = (Y)(T)x[j];                       \
            else                                                                         \
                for (u32 j = i; j < i + n; j++) y[j] = (Y)to_integer(x[j]);              \
        }                                                                                \
    }                                                                                    \
    EXPORT(#NAME) void NAME(const X *x, Y *y, u32 n) {                                   \
        parallel_for(NAME##_piece, &(Flat){x, y, 0, 0}, n, GRAIN);                       \
    }
TRUNCATE(cast_f32_i32, f32, i32, i32, 0x1p31f)
TRUNCATE(cast_f64_i32, f64, i32, i32, 0x1p31)
TRUNCATE(cast_f32_u8, f32, i32, u8, 0x1p31f)
TRUNCATE(cast_f32_i8, f32, i32, i8, 0x1p31f)
TRUNCATE(cast_f32_i64, f32, i64, i64, 0x1p63f)
TRUNCATE(cast_f64_i64, f64, i64, i64, 0x1p63)
UNARY(cast_u8_f64, u8, f64, GRAIN, a)
UNARY(cast_i32_f64, i32, f64, GRAIN, a)
UNARY(cast_i64_f64, i64, f64, GRAIN, (f64)a)
UNARY(cast_i64_f32, i64, f32, GRAIN, (f32)a)
UNARY(cast_i32_i64, i32, i64, GRAIN, a)
#endif

static f64 from_half(u16 h) {
    f64 sign = h >> 15 ? -1 : 1, m = h & 1023;
    i32 e = h >> 10 & 31;
    if (e == 31) return m ? NAN : sign * INFINITY;
    return sign * (e ? ldexp(1024 + m, e - 25) : ldexp(m, -24));
}

/* Returns x rounded to float16: to nearest, ties to even. */
static u16 to_half(f64 x) {
    u16 sign = signbit(x) ? 0x8000 : 0;
    x = fabs(x);
    if (x != x) return sign | 0x7e00;
    if (x >= 65520) return sign | 0x7c00;
    i32 e;
    frexp(x, &e); /* now x < 2^e */
    e = x < 0x1p-14 ? -14 : e - 1;
    u32 m = (u32)rint(ldexp(x, 10 - e)); /* at least 1024, except for denormals */
    return sign | (u16)(m + ((u32)(e + 14) << 10));
}

/* Dtype numbers, in the order of TYPES in plugrad_wasm/launch.py. */
#define TYPES(X)                                                                         \
    X(1, i8) X(2, i16) X(3, i32) X(4, i64) X(5, u8) X(6, u16) X(7, u32) X(8, u64)
enum { BOOL, I64 = 4, U64 = 8, F16, F32, F64, C64, C128 };
#define BLOCK_ELEMENTS 512

typedef struct {
    const u8 *x;
    u8 *y;
    u32 from, to, size_from, size_to;
} Cast;

static void load_integers(const void *x, u32 type, i64 *t, u32 n) {
    switch (type) {
#define CASE(NUMBER, T)                                                                  \
    case NUMBER:                                                                         \
        SMALL for (u32 i = 0; i < n; i++) t[i] = (i64)((const T *)x)[i];                 \
        break;
        TYPES(CASE)
        CASE(BOOL, u8)
#undef CASE
    }
}

static void load_floats(const void *x, u32 type, f64 *t, u32 n) {
    for (u32 i = 0; i < n; i++)
        t[i] = type == F16    ? from_half(((const u16 *)x)[i])
               : type == F32  ? ((const f32 *)x)[i]
               : type == F64  ? ((const f64 *)x)[i]
               : type == C64  ? ((const f32 *)x)[2 * i]
                              : ((const f64 *)x)[2 * i];
}

static void store_integers(const i64 *t, void *y, u32 type, u32 n) {
    switch (type) {
#define CASE(NUMBER, T)                                                                  \
    case NUMBER:                                                                         \
        SMALL for (u32 i = 0; i < n; i++) ((T *)y)[i] = (T)t[i];                         \
        break;
        TYPES(CASE)
#undef CASE
    }
}

static void store_floats(const f64 *t, void *y, u32 type, u32 n) {
    for (u32 i = 0; i < n; i++)
        if (type == F16)
            ((u16 *)y)[i] = to_half(t[i]);
        else if (type == F32 || type == C64)
            ((f32 *)y)[type == C64 ? 2 * i : i] = (f32)t[i];
        else
            ((f64 *)y)[type == C128 ? 2 * i : i] = t[i];
}

static bool is_true(const u8 *x, u32 size, u32 type) {
    if (type == F16) return *(const u16 *)x & 0x7fff;
    if (type == F32) return *(const f32 *)x != 0;
    if (type == F64) return *(const f64 *)x != 0;
    if (type == C64) return ((const f32 *)x)[0] != 0 || ((const f32 *)x)[1] != 0;
    if (type == C128) return ((const f64 *)x)[0] != 0 || ((const f64 *)x)[1] != 0;
    for (u32 i = 0; i < size; i++)
        if (x[i]) return true;
    return false;
}

static void cast_block(const Cast *cast, const u8 *x, u8 *y, u32 n) {
    i64 t[BLOCK_ELEMENTS];
    f64 *f = (f64 *)t;
    u32 from = cast->from, to = cast->to;
    if (to == BOOL) {
        for (u32 i = 0; i < n; i++, x += cast->size_from)
            y[i] = is_true(x, cast->size_from, from);
        return;
    }
    if (from >= C64 && to >= C64) { /* real and imaginary parts are consecutive numbers */
        f64 parts[2 * BLOCK_ELEMENTS];
        load_floats(x, from == C64 ? F32 : F64, parts, 2 * n);
        store_floats(parts, y, to == C64 ? F32 : F64, 2 * n);
        return;
    }
    if (to >= C64) memset(y, 0, n * cast->size_to);
    if (from < F16) {
        load_integers(x, from, t, n);
        if (to < F16) {
            store_integers(t, y, to, n);
            return;
        }
        if (to == F32 || to == C64) { /* rounded once */
            f32 *z = (f32 *)y;
            for (u32 i = 0, step = to == C64 ? 2 : 1; i < n; i++)
                z[i * step] = from == U64 ? (f32)(u64)t[i] : (f32)t[i];
            return;
        }
        for (u32 i = 0; i < n; i++) f[i] = from == U64 ? (f64)(u64)t[i] : (f64)t[i];
    } else {
        load_floats(x, from, f, n);
        if (to < F16) {
            for (u32 i = 0; i < n; i++) t[i] = to_integer(f[i]);
            store_integers(t, y, to, n);
            return;
        }
    }
    store_floats(f, y, to, n);
}

static void cast_piece(u32 i, u32 end, void *ctx) {
    const Cast *cast = ctx;
    for (; i < end; i += BLOCK_ELEMENTS) {
        u32 n = MIN(end - i, BLOCK_ELEMENTS);
        const u8 *x = cast->x + (size_t)i * cast->size_from;
        u8 *y = cast->y + (size_t)i * cast->size_to;
        INSIDE(x, (u64)n * cast->size_from);
        INSIDE(y, (u64)n * cast->size_to);
        cast_block(cast, x, y, n);
    }
}

EXPORT("cast") void cast(const u8 *x, u8 *y, u32 n, u32 from, u32 to) {
    static const u8 size[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 8, 16};
    Cast job = {x, y, from, to, size[from], size[to]};
    parallel_for(cast_piece, &job, n, GRAIN);
}
