"""How the golden cases reach the ops of ``depthwise``."""

KERNELS = {}

OPS = {}
