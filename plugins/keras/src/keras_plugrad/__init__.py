"""Keras on plugrad.

Keras imports the module ``src`` of this package if its backend is "plugrad"::

    KERAS_BACKEND=plugrad python -c "import keras; print(keras.config.backend())"

The layout of the package is the one that Keras expects of backends in packages of their
own. ``PLUGRAD_BACKEND`` and ``keras.device`` select the backend of plugrad.
"""

__version__ = "0.1.0"
