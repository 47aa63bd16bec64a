"""Contracts, kernels, gradients, backends and plugins: what is registered, and how."""
