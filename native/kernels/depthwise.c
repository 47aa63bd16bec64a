/* Depthwise convolutions and their gradients.

   Filters are [*window, channels, multiplier]. The input gradient is the same computation
   with other axes; with a multiplier, it also sums over the outputs of each channel.

   Contents: float32 without a multiplier; all dtypes.
*/
#include "gemm.h"
#include "windows.h"

typedef struct {
    const Windows *w;
    const Axis *axes;
    const void *x, *y;
    void *to;
    bool backward;
    const Epilogue *epilogue;
} Task;

/* --- float32 without a multiplier ------------------------------------------------- */

/* A tile is TILE_WINDOWS windows times TILE_VECTORS vectors of channels; its sums are
   independent of each other. A row of windows reads at most MAX_LINES lines of the
   input. */
enum { MAX_LINES = 32, TILE_WINDOWS = 4, TILE_VECTORS = 2 };

/* A row of windows: the lines of the input that it reads, and the filter of each line. */
typedef struct {
    const f32 *x[MAX_LINES], *filter[MAX_LINES];
    u32 lines;
    i32 position_step;
    f32 *y, low, high;
    const f32 *bias;
} WindowRow;

static WindowRow find_row(const Task *s, u32 i) {
    const Windows *w = s->w;
    const Axis *a = s->axes;
    const Axis lines[3] = {a[0], a[1],
                           {.size = a[2].size,
                            .outputs = 1,
                            .positions = 1,
                            .out = a[2].out}};
    Output p = output_of(lines, i);
    i32 position[3] = {0, 0, 0};
    WindowRow row = {.position_step = a[2].position_step * w->in};
    row.y = (f32 *)s->to + (i32)output_element(lines, p) * w->in;
    Activation activation = s->epilogue->activation;
    /* these activations are applied with the bias below, others by `apply_epilogue` */
    row.bias = activation <= RELU6 ? s->epilogue->bias : 0;
    row.low = activation == RELU || activation == RELU6 ? 0 : -INFINITY;
    row.high = activation == RELU6 ? 6 : INFINITY;
    if (position_count(a) == 0) return row;
    do {
        i32 element = input_element(lines, p, position);
        if (element < 0) continue;
        CHECK(row.lines < MAX_LINES, "too many lines");
        row.x[row.lines] = (const f32 *)s->x + element * w->in;
        i32 number = (i32)filter_position(w, a, position);
        row.filter[row.lines++] = (const f32 *)s->y + number * w->in;
    } while (next_position(position, lines));
    return row;
}

/* Computes `n` adjacent windows, beginning with window `output`, in `m` vectors of
   channels from channel `c` on. Only positions `first` to `last - 1` of a window are
   summed. The first window begins at element `at` of each line. */
#define WINDOWS_OF(V, GET, ALL)                                                        \
    INLINE void windows_of_##V(const WindowRow *row, const Axis *a, i32 channels, i32 c, \
                               u32 m, i32 output, u32 n, i32 first, i32 last) {        \
        enum { SIZE = sizeof(V) / sizeof(f32) };                                       \
        V sum[TILE_WINDOWS * TILE_VECTORS], weight[TILE_WINDOWS * TILE_VECTORS];       \
        for (u32 k = 0; k < m; k++)                                                    \
            for (u32 i = 0; i < n; i++)                                                \
                sum[k * n + i] = row->bias ? GET(row->bias + c + k * SIZE) : ALL(0);   \
        i32 at = (output * a->step + a->first + first * a->gap) * channels + c;        \
        for (u32 l = 0; l < row->lines; l++) {                                         \
            const f32 *x = row->x[l] + at;                                             \
            const f32 *f = row->filter[l] + first * row->position_step + c;            \
            for (i32 t = first; t < last; t++) {                                       \
                for (u32 k = 0; k < m; k++) weight[k] = GET(f + k * SIZE);             \
                for (u32 i = 0; i < n; i++)                                            \
                    for (u32 k = 0; k < m; k++)                                        \
                        sum[k * n + i] =                                               \
                            FMA(GET(x + (i32)i * a->step * channels + k * SIZE),       \
                                weight[k], sum[k * n + i]);                            \
                f += row->position_step, x += a->gap * channels;                       \
            }                                                                          \
        }                                                                              \
        f32 *y = row->y + (a->start + output * a->stride) * channels + c;              \
        V low = ALL(row->low), high = ALL(row->high);                                  \
        for (u32 i = 0; i < n; i++, y += a->stride * channels)                         \
            for (u32 k = 0; k < m; k++)                                                \
                STORE(y + k * SIZE, PMIN(PMAX(sum[k * n + i], low), high));            \
    }
