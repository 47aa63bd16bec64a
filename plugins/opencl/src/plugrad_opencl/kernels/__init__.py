"""Kernels by family, under the same file names as the ops of the core."""

from plugrad.plugin import KernelTable

from ..recorded import by_shape

# Those whose Python takes longer than a launch. What only makes a view, or what is
# element-wise and has a short way of its own, is not here.
_PRODUCTS = (  # by precision, too
    "BatchMatMul _FusedMatMul",
    "Conv2D Conv2DBackpropFilter Conv2DBackpropInput FusedConv2D",
    "Conv3D Conv3DBackpropFilterV2 Conv3DBackpropInputV2",
)
_OTHERS = (
    "DepthwiseConv2dNative FusedDepthwiseConv2D",
    "DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput",
    "AvgPool AvgPoolGrad MaxPool MaxPoolGrad",
    "AvgPool3D AvgPool3DGrad MaxPool3D MaxPool3DGrad",
    "Max Mean Min Sum",
    "Softmax plugrad_opencl.SoftmaxGrad LogSoftmax plugrad_opencl.LogSoftmaxGrad",
    "LayerNorm LayerNormGrad FusedBatchNorm",
    "BroadcastTo Concat Pack Transpose",
)

KERNELS = KernelTable.collect(__name__)
for _name in " ".join(_PRODUCTS).split():
    KERNELS[_name] = by_shape(KERNELS[_name], by_precision=True)
for _name in " ".join(_OTHERS).split():
    KERNELS[_name] = by_shape(KERNELS[_name])
