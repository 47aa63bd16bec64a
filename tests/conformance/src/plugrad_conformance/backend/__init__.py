"""What is asked of the backend itself: arrays, primitives, life, leaks, processes."""
