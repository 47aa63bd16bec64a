/* The geometry of windows for convolution and pooling, in the layout of the numbers
   that the Python method `Windows.numbers` returns. */
#pragma once
#include "plugrad.h"

/* Along one axis, window p reads position t at index p * step + first + t * gap, if
   this index is from 0 to size - 1, and writes at index p * stride + start. */
typedef struct {
    i32 size, outputs, step, first;
    i32 positions, gap;
    i32 position, position_step; /* index in filter: position + t * position_step */
    i32 out, start, stride;
} Axis;

/* The input has the shape [batch, *size, in], and the output [batch, *out, out]. In
   the gradient of windows with stride s, every s-th element of an axis is written by
   the same positions: these elements form a phase. In the forward direction, there
   is one phase. */
typedef struct {
    i32 batch, in, out, groups;
    i32 window[3];
    i32 phases;
    Axis axes[][3];
} Windows;

#define SHARED static __attribute__((noinline, unused))

INLINE u32 output_count(const Axis *a) {
    return (u32)a[0].outputs * (u32)a[1].outputs * (u32)a[2].outputs;
}

INLINE u32 position_count(const Axis *a) {
    return (u32)a[0].positions * (u32)a[1].positions * (u32)a[2].positions;
}

/* Checks in debug builds that x and y, which the windows of all phases read and write,
   lie in memory. */
INLINE void check_tensors(const Windows *w, const void *x, const void *y, u32 size) {
    const Axis *a = w->axes[0];
    u64 n = (u64)w->batch * size, in = n * (u32)w->in, out = n * (u32)w->out;
    for (u32 d = 0; d < 3; d++) in *= (u32)a[d].size, out *= (u32)a[d].out;
    (void)in, (void)out;
    INSIDE(x, in);
    INSIDE(y, out);
}

/* A window: the index of its image, and the index of its output along each axis. */
typedef struct {
    u32 image;
    i32 output[3];
} Output;

SHARED Output output_of(const Axis *a, u32 i) {
    u32 p2 = i % (u32)a[2].outputs, rest = i / (u32)a[2].outputs;
    u32 p1 = rest % (u32)a[1].outputs;
    rest /= (u32)a[1].outputs;
    u32 p0 = rest % (u32)a[0].outputs;
    return (Output){rest / (u32)a[0].outputs, {(i32)p0, (i32)p1, (i32)p2}};
}

/* Finds the outputs of windows i to i + 3; windows from `end` on repeat the last
   window. Within a line, this needs no division. */
INLINE void four_outputs(const Axis *a, u32 i, u32 end, Output *p) {
    for (u32 t = 0; t < 4; t++) {
        if (t) p[t] = p[t - 1];
        if (i + t >= end) continue;
        if (t == 0 || ++p[t].output[2] == a[2].outputs) p[t] = output_of(a, i + t);
    }
}

/* Returns the index of the element that a window writes, not counting channels. */
INLINE u32 output_element(const Axis *a, Output p) {
    u32 i = p.image;
    for (u32 d = 0; d < 3; d++) {
        u32 index = (u32)(a[d].start + p.output[d] * a[d].stride);
        CHECK(index < (u32)a[d].out, "a window writes beyond the end");
        i = i * (u32)a[d].out + index;
    }
    return i;
}

/* Returns the index of the element that a window reads at a position, not counting
   channels; -1 outside the input. */
INLINE i32 input_element(const Axis *a, Output p, const i32 *position) {
    u32 i = p.image;
    for (u32 d = 0; d < 3; d++) {
        i32 index = p.output[d] * a[d].step + a[d].first + position[d] * a[d].gap;
        if ((u32)index >= (u32)a[d].size) return -1;
        i = i * (u32)a[d].size + (u32)index;
    }
    return (i32)i;
}

/* Returns the index of a position in the filter. */
INLINE u32 filter_position(const Windows *w, const Axis *a, const i32 *position) {
    u32 i = 0;
    for (u32 d = 0; d < 3; d++) {
        u32 index = (u32)(a[d].position + position[d] * a[d].position_step);
        CHECK(index < (u32)w->window[d], "a position is outside of the filter");
        i = i * (u32)w->window[d] + index;
    }
    return i;
}

/* The i-th position of a phase, in row-major order. next_position() advances to the
   next position, and returns false after the last one. */
#define POSITION(i, a)                                                                 \
    {(i32)((i) / (u32)((a)[1].positions * (a)[2].positions)),                          \
     (i32)((i) / (u32)(a)[2].positions) % (a)[1].positions, (i32)((i) % (u32)(a)[2].positions)}
SHARED bool next_position(i32 *position, const Axis *a) {
    for (u32 d = 3; d-- > 0; position[d] = 0)
        if (++position[d] < a[d].positions) return true;
    return false;
}

/* Finds the positions of a window that lie in the input: *first to *last - 1. */
SHARED void clip(const Axis *a, i32 output, i32 *first, i32 *last) {
    i32 begin = output * a->step + a->first;
    *first = 0, *last = a->positions;
    while (*first < *last && (u32)(begin + *first * a->gap) >= (u32)a->size) ++*first;
    while (*first < *last && (u32)(begin + (*last - 1) * a->gap) >= (u32)a->size) --*last;
}

/* The part of a window inside the input: positions `first` to `last - 1` along
   each axis. */
typedef struct {
    u32 image;
    i32 at[3], first[3], last[3];
} Span;

SHARED Span span_of(const Axis *a, Output p) {
    Span s = {.image = p.image};
    for (u32 d = 0; d < 3; d++) {
        s.at[d] = p.output[d] * a[d].step + a[d].first;
        clip(a + d, p.output[d], s.first + d, s.last + d);
        CHECK(s.first[d] >= s.last[d] ||
                  ((u32)(s.at[d] + s.first[d] * a[d].gap) < (u32)a[d].size &&
                   (u32)(s.at[d] + (s.last[d] - 1) * a[d].gap) < (u32)a[d].size),
              "a window reads beyond the end");
    }
    return s;
}

/* Moves a span to another window along the last axis. */
INLINE void slide(Span *s, const Axis *last, i32 output) {
    i32 begin = output * last->step + last->first;
    i32 end = (last->positions - 1) * last->gap;
    s->at[2] = begin;
    if ((u32)begin < (u32)last->size && (u32)(begin + end) < (u32)last->size)
        s->first[2] = 0, s->last[2] = last->positions;
    else
        clip(last, output, s->first + 2, s->last + 2);
}

INLINE u32 span_size(const Span *s) {
    u32 n = 1;
    for (u32 d = 0; d < 3; d++) n *= (u32)(s->last[d] - s->first[d]);
    return n;
}

/* Runs the statement for each position of a span, in row-major order. `e` is the index
   of the element at that position. Gaps must be positive. */
#define EACH_POSITION(s, a, e)                                                         \
    for (i32 t0_ = (s)->first[0]; t0_ < (s)->last[0]; t0_++)                           \
        for (i32 t1_ = (s)->first[1]; t1_ < (s)->last[1]; t1_++)                       \
            for (i32 t2_ = (s)->first[2],                                              \
                     e = (((i32)(s)->image * (a)[0].size + (s)->at[0] +                \
                           t0_ * (a)[0].gap) * (a)[1].size + (s)->at[1] +              \
                          t1_ * (a)[1].gap) * (a)[2].size + (s)->at[2] +               \
                         t2_ * (a)[2].gap;                                             \
                 t2_ < (s)->last[2]; t2_++, e += (a)[2].gap)
