"""Damaged files of every format are either loaded or refused with the proper error.

``make test`` tries up to 300 files of each format, and ``make test-all`` up to 5,000.
A loader raises no other error, and no file takes long. The error classes are counted.
"""

import json
import random
import time
import warnings
from collections import Counter

import numpy as np
import plugrad as pg
import pytest

from tests.fuzz.mutations import mutated_bytes, mutated_json, mutated_proto, nested_json

COUNT, COUNT_WITH_ALL = 300, 5000  # files of each format
MAX_SECONDS = 10  # processor time for one file
SEED = 20261126


def load_mutated(request, load, make, errors, divisor=1):
    """Load mutated files; return counts of the loaded ones and of each error class."""
    count = (COUNT_WITH_ALL if request.config.getoption("all") else COUNT) // divisor
    rng = random.Random(request.config.getoption("soak_seed") or SEED)
    found = Counter()
    texts = []
    for i in range(count):
        source = make(rng)
        start = time.process_time()
        try:
            load(source)
            found["loaded"] += 1
        except errors as error:
            found[type(error).__name__] += 1
            texts.append(str(error))
        except Exception as error:
            error.add_note(f"This was file {i}. Before it: {dict(found)}.")
            raise
        assert time.process_time() - start < MAX_SECONDS, (
            f"file {i} took longer than {MAX_SECONDS} s"
        )
    assert [text for text in texts if not text.replace("\n", "").isprintable()] == []
    print(request.node.name, dict(found))  # shown by -s
    assert found.total() == count
    return found


# --- ONNX ------------------------------------------------------------------------


def onnx_models():
    """Return models of various kinds as bytes."""
    onnx = pytest.importorskip("onnx", reason="onnx has no wheel for this Python")
    from tests.onnx.networks import attention, control, image, quantized, voice

    text = """<ir_version: 8, opset_import: ["": 17, "mine": 1]>
    net (float[N, 2] x) => (float[N, 2] y) {
      s = Constant <value = int64[2] {1, 2}> ()
      w = mine.Scaled <by = 2.0> (x)
      e = Expand (w, s)
      y = Add (w, e)
    }
    <domain: "mine", opset_import: ["": 17]>
    Scaled <by> (a) => (b) {
      c = Constant <value_float: float = @by> ()
      b = Mul (a, c)
    }"""
    makers = (image, voice, quantized, control, attention)
    models = [make() for make in makers] + [onnx.parser.parse_model(text)]
    return [model.SerializeToString() for model in models]


@pytest.mark.parametrize("mutation", ["bytes", "parts"])
def test_onnx(mutation, request):
    models = onnx_models()
    from plugrad_onnx import ModelError, load

    change = mutated_bytes if mutation == "bytes" else mutated_proto
    make = lambda rng: change(rng.choice(models), rng)
    found = load_mutated(
        request, lambda data: load(data, backend="cpu"), make, ModelError, 2
    )
    assert min(found["loaded"], found["ModelError"]) > found.total() // 20, found


# --- TensorFlow.js ---------------------------------------------------------------

TFJS = ["lstm_states", "nested", "bidirectional", "masked", "masking", "bert"]


@pytest.mark.parametrize("mutation", ["json", "bytes", "weights"])
def test_tfjs(mutation, request, tmp_path):
    from plugrad_tfjs import ModelError, load

    from tests.tfjs.test_models import graph_model, layers_model

    sources = []
    for name in TFJS:
        make = graph_model if name == "bert" else layers_model
        path, _ = make(tmp_path / name, name)
        text = path.read_text()
        sources.append((path, text, json.loads(text)))
    shards = {path: [*path.parent.glob("*.bin")] for path, _, _ in sources}
    content = {shard: shard.read_bytes() for rows in shards.values() for shard in rows}

    def make(rng):
        path, text, value = rng.choice(sources)
        path.write_text(text)
        if mutation == "weights":
            for shard in shards[path]:
                data = content[shard]
                shard.write_bytes(
                    mutated_bytes(data, rng) if rng.random() < 0.5 else data
                )
        elif mutation == "bytes":
            path.write_bytes(mutated_bytes(text.encode(), rng))
        elif rng.random() < 0.02:
            path.write_text(nested_json(value, rng))
        else:
            path.write_text(json.dumps(mutated_json(value, rng)))
        return path

    found = load_mutated(
        request, lambda path: load(path, backend="cpu"), make, ModelError, 3
    )
    assert min(found["loaded"], found["ModelError"]) > found.total() // 200, found


# --- GGUF ------------------------------------------------------------------------


