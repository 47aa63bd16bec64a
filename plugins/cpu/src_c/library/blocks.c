/* Runs row programs: all stages on one block, then all stages on the next block, so
   that intermediate results stay in the second-level cache. Results have the same bits
   as those of separate calls: the kernels are the same, and run on whole rows or on the
   same parts of a reduction.

   The blocks are divided among the threads. Within a block, `parallel_for` of threads.c
   runs on the calling thread. */
#include "blocks.h"

#include "plugrad.h"

typedef struct {
    const BlockProgram *program;
    void *const *arrays;
    u32 n;
} Call;

static void run_steps(const BlockStage *stage, u8 *const *at, u32 i, u32 end) {
    void *arrays[REGION_SLOTS];
    for (i32 k = 0; k < stage->region->slot_count; k++)
        arrays[k] = stage->values[k] < 0 ? NULL : at[stage->values[k]];
    run_part(stage->region, arrays, i, end);
}

static void run_kernel(const BlockStage *stage, u8 *const *at, u32 n) {
    Argument a[MAX_ARGUMENTS];
    for (u32 k = 0; stage->kernel->kinds[k]; k++) {
        BlockArgument x = stage->arguments[k];
        switch (x.kind) {
        case PART_OF: a[k].address = x.number < 0 ? NULL : at[x.number]; break;
        case COUNT_OVER: a[k].count = n / (u32)x.number; break;
        case NUMBER: a[k].count = (u32)x.number; break;
        default: a[k].number = stage->last;
        }
    }
    stage->kernel->call(a);
}

static void run_piece(u32 block, u32 end, void *ctx) {
    const Call *call = ctx;
    const BlockProgram *program = call->program;
    f32 *memory = thread_scratch(2, BLOCK_MEMORY * sizeof(f32));
    u8 *at[REGION_SLOTS];
    for (; block < end; block++) {
        u32 i = block * program->block, n = MIN(call->n - i, program->block);
        for (i32 k = 0; k < program->value_count; k++) {
            const BlockValue *value = program->values + k;
            u64 first = (u64)(i / value->divisor) * value->factor;
            at[k] = value->place < 0 ? (u8 *)call->arrays[k] + first * value->size
                                     : (u8 *)(memory + value->place);
        }
        for (i32 k = 0; k < program->stage_count; k++) {
            const BlockStage *stage = program->stages + k;
            if (stage->region)
                run_steps(stage, at, i, i + n);
            else
                run_kernel(stage, at, n);
        }
    }
}

EXPORT("run_blocks")
void run_blocks(const BlockProgram *program, void *const *arrays, u32 n) {
    parallel_for(run_piece, &(Call){program, arrays, n}, CEIL_DIV(n, program->block),
                 program->piece);
}
