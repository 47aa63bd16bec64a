"""Tools that inspect the engine from outside; each is imported when first called."""
