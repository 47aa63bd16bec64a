"""A plugin of pytest that corrects a helper of the consortium's array-api-tests.

``test_binary_with_scalars_real`` calls functions with an array and a Python number. Its
helper also makes an array of the number, without a dtype, so with plugrad's default
float32, even if the number was drawn for a float64 array. plugrad raises OverflowError
for a number that float32 cannot hold, as it does for integers that int32 cannot hold;
PyTorch and JAX return inf, NumPy warns, and the standard says that "behavior is
unspecified" (``asarray``, 2025.12). The test does not read the array, and it fails by
chance, so an expected failure would hide what the functions do.

Here the number takes the dtype of the array beside it, as it does in plugrad's ops.
"""

from importlib import import_module
from typing import Any


def pytest_collection_finish() -> None:
    """Replace the helper in this process; an AttributeError if the suite lacks it."""
    name = "array_api_tests.test_operators_and_elementwise_functions"
    tests: Any = import_module(name)
    convert = tests._convert_scalars_helper

    def converted(x1: Any, x2: Any) -> Any:
        if not hasattr(x1, "dtype"):
            x1 = tests.xp.asarray(x1, dtype=x2.dtype)
        elif not hasattr(x2, "dtype"):
            x2 = tests.xp.asarray(x2, dtype=x1.dtype)
        return convert(x1, x2)

    tests._convert_scalars_helper = converted
