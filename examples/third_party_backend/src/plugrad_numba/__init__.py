"""The backend "numba" of plugrad; its entry point names ``plugin``."""
