/* Threads, cancelling, failing: what plugrad.h declares, and what Python calls of it.

   It is part of every module; what all of them share lies at a fixed address. The
   workers live in shared memory: a Python thread, with instances of its own, calls
   `work`, which returns at the end, or with the module that has something to do.

   A run of parallel_for is one step of `epoch`. Whoever comes while it is `open` counts
   himself `inside` and takes pieces until there are none. The caller takes pieces, too,
   closes, and waits for those inside alone: who sleeps, or waits for Python's lock,
   delays nobody. If a body traps in a worker, its Python thread calls `worker_failed`,
   and then `work` again; the caller fails when all the others have finished. */
#include "plugrad.h"

/* Python's, called on the first thread now and then: runs the signal handlers, does not
   return if one of them raises, and sets `until_poll` anew. */
__attribute__((import_module("plugrad"), import_name("poll"))) void host_poll(void);
/* Does not return: the kernel ends with an error, without a signal of the processor. */
__attribute__((import_module("plugrad"), import_name("fail"))) void host_fail(void);

typedef struct {
    u32 until_poll; /* runtime.py knows where these two are */
    const char *failure;
    const void *module; /* whose `body` is */
    void (*body)(u32, u32, void *);
    void *ctx;
    u32 n, grain;
    u32 threads, epoch, open, inside, sleeping;
    u32 stop, failed, quit;
    u32 next[MAX_THREADS]; /* pieces: a share for each thread, from here on */
} Pool;
#define pool (*(Pool *)64) /* below the stacks; memory begins with zeros */

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

_Noreturn void fail(const char *message) {
    pool.failure = message;
    host_fail();
    __builtin_trap();
}

#ifdef PLUGRAD_DEBUG
bool in_memory(const void *p, u64 bytes) {
    u64 at = (uintptr_t)p;
    return bytes == 0 ||
           (at >= 1024 && at + bytes <= (u64)__builtin_wasm_memory_size(0) << 16);
}
#endif

static void poll(void) {
    if (--pool.until_poll == 0) host_poll();
}

#ifdef THREADS
void poll_cancel(void) {
    if (me == 0)
        poll();
    else if (GET(pool.stop))
        fail("stopped");
}

/* Where the share of a thread begins. Neighbouring pieces go to one thread, the same in
   one kernel after the other: it finds in its caches what it has made before. */
static u32 share(u32 thread) {
    return (u32)((u64)CEIL_DIV(pool.n, pool.grain) * thread / pool.threads);
}

/* Takes pieces of one's own share, and then of those of others. */
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

/* The life of a worker; `seen` is the epoch that it has done. Returns 0 at `quit`, else
   the module that is to go on. */
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

/* A body has trapped in a worker. Returns the epoch that it has done by that. */
EXPORT("worker_failed") u32 worker_failed(void) {
    u32 now = GET(pool.epoch);
    SET(pool.failed, 1);
    SET(pool.stop, 1);
    leave();
    return now;
}

void parallel_for(void (*body)(u32, u32, void *), void *ctx, u32 n, u32 grain) {
    if (n <= grain || pool.threads <= 1) {
        if (n) body(0, n, ctx);
        return;
    }
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
            host_poll();
    if (GET(pool.stop)) fail(pool.failure);
}

/* After a trap of the caller: wait until no worker is in a body any more. Returns
   whether one of them has trapped by itself. */
EXPORT("settle") u32 settle(void) {
    SET(pool.open, 0);
    if (GET(pool.inside)) SET(pool.stop, 1);
    for (u32 left; (left = GET(pool.inside));)
        __builtin_wasm_memory_atomic_wait32((int *)&pool.inside, left, 1000000);
    SET(pool.stop, 0);
    return __atomic_exchange_n(&pool.failed, 0, __ATOMIC_SEQ_CST);
}

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
