/* Convolutions of bytes of each channel by itself, summed in 32 bits. They are exact. */
#include "integer.h"

enum { MOST_POSITIONS = 64, AT_ONCE = 16 };
typedef u8 Bytes __attribute__((vector_size(AT_ONCE)));
typedef i8 Weights __attribute__((vector_size(AT_ONCE)));
typedef i16 Halves __attribute__((vector_size(2 * AT_ONCE)));
typedef i32 Sums __attribute__((vector_size(4 * AT_ONCE)));

typedef struct {
    const Windows *w;
    const u8 *x;
    const i8 *filter;
    void *y;
    const End *end;
    i16 zero; /* of bytes without a sign */
    u8 flip;  /* what makes them so */
} Task;

/* What a window sees: bytes and weights of its positions; and by how much windows that
   follow it in the line see other bytes. */
typedef struct {
    const u8 *x[MOST_POSITIONS];
    const i8 *filter[MOST_POSITIONS];
    u32 n, shift;
} Seen;

/* Returns how many windows from this one on see the same positions. */
static u32 see(const Task *s, u32 i, Seen *seen) {
    const Axis *a = s->w->axes[0];
    u32 c = (u32)s->w->in;
    Output output = output_of(a, i);
    Span p = span_of(a, output);
    seen->n = seen->shift = 0;
    EACH_POSITION(&p, a, e) {
        u32 number = (u32)((t0_ * a[1].positions + t1_) * a[2].positions + t2_);
        seen->x[seen->n] = s->x + (u32)e * c;
        seen->filter[seen->n++] = s->filter + number * c;
    }
    i32 room = a[2].size - 1 - p.at[2] - (a[2].positions - 1) * a[2].gap;
    if (p.at[2] < 0 || room < 0) return 1;
    return MIN((u32)(room / a[2].step) + 1, (u32)(a[2].outputs - output.output[2]));
}

/* The sums of `n` times AT_ONCE channels from c on. A product has 16 bits. */
INLINE void some(const Task *s, const Seen *seen, u32 c, u32 n, i32 *out) {
    Sums sums[2] = {0};
    for (u32 t = 0; t < seen->n; t++)
        for (u32 i = 0; i < n; i++) {
            Bytes x;
            Weights f;
            memcpy(&x, seen->x[t] + seen->shift + c + i * AT_ONCE, sizeof x);
            memcpy(&f, seen->filter[t] + c + i * AT_ONCE, sizeof f);
            Halves less = __builtin_convertvector(x ^ s->flip, Halves) - s->zero;
            Halves product = less * __builtin_convertvector(f, Halves);
            sums[i] += __builtin_convertvector(product, Sums);
        }
    memcpy(out, sums, n * sizeof(Sums));
}

static void window(const Task *s, const Seen *seen, void *y) {
    u32 channels = (u32)s->w->in, c = 0;
    i32 sums[MOST_COLUMNS] = {0};
    for (; c + 2 * AT_ONCE <= channels; c += 2 * AT_ONCE) {
        some(s, seen, c, 2, sums);
        end_row(s->end, sums, c, 2 * AT_ONCE, 2 * AT_ONCE, y);
    }
    for (; c + AT_ONCE <= channels; c += AT_ONCE) {
        some(s, seen, c, 1, sums);
        end_row(s->end, sums, c, AT_ONCE, AT_ONCE, y);
    }
    if (c == channels) return;
    for (u32 q = 0; c + q < channels; q++) {
        sums[q] = 0;
        for (u32 t = 0; t < seen->n; t++)
            sums[q] += ((seen->x[t][seen->shift + c + q] ^ s->flip) - s->zero) *
                       seen->filter[t][c + q];
    }
    end_row(s->end, sums, c, channels - c, AT_ONCE, y);
}

static void windows(u32 begin, u32 end, void *ctx) {
    const Task *s = ctx;
    u32 channels = (u32)s->w->in, size = s->end->to <= TO_FLOAT32 ? 4 : 1;
    u32 step = channels * (u32)s->w->axes[0][2].step, left = 0;
    Seen seen;
    for (u32 i = begin; i < end; i++, left--) {
        if (left) seen.shift += step;
        else left = see(s, i, &seen);
        window(s, &seen, (u8 *)s->y + (u64)i * channels * size);
    }
}

/* Filters are [*window, channels], of MOST_POSITIONS positions or fewer. Memory has 2 N
   words, N being the channels rounded up to a multiple of 32; for the others see
   quantized_conv_i8. */
EXPORT("quantized_depthwise_i8")
void quantized_depthwise_i8(const Windows *w, const u8 *x, const i8 *filter,
                            const void *x_zero, const i32 *bias, const f32 *scale,
                            const void *zero, void *y, i32 *memory, u32 is_signed,
                            u32 scales, u32 to) {
    u32 n = (u32)w->batch * outputs_of(w->axes[0]), c = (u32)w->in;
    check_tensors(w, x, y, 1);
    CHECK(w->in == w->out, "a channel has several results");
    CHECK(positions_of(w->axes[0]) <= MOST_POSITIONS, "too many positions");
    INSIDE(filter, (u64)positions_of(w->axes[0]) * c);
    INSIDE(memory, (u64)2 * CEIL_DIV(c, MOST_COLUMNS) * MOST_COLUMNS * sizeof(i32));
    End end = end_of(c, memory, 0, 0, bias, scale, scales, to, zero);
    i16 shift = (i16)(byte_at(x_zero, is_signed) + (is_signed ? 128 : 0));
    Task s = {w, x, filter, y, &end, shift, is_signed ? 128 : 0};
    u64 work = (u64)c * (positions_of(w->axes[0]) + 4);
    parallel_for(windows, &s, n, (u32)(262144 / (work + 1)) + 1);
}
