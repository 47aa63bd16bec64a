/* Types, exports, parallel_for and SIMD helpers; included by every kernel family.

   A kernel is a function that Python calls with addresses, 32-bit integers and doubles:

   EXPORT("scale_f32") void scale_f32(const f32 *x, f32 *y, u32 n, f64 factor)

   On WebAssembly pointers are offsets into linear memory. Shapes and strides are passed
   in a descriptor, an array of i32 that Python writes into memory. Kernels allocate
   nothing: Python allocates workspaces, passes their addresses, and frees them after
   the call. If each thread needs a workspace, the kernel gets `threads` times as much
   memory and selects a part by `thread_id()`. Kernels never rely on traps: they check
   what Python has not checked. */
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "targets/target.h"

typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef float f32;
typedef double f64;
typedef _Complex float c64;
typedef _Complex double c128;

#ifndef EXPORT /* empty in copies of a file whose functions are not exported */
#define EXPORT(name) __attribute__((export_name(name)))
#endif
#define EXPORT_DATA __attribute__((used, visibility("default")))
#define INLINE static inline __attribute__((always_inline))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

/* For loops that do not gain from vectors: scalar code is a tenth of the size. */
#define SMALL _Pragma("clang loop vectorize(disable) unroll(disable)")
/* For loops that are limited by pointer arithmetic: four float32 vectors per iteration,
   read and written at constant offsets. */
#define WIDE _Pragma("clang loop vectorize_width(16)")
/* For loops over a multiple of 16 elements, which may be short. */
#define BY_16 _Pragma("clang loop vectorize_width(16) interleave_count(1)")
/* BY_ROUND, which the target defines, is for sums over a multiple of ROUND elements;
   each iteration adds ROUND elements. */
/* Runs the statement for each i < n: in steps of 16, and one by one for the rest. For
   rows that may be short. */
#define STRETCH(n, ...)                                                                  \
    {                                                                                    \
        u32 i = 0, whole = n & ~15u;                                                     \
        BY_16 for (; i < whole; i++) { __VA_ARGS__ }                                     \
        for (; i < n; i++) { __VA_ARGS__ }                                               \
    }
#define ONE_BY_ONE(n, ...) SMALL for (u32 i = 0; i < n; i++) { __VA_ARGS__ }

/* --- threads (defined by each plugin) -------------------------------------------- */

#define MAX_THREADS 64 /* the same as in runtime.py; a worker has 256 KiB of stack */

/* Divides the items 0..n-1 into pieces of at most `grain` items, and calls body(begin,
   end, ctx) for each piece: on all threads or, in the plain WebAssembly modules, on
   one thread. Returns when all pieces are done. Choose the grain such that a piece takes
   10 to 500 us: Ctrl-C is checked between pieces. On WebAssembly, a body must not call
   parallel_for; on native targets it may, and the calling thread then does all of the
   work. */
void parallel_for(void (*body)(u32 begin, u32 end, void *ctx), void *ctx, u32 n,
                  u32 grain);

/* Returns the index of this thread, from 0 (the caller) to threads - 1. */
u32 thread_id(void);
/* Returns the maximum number of threads. */
u32 thread_count(void);

/* On native targets: returns scratch memory, aligned to cache lines, that belongs to this
   thread until it ends. `which` selects one of four buffers, 0 to 3; every call for
   the same buffer must pass the same `bytes`. */
void *thread_scratch(u32 which, size_t bytes);

/* Does not return once the user has pressed Ctrl-C. Pieces that take longer than 500 us,
   and long kernels without parallel_for, must call it at least every 500 us. */
void poll_cancel(void);

/* --- assertions ------------------------------------------------------------------ */

/* Aborts the kernel with a message that Python reports. */
_Noreturn void fail(const char *message);

/* Assertions of debug builds: CHECK(condition, "what is wrong"), and INSIDE(pointer,
   bytes) for all memory that a kernel is about to use. */
#ifdef PLUGRAD_DEBUG
#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define CHECK(condition, message)                                                      \
    ((condition) ? (void)0 : fail(__FILE_NAME__ ":" STRING(__LINE__) ": " message))
bool in_memory(const void *p, u64 bytes);
#define INSIDE(p, bytes) CHECK(in_memory(p, bytes), #p " is out of bounds")
#else
#define CHECK(condition, message) ((void)0)
#define INSIDE(p, bytes) ((void)0)
#endif

/* --- vectors of float32 ---------------------------------------------------------- */

/* `v4` has four lanes on every target; `vec` has LANES, as many as fit in a register. A
   target with wider registers than WebAssembly defines LANES, `vec` and the names under
   #ifndef LANES; the functions behind the other names are overloaded for both types. */
typedef v128_t v4;

#define LOAD(p) wasm_v128_load(p)
#define SPLAT(x) wasm_f32x4_splat(x)

INLINE v4 load_partial(const f32 *p, u32 n) { /* n < 4 elements, then zeros */
    f32 t[4] = {0, 0, 0, 0};
    for (u32 i = 0; i < n; i++) t[i] = p[i];
    return LOAD(t);
}

