"""Losses: compositions of other ops; no kernels."""
