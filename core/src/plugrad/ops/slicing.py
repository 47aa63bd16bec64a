"""Parts of tensors, padding, and indexing."""
