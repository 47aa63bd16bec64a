"""Handles Ctrl-C, which ends training after the current step."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from .checkpoints import Checkpoints


@contextlib.contextmanager
def interrupts() -> Iterator[threading.Event]:
    """Make the first Ctrl-C set the event, and the second raise KeyboardInterrupt."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    previous_handler = signal.signal(signal.SIGINT, handle)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, previous_handler)


def interruption_message(checkpoints: Checkpoints | None, step: int) -> str:
    """Return the message after Ctrl-C, which tells the user how to resume."""
    if checkpoints is None:
        return (
            f"interrupted after step {step}, without a checkpoint: pass checkpoints= "
            "to be able to resume"
        )
    return (
        f"interrupted after step {step}; saved as {checkpoints.path(step)}. To resume, "
        "call fit with the same arguments and resume=True"
    )
