"""The base class of all layers: plugrad needs none."""


class BackendLayer:
    """An empty base class."""
