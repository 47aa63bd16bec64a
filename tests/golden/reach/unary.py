"""How the golden cases reach the ops of ``unary``."""

KERNELS = {}

OPS = {}