INLINE void store_partial(f32 *p, v4 v, u32 n) {
    f32 t[4];
    wasm_v128_store(t, v);
    for (u32 i = 0; i < n; i++) p[i] = t[i];
}

#ifndef LANES
#define LANES 4
typedef v4 vec;
#define VLOAD(p) LOAD(p)
#define VEC(x) SPLAT(x)
#define VINT(n) wasm_i32x4_splat(n)
#define vload_partial(p, n) load_partial(p, n)
#define vstore_partial(p, v, n) store_partial(p, v, n)
#endif

#define STORE(p, v) wasm_v128_store(p, v)
#define FMA(a, b, c) wasm_f32x4_relaxed_madd(a, b, c) /* a * b + c */
#define NMA(a, b, c) wasm_f32x4_relaxed_nmadd(a, b, c) /* c - a * b */
#define ADD(a, b) wasm_f32x4_add(a, b)
#define SUB(a, b) wasm_f32x4_sub(a, b)
#define MUL(a, b) wasm_f32x4_mul(a, b)
#define DIV(a, b) wasm_f32x4_div(a, b)
#define NEG(a) wasm_f32x4_neg(a)
#define ABS(a) wasm_f32x4_abs(a)
#define SQRT(a) wasm_f32x4_sqrt(a)
#define NEAREST(a) wasm_f32x4_nearest(a)
/* Integer operations. Shift counts are scalars; SHR is arithmetic, USHR logical. */
#define IADD(a, b) wasm_i32x4_add(a, b)
#define ISUB(a, b) wasm_i32x4_sub(a, b)
#define SHL(a, n) wasm_i32x4_shl(a, n)
#define SHR(a, n) wasm_i32x4_shr(a, n)
#define USHR(a, n) wasm_u32x4_shr(a, n)
#define TO_INT(a) wasm_i32x4_relaxed_trunc_f32x4(a) /* undefined for NaN */
#define TO_FLOAT(a) wasm_f32x4_convert_i32x4(a)
/* Comparisons, which set all bits of a lane or none; and bitwise operations. */
#define EQ(a, b) wasm_f32x4_eq(a, b)
#define LT(a, b) wasm_f32x4_lt(a, b)
#define LE(a, b) wasm_f32x4_le(a, b)
#define GT(a, b) wasm_f32x4_gt(a, b)
#define GE(a, b) wasm_f32x4_ge(a, b)
#define AND(a, b) wasm_v128_and(a, b)
#define OR(a, b) wasm_v128_or(a, b)
#define XOR(a, b) wasm_v128_xor(a, b)
#define AND_NOT(a, b) wasm_v128_andnot(a, b)
#define ALL_TRUE(a) wasm_i32x4_all_true(a)
/* mask ? a : b in one instruction; all bits of a lane of the mask must be equal */
#define WHERE(mask, a, b) wasm_i32x4_relaxed_laneselect(a, b, mask)
/* Minimum and maximum; if an operand is NaN, the result is a. They take one
   instruction; variants that propagate any NaN would take seven. */
#define PMIN(a, b) wasm_f32x4_pmin(a, b)
#define PMAX(a, b) wasm_f32x4_pmax(a, b)

/* Transposes the 4 x 4 block whose rows begin at the four pointers: out[k][row]. */
INLINE void transpose4x4(const f32 *p0, const f32 *p1, const f32 *p2, const f32 *p3,
                         f32 *out, u32 step) {
    v4 a = LOAD(p0), b = LOAD(p1), c = LOAD(p2), d = LOAD(p3);
    v4 t0 = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5);
    v4 t1 = wasm_i32x4_shuffle(c, d, 0, 4, 1, 5);
    v4 t2 = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
    v4 t3 = wasm_i32x4_shuffle(c, d, 2, 6, 3, 7);
    STORE(out, wasm_i64x2_shuffle(t0, t1, 0, 2));
    STORE(out + step, wasm_i64x2_shuffle(t0, t1, 1, 3));
    STORE(out + 2 * step, wasm_i64x2_shuffle(t2, t3, 0, 2));
    STORE(out + 3 * step, wasm_i64x2_shuffle(t2, t3, 1, 3));
}

INLINE f32 reduce_add(v4 v) {
    v = ADD(v, wasm_i32x4_shuffle(v, v, 2, 3, 0, 1));
    return wasm_f32x4_extract_lane(v, 0) + wasm_f32x4_extract_lane(v, 1);
}

/* Returns the maximum, or NaN if a lane is NaN. */
INLINE f32 reduce_max(v4 v) {
    v = wasm_f32x4_max(v, wasm_i32x4_shuffle(v, v, 2, 3, 0, 1));
    v = wasm_f32x4_max(v, wasm_i32x4_shuffle(v, v, 1, 0, 3, 2));
    return wasm_f32x4_extract_lane(v, 0);
}
