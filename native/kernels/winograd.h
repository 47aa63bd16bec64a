/* Convolutions of 3 x 3 by tiles: winograd.c. */
#pragma once
#include "gemm.h"
#include "windows.h"

/* y = finish(conv(x, filter)), so many tiles at once. `between` is workspace for 16 times
   (in + tiles) * out + 16 numbers. On processors, each of so many `lanes` does its tiles
   beside the others; it is for 16 times in * out + lanes * (tiles * (in + out) + 32). */
void winograd(const Windows *w, const f32 *x, const f32 *filter, f32 *y, f32 *between,
              u32 tiles, u32 lanes, const Finish *end);
