/* Runs the kernels of a region tile by tile, so that intermediate results stay in the
   first-level cache. Results have the same bits as those of separate calls: the kernels
   are the same, and their results do not depend on where a row begins. */
#include "region.h"

#include "elementwise.h"

/* If the arrays of a call have at least PREFETCH_MIN_BYTES in total, the next tile is
   prefetched; from STREAM_MIN_BYTES on, outputs are written by streaming stores, which
   bypass the caches. Measured on a Xeon: streaming stores are slower for 42 MB and
   faster for 84 MB. */
#if !CACHE_CONTROL
#define PREFETCH_MIN_BYTES UINT64_MAX
#define STREAM_MIN_BYTES UINT64_MAX
#define STREAM(p, v) STORE(p, v)
#define FENCE() ((void)0)
#else
#define PREFETCH_MIN_BYTES ((u64)1 << 20)
#define STREAM_MIN_BYTES ((u64)64 << 20)
#define STREAM(p, v) __builtin_nontemporal_store(v, (vec *)(p))
#define FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST) /* before other threads read */
#endif
#define CACHE_LINE_BYTES 64

/* The number of elements per piece; a piece takes 10 to 500 us. Programs with more than
   four steps have smaller pieces, of at least PIECE_MIN_ELEMENTS. */
#define PIECE_ELEMENTS 65536
#define PIECE_MIN_ELEMENTS 8192

typedef struct {
    const Region *region;
    void *const *arrays;
    u64 bytes;    /* total size of all arrays */
    bool streams; /* outputs go through tiles and streaming stores */
    bool is_part; /* arrays begin with the first element of the piece */
} Call;

/* Copies n elements of a broadcast array, from element i of the broadcast result on. */
static void load_broadcast(const u8 *x, u32 size, const i32 *loop, u32 i, u32 n, u8 *to) {
    u32 rank = loop[0], last = rank - 1, width = loop[rank];
    const i32 *sizes = loop + 1, *strides = sizes + rank;
    u32 index[MAX_RANK], column = i % width;
    i64 at = 0;
    for (u32 axis = last, rest = i / width; axis--; rest /= sizes[axis]) {
        index[axis] = rest % sizes[axis];
        at += (i64)index[axis] * strides[axis];
    }
    while (n) {
        u32 count = MIN(width - column, n);
        const u8 *from = x + (at + (i64)column * strides[last]) * size;
        if (size == 4) {
            f32 *restrict y = (f32 *)to;
            const f32 *restrict f = (const f32 *)from;
            if (strides[last])
                for (u32 k = 0; k < count; k++) y[k] = f[k];
            else
                for (u32 k = 0; k < count; k++) y[k] = *f;
        } else {
            for (u32 k = 0; k < count; k++) to[k] = from[(i64)k * strides[last]];
        }
        to += count * size, n -= count, column = 0;
        for (u32 axis = last; axis--;) { /* the next row */
            at += strides[axis];
            if (++index[axis] < (u32)sizes[axis]) break;
            at -= (i64)index[axis] * strides[axis], index[axis] = 0;
        }
    }
}

/* Returns whether all tiles of a broadcast array are equal, that is, whether its period
   divides the tile size. */
static bool tiles_repeat(const i32 *loop, u32 tile) {
    u32 rank = loop[0], period = 1;
    for (u32 axis = 1; axis < rank && period <= tile; axis++) period *= loop[1 + axis];
    return loop[1 + rank] == 0 && tile % period == 0;
}

static void run_step(const RegionStep *step, const RegionSlot *slots, u8 *const *at,
                     u32 n) {
    u8 *to = at[step->to];
    const u8 *first = at[step->in[0]];
    if (step->count == 1) {
        Flat flat = {first, to, step->p, step->q};
        ((void (*)(u32, u32, void *))step->run)(0, n, &flat);
    } else {
        Operands o;
        for (i32 k = 0; k < step->count; k++) {
            o.in[k] = at[step->in[k]];
            o.step[k] = slots[step->in[k]].kind != SCALAR;
        }
        ((Row)step->run)(&o, to, n);
    }
}

/* Copies a tile by streaming stores, which do not read the memory that they overwrite. */
static void stream(const u8 *from, u8 *to, u32 size) {
    for (; size && (uintptr_t)to % sizeof(vec); size--) *to++ = *from++;
    for (; size >= sizeof(vec); size -= sizeof(vec)) {
        STREAM(to, VLOAD((const f32 *)from));
        to += sizeof(vec), from += sizeof(vec);
    }
    while (size--) *to++ = *from++;
}

