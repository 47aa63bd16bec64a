"""How the golden cases reach the ops of ``creation``."""

KERNELS = {}

OPS = {}
