/* Softmax and its logarithm; batch, layer and RMS normalization; the gradients of
   softmax, its logarithm and layer normalization. */
#include "mathematics.h"

typedef struct {
    const void *x;
    void *y;
    u32 n, inner, log;
    const void *dy;
} Task;

/* --- softmax ---------------------------------------------------------------------- */

enum { CHUNK_ELEMENTS = 256 }; /* elements per float32 sum; sums are added in float64 */

INLINE f32 max_f32(const f32 *x, u32 n) { /* ignores NaN, which the sum propagates */
    vec a = VEC(-INFINITY), b = a;
    u32 i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        a = PMAX(a, VLOAD(x + i)), b = PMAX(b, VLOAD(x + i + LANES));
    if (n >= LANES && i < n) { /* the rest, in vectors that overlap the previous ones */
        a = PMAX(a, VLOAD(x + MIN(i, n - LANES))), b = PMAX(b, VLOAD(x + n - LANES));
        i = n;
    }
    f32 peak = reduce_max(PMAX(a, b));
    for (; i < n; i++) peak = x[i] > peak ? x[i] : peak;
    return peak;
}

/* Returns the sum of e^(x - shift). Stores the terms in y if `keep`. */
INLINE f64 exponentials(const f32 *x, f32 shift, u32 n, f32 *y, bool keep) {
    vec by = VEC(shift);
    f64 total = 0;
    u32 i = 0, whole = n - n % LANES;
    while (i < whole) {
        vec sum = VEC(0);
        for (u32 end = MIN(whole, i + CHUNK_ELEMENTS); i < end; i += LANES) {
            vec e = exp_below(SUB(VLOAD(x + i), by));
            if (keep) STORE(y + i, e);
            sum = ADD(sum, e);
        }
        total += reduce_add(sum);
    }
    if (i == n) return total;
    f32 last[LANES];
    STORE(last, exp_below(SUB(vload_partial(x + i, n - i), by)));
    for (u32 k = 0; i < n; i++, k++) {
        if (keep) y[i] = last[k];
        total += last[k];
    }
    return total;
}

/* The next two functions are not inlined, so that each can use all registers. */
static __attribute__((noinline)) f64 sum_of_exponentials(const f32 *x, f32 shift, u32 n) {
    return exponentials(x, shift, n, 0, false);
}

static __attribute__((noinline)) f64 store_exponentials(const f32 *x, f32 shift, u32 n,
                                                        f32 *y) {
    return exponentials(x, shift, n, y, true);
}

static void run_rows(u32 begin, u32 end, void *ctx) {
    const Task *s = ctx;
    u32 n = s->n;
    for (u32 row = begin; row < end; row++) {
        const f32 *x = (const f32 *)s->x + row * n;
        f32 *restrict y = (f32 *)s->y + row * n, peak = max_f32(x, n);
        if (s->log) {
            f32 log_sum = (f32)log(sum_of_exponentials(x, peak, n));
            for (u32 i = 0; i < n; i++) y[i] = x[i] - peak - log_sum;
        } else {
            f32 factor = (f32)(1 / store_exponentials(x, peak, n, y));
            for (u32 i = 0; i < n; i++) y[i] *= factor;
        }
    }
}

/* Computes softmax along an axis that is not the last one, in `count` vectors of
   adjacent columns, or in `width` columns if `width` is less than LANES. */
INLINE void softmax_columns(const f32 *x, f32 *y, u32 n, u32 step, u32 count, u32 width,
                            bool logarithm) {
#define GET(p) (width == LANES ? VLOAD(p) : vload_partial(p, width))
#define SET(p, v) (width == LANES ? STORE(p, v) : vstore_partial(p, v, width))
#define EACH(v) for (u32 v = 0; v < count; v++)
    vec peak[4], sum[4], total[4];
    EACH(v) peak[v] = VEC(-INFINITY), total[v] = VEC(0);
    for (u32 i = 0; i < n; i++)
        EACH(v) peak[v] = PMAX(peak[v], GET(x + i * step + LANES * v));
    for (u32 i = 0; i < n;) {
        EACH(v) sum[v] = VEC(0);
        for (u32 end = MIN(n, i + CHUNK_ELEMENTS); i < end; i++)
            EACH(v) {
                vec e = exp_below(SUB(GET(x + i * step + LANES * v), peak[v]));
                sum[v] = ADD(sum[v], e);
                if (!logarithm) SET(y + i * step + LANES * v, e);
            }
        EACH(v) total[v] = ADD(total[v], sum[v]);
    }
    EACH(v) total[v] = logarithm ? vec_log(total[v]) : DIV(VEC(1), total[v]);
    for (u32 i = 0; i < n; i++)
        EACH(v) {
            const f32 *from = (logarithm ? x : y) + i * step + LANES * v;
            vec z = logarithm ? SUB(SUB(GET(from), peak[v]), total[v])
                              : MUL(GET(from), total[v]);
            SET(y + i * step + LANES * v, z);
        }
}

