"""Valid calls of the greatest common divisor and similar kernels."""

from .. import call, ints

CALLS = {"Gcd": call(ints(3, 4, below=9), ints(3, 1, below=7))}
