/* Regions: a program of kernels runs on one tile of elements after the other, so that
   intermediate results stay in the first cache. The kernels are those that run alone:
   results are the same to the bit, as those do not depend on where a row begins. */
#include "region.h"

#include "elementwise.h"

/* Bytes of the arrays of a call from which on it fetches the next tile while it computes,
   and from which on it writes outputs past the caches. Measured on a Xeon: past the caches
   42 MB take longer, 84 MB take less time. */
#if !CACHE_CONTROL
#define AHEAD UINT64_MAX
#define FAR UINT64_MAX
#define STREAM(p, v) STORE(p, v)
#define FENCE() ((void)0)
#else
#define AHEAD ((u64)1 << 20)
#define FAR ((u64)64 << 20)
#define STREAM(p, v) __builtin_nontemporal_store(v, (vec *)(p))
#define FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST) /* for the threads that read */
#endif
#define LINE 64 /* bytes of a line of the caches */

/* Elements of a piece. Programs of more than four steps have smaller ones, but not less
   than LEAST: a piece takes 10 to 500 us. */
#define PIECE 65536
#define LEAST 8192

typedef struct {
    const Region *region;
    void *const *arrays;
    u64 bytes;    /* of its arrays */
    bool is_far;  /* whether these are FAR, and there is memory for tiles of outputs */
    bool is_part; /* whether they begin with the first element of the piece */
} Call;

/* Copies n elements of an array that is broadcast, from element i of the result on. */
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

/* Whether all tiles of a broadcast array are alike: it repeats in what divides a tile. */
static bool is_alike(const i32 *loop, u32 tile) {
    u32 rank = loop[0], period = 1;
    for (u32 axis = 1; axis < rank && period <= tile; axis++) period *= loop[1 + axis];
    return loop[1 + rank] == 0 && tile % period == 0;
}

static void run_step(const RegionStep *step, const RegionSlot *slots, u8 *const *at, u32 n) {
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

/* Copies a tile past the caches: memory that is overwritten is not read before. */
static void stream(const u8 *from, u8 *to, u32 size) {
    for (; size && (uintptr_t)to % sizeof(vec); size--) *to++ = *from++;
    for (; size >= sizeof(vec); size -= sizeof(vec)) {
        STREAM(to, VLOAD((const f32 *)from));
        to += sizeof(vec), from += sizeof(vec);
    }
    while (size--) *to++ = *from++;
}

/* Gives outputs a tile behind all others; `to` gets their place in the arrays. */
static void place_outputs(const Region *region, f32 *memory, u8 **at, u8 **to) {
    i32 place = 0;
    for (i32 k = 0; k < region->slot_count; k++)
        if (region->slots[k].kind >= BROADCAST) place = MAX(place, region->slots[k].place + 1);
    for (i32 k = 0; k < region->step_count; k++) {
        i32 y = region->steps[k].to;
        if (region->slots[y].kind != ARRAY || to[y]) continue;
        to[y] = at[y], at[y] = (u8 *)(memory + (u32)place++ * region->tile);
    }
}

/* Moves on to the next tile, after it has written the outputs that have tiles. */
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

/* Fetches part k of the next tile of arrays, of as many parts as there are steps: between
   steps, as a processor waits for few lines at once. */
static void fetch(const Region *region, u8 *const *at, const i32 *arrays, u32 count, u32 n,
                  i32 k) {
    for (u32 i = 0; i < count; i++) {
        u32 size = n * (u32)region->slots[arrays[i]].size;
        u32 part = CEIL_DIV(size, (u32)region->step_count * LINE) * LINE;
        const u8 *p = at[arrays[i]] + size + (u32)k * part;
        for (u32 b = 0; b < part; b += LINE) __builtin_prefetch(p + b);
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
    if (call->is_far) place_outputs(region, memory, at, to);
    i32 ahead[REGION_SLOTS];
    u32 count = 0;
    for (i32 k = 0; k < region->slot_count && call->bytes >= AHEAD; k++)
        if (region->slots[k].kind == ARRAY && !to[k]) ahead[count++] = k;
    for (u32 begin = i; i < end; i += tile) {
        u32 n = MIN(tile, end - i);
        for (i32 k = 0; k < region->slot_count; k++) {
            const RegionSlot *slot = region->slots + k;
            const i32 *loop = region->loops + slot->loop;
            if (slot->kind == BROADCAST && (i == begin || !is_alike(loop, tile)))
                load_broadcast(call->arrays[k], slot->size, loop, i, n, at[k]);
        }
        for (i32 k = 0; k < region->step_count; k++) {
            fetch(region, at, ahead, count, n, k);
            run_step(region->steps + k, region->slots, at, n);
        }
        advance(region, n, at, to);
    }
    if (call->is_far) FENCE();
}

/* Whether the memory has room for tiles of outputs. */
static bool has_room(const Region *region) {
    u32 tiles = 0;
    for (i32 k = 0; k < region->slot_count; k++) tiles += region->slots[k].kind != SCALAR;
    return tiles * region->tile <= REGION_MEMORY;
}

EXPORT("run_region")
void run_region(const Region *region, void *const *arrays, u32 n) {
    u32 piece = MAX(PIECE / CEIL_DIV((u32)region->step_count, 4), LEAST);
    Call call = {region, arrays, 0, false, false};
    for (i32 k = 0; k < region->slot_count; k++)
        if (region->slots[k].kind == ARRAY) call.bytes += (u64)n * region->slots[k].size;
    call.is_far = call.bytes >= FAR && has_room(region);
    parallel_for(run_tiles, &call, n, piece);
}

void run_part(const Region *region, void *const *arrays, u32 i, u32 end) {
    run_tiles(i, end, &(Call){region, arrays, 0, false, true});
}
