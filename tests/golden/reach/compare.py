"""How the golden cases reach the ops of ``compare``."""

KERNELS = {}

OPS = {}