WINDOWS_OF(vec, VLOAD, VEC)
#if LANES > 4
WINDOWS_OF(v4, LOAD, SPLAT)
#else
#define windows_of_v4 windows_of_vec
#endif

/* Computes windows `p` to `p + n - 1` in all channels, `m` vectors at a time. The last
   vector overlaps the previous one. */
INLINE void run_windows(const WindowRow *row, const Axis *a, i32 channels, u32 m, i32 p,
                        u32 n, i32 first, i32 last) {
    i32 c = 0, wide = (i32)m * LANES;
    if (LANES > 4 && channels < LANES)
        for (; c < channels; c += 4)
            windows_of_v4(row, a, channels, MIN(c, channels - 4), 1, p, n, first, last);
    for (; c + wide <= channels; c += wide)
        windows_of_vec(row, a, channels, c, m, p, n, first, last);
    for (; c < channels; c += LANES)
        windows_of_vec(row, a, channels, MIN(c, channels - LANES), 1, p, n, first, last);
}

/* Computes a window that reaches beyond the input. */
static __attribute__((noinline)) void run_clipped_window(const WindowRow *row,
                                                         const Axis *a, i32 channels,
                                                         i32 p) {
    i32 first, last;
    clip(a, p, &first, &last);
    run_windows(row, a, channels, TILE_WINDOWS * TILE_VECTORS, p, 1, first, last);
}

SHARED bool is_inside(const Axis *a, i32 output) {
    i32 first, last;
    clip(a, output, &first, &last);
    return last - first == a->positions;
}

/* Computes a row. Windows `begin` to `end - 1` lie inside the input; their last tile
   may overlap the previous one. */
INLINE void run_row(const WindowRow *row, const Axis *a, i32 channels) {
    i32 begin = 0, end = a->outputs;
    while (begin < end && !is_inside(a, begin)) begin++;
    while (begin < end && !is_inside(a, end - 1)) end--;
    if (end - begin < TILE_WINDOWS) end = begin;
    for (i32 p = 0; p < a->outputs;) {
        if (begin <= p && p < end) {
            i32 from = MIN(p, end - TILE_WINDOWS);
            run_windows(row, a, channels, TILE_VECTORS, from, TILE_WINDOWS, 0,
                        a->positions);
            p = MIN(p + TILE_WINDOWS, end);
        } else
            run_clipped_window(row, a, channels, p++);
    }
}

static void run_rows(u32 begin, u32 end, void *ctx) {
    const Task *s = ctx;
    const Axis *last = s->axes + 2;
    i32 channels = s->w->in;
    for (u32 i = begin; i < end; i++) {
        WindowRow row = find_row(s, i);
        Axis a = *last;
        bool dense = a.gap == 1 && a.step == 1 && a.stride == 1;
        if (dense) a.gap = a.step = a.stride = 1; /* compile-time constants */
        if (dense && a.positions == 3)
            a.positions = 3, run_row(&row, &a, channels);
        else if (dense && a.positions == 5)
            a.positions = 5, run_row(&row, &a, channels);
        else
            run_row(&row, last, channels);
        if (s->epilogue->activation > RELU6)
            for (i32 p = 0; p < last->outputs; p++)
                apply_epilogue(s->epilogue, row.y + p * channels, 0, (u32)channels);
    }
}

/* Computes a convolution without a multiplier, forward (with bias and activation) or
   backward. There must be at least four channels, and at most MAX_LINES lines per
   window. */
EXPORT("depthwise_single_f32")
void depthwise_single_f32(const Windows *w, const f32 *x, const f32 *filter, f32 *y,
                          const f32 *bias, const f32 *slopes, u32 activation,
                          f64 slope) {
    Epilogue epilogue = {bias, slopes, activation, (f32)slope};
    check_tensors(w, x, y, sizeof(f32));
    CHECK(w->in == w->out && w->in >= 4, "a multiplier, or fewer than four channels");
    for (i32 i = 0; i < w->phases; i++) {
        Task s = {w, w->axes[i], x, filter, y, false, &epilogue};
        u32 n = (u32)(w->batch * s.axes[0].outputs * s.axes[1].outputs);
        u64 work = (u64)w->in * (u32)s.axes[2].outputs * (position_count(s.axes) + 1);
        parallel_for(run_rows, &s, n, 65536 / (work + 1) + 1);
    }
}

/* --- all dtypes ------------------------------------------------------------------- */

