"""Checks of plugrad-cpu's kernels in C: all follow one table of calls of ops, ``rows``.

- ``python -m tests.native.run``: runs the table, and can put every array that a kernel
  gets between pages that must not be touched. The tests here start it.
- ``python -m tests.native.sanitized``: the same, and other tests, with the kernels
  under AddressSanitizer and UBSan.
- ``python -m tests.native.replayed``: the calls of kernels again, on arm64 in QEMU, or
  on Windows under Wine.
- ``python -m tests.native.platforms``: compiles and links all C for macOS and Windows.

A kernel in C that no row reaches fails ``test_native.py``.
"""
