"""How the golden cases reach the ops of ``slicing``."""

KERNELS = {}

OPS = {}
