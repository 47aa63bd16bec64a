/* The thread pool, cancellation and failure: functions that plugrad.h declares, and
   functions that Python calls.

   Every module contains this code; all modules share the state, which is at a fixed
   address of shared memory. A worker is a Python thread with its own instances of the
   modules. It calls `work`, which returns when the pool quits or another module has
   work.

   A call of parallel_for increments `epoch`. A worker that finds the run `open`
   increments `inside` and takes pieces until there are none left. The calling thread
   also takes pieces, then closes the run, and waits only for the threads that are
   inside: a worker that sleeps or waits for Python's lock delays no other thread. If a
   body traps in a worker, its Python thread calls `worker_failed`, and then `work`
   again; the call of parallel_for fails when all other threads have finished. */
#include "plugrad.h"

/* A Python function, called periodically on the first thread. It runs signal handlers,
   sets `interrupted` if a handler raises, and resets `until_poll`. */
__attribute__((import_module("plugrad"), import_name("poll"))) void host_poll(void);
/* Ends the kernel with an error, without a processor signal. Does not return. */
__attribute__((import_module("plugrad"), import_name("fail"))) void host_fail(void);

typedef struct {
    u32 until_poll; /* runtime.py uses the offsets of the first three members */
    const char *failure;
    u32 interrupted;
    const void *module; /* the module that contains `body` */
    void (*body)(u32, u32, void *);
    void *ctx;
    u32 n, grain;
    u32 threads, epoch, open, inside, sleeping;
    u32 stop, quit;
    u32 next[MAX_THREADS]; /* the next piece of each thread's share */
} Pool;
#define pool (*(Pool *)64) /* below the stacks; memory is initially zero */
#define STACK_TOP (1 << 20) /* the first thread's stack; as in hatch_build.py */

#ifdef THREADS
#define GET(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define SET(x, value) __atomic_store_n(&(x), value, __ATOMIC_SEQ_CST)
#define GROW(x, by) __atomic_fetch_add(&(x), by, __ATOMIC_SEQ_CST)
#define SPIN 20000

EXPORT_DATA u8 this_module; /* its address identifies the module */
static _Thread_local u32 thread_index;

u32 thread_id(void) { return thread_index; }
u32 thread_count(void) { return MAX(1, pool.threads); }
#else
u32 thread_id(void) { return 0; }
u32 thread_count(void) { return 1; }
#endif

/* Waits until no thread is in a body. Threads that wake up later find no open run. */
static void settle_all(void) {
#ifdef THREADS
    SET(pool.open, 0);
    if (GET(pool.inside)) SET(pool.stop, 1);
    for (u32 left; (left = GET(pool.inside));)
        __builtin_wasm_memory_atomic_wait32((int *)&pool.inside, left, 1000000);
    SET(pool.stop, 0);
#endif
}

/* Ends a kernel. The first thread cleans up here and not in Python, where another
   signal could interrupt it. */
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
    pool.until_poll = 256; /* used if Python does not reset it */
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
    if (thread_index == 0)
        poll();
    else if (GET(pool.stop))
        end();
}

/* Returns the first piece of a thread's share. The pieces of a share are adjacent, and
   the same for consecutive kernels, so the data that a thread wrote is still in its
   cache. */
static u32 share(u32 thread) {
    return (u32)((u64)CEIL_DIV(pool.n, pool.grain) * thread / pool.threads);
}

/* Runs the pieces of the thread's own share, and then those of other shares. */
static void run_pieces(void) {
    u32 n = pool.n, grain = pool.grain, i;
    for (u32 k = 0; k < pool.threads; k++) {
        u32 owner = (thread_index + k) % pool.threads, end = share(owner + 1);
        while (!GET(pool.stop) && (i = GROW(pool.next[owner], 1)) < end) {
            pool.body(i * grain, MIN(n - i * grain, grain) + i * grain, pool.ctx);
            if (thread_index == 0) poll();
        }
    }
}

static void leave(void) {
    if (GROW(pool.inside, -1) == 1)
        __builtin_wasm_memory_atomic_notify((int *)&pool.inside, 1);
}

/* The main loop of a worker; `seen` is the last epoch that it has finished. Returns 0
   after `quit`, otherwise the module to continue in. */
EXPORT("work") const void *work(u32 id, u32 seen) {
    thread_index = id;
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
        /* A worker changes `inside` before it reads `open`; the calling thread changes
           `open` before it reads `inside`. So at least one of the two threads sees the
           other's change. */
        GROW(pool.inside, 1);
        u32 open = GET(pool.open);
        const void *module = open ? pool.module : &this_module;
        if (open && module == &this_module) run_pieces();
        leave();
        if (module != &this_module) return module;
        seen = now;
    }
}

/* Called after a body has trapped in a worker. Returns the current epoch, which the
   worker has finished. */
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
    /* a signal interrupted Python before it could settle */
    if (GET(pool.open) || GET(pool.stop)) settle_all();
    pool.module = &this_module;
    pool.body = body, pool.ctx = ctx, pool.n = n, pool.grain = grain;
    for (u32 t = 0; t < pool.threads; t++) SET(pool.next[t], share(t));
    SET(pool.open, 1);
    GROW(pool.epoch, 1);
    if (GET(pool.sleeping))
        __builtin_wasm_memory_atomic_notify((int *)&pool.epoch, pool.threads - 1);
    run_pieces();
    SET(pool.open, 0);
    for (u32 spin = SPIN, left; (left = GET(pool.inside));)
        if (spin)
            spin--;
        else if (__builtin_wasm_memory_atomic_wait32((int *)&pool.inside, left,
                                                     20000000) == 2)
            run_signal_handlers();
    if (GET(pool.stop)) fail(pool.failure);
}

/* Called after a trap on the first thread: see `settle_all`. */
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