def use_language_model(path):
    """Load a model and use all parts of it."""
    from plugrad_gguf import load

    model = load(path, backend="cpu")
    model.logits([0, 1])
    model.generate("the low", max_tokens=3, temperature=1.0, seed=1)
    if "tokenizer.chat_template" in model.metadata:
        model.chat_prompt([{"role": "user", "content": "the"}])


@pytest.mark.parametrize("mutation", ["structure", "anywhere"])
def test_gguf(mutation, request, tmp_path):
    """Most bytes of a file are weights, so half of the files change elsewhere."""
    pytest.importorskip("plugrad_gguf", reason="plugrad-gguf is not installed")
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    from tests.gguf.files import tiny
    from tests.gguf.vocabularies import bytelevel, sentencepiece

    small = {"layers": 1, "width": 16, "hidden": 16, "heads": 2, "head_size": 8}
    small |= {"kv_heads": 1, "rope_size": 8}
    sources = []
    for vocabulary in (bytelevel("smollm"), sentencepiece()):
        path = tiny(tmp_path, vocabulary=vocabulary, **small).path
        sources.append(path.read_bytes())

    def make(rng):
        data = rng.choice(sources)
        weights = data.index(b"token_embd") if mutation == "structure" else len(data)
        size = min(len(data), weights + 700)  # the descriptions of the tensors
        path.write_bytes(mutated_bytes(data[:size], rng) + data[size:])
        return path

    found = load_mutated(request, use_language_model, make, ValueError, 2)
    assert min(found["loaded"], found["ModelError"]) > found.total() // 50, found


# --- safetensors and checkpoints -------------------------------------------------


def weights():
    return {
        "w": np.arange(6.0).reshape(2, 3),
        "b": np.ones(3, "int32"),
        "n": np.ones(()),
    }


def damaged_tensors(data, rng):
    """Return a safetensors file with a mutated header, or with mutated bytes."""
    size = int.from_bytes(data[:8], "little")
    if rng.random() < 0.4:
        return mutated_bytes(data, rng)
    header = mutated_json(json.loads(data[8 : 8 + size]), rng)
    text = json.dumps(header).encode()
    text = nested_json(header, rng).encode() if rng.random() < 0.05 else text
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def test_safetensors(request, tmp_path):
    path = tmp_path / "weights.safetensors"
    pg.save(path, weights())
    data = path.read_bytes()

    def make(rng):
        path.write_bytes(damaged_tensors(data, rng))

    errors = (ValueError, TypeError)  # TypeError: a dtype that plugrad lacks
    with pg.use_backend("cpu"):
        found = load_mutated(request, lambda _: pg.load(path), make, errors)
    assert found["ValueError"] > found.total() // 20, found
    assert found["loaded"] > found.total() // 100, found


def test_checkpoints(request, tmp_path):
    """``restore`` loads the damaged newest checkpoint, or the one before it."""
    train = pytest.importorskip("plugrad_train", reason="needs plugrad-train")
    checkpoints = train.Checkpoints(tmp_path, best="loss")
    for step in (1, 2):
        checkpoints.save(step, weights_as_tensors(), {"a": [1, {}]}, {"loss": 1.0})
    path = checkpoints.path(2)
    tensors = next(tmp_path.glob("step-00000002.*.safetens*"))
    text = path.read_text()
    data = tensors.read_bytes()

    def make(rng):
        value = json.loads(text)
        path.write_text(text)
        tensors.write_bytes(data)
        mutation = rng.randrange(5)
        if mutation == 0:
            tensors.write_bytes(mutated_bytes(data, rng))
        elif mutation == 1:
            path.write_bytes(mutated_bytes(text.encode(), rng))
        elif mutation == 2:
            path.write_text(nested_json(value, rng))
        else:
            value = mutated_json(
                {k: x for k, x in value.items() if k != "checksum"}, rng
            )
            body = json.dumps(value, sort_keys=True, indent=1).encode()
            value["checksum"] = checksum(body)
            path.write_text(json.dumps(value))

    def load(_):
        found = checkpoints.restore(weights_as_tensors())
        assert checkpoints.best_step() in (1, 2)
        if found.step == 1:
            raise train.CheckpointError("the one before was restored")

    with pg.use_backend("cpu"), warnings.catch_warnings():
        warnings.simplefilter("ignore", train.CheckpointWarning)
        found = load_mutated(request, load, make, train.CheckpointError)
    assert min(found["loaded"], found["CheckpointError"]) > found.total() // 50, found


def weights_as_tensors():
    return {name: pg.asarray(x) for name, x in weights().items()}


def checksum(body):
    import hashlib

    return hashlib.sha256(body).hexdigest()
