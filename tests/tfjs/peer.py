"""Run TensorFlow.js in Node.js, if both are installed."""

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path

RECORDED = Path(__file__).parent / "recorded.json"
SCRIPT = Path(__file__).parent / "peer.mjs"
PEERS = Path(os.environ.get("PEERS", Path(__file__).parents[2] / "benchmarks/peers"))


@functools.cache
def recorded():
    """Return the recorded TensorFlow.js models and their outputs."""
    return json.loads(RECORDED.read_text())


def missing():
    """Return why TensorFlow.js cannot run here, or None."""
    if shutil.which("node") is None:
        return "needs Node.js"
    if not (PEERS / "node_modules/@tensorflow/tfjs").is_dir():
        return "needs TensorFlow.js: make benchmarks/peers/node_modules"
    return None


def peer(*arguments):
    """Run ``peer.mjs`` with arguments, and return the JSON that it prints."""
    command = ["node", SCRIPT, *arguments]
    env = {**os.environ, "PEERS": str(PEERS)}
    done = subprocess.run(
        list(map(str, command)), env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
