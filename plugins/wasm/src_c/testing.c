/* Kernels for the tests of the runtime. */
#include "plugrad.h"

static void count_up(u32 begin, u32 end, void *ctx) {
    for (u32 i = begin; i < end; i++) ((u32 *)ctx)[i] += i;
}

/* Adds i to x[i]. */
EXPORT("test_count") void test_count(u32 *x, u32 n, u32 grain) {
    parallel_for(count_up, x, n, grain);
}

static void fail_piece(u32 begin, u32 end, void *ctx) {
    volatile u32 spin = 1 << 22; /* so that every thread gets a piece */
    if ((thread_id() == 0) == (*(u32 *)ctx == 0)) fail("test_fail was called");
    while (spin) spin--;
}

/* Fails on the first thread if `who` is 0, otherwise on the other threads. */
EXPORT("test_fail") void test_fail(u32 who) { parallel_for(fail_piece, &who, 64, 1); }

static void run_forever(u32 begin, u32 end, void *ctx) {
    volatile u32 *x = ctx;
    for (u32 i = 0; i < 100000; i++) (*x)++;
}

/* Runs for several minutes: in parallel_for or, if `tiles` is not 0, in a loop that
   polls for cancellation.
   */
EXPORT("test_forever") void test_forever(u32 *x, u32 tiles) {
    if (!tiles) parallel_for(run_forever, x, 1 << 20, 1);
    for (u32 i = 0; i < tiles; i++) {
        run_forever(0, 1, x);
        poll_cancel();
    }
}
