"""A fault of a backend, and the check that the kit finds it."""

import re
from typing import NamedTuple


class Fault(NamedTuple):
    """A fault, the tests that must fail while all others pass, and their message."""

    name: str
    fault: str
    where: tuple[str, ...]
    fails: str
    says: str
    at_import: str = ""

    def __str__(self):
        return self.name


def assert_found(kit, fault):
    """Run the kit on a backend with a fault; only the tests for it must fail."""
    kit.install(fault.fault, fault.at_import)
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
