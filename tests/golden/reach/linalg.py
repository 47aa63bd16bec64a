"""How the golden cases reach the ops of ``linalg``."""

KERNELS = {}

OPS = {}
