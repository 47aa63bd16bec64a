"""How the golden cases reach the ops of ``gather``."""

KERNELS = {}

OPS = {}
