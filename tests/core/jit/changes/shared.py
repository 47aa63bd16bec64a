"""Memory that a tensor shares with an object outside of plugrad."""

import numpy as np
import plugrad as pg

from .harness import pattern, sets_item

KIND = "shared memory"


def array_and_tensor():
    """Return a NumPy array and a tensor that may share its memory."""
    array = np.asarray([1.0, 2.0, 3.0], dtype="f4")
    return array, pg.from_dlpack(array)


@pattern(KIND)
def memory_of_an_array_is_written():
    array, w = array_and_tensor()
    return (
        lambda x: x * w + array[0].item(),
        sets_item(array, 0, 5.0),
        sets_item(array, 1, 6.0),
    )


@pattern(KIND)
def memory_that_only_a_tensor_reads():
    array, w = array_and_tensor()
    state = {"shift": 0.0}

    def change():
        array[0] += 1.0
        state["unread"] = array[0]

    f = lambda x: x * w + state["shift"]
    return f, change, change, sets_item(state, "shift", 1.0)


@pattern(KIND)
def memory_behind_a_folded_constant():
    array, w = array_and_tensor()
    state = {"shift": 0.0}
    f = lambda x: x * pg.exp(w * 2.0) + state["shift"]
    return (
        f,
        sets_item(array, 0, 2.0),
        sets_item(array, 1, 0.0),
        sets_item(state, "shift", 1.0),
    )


@pattern(KIND)
def memory_behind_a_view():
    array, w = array_and_tensor()
    part = w[1:]
    state = {"shift": 0.0}
    f = lambda x: x[1:] * part + state["shift"]
    return f, sets_item(array, 1, 5.0), sets_item(state, "shift", 1.0)


@pattern(KIND)
def memory_behind_a_reshaped_tensor():
    array, w = array_and_tensor()
    column = pg.reshape(w, (3, 1))
    state = {"shift": 0.0}
    f = lambda x: x * column + state["shift"]
    return f, sets_item(array, 1, 5.0), sets_item(state, "shift", 1.0)


@pattern(KIND)
def memory_in_a_list_of_tensors():
    arrays = [np.ones(3, dtype="f4") for _ in range(2)]
    layers = [pg.from_dlpack(array) for array in arrays]
    state = {"shift": 0.0}
    f = lambda x: x * layers[0] + layers[1] + state["shift"]
    return f, sets_item(arrays[1], 0, 5.0), sets_item(state, "shift", 1.0)


@pattern(KIND)
def memory_of_a_buffer():
    raw = bytearray(12)
    array = np.frombuffer(raw, dtype="f4")
    w = pg.from_dlpack(array)
    state = {"shift": 0.0}
    f = lambda x: x + w + state["shift"]
    return f, sets_item(raw, 3, 64), sets_item(state, "shift", 1.0)


@pattern(KIND)
def memory_that_is_shared_in_the_call():
    array = np.asarray([1.0, 2.0, 3.0], dtype="f4")
    return lambda x: x * pg.from_dlpack(array), sets_item(array, 0, 5.0)


@pattern(KIND)
def memory_that_a_matrix_check_reads():
    array = np.eye(3, dtype="f4")
    m = pg.from_dlpack(array)
    state = {"shift": 0.0}

    def f(x):
        try:
            return x + pg.linalg.cholesky(m)[0] + state["shift"]
        except ValueError:
            return x

    return (
        f,
        sets_item(array, (0, 0), -1.0),
        sets_item(array, (0, 0), 4.0),
        sets_item(state, "shift", 1.0),
    )


@pattern(KIND)
def memory_in_a_variable():
    array = np.asarray([1.0, 2.0, 3.0], dtype="f4")
    v = pg.Variable(pg.from_dlpack(array))
    state = {"shift": 0.0}
    f = lambda x: x * v + state["shift"]
    return f, sets_item(array, 0, 5.0), sets_item(state, "shift", 1.0)


@pattern(KIND)
def memory_of_an_argument_that_is_an_array():
    array = np.asarray([1.0, 2.0, 3.0], dtype="f4")
    scale = pg.jit(lambda x, w: x * w)
    return lambda x: scale(x, array), sets_item(array, 0, 5.0), sets_item(array, 1, 6.0)


@pattern(KIND)
def memory_is_exported_and_written():
    w = pg.asarray([1.0, 2.0, 3.0])
    state = {"shift": 0.0}
    outside = np.from_dlpack(w)

    def change():
        if outside.flags.writeable:
            outside[0] = 5.0
        state["shift"] = 1.0

    return lambda x: x * w + state["shift"], change
