"""Updates in place: the engine runs them only if nothing else refers to the array."""

import copy
import weakref

import numpy as np
import plugrad as pg
import pytest
from plugrad import plugin
from plugrad._src.engine.in_place import is_alone


class View:
    """An array that may be a view of another one."""

    def __init__(self, base=None):
        self.base = base


def test_an_array_that_only_a_list_holds():
    assert is_alone([View()])
    assert is_alone([np.ones(3)])
    assert is_alone([np.ones((3, 3)).T])
    assert is_alone([View(View())])


def test_an_array_that_others_hold():
    array = View()
    assert not is_alone([array])
    assert is_alone([array], others=1)
    assert not is_alone([array, array], others=1)
    known = weakref.ref(array)
    assert not is_alone([array], others=1)
    del known
    assert is_alone([array], others=1)


def test_a_view_of_an_array_that_others_hold():
    base = View()
    assert not is_alone([View(base)])
    assert not is_alone([View(View(View()))])  # only the root may be the base
    values = np.ones((3, 3))
    assert not is_alone([values.T])
    held = [np.ones((3, 3))]
    held.append(held[0].T)
    assert not is_alone(held)
    assert not is_alone(held[::-1])
    base = View()
    held = [View(base)]
    known = weakref.ref(base)
    del base
    assert known() is not None
    assert not is_alone(held)


def test_an_assignment_writes_into_the_array(in_place):
    x = pg.ones((3, 2)) * 2.0
    for n in range(3):
        x[n] = float(n)
    assert set(in_place) == {id(x._data)}
    assert len(in_place) == 3
    assert x.tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]


def profiled(x):
    with pg.profile():
        x[0] = 5.0
    return x


def differentiated(x):
    def f(y):
        z = x * y
        z[0] = 5.0
        return z

    return pg.vjp(f, pg.ones(1))[0]


def batched(x):
    def f(y):
        z = x * y
        z[0] = 5.0
        return z

    return pg.vmap(f)(pg.ones(1))[0]


@pytest.mark.parametrize("f", [profiled, differentiated, batched])
def test_watched_assignments_do_not(f, in_place):
    assert f(pg.ones((2, 2)) * 2.0).tolist() == [[5.0, 5.0], [2.0, 2.0]]
    assert in_place == []


def test_another_handle_stays(in_place):
    x = pg.ones(3) * 2.0
    y = copy.copy(x)
    x[0] = 5.0
    assert in_place == []
    x[1] = 5.0
    assert len(in_place) == 1
    assert (x.tolist(), y.tolist()) == ([5.0, 5.0, 2.0], [2.0, 2.0, 2.0])


def test_removing_the_kernel_removes_it(in_place):
    x = pg.ones(3) * 2.0
    pg.register_kernel("TensorScatterUpdate", "cpu", lambda x, i, u: x + 1.0)
    x[0] = 9.0
    assert x.tolist() == [3.0, 3.0, 3.0]  # the user's kernel ran
    pg.unregister_kernel("TensorScatterUpdate", "cpu")
    x[0] = 9.0
    assert x.tolist() == [9.0, 3.0, 3.0]
    assert len(in_place) == 1


def test_a_function_that_cannot_have_attributes():
    with pytest.raises(TypeError, match="in_place: <built-in function len> cannot"):
        plugin.in_place(len)(lambda x: x)


def test_a_function_that_does_not_fit():
    def update(tensor, indices, updates):
        return tensor

    plugin.in_place(update)(lambda tensor: tensor)
    with pytest.raises(ValueError, match=r"register_kernel, in place: .* does not fit"):
        pg.register_kernel("TensorScatterUpdate", "cpu", update)
