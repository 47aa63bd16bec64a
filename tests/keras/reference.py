"""Write what Keras on JAX computes for the models.

``reference.json`` contains the losses and the predictions, ``images.keras`` one of the
trained models.

Run it with Keras and JAX installed::

    KERAS_BACKEND=jax python -m tests.keras.reference
"""

import json
from pathlib import Path

from tests.keras.models import MODELS, trained

FILE = Path(__file__).with_name("reference.json")
MODEL = Path(__file__).with_name("images.keras")


def recorded():
    """Return the recorded losses and predictions by model."""
    return json.loads(FILE.read_text())


if __name__ == "__main__":
    paths = {"images": MODEL}
    found = {name: trained(name, path=paths.get(name)) for name in MODELS}
    FILE.write_text(json.dumps(found) + "\n")
