"""Text.

- ``strings``: ops on strings, the namespace ``plugrad.strings``.
"""
