"""How the golden cases reach the ops of ``pool``."""

KERNELS = {}

OPS = {}
