/* A pool for the memory of large NumPy arrays: a data handler (NEP 49).

   The C library returns the memory of each large array to the system. A new array then
   has page faults for all of its pages, which take longer than most kernels. This
   handler caches freed blocks for later arrays. plugrad-cpu sets it in the context in
   which its kernels run, so other NumPy arrays are never allocated from the pool.

   There are eight block sizes per power of two. A freed block is cached in the list of
   its size and in a list by age. It is returned to the C library when the cache exceeds
   its limit, when the block has not been used for `retention_s` seconds, when the
   machine is short of memory, and when an allocation fails.

   NumPy calls a handler with or without the GIL, so one lock guards all lists. */
#include "native.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef _WIN32
#include <windows.h>
static SRWLOCK lock = SRWLOCK_INIT;
#define LOCK() AcquireSRWLockExclusive(&lock)
#define UNLOCK() ReleaseSRWLockExclusive(&lock)
#else
#include <pthread.h>
#include <sys/mman.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#define LOCK() pthread_mutex_lock(&lock)
#define UNLOCK() pthread_mutex_unlock(&lock)
#endif

enum {
    ALIGN = 64,             /* bytes: a cache line, and the widest vectors */
    MIN_BLOCK_LOG = 15,     /* blocks below 32 KiB are not cached */
    CLASSES_PER_OCTAVE = 8, /* block sizes per power of two */
    CLASSES = 48 * CLASSES_PER_OCTAVE,
};
#ifdef __linux__
/* blocks from this size on request huge pages */
static const size_t HUGE_PAGE_MIN_BYTES = (size_t)4 << 20;
#endif

/* The header before the data of every array. */
typedef struct Block {
    void *raw;                     /* the pointer from the C library */
    size_t size;                   /* bytes after the header */
    struct Block *next, *before;   /* free blocks of its size */
    struct Block *older, *newer;   /* free blocks of all sizes, by age */
    int64_t freed;                 /* when, in seconds */
    int32_t class;                 /* size class; -1 for small blocks */
} Block;
_Static_assert(sizeof(Block) <= ALIGN, "the header must fit before the data");

static Block *lists[CLASSES], *oldest, *newest;
static size_t limit, cached, peak_cached, used, peak_used;
static uint64_t hits, misses;
static int64_t retention_s = 10; /* seconds for which an unused block is cached */
static int64_t last_sweep; /* when old blocks were last returned, in seconds */

static void *data_of(Block *block) { return (char *)block + ALIGN; }
static Block *block_of(void *data) { return (Block *)((char *)data - ALIGN); }

/* Returns the smallest size class for `size`, and sets `size` to the block size of this
   class. */
static int class_of(size_t *size) {
    if (*size < (size_t)1 << MIN_BLOCK_LOG) return -1;
    int log = MIN_BLOCK_LOG;
    while (log < 62 && *size > (size_t)2 << log) log++;
    size_t step = ((size_t)1 << log) / CLASSES_PER_OCTAVE, base = (size_t)1 << log;
    size_t part = (*size - base + step - 1) / step; /* 0 to CLASSES_PER_OCTAVE */
    int class = (log - MIN_BLOCK_LOG) * CLASSES_PER_OCTAVE + (int)part;
    if (class >= CLASSES) return -1;
    *size = base + part * step;
    return class;
}

static int64_t now(void) { return (int64_t)time(NULL); }

/* Removes a free block from both lists. The lock must be held. */
static void unlink_block(Block *block) {
    *(block->before ? &block->before->next : &lists[block->class]) = block->next;
    if (block->next != NULL) block->next->before = block->before;
    *(block->older ? &block->older->newer : &oldest) = block->newer;
    *(block->newer ? &block->newer->older : &newest) = block->older;
    cached -= block->size;
}

/* Returns free blocks to the C library, the oldest first: all blocks that were freed
   before `since`, and then more until at most `max_bytes` are cached. The lock must be
   held. */
static void trim(size_t max_bytes, int64_t since) {
    while (oldest != NULL && (cached > max_bytes || oldest->freed < since)) {
        Block *block = oldest;
        unlink_block(block);
        free(block->raw);
    }
}

/* Returns whether less than a sixteenth of the machine's memory is available. */
static bool is_short_of_memory(void) {
    bool found = false;
#ifdef __linux__
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    unsigned long long kib, total = 0, available = 0;
    while (file != NULL && available == 0 && fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemTotal: %llu", &kib) == 1) total = kib;
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1) available = kib;
    }
    if (file != NULL) fclose(file);
    found = available != 0 && available < total / 16;
#endif
    return found;
}

/* Returns old blocks, or all blocks if memory is short, to the C library; at most once
   a second. The lock must be held. */
static void sweep(int64_t time) {
    if (time == last_sweep) return;
    last_sweep = time;
    trim(is_short_of_memory() ? 0 : limit, time - retention_s);
}

/* Allocates a block that is never cached, aligned as by malloc. This must be fast. */
static inline Block *small_block(size_t size) {
    Block *block = malloc(size + ALIGN);
    if (block != NULL) block->raw = block, block->size = size, block->class = -1;
    return block;
}

