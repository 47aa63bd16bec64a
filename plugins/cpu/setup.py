"""The native part of plugrad-cpu: compiled if there is a C compiler, else left out."""

from glob import glob

import numpy
from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "plugrad_cpu._native",
            sorted(glob("src_c/*.c")),
            include_dirs=[numpy.get_include()],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_1_API_VERSION")],
            optional=True,  # without a compiler or Python's headers all runs on NumPy
        )
    ],
)
