"""Random numbers.

- ``_draws``: the generator on the host, the same in every version.
- ``random``: the namespace ``plugrad.random``; seeds, keys and distributions.
"""
