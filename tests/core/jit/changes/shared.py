"""Memory that a tensor shares with something outside of plugrad."""

import numpy as np
import plugrad as pg

from .harness import pattern, puts

KIND = "shared memory"


def shared():
    """Return a NumPy array and a tensor that may share its memory."""
    array = np.asarray([1.0, 2.0, 3.0], dtype="f4")
    return array, pg.from_dlpack(array)


@pattern(KIND)
def memory_of_an_array_is_written():
    array, w = shared()
    return lambda x: x * w + array[0].item(), puts(array, 0, 5.0), puts(array, 1, 6.0)


@pattern(KIND)
def memory_that_jit_alone_reads_by_a_tensor():
    array, w = shared()
    state = {"shift": 0.0}

    def change():
        array[0] += 1.0
        state["unread"] = array[0]

    f = lambda x: x * w + state["shift"]
    return f, change, change, puts(state, "shift", 1.0)


@pattern(KIND)
def memory_behind_a_folded_constant():
    array, w = shared()
    state = {"shift": 0.0}
    f = lambda x: x * pg.exp(w * 2.0) + state["shift"]
    return f, puts(array, 0, 2.0), puts(array, 1, 0.0), puts(state, "shift", 1.0)


@pattern(KIND)
def memory_behind_a_view():
    array, w = shared()
    part = w[1:]
    state = {"shift": 0.0}
    f = lambda x: x[1:] * part + state["shift"]
    return f, puts(array, 1, 5.0), puts(state, "shift", 1.0)


@pattern(KIND)
def memory_behind_a_reshaped_tensor():
    array, w = shared()
    column = pg.reshape(w, (3, 1))
    state = {"shift": 0.0}
    f = lambda x: x * column + state["shift"]
    return f, puts(array, 1, 5.0), puts(state, "shift", 1.0)


@pattern(KIND)
def memory_in_a_list_of_tensors():
    arrays = [np.ones(3, dtype="f4") for _ in range(2)]
    layers = [pg.from_dlpack(array) for array in arrays]
    state = {"shift": 0.0}
    f = lambda x: x * layers[0] + layers[1] + state["shift"]
    return f, puts(arrays[1], 0, 5.0), puts(state, "shift", 1.0)


@pattern(KIND)
def memory_of_a_buffer():
    raw = bytearray(12)
    array = np.frombuffer(raw, dtype="f4")
    w = pg.from_dlpack(array)
    state = {"shift": 0.0}
    f = lambda x: x + w + state["shift"]
    return f, puts(raw, 3, 64), puts(state, "shift", 1.0)


@pattern(KIND)
def memory_that_is_shared_in_the_call():
    array = np.asarray([1.0, 2.0, 3.0], dtype="f4")
    return lambda x: x * pg.from_dlpack(array), puts(array, 0, 5.0)


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
        puts(array, (0, 0), -1.0),
        puts(array, (0, 0), 4.0),
        puts(state, "shift", 1.0),
    )


@pattern(KIND)
def memory_in_a_variable():
    array = np.asarray([1.0, 2.0, 3.0], dtype="f4")
    v = pg.Variable(pg.from_dlpack(array))
    state = {"shift": 0.0}
    f = lambda x: x * v + state["shift"]
    return f, puts(array, 0, 5.0), puts(state, "shift", 1.0)


@pattern(KIND)
def memory_of_an_argument_that_is_an_array():
    array = np.asarray([1.0, 2.0, 3.0], dtype="f4")
    scale = pg.jit(lambda x, w: x * w)
    return lambda x: scale(x, array), puts(array, 0, 5.0), puts(array, 1, 6.0)


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
