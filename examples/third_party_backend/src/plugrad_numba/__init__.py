"""The plugrad backend "numba"; its entry point names the module ``plugin``."""
