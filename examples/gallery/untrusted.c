/* gallery.Untrusted: a kernel that misbehaves in the way that `harm` selects. */
#include "plugrad_kernel.h"

static volatile float sink;

static float recurse(float x, uint32_t depth) {
    volatile float frame[64] = {x};
    return recurse(frame[depth % 64] + 1, depth + 1) + frame[0];
}

PLUGRAD_KERNEL(untrusted) {
    const plugrad_tensor *x = &call->inputs[0];
    if (x->dtype != PLUGRAD_FLOAT32) return PLUGRAD_NOT_IMPLEMENTED;
    const float *from = x->data;
    float *to = call->outputs[0].data;
    for (uint32_t i = 0; i < x->size; i++) to[i] = 2 * from[i];
    switch ((int)call->attrs[0].values[0]) {
    case 1: /* it never ends */
        for (;;) sink += 1;
    case 2: /* it reads far beyond its memory */
        sink = *(volatile float *)0xfffffff0u;
        break;
    case 3: /* it writes far beyond its memory */
        *(volatile float *)0xfffffff0u = 1;
        break;
    case 4: /* it recurses without end */
        sink = recurse(from[0], 0);
        break;
    case 5: /* it traps */
        __builtin_trap();
    }
    return PLUGRAD_OK;
}
