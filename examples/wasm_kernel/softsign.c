/* mylib.Softsign: y = x / (scale + |x|), for float32. */
#include "plugrad_kernel.h"

PLUGRAD_KERNEL(softsign) {
    const plugrad_tensor *x = &call->inputs[0];
    if (x->dtype != PLUGRAD_FLOAT32) return PLUGRAD_NOT_IMPLEMENTED;
    float scale = (float)call->attrs[0].values[0];
    if (!(scale > 0)) return "scale must be positive";
    const float *restrict from = x->data;
    float *restrict to = call->outputs[0].data;
    for (uint32_t i = 0; i < x->size; i++)
        to[i] = from[i] / (scale + __builtin_fabsf(from[i]));
    return PLUGRAD_OK;
}
