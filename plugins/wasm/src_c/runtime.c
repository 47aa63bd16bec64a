/* The thread pool, cancellation and failure: the functions that plugrad.h declares, and
   those that Python calls.

   Every module contains this code; the state that all modules share is at a fixed
   address. The workers live in shared memory: a Python thread, with instances of its own,
   calls `work`, which returns at the end, or with the module that has something to do.

   A run of parallel_for is one step of `epoch`. A thread that finds it `open` counts
   himself `inside` and takes pieces until there are none. The caller takes pieces, too,
   closes, and waits for those inside alone: who sleeps, or waits for Python's lock,
   delays no thread. If a body traps in a worker, its Python thread calls `worker_failed`,
   and then `work` again; the caller fails when all the others have finished. */
#include "plugrad.h"

/* Python's, called on the first thread now and then: runs the signal handlers, sets
   `interrupted` if one of them raises, and `until_poll` anew. */
__attribute__((import_module("plugrad"), import_name("poll"))) void host_poll(void);
/* Does not return: the kernel ends with an error, without a processor signal. */
__attribute__((import_module("plugrad"), import_name("fail"))) void host_fail(void);

typedef struct {
    u32 until_poll; /* runtime.py knows where these three are */
    const char *failure;
    u32 interrupted;
    const void *module; /* whose `body` is */
    void (*body)(u32, u32, void *);
    void *ctx;
    u32 n, grain;
    u32 threads, epoch, open, inside, sleeping;
    u32 stop, quit;
    u32 next[MAX_THREADS]; /* pieces: a share for each thread, from here on */
} Pool;
#define pool (*(Pool *)64) /* below the stacks; memory begins with zeros */
#define STACK_TOP (1 << 20) /* of the first thread; as in hatch_build.py */

#ifdef THREADS
#define GET(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define SET(x, value) __atomic_store_n(&(x), value, __ATOMIC_SEQ_CST)
#define GROW(x, by) __atomic_fetch_add(&(x), by, __ATOMIC_SEQ_CST)
#define SPIN 20000

EXPORT_DATA u8 this_module; /* its address tells modules apart */
static _Thread_local u32 me;

u32 thread_id(void) { return me; }
#else
u32 thread_id(void) { return 0; }
#endif

/* Returns when no thread is in a body. Threads that wake up later find no open run. */
static void settle_all(void) {
#ifdef THREADS
    SET(pool.open, 0);
    if (GET(pool.inside)) SET(pool.stop, 1);
    for (u32 left; (left = GET(pool.inside));)
        __builtin_wasm_memory_atomic_wait32((int *)&pool.inside, left, 1000000);
    SET(pool.stop, 0);
#endif
}

/* The first thread cleans up here, not in Python, where another signal could interrupt
   it. */
_Noreturn static void end(void) {
    if (thread_id() == 0) {
        settle_all();
        __asm__ volatile(".globaltype __stack_pointer, i32\n"
                         "i32.const %0\n"
                         "global.set __stack_pointer" ::"i"(STACK_TOP));
    }
    host_fail();
    __builtin_trap();
}

_Noreturn void fail(const char *message) {
    pool.failure = message;
    end();
}

#ifdef PLUGRAD_DEBUG
bool in_memory(const void *p, u64 bytes) {
    u64 at = (uintptr_t)p;
    return bytes == 0 ||
           (at >= 1024 && at + bytes <= (u64)__builtin_wasm_memory_size(0) << 16);
}
#endif

static void run_signal_handlers(void) {
    pool.until_poll = 256; /* if Python does not set it */
    host_poll();
    if (!pool.interrupted) return;
    pool.interrupted = 0;
    end();
}

static void poll(void) {
    if (--pool.until_poll == 0) run_signal_handlers();
}

#ifdef THREADS
void poll_cancel(void) {
    if (me == 0)
        poll();
    else if (GET(pool.stop))
        end();
}

/* Returns where the share of a thread begins. A thread gets neighbouring pieces, the same
   in every kernel, so it finds in its caches what it wrote before. */
