"""Entry-point modules that tests install, and a program that lists plugin phases."""

GOOD = """
from plugrad.plugin import Backend, KernelPack, GradientPack, Kernel, Runtime, hookimpl

SWISH = Kernel("mylib.Swish(x)", out=lambda x: x)

def open_toy():
    import numpy as np
    from plugrad_cpu.arrays import NumpyArrays
    return Runtime(arrays=NumpyArrays(), kernels={"Add": np.add})

@hookimpl
def plugrad_backends():
    return [Backend("toy", open=open_toy, priority=-5)]

@hookimpl
def plugrad_kernels():
    swish = {"mylib.Swish": lambda x: x / 2}
    return [KernelPack("cpu", open=lambda: swish, contracts=[SWISH])]

@hookimpl
def plugrad_gradients():
    return [GradientPack("twice", open=lambda: {"Exp": {"x": lambda dy: dy * 2}})]
"""
CLAIMS_CPU = """
from plugrad.plugin import Backend, hookimpl

@hookimpl
def plugrad_backends():
    return [Backend("cpu", open=lambda: 1 / 0, priority=99)]
"""
MISSPELT = """
from plugrad.plugin import hookimpl

@hookimpl
def plugrad_backend():
    return []
"""


PHASES = """
    import plugrad as pg
    from plugrad._src.registry.registry import registry
    pg.set_backend("cpu")
    for p in sorted(registry.plugins, key=lambda p: p.distribution):
        print(p.distribution, p.phase, p.reason)
"""
