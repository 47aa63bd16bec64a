"""The region compiler, which ``jit`` calls for graphs on plugrad-cpu.

It generates no machine code: it translates a region into a program, which is data that
C interprets. Read ``plugrad_cpu.regions`` first; it defines the format.

- ``compile``: which steps may be in a region, and which module compiles a region.
- ``single``: regions of one kernel, whose arguments are prepared at compilation.
- ``blocks``: regions with row kernels and reductions.
- ``rows``: how these kernels are called on a part of their arrays.
- ``operands``: descriptions of arrays for C functions.
"""
