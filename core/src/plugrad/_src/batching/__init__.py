"""``vmap``, and the batching rules of the core's kernels."""
