"""Valid calls of special functions that have attributes."""

from .. import call, floats

CALLS = {"Polygamma": call(floats(2, 3), n=2)}
