/* Broadcasting: divides broadcast operands into rows, and runs a kernel on each row. */
#include "elementwise.h"

typedef struct {
    Row row;
    Operands operands;
    u8 *y;
    u32 count, size, rank, width, blocks, grain;
    const i32 *shape;
} Broadcast;

/* An item is a block of a row; a row has `blocks` blocks. Rows that consist of one
   block are computed several at a time, along the axis before the last axis, where they
   are a constant step apart. */
static void run_rows(u32 item, u32 end, void *ctx) {
    const Broadcast *job = ctx;
    u32 outer = job->rank - 1, row = item / job->blocks, block = item % job->blocks;
    for (u32 rows; item < end; item += rows) {
        Operands o = job->operands;
        u32 begin = block * job->grain, n = MIN(job->width - begin, job->grain);
        u64 first = (u64)row * job->width + begin, size = (u64)n * job->size;
        i64 step[3] = {0};
        rows = 1;
        if (outer && job->blocks == 1)
            rows = MIN(end - item, job->shape[outer] - row % job->shape[outer]);
        for (u32 k = 0; k < job->count; k++) {
            const i32 *stride = job->shape + 1 + job->rank * (k + 1);
            i64 at = (i64)begin * o.step[k];
            for (u32 axis = outer, rest = row; axis--;) {
                u32 m = job->shape[1 + axis], next = axis ? rest / m : 0;
                at += (i64)(rest - next * m) * stride[axis];
                rest = next;
            }
            o.in[k] = (const u8 *)o.in[k] + at * o.size[k];
            if (outer) step[k] = (i64)stride[outer - 1] * o.size[k];
            INSIDE(o.in[k], o.size[k]);
            INSIDE((const u8 *)o.in[k] + (rows - 1) * step[k] +
                       (i64)(n - 1) * o.step[k] * o.size[k],
                   o.size[k]);
        }
        u8 *y = job->y + first * job->size;
        INSIDE(y, rows * size);
        for (u32 i = 0; i < rows; i++, y += size) {
            job->row(&o, y, n);
            for (u32 k = 0; k < job->count; k++)
                o.in[k] = (const u8 *)o.in[k] + step[k];
        }
        block = (block + 1) % job->blocks, row += block ? 0 : rows;
    }
}

/* Rows of at most SHORT_ROW_ELEMENTS are merged into rows of at most LONG_ROW_BYTES. */
enum { SHORT_ROW_ELEMENTS = 256, LONG_ROW_BYTES = 4096 };

/* Returns the index of the operand that each row reads again, such as a bias, while the
   other operands advance. Returns `count` if there is no such operand or more than one.
   */
static u32 find_repeated_operand(const Operands *o, u32 count, const i32 *shape) {
    u32 found = count;
    for (u32 k = 0; k < count; k++) {
        i32 outer = shape[3 + 2 * k];
        if (o->step[k] == 1 && !outer && found == count)
            found = k;
        else if (o->step[k] * shape[2] != outer || o->step[k] > 1)
            return count;
    }
    return found;
}

/* Computes most of the rows as fewer, longer rows, because a row of a few elements
   takes as long as a row of a hundred. Advances the operands and y, and returns the
   number of remaining elements. */
static u32 merge_rows(Row row, Operands *o, u32 count, u8 **y, u32 size, u32 n,
                      const i32 *shape, u32 grain) {
    u32 width = shape[2], k = find_repeated_operand(o, count, shape);
    if (k == count || width > SHORT_ROW_ELEMENTS) return n;
    u32 bytes = width * o->size[k], rows = MIN(LONG_ROW_BYTES / bytes, n / width);
    if (rows < 2) return n;
    u32 wide = rows * width, done = n / wide * wide;
    u8 memory[LONG_ROW_BYTES];
    for (u32 i = 0; i < rows; i++) __builtin_memcpy(memory + i * bytes, o->in[k], bytes);
    i32 longer[3 + 2 * 3] = {2, (i32)(n / wide), (i32)wide};
    Operands part = *o;
    part.in[k] = memory;
    for (u32 j = 0; j < count; j++) {
        longer[3 + 2 * j] = j != k && o->step[j] ? (i32)wide : 0;
        longer[4 + 2 * j] = o->step[j];
        if (longer[3 + 2 * j]) o->in[j] = (const u8 *)o->in[j] + (u64)done * o->size[j];
    }
    broadcast(row, part, count, *y, size, done, longer, grain);
    *y += (u64)done * size;
    return n - done;
}

void broadcast(Row row, Operands o, u32 count, void *y, u32 size, u32 n,
               const i32 *shape, u32 grain) {
    u8 *to = y;
    i32 flat[] = {1, (i32)n, 1, 1, 1};
    if (!n) return;
    if (!shape) shape = flat;
    u32 rank = shape[0], width = shape[rank];
    for (u32 k = 0; k < count; k++) o.step[k] = shape[rank * (k + 2)];
    if (rank == 2 && n > width)
        n = merge_rows(row, &o, count, &to, size, n, shape, grain);
    if (!n) return;
    grain = PIECE_SIZE(n, grain);
    Broadcast job = {row, o, to, count, size, rank, width, CEIL_DIV(width, grain), grain,
                     shape};
    parallel_for(run_rows, &job, n / width * job.blocks, MAX(1, grain / width));
}
