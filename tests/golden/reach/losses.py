"""How the golden cases reach the ops of ``losses``."""

KERNELS = {}

OPS = {}