enum { STRIP_COLUMNS = 4 * LANES }; /* columns of a task: at least one cache line */

static void run_columns(u32 begin, u32 end, void *ctx) {
    const Task *s = ctx;
    u32 inner = s->inner, strips = CEIL_DIV(inner, STRIP_COLUMNS);
    for (u32 i = begin; i < end; i++) {
        u32 j = i % strips * STRIP_COLUMNS, last = MIN(inner, j + STRIP_COLUMNS);
        const f32 *x = (const f32 *)s->x + i / strips * s->n * inner;
        f32 *y = (f32 *)s->y + i / strips * s->n * inner;
        if (j + STRIP_COLUMNS == last) {
            softmax_columns(x + j, y + j, s->n, inner, 4, LANES, s->log);
            continue;
        }
        for (; j + LANES <= last; j += LANES)
            softmax_columns(x + j, y + j, s->n, inner, 1, LANES, s->log);
        if (j < last) softmax_columns(x + j, y + j, s->n, inner, 1, last - j, s->log);
    }
}

/* Computes softmax along the middle axis of [outer, n, inner]. */
EXPORT("softmax_f32")
void softmax_f32(const f32 *x, f32 *y, u32 outer, u32 n, u32 inner, u32 log) {
    Task s = {x, y, n, inner, log, 0};
    INSIDE(x, (u64)outer * n * inner * sizeof(f32));
    INSIDE(y, (u64)outer * n * inner * sizeof(f32));
    u32 grain = MAX(1, 16384 / n);
    if (inner == 1)
        parallel_for(run_rows, &s, outer, grain);
    else
        parallel_for(run_columns, &s, outer * CEIL_DIV(inner, STRIP_COLUMNS), MAX(1,
                     grain / STRIP_COLUMNS));
}

static void run_doubles(u32 begin, u32 end, void *ctx) {
    const Task *s = ctx;
    u32 step = s->inner, n = s->n;
    for (u32 row = begin; row < end; row++) {
        u32 offset = row / step * n * step + row % step;
        const f64 *x = (const f64 *)s->x + offset;
        f64 *y = (f64 *)s->y + offset, peak = -INFINITY, sum = 0;
        for (u32 i = 0; i < n; i++) peak = x[i * step] > peak ? x[i * step] : peak;
        for (u32 i = 0; i < n; i++) sum += y[i * step] = exp(x[i * step] - peak);
        f64 log_sum = log(sum);
        SMALL for (u32 i = 0; i < n; i++)
            y[i * step] = s->log ? x[i * step] - peak - log_sum : y[i * step] / sum;
    }
}

EXPORT("softmax_f64")
void softmax_f64(const f64 *x, f64 *y, u32 outer, u32 n, u32 inner, u32 log) {
    Task s = {x, y, n, inner, log, 0};
    INSIDE(x, (u64)outer * n * inner * sizeof(f64));
    INSIDE(y, (u64)outer * n * inner * sizeof(f64));
    parallel_for(run_doubles, &s, outer * inner, MAX(1, 2048 / n));
}

/* --- normalization ---------------------------------------------------------------- */

/* y = (x - mean) factor + offset in `c` channels. `factor` is workspace for `c`
   elements. */
typedef struct {
    const void *x, *mean, *factor, *offset;
    void *y;
    u32 c;
    f64 epsilon;
} Norm;

