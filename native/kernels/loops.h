/* SMALL loops compile to little code on WebAssembly, because browsers download the
   modules, and are vectorized on other targets. */
#pragma once
#include "plugrad.h"

#if !SMALL_CODE
#undef SMALL
#define SMALL
#endif
