"""``Tensor``, its methods and dtypes, nested structures of tensors, argument checks."""
