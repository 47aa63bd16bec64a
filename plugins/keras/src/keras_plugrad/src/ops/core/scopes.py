"""Scopes that select a device, or name operations."""

from __future__ import annotations

import contextlib
from typing import Any, Self

import plugrad as pg

from keras_plugrad.src.keras_names import name_scope as keras_name_scope


def device_scope(device_name: str) -> contextlib.AbstractContextManager[Any]:
    """Return a scope in which a backend of plugrad is active.

    Args:
        device_name: The name of a backend, such as ``"cpu"`` or ``"wasm"``, optionally
            followed by ``":0"``.

    Raises:
        ValueError: There is no such backend, or the number is not 0.

    """
    name, _, number = str(device_name).partition(":")
    if number not in ("", "0") or name not in pg.backends():
        known = ", ".join(pg.backends())
        raise ValueError(
            f"keras.device: there is no device {device_name!r}; installed backends of "
            f"plugrad: {known}"
        )
    return pg.use_backend(name)


class name_scope(keras_name_scope):  # type: ignore[misc]
    """Keras' scope of names, which plugrad's reports and rules see as well."""

    def __enter__(self) -> Self:
        """Enter the scope of Keras and that of plugrad."""
        super().__enter__()
        self._plugrad_scope = pg.name_scope(self.name)
        self._plugrad_scope.__enter__()
        return self

    def __exit__(self, *error: Any, **more: Any) -> None:
        """Leave both."""
        self._plugrad_scope.__exit__(None, None, None)
        super().__exit__(*error, **more)
