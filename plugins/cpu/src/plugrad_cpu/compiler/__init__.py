"""The compiler of regions, which ``jit`` calls for graphs on plugrad-cpu.

Nothing here writes code for a processor: a region becomes a program, which is data, and
C runs it. Read ``plugrad_cpu.regions`` first, which says what such a program is.

- ``compile``: which steps may be in a region, and which of the others compiles it.
- ``single``: one kernel, called with all that is known when it is compiled.
- ``blocks``: regions with kernels of rows and with reductions.
- ``rows``: how those kernels are called on a part of their arrays.
- ``operands``: how functions in C are told about arrays.
"""
