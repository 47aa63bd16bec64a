"""The names that Keras expects of a backend."""

from keras_plugrad.src import ops as ops
from keras_plugrad.src import random as random
from keras_plugrad.src import rnn as rnn
from keras_plugrad.src import tensorboard as tensorboard
from keras_plugrad.src.ops.core import Variable as Variable
from keras_plugrad.src.ops.core import compute_output_spec as compute_output_spec
from keras_plugrad.src.ops.core import device_scope as device_scope
from keras_plugrad.src.ops.core import name_scope as name_scope

distribution_lib = None  # plugrad-mpi trains on several processes
# Keras then calls callbacks in the thread that trains. Steps have finished when they
# return, so callbacks in another thread would save no time.
IS_THREAD_SAFE = False
SUPPORTS_COMPLEX_DTYPES = True
SUPPORTS_GRADIENT = True
SUPPORTS_RAGGED_TENSORS = False
SUPPORTS_SPARSE_TENSORS = False