/* Assigns tiles to the outputs, after all other tiles; `to` receives the addresses of
   the output arrays. */
static void place_outputs(const Region *region, f32 *memory, u8 **at, u8 **to) {
    i32 place = 0;
    for (i32 k = 0; k < region->slot_count; k++)
        if (region->slots[k].kind >= BROADCAST) place = MAX(place,
                                                            region->slots[k].place + 1);
    for (i32 k = 0; k < region->step_count; k++) {
        i32 y = region->steps[k].to;
        if (region->slots[y].kind != ARRAY || to[y]) continue;
        to[y] = at[y], at[y] = (u8 *)(memory + (u32)place++ * region->tile);
    }
}

/* Writes the outputs that have tiles, and advances to the next tile. */
static void advance(const Region *region, u32 n, u8 **at, u8 **to) {
    for (i32 k = 0; k < region->slot_count; k++) {
        u32 size = n * region->slots[k].size;
        if (region->slots[k].kind != ARRAY) continue;
        if (to[k])
            stream(at[k], to[k], size), to[k] += size;
        else
            at[k] += size;
    }
}

/* Prefetches part k of the next tile of each array. There is one part per step, because
   a processor can have only a few cache misses in flight. */
static void prefetch_part(const Region *region, u8 *const *at, const i32 *arrays,
                          u32 count, u32 n, i32 k) {
    for (u32 i = 0; i < count; i++) {
        u32 size = n * (u32)region->slots[arrays[i]].size;
        u32 part = CEIL_DIV(size,
                            (u32)region->step_count * CACHE_LINE_BYTES) * CACHE_LINE_BYTES;
        const u8 *p = at[arrays[i]] + size + (u32)k * part;
        for (u32 b = 0; b < part; b += CACHE_LINE_BYTES) __builtin_prefetch(p + b);
    }
}

static void run_tiles(u32 i, u32 end, void *ctx) {
    const Call *call = ctx;
    const Region *region = call->region;
    _Alignas(64) f32 memory[REGION_MEMORY];
    u8 *at[REGION_SLOTS], *to[REGION_SLOTS] = {0};
    u32 tile = region->tile;
    for (i32 k = 0; k < region->slot_count; k++) {
        const RegionSlot *slot = region->slots + k;
        at[k] = call->arrays[k];
        if (slot->kind == ARRAY && !call->is_part) at[k] += (u64)i * slot->size;
        if (slot->kind >= BROADCAST) at[k] = (u8 *)(memory + (u32)slot->place * tile);
    }
    if (call->streams) place_outputs(region, memory, at, to);
    i32 prefetched[REGION_SLOTS];
    u32 count = 0;
    for (i32 k = 0; k < region->slot_count && call->bytes >= PREFETCH_MIN_BYTES; k++)
        if (region->slots[k].kind == ARRAY && !to[k]) prefetched[count++] = k;
    for (u32 begin = i; i < end; i += tile) {
        u32 n = MIN(tile, end - i);
        for (i32 k = 0; k < region->slot_count; k++) {
            const RegionSlot *slot = region->slots + k;
            const i32 *loop = region->loops + slot->loop;
            if (slot->kind == BROADCAST && (i == begin || !tiles_repeat(loop, tile)))
                load_broadcast(call->arrays[k], slot->size, loop, i, n, at[k]);
        }
        for (i32 k = 0; k < region->step_count; k++) {
            prefetch_part(region, at, prefetched, count, n, k);
            run_step(region->steps + k, region->slots, at, n);
        }
        advance(region, n, at, to);
    }
    if (call->streams) FENCE();
}

/* Returns whether the scratch memory has room for tiles of the outputs. */
static bool has_room(const Region *region) {
    u32 tiles = 0;
    for (i32 k = 0; k < region->slot_count; k++) tiles += region->slots[k].kind != SCALAR;
    return tiles * region->tile <= REGION_MEMORY;
}

EXPORT("run_region")
void run_region(const Region *region, void *const *arrays, u32 n) {
    u32 piece = MAX(PIECE_ELEMENTS / CEIL_DIV((u32)region->step_count, 4),
                    PIECE_MIN_ELEMENTS);
    Call call = {region, arrays, 0, false, false};
    for (i32 k = 0; k < region->slot_count; k++)
        if (region->slots[k].kind == ARRAY) call.bytes += (u64)n * region->slots[k].size;
    call.streams = call.bytes >= STREAM_MIN_BYTES && has_room(region);
    parallel_for(run_tiles, &call, n, piece);
}

void run_part(const Region *region, void *const *arrays, u32 i, u32 end) {
    run_tiles(i, end, &(Call){region, arrays, 0, false, true});
}
