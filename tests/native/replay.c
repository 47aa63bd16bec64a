/* Calls kernels of a library with the arguments from a file, and writes the contents of
   their arrays afterwards: `replay library calls results`. See replayed.py for the format.

   Each array ends at a guard page, which a program can neither read nor write. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"

enum { NAME = 64, PAGE = 4096 * 16 }; /* the largest page that arm64 has */
typedef uint64_t u64;

#ifdef _WIN32
#include <windows.h>
static void *load(const char *path) { return (void *)LoadLibraryA(path); }
static void *find(void *library, const char *name) {
    return (void *)(uintptr_t)GetProcAddress((HMODULE)library, name);
}
static void *new_pages(u64 bytes) {
    return VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}
static int guard(void *page) {
    DWORD before;
    return !VirtualProtect(page, PAGE, PAGE_NOACCESS, &before);
}
static void free_pages(void *pages, u64 bytes) { VirtualFree(pages, 0, MEM_RELEASE); }
#else
#include <dlfcn.h>
#include <sys/mman.h>
static void *load(const char *path) { return dlopen(path, RTLD_NOW); }
static void *find(void *library, const char *name) { return dlsym(library, name); }
static void *new_pages(u64 bytes) {
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}
static int guard(void *page) { return mprotect(page, PAGE, PROT_NONE); }
static void free_pages(void *pages, u64 bytes) { munmap(pages, bytes); }
#endif

static void stop(const char *what, const char *name) {
    fprintf(stderr, "replay: %s %s\n", what, name);
    exit(1);
}

static void read_bytes(void *buffer, size_t bytes, FILE *file) {
    if (fread(buffer, 1, bytes, file) != bytes) stop("the file ends within a call", "");
}

typedef struct {
    unsigned char *data, *pages, *first; /* the memory, and the first element in it */
    u64 bytes, mapped;
} Array;

static Array read_array(FILE *file) {
    Array a;
    u64 first;
    read_bytes(&a.bytes, 8, file);
    read_bytes(&first, 8, file);
    a.mapped = (a.bytes + PAGE - 1) / PAGE * PAGE + PAGE;
    a.pages = new_pages(a.mapped);
    if (a.pages == NULL) stop("no memory", "");
    if (guard(a.pages + a.mapped - PAGE)) stop("no guard page", "");
    a.data = a.pages + a.mapped - PAGE - a.bytes;
    a.first = a.data + first;
    read_bytes(a.data, a.bytes, file);
    return a;
}

static void run(void *library, const char *name, FILE *calls, FILE *results) {
    uint32_t count;
    u64 arrays = 0;
    Array known[MAX_ARGUMENTS];
    Argument a[MAX_ARGUMENTS];
    char symbol[NAME + 8];
    snprintf(symbol, sizeof symbol, "entry_%s", name);
    const Entry *entry = find(library, symbol);
    if (entry == NULL) stop("the library has no", symbol);
    read_bytes(&count, 4, calls);
    if (count != strlen(entry->kinds)) stop("wrong number of arguments for", entry->prototype);
    for (u64 k = 0; k < count; k++) {
        char kind;
        u64 number = 0;
        read_bytes(&kind, 1, calls);
        if (kind != 'a') read_bytes(&number, 8, calls);
        if (kind == 'a') known[arrays] = read_array(calls);
        if (kind == 'd')
            memcpy(&a[k].number, &number, 8);
        else if (kind == 'a')
            a[k].address = known[arrays++].first;
        else if (kind == 's') /* the same as an earlier array of this call */
            a[k].address = known[number].first;
        else if (entry->kinds[k] == 'u')
            a[k].count = (uint32_t)number;
        else
            a[k].address = NULL;
    }
    entry->call(a);
    for (u64 i = 0; i < arrays; i++) {
        if (fwrite(known[i].data, 1, known[i].bytes, results) != known[i].bytes)
            stop("cannot write the results of", name);
        free_pages(known[i].pages, known[i].mapped);
    }
}

int main(int count, char **words) {
    if (count != 4) stop("usage: replay library calls results", "");
    void *library = load(words[1]);
    if (library == NULL) stop("cannot open the library", words[1]);
    FILE *calls = fopen(words[2], "rb"), *results = fopen(words[3], "wb");
    if (calls == NULL || results == NULL) stop("cannot open", words[2]);
    char name[NAME];
    while (fread(name, 1, NAME, calls) == NAME) run(library, name, calls, results);
    return fclose(results) != 0;
}
