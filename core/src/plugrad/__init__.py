"""plugrad: tensors whose every backend, kernel and gradient is a plugin."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import autodiff, ops
from ._public import publish
from .autodiff.reverse import *
from .engine import accelerated
from .engine import control as _control
from .engine import overrides as _overrides
from .engine.control import *
from .engine.overrides import *
from .ops._convert import *
from .ops._processes import _restored as _restored
from .ops._processes import _restored_variable as _restored_variable
from .ops.activation import *
from .ops.adaptive import *
from .ops.binary import *
from .ops.blocks import *
from .ops.by_name import *
from .ops.compare import *
from .ops.complexes import *
from .ops.conv import *
from .ops.creation import *
from .ops.cumulative import *
from .ops.custom import *
from .ops.depthwise import *
from .ops.dilation import *
from .ops.dropout import dropout as dropout
from .ops.einsum import *
from .ops.error_functions import *
from .ops.extremes import *
from .ops.gather import *
from .ops.gelu import *
from .ops.grids import *
from .ops.indexing import *
from .ops.integers import *
from .ops.matrix import *
from .ops.namespace import *
from .ops.nans import *
from .ops.norm import *
from .ops.pool import *
from .ops.products import *
from .ops.ranges import *
from .ops.rearrange import *
from .ops.reduce import *
from .ops.samples import *
from .ops.scatter import *
from .ops.search import *
from .ops.search import UniqueAll as UniqueAll
from .ops.search import UniqueCounts as UniqueCounts
from .ops.search import UniqueInverse as UniqueInverse
from .ops.sequence import *
from .ops.shape import *
from .ops.signs import *
from .ops.slicing import *
from .ops.sorting import *
from .ops.special import *
from .ops.statistics import *
from .ops.trigonometry import *
from .ops.unary import *
from .ops.variable import *
from .registry.backend import BackendUnavailable as BackendUnavailable
from .registry.contract import BackendError as BackendError
from .registry.contract import GradientNotFound as GradientNotFound
from .registry.contract import KernelNotFound as KernelNotFound
from .registry.deprecation import PlugradDeprecationWarning as PlugradDeprecationWarning
from .registry.gradients import PackInfo as PackInfo
from .tensor.dtypes import STRING as string
from .tensor.tensor import Tensor as Tensor
from .tensor.tensor import TensorLike as TensorLike

__version__: str

if TYPE_CHECKING:
    from . import fft as fft
    from . import fused as fused
    from . import image as image
    from . import linalg as linalg
    from . import losses as losses
    from . import quantized as quantized
    from . import random as random
    from . import signal as signal
    from . import sparse as sparse
    from . import strings as strings
    from . import tree as tree
    from .autodiff.jacobian import hessian as hessian
    from .autodiff.jacobian import jacobian as jacobian
    from .batching.vmap import vmap as vmap
    from .tools.budget import Budget as Budget
    from .tools.budget import BudgetError as BudgetError
    from .tools.debug import check_gradients as check_gradients
    from .tools.debug import debug as debug
    from .tools.explain import explain as explain
    from .tools.interchange import from_dlpack as from_dlpack
    from .tools.io import load as load
    from .tools.io import save as save
    from .tools.memory import dispose as dispose
    from .tools.memory import keep as keep
    from .tools.memory import memory as memory
    from .tools.memory import tidy as tidy
    from .tools.profile import profile as profile
    from .tools.state import EngineState as EngineState
    from .tools.timing import time as time
    from .tracing.checking import StaleReplay as StaleReplay
    from .tracing.jit import jit as jit

# What most programs do not use -> the module, which is imported at its first use.
_NAMESPACES = "fft fused image linalg losses quantized random signal"
_NAMESPACES += " sparse strings tree"
_LATER = {
    "Budget": "tools.budget",
    "BudgetError": "tools.budget",
    "EngineState": "tools.state",
    "StaleReplay": "tracing.checking",
    "check_gradients": "tools.debug",
    "debug": "tools.debug",
    "dispose": "tools.memory",
    "explain": "tools.explain",
    "from_dlpack": "tools.interchange",
    "hessian": "autodiff.jacobian",
    "jacobian": "autodiff.jacobian",
    "jit": "tracing.jit",
    "keep": "tools.memory",
    "load": "tools.io",
    "memory": "tools.memory",
    "profile": "tools.profile",
    "save": "tools.io",
    "tidy": "tools.memory",
    "time": "tools.timing",
    "vmap": "batching.vmap",
}


if not TYPE_CHECKING:  # or else type checkers would accept every name

    def __getattr__(name: str) -> Any:
        """Return what is imported at its first use, or the version."""
        if name in _NAMESPACES.split():
            return import_module(f".{name}", __name__)
        if name == "__version__":
            discovery = import_module(".registry.discovery", __name__)
            value = discovery.version("plugrad") or "unknown"
        elif name in _LATER:
            value = getattr(import_module(f".{_LATER[name]}", __name__), name)
        elif name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        else:
            names = import_module(".tools.names", __name__)
            raise AttributeError(names.missing(name, __all__))
        publish({"__name__": __name__, name: value})
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted([*__all__, "__version__"])  # for completion


publish(globals())
accelerated.start()
del globals()["tensor"]  # the package: pg.tensor is answered with pg.asarray

if not TYPE_CHECKING:  # mypy reads literal lists only; star imports are public to it
    __all__ = [
        "BackendError",
        "BackendUnavailable",
        "Budget",
        "BudgetError",
        "GradientNotFound",
        "KernelNotFound",
        "PlugradDeprecationWarning",
        "StaleReplay",
        "Tensor",
        "TensorLike",
        "check_gradients",
        "debug",
        "dispose",
        "dropout",
        "explain",
        "fft",
        "from_dlpack",
        "fused",
        "hessian",
        "image",
        "jacobian",
        "jit",
        "keep",
        "linalg",
        "load",
        "losses",
        "memory",
        "profile",
        "quantized",
        "random",
        "save",
        "signal",
        "sparse",
        "string",
        "strings",
        "tidy",
        "time",
        "tree",
        "vmap",
    ]
    __all__ += autodiff.reverse.__all__
    __all__ += _control.__all__ + _overrides.__all__
    __all__ += ops._convert.__all__
    __all__ += ops.activation.__all__
    __all__ += ops.adaptive.__all__
    __all__ += ops.binary.__all__
    __all__ += ops.blocks.__all__
    __all__ += ops.by_name.__all__
    __all__ += ops.compare.__all__
    __all__ += ops.complexes.__all__
    __all__ += ops.conv.__all__
    __all__ += ops.creation.__all__
    __all__ += ops.cumulative.__all__
    __all__ += ops.custom.__all__
    __all__ += ops.depthwise.__all__
    __all__ += ops.dilation.__all__
    __all__ += ops.einsum.__all__
    __all__ += ops.error_functions.__all__
    __all__ += ops.extremes.__all__
    __all__ += ops.gather.__all__
    __all__ += ops.gelu.__all__
    __all__ += ops.grids.__all__
    __all__ += ops.indexing.__all__
    __all__ += ops.integers.__all__
    __all__ += ops.matrix.__all__
    __all__ += ops.namespace.__all__
    __all__ += ops.nans.__all__
    __all__ += ops.norm.__all__
    __all__ += ops.pool.__all__
    __all__ += ops.products.__all__
    __all__ += ops.ranges.__all__
    __all__ += ops.rearrange.__all__
    __all__ += ops.reduce.__all__
    __all__ += ops.samples.__all__
    __all__ += ops.scatter.__all__
    __all__ += ops.search.__all__
    __all__ += ops.sequence.__all__
    __all__ += ops.shape.__all__
    __all__ += ops.signs.__all__
    __all__ += ops.slicing.__all__
    __all__ += ops.sorting.__all__
    __all__ += ops.special.__all__
    __all__ += ops.statistics.__all__
    __all__ += ops.trigonometry.__all__
    __all__ += ops.unary.__all__
    __all__ += ops.variable.__all__
