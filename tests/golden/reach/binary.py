"""How the golden cases reach the ops of ``binary``."""

KERNELS = {}

OPS = {}