static Block *new_block(size_t size, int class) {
    if (size > SIZE_MAX - 2 * ALIGN) return NULL;
    void *raw = malloc(size + 2 * ALIGN);
    if (raw == NULL) return NULL;
    Block *block = (Block *)(((uintptr_t)raw + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
    *block = (Block){.raw = raw, .size = size, .class = class};
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (size >= HUGE_PAGE_MIN_BYTES) {
        uintptr_t begin = ((uintptr_t)raw + 4095) & ~(uintptr_t)4095;
        uintptr_t end = ((uintptr_t)raw + size) & ~(uintptr_t)4095;
        madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* only a hint */
    }
#endif
    return block;
}

/* Returns a block, and whether its memory has been used before. */
static Block *take_block(size_t size, bool *reused) {
    int class = class_of(&size);
    *reused = false;
    if (class < 0) return new_block(size, class);
    LOCK();
    Block *block = lists[class];
    if (block != NULL) unlink_block(block);
    *(block ? &hits : &misses) += 1;
    UNLOCK();
    *reused = block != NULL;
    if (block == NULL) block = new_block(size, class);
    if (block == NULL) { /* out of memory: empty the cache and retry */
        LOCK();
        trim(0, 0);
        UNLOCK();
        block = new_block(size, class);
    }
    if (block == NULL) return NULL;
    LOCK();
    used += block->size;
    if (used > peak_used) peak_used = used;
    UNLOCK();
    return block;
}

/* --- the handler ----------------------------------------------------------------- */

static void *pool_malloc(void *ctx, size_t size) {
    bool reused;
    (void)ctx;
    if (size < (size_t)1 << MIN_BLOCK_LOG) {
        Block *small = small_block(size);
        return small ? data_of(small) : NULL;
    }
    Block *block = take_block(size, &reused);
    return block ? data_of(block) : NULL;
}

static void *pool_calloc(void *ctx, size_t count, size_t each) {
    bool reused;
    (void)ctx;
    if (each != 0 && count > SIZE_MAX / each) return NULL;
    Block *block = take_block(count * each, &reused);
    return block ? memset(data_of(block), 0, count * each) : NULL;
}

static void pool_free(void *ctx, void *data, size_t size) {
    (void)ctx, (void)size; /* the size is in the header */
    if (data == NULL) return;
    Block *block = block_of(data);
    if (block->class < 0) {
        free(block->raw);
        return;
    }
    LOCK();
    used -= block->size;
    if (block->size > limit) {
        UNLOCK();
        free(block->raw);
        return;
    }
    block->freed = now();
    block->next = lists[block->class], block->before = NULL;
    if (block->next != NULL) block->next->before = block;
    lists[block->class] = block;
    block->older = newest, block->newer = NULL;
    *(newest ? &newest->newer : &oldest) = block;
    newest = block;
    cached += block->size;
    trim(limit, 0);
    if (cached > peak_cached) peak_cached = cached;
    sweep(block->freed);
    UNLOCK();
}

static void *pool_realloc(void *ctx, void *data, size_t size) {
    void *new = pool_malloc(ctx, size);
    if (new == NULL || data == NULL) return new;
    size_t old_size = block_of(data)->size;
    memcpy(new, data, old_size < size ? old_size : size);
    pool_free(ctx, data, old_size);
    return new;
}

static PyDataMem_Handler handler = {
    "plugrad_cpu_pool", 1, {NULL, pool_malloc, pool_calloc, pool_realloc, pool_free}};

/* --- the module ------------------------------------------------------------------ */

static PyObject *capsule; /* NumPy stores it with each array */

static PyObject *use_pool(PyObject *self, PyObject *args) {
    Py_ssize_t wanted;
    long long seconds = 10;
    if (!PyArg_ParseTuple(args, "n|L", &wanted, &seconds)) return NULL;
    LOCK();
    limit = (size_t)wanted, retention_s = seconds;
    trim(limit, 0);
    UNLOCK();
    PyObject *before = PyDataMem_SetHandler(capsule);
    Py_XDECREF(before);
    return before ? Py_NewRef(Py_None) : NULL;
}

int enter_pool(PyObject **before) {
    LOCK();
    bool used = limit != 0;
    UNLOCK();
    *before = used ? PyDataMem_SetHandler(capsule) : NULL;
    return used && *before == NULL ? -1 : 0;
}

void leave_pool(PyObject *before) {
    PyObject *pool_handler = PyDataMem_SetHandler(before);
    Py_XDECREF(pool_handler);
    Py_DECREF(before);
}

static PyObject *release_pool(PyObject *self, PyObject *none) {
    LOCK();
    trim(0, 0);
    UNLOCK();
    Py_RETURN_NONE;
}

static PyObject *pool_statistics(PyObject *self, PyObject *none) {
    LOCK();
    size_t numbers[] = {used, peak_used, cached, peak_cached, limit};
    uint64_t counts[] = {hits, misses};
    UNLOCK();
    return Py_BuildValue("{sn sn sn sn sn sK sK}", "used", numbers[0], "most_used",
                         numbers[1], "kept", numbers[2], "most_kept", numbers[3], "limit",
                         numbers[4], "hits", (unsigned long long)counts[0], "misses",
                         (unsigned long long)counts[1]);
}

PyMethodDef pool_methods[] = {
    {"use_pool", use_pool, METH_VARARGS,
     "use_pool(limit, seconds=10): cache the memory of arrays that this context "
     "allocates, up to `limit` bytes, and each block for `seconds` without use."},
    {"release_pool", release_pool, METH_NOARGS,
     "Return all cached memory to the system."},
    {"pool_statistics", pool_statistics, METH_NOARGS,
     "Return the bytes in use and cached, the peaks of both, and how often a cached "
     "block was found."},
    {NULL, NULL, 0, NULL},
};

#ifndef _WIN32
static void before_fork(void) { LOCK(); }
static void after_fork(void) { UNLOCK(); }
#endif

int start_pool(void) {
    if (capsule != NULL) return 0; /* the module is imported again */
#ifndef _WIN32
    if (pthread_atfork(before_fork, after_fork, after_fork) != 0) {
        PyErr_NoMemory();
        return -1;
    }
#endif
    capsule = PyCapsule_New(&handler, "mem_handler", NULL);
    return capsule ? 0 : -1;
}
