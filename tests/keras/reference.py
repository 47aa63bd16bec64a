"""Write ``reference.json``: what Keras on JAX computes for the models.

Run it with Keras and JAX installed::

    KERAS_BACKEND=jax python -m tests.keras.reference
"""

import json
from pathlib import Path

from tests.keras.models import MODELS, trained

FILE = Path(__file__).with_name("reference.json")


def recorded():
    """Return the recorded losses and predictions by model."""
    return json.loads(FILE.read_text())


if __name__ == "__main__":
    found = {name: trained(name) for name in MODELS}
    FILE.write_text(json.dumps(found) + "\n")