static u32 share(u32 thread) {
    return (u32)((u64)CEIL_DIV(pool.n, pool.grain) * thread / pool.threads);
}

/* Runs the pieces of the thread's own share, and then those of other shares. */
static void take_pieces(void) {
    u32 n = pool.n, grain = pool.grain, i;
    for (u32 k = 0; k < pool.threads; k++) {
        u32 whose = (me + k) % pool.threads, end = share(whose + 1);
        while (!GET(pool.stop) && (i = GROW(pool.next[whose], 1)) < end) {
            pool.body(i * grain, MIN(n - i * grain, grain) + i * grain, pool.ctx);
            if (me == 0) poll();
        }
    }
}

static void leave(void) {
    if (GROW(pool.inside, -1) == 1)
        __builtin_wasm_memory_atomic_notify((int *)&pool.inside, 1);
}

/* The main loop of a worker; `seen` is the last epoch that it has finished. Returns 0 at
   `quit`, else the module that has to continue. */
EXPORT("work") const void *work(u32 id, u32 seen) {
    me = id;
    for (;;) {
        u32 now, spin = SPIN;
        while ((now = GET(pool.epoch)) == seen && spin) spin--;
        if (now == seen) {
            GROW(pool.sleeping, 1);
            while ((now = GET(pool.epoch)) == seen)
                __builtin_wasm_memory_atomic_wait32((int *)&pool.epoch, seen, -1);
            GROW(pool.sleeping, -1);
        }
        if (GET(pool.quit)) return 0;
        GROW(pool.inside, 1); /* before a look at `open`: the caller does it the other */
        u32 open = GET(pool.open); /* way round, so that one of the two sees it */
        const void *module = open ? pool.module : &this_module;
        if (open && module == &this_module) take_pieces();
        leave();
        if (module != &this_module) return module;
        seen = now;
    }
}

/* Called after a trap of a body in a worker. Returns the epoch that it has finished. */
EXPORT("worker_failed") u32 worker_failed(void) {
    u32 now = GET(pool.epoch);
    SET(pool.stop, 1);
    leave();
    return now;
}

void parallel_for(void (*body)(u32, u32, void *), void *ctx, u32 n, u32 grain) {
    if (n <= grain || pool.threads <= 1) {
        if (n) body(0, n, ctx);
        return;
    }
    /* Python was interrupted before it did so */
    if (GET(pool.open) || GET(pool.stop)) settle_all();
    pool.module = &this_module;
    pool.body = body, pool.ctx = ctx, pool.n = n, pool.grain = grain;
    for (u32 t = 0; t < pool.threads; t++) SET(pool.next[t], share(t));
    SET(pool.open, 1);
    GROW(pool.epoch, 1);
    if (GET(pool.sleeping))
        __builtin_wasm_memory_atomic_notify((int *)&pool.epoch, pool.threads - 1);
    take_pieces();
    SET(pool.open, 0);
    for (u32 spin = SPIN, left; (left = GET(pool.inside));)
        if (spin)
            spin--;
        else if (__builtin_wasm_memory_atomic_wait32((int *)&pool.inside, left,
                                                     20000000) == 2)
            run_signal_handlers();
    if (GET(pool.stop)) fail(pool.failure);
}

/* Called after a processor trap of the caller: see `settle_all`. */
EXPORT("settle") void settle(void) { settle_all(); }

EXPORT("start") u32 start(u32 threads) {
    pool.threads = threads;
    pool.open = pool.inside = pool.sleeping = pool.quit = 0;
    return pool.epoch;
}

EXPORT("quit") void quit(void) {
    pool.threads = 1;
    SET(pool.quit, 1);
    GROW(pool.epoch, 1);
    __builtin_wasm_memory_atomic_notify((int *)&pool.epoch, MAX_THREADS);
}
#else
void poll_cancel(void) { poll(); }

void parallel_for(void (*body)(u32, u32, void *), void *ctx, u32 n, u32 grain) {
    for (u32 begin = 0; begin < n; begin += grain) {
        body(begin, MIN(n - begin, grain) + begin, ctx);
        poll_cancel();
    }
}
#endif
