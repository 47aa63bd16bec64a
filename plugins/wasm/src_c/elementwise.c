/* Broadcasting: from a shape and strides to rows. */
#include "elementwise.h"

typedef struct {
    Row row;
    Operands operands;
    u8 *y;
    u32 count, size, rank, width, blocks, grain;
    const i32 *shape;
} Job;

/* Items are blocks of rows, `blocks` of them in each. */
static void rows(u32 item, u32 end, void *ctx) {
    const Job *job = ctx;
    u32 outer = job->rank - 1, row = item / job->blocks, block = item % job->blocks;
    for (; item < end; item++) {
        Operands o = job->operands;
        u32 begin = block * job->grain, n = MIN(job->width - begin, job->grain);
        u64 first = (u64)row * job->width + begin;
        for (u32 k = 0; k < job->count; k++) {
            const i32 *stride = job->shape + 1 + job->rank * (k + 1);
            i64 at = (i64)begin * o.step[k];
            for (u32 axis = outer, rest = row; axis--;) {
                u32 m = job->shape[1 + axis], next = axis ? rest / m : 0;
                at += (i64)(rest - next * m) * stride[axis];
                rest = next;
            }
            o.in[k] = (const u8 *)o.in[k] + at * o.size[k];
            INSIDE(o.in[k], o.size[k]);
            INSIDE((const u8 *)o.in[k] + (i64)(n - 1) * o.step[k] * o.size[k], o.size[k]);
        }
        INSIDE(job->y + first * job->size, (u64)n * job->size);
        job->row(&o, job->y + first * job->size, n);
        if (++block == job->blocks) block = 0, row++;
    }
}

void broadcast(Row row, Operands o, u32 count, void *y, u32 size, u32 n,
               const i32 *shape, u32 grain) {
    i32 flat[] = {1, (i32)n, 1, 1, 1};
    if (!n) return;
    if (!shape) shape = flat;
    u32 rank = shape[0], width = shape[rank];
    for (u32 k = 0; k < count; k++) o.step[k] = shape[rank * (k + 2)];
    Job job = {row, o, y, count, size, rank, width, CEIL_DIV(width, grain), grain, shape};
    parallel_for(rows, &job, n / width * job.blocks, MAX(1, grain / width));
}
