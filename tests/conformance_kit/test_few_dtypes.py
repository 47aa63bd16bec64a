"""The whole kit passes on a device with few dtypes: tests of other dtypes are skipped.

Without ``--all``, only some of the parts run.
"""

from pathlib import Path

import plugrad_conformance
import pytest

PACKAGE = Path(plugrad_conformance.__file__).parent
FILES = sorted(
    path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")
    for path in PACKAGE.glob("*/test_*.py")
)
PARTS = 24
DTYPES = {
    "int32": ("bool", "int32", "float32"),
    "uint32": ("bool", "int32", "uint32", "float32"),
}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dtypes", DTYPES.values(), ids=DTYPES)
def test_the_kit_passes(kit, dtypes, part):
    kit.install(f'options["dtypes"] = {dtypes!r}')
    done = kit.run(*FILES[part::PARTS])
    assert done.returncode == 0, done.stdout[-9000:] + done.stderr
    score = kit.score()
    assert not score["failed"]
    assert sum(counts["passed"] for counts in score["levels"].values())


def test_the_parts_contain_all_files():
    assert sorted(f for part in range(PARTS) for f in FILES[part::PARTS]) == FILES
