"""Tools that look at the engine from outside; imported only when one is called."""
