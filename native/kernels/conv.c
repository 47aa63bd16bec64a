/* Convolutions over up to three axes, and their gradients.

   A float32 convolution is one matrix product. Its operand A, the im2col matrix, is
   packed block by block, and is never in memory as a whole. Filters are [*window, in /
   groups, out].

   Contents: the im2col matrix with windows as rows, and transposed; float32; other
   dtypes.
   */
#include "winograd.h"
#if READS_IN_PLACE
#include "padding.h"
#endif

typedef struct {
    const Windows *w;
    const Axis *axes; /* the axes of one phase */
    u32 channels;     /* input channels per group */
} Im2col;

static const f32 zeros[KC];

/* --- rows of A: windows; columns: positions and channels -------------------------- */

/* Pointers to the elements of four windows. Each points to `reach` valid floats. */
typedef struct {
    const f32 *at[4];
    u32 reach;
} Rows;

static Rows window_rows(const Im2col *s, const f32 *x, const Output *p, const i32 *position,
                        bool inside) {
    const Axis *last = s->axes + 2;
    Rows rows = {.reach = s->channels};
    if (inside) rows.reach *= (u32)(last->positions - position[2]);
    for (u32 t = 0; t < 4; t++) {
        i32 i = input_element(s->axes, p[t], position);
        rows.at[t] = i < 0 ? 0 : x + (u32)i * (u32)s->w->in;
    }
    return rows;
}

/* Returns whether the positions of a line are contiguous in memory, for all four windows.
   */
static bool is_contiguous(const Im2col *s, const Output *p) {
    const Axis *a = s->axes + 2;
    if (a->gap != 1 || s->w->groups != 1) return false;
    for (u32 t = 0; t < 4; t++) {
        i32 begin = p[t].output[2] * a->step + a->first;
        if (begin < 0 || begin + a->positions > a->size) return false;
    }
    return true;
}

static f32 *pack_four_rows(const Rows *rows, u32 from, u32 n, f32 *to) {
    const f32 *p[4];
    for (u32 t = 0; t < 4; t++) p[t] = rows->at[t] ? rows->at[t] + from : zeros;
    u32 q = 0;
    for (; q + 4 <= n; q += 4, to += 4 * PACKED_MR)
        transpose4x4(p[0] + q, p[1] + q, p[2] + q, p[3] + q, to, PACKED_MR);
    for (; q < n; q++, to += PACKED_MR)
        for (u32 t = 0; t < 4; t++) to[t] = p[t][q];
    return to;
}

static void pack_im2col(const Gemm *g, const f32 *x, u32 i, u32 rows, u32 k, u32 depth,
                        f32 *block) {
    const Im2col *s = g->context;
    const Axis *a = s->axes;
    for (u32 r = 0; r < rows; r += 4) {
        Output p[4];
        four_outputs(a, i + r, i + rows, p);
        bool inside = is_contiguous(s, p);
        f32 *to = packed_row(block, r, depth);
        i32 position[3] = POSITION(k / s->channels, a);
        for (u32 left = depth, from = k % s->channels; left; from = 0) {
            Rows seen = window_rows(s, x, p, position, inside);
            u32 n = MIN(left, seen.reach - from);
            CHECK(from < seen.reach && n <= KC, "a line of positions is too long");
            to = pack_four_rows(&seen, from, n, to), left -= n;
            if (inside) position[2] = a[2].positions - 1;
            next_position(position, a);
        }
    }
}

static u32 output_offset(const Gemm *g, u32 i) {
    const Im2col *s = g->context;
    return output_element(s->axes, output_of(s->axes, i)) * (u32)s->w->out;
}

/* --- rows of A: positions and channels; columns: windows -------------------------- */

/* Gathers `width` channels (1 or 4) at one position of `n` windows from window k on. */
INLINE void gather_windows(const Im2col *s, const f32 *x, const i32 *position, u32 k, u32 n,
                           u32 width, f32 *to) {
    const Axis *a = s->axes, *last = a + 2;
    i32 in = s->w->in, from = last->first + position[2] * last->gap;
    Output p = output_of(a, k);
    while (n) {
        u32 count = MIN(n, (u32)(last->outputs - p.output[2]));
        Output line = {p.image, {p.output[0], p.output[1], 0}};
        i32 column = p.output[2] * last->step + from;
        const i32 line_position[3] = {position[0], position[1], 0};
        Axis lines[3] = {a[0], a[1], {.size = last->size, .outputs = 1}};
        i32 row = input_element(lines, line, line_position);
        const f32 *q = x + (row + column) * in;
        for (u32 j = 0; j < count; j++, column += last->step, q += last->step * in,
                 to += PACKED_MR) {
            bool inside = row >= 0 && (u32)column < (u32)last->size;
            if (width == 4)
                STORE(to, inside ? LOAD(q) : SPLAT(0));
            else
                *to = inside ? *q : 0;
        }
        n -= count, p = output_of(a, k += count);
    }
}

