/* Weighted sums along one axis: y[o, i, :] = the sum of weight · x[o, index, :] over the
   terms of i. Resizing consists of two such sums, and so does its transpose.

   Contents: weighted sums; cropping boxes. */
#include "loops.h"

typedef struct {
    const void *x, *weights;
    void *y;
    const i32 *starts, *indices;
    u32 n, m, inner;
} WeightedSum;

#if SMALL_CODE
enum { SPECIALIZE = 0 };
#else
enum { SPECIALIZE = 1 }; /* separate loops for rows of one element, and for one term */
#endif

/* Terms starts[i] to starts[i + 1] - 1 belong to row i. */
#define MIX(NAME, T, HOW)                                                                \
    static void NAME##_rows(u32 item, u32 end, void *ctx) {                              \
        const WeightedSum *mix = ctx;                                                    \
        u32 inner = mix->inner, m = mix->m, i = item % m, o = item / m;                  \
        const T *restrict weights = mix->weights;                                        \
        const i32 *restrict starts = mix->starts, *restrict indices = mix->indices;      \
        for (; item < end; item++) {                                                     \
            u32 term = (u32)starts[i], stop = (u32)starts[i + 1];                        \
            const T *from = (const T *)mix->x + o * mix->n * inner;                      \
            T *restrict y = (T *)mix->y + item * inner;                                  \
            INSIDE(y, (u64)inner * sizeof(T));                                           \
            if (SPECIALIZE && inner == 1) {                                              \
                u32 last = MIN(m, i + (end - item));                                     \
                for (y -= i, item -= i; i < last; i++) {                                 \
                    T sum = 0;                                                           \
                    for (stop = (u32)starts[i + 1]; term < stop; term++)                 \
                        sum += weights[term] * from[indices[term]];                      \
                    y[i] = sum;                                                          \
                }                                                                        \
                i--, item += i;                                                          \
            } else if (SPECIALIZE && stop - term == 1) {                                 \
                const T *restrict a = from + (size_t)(u32)indices[term] * inner;         \
                T p = weights[term];                                                     \
                for (u32 j = 0; j < inner; j++) y[j] = p * a[j];                         \
            } else if (inner == 1) {                                                     \
                T sum = 0;                                                               \
                SMALL for (; term < stop; term++) {                                      \
                    INSIDE(from + indices[term], sizeof(T));                             \
                    sum += weights[term] * from[indices[term]];                          \
                }                                                                        \
                *y = sum;                                                                \
            } else if (stop - term == 2) {                                               \
                const T *restrict a = from + (u32)indices[term] * inner;                 \
                const T *restrict b = from + (u32)indices[term + 1] * inner;             \
                T p = weights[term], q = weights[term + 1];                              \
                INSIDE(a, (u64)inner * sizeof(T));                                       \
                INSIDE(b, (u64)inner * sizeof(T));                                       \
                if (inner < 4)                                                           \
                    SMALL for (u32 j = 0; j < inner; j++) y[j] = p * a[j] + q * b[j];    \
                else                                                                     \
                    HOW for (u32 j = 0; j < inner; j++) y[j] = p * a[j] + q * b[j];      \
            } else {                                                                     \
                SMALL for (u32 j = 0; j < inner; j++) y[j] = 0;                          \
                for (; term < stop; term++) {                                            \
                    const T *restrict x = from + (u32)indices[term] * inner;             \
                    T weight = weights[term];                                            \
                    INSIDE(x, (u64)inner * sizeof(T));                                   \
                    HOW for (u32 j = 0; j < inner; j++) y[j] += weight * x[j];           \
                }                                                                        \
            }                                                                            \
            if (++i == m) i = 0, o++;                                                    \
        }                                                                                \
    }                                                                                    \
    EXPORT(#NAME) void NAME(const T *x, T *y, u32 outer, u32 n, u32 m, u32 inner,        \
                            const i32 *starts, const i32 *indices, const T *weights) {   \
        WeightedSum mix = {x, weights, y, starts, indices, n, m, inner};                 \
        parallel_for(NAME##_rows, &mix, outer * m, MAX(1, 32768 / (inner + 8)));         \
    }
MIX(mix_f32, f32, )
MIX(mix_f64, f64, SMALL)

/* --- boxes ----------------------------------------------------------------------- */

/* The pixels on both sides of a position, and the weight of the second pixel. `seen` is
   false if the position is outside of the image. */
typedef struct {
    bool seen;
    u32 low, high;
    f32 share;
} Ends;

typedef struct {
    const f32 *images, *boxes;
    const i32 *which;
    f32 *y;
    u32 *bad;
    const i32 *sizes; /* batch, height, width, channels; the result's height and width */
    bool nearest;
    f32 fill;
} Crop;

/* Returns the pixels and the weight for position `i` of `count` positions from edge `a`
   to edge `b` of a box.
   */
INLINE Ends find_ends(f32 a, f32 b, u32 i, u32 count, u32 size, bool nearest) {
    f32 back = count == 1 ? 1 : (f32)i, front = count == 1 ? 1 : (f32)(count - 1 - i);
    f32 v = (a * front + b * back) * (f32)(size - 1) / (count == 1 ? 2 : (f32)(count - 1));
    if (!(v >= 0 && v <= (f32)(size - 1))) return (Ends){0};
    u32 low = (u32)v;
    f32 share = v - (f32)low;
    if (nearest) return (Ends){true, MIN(low + (share >= 0.5f), size - 1), 0, 0};
    return (Ends){true, low, MIN(low + 1, size - 1), share};
}

INLINE f32 interpolate(f32 a, f32 b, f32 share) {
    return share == 0 ? a : a * (1 - share) + b * share;
}

static void crop_rows(u32 item, u32 end, void *ctx) {
    const Crop *s = ctx;
    const i32 *n = s->sizes;
    u32 height = (u32)n[1], width = (u32)n[2], c = (u32)n[3], rows = (u32)n[4];
    u32 columns = (u32)n[5];
    for (; item < end; item++) {
        u32 k = item / rows, which = (u32)s->which[k];
        f32 *y = s->y + item * columns * c;
        INSIDE(y, (u64)columns * c * sizeof(f32));
        if (which >= (u32)n[0]) {
            *s->bad = 1;
            continue;
        }
        const f32 *box = s->boxes + 4 * k, *image = s->images + which * height * width * c;
        Ends down = find_ends(box[0], box[2], item % rows, rows, height, s->nearest);
        const f32 *top = image + down.low * width * c, *bottom = image + down.high * width * c;
        for (u32 j = 0; j < columns; j++, y += c) {
            Ends across = find_ends(box[1], box[3], j, columns, width, s->nearest);
            u32 l = across.low * c, r = across.high * c;
            if (!down.seen || !across.seen) {
                SMALL for (u32 e = 0; e < c; e++) y[e] = s->fill;
                continue;
            }
            INSIDE(top + l, c * sizeof(f32));
            INSIDE(bottom + r, c * sizeof(f32));
            if (s->nearest)
                SMALL for (u32 e = 0; e < c; e++) y[e] = top[l + e];
            else
                SMALL for (u32 e = 0; e < c; e++)
                    y[e] = interpolate(interpolate(top[l + e], top[r + e], across.share),
                                       interpolate(bottom[l + e], bottom[r + e],
                                                   across.share),
                                       down.share);
        }
    }
}

EXPORT("crop_f32")
void crop_f32(const f32 *images, const f32 *boxes, const i32 *which, f32 *y, u32 *bad,
              u32 count, const i32 *sizes, u32 nearest, f64 fill) {
    Crop s = {images, boxes, which, y, bad, sizes, nearest, (f32)fill};
    INSIDE(boxes, (u64)count * 16);
    INSIDE(which, (u64)count * 4);
    u32 work = (u32)sizes[5] * (u32)sizes[3] * 4;
    parallel_for(crop_rows, &s, count * (u32)sizes[4], MAX(1, 65536 / MAX(1, work)));
}
