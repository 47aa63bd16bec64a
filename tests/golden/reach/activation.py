"""How the golden cases reach the ops of ``activation``."""

KERNELS = {}

OPS = {}
