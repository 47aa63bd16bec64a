/* What is small on WebAssembly, whose module is sent to browsers, and fast elsewhere. */
#pragma once
#include "plugrad.h"

#if !SMALL_CODE
#undef SMALL
#define SMALL
#endif
