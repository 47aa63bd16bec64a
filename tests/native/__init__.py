"""Checks of plugrad-cpu's C kernels, which run the op calls of one table, ``rows``.

- ``python -m tests.native.run`` runs the table; it can put every array that a kernel
  gets between guard pages. The tests here start it.
- ``python -m tests.native.sanitized`` runs these and other tests with the kernels under
  AddressSanitizer and UBSan.
- ``python -m tests.native.replayed`` repeats the kernel calls on arm64 in QEMU, or on
  Windows under Wine.
- ``python -m tests.native.platforms`` compiles and links all C for macOS and Windows.

If no row reaches a C kernel, ``test_native.py`` fails.
"""
