"""Prepared forms of arrays that backends cache, such as weights packed for the CPU.

A form belongs to a native array. The values of an array never change, because item
assignment gives a tensor another array. A form is dropped with its array, and
``plugrad.memory`` counts it as a cached copy.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar, cast

from plugrad._src.tensor.tensor import Native

from .backend import is_shared

Form = TypeVar("Form")  # a native array, or a tuple of them
Make = Callable[[Any], Form]


class _Forms(weakref.ref[Any]):
    """A reference to an array, with its stored forms.

    Attributes:
        key: The id of the array.
        made: The form that each function made; None if it was called only once.

    """

    __slots__ = ("key", "made")
    key: int
    made: dict[Make[Any], Any]


_forms: dict[int, _Forms] = {}  # by the id of the array


def prepared(native: Native, make: Make[Form], *, reused: bool = False) -> Form:
    """Return ``make(native)``, and store it in the second call with the same array.

    Kernels use it for operands that recur in later calls and need another form, such as
    weights packed for matrix products. The first call with an array stores nothing,
    because most arrays are results that no other call sees. The form is dropped with
    the array; ``plugrad.memory`` counts it as a cached copy. If other libraries may
    write to the memory (DLPack), nothing is stored. Any thread may call it.

    Args:
        native: A native array of a backend; its values never change.
        make: Makes the form: a native array, or a tuple of them. Pass the same function
            in each call, not a new lambda, because the function identifies the form.
        reused: Whether later calls are certain, as for the constants of a ``Graph``:
            then the first call stores the form.

    Returns:
        What ``make`` returns.

    Example:
        >>> from plugrad import plugin
        >>> def columns_first(w):
        ...     return np.asfortranarray(w)
        >>> w = np.ones((2, 3), np.float32)
        >>> first = plugin.prepared(w, columns_first)
        >>> second = plugin.prepared(w, columns_first)
        >>> second is first, plugin.prepared(w, columns_first) is second
        (False, True)

    """
    entry = _forms.get(id(native))
    if entry is not None and entry() is native:
        found = entry.made.get(make)
        if found is not None and not is_shared(native):
            return cast("Form", found)
    return _make_form(native, make, reused)


def _make_form(native: Native, make: Make[Form], reused: bool) -> Form:
    """Make a form that does not exist yet, and store it if the array is used again."""
    if is_shared(native):
        _forms.pop(id(native), None)
        return make(native)
    entry = _entry(native)
    if entry is None:
        return make(native)
    if not reused and make not in entry.made:
        entry.made[make] = None
        return make(native)
    form = make(native)
    if _is_view_of(form, native):
        return form
    # If two threads have made the form, only one is stored.
    if entry.made.get(make) is None:
        entry.made[make] = form
    return cast("Form", entry.made[make])


def _entry(native: Native) -> _Forms | None:
    """Return the forms of an array; None if it does not support weak references."""
    key = id(native)
    entry = _forms.get(key)
    if entry is None or entry() is not native:
        try:
            new = _Forms(native, _forget)
        except TypeError:
            return None
        new.key, new.made = key, {}
        _forms[key] = entry = new
    return entry


def _forget(entry: Any) -> None:
    """Drop the forms of a freed array, unless another array now has its id."""
    key = entry.key
    if _forms.get(key) is entry:
        _forms.pop(key, None)


def _is_view_of(form: Any, native: Native) -> bool:
    """Return whether a form is a view of the array: it would keep the array alive."""
    for x in form if type(form) is tuple else (form,):
        while x is not None:
            if x is native:
                return True
            x = getattr(x, "base", None)
    return False


def forms_of(native: Native) -> list[Any]:
    """Return the stored forms of an array."""
    entry = _forms.get(id(native))
    if entry is None or entry() is not native:
        return []
    return [form for form in entry.made.copy().values() if form is not None]
