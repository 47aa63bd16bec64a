/* Pooling over up to three axes, and its gradients. Channels are processed in blocks,
   whose results stay in registers.

   Contents: forward; backward; indices of maxima.
*/
#include "windows.h"

/* The number of channels per block and per gradient task. */
enum { BLOCK_CHANNELS = 16, TASK_CHANNELS = 64 };
#if SMALL_CODE
enum { WIDE_BLOCK_CHANNELS = 0 };
#else
/* Wide blocks are faster: finding the positions of a window takes as long as processing
   16 channels. */
enum { WIDE_BLOCK_CHANNELS = 64 };
#endif

typedef struct {
    const Windows *w;
    const void *x, *y, *dy;
    void *to;
    u32 by_batch;
} Task;

/* Runs the statement for all windows of line i, an item of parallel_for. `span` is the
   part of the window inside the input, and `y` the index of the window's output. */
#define EACH_WINDOW(i, a, span, y)                                                     \
    Span span = line_of(a, i);                                                         \
    for (u32 p_ = 0, y = i * (u32)(a)[2].outputs;                                      \
         p_ < (u32)(a)[2].outputs && (slide(&span, (a) + 2, (i32)p_), true); p_++, y++)

static Span line_of(const Axis *a, u32 i) {
    const Axis lines[3] = {a[0], a[1], {.outputs = 1}};
    return span_of(a, output_of(lines, i));
}

static void run(void (*body)(u32, u32, void *), Task *s) {
    const Axis *a = s->w->axes[0];
    u32 lines = (u32)(s->w->batch * a[0].outputs * a[1].outputs);
    check_tensors(s->w, s->x, s->to, 1);
    u64 work = (u64)a[2].outputs * (u32)s->w->in * position_count(a);
    parallel_for(body, s, lines, 65536 / (work + 1) + 1);
}

/* --- forward ---------------------------------------------------------------------- */

/* Computes the first n channels of a window; HOW is the loop pragma. */
#define POOL_WINDOW(T, name, START, STEP, END, HOW)                                    \
    INLINE void name(const T *x, const Axis *a, const Span *s, u32 c, u32 n, T *y) {   \
        T sum[MAX(BLOCK_CHANNELS, WIDE_BLOCK_CHANNELS)];                               \
        u32 count = span_size(s);                                                      \
        HOW for (u32 j = 0; j < n; j++) sum[j] = START;                                \
        EACH_POSITION(s, a, e)                                                         \
        HOW for (u32 j = 0; j < n; j++) sum[j] = STEP(sum[j], (x + (u32)e * c)[j]);    \
        HOW for (u32 j = 0; j < n; j++) y[j] = END(sum[j], count);                     \
    }
