/* Calls kernels of a library with the arguments that a file has, and writes what their
   arrays hold afterwards: `replay library calls results`. See arm64.py for the format.

   An array ends before a page that must not be touched. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { INTS = 16, DOUBLES = 4, ARRAYS = INTS, NAME = 64 };
typedef uint64_t U;
/* As in plugins/cpu/src_c/call.c: one call suits every kernel. */
typedef void Kernel(U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, double, double,
                    double, double);

static void stop(const char *what, const char *name) {
    fprintf(stderr, "replay: %s %s\n", what, name);
    exit(1);
}

static void get(void *to, size_t bytes, FILE *file) {
    if (fread(to, 1, bytes, file) != bytes) stop("the file ends in a call", "");
}

typedef struct {
    unsigned char *data, *pages, *first; /* the memory, and the first element in it */
    U bytes, mapped;
} Array;

static Array read_array(FILE *file) {
    Array a;
    U first;
    get(&a.bytes, 8, file);
    get(&first, 8, file);
    U page = 4096 * 16; /* the largest that arm64 has */
    a.mapped = (a.bytes + page - 1) / page * page + page;
    a.pages = mmap(NULL, a.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    if (a.pages == MAP_FAILED) stop("no memory", "");
    if (mprotect(a.pages + a.mapped - page, page, PROT_NONE)) stop("no guard page", "");
    a.data = a.pages + a.mapped - page - a.bytes;
    a.first = a.data + first;
    get(a.data, a.bytes, file);
    return a;
}

static void run(void *library, const char *name, FILE *calls, FILE *results) {
    uint32_t count;
    U n[INTS] = {0}, ints = 0, arrays = 0;
    double d[DOUBLES] = {0};
    Array known[ARRAYS];
    Kernel *kernel = (Kernel *)dlsym(library, name);
    if (kernel == NULL) stop("the library has no", name);
    get(&count, 4, calls);
    for (U doubles = 0; count > 0; count--) {
        char kind;
        U number;
        get(&kind, 1, calls);
        if (kind == 'd' ? doubles == DOUBLES : ints == INTS) stop("too many arguments for", name);
        if (kind == 'd') {
            get(&d[doubles++], 8, calls);
        } else if (kind == 'i') {
            get(&n[ints++], 8, calls);
        } else if (kind == 's') { /* an array that the call has already */
            get(&number, 8, calls);
            n[ints++] = (U)(uintptr_t)known[number].first;
        } else {
            known[arrays] = read_array(calls);
            n[ints++] = (U)(uintptr_t)known[arrays++].first;
        }
    }
    kernel(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11], n[12],
           n[13], n[14], n[15], d[0], d[1], d[2], d[3]);
    for (U i = 0; i < arrays; i++) {
        if (fwrite(known[i].data, 1, known[i].bytes, results) != known[i].bytes)
            stop("cannot write the results of", name);
        munmap(known[i].pages, known[i].mapped);
    }
}

int main(int count, char **words) {
    if (count != 4) stop("usage: replay library calls results", "");
    void *library = dlopen(words[1], RTLD_NOW);
    if (library == NULL) stop("cannot open the library:", dlerror());
    FILE *calls = fopen(words[2], "rb"), *results = fopen(words[3], "wb");
    if (calls == NULL || results == NULL) stop("cannot open", words[2]);
    char name[NAME];
    while (fread(name, 1, NAME, calls) == NAME) run(library, name, calls, results);
    return fclose(results) != 0;
}
