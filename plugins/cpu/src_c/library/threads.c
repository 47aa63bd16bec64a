/* The thread pool of the kernels: the thread functions that plugrad.h declares, on
   POSIX threads, which zig also provides on Windows.

   The first run that has work for workers starts them. Only one run at a time uses the
   workers; a concurrent run from another Python thread does all of its work on that
   thread. Neither pieces nor results depend on the number of threads. After `fork`, a
   child process has no workers and starts its own. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "plugrad.h"

#ifdef _WIN32 /* no aligned_alloc, no fork */
#include <malloc.h>
#define aligned_alloc(line, bytes) _aligned_malloc(bytes, line)
#define free_aligned _aligned_free
#define pthread_atfork(before, parent, child) ((void)(child), 0)
#else
#define free_aligned free
#endif

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    void (*body)(u32, u32, void *);
    void *ctx;
    u32 n, grain, shares;
    u32 epoch, active;  /* written with the lock held, read without it */
    u32 started, sleeping;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};
/* The next piece of each thread's share, claimed by an atomic addition. A thread that
   has finished its own share claims pieces of other shares. Shares are the same for
   consecutive kernels, so the data that a thread wrote is still in its cache. */
static struct {
    u32 next;
    char line[60]; /* pads to a cache line */
} shares[MAX_THREADS];
/* Held by the run that uses the workers. */
static pthread_mutex_t run_lock = PTHREAD_MUTEX_INITIALIZER;
static u32 thread_limit = 1;
static _Thread_local u32 thread_index;

u32 thread_id(void) { return thread_index; }

u32 thread_count(void) { return thread_limit; }

void poll_cancel(void) {}

/* --- scratch memory of a thread -------------------------------------------------- */

enum { SCRATCH_BLOCKS = 4 };
static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;

static void free_scratch(void *blocks) { /* called when a thread ends */
    for (u32 i = 0; i < SCRATCH_BLOCKS; i++) free_aligned(((void **)blocks)[i]);
    free(blocks);
}

static void create_scratch_key(void) {
    if (pthread_key_create(&scratch_key,
                           free_scratch)) fail("there are too many thread-specific keys");
}

void *thread_scratch(u32 which, size_t bytes) {
    pthread_once(&scratch_once, create_scratch_key);
    void **blocks = pthread_getspecific(scratch_key);
    if (blocks == NULL) {
        blocks = calloc(SCRATCH_BLOCKS, sizeof(void *));
        if (blocks == NULL || pthread_setspecific(scratch_key, blocks)) fail("out of memory");
    }
    if (blocks[which] == NULL) blocks[which] = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (blocks[which] == NULL) fail("out of memory");
    return blocks[which];
}

/* --- pieces ---------------------------------------------------------------------- */

_Noreturn void fail(const char *message) { /* assertions and fatal errors */
    fprintf(stderr, "plugrad-cpu: %s\n", message);
    abort();
}

static u32 share_begin(u32 share, u32 pieces) {
    return (u32)((u64)pieces * share / pool.shares);
}

