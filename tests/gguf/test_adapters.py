"""Low-rank adapters: what they add, their gradients, training, files, and errors."""

import gguf
import numpy as np
import plugrad as pg
import pytest
from plugrad_gguf import Adapter, ModelError, load

from tests.gguf import reference
from tests.gguf.files import Tiny, tiny
from tests.gguf.vocabularies import bytelevel

TOKENS = [17, 250, 3, 3, 99, 120, 0]
EVERY = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
TOLERANCE = {"rtol": 1e-4, "atol": 3e-4}


@pytest.fixture
def made(tmp_path):
    return tiny(tmp_path, vocabulary=bytelevel(), seed=3)


def filled(adapter, seed=1):
    """Return an adapter whose matrices ``b`` are not 0."""
    rng = np.random.default_rng(seed)
    params = {}
    for name, pair in adapter.params.items():
        b = rng.normal(size=pair["b"].shape) / 20
        params[name] = {"a": pair["a"], "b": pg.asarray(b, dtype="float32")}
    return adapter.with_params(params)


def merged(made, adapter):
    """Return a model whose weights include those of an adapter, in float64."""
    arrays = dict(made.arrays)
    for name, pair in adapter.params.items():
        a, b = (np.float64(pair[key].numpy()) for key in "ab")
        weight = f"{name}.weight"
        arrays[weight] = np.float64(arrays[weight]) + adapter.alpha / len(a) * b @ a
    return Tiny(made.path, made.sizes, arrays)


def cross_entropy(logits, labels):
    logs = logits - logits.max(-1, keepdims=True)
    logs = logs - np.log(np.exp(logs).sum(-1, keepdims=True))
    return -logs[np.arange(len(labels)), labels].mean()


@pytest.mark.parametrize("targets", [("attn_q", "attn_v"), EVERY], ids=["two", "every"])
def test_an_adapter_adds_a_product_to_the_weights(made, targets, backend):
    model = load(made.path)
    adapter = filled(model.new_adapter(3, alpha=6.0, targets=targets))
    with model.use_adapter(adapter):
        found = model.logits(TOKENS)
    wanted = reference.logits(merged(made, adapter), TOKENS)
    np.testing.assert_allclose(found.numpy(), wanted, **TOLERANCE)
    assert np.abs(wanted - reference.logits(made, TOKENS)).max() > 0.1


def test_a_new_adapter_changes_no_bit(made, backend):
    model = load(made.path)
    plain = model.logits(TOKENS)
    with model.use_adapter(model.new_adapter(targets=EVERY)):
        assert model.logits(TOKENS).tolist() == plain.tolist()


def test_texts_and_explanations_use_the_adapter(made):
    model = load(made.path, backend="cpu")
    adapter = filled(model.new_adapter(targets=EVERY))
    plain = model.generate(TOKENS, max_tokens=6)
    with model.use_adapter(adapter):
        stream = model.stream(TOKENS, max_tokens=6)
        explained = model.explain(TOKENS, [5])
        with model.use_adapter(None):
            assert model.generate(TOKENS, max_tokens=6) == plain
    text = "".join(stream)  # it keeps the adapter after the block
    assert text != plain
    other = merged(made, adapter)
    tokens = [*TOKENS]
    for code in stream.tokens:
        assert code == reference.logits(other, tokens)[-1].argmax()
        tokens.append(code)
    assert explained.logit == pytest.approx(
        reference.logits(other, TOKENS)[-1, 5], rel=1e-4, abs=1e-3
    )
    assert model.generate(TOKENS, max_tokens=6) == plain


@pytest.mark.parametrize("prompt", [0, 1, 4])
def test_the_loss_is_a_mean_over_the_counted_tokens(made, prompt, backend):
    model = load(made.path)
    found = model.loss(TOKENS, prompt_tokens=prompt)
    first = max(prompt, 1)
    logits = reference.logits(made, TOKENS)[first - 1 : -1]
    assert found.item() == pytest.approx(
        cross_entropy(logits, TOKENS[first:]), rel=1e-4
    )


def test_gradients_equal_differences(made, backend):
    model = load(made.path)
    adapter = filled(model.new_adapter(2, targets=EVERY))
    loss = lambda params: model.loss(TOKENS, adapter=adapter.with_params(params))
    grads = pg.grad(loss)(adapter.params)
    rng = np.random.default_rng(5)
    direction = {
        name: {key: rng.normal(size=x.shape) for key, x in pair.items()}
        for name, pair in adapter.params.items()
    }
    slope = sum(
        (grads[name][key].numpy() * step).sum()
        for name, steps in direction.items()
        for key, step in steps.items()
    )

    def moved(size):
        params = {
            name: {
                key: pg.asarray(
                    x.numpy() + size * direction[name][key], dtype="float64"
                )
                for key, x in pair.items()
            }
            for name, pair in adapter.params.items()
        }
        other = merged(made, adapter.with_params(params))
        return cross_entropy(reference.logits(other, TOKENS)[:-1], TOKENS[1:])

    with pg.use_backend("cpu"):
        difference = (moved(1e-4) - moved(-1e-4)) / 2e-4
    assert slope == pytest.approx(difference, rel=1e-3)


