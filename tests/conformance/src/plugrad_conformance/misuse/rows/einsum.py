"""A valid call of Einstein summation."""

from .. import call, floats

CALLS = {"Einsum": call(floats(2, 3, 4), floats(4, 3), equation="abc,cb->ba")}
