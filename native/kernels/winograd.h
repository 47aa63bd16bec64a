/* 3 x 3 convolutions by Winograd's algorithm: see winograd.c. */
#pragma once
#include "gemm.h"
#include "windows.h"

/* Computes y = epilogue(conv(x, filter)), `tiles` tiles at a time. `scratch` is a
   workspace of 16 ((in + tiles) out + 16) elements. On native targets, `lanes` threads
   compute different tiles, and the workspace has 16 (in out + lanes (tiles (in + out) +
   32)) elements. */
void winograd(const Windows *w, const f32 *x, const f32 *filter, f32 *y, f32 *scratch,
              u32 tiles, u32 lanes, const Epilogue *epilogue);
