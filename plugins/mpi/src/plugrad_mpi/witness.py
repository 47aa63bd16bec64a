"""The witness: a process on each machine that reports which rank was killed.

When a rank is killed, mpiexec ends all other ranks before any of them can report it,
and the mpiexec of MPICH may name a rank that it ended itself. The witness runs in its
own session, where mpiexec does not end it. ``epoll`` returns the ranks in the order in
which they ended, even if the witness starts or wakes up later. The witness needs Linux.

mpiexec notices the end of a rank when the system closes the socket of the rank, which
happens before the process has ended: on a busy machine, another process that mpiexec
kills can end first. Therefore each rank also holds a pipe open. Linux closes the files
of an ending process from the highest number down, and the number of the pipe is above
that of the socket, so the witness notices the end of the pipe first.

Contents: ``start`` and ``Witness``, which the ranks call; the code of the process.
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
    """A rank's handle on the witness of this machine.

    Attributes:
        pid: The process id of the witness.
        process: The process, in the rank that started it; None in other ranks.
        write_end: The end of the pipe that the system closes when this rank ends.

    """

    def __init__(
        self, pid: int, process: subprocess.Popen[bytes] | None, write_end: int
    ) -> None:
        self.pid = pid
        self.process = process
        self.write_end = write_end

    def has_exited(self) -> bool:
        """Return whether the witness has reported the end of a rank."""
        return self.process is not None and self.process.poll() == 1

    def dismiss(self) -> None:
        """End the witness silently, because the job ends for another reason."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        if self.process is not None:
            self.process.wait()


def start(comm: Any, kind: int) -> Witness | None:
    """Start the witness of each machine; all ranks must call this.

    Args:
        comm: The communicator of all ranks.
        kind: ``MPI.COMM_TYPE_SHARED``, which groups the ranks of each machine.

    """
    machine = comm.Split_type(kind)
    if not hasattr(os, "pidfd_open"):
        machine.Free()
        return None
    read_end, write_end = _pipe()
    ranks = machine.gather((comm.rank, os.getpid(), read_end))
    process = None
    if machine.rank == 0:
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            process = _start_process(comm.size, ranks)
    pid = machine.bcast(process and process.pid)  # no rank ends before this
    machine.Free()
    os.close(read_end)
    if pid is None:
        os.close(write_end)
        return None
    return Witness(pid, process, write_end)


def _pipe() -> tuple[int, int]:
    """Return both ends of a pipe; the write end gets the highest file number."""
    import fcntl  # not available on Windows

    read_end, low = os.pipe()
    above = 1 + max(map(int, os.listdir("/dev/fd")))
    write_end = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, above)
    os.close(low)
    return read_end, write_end


def _start_process(
    size: int, ranks: list[tuple[int, int, int]]
) -> subprocess.Popen[bytes]:
    """Start the witness of ranks, given as (rank, process id, read end of pipe)."""
    with select.epoll() as pollable, contextlib.ExitStack() as stack:
        files = {}
        for rank, pid, read_end in ranks:
            pipe = os.open(f"/proc/{pid}/fd/{read_end}", os.O_RDONLY)
            for file in (pipe, os.pidfd_open(pid)):
                stack.callback(os.close, file)
                pollable.register(file, select.EPOLLIN)
                files[file] = f"{file}:{rank}:{pid}"
        numbers = [str(pollable.fileno()), str(size), *files.values()]
        return subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, *numbers],
            start_new_session=True,
            pass_fds=[pollable.fileno(), *files],
        )


# --- the process -------------------------------------------------------------------


def watch(pollable: str, size: str, *ranks: str) -> int:
    """Wait for the first rank that ends; report this rank and the cause."""
    before = killed_for_memory()
    watched = dict(rank.split(":", 1) for rank in ranks)
    [(file, _)] = select.epoll.fromfd(int(pollable)).poll(maxevents=1)
    rank, pid = watched[str(file)].split(":")
    time = datetime.now().strftime("%H:%M:%S.%f")[:-3]
    text = (
        f"rank {rank} of {size} (process {pid} on {platform.node()}) ended first, at "
    )
    text += f"{time}, without MPI_Finalize: {cause(int(pid))}"
    if killed_for_memory() > before:
        text += "; the system killed a process because it ran out of memory"
    os.write(2, f"plugrad-mpi: {text}\n".encode())
    return 1


def cause(pid: int) -> str:
    """Return why a process ended, if its parent has not reaped it yet."""
    with contextlib.suppress(OSError):
        select.select(
            [os.pidfd_open(pid)], [], [], 10
        )  # for at most 10 s: the files are closed before the process ends
        _, _, words = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
        if words[0] == "Z" and (number := int(words.split()[-1]) & 0x7F):
            return f"killed by signal {number} ({signal.Signals(number).name})"
    return "killed (SIGKILL, as when memory runs out), crashed, or ended by os._exit"


def killed_for_memory() -> int:
    """Return how many processes the system has killed for lack of memory."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


if __name__ == "__main__":
    sys.exit(watch(*sys.argv[1:]))
