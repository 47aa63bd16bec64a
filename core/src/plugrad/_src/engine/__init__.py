"""The engine: run a kernel on the active backend, and record it on tapes."""
