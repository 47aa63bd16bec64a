"""The C accelerators: compiled if there is a C compiler, else left out."""

from glob import glob

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "plugrad._speedups",
            sorted(glob("src_c/*.c")),
            depends=["src_c/speedups.h"],
            # Without a compiler or Python's headers, everything runs in Python.
            optional=True,
        )
    ],
)
