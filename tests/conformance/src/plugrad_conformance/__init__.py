"""The tests that every plugrad backend passes, and the pytest plugin that runs them."""


def __getattr__(name: str) -> str:
    """Read the version from the metadata on demand, because reading it is slow."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("plugrad-conformance")
