"""How the golden cases reach the ops of ``shape``."""

KERNELS = {}

OPS = {}
