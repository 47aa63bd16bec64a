"""Softmax and normalization."""
