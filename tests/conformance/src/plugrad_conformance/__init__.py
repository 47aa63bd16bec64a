"""The tests that every backend of plugrad passes, and the pytest plugin for them."""


def __getattr__(name: str) -> str:
    """Read the version from the metadata, which takes too long for every import."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("plugrad-conformance")
