"""How the golden cases reach the ops of ``fused``."""

KERNELS = {}

OPS = {}
