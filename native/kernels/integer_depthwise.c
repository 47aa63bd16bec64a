/* Depthwise convolutions of bytes, with 32-bit sums. The results are exact. */
#include "integer.h"

enum { MAX_POSITIONS = 64, VECTOR_CHANNELS = 16 };
typedef u8 Bytes __attribute__((vector_size(VECTOR_CHANNELS)));
typedef i8 Weights __attribute__((vector_size(VECTOR_CHANNELS)));
typedef i16 Halves __attribute__((vector_size(2 * VECTOR_CHANNELS)));
typedef i32 Sums __attribute__((vector_size(4 * VECTOR_CHANNELS)));

typedef struct {
    const Windows *w;
    const u8 *x;
    const i8 *filter;
    void *y;
    const QuantizedEpilogue *end;
    i16 zero; /* the zero point of the unsigned bytes */
    u8 flip;  /* 128: an exclusive or with it makes signed bytes unsigned; else 0 */
} DepthwiseTask;

/* The input bytes and weights at the positions of a window. `shift` is the distance in
   bytes to the input of a later window of the same line. */
typedef struct {
    const u8 *x[MAX_POSITIONS];
    const i8 *filter[MAX_POSITIONS];
    u32 n, shift;
} WindowInput;

/* Finds the input of window i. Returns the number of windows from i on that have the
   same positions inside the input. */
static u32 find_window(const DepthwiseTask *s, u32 i, WindowInput *input) {
    const Axis *a = s->w->axes[0];
    u32 c = (u32)s->w->in;
    Output output = output_of(a, i);
    Span p = span_of(a, output);
    input->n = input->shift = 0;
    EACH_POSITION(&p, a, e) {
        u32 number = (u32)((t0_ * a[1].positions + t1_) * a[2].positions + t2_);
        input->x[input->n] = s->x + (u32)e * c;
        input->filter[input->n++] = s->filter + number * c;
    }
    i32 room = a[2].size - 1 - p.at[2] - (a[2].positions - 1) * a[2].gap;
    if (p.at[2] < 0 || room < 0) return 1;
    return MIN((u32)(room / a[2].step) + 1, (u32)(a[2].outputs - output.output[2]));
}

/* Sums `n` vectors of VECTOR_CHANNELS channels, from channel `c` on. Products fit in 16
   bits. */
INLINE void accumulate(const DepthwiseTask *s, const WindowInput *input, u32 c, u32 n,
                       i32 *out) {
    Sums sums[2] = {0};
    for (u32 t = 0; t < input->n; t++)
        for (u32 i = 0; i < n; i++) {
            Bytes x;
            Weights f;
            memcpy(&x, input->x[t] + input->shift + c + i * VECTOR_CHANNELS, sizeof x);
            memcpy(&f, input->filter[t] + c + i * VECTOR_CHANNELS, sizeof f);
            Halves centered = __builtin_convertvector(x ^ s->flip, Halves) - s->zero;
            Halves product = centered * __builtin_convertvector(f, Halves);
            sums[i] += __builtin_convertvector(product, Sums);
        }
    memcpy(out, sums, n * sizeof(Sums));
}

static void run_window(const DepthwiseTask *s, const WindowInput *input, void *y) {
    u32 channels = (u32)s->w->in, c = 0;
    i32 sums[MAX_TILE_COLUMNS] = {0};
    for (; c + 2 * VECTOR_CHANNELS <= channels; c += 2 * VECTOR_CHANNELS) {
        accumulate(s, input, c, 2, sums);
        store_row(s->end, sums, c, 2 * VECTOR_CHANNELS, 2 * VECTOR_CHANNELS, y);
    }
    for (; c + VECTOR_CHANNELS <= channels; c += VECTOR_CHANNELS) {
        accumulate(s, input, c, 1, sums);
        store_row(s->end, sums, c, VECTOR_CHANNELS, VECTOR_CHANNELS, y);
    }
    if (c == channels) return;
    for (u32 q = 0; c + q < channels; q++) {
        sums[q] = 0;
        for (u32 t = 0; t < input->n; t++)
            sums[q] += ((input->x[t][input->shift + c + q] ^ s->flip) - s->zero) *
                       input->filter[t][c + q];
    }
    store_row(s->end, sums, c, channels - c, VECTOR_CHANNELS, y);
}

static void run_windows(u32 begin, u32 end, void *ctx) {
    const DepthwiseTask *s = ctx;
    u32 channels = (u32)s->w->in, size = s->end->to <= TO_FLOAT32 ? 4 : 1;
    u32 step = channels * (u32)s->w->axes[0][2].step, left = 0;
    WindowInput input;
    for (u32 i = begin; i < end; i++, left--) {
        if (left) input.shift += step;
        else left = find_window(s, i, &input);
        run_window(s, &input, (u8 *)s->y + (u64)i * channels * size);
    }
}

/* Filters are [*window, channels] with at most MAX_POSITIONS positions. `memory` is a
   workspace of 2 N elements, where N is the number of channels rounded up to a multiple
   of 32. The
   other parameters are those of quantized_conv_i8. */
EXPORT("quantized_depthwise_i8")
void quantized_depthwise_i8(const Windows *w, const u8 *x, const i8 *filter,
                            const void *x_zero, const i32 *bias, const f32 *scale,
                            const void *zero, void *y, i32 *memory, u32 is_signed,
                            u32 scales, u32 to) {
    u32 n = (u32)w->batch * output_count(w->axes[0]), c = (u32)w->in;
    check_tensors(w, x, y, 1);
    CHECK(w->in == w->out, "a channel has several results");
    CHECK(position_count(w->axes[0]) <= MAX_POSITIONS, "too many positions");
    INSIDE(filter, (u64)position_count(w->axes[0]) * c);
    INSIDE(memory, (u64)2 * CEIL_DIV(c, MAX_TILE_COLUMNS) * MAX_TILE_COLUMNS * sizeof(i32));
    QuantizedEpilogue end = quantized_epilogue(c, memory, 0, 0, bias, scale, scales, to,
                                               zero);
    i16 shift = (i16)(byte_at(x_zero, is_signed) + (is_signed ? 128 : 0));
    DepthwiseTask s = {w, x, filter, y, &end, shift, is_signed ? 128 : 0};
    u64 work = (u64)c * (position_count(w->axes[0]) + 4);
    parallel_for(run_windows, &s, n, (u32)(262144 / (work + 1)) + 1);
}
