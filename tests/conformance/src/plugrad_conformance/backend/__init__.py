"""Tests of the backend itself: arrays, primitives, life cycle, leaks, processes."""
