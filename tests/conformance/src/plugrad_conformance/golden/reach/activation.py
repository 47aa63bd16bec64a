"""How the golden cases reach the ops of ``activation``."""

import plugrad as pg


def clip(x, clipValueMin, clipValueMax):
    """Map both the kernel and the op, which take the same arguments."""
    return pg.clip(x, clipValueMin, clipValueMax)


def leaky_relu(x, alpha=0.2):
    """Map both the kernel and the op, which take the same arguments."""
    return pg.leaky_relu(x, alpha=alpha)


def step(x, alpha=0.0):
    """Map both the kernel and the op, which take the same arguments."""
    return pg.step(x, alpha=alpha)


KERNELS = {
    "ClipByValue": clip,
    "Elu": lambda x: pg.elu(x),
    "EluGrad": lambda dy, y: pg.run_kernel("EluGrad", [dy, y], {}),
    "LeakyRelu": leaky_relu,
    "Prelu": lambda x, alpha: pg.prelu(x, alpha),
    "Relu": lambda x: pg.relu(x),
    "Relu6": lambda x: pg.relu6(x),
    "Selu": lambda x: pg.selu(x),
    "Sigmoid": lambda x: pg.sigmoid(x),
    "Softplus": lambda x: pg.softplus(x),
    "Step": step,
}

OPS = {
    "clipByValue": clip,
    "elu": pg.elu,
    "leakyRelu": leaky_relu,
    "logSigmoid": pg.log_sigmoid,
    "prelu": pg.prelu,
    "selu": pg.selu,
    "sigmoid": pg.sigmoid,
    "step": step,
}
