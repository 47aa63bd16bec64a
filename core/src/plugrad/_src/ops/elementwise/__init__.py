"""Element-wise functions; those that other ops are built on are in ``basis``.

- ``error_functions``: ``erf`` and ``erfc``, and the exponentials that ``gelu`` shares.
- ``incomplete_gamma``: the incomplete gamma functions.
- ``integers``: divisors and multiples, and positions in a shape.
- ``signs``: the sign bit, and neighboring floating-point numbers.
- ``special``: gamma functions, the inverse error function, products with logarithms.
- ``trigonometry``: angles and hyperbolic functions.
"""
