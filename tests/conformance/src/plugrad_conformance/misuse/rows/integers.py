"""Valid calls of divisors of integers."""

from .. import call, ints

CALLS = {"Gcd": call(ints(3, 4, below=9), ints(3, 1, below=7))}