static void pack_im2col_transposed(const Gemm *g, const f32 *x, u32 i, u32 rows, u32 k,
                                   u32 depth, f32 *block) {
    const Im2col *s = g->context;
    const Axis *a = s->axes;
    for (u32 r = 0; r < rows; r += 4) {
        f32 *to = packed_row(block, r, depth);
        for (u32 t = 0; t < 4; t++) {
            u32 row = i + MIN(r + t, rows - 1), channel = row % s->channels;
            const i32 position[3] = POSITION(row / s->channels, a);
            if (t == 0 && r + 4 <= rows && channel + 4 <= s->channels) {
                gather_windows(s, x + channel, position, k, depth, 4, to);
                break;
            }
            gather_windows(s, x + channel, position, k, depth, 1, to + t);
        }
    }
}

/* --- float32 ---------------------------------------------------------------------- */

/* Sets y to zero if a phase has no positions, because no product writes the elements of
   such a phase. */
static void clear_output(const Windows *w, void *y, u32 itemsize) {
    u32 n = (u32)w->batch * (u32)w->out * itemsize;
    bool needed = false;
    for (u32 d = 0; d < 3; d++) n *= (u32)w->axes[0][d].out;
    for (i32 i = 0; i < w->phases; i++) needed |= position_count(w->axes[i]) == 0;
    if (needed) memset(y, 0, n);
}

/* Transposes the filters for the input gradient: each group becomes [positions of the
   phase, out, in]. */
typedef struct {
    const Windows *w;
    const Axis *axes;
    const f32 *filter;
    f32 *to;
} FilterTransposition;

static void transpose_filters(u32 begin, u32 end, void *ctx) {
    const FilterTransposition *s = ctx;
    u32 groups = (u32)s->w->groups, positions = position_count(s->axes);
    u32 k = (u32)s->w->in / groups, c = (u32)s->w->out / groups, row = (u32)s->w->in;
    for (u32 i = begin; i < end; i++) {
        u32 position = i % positions, group = i / positions;
        const i32 place[3] = POSITION(position, s->axes);
        const f32 *from = s->filter + filter_position(s->w, s->axes, place) * c * row +
                          group * k;
        f32 *to = s->to + i * k * c;
        for (u32 q = 0; q < k; q += 4)
            for (u32 j = 0; j < c; j += 4) {
                const f32 *p = from + j * row + q;
                f32 *o = to + q * c + j;
                if (q + 4 <= k && j + 4 <= c)
                    transpose4x4(p, p + row, p + 2 * row, p + 3 * row, o, c);
                else
                    for (u32 r = 0; r < MIN(4, k - q); r++)
                        for (u32 t = 0; t < MIN(4, c - j); t++)
                            o[r * c + t] = p[t * row + r];
            }
    }
}

#if READS_IN_PLACE
/* --- float32 on native targets: windows are read in place -------------------------- */

/* Writes the size of the workspace of a `PaddedInput`, in float32 elements. It is f64
   because windows with a large dilation can need more elements than fit in an integer.
   */
EXPORT("conv_space_f32")
void conv_space_f32(const Windows *w, f64 *space) {
    Extent e[3];
    f64 padded = 1, index_count = 0;
    bool inside = find_extents(w, e);
    for (u32 d = 0; d < 3; d++) padded *= (f64)e[d].size;
    for (i32 i = 0; i < w->phases; i++) {
        f64 starts = w->batch, places = w->in / w->groups;
        for (u32 d = 0; d < 3; d++)
            starts *= w->axes[i][d].outputs, places *= w->axes[i][d].positions;
        index_count = MAX(index_count, starts + places);
    }
    *space = (inside ? 0 : w->batch * padded * w->in) + index_count;
}

/* Like conv_filter_f32, with a workspace. A small filter has too few elements to keep
   all threads busy, so its gradient can be computed as a sum of `parts` gradients, each
   over some of the windows. The workspace begins with memory for these partial
   gradients. */
