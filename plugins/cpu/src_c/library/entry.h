/* Entry points, through which Python calls the kernels.

   A kernel is a `void` function of addresses, u32 and f64. compile_kernels.py adds an
   ENTRY for each kernel after the source that defines it. There the C compiler knows
   the prototype: it compiles the call for the calling convention of the platform, and
   rejects an entry that does not match. The library exports the entry of softmax_f32,
   for example, as `entry_softmax_f32`.

   A kernel is not inlined into its entry. An inlined kernel would load two addresses
   with one instruction, which stalls until both are in the cache. */
#pragma once
#include <stdint.h>

enum { MAX_ARGUMENTS = 16 };

typedef union {
    void *address;   /* kind 'p' */
    uint32_t count;  /* kind 'u' */
    double number;   /* kind 'd' */
} Argument;

typedef struct {
    const char *name, *prototype;
    void (*call)(const Argument *a);
    char kinds[MAX_ARGUMENTS + 1]; /* one letter per argument, such as "ppud" */
} Entry;

#define ENTRY(NAME, PROTOTYPE, KINDS, ...)                                               \
    static void call_##NAME(const Argument *a) { [[clang::noinline]] NAME(__VA_ARGS__); }\
    _Static_assert(sizeof KINDS <= MAX_ARGUMENTS + 1, #NAME " has too many arguments");  \
    __attribute__((used, visibility("default"))) const Entry entry_##NAME = {            \
        #NAME, PROTOTYPE, call_##NAME, KINDS};
