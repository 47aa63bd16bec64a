"""Decoders exported by the model builder of onnxruntime-genai give the same logits.

The models are small and random, so nothing is downloaded. Each is exported with float32
weights and with weights of 4 bits; the prompt fills the caches, and then tokens follow
one by one.
"""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from plugrad_onnx import load

VOCABULARY = 96
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
CONFIGS = {
    "llama": ("LlamaConfig", {}),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {"head_dim": 16}),
    "gemma": ("GemmaConfig", {"head_dim": 16}),
}
HEAD_SIZE = 16
PROMPT = [3, 14, 15, 92, 65, 35]
NEXT = [89, 79, 32]


def required(name):
    reason = f"needs {name}, from the group decoders: make .venv/.group-decoders"
    return pytest.importorskip(name, reason=reason)


@pytest.fixture(scope="module", params=CONFIGS)
def checkpoint(request, tmp_path_factory):
    """Save a random model with a tokenizer, as transformers does; return the folder."""
    required("onnxruntime_genai")
    torch = required("torch")
    transformers = required("transformers")
    from tokenizers import Tokenizer, models

    name, extra = CONFIGS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    config = getattr(transformers, name)(**SIZES, **extra)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():  # larger than at the start of training
            parameter.mul_(4 if parameter.ndim > 1 else 1)
    model.save_pretrained(folder)
    words = {f"w{i}": i for i in range(VOCABULARY)}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="w0")),
        unk_token="w0",
        bos_token="w1",
        eos_token="w2",
        pad_token="w0",
    )
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(params=["fp32", "int4"])
def exported(request, checkpoint):
    """Export a model; return the path of the ONNX file."""
    target = checkpoint / request.param
    if not target.exists():
        command = [sys.executable, "-m", "onnxruntime_genai.models.builder"]
        command += ["-i", str(checkpoint), "-o", str(target), "-p", request.param]
        command += ["-e", "cpu", "-c", str(checkpoint / "cache")]
        subprocess.run(command, check=True, capture_output=True)
        compute_exactly(target / "model.onnx")
    return target / "model.onnx"


def compute_exactly(path):
    """Let ONNX Runtime compute products with packed weights in float32, not in int8."""
    model = onnx.load(path, load_external_data=False)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "accuracy_level":
                attribute.i = 1
    onnx.save(model, path)


def steps(run, described):
    """Run the prompt and then one token after the other; return all logits."""
    caches = {
        name: np.zeros((1, SIZES["num_key_value_heads"], 0, HEAD_SIZE), np.float32)
        for name in described
        if name.startswith("past_key_values")
    }
    found = []
    seen = 0
    for tokens in (PROMPT, *[[token] for token in NEXT]):
        seen += len(tokens)
        given = {
            "input_ids": np.asarray([tokens], np.int64),
            "attention_mask": np.ones((1, seen), np.int64),
            "position_ids": np.arange(seen - len(tokens), seen)[None],
        }
        given = {name: x for name, x in given.items() if name in described} | caches
        logits, *present = run(given)
        found.append(logits)
        caches = dict(zip(caches, present, strict=True))
    return np.concatenate(found, axis=1)


def test_logits_equal_those_of_onnx_runtime(exported, backend):
    ort = required("onnxruntime")
    session = ort.InferenceSession(exported)
    described = [x.name for x in session.get_inputs()]
    expected = steps(lambda given: session.run(None, given), described)
    model = load(exported)
    names = [info.name for info in model.outputs]
    assert names == [x.name for x in session.get_outputs()]

    def run(given):
        return [y.numpy() for y in model(**given)]

    found = steps(run, described)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-3)