EXPORT("conv_filter_space_f32")
void conv_filter_space_f32(const Windows *w, const f32 *x, const f32 *dy, f32 *dfilter,
                           f32 *workspace, u32 parts) {
    u32 groups = (u32)w->groups, in = (u32)w->in / groups, out = (u32)w->out / groups;
    const Axis *axes = w->axes[0];
    f32 *partials = workspace;
    workspace += (u64)parts * position_count(axes) * in * (u32)w->out;
    PaddedInput padded_input = {.w = w, .x = x};
    i32 *space = pad_input(&padded_input, workspace);
    Gemm g = {.m = position_count(axes) * in, .n = out, .batches = groups,
              .transposed = true, .k = (u32)w->batch * output_count(axes), .a_batch = (i32)in, .b = dy,
              .b_row = w->out, .b_column = 1, .b_batch = (i32)out, .c = dfilter,
              .c_row = w->out, .c_batch = (i32)out};
    read_by_indices(&g, &padded_input, axes, g.k, space);
    if (parts == 0) {
        gemm(&g);
        return;
    }
    FilterParts all = {&g, CEIL_DIV(g.k, parts), partials};
    parallel_for(run_parts, &all, CEIL_DIV(g.k, all.windows), 1);
    parallel_for(add_parts, &all, filter_size(&g), 4096);
}
#endif

/* y[windows, out] = epilogue(x[windows, positions * in] filter[positions * in, out]).
   With a `workspace` for transposed filters, it computes the input gradient. If `tiles`
   is not 0, windows of 3 x 3 are computed by Winograd's algorithm, on `lanes` threads,
   each of which computes `tiles` tiles at a time. `scratch` is the workspace for these
   tiles or, on native targets, for a PaddedInput. */
EXPORT("conv_f32")
void conv_f32(const Windows *w, const f32 *x, const f32 *filter, f32 *y, f32 *workspace,
              f32 *scratch, u32 tiles, u32 lanes, const f32 *bias,
              const f32 *slopes, u32 activation, f64 slope) {
    u32 groups = (u32)w->groups, in = (u32)w->in / groups, out = (u32)w->out / groups;
    Epilogue epilogue = {bias, slopes, activation, (f32)slope};
    check_tensors(w, x, y, sizeof(f32));
    clear_output(w, y, sizeof(f32));
#if READS_IN_PLACE
    PaddedInput padded_input = {.w = w, .x = x};
    i32 *space = tiles ? 0 : pad_input(&padded_input, scratch);
#endif
    for (i32 i = 0; i < w->phases; i++) {
        const Axis *axes = w->axes[i];
        u32 positions = position_count(axes);
        u32 outputs = (u32)w->batch * output_count(axes);
        if (positions == 0) continue;
        Im2col im2col = {w, axes, in};
        Gemm g = {.m = outputs, .n = out, .k = positions * in, .batches = groups, .a = x,
                  .a_batch = (i32)in, .c = y, .c_batch = (i32)out, .c_row = w->out,
                  .epilogue_batch = (i32)out, .pack = pack_im2col, .context = &im2col};
        if (bias || activation) g.epilogue = &epilogue;
        g.b = filter, g.b_row = w->out, g.b_column = 1, g.b_batch = (i32)out;
        if (workspace) {
            FilterTransposition transposition = {w, axes, filter, workspace};
            parallel_for(transpose_filters, &transposition, positions * groups, 1);
            g.b = workspace, g.b_row = (i32)out, g.b_batch = (i32)(positions * in * out);
        }
        if (tiles) {
            winograd(w, x, g.b, y, scratch, tiles, lanes, &epilogue);
            continue;
        }
        bool strided = false, is_pointwise = positions == 1;
        for (u32 d = 0; d < 3; d++) {
            strided |= axes[d].stride != 1 || axes[d].outputs != axes[d].out;
            is_pointwise &= axes[d].first == 0 && axes[d].step == 1 &&
                            axes[d].outputs == axes[d].size;
        }
        if (strided) g.offset = output_offset;
        if (is_pointwise) g.pack = 0, g.a_row = w->in, g.a_column = 1;
#if READS_IN_PLACE
        if (!is_pointwise) read_by_indices(&g, &padded_input, axes, outputs, space);
#endif
        gemm(&g);
    }
}

/* dfilter[positions * in, out] = x[windows, positions * in]ᵀ dy[windows, out] */
EXPORT("conv_filter_f32")
void conv_filter_f32(const Windows *w, const f32 *x, const f32 *dy, f32 *dfilter) {
    u32 groups = (u32)w->groups, in = (u32)w->in / groups, out = (u32)w->out / groups;
    const Axis *axes = w->axes[0];
    check_tensors(w, x, dy, sizeof(f32));
    Im2col im2col = {w, axes, in};
    Gemm g = {.m = position_count(axes) * in, .n = out, .batches = groups,
              .k = (u32)w->batch * output_count(axes), .a = x, .a_batch = (i32)in,
              .b = dy, .b_row = w->out, .b_column = 1, .b_batch = (i32)out, .c = dfilter,
              .c_row = w->out, .c_batch = (i32)out, .pack = pack_im2col_transposed,
              .context = &im2col};
    gemm(&g);
}

