"""One right call of each kernel, by family: small, with attributes as a user's."""
