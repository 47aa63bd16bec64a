"""Tests of the opencl backend itself."""
