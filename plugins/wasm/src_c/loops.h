/* What is small on WebAssembly, whose module is sent to browsers, and fast elsewhere. */
#pragma once
#include "plugrad.h"

#ifndef __wasm__
#undef SMALL
#define SMALL
#endif
