"""The twins in C of the engine's hottest functions; where they do not compile, none.

Where there is no compiler, one comes as a package; it is used to build, and goes.
"""

import importlib.util
import os
import shutil
import sys
import sysconfig
from glob import glob
from pathlib import Path

from setuptools import Extension, setup

usual = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "").split()
headers = Path(sysconfig.get_path("include"), "Python.h").exists()
missing = bool(usual) and headers and shutil.which(usual[0]) is None
packaged = importlib.util.find_spec("ziglang") is not None
if missing:
    os.environ["CC"] = f"{sys.executable} -m ziglang cc"

setup(
    setup_requires=["ziglang"] if missing and not packaged else [],
    ext_modules=[
        Extension(
            "plugrad._speedups",
            sorted(glob("src_c/*.c")),
            depends=["src_c/speedups.h"],
            optional=True,
        )
    ],
)
