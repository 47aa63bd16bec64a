"""Neural networks.

- ``_windows``: layouts and windows, shared by convolutions and pooling.
- ``activation``: activation functions, and ``clip``.
- ``adaptive``: pooling to a number of windows, whatever the size of the input.
- ``alignments``: the probability of labels over all alignments, for ``ctc_loss``.
- ``attention``: attention and rotary embeddings.
- ``block_quantized``: weights of 4 or 8 bits with a scale for each block.
- ``conv``: convolutions and their transposes.
- ``depthwise``: convolutions of each channel by itself.
- ``dilation``: grey-scale dilation.
- ``dropout``: dropout.
- ``fused``: a product or convolution, a bias and an activation in one kernel.
- ``gelu``: the Gaussian error linear unit.
- ``losses``: losses, the namespace ``plugrad.losses``.
- ``norm``: softmax and normalization.
- ``pool``: the maximum or the average of each window.
- ``quantized``: int8 and uint8 convolutions and matrix products.
- ``sequence``: recurrent networks.
"""
