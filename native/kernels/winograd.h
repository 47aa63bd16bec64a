/* 3 x 3 convolutions by Winograd's algorithm: winograd.c. */
#pragma once
#include "gemm.h"
#include "windows.h"

/* y = epilogue(conv(x, filter)), computed `tiles` tiles at a time. `between` is workspace
   of 16 ((in + tiles) out + 16) numbers. On native targets `lanes` threads compute
   different tiles, and the workspace is 16 (in out + lanes (tiles (in + out) + 32))
   numbers. */
void winograd(const Windows *w, const f32 *x, const f32 *filter, f32 *y, f32 *between,
              u32 tiles, u32 lanes, const Epilogue *epilogue);
