"""Kernels by family, under the same file names as the ops of the core."""

from plugrad.plugin import KernelTable

from ..recorded import by_shape

# Kernels whose Python code takes longer than a launch are recorded. This list omits
# kernels that only return views, and element-wise kernels, which have a shortcut.
_PRODUCTS = (  # recorded separately for each precision
    "BatchMatMul MixedMatMul _FusedMatMul",
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
    "LayerNorm LayerNormGrad RMSNorm FusedBatchNorm",
    "Attention AttentionGrad RotaryEmbedding",
    "BroadcastTo Concat Pack Transpose",
    "BlockQuantizedMatMul DequantizeBlocks",
)

KERNELS = KernelTable.collect(__name__)
for _name in " ".join(_PRODUCTS).split():
    KERNELS[_name] = by_shape(KERNELS[_name], by_precision=True)
for _name in " ".join(_OTHERS).split():
    KERNELS[_name] = by_shape(KERNELS[_name])
