"""A compiler for ``jit`` on cpu. The module its entry point names is ``plugin``."""


def __getattr__(name: str) -> str:
    """Read the version from the metadata, which takes too long for every import."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("plugrad-llvm")
