"""The demo: its parts on synthetic digits, and a short complete run on the real ones.

The complete run needs the packages of ``--group demo``. Without them it is skipped, and
the summary says so.
"""

import numpy as np
import plugrad as pg
import pytest

from examples import digits


@pytest.fixture
def synthetic():
    """Return noisy images of ten coarse patterns, and their labels."""
    rng = np.random.default_rng(0)
    patterns = np.kron(rng.random((10, 4, 4)) > 0.5, np.ones((2, 2)))
    labels = np.arange(200, dtype=np.int32) % 10
    images = patterns[labels] * rng.uniform(0.7, 1.0, (200, 8, 8))
    return images[..., None].astype(np.float32), labels


def test_the_network_learns(backend, synthetic):
    images, labels = synthetic
    rng = np.random.default_rng(0)
    weights = digits.new_weights(rng)
    assert digits.accuracy(weights, images, labels) < 0.5
    steps = list(digits.train(weights, images, labels, rng, epochs=6))
    counts, losses = zip(*steps, strict=True)
    assert sum(counts) == 6 * len(images)
    assert np.mean(losses[-7:]) < 0.5 * np.mean(losses[:7])
    assert digits.accuracy(weights, images, labels) > 0.9
    assert {v.dtype for v in weights.values()} == {np.dtype("float32")}
    assert pg.get_backend() == weights["dense"].value.backend == backend


def test_gradients_of_each_example(backend, synthetic):
    images, labels = (pg.asarray(x[:3]) for x in synthetic)
    weights = digits.new_weights(np.random.default_rng(0))
    values = {name: v.value for name, v in weights.items()}
    loss = lambda values, x, label: digits.loss_of(values, x[None], label[None])
    each = pg.vmap(pg.grad(loss), in_axes=(None, 0, 0))(values, images, labels)
    for i in range(3):
        gradients = pg.grad(loss)(values, images[i], labels[i])
        for name, dw in gradients.items():
            found = each[name][i].numpy()
            np.testing.assert_allclose(found, dw.numpy(), rtol=1e-4, atol=1e-5)
    _, batch_gradients = pg.variable_grads(
        lambda: digits.loss_of(weights, images, labels)
    )
    for name, v in weights.items():  # the loss of a batch is the mean
        mean = pg.mean(each[name], axis=0).numpy()
        np.testing.assert_allclose(
            mean, batch_gradients[v].numpy(), rtol=1e-4, atol=1e-5
        )


def test_one_step_of_adam(backend):
    x = pg.Variable([1.0, -2.0, 3.0])
    optimizer = digits.Adam([x])
    optimizer.step({x: pg.asarray([0.5, -100.0, 0.0])}, rate=0.1)
    np.testing.assert_allclose(x.numpy(), [0.9, -1.9, 3.0], rtol=1e-5)
    optimizer.step({x: pg.asarray([0.5, -100.0, 0.0])}, rate=0.1)
    np.testing.assert_allclose(x.numpy(), [0.8, -1.8, 3.0], rtol=1e-5)


def test_shifted_images_are_moved_by_at_most_a_pixel():
    images = np.arange(1.0, 65.0, dtype=np.float32).reshape(1, 8, 8, 1).repeat(200, 0)
    moved = digits.shifted(images, np.random.default_rng(0))
    assert moved.shape == images.shape
    assert moved.dtype == np.float32
    padded = np.pad(images[0, ..., 0], 1)
    moves = {padded[i : i + 8, j : j + 8].tobytes() for i in range(3) for j in range(3)}
    assert {image.tobytes() for image in moved} == moves


def test_saliency_is_the_slope_of_the_winning_logit(backend, synthetic):
    weights = digits.new_weights(np.random.default_rng(1))
    images = synthetic[0][:3]
    winning = lambda x: (
        digits.classify(weights, pg.asarray(x)).numpy().max(axis=-1).astype(np.float64)
    )
    maps = digits.saliency(weights, images)
    assert maps.shape == (3, 8, 8)
    step = np.zeros((8, 8, 1), np.float32)
    step[4, 4] = 1e-2
    slopes = (winning(images + step) - winning(images - step)) / 2e-2
    np.testing.assert_allclose(maps[:, 4, 4], slopes, rtol=0.1, atol=0.02)


def test_guided_saliency_does_not_change_later_saliency_maps(backend, synthetic):
    dy = pg.asarray([-1.0, -1.0, 2.0, 2.0])
    y = pg.asarray([0.0, 3.0, 0.0, 3.0])
    assert digits.guided(dy, y).tolist() == [0.0, 0.0, 0.0, 2.0]
    weights = digits.new_weights(np.random.default_rng(1))
    images = synthetic[0][:3]
    before = digits.saliency(weights, images)
    guided = digits.guided_saliency(weights, images)
    assert guided.shape == before.shape
    assert np.abs(guided - before).max() > 0.01
    np.testing.assert_array_equal(digits.saliency(weights, images), before)


def test_the_picture_is_drawn(backend, synthetic, tmp_path):
    pytest.importorskip("matplotlib", reason="the PNG is not drawn: no matplotlib")
    images, labels = synthetic
    path = tmp_path / "new" / "maps.png"
    weights = digits.new_weights(np.random.default_rng(0))
    indices = digits.one_of_each(labels)
    assert labels[indices].tolist() == list(range(10))
    digits.draw(weights, images[indices], labels[indices], path)
    assert_is_a_picture(path)


def test_a_short_run_on_the_real_digits(backend, tmp_path, capsys):
    for package in ("sklearn", "tqdm", "matplotlib"):
        pytest.importorskip(package, reason=f"the demo is not run: no {package}")
    out = tmp_path / "digits.png"
    arguments = ["--seed", "1", "--epochs", "2", "--backend", backend, "--out", out]
    score = digits.main(list(map(str, arguments)))
    assert score > 0.85
    shown = capsys.readouterr()
    assert f"on backend {backend!r}" in shown.out
    assert f"test accuracy {score:.2%}" in shown.out
    assert "images per second" in shown.out
    assert f"saliency maps: {out}" in shown.out
    assert "loss=" in shown.err  # the progress bar
    assert_is_a_picture(out)


def assert_is_a_picture(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 20_000
    width, height = (int.from_bytes(data[i : i + 4]) for i in (16, 20))
    assert width > 1000
    assert height > 500