static void run_pieces(void) {
    u32 pieces = CEIL_DIV(pool.n, pool.grain), n = pool.n, grain = pool.grain;
    for (u32 k = 0; k < pool.shares; k++) {
        u32 share = (thread_index + k) % pool.shares, end = share_begin(share + 1, pieces), i;
        u32 *next = &shares[share].next;
        while ((i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < end)
            pool.body(i * grain, MIN(n - i * grain, grain) + i * grain, pool.ctx);
    }
}

static i64 now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (i64)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Spins until a number equals `old` (if `until_equal`) or differs from it, for at most
   SPIN_NS, because waking a sleeping thread takes as long as many kernels. After
   YIELD_AFTER_NS, it also yields the processor. It stops spinning if another thread has
   used the processor for at least PREEMPTED_NS. */
enum { SPIN_NS = 300000, YIELD_AFTER_NS = 100000, PREEMPTED_NS = 20000 };

static void spin(const u32 *number, u32 old, bool until_equal) {
    i64 start = now_ns(), last = start;
    for (i64 t = start; t - start < SPIN_NS && t - last < PREEMPTED_NS; last = t, t = now_ns()) {
        if (t - start > YIELD_AFTER_NS) sched_yield();
        for (u32 i = 0; i < 16; i++) {
            if ((__atomic_load_n(number, __ATOMIC_ACQUIRE) == old) == until_equal) return;
#ifdef __x86_64__
            __builtin_ia32_pause();
#endif
        }
    }
}

static void *run_worker(void *number) {
    thread_index = (u32)(uintptr_t)number;
    for (u32 seen = 0;;) {
        spin(&pool.epoch, seen, false);
        pthread_mutex_lock(&pool.lock);
        pool.sleeping++;
        while (pool.epoch == seen) pthread_cond_wait(&pool.work, &pool.lock);
        pool.sleeping--;
        seen = pool.epoch;
        /* the run has ended, or has no share for this worker */
        bool skip = pool.body == NULL || thread_index >= pool.shares;
        if (!skip) pool.active++;
        pthread_mutex_unlock(&pool.lock);
        if (skip) continue;
        run_pieces();
        pthread_mutex_lock(&pool.lock);
        if (--pool.active == 0) pthread_cond_signal(&pool.done);
        pthread_mutex_unlock(&pool.lock);
    }
    return NULL;
}

static void reset_after_fork(void) { /* runs in the child */
    pool.started = pool.active = pool.sleeping = 0, pool.body = NULL;
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.done, NULL);
    pthread_mutex_init(&run_lock, NULL);
}

enum { STACK_MIN_BYTES = 1 << 20 }; /* stack of a worker; musl's default is 128 KiB */

static void start_workers(void) {
    static bool registered;
    if (pool.started + 1 >= thread_limit) return;
    if (!registered) registered = pthread_atfork(NULL, NULL, reset_after_fork) == 0;
    pthread_attr_t attributes;
    size_t stack;
    if (pthread_attr_init(&attributes)) return;
    if (pthread_attr_getstacksize(&attributes, &stack) == 0 && stack < STACK_MIN_BYTES)
        pthread_attr_setstacksize(&attributes, STACK_MIN_BYTES);
    for (u32 i = pool.started + 1; registered && i < thread_limit; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, run_worker, (void *)(uintptr_t)i)) break;
        pthread_detach(thread);
        pool.started = i;
    }
    pthread_attr_destroy(&attributes);
}

void parallel_for(void (*body)(u32, u32, void *), void *ctx, u32 n, u32 grain) {
    if (n <= grain || thread_limit < 2 || pthread_mutex_trylock(&run_lock)) {
        for (u64 i = 0; i < n; i += grain) body((u32)i, (u32)MIN(n, i + grain), ctx);
        return;
    }
    start_workers();
    pthread_mutex_lock(&pool.lock);
    pool.body = body, pool.ctx = ctx, pool.n = n, pool.grain = grain;
    u32 pieces = CEIL_DIV(n, grain);
    pool.shares = MIN(pool.started + 1, pieces);
    for (u32 i = 0; i < pool.shares; i++) shares[i].next = share_begin(i, pieces);
    __atomic_store_n(&pool.epoch, pool.epoch + 1, __ATOMIC_RELEASE);
    if (pool.sleeping) pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    run_pieces();
    spin(&pool.active, 0, true);
    pthread_mutex_lock(&pool.lock);
    while (pool.active) pthread_cond_wait(&pool.done, &pool.lock);
    pool.body = NULL; /* workers that wake up later have nothing to do */
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&run_lock);
}

/* Sets the number of threads, at most MAX_THREADS. Workers that have already started
   keep running. */
EXPORT("set_threads") void set_threads(u32 count) {
    thread_limit = MIN(MAX(count, 1), MAX_THREADS);
}
