"""How the golden cases reach the ops of ``reduce``."""

KERNELS = {}

OPS = {}
