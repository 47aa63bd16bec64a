/* Copying rows of bytes. */
#pragma once
#include "loops.h"

/* Copies n bytes. For short pieces this is faster than memcpy, which may be a call to
   the host on WebAssembly. */
INLINE void copy(u8 *restrict y, const u8 *restrict x, u32 n) {
    INSIDE(x, n);
    INSIDE(y, n);
    if (n >= 1024) {
        memcpy(y, x, n);
        return;
    }
    for (; n >= 64; n -= 64, x += 64, y += 64) {
        v4 a = LOAD(x), b = LOAD(x + 16), c = LOAD(x + 32), d = LOAD(x + 48);
        STORE(y, a), STORE(y + 16, b), STORE(y + 32, c), STORE(y + 48, d);
    }
    for (; n >= 16; n -= 16, x += 16, y += 16) STORE(y, LOAD(x));
    SMALL for (; n >= 4; n -= 4, x += 4, y += 4) memcpy(y, x, 4);
    SMALL for (; n; n--) *y++ = *x++;
}

#if SMALL_CODE
#define OTHER_WIDTHS(DO)
#else
#define OTHER_WIDTHS(DO)                                                                 \
    case 32: DO(32); break;                                                              \
    case 64: DO(64); break;                                                              \
    case 128: DO(128); break;                                                            \
    case 256: DO(256); break;
#endif
/* Calls DO(width) with a constant width for common sizes: the sizes of elements, and of
   a pixel with three channels. */
#define BY_WIDTH(width, DO)                                                              \
    switch (width) {                                                                     \
    case 1: DO(1); break;                                                                \
    case 2: DO(2); break;                                                                \
    case 4: DO(4); break;                                                                \
    case 8: DO(8); break;                                                                \
    case 12: DO(12); break;                                                              \
    case 16: DO(16); break;                                                              \
    OTHER_WIDTHS(DO)                                                                     \
    default: DO(width);                                                                  \
    }
#define COPY(y, x, n)                                                                    \
    (__builtin_constant_p(n) ? (void)memcpy(y, x, n)                                     \
                             : copy((u8 *)(y), (const u8 *)(x), n))
