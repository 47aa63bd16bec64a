/* Threads of the kernels: what plugrad.h declares, on POSIX threads, which zig has for
   Windows, too.

   Workers are started at the first run that has work for them. One run at a time has
   them; a second one, of another Python thread, does its work alone. Pieces do not depend
   on the number of threads, so results do not either. A child after `fork` has no
   workers, and starts its own. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "plugrad.h"

#ifdef _WIN32 /* which has no aligned_alloc, and no fork */
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
    u32 epoch, inside;  /* changed under the lock, and looked at without */
    u32 started, asleep;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};
/* The next piece of each share, one a thread: taken by an atomic addition. A thread
   that is done with its own takes from others. So in a chain of kernels it finds in its
   cache what it has written before. */
static struct {
    u32 next;
    char line[60]; /* of the cache */
} shares[MAX_THREADS];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* held by the run that has it */
static u32 wanted = 1;
static _Thread_local u32 me;

u32 thread_id(void) { return me; }

u32 thread_count(void) { return wanted; }

void poll_cancel(void) {}

/* --- memory of a thread ---------------------------------------------------------- */

enum { KEPT = 3 };
static pthread_key_t kept_key;
static pthread_once_t kept_once = PTHREAD_ONCE_INIT;

static void free_kept(void *blocks) { /* at the end of a thread */
    for (u32 i = 0; i < KEPT; i++) free_aligned(((void **)blocks)[i]);
    free(blocks);
}

static void make_key(void) {
    if (pthread_key_create(&kept_key, free_kept)) fail("there are too many keys of threads");
}

void *kept_memory(u32 which, size_t bytes) {
    pthread_once(&kept_once, make_key);
    void **blocks = pthread_getspecific(kept_key);
    if (blocks == NULL) {
        blocks = calloc(KEPT, sizeof(void *));
        if (blocks == NULL || pthread_setspecific(kept_key, blocks)) fail("out of memory");
    }
    if (blocks[which] == NULL) blocks[which] = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (blocks[which] == NULL) fail("out of memory");
    return blocks[which];
}

/* --- pieces ---------------------------------------------------------------------- */

_Noreturn void fail(const char *message) { /* of debug builds, and of wrong geometry */
    fprintf(stderr, "plugrad-cpu: %s\n", message);
    abort();
}

static u32 begin_of(u32 share, u32 pieces) {
    return (u32)((u64)pieces * share / pool.shares);
}

static void take_pieces(void) {
    u32 pieces = CEIL_DIV(pool.n, pool.grain), n = pool.n, grain = pool.grain;
    for (u32 k = 0; k < pool.shares; k++) {
        u32 share = (me + k) % pool.shares, end = begin_of(share + 1, pieces), i;
        u32 *next = &shares[share].next;
        while ((i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < end)
            pool.body(i * grain, MIN(n - i * grain, grain) + i * grain, pool.ctx);
    }
}

static i64 now(void) { /* ns */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (i64)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Looks at a number until it is not `old`, for SPIN ns at most: to wake a thread that
   sleeps takes as long as many kernels. After POLITE ns it lets others have the processor,
   and ends if one had it, for AWAY ns at least. */
enum { SPIN = 300000, POLITE = 100000, AWAY = 20000 };

static void spin(const u32 *number, u32 old, bool until_equal) {
    i64 start = now(), last = start;
    for (i64 t = start; t - start < SPIN && t - last < AWAY; last = t, t = now()) {
        if (t - start > POLITE) sched_yield();
        for (u32 i = 0; i < 16; i++) {
            if ((__atomic_load_n(number, __ATOMIC_ACQUIRE) == old) == until_equal) return;
#ifdef __x86_64__
            __builtin_ia32_pause();
#endif
        }
    }
}

static void *work(void *number) {
    me = (u32)(uintptr_t)number;
    for (u32 seen = 0;;) {
        spin(&pool.epoch, seen, false);
        pthread_mutex_lock(&pool.lock);
        pool.asleep++;
        while (pool.epoch == seen) pthread_cond_wait(&pool.work, &pool.lock);
        pool.asleep--;
        seen = pool.epoch;
        bool late = pool.body == NULL || me >= pool.shares; /* over, or too short */
        if (!late) pool.inside++;
        pthread_mutex_unlock(&pool.lock);
        if (late) continue;
        take_pieces();
        pthread_mutex_lock(&pool.lock);
        if (--pool.inside == 0) pthread_cond_signal(&pool.done);
        pthread_mutex_unlock(&pool.lock);
    }
    return NULL;
}

static void forget_workers(void) { /* in a child, after a fork */
    pool.started = pool.inside = pool.asleep = 0, pool.body = NULL;
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.done, NULL);
    pthread_mutex_init(&turn, NULL);
}

enum { STACK = 1 << 20 }; /* bytes of a thread at least: with musl it has 128 kB */

static void start_workers(void) {
    static bool known;
    if (pool.started + 1 >= wanted) return;
    if (!known) known = pthread_atfork(NULL, NULL, forget_workers) == 0;
    pthread_attr_t about;
    size_t stack;
    if (pthread_attr_init(&about)) return;
    if (pthread_attr_getstacksize(&about, &stack) == 0 && stack < STACK)
        pthread_attr_setstacksize(&about, STACK);
    for (u32 i = pool.started + 1; known && i < wanted; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &about, work, (void *)(uintptr_t)i)) break;
        pthread_detach(thread);
        pool.started = i;
    }
    pthread_attr_destroy(&about);
}

void parallel_for(void (*body)(u32, u32, void *), void *ctx, u32 n, u32 grain) {
    if (n <= grain || wanted < 2 || pthread_mutex_trylock(&turn)) {
        for (u64 i = 0; i < n; i += grain) body((u32)i, (u32)MIN(n, i + grain), ctx);
        return;
    }
    start_workers();
    pthread_mutex_lock(&pool.lock);
    pool.body = body, pool.ctx = ctx, pool.n = n, pool.grain = grain;
    u32 pieces = CEIL_DIV(n, grain);
    pool.shares = MIN(pool.started + 1, pieces);
    for (u32 i = 0; i < pool.shares; i++) shares[i].next = begin_of(i, pieces);
    __atomic_store_n(&pool.epoch, pool.epoch + 1, __ATOMIC_RELEASE);
    if (pool.asleep) pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    take_pieces();
    spin(&pool.inside, 0, true);
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
