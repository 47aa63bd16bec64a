"""A fault of a backend, and the check that the kit finds it."""

import re
from typing import NamedTuple


class Fault(NamedTuple):
    """What is wrong, which tests see it (all others pass), and what they say."""

    name: str
    fault: str
    where: tuple[str, ...]
    fails: str
    says: str
    light: str = ""

    def __str__(self):
        return self.name


def assert_found(kit, fault):
    """Run the kit on a backend with a fault; the tests that are about it must fail."""
    kit.install(fault.fault, fault.light)
    if fault.name.startswith("a host"):
        info = kit.folder / "plugrad_faulty-2.5.dist-info" / "METADATA"
        info.write_text("Name: plugrad-faulty\nVersion: 2.5\nRequires-Dist: plugrad\n")
    done = kit.run(*fault.where)
    assert done.returncode == 1, done.stdout + done.stderr
    failed = kit.failed()
    assert failed, done.stdout
    assert not [test for test in failed if not re.fullmatch(fault.fails, test)]
    assert fault.says in done.stdout
    counts = kit.score()["levels"].values()
    assert sum(c["passed"] for c in counts) or fault.name.startswith(("a child", "thr"))
