"""Links from errors to the page that explains them.

``docs/errors.md`` has a section for each message that users often meet. A link is a
note, which Python prints below the message; the message itself stays as it is.
"""

from __future__ import annotations

from typing import TypeVar

# The address of ``docs/errors.md``. It changes with the address of the documentation:
# see ``docs/releasing.md``.
ERRORS_PAGE = "https://github.com/plugrad/plugrad/blob/main/docs/errors.md"

E = TypeVar("E", bound=BaseException)


def explained(error: E, section: str) -> E:
    """Add a note to an error: the link to the section that explains it.

    Args:
        error: The error, which is about to be raised.
        section: The anchor of a section in plugrad's error page, or the URL of a page
            of your own.

    Returns:
        The same error.

    Example:
        >>> from plugrad import plugin
        >>> url = "https://far.org/errors#no-device"
        >>> error = plugin.explained(RuntimeError("far: no device"), url)
        >>> error.__notes__
        ['See https://far.org/errors#no-device']

    """
    link = section if "://" in section else f"{ERRORS_PAGE}#{section}"
    error.add_note(f"See {link}")
    return error


def replacing(old: BaseException, new: E) -> E:
    """Return ``new``, which replaces ``old``, with the notes of ``old`` added."""
    for note in getattr(old, "__notes__", ()):
        new.add_note(note)
    return new
