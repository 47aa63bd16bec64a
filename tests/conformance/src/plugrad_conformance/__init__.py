"""The tests that every plugrad backend passes, and the pytest plugin that runs them."""


def __getattr__(name: str) -> str:
    """Look up the version in the metadata, which is too slow for every import."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("plugrad-conformance")
