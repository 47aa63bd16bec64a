"""Guard zones around blocks, which find accesses outside of arrays.

With PLUGRAD_WASM_GUARD=1 in the environment, each block has a zone before and after it.
Zones and new blocks are filled with a pattern that is NaN in float32 and float64 and
far out of range as an index. A kernel that writes outside of its arrays damages a zone,
and a BackendError names the kernel. If a kernel reads outside of its arrays, the
pattern appears in its result.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from plugrad import BackendError

VARIABLE = "PLUGRAD_WASM_GUARD"
ZONE_BYTES = 1024  # a multiple of the alignment of blocks
PATTERN = b"\x5a\x5a\xfa\xff"


# Whether the environment turns guard zones on. This applies to all machines.
IS_ENABLED = os.environ.get(VARIABLE, "0") not in ("", "0")


class Guards:
    """The zones around the blocks that are in use.

    Args:
        memory: All of linear memory, as an array of bytes.

    """

    def __init__(self, memory: Any) -> None:
        self._memory = memoryview(memory).cast("B")
        self._blocks: dict[int, int] = {}  # block sizes in bytes, by address
        self._found: list[str] = []  # damage that has not been reported yet

    def enter(self, begin: int, nbytes: int) -> None:
        """Fill a new block and its zones; no other array uses this memory."""
        size = nbytes + 2 * ZONE_BYTES
        filling = (PATTERN * (size // len(PATTERN) + 1))[:size]
        self._memory[begin - ZONE_BYTES : begin + nbytes + ZONE_BYTES] = filling
        self._blocks[begin] = nbytes

    def leave(self, begin: int) -> None:
        """Check the zones of a block for the last time."""
        self._check_zones(begin, self._blocks.pop(begin), "a kernel")

    def around(self, name: str, call: Callable[..., None]) -> Callable[..., None]:
        """Return a function that calls the kernel ``name``, then checks all zones."""

        def checked(*args: float) -> None:
            call(*args)
            self.check(f"the kernel {name}")

        return checked

    def check(self, who: str = "a kernel") -> None:
        """Check the zones of all blocks.

        Raises:
            BackendError: ``who`` has written into a zone, or another kernel has written
                into a zone of a block that has been freed.

        """
        for begin, nbytes in self._blocks.copy().items():
            self._check_zones(begin, nbytes, who)
        if self._found:
            found, self._found = self._found, []
            raise BackendError("wasm: " + "; ".join(found))

    def _check_zones(self, begin: int, nbytes: int, who: str) -> None:
        for at, phase, side in (
            (begin - ZONE_BYTES, 0, "before"),
            (begin + nbytes, nbytes % len(PATTERN), "behind"),
        ):
            zone = self._memory[at : at + ZONE_BYTES]
            whole = (PATTERN * (ZONE_BYTES // len(PATTERN) + 1))[
                phase : phase + ZONE_BYTES
            ]
            if zone == whole:
                continue
            hit = [i for i in range(ZONE_BYTES) if zone[i] != whole[i]]
            zone[:] = whole  # reported once
            far = ZONE_BYTES - hit[-1] if side == "before" else hit[0] + 1
            self._found.append(
                f"{who} wrote outside of its arrays: into byte {far} {side} an array "
                f"of {nbytes} bytes at {begin:#x}"
            )
