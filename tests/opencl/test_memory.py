"""Memory limits of machine, process and control groups, and their effects."""

import pytest
from plugrad_opencl import memory

from tests.processes import output

MIB = 1 << 20
MEMINFO = "MemTotal: 16384 kB\nMemFree: 12 kB\nMemAvailable: 8192 kB\n"  # 16 and 8 MiB
V2 = "0::/user/me\n"
V1 = "5:cpu,cpuacct:/\n4:memory:/user/me\n1:name=systemd:/user\n0::/user/me\n"


def group(limit, usage, active=0, inactive=0, version=2):
    """Return the files of a control group; the sizes are in MiB."""
    names = ("memory.max", "memory.current", "")
    if version == 1:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
    stat = f"anon 7\n{names[2]}inactive_file {inactive * MIB}\n"
    stat += f"{names[2]}active_file {active * MIB}\n"
    limit = f"{limit * MIB}\n" if isinstance(limit, int) else limit
    return {names[0]: limit, names[1]: f"{usage * MIB}\n", "memory.stat": stat}


CASES = {
    "nothing is known": ({}, None),
    "the machine": ({"proc/meminfo": MEMINFO}, (16, 8)),
    "no limit": ({"proc/self/cgroup": V2, "user/me": group("max\n", 3)}, (16, 8)),
    "a limit": ({"proc/self/cgroup": V2, "user/me": group(4, 3)}, (4, 1)),
    "a limit of an outer group": (
        {"proc/self/cgroup": V2, "user/me": group("max\n", 1), "user": group(5, 3)},
        (5, 2),
    ),
    "files can be dropped": (
        {"proc/self/cgroup": V2, "user/me": group(4, 3, 1, 1)},
        (4, 3),
    ),
    "more than the machine has": (
        {"proc/self/cgroup": V2, "user/me": group(64, 3)},
        (16, 8),
    ),
    "in a container": ({"proc/self/cgroup": V2, "": group(6, 1)}, (6, 5)),
    "exceeded": ({"proc/self/cgroup": V2, "user/me": group(2, 3)}, (2, -1)),
    "damaged": ({"proc/self/cgroup": V2, "user/me": group("soon\n", 3)}, (16, 8)),
    "version 1": (
        {"proc/self/cgroup": V1, "memory/user/me": group(4, 3, 1, 1, version=1)},
        (4, 3),
    ),
    "version 1, in a container": (
        {"proc/self/cgroup": V1, "memory": group(6, 1, version=1)},
        (6, 5),
    ),
    "version 1, no limit": (
        {
            "proc/self/cgroup": V1,
            "memory/user/me": group(1 << 40, 1, version=1),
        },
        (16, 8),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_total_and_available_memory(case, tmp_path):
    files, expected = CASES[case]
    if files:
        files = {"proc/meminfo": MEMINFO, **files}
    for name, text in files.items():
        if isinstance(text, str):
            texts = {name: text}
        else:
            texts = {f"sys/fs/cgroup/{name}/{n}": t for n, t in text.items()}
        for path, content in texts.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
    found = memory.total(tmp_path), memory.left(tmp_path)
    if expected is None:
        assert found == (memory.UNLIMITED_BYTES, memory.UNLIMITED_BYTES)
    else:
        assert found == tuple(n * MIB for n in expected)


OPEN = """
import resource, sys
import plugrad as pg
if limit := int(sys.argv[1]):
    resource.setrlimit(resource.{which}, (limit, limit))
pg.set_backend("opencl")
"""
USED = """
words = open("/proc/self/statm").read().split()
print(int(words[{place}]) * resource.getpagesize())
"""
FILL = """
arrays, x = [], pg.asarray([0.0, 1.0])
try:
    while len(arrays) < 1000:
        arrays.append(pg.full((1 << 21,), 1.0))
        {wait}
except MemoryError as error:
    assert "opencl: no memory for 8,388,608 bytes in addition" in str(error), error
    assert "in use" in str(error) and "drop tensors" in str(error), error
# memory is full, but small work still runs, even if it must be compiled first
print([round(y, 3) for y in pg.grad(lambda x: pg.sum(pg.tanh(x) * x))(x).tolist()])
print(10 < len(arrays) < 100, arrays[-1][:2].tolist())
arrays.clear()
print(pg.sum(pg.ones((1 << 22,))).item())
"""


@pytest.mark.skipif(
    memory.total() == memory.UNLIMITED_BYTES, reason="Linux sets these limits"
)
@pytest.mark.parametrize(
    ("which", "place", "wait"),
    [
        ("RLIMIT_AS", 0, ""),
        ("RLIMIT_AS", 0, "arrays[-1][:1].numpy()"),
        ("RLIMIT_DATA", 5, ""),
    ],
    ids=["addresses", "addresses, waiting", "data"],
)
def test_a_process_survives_its_memory_limit(which, place, wait, device):
    """PoCL reserves memory late, and crashes if it gets none."""
    if not device.info.handles[0].host_unified_memory:
        pytest.skip("arrays are in the memory of the device, which has no such limits")
    start = OPEN.format(which=which)
    used = int(output(start + USED.format(place=place), "0"))
    limit = used + memory.COMPILER_RESERVED_BYTES + (700 << 20)
    code = start + FILL.format(wait=wait)
    assert output(code, str(limit)) == "[0.0, 1.182]\nTrue [1.0, 1.0]\n4194304.0\n"
