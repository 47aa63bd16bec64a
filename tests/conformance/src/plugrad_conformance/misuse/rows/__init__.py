"""One small valid call of each kernel, by family, with attributes in a user's form."""
