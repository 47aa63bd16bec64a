"""A process that removes unused files leaves those of a process that has just ended."""

import subprocess
import sys

import plugrad_train as pt
import pytest

from tests.train.test_checkpoints import LOCK_HOLDER, tree


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks of folders")
def test_a_checkpoint_that_another_process_completes_meanwhile_stays(
    tmp_path, monkeypatch
):
    """The other process has written the tensors when this one looks for unused files.

    It writes the JSON file and ends after this process has listed the checkpoints.
    """
    other = tmp_path / "other"
    pt.Checkpoints(other).save(7, tree(7))
    json_file = other / pt.Checkpoints(other).path(7).name
    folder = tmp_path / "shared"
    folder.mkdir()
    for path in other.glob("*.safetensors"):
        path.rename(folder / path.name)
    checkpoints = pt.Checkpoints(folder, keep=9)
    list_steps, remove_unused = checkpoints.steps, checkpoints._remove_unused

    with subprocess.Popen(
        [sys.executable, "-c", LOCK_HOLDER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as writer:
        assert writer.stdout.readline() == b"ready\n"

        def steps():
            found = list_steps()
            if json_file.exists():
                json_file.rename(folder / json_file.name)
                writer.communicate()
            return found

        def remove(*args, **how):
            monkeypatch.setattr(checkpoints, "steps", steps)
            remove_unused(*args, **how)

        monkeypatch.setattr(checkpoints, "_remove_unused", remove)
        checkpoints.save(1, tree())
    assert pt.Checkpoints(folder).restore(tree(), 7).step == 7
