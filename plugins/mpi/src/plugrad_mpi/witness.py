"""A process beside the ranks of a machine that says which of them was killed.

mpiexec ends all ranks as soon as one is killed, before another could say so, and that
of MPICH may name a process which it has ended itself. The witness is in a session of
its own, where mpiexec does not end it. ``epoll`` returns the ranks in the order in
which they have ended, also if the witness begins or wakes up later. It needs Linux.

mpiexec hears of the end of a rank from the socket which the system closes, and that is
before the process has ended: on a busy machine another one, which mpiexec kills, can
be through first. So each rank holds a pipe, too. Linux closes the files of a process
that ends from the highest number down, and the pipe's is above the socket's.

Map: ``start`` and ``Witness``, which the ranks call; what the process runs.
"""

from __future__ import annotations

import contextlib
import os
import platform
import select
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any


class Witness:
    """The witness of this machine, as a rank knows it.

    Attributes:
        pid: Its process.
        process: The same, in the rank that has started it; None in others.
        held: The end of the pipe that is closed when this rank ends.

    """

    def __init__(
        self, pid: int, process: subprocess.Popen[bytes] | None, held: int
    ) -> None:
        self.pid, self.process, self.held = pid, process, held

    def saw(self) -> bool:
        """Return whether a rank has ended."""
        return self.process is not None and self.process.poll() == 1

    def dismiss(self) -> None:
        """End it without a word, since the job ends for another reason."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        if self.process is not None:
            self.process.wait()


def start(comm: Any, kind: int) -> Witness | None:
    """Start the witness of each machine; all ranks call this.

    Args:
        comm: The communicator of all ranks.
        kind: ``MPI.COMM_TYPE_SHARED``: the ranks of one machine.

    """
    here = comm.Split_type(kind)
    if not hasattr(os, "pidfd_open"):
        here.Free()
        return None
    closes, held = _pipe()
    ranks = here.gather((comm.rank, os.getpid(), closes))
    process = None
    if here.rank == 0:
        with contextlib.suppress(OSError):  # which a sandbox may forbid
            process = _process(comm.size, ranks)
    pid = here.bcast(process and process.pid)  # until then none of them has ended
    here.Free()
    os.close(closes)
    if pid is None:
        os.close(held)
        return None
    return Witness(pid, process, held)


def _pipe() -> tuple[int, int]:
    """Return both ends of a pipe; that to write has the highest number of all files."""
    import fcntl  # which Windows does not have

    closes, low = os.pipe()
    above = 1 + max(map(int, os.listdir("/dev/fd")))
    held = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, above)
    os.close(low)
    return closes, held


def _process(size: int, ranks: list[tuple[int, int, int]]) -> subprocess.Popen[bytes]:
    """Start the witness of some ranks: their numbers, processes, and ends of pipes."""
    with select.epoll() as polled, contextlib.ExitStack() as stack:
        files = {}
        for rank, pid, closes in ranks:
            pipe = os.open(f"/proc/{pid}/fd/{closes}", os.O_RDONLY)
            for file in (pipe, os.pidfd_open(pid)):
                stack.callback(os.close, file)
                polled.register(file, select.EPOLLIN)
                files[file] = f"{file}:{rank}:{pid}"
        numbers = [str(polled.fileno()), str(size), *files.values()]
        return subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, *numbers],
            start_new_session=True,
            pass_fds=[polled.fileno(), *files],
        )


# --- the process -------------------------------------------------------------------


def watch(polled: str, size: str, *ranks: str) -> int:
    """Wait for the first rank that ends; write which it was, and what is known."""
    before = killed_for_memory()
    watched = dict(rank.split(":", 1) for rank in ranks)
    [(file, _)] = select.epoll.fromfd(int(polled)).poll(maxevents=1)
    rank, pid = watched[str(file)].split(":")
    at = datetime.now().strftime("%H:%M:%S.%f")[:-3]
    text = (
        f"rank {rank} of {size} (process {pid} on {platform.node()}) ended first, at "
    )
    text += f"{at}, without MPI_Finalize: {cause(int(pid))}"
    if killed_for_memory() > before:
        text += "; the system has killed a process because memory was short"
    os.write(2, f"plugrad-mpi: {text}\n".encode())
    return 1


def cause(pid: int) -> str:
    """Return why a process has ended, which is known until its parent has asked."""
    with contextlib.suppress(OSError):
        select.select([os.pidfd_open(pid)], [], [], 10)  # seconds: files close first
        _, _, words = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
        if words[0] == "Z" and (number := int(words.split()[-1]) & 0x7F):
            return f"killed by signal {number} ({signal.Signals(number).name})"
    return "killed (SIGKILL, as where memory is short), crashed, or by os._exit"


def killed_for_memory() -> int:
    """Return how many processes the system has killed because memory was short."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


if __name__ == "__main__":
    sys.exit(watch(*sys.argv[1:]))