#define POOL(T, name, START, STEP, END, HOW)                                           \
    POOL_WINDOW(T, block_##name, START, STEP, END, HOW)                                \
    POOL_WINDOW(T, rest_##name, START, STEP, END, SMALL)                               \
    static void lines_##name(u32 begin, u32 end, void *ctx) {                          \
        const Task *s = ctx;                                                           \
        const Axis *a = s->w->axes[0];                                                 \
        u32 c = (u32)s->w->in;                                                         \
        for (u32 i = begin; i < end; i++) {                                            \
            EACH_WINDOW(i, a, span, at) {                                              \
                T *y = (T *)s->to + at * c;                                            \
                const T *x = s->x;                                                     \
                u32 j = 0;                                                             \
                for (; WIDE_BLOCK_CHANNELS && j + WIDE_BLOCK_CHANNELS <= c; j += WIDE_BLOCK_CHANNELS) \
                    block_##name(x + j, a, &span, c, WIDE_BLOCK_CHANNELS, y + j);      \
                for (; j + BLOCK_CHANNELS <= c; j += BLOCK_CHANNELS)                   \
                    block_##name(x + j, a, &span, c, BLOCK_CHANNELS, y + j);           \
                if (j && j < c) /* overlaps the previous block */                      \
                    block_##name(x + c - BLOCK_CHANNELS, a, &span, c, BLOCK_CHANNELS, y + c - BLOCK_CHANNELS); \
                else if (!j)                                                           \
                    rest_##name(x, a, &span, c, c, y);                                 \
            }                                                                          \
        }                                                                              \
    }                                                                                  \
    EXPORT(#name) void name(const Windows *w, const T *x, T *y) {                      \
        run(lines_##name, &(Task){.w = w, .x = x, .to = y});                           \
    }

#define LARGER(a, b) ((a) < (b) ? (b) : (a)) /* ignores NaN in b */
#define PLUS(a, b) ((a) + (b))
#define ITSELF(a, count) ((void)(count), (a))
#define MEAN(a, count) ((a) / (count))

POOL(f32, max_pool_f32, -INFINITY, LARGER, ITSELF, )
POOL(f64, max_pool_f64, -INFINITY, LARGER, ITSELF, SMALL)
POOL(i32, max_pool_i32, INT32_MIN, LARGER, ITSELF, SMALL)
POOL(f32, avg_pool_f32, 0, PLUS, MEAN, )
POOL(f64, avg_pool_f64, 0, PLUS, MEAN, SMALL)

/* --- backward --------------------------------------------------------------------- */

/* A task is one image and TASK_CHANNELS channels, so that no two tasks write the same
   element. GIVE adds n channels of dy to dx at the positions of a window. */
#define POOL_GRAD(T, name, GIVE)                                                       \
    static void shares_##name(u32 begin, u32 end, void *ctx) {                         \
        const Task *s = ctx;                                                           \
        const Axis *a = s->w->axes[0];                                                 \
        u32 c = (u32)s->w->in, shares = CEIL_DIV(c, TASK_CHANNELS);                    \
        u32 size = (u32)(a[0].size * a[1].size * a[2].size);                           \
        u32 lines = (u32)(a[0].outputs * a[1].outputs);                                \
        for (u32 i = begin; i < end; i++) {                                            \
            u32 image = i / shares, first = i % shares * TASK_CHANNELS;                \
            u32 rest = MIN(TASK_CHANNELS, c - first), run = rest < c ? 1 : size;       \
            T *dx = (T *)s->to + first;                                                \
            for (u32 e = image * size; e < (image + 1) * size; e += run)               \
                memset(dx + e * c, 0, run * rest * sizeof(T));                         \
            for (u32 l = image * lines; l < (image + 1) * lines; l++) {                \
                poll_cancel();                                                         \
                EACH_WINDOW(l, a, span, y) {                                           \
                    u32 at = y * c + first;                                            \
                    u32 j = 0;                                                         \
                    for (; j + BLOCK_CHANNELS <= rest; j += BLOCK_CHANNELS)            \
                        block_##GIVE(s, a, &span, c, at + j, first + j, BLOCK_CHANNELS, dx + j); \
                    if (j < rest)                                                      \
                        rest_##GIVE(s, a, &span, c, at + j, first + j, rest - j, dx + j); \
                }                                                                      \
            }                                                                          \
        }                                                                              \
    }                                                                                  \
    static void name(Task *s) {                                                        \
        check_tensors(s->w, s->to, s->dy, sizeof(T));                                  \
        parallel_for(shares_##name, s,                                                 \
                     (u32)s->w->batch * CEIL_DIV((u32)s->w->in, TASK_CHANNELS), 1);    \
    }

/* The first position with the maximum receives the whole cotangent, which is selected
   by bit operations, because 0 times infinity is NaN. */
#define GIVE_MAXIMUM(T, U, name, HOW)                                                  \
    INLINE void name(const Task *s, const Axis *a, const Span *span, u32 c,            \
                            u32 at, u32 first, u32 n, T *restrict dx) {                \
        const T *x = (const T *)s->x + first, *dy = (const T *)s->dy + at;             \
        const T *y = (const T *)s->y + at;                                             \
        U left[BLOCK_CHANNELS];                                                        \
        memcpy(left, dy, n * sizeof(T));                                               \
        EACH_POSITION(span, a, e)                                                      \
        HOW for (u32 j = 0; j < n; j++) {                                              \
            U selected = left[j] & -(U)((x + (u32)e * c)[j] == y[j]);                  \
            union { U bits; T value; } part = {selected};                              \
            left[j] ^= selected, (dx + (u32)e * c)[j] += part.value;                   \
        }                                                                              \
    }
#define MAX_POOL_GRAD(T, U, name, HOW)                                                 \
    GIVE_MAXIMUM(T, U, block_##name, HOW)                                              \
    GIVE_MAXIMUM(T, U, rest_##name, SMALL)                                             \
    POOL_GRAD(T, name##_all, name)                                                     \
    EXPORT(#name)                                                                      \
    void name(const Windows *w, const T *dy, const T *x, const T *y, T *dx) {          \
        name##_all(&(Task){.w = w, .x = x, .y = y, .dy = dy, .to = dx});               \
    }

#define GIVE_SHARE(T, name, HOW)                                                       \
    INLINE void name(const Task *s, const Axis *a, const Span *span, u32 c,            \
                            u32 at, u32 first, u32 n, T *restrict dx) {                \
        const T *dy = (const T *)s->dy + at;                                           \
        T share[BLOCK_CHANNELS];                                                       \
        u32 count = span_size(span);                                                   \
        HOW for (u32 j = 0; j < n; j++) share[j] = dy[j] / count;                      \
        EACH_POSITION(span, a, e)                                                      \
        HOW for (u32 j = 0; j < n; j++) (dx + (u32)e * c)[j] += share[j];              \
    }
#define AVG_POOL_GRAD(T, name, HOW)                                                    \
    GIVE_SHARE(T, block_##name, HOW)                                                   \
    GIVE_SHARE(T, rest_##name, SMALL)                                                  \
    POOL_GRAD(T, name##_all, name)                                                     \
    EXPORT(#name) void name(const Windows *w, const T *dy, T *dx) {                    \
        name##_all(&(Task){.w = w, .dy = dy, .to = dx});                               \
    }

MAX_POOL_GRAD(f32, u32, max_pool_grad_f32, )
MAX_POOL_GRAD(f64, u64, max_pool_grad_f64, SMALL)
AVG_POOL_GRAD(f32, avg_pool_grad_f32, )
AVG_POOL_GRAD(f64, avg_pool_grad_f64, SMALL)

/* --- indices of maxima ------------------------------------------------------------ */

/* Finds the first element of each window that equals y. Writes its index within the
   image (or the batch), or -1 if there is none.
   */
#define ARGMAX(T, name)                                                                \
    static void lines_##name(u32 begin, u32 end, void *ctx) {                          \
        const Task *s = ctx;                                                           \
        const Axis *a = s->w->axes[0];                                                 \
        u32 c = (u32)s->w->in, size = (u32)(a[0].size * a[1].size * a[2].size) * c;    \
        for (u32 i = begin; i < end; i++) {                                            \
            EACH_WINDOW(i, a, span, number) {                                          \
                u32 at = number * c, less = s->by_batch ? 0 : span.image * size;       \
                i32 *to = (i32 *)s->to + at;                                           \
                const T *x = s->x, *y = (const T *)s->y + at;                          \
                for (u32 j = 0; j < c; j++) {                                          \
                    to[j] = -1;                                                        \
                    EACH_POSITION(&span, a, e)                                         \
                    if (to[j] < 0 && x[(u32)e * c + j] == y[j])                        \
                        to[j] = (i32)((u32)e * c + j - less);                          \
                }                                                                      \
            }                                                                          \
        }                                                                              \
    }                                                                                  \
    EXPORT(#name)                                                                      \
    void name(const Windows *w, const T *x, const T *y, i32 *indices, u32 by_batch) {  \
        run(lines_##name,                                                              \
            &(Task){.w = w, .x = x, .y = y, .to = indices, .by_batch = by_batch});     \
    }

ARGMAX(f32, pool_argmax_f32)
ARGMAX(f64, pool_argmax_f64)
