"""Statistics of tensors and of samples.

- ``samples``: covariances and histograms.
- ``statistics``: variance, standard deviation, moments and ``logsumexp``.
"""
