"""The constraints in ``lowest.txt`` are the lower bounds in the metadata."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PACKAGES = [ROOT / "core", *ROOT.glob("plugins/*"), ROOT / "tests" / "conformance"]


def bounds():
    """Return the lower bounds of each dependency, except plugrad's own distributions.

    If the bounds of distributions differ, the highest one counts, because all of them
    allow it.
    """
    found = {}
    for package in PACKAGES:
        project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
        for requirement in map(Requirement, project["dependencies"]):
            if not requirement.name.startswith("plugrad"):
                lowest = [
                    s for s in requirement.specifier if s.operator in (">=", "==")
                ]
                assert len(lowest) == 1, f"{package.name}: {requirement} has no bound"
                version = lowest[0].version.removesuffix(".*")
                found.setdefault(requirement.name, set()).add(version)
    return found


def test_the_constraints_are_the_lower_bounds():
    lines = (ROOT / "tests" / "lowest.txt").read_text().splitlines()
    constraints = dict(line.split("==") for line in lines if not line.startswith("#"))
    bounds_of = bounds()
    expected = {
        name: max(versions, key=Version) for name, versions in bounds_of.items()
    }
    assert constraints == expected
