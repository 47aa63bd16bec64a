"""A compiler for ``jit`` on cpu. Its entry-point module is ``plugin``."""


def __getattr__(name: str) -> str:
    """Read the version from the metadata only on request, because that is slow."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("plugrad-llvm")