enum { BLOCK_CHANNELS = 128 }; /* channels whose sums are kept on the stack */

#define DEPTHWISE(T, name)                                                             \
    static void rows_##name(u32 begin, u32 end, void *ctx) {                           \
        const Task *s = ctx;                                                           \
        const Windows *w = s->w;                                                       \
        u32 in = (u32)w->in, out = (u32)w->out, c = MIN(in, out), k = MAX(in, out);    \
        u32 m = k / c;                                                                 \
        for (u32 i = begin; i < end; i++) {                                            \
            Output p = output_of(s->axes, i);                                          \
            T *restrict y = (T *)s->to + output_element(s->axes, p) * out;             \
            memset(y, 0, out * sizeof(T));                                             \
            i32 position[3] = {0, 0, 0};                                               \
            if (position_count(s->axes)) do {                                          \
                    i32 element = input_element(s->axes, p, position);                 \
                    if (element < 0) continue;                                         \
                    const T *x = (const T *)s->x + (u32)element * in;                  \
                    const T *f = (const T *)s->y;                                      \
                    f += filter_position(w, s->axes, position) * k;                    \
                    if (m == 1)                                                        \
                        for (u32 j = 0; j < c; j++) y[j] += x[j] * f[j];               \
                    else if (s->backward)                                              \
                        for (u32 j = 0; j < k; j++) y[j / m] += x[j] * f[j];           \
                    else                                                               \
                        for (u32 j = 0; j < k; j++) y[j] += x[j / m] * f[j];           \
                } while (next_position(position, s->axes));                            \
        }                                                                              \
    }                                                                                  \
    EXPORT("depthwise_" #name)                                                         \
    void depthwise_##name(const Windows *w, const T *x, const T *filter, T *y,         \
                          u32 backward) {                                              \
        check_tensors(w, x, y, sizeof(T));                                             \
        for (i32 i = 0; i < w->phases; i++) {                                          \
            Task s = {w, w->axes[i], x, filter, y, backward, 0};                       \
            parallel_for(rows_##name, &s, (u32)w->batch * output_count(s.axes), 64);   \
        }                                                                              \
    }                                                                                  \
    static void taps_##name(u32 begin, u32 end, void *ctx) {                           \
        const Task *s = ctx;                                                           \
        const Windows *w = s->w;                                                       \
        u32 in = (u32)w->in, k = (u32)w->out, m = k / in, blocks = CEIL_DIV(k, BLOCK_CHANNELS); \
        u32 outputs = (u32)w->batch * output_count(s->axes);                                    \
        u32 line = (u32)s->axes[2].outputs;                                                     \
        for (u32 i = begin; i < end; i++) {                                            \
            const i32 position[3] = POSITION(i / blocks, s->axes);                     \
            u32 first = i % blocks * BLOCK_CHANNELS, n = MIN(BLOCK_CHANNELS, k - first); \
            T *to = (T *)s->to + i / blocks * k + first, sum[BLOCK_CHANNELS];          \
            memset(to, 0, n * sizeof(T));                                              \
            for (u32 p = 0; p < outputs; p++) {                                        \
                if (p % line == 0) poll_cancel(), memset(sum, 0, sizeof sum);          \
                i32 element = input_element(s->axes, output_of(s->axes, p), position); \
                const T *x = (const T *)s->x + (u32)element * in + first / m;          \
                const T *dy = (const T *)s->y + p * k + first;                         \
                if (element >= 0 && m == 1)                                            \
                    for (u32 j = 0; j < n; j++) sum[j] += x[j] * dy[j];                \
                else if (element >= 0)                                                 \
                    for (u32 j = 0; j < n; j++)                                        \
                        sum[j] += x[(first + j) / m - first / m] * dy[j];              \
                if ((p + 1) % line == 0)                                               \
                    for (u32 j = 0; j < n; j++) to[j] += sum[j];                       \
            }                                                                          \
        }                                                                              \
    }                                                                                  \
    EXPORT("depthwise_filter_" #name)                                                  \
    void depthwise_filter_##name(const Windows *w, const T *x, const T *dy,            \
                                 T *dfilter) {                                         \
        check_tensors(w, x, dy, sizeof(T));                                            \
        Task s = {w, w->axes[0], x, dy, dfilter, false, 0};                            \
        u32 blocks = CEIL_DIV((u32)w->out, BLOCK_CHANNELS);                            \
        parallel_for(taps_##name, &s, position_count(s.axes) * blocks, 1);             \
    }

DEPTHWISE(f32, f32)
DEPTHWISE(f64, f64)
DEPTHWISE(u32, i32)
