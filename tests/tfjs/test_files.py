"""A model's files: invalid manifests, and paths that a manifest must not contain."""

import json
import os
import tracemalloc

import pytest
from plugrad_tfjs import ModelError, load

from tests.tfjs.files import write
from tests.tfjs.test_errors import WEIGHTS, dense, sequential


def with_manifest(change):
    def spoil(path):
        model = json.loads(path.read_text())
        change(model["weightsManifest"][0])
        path.write_text(json.dumps(model))

    return spoil


def set_weight(**values):
    return with_manifest(lambda group: group["weights"][0].update(values))


BIG = [2**20, 2**20, 2**20]
FILES = {
    "no JSON": (lambda p: p.write_text("{"), "model.json is not JSON"),
    "deep JSON": (
        lambda p: p.write_text("[" * 10**6),
        "1000000 levels of JSON, 4 of which count as one, but the budget allows 100",
    ),
    "no object": (lambda p: p.write_text("[]"), "is not a JSON object"),
    "no manifest": (lambda p: p.write_text("{}"), "has no weightsManifest"),
    "no weights": (with_manifest(lambda g: g.pop("weights")), "the lists paths and"),
    "parent": (
        with_manifest(lambda g: g.update(paths=["../secret.bin"])),
        "the file '../secret.bin' is outside of the model's folder",
    ),
    "absolute": (with_manifest(lambda g: g.update(paths=["/etc/passwd"])), "outside"),
    "a link": (
        lambda p: (
            (p.parent / "group1-shard1of1.bin").unlink(),
            (p.parent / "group1-shard1of1.bin").symlink_to("../secret.bin"),
        ),
        "is outside of the model's folder",
    ),
    "not there": (
        with_manifest(lambda g: g.update(paths=["no.bin"])),
        "does not exist",
    ),
    "a folder": (with_manifest(lambda g: g.update(paths=["."])), "does not exist"),
    "no path": (with_manifest(lambda g: g.update(paths=[3])), "must be a string"),
    "twice": (
        with_manifest(lambda g: g["paths"].extend(g["paths"])),
        "the file 'group1-shard1of1.bin' is listed twice",
    ),
    "cut off": (
        lambda p: (p.parent / "group1-shard1of1.bin").write_bytes(b"1234"),
        "its files contain 4 bytes, but its weights need 32",
    ),
    "huge": (
        set_weight(shape=BIG),
        "its files contain 32 bytes, but its weights need 461168",
    ),
    "negative": (set_weight(shape=[-3, -2]), "-3 is not a valid size of an axis"),
    "no size": (set_weight(shape=[True, 2.5]), "True is not a valid size of an axis"),
    "many axes": (set_weight(shape=[1] * 99), "is not a list of sizes"),
    "no dtype": (set_weight(dtype="float8"), "the dtype 'float8' is not supported"),
    "no name": (set_weight(name=None), "a weight must be an object with a name"),
    "same name": (set_weight(name="dense/bias"), "'dense/bias' occurs twice"),
    "quantized": (
        set_weight(quantization={"dtype": "uint8", "min": "0"}),
        "uint8 needs the numbers min and scale",
    ),
    "quantized by a word": (
        set_weight(quantization="uint8"),
        "weight 'dense/kernel': its quantization must be an object, not 'uint8'",
    ),
    "quantized by a list": (set_weight(quantization=[1]), "must be an object, not [1]"),
    "quantized by the word float16": (
        set_weight(quantization="float16"),
        "must be an object",
    ),
    "quantized by a huge number": (
        set_weight(quantization={"dtype": "uint8", "min": 10**400, "scale": 1}),
        "uint8 needs the numbers min and scale",
    ),
    "a pipe": (
        lambda p: (
            (p.parent / "group1-shard1of1.bin").unlink(),
            os.mkfifo(p.parent / "group1-shard1of1.bin"),
        ),
        "is a pipe, not a regular file",
    ),
    "a model that is a pipe": (
        lambda p: (p.unlink(), os.mkfifo(p)),
        "is a pipe, not a regular file",
    ),
    "a hard link": (
        lambda p: (
            (p.parent / "group1-shard1of1.bin").unlink(),
            os.link(p.parents[1] / "secret.bin", p.parent / "group1-shard1of1.bin"),
        ),
        "has hard links outside of the model's folder",
    ),
    "a path with NUL": (
        with_manifest(lambda g: g.update(paths=["\0"])),
        "cannot be found",
    ),
    "quantized by an unknown dtype": (
        set_weight(quantization={"dtype": "int4"}),
        "float32 cannot be quantized by 'int4'",
    ),
    "integers quantized as float16": (
        set_weight(quantization={"dtype": "float16"}, dtype="int32"),
        "float16 can quantize float32, not int32",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_are_not_trusted(name, tmp_path):
    (tmp_path / "secret.bin").write_bytes(bytes(32))
    path = write(tmp_path / "model", sequential(dense()), WEIGHTS)
    spoil, message = FILES[name]
    spoil(path)
    tracemalloc.start()
    try:
        with pytest.raises(ModelError) as caught:
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
    assert message in str(caught.value)
