"""``Tensor``, its methods and dtypes, trees, argument checks."""
