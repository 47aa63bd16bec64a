"""Small GPT-2 and ViT models, from files with the published names, match PyTorch."""

import json
from pathlib import Path

import numpy as np
import plugrad as pg
import pytest

from examples import gpt2, vit
from tests.examples.published import (
    CODES,
    CONTEXT,
    GPT2,
    HEADS,
    LAYERS,
    TOKENS,
    VIT,
    WIDTH,
    draw,
    image,
)

PYTORCH = json.loads(Path(__file__).with_name("published.json").read_text())
HEAD_SIZE = str(WIDTH // HEADS)


def save_model(folder, shapes, prefix="", **more):
    path = folder / "model.safetensors"
    tensors = {f"{prefix}{name}": x for name, x in draw(shapes).items()}
    pg.save(path, {**tensors, **more})
    return path


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_gpt2_answers_as_pytorch(prefix, backend, tmp_path):
    mask = np.tril(np.ones((1, 1, CONTEXT, CONTEXT), np.float32))
    more = {f"{prefix}h.{i}.attn.bias": mask for i in range(LAYERS)}
    params = gpt2.load(save_model(tmp_path, GPT2, prefix, **more))
    assert {*params} == {*GPT2}
    logits, _ = gpt2.run(params, pg.asarray([CODES]), HEADS)
    np.testing.assert_allclose(logits[0].numpy(), PYTORCH["gpt2"], rtol=1e-4, atol=1e-4)
    assert gpt2.generate(params, CODES, 5, HEADS) == PYTORCH["following"]


def test_the_cache_changes_no_logits(backend, tmp_path):
    params = gpt2.load(save_model(tmp_path, GPT2))
    all_logits, past = gpt2.run(params, pg.asarray([CODES]), HEADS)
    assert past[0].shape == (1, HEADS, len(CODES), WIDTH // HEADS)
    _, past = gpt2.run(params, pg.asarray([CODES[:3]]), HEADS)
    past = tuple(pg.pad(x, [(0, 0), (0, 0), (0, 9), (0, 0)]) for x in past)
    for position, code in enumerate(CODES[3:], 3):
        args = pg.asarray([[code]]), HEADS, past, pg.asarray(position)
        logits, past = gpt2.run(params, *args)
        expected = all_logits[0, position].numpy()
        np.testing.assert_allclose(logits[0, 0].numpy(), expected, rtol=1e-4, atol=1e-5)


def test_gpt2_can_be_fine_tuned(tmp_path):
    with pg.use_backend("cpu"):
        params = gpt2.load(save_model(tmp_path, GPT2))
        codes = pg.asarray([CODES])

        def loss(params):
            logits, _ = gpt2.run(params, codes[:, :-1], HEADS)
            return pg.losses.sparse_softmax_cross_entropy(codes[:, 1:], logits)

        before, slopes = pg.value_and_grad(loss)(params)
        assert all(np.abs(slope.numpy()).max() > 0 for slope in slopes.values())
        moved = {name: x - 0.05 * slopes[name] for name, x in params.items()}
        assert loss(moved).item() < before.item() - 0.1


@pytest.mark.parametrize(("tokens", "count"), [([], 3), ([1] * 8, 5)])
def test_a_text_that_is_too_long_is_refused(tokens, count):
    params = {name: pg.asarray(x) for name, x in draw(GPT2).items()}
    with pytest.raises(ValueError, match=r"generate: \d given \+ \d new tokens; .*12"):
        gpt2.generate(params, tokens, count, HEADS)


def test_vit_answers_as_pytorch(backend, tmp_path):
    params = vit.load(save_model(tmp_path, VIT))
    logits = vit.logits_of(params, pg.asarray(image()), HEADS)
    np.testing.assert_allclose(logits.numpy(), PYTORCH["vit"], rtol=1e-4, atol=1e-4)


def test_commands(tmp_path, capsys):
    path = save_model(tmp_path, GPT2)
    tokens = [*map(str, CODES)]
    options = ["--count", "5", "--head-size", HEAD_SIZE, "--backend", "cpu"]
    gpt2.main([str(path), *options, "--tokens", *tokens])
    first, second = capsys.readouterr().out.splitlines()
    assert [*map(int, first.split())] == PYTORCH["following"]
    assert second.endswith(" tokens a second, cpu")
    assert all(0 <= code < TOKENS for code in PYTORCH["following"])

    path = save_model(tmp_path, VIT)
    np.save(tmp_path / "image.npy", image()[0])
    vit.main([str(path), str(tmp_path / "image.npy"), *options[2:]])
    *rows, last = capsys.readouterr().out.splitlines()
    order = [int(row.removeprefix("class ").partition(":")[0]) for row in rows]
    assert order == np.argsort(PYTORCH["vit"][0])[::-1].tolist()
    assert last.endswith(" ms, cpu")
