"""What this package imports from Keras; only the trainer imports more.

Most of these names are not public in Keras. They were tried with Keras
3.16.0.dev2026102704.
"""

from keras.src import tree as tree
from keras.src.backend import config as config
from keras.src.backend.common import backend_utils
from keras.src.backend.common.backend_utils import (
    canonicalize_axis as canonicalize_axis,
)
from keras.src.backend.common.backend_utils import vectorize_impl as vectorize_impl
from keras.src.backend.common.dtypes import result_type as result_type
from keras.src.backend.common.keras_tensor import KerasTensor as KerasTensor
from keras.src.backend.common.name_scope import name_scope as name_scope
from keras.src.backend.common.stateless_scope import StatelessScope as StatelessScope
from keras.src.backend.common.symbolic_scope import SymbolicScope as SymbolicScope
from keras.src.backend.common.variables import Variable
from keras.src.backend.common.variables import standardize_dtype as standardize_dtype
from keras.src.random.seed_generator import SeedGenerator as SeedGenerator
from keras.src.random.seed_generator import draw_seed as draw_seed
from keras.src.random.seed_generator import make_default_seed as make_default_seed

KerasVariable = Variable
conv_transpose_padding = backend_utils.compute_conv_transpose_padding_args_for_jax
