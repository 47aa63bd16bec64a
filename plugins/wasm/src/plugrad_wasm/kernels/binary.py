"""Binary arithmetic."""

from plugrad.plugin import KernelTable

from ..launch import binary

kernels = KernelTable(
    Add=binary("add", bits=True),
    Atan2=binary("atan2"),
    CopySign=binary("copysign"),
    FloorDiv=binary("floor_div"),
    Hypot=binary("hypot"),
    Maximum=binary("max"),
    Minimum=binary("min"),
    Mod=binary("mod"),
    Multiply=binary("mul", bits=True),
    Pow=binary("pow"),
    RealDiv=binary("div"),
    SquaredDifference=binary("squared_difference"),
    Sub=binary("sub", bits=True),
)