#define BATCH_NORM(T, sqrt, HOW)                                                       \
    static void pixels_##T(u32 begin, u32 end, void *ctx) {                            \
        const Norm *s = ctx;                                                           \
        const T *mean = s->mean, *factor = s->factor, *offset = s->offset;             \
        for (u32 i = begin; i < end; i++) {                                            \
            const T *restrict x = (const T *)s->x + i * s->c;                          \
            T *restrict y = (T *)s->y + i * s->c;                                      \
            if (offset)                                                                \
                HOW for (u32 j = 0; j < s->c; j++)                                     \
                    y[j] = (x[j] - mean[j]) * factor[j] + offset[j];                   \
            else                                                                       \
                HOW for (u32 j = 0; j < s->c; j++) y[j] = (x[j] - mean[j]) * factor[j]; \
        }                                                                              \
    }                                                                                  \
    EXPORT("batch_norm_" #T)                                                           \
    void batch_norm_##T(const T *x, const T *mean, const T *variance, const T *scale,  \
                        const T *offset, T *factor, T *y, u32 n, u32 c, f64 epsilon) { \
        INSIDE(x, (u64)n * c * sizeof(T));                                             \
        INSIDE(y, (u64)n * c * sizeof(T));                                             \
        for (u32 j = 0; j < c; j++) {                                                  \
            factor[j] = 1 / sqrt(variance[j] + (T)epsilon);                            \
            if (scale) factor[j] *= scale[j];                                          \
        }                                                                              \
        Norm s = {x, mean, factor, offset, y, c, 0};                                   \
        parallel_for(pixels_##T, &s, n, MAX(1, 16384 / c));                            \
    }

BATCH_NORM(f32, __builtin_sqrtf, WIDE)
BATCH_NORM(f64, __builtin_sqrt, SMALL)

#define ADD_UP(T)                                                                      \
    {                                                                                  \
        _Pragma("clang fp reassociate(on)") T d = x[i] - log_sum;                      \
        sum += by ? d * by[i] : square ? d * d : d;                                    \
    }
/* Prefetches a row. This does not help for rows of a page or more, because the
   processor itself prefetches within a page. */
INLINE void prefetch_row(const void *row, size_t bytes) {
#if CACHE_CONTROL
    enum { PAGE = 4096, CACHE_LINE = 64 };
    for (size_t i = 0; i < bytes && bytes < PAGE; i += CACHE_LINE)
        __builtin_prefetch((const u8 *)row + i);
#endif
}

/* y = (x - mean) / sqrt(variance + epsilon) factor + offset, along rows of `c`
   elements. Chunks of 2 * CHUNK_ELEMENTS elements are summed in T, in any order; the
   sums of chunks are added in float64. */
#define LAYER_NORM(T, LOOP)                                                            \
    INLINE f64 sum_##T(const T *x, u32 n, T log_sum, bool square, const T *by) {       \
        f64 total = 0;                                                                 \
        for (u32 i = 0, end; i < n; i = end) {                                         \
            T sum = 0;                                                                 \
            end = MIN(n, i + 2 * CHUNK_ELEMENTS);                                      \
            u32 rounds = end - (end - i) % ROUND;                                      \
            u32 sixteens = end - (end - i) % 16;                                       \
            BY_ROUND for (; i < rounds; i++) ADD_UP(T)                                 \
            if (ROUND != 16 && i < end) { /* add the remainders separately */          \
                total += sum, sum = 0;                                                 \
                BY_16 for (; i < sixteens; i++) ADD_UP(T)                              \
                total += sum, sum = 0;                                                 \
            }                                                                          \
            SMALL for (; i < end; i++) ADD_UP(T)                                       \
            total += sum;                                                              \
        }                                                                              \
        return total;                                                                  \
    }                                                                                  \
    static void rows_##T(u32 begin, u32 end, void *ctx) {                              \
        const Norm *s = ctx;                                                           \
        const T *scale = s->factor, *offset = s->offset;                               \
        for (u32 row = begin, n = s->c; row < end; row++) {                            \
            const T *restrict x = (const T *)s->x + row * n;                           \
            T *restrict y = (T *)s->y + row * n, mean = sum_##T(x, n, 0, false, 0) / n;\
            if (row + 1 < end) prefetch_row(x + n, n * sizeof(T));                     \
            T factor = 1 / sqrt(sum_##T(x, n, mean, true, 0) / n + s->epsilon);        \
            if (scale && offset) {                                                     \
                LOOP(n, y[i] = (x[i] - mean) * factor * scale[i] + offset[i];)         \
                continue;                                                              \
            }                                                                          \
            LOOP(n, y[i] = (x[i] - mean) * factor;)                                    \
            if (scale) ONE_BY_ONE(n, y[i] *= scale[i];)                                \
            if (offset) ONE_BY_ONE(n, y[i] += offset[i];)                              \
        }                                                                              \
    }                                                                                  \
    EXPORT("layer_norm_" #T)                                                           \
    void layer_norm_##T(const T *x, const T *scale, const T *offset, T *y, u32 rows,   \
                        u32 n, f64 epsilon) {                                          \
        INSIDE(x, (u64)rows * n * sizeof(T));                                          \
        INSIDE(y, (u64)rows * n * sizeof(T));                                          \
        INSIDE(scale, (u64)(scale ? n : 0) * sizeof(T));                               \
        INSIDE(offset, (u64)(offset ? n : 0) * sizeof(T));                             \
        Norm s = {x, 0, scale, offset, y, n, epsilon};                                 \
        parallel_for(rows_##T, &s, rows, MAX(1, 16384 / n));                           \
    }

LAYER_NORM(f32, STRETCH)
LAYER_NORM(f64, ONE_BY_ONE)

/* y = x / sqrt((mean of x^2) + epsilon) scale, along rows of `c` elements. */
#define RMS_NORM(T, LOOP)                                                              \
    static void root_rows_##T(u32 begin, u32 end, void *ctx) {                         \
        const Norm *s = ctx;                                                           \
        const T *scale = s->factor;                                                    \
        for (u32 row = begin, n = s->c; row < end; row++) {                            \
            const T *restrict x = (const T *)s->x + row * n;                           \
            T *restrict y = (T *)s->y + row * n;                                       \
            T factor = 1 / sqrt(sum_##T(x, n, 0, true, 0) / n + s->epsilon);           \
            if (scale)                                                                 \
                LOOP(n, y[i] = x[i] * factor * scale[i];)                              \
            else                                                                       \
                LOOP(n, y[i] = x[i] * factor;)                                         \
        }                                                                              \
    }                                                                                  \
    EXPORT("rms_norm_" #T)                                                             \
    void rms_norm_##T(const T *x, const T *scale, T *y, u32 rows, u32 n,               \
                      f64 epsilon) {                                                   \
        INSIDE(x, (u64)rows * n * sizeof(T));                                          \
        INSIDE(y, (u64)rows * n * sizeof(T));                                          \
        INSIDE(scale, (u64)(scale ? n : 0) * sizeof(T));                               \
        Norm s = {x, 0, scale, 0, y, n, epsilon};                                      \
        parallel_for(root_rows_##T, &s, rows, MAX(1, 16384 / n));                      \
    }

RMS_NORM(f32, STRETCH)
RMS_NORM(f64, ONE_BY_ONE)

/* dx = (g - (mean of g) - (x - mean) slope) factor along rows, where g = dy scale. */
#define LAYER_NORM_GRAD(T, LOOP)                                                       \
    static void slopes_##T(u32 begin, u32 end, void *ctx) {                            \
        const Norm *s = ctx;                                                           \
        const T *scale = s->factor;                                                    \
        for (u32 row = begin, n = s->c; row < end; row++) {                            \
            const T *x = (const T *)s->x + row * n, *dy = (const T *)s->offset + row * n; \
            T *restrict dx = (T *)s->y + row * n;                                      \
            T mean = sum_##T(x, n, 0, false, 0) / n;                                   \
            f64 factor = 1 / sqrt(sum_##T(x, n, mean, true, 0) / n + s->epsilon);      \
            if (scale)                                                                 \
                LOOP(n, dx[i] = dy[i] * scale[i];)                                     \
            else                                                                       \
                LOOP(n, dx[i] = dy[i];)                                                \
            T average = sum_##T(dx, n, 0, false, 0) / n, by = factor;                  \
            T slope = sum_##T(x, n, mean, false, dx) / n * factor * factor;            \
            LOOP(n, dx[i] = (dx[i] - average - (x[i] - mean) * slope) * by;)           \
        }                                                                              \
    }                                                                                  \
    EXPORT("layer_norm_grad_" #T)                                                      \
    void layer_norm_grad_##T(const T *dy, const T *x, const T *scale, T *dx, u32 rows, \
                             u32 n, f64 epsilon) {                                     \
        INSIDE(dy, (u64)rows * n * sizeof(T));                                         \
        INSIDE(x, (u64)rows * n * sizeof(T));                                          \
        INSIDE(dx, (u64)rows * n * sizeof(T));                                         \
        INSIDE(scale, (u64)(scale ? n : 0) * sizeof(T));                               \
        Norm s = {x, 0, scale, dy, dx, n, epsilon};                                    \
        parallel_for(slopes_##T, &s, rows, MAX(1, 8192 / n));                          \
    }

LAYER_NORM_GRAD(f32, STRETCH)
LAYER_NORM_GRAD(f64, ONE_BY_ONE)

/* --- gradients of softmax --------------------------------------------------------- */

static void exp_f32_row(const f32 *x, f32 *restrict y, u32 n) {
    u32 i = 0;
    for (; i + LANES <= n; i += LANES) STORE(y + i, vec_exp(VLOAD(x + i)));
    if (i < n) vstore_partial(y + i, vec_exp(vload_partial(x + i, n - i)), n - i);
}

static void exp_f64_row(const f64 *x, f64 *restrict y, u32 n) {
    SMALL for (u32 i = 0; i < n; i++) y[i] = exp(x[i]);
}

static f64 max_f64(const f64 *x, u32 n) {
    f64 peak = -INFINITY;
    SMALL for (u32 i = 0; i < n; i++) peak = x[i] > peak ? x[i] : peak;
    return peak;
}

/* Gradients along rows of `n` elements: dx = dy y - y sum(dy y) for softmax, and dx =
   dy - e^y sum(dy) for its logarithm. A row of dx sums to 0. Where y or e^y is close to
   1, the difference would lose digits, so this element is computed as minus the sum of
   the others. At most one element of a row is above the limit, no matter how y was
   rounded.
   */
#define DOMINANT_ABOVE 0.6
#define LOG_DOMINANT_ABOVE -0.5
#define SOFTMAX_GRAD(T, LOOP)                                                          \
    static void balance_##T(const T *y, T *restrict dx, u32 n, T limit) {              \
        if (!(max_##T(y, n) > limit)) return;                                      \
        LOOP(n, dx[i] = y[i] > limit ? 0 : dx[i];)                                     \
        T total = sum_##T(dx, n, 0, false, 0);                                         \
        LOOP(n, dx[i] = y[i] > limit ? -total : dx[i];)                                \
    }                                                                                  \
    static void back_##T(u32 begin, u32 end, void *ctx) {                              \
        const Task *s = ctx;                                                           \
        for (u32 row = begin, n = s->n; row < end; row++) {                            \
            const T *dy = (const T *)s->dy + row * n, *y = (const T *)s->x + row * n;  \
            T *restrict dx = (T *)s->y + row * n, total;                               \
            if (s->log) {                                                              \
                exp_##T##_row(y, dx, n);                                               \
                total = sum_##T(dy, n, 0, false, 0);                                   \
                LOOP(n, dx[i] = dy[i] - dx[i] * total;)                                \
            } else {                                                                   \
                LOOP(n, dx[i] = dy[i] * y[i];)                                         \
                total = sum_##T(dx, n, 0, false, 0);                                   \
                LOOP(n, dx[i] -= y[i] * total;)                                        \
            }                                                                          \
            balance_##T(y, dx, n, (T)(s->log ? LOG_DOMINANT_ABOVE : DOMINANT_ABOVE)); \
        }                                                                              \
    }                                                                                  \
    EXPORT("softmax_grad_" #T)                                                         \
    void softmax_grad_##T(const T *dy, const T *y, T *dx, u32 rows, u32 n, u32 log) {  \
        Task s = {y, dx, n, 1, log, dy};                                               \
        INSIDE(dy, (u64)rows * n * sizeof(T));                                         \
        INSIDE(y, (u64)rows * n * sizeof(T));                                          \
        INSIDE(dx, (u64)rows * n * sizeof(T));                                         \
        parallel_for(back_##T, &s, rows, MAX(1, 16384 / n));                           \
    }

SOFTMAX_GRAD(f32, STRETCH)
SOFTMAX_GRAD(f64, ONE_BY_ONE)
