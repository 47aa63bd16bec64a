/* SMALL loops are small on WebAssembly, whose modules browsers download, and vectorized
   on other targets. */
#pragma once
#include "plugrad.h"

#if !SMALL_CODE
#undef SMALL
#define SMALL
#endif
