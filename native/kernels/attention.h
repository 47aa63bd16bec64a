/* What the kernels of attention share: the description, the filled keys and the mask. */
#pragma once
#include "plugrad.h"

enum { MASK_NONE = 0, MASK_BOOL = 1 };

/* The sizes of the kernel Attention, in the order in which Python passes them. */
typedef struct {
    u32 batch, heads, groups, queries, keys, size, width, causal;
    u32 length_count; /* 0: all keys are valid; 1: one length for all batches */
    u32 mask_kind, mask_batch, mask_head, mask_query; /* the last three: strides */
} AttentionSizes;

/* The numbers of rows of q and y, and of k and v. */
INLINE u64 query_rows(const AttentionSizes *s) { return (u64)s->batch * s->heads * s->queries; }
INLINE u64 key_rows(const AttentionSizes *s) { return (u64)s->batch * s->groups * s->keys; }

/* Returns how many keys a query may attend to: the first ones. The mask may exclude some
   of them. */
INLINE u32 keys_before(const AttentionSizes *s, const i32 *lengths, u32 batch, u32 query) {
    i64 filled = s->keys;
    if (s->length_count) {
        i64 length = lengths[s->length_count > 1 ? batch : 0];
        filled = length < 0 ? 0 : MIN(length, filled);
    }
    i64 last = filled;
    if (s->causal) last = query + 1 + (s->length_count ? filled - s->queries : 0);
    return last < 0 ? 0 : (u32)MIN(last, filled);
}

/* Applies the mask to the scores of a query with `n` keys, from key `first` on. */
INLINE void mask_scores(const AttentionSizes *s, const void *mask, f32 *p, u32 batch,
                        u32 head, u32 query, u32 first, u32 n) {
    size_t at = (size_t)batch * s->mask_batch + (size_t)head * s->mask_head;
    at += (size_t)query * s->mask_query + first;
    if (s->mask_kind == MASK_BOOL) {
        const u8 *allowed = (const u8 *)mask + at;
        for (u32 j = 0; j < n; j++) p[j] = allowed[j] ? p[j] : -INFINITY;
    } else if (s->mask_kind != MASK_NONE) {
        const f32 *added = (const f32 *)mask + at;
        for (u32 j = 0; j < n; j++) /* -inf excludes a key whose score is NaN as well */
            p[j] = added[j] == -INFINITY ? -INFINITY : p[j] + added[j];
    }
}
