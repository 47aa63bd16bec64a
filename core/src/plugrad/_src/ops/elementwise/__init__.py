"""Element-wise functions that ``basis`` does not need.

- ``error_functions``: ``erf``, ``erfc``, and the powers of e that ``gelu`` shares.
- ``integers``: divisors and multiples, and positions in a shape.
- ``signs``: the sign bit, and neighbouring floating numbers.
- ``special``: gamma functions, the inverse error function, products with logarithms.
- ``trigonometry``: angles and hyperbolic functions.
"""
