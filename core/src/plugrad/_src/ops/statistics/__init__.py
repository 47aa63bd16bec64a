"""Statistics of tensors and of samples.

- ``samples``: covariances and histograms.
- ``statistics``: mean, variance, and the logarithm of a sum of powers of e.
"""
