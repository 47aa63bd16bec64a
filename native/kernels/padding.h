/* Float32 convolutions on native targets: the matrix product reads the windows in
   place, from the zero-padded input. conv.c contains the kernels.

   Contents: padding; offsets of windows and positions; the filter gradient in parts. */
#pragma once
#include "gemm.h"
#include "windows.h"

/* The input x, zero-padded as far as windows reach. In the workspace, the padded input
   is followed by the offsets of windows and positions; all elements have four bytes. */
typedef struct {
    const Windows *w;
    const f32 *x, *padded;
    i32 low[3], size[3]; /* first index and size of the padded input */
} PaddedInput;

static void pad_lines(u32 begin, u32 end, void *ctx) {
    const PaddedInput *s = ctx;
    const Axis *a = s->w->axes[0];
    u32 in = (u32)s->w->in;
    for (u32 i = begin; i < end; i++) {
        i32 p1 = (i32)(i % (u32)s->size[1]) + s->low[1];
        u32 rest = i / (u32)s->size[1];
        i32 p0 = (i32)(rest % (u32)s->size[0]) + s->low[0];
        f32 *to = (f32 *)s->padded + (u64)i * (u32)s->size[2] * in;
        i32 first = MAX(s->low[2], 0), last = MIN(s->low[2] + s->size[2], a[2].size);
        if ((u32)p0 >= (u32)a[0].size || (u32)p1 >= (u32)a[1].size || first >= last) {
            memset(to, 0, (u64)s->size[2] * in * sizeof(f32));
            continue;
        }
        u32 image = rest / (u32)s->size[0];
        u32 line = (image * (u32)a[0].size + (u32)p0) * (u32)a[1].size + (u32)p1;
        u32 before = (u32)(first - s->low[2]) * in, n = (u32)(last - first) * in;
        memset(to, 0, before * sizeof(f32));
        memcpy(to + before, s->x + ((u64)line * (u32)a[2].size + (u32)first) * in,
               n * sizeof(f32));
        memset(to + before + n, 0, ((u32)s->size[2] * in - before - n) * sizeof(f32));
    }
}

/* The part of an axis that windows read: `size` elements from `low` on. */
typedef struct {
    i64 low, size;
} Extent;

/* Finds the extents that the windows of all phases read. Returns true if the windows
   stay inside x; then the extents are those of x itself. */
static bool find_extents(const Windows *w, Extent *extents) {
    bool inside = true;
    for (u32 d = 0; d < 3; d++) {
        i64 n = w->axes[0][d].size, low = n, high = -1;
        for (i32 i = 0; i < w->phases; i++) {
            const Axis *a = &w->axes[i][d];
            if (position_count(w->axes[i]) == 0 || output_count(w->axes[i]) == 0)
                continue;
            i64 reach = (i64)(a->positions - 1) * a->gap;
            i64 last = (i64)(a->outputs - 1) * a->step;
            low = MIN(low, a->first + MIN(reach, 0) + MIN(last, 0));
            high = MAX(high, a->first + MAX(reach, 0) + MAX(last, 0));
        }
        inside &= low >= 0 && high < n;
        low = MIN(low, high);
        extents[d] = (Extent){low, high - low + 1};
    }
    for (u32 d = 0; inside && d < 3; d++) extents[d] = (Extent){0, w->axes[0][d].size};
    return inside;
}

/* Pads x if windows reach beyond it. Returns the rest of the workspace. */
static i32 *pad_input(PaddedInput *s, f32 *workspace) {
    const Windows *w = s->w;
    Extent e[3];
    bool inside = find_extents(w, e);
    for (u32 d = 0; d < 3; d++) s->low[d] = (i32)e[d].low, s->size[d] = (i32)e[d].size;
    s->padded = inside ? s->x : workspace;
    if (inside) return (i32 *)workspace;
    u32 lines = (u32)w->batch * (u32)s->size[0] * (u32)s->size[1];
    u32 line = (u32)s->size[2] * (u32)w->in;
    parallel_for(pad_lines, s, lines, 32768 / line + 1);
    return (i32 *)(workspace + (u64)lines * line);
}

/* Writes the offsets of the windows of a phase, and those of positions and channels
   within a window. */
static void fill_indices(const PaddedInput *s, const Axis *a, u32 channels, i32 *starts,
                         i32 *places) {
    i32 in = s->w->in, far = s->size[1] * s->size[2], wide = s->size[2];
    for (i32 image = 0; image < s->w->batch; image++)
        for (i32 p0 = 0; p0 < a[0].outputs; p0++)
            for (i32 p1 = 0; p1 < a[1].outputs; p1++) {
                i32 offset = (image * s->size[0] + p0 * a[0].step + a[0].first -
                              s->low[0]) * far;
                offset += (p1 * a[1].step + a[1].first - s->low[1]) * wide;
                offset += a[2].first - s->low[2];
                for (i32 p2 = 0; p2 < a[2].outputs; p2++, offset += a[2].step)
                    *starts++ = offset * in;
            }
    for (i32 t0 = 0; t0 < a[0].positions; t0++)
        for (i32 t1 = 0; t1 < a[1].positions; t1++)
            for (i32 t2 = 0; t2 < a[2].positions; t2++) {
                i32 offset = t0 * a[0].gap * far + t1 * a[1].gap * wide + t2 * a[2].gap;
                for (u32 c = 0; c < channels; c++) *places++ = offset * in + (i32)c;
            }
}

/* Makes a product read windows in place, through their offsets. */
static void read_by_indices(Gemm *g, const PaddedInput *s, const Axis *a, u32 windows,
                            i32 *space) {
    fill_indices(s, a, (u32)(s->w->in / s->w->groups), space, space + windows);
    g->a = s->padded, g->pack = 0, g->starts = space, g->places = space + windows;
}

/* A filter gradient that is the sum of products over parts of the windows. */
typedef struct {
    const Gemm *all;
    u32 windows;   /* windows per part */
    f32 *partials; /* the results of the parts, one after the other */
} FilterParts;

static u32 filter_size(const Gemm *g) { return g->m * (u32)g->c_row; }

static void run_parts(u32 begin, u32 end, void *ctx) {
    const FilterParts *s = ctx;
    for (u32 i = begin; i < end; i++) {
        Gemm g = *s->all;
        u32 first = i * s->windows;
        g.k = MIN(s->windows, g.k - first), g.starts += first;
        g.b += (u64)first * (u32)g.b_row, g.c = s->partials + i * filter_size(&g);
        gemm(&g);
    }
}

static void add_parts(u32 begin, u32 end, void *ctx) {
    const FilterParts *s = ctx;
    u32 size = filter_size(s->all), parts = CEIL_DIV(s->all->k, s->windows);
    f32 *to = s->all->c;
    memcpy(to + begin, s->partials + begin, (end - begin) * sizeof(f32));
    for (u32 i = 1; i < parts; i++) {
        const f32 *part = s->partials + i * size;
        for (u32 j = begin; j < end; j++) to[j] += part[j];
    }
}
