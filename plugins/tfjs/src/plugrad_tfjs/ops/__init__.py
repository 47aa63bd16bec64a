"""The ops of graph models; importing a module registers its ops."""

from . import arithmetic, images, products, shape

__all__ = ["arithmetic", "images", "products", "shape"]
