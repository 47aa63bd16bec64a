"""How the golden cases reach the ops of ``slicing``."""

import plugrad as pg

KERNELS = {
    "MirrorPad": lambda x, paddings, mode: pg.pad(x, paddings, mode=mode),
    "PadV2": lambda x, paddings, constantValue=0: pg.pad(
        x, paddings, constant_values=constantValue
    ),
    "Slice": lambda x, begin, size=None: pg.slice(x, begin, size),
    "StridedSlice": lambda x, begin, end, strides, **masks: pg.strided_slice(
        x,
        begin,
        end,
        strides,
        begin_mask=masks["beginMask"],
        end_mask=masks["endMask"],
        ellipsis_mask=masks["ellipsisMask"],
        new_axis_mask=masks["newAxisMask"],
        shrink_axis_mask=masks["shrinkAxisMask"],
    ),
}

OPS = {
    "mirrorPad": lambda x, paddings, mode: pg.pad(x, paddings, mode=mode),
    "pad": lambda x, paddings: pg.pad(x, paddings),
    "slice": pg.slice,
    "slice2d": pg.slice,
    "stridedSlice": pg.strided_slice,
}
