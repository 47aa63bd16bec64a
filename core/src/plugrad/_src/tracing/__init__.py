"""``jit``: the recorder, the graph, its passes, and the code that replays it."""
