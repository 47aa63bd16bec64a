/* Threads of the kernels: what plugrad.h declares, on POSIX threads.

   Workers are started at the first run that has work for them. One run at a time has
   them; a second one, of another Python thread, does its work alone. Pieces do not depend
   on the number of threads, so results do not either. A child after `fork` has no
   workers, and starts its own. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "plugrad.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    void (*body)(u32, u32, void *);
    void *ctx;
    u32 n, grain, next; /* the next piece: taken by an atomic addition */
    u32 epoch, inside, started;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* held by the run that has it */
static u32 wanted = 1;
static _Thread_local u32 me;

u32 thread_id(void) { return me; }

void poll_cancel(void) {}

_Noreturn void fail(const char *message) { /* of debug builds, and of wrong geometry */
    fprintf(stderr, "plugrad-cpu: %s\n", message);
    abort();
}

static void take_pieces(void) {
    u32 pieces = CEIL_DIV(pool.n, pool.grain), n = pool.n, grain = pool.grain;
    for (u32 i; (i = __atomic_fetch_add(&pool.next, 1, __ATOMIC_RELAXED)) < pieces;)
        pool.body(i * grain, MIN(n - i * grain, grain) + i * grain, pool.ctx);
}

static void *work(void *number) {
    me = (u32)(uintptr_t)number;
    pthread_mutex_lock(&pool.lock);
    for (u32 seen = 0;;) {
        while (pool.epoch == seen) pthread_cond_wait(&pool.work, &pool.lock);
        seen = pool.epoch;
        if (pool.body == NULL) continue; /* the run is over */
        pool.inside++;
        pthread_mutex_unlock(&pool.lock);
        take_pieces();
        pthread_mutex_lock(&pool.lock);
        if (--pool.inside == 0) pthread_cond_signal(&pool.done);
    }
    return NULL;
}

static void forget_workers(void) { /* in a child, after a fork */
    pool.started = pool.inside = 0, pool.body = NULL;
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.done, NULL);
    pthread_mutex_init(&turn, NULL);
}

static void start_workers(void) {
    static bool known;
    if (!known) known = pthread_atfork(NULL, NULL, forget_workers) == 0;
    for (u32 i = pool.started + 1; known && i < wanted; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, (void *)(uintptr_t)i)) break;
        pthread_detach(thread);
        pool.started = i;
    }
}

void parallel_for(void (*body)(u32, u32, void *), void *ctx, u32 n, u32 grain) {
    if (n <= grain || wanted < 2 || pthread_mutex_trylock(&turn)) {
        for (u64 i = 0; i < n; i += grain) body((u32)i, (u32)MIN(n, i + grain), ctx);
        return;
    }
    start_workers();
    pthread_mutex_lock(&pool.lock);
    pool.body = body, pool.ctx = ctx, pool.n = n, pool.grain = grain, pool.next = 0;
    pool.epoch++;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    take_pieces();
    pthread_mutex_lock(&pool.lock);
    while (pool.inside) pthread_cond_wait(&pool.done, &pool.lock);
    pool.body = NULL; /* a worker that wakes up later has nothing to do */
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&turn);
}

/* Sets the number of threads, at most MAX_THREADS; those that run stay. */
EXPORT("set_threads") void set_threads(u32 count) {
    wanted = MIN(MAX(count, 1), MAX_THREADS);
}