/* --- other dtypes ----------------------------------------------------------------- */

typedef struct {
    const Windows *w;
    const Axis *axes;
    const void *x, *y;
    void *to;
    bool backward;
} Task;

/* A row of y consists of all channels of one window; it is a sum over the positions of
   the window. If `backward`, the filter's in and out axes are exchanged. */
#define CONV(T, name)                                                                  \
    static void rows_##name(u32 begin, u32 end, void *ctx) {                           \
        const Task *s = ctx;                                                           \
        const Windows *w = s->w;                                                       \
        u32 groups = (u32)w->groups, in = (u32)w->in / groups;                         \
        u32 out = (u32)w->out / groups, row = (u32)(s->backward ? w->in : w->out);     \
        u32 by_in = s->backward ? 1 : row, by_out = s->backward ? row : 1;             \
        u32 kernel = (s->backward ? out : in) * row;                                   \
        for (u32 i = begin; i < end; i++) {                                            \
            Output p = output_of(s->axes, i);                                          \
            T *y = (T *)s->to + output_element(s->axes, p) * (u32)w->out;              \
            memset(y, 0, (u32)w->out * sizeof(T));                                     \
            i32 position[3] = {0, 0, 0};                                               \
            do {                                                                       \
                i32 element = input_element(s->axes, p, position);                     \
                if (element < 0) continue;                                             \
                const T *x = (const T *)s->x + (u32)element * (u32)w->in;              \
                const T *f = (const T *)s->y + filter_position(w, s->axes, position) * kernel; \
                for (u32 g = 0; g < groups; g++, f += row / groups)                    \
                    for (u32 c = 0; c < in; c++)                                       \
                        for (u32 k = 0; k < out; k++)                                  \
                            y[g * out + k] +=                                          \
                                x[g * in + c] * f[c * by_in + k * by_out];             \
            } while (next_position(position, s->axes));                                \
        }                                                                              \
    }                                                                                  \
    EXPORT("conv_" #name)                                                              \
    void conv_##name(const Windows *w, const T *x, const T *filter, T *y, u32 backward) { \
        check_tensors(w, x, y, sizeof(T));                                             \
        clear_output(w, y, sizeof(T));                                                 \
        for (i32 i = 0; i < w->phases; i++) {                                          \
            Task s = {w, w->axes[i], x, filter, y, backward};                          \
            u64 work = (u64)position_count(s.axes) * (u32)w->in * (u32)w->out;         \
            u32 outputs = (u32)w->batch * output_count(s.axes);                        \
            if (work) parallel_for(rows_##name, &s, outputs, (u32)(65536 / work) + 1); \
        }                                                                              \
    }                                                                                  \
    static void taps_##name(u32 begin, u32 end, void *ctx) {                           \
        const Task *s = ctx;                                                           \
        const Windows *w = s->w;                                                       \
        u32 groups = (u32)w->groups, in = (u32)w->in / groups;                         \
        u32 row = (u32)w->out, out = row / groups;                                     \
        for (u32 i = begin; i < end; i++) {                                            \
            T *to = (T *)s->to + i * in * row;                                         \
            memset(to, 0, in * row * sizeof(T));                                       \
            const i32 position[3] = POSITION(i, s->axes);                              \
            u32 outputs = (u32)w->batch * output_count(s->axes);                       \
            for (u32 p = 0; p < outputs; p++) {                                        \
                if (p % 64 == 0) poll_cancel();                                        \
                i32 element = input_element(s->axes, output_of(s->axes, p), position); \
                if (element < 0) continue;                                             \
                const T *x = (const T *)s->x + (u32)element * (u32)w->in;              \
                const T *dy = (const T *)s->y + p * row;                               \
                for (u32 g = 0; g < groups; g++)                                       \
                    for (u32 c = 0; c < in; c++)                                       \
                        for (u32 k = g * out; k < (g + 1) * out; k++)                  \
                            to[c * row + k] += x[g * in + c] * dy[k];                  \
            }                                                                          \
        }                                                                              \
    }                                                                                  \
    EXPORT("conv_filter_" #name)                                                       \
    void conv_filter_##name(const Windows *w, const T *x, const T *dy, T *dfilter) {   \
        check_tensors(w, x, dy, sizeof(T));                                            \
        Task s = {w, w->axes[0], x, dy, dfilter, false};                               \
        parallel_for(taps_##name, &s, position_count(s.axes), 1);                      \
    }

CONV(f64, f64)
CONV(u32, i32)