def test_training_gives_the_same_losses_on_all_backends(made, backend):
    def losses(where):
        model = load(made.path, backend=where)
        adapter = model.new_adapter(4, alpha=4.0)
        loss = lambda params: model.loss(TOKENS, adapter=adapter.with_params(params))

        @pg.jit
        def step(params):
            value, grads = pg.value_and_grad(loss)(params)
            return value, pg.tree.map(lambda p, g: p - 0.03 * g, params, grads)

        params, found = adapter.params, []
        for _ in range(8):
            value, params = step(params)
            found.append(value.item())
        return found

    found = losses(backend)
    assert found[-1] < 0.8 * found[0]
    np.testing.assert_allclose(found, losses("cpu"), rtol=1e-3)


# --- files -----------------------------------------------------------------------


def test_a_file_keeps_the_adapter(made, tmp_path):
    model = load(made.path, backend="cpu")
    adapter = filled(model.new_adapter(3, alpha=5.0))
    path = tmp_path / "adapter.gguf"
    adapter.save(path)
    found = model.load_adapter(path)
    assert isinstance(found, Adapter)
    assert found.alpha == 5.0
    assert found.params.keys() == adapter.params.keys()
    for name, pair in adapter.params.items():
        for key, x in pair.items():
            assert found.params[name][key].tolist() == x.tolist()
    assert [file.name for file in tmp_path.iterdir() if "unfinished" in file.name] == []
    assert repr(found) == "<Adapter: 4 matrices, 1344 elements>"


def test_the_file_has_the_layout_of_llama_cpp(made, tmp_path):
    model = load(made.path, backend="cpu")
    model.new_adapter(3, targets=["ffn_down"]).save(tmp_path / "adapter.gguf")
    reader = gguf.GGUFReader(tmp_path / "adapter.gguf")
    text = lambda name: str(bytes(reader.fields[name].parts[-1]), "utf-8")
    assert text("general.type") == "adapter"
    assert text("general.architecture") == "llama"
    assert text("adapter.type") == "lora"
    assert reader.fields["adapter.lora.alpha"].parts[-1].item() == 16.0
    shapes = {tensor.name: [*tensor.shape] for tensor in reader.tensors}
    assert shapes == {  # GGUF lists the last axis first
        f"blk.{i}.ffn_down.weight.lora_{key}": shape
        for i in (0, 1)
        for key, shape in {"a": [96, 3], "b": [3, 64]}.items()
    }


def test_an_alpha_of_0_stands_for_the_rank(made, tmp_path):
    model = load(made.path, backend="cpu")
    adapter = model.new_adapter(3, alpha=0.0)
    adapter.save(tmp_path / "adapter.gguf")
    assert model.load_adapter(tmp_path / "adapter.gguf").alpha == 3.0


def written(path, architecture="llama", kind="adapter", tensors=()):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type(kind)
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 1.0)
    for name, shape in tensors:
        writer.add_tensor(name, np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


A, B = "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b"


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        (
            {"architecture": "qwen2"},
            ["general.architecture is 'qwen2'; expected 'llama'"],
        ),
        ({"kind": "model"}, ["general.type is 'model'; expected 'adapter'"]),
        (
            {"tensors": [("output.weight", (3, 3))]},
            ["tensor 'output.weight' is not part of a LoRA adapter"],
        ),
        (
            {"tensors": [(A, (3, 64))]},
            ["'blk.0.attn_q' needs two tensors, a and b; got a"],
        ),
        (
            {"tensors": [(A, (3, 64)), (B, (64, 2))]},
            [
                "'blk.0.attn_q' has tensors of shapes (3, 64) and (64, 2); the model "
                "needs (rank, 64) and (64, rank)"
            ],
        ),
        (
            {"tensors": [(A.replace("0", "7"), (3, 64))]},
            ["the model has no matrix 'blk.7.attn_q' that can be adapted"],
        ),
    ],
)
def test_other_files_are_refused(options, problems, made, tmp_path):
    model = load(made.path, backend="cpu")
    with pytest.raises(ModelError) as raised:
        model.load_adapter(written(tmp_path / "other.gguf", **options))
    assert [*raised.value.problems] == problems


def test_a_model_is_not_an_adapter(made):
    with pytest.raises(ModelError, match=r"general\.type is None; expected 'adapter'"):
        load(made.path, backend="cpu").load_adapter(made.path)


def test_an_adapter_has_a_budget(made, tmp_path):
    model = load(made.path, backend="cpu")
    model.new_adapter(64).save(tmp_path / "adapter.gguf")
    with pytest.raises(ModelError, match="bytes are needed"):
        model.load_adapter(tmp_path / "adapter.gguf", budget=pg.Budget(bytes=1000))


# --- errors ----------------------------------------------------------------------


def test_bad_arguments_are_refused(made, tmp_path):
    model = load(made.path, backend="cpu")
    with pytest.raises(ValueError, match="new_adapter: rank must be 1 or more, got 0"):
        model.new_adapter(0)
    message = "new_adapter: targets must be some of attn_q, .*; got attn"
    with pytest.raises(ValueError, match=message):
        model.new_adapter(targets=["attn"])
    with pytest.raises(ValueError, match="; got none"):
        model.new_adapter(targets=[])
    with pytest.raises(
        ValueError, match="loss: no token is left to predict; the text "
    ):
        model.loss(TOKENS, prompt_tokens=7)
    with pytest.raises(ValueError, match="loss: no token is left to predict"):
        model.loss([3])
    (tmp_path / "other").mkdir()
    other = load(tiny(tmp_path / "other", width=32).path, backend="cpu").new_adapter()
    message = "use_adapter: 'blk.0.attn_q' has tensors of shapes"
    with pytest.raises(ValueError, match=message), model.use_adapter(other):
        pass
    assert model.logits(TOKENS).shape[0] == len(TOKENS)
