"""How the golden cases reach the ops of ``conv``."""

KERNELS = {}

OPS = {}
