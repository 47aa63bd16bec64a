"""Neural networks.

- ``_windows``: layouts and windows, shared by convolutions and pooling.
- ``activation``: activation functions, and ``clip``.
- ``adaptive``: pooling to a fixed number of windows for any input size.
- ``alignments``: the probability of labels, summed over alignments, for ``ctc_loss``.
- ``attention``: attention and rotary embeddings.
- ``block_quantized``: 4-bit and 8-bit weights with a scale for each block.
- ``conv``: convolutions and their transposes.
- ``depthwise``: depthwise convolutions: each channel has its own filters.
- ``dilation``: grayscale dilation.
- ``dropout``: dropout.
- ``fused``: a product or convolution, a bias and an activation in one kernel.
- ``gelu``: the Gaussian error linear unit.
- ``losses``: losses, the namespace ``plugrad.losses``.
- ``norm``: normalization.
- ``pool``: the maximum or the average of each window.
- ``quantized``: int8 and uint8 convolutions and matrix products.
- ``sequence``: recurrent networks.
- ``softmax``: ``softmax`` and its logarithm.
"""
