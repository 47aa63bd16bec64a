"""The plugrad-train examples on small data: the demo's network and a transformer."""

import numpy as np
import plugrad as pg
import plugrad_train as pt
import pytest

from examples import digits, language_model, train_digits

SIZE = language_model.Size(layers=1, heads=2, width=32, context=16)


@pytest.fixture(scope="module")
def synthetic():
    """Return noisy images of ten coarse patterns; a quarter of them is held out."""
    rng = np.random.default_rng(0)
    patterns = np.kron(rng.random((10, 4, 4)) > 0.5, np.ones((2, 2)))
    labels = np.arange(400, dtype=np.int32) % 10
    images = patterns[labels] * rng.uniform(0.7, 1.0, (400, 8, 8))
    images = images[..., None].astype(np.float32)
    return digits.Split(images[:300], labels[:300], images[300:], labels[300:])


def test_the_network_of_the_demo_learns(backend, synthetic):
    fitted = train_digits.fit(synthetic, 4)
    assert fitted.history[-1]["accuracy"] > 0.9
    accuracy = digits.accuracy(
        fitted.params, synthetic.test_images, synthetic.test_labels
    )
    assert accuracy == pytest.approx(fitted.history[-1]["accuracy"], abs=1e-6)
    assert fitted.params["dense"].backend == backend


def test_an_interrupted_example_resumes_to_the_same_bits(synthetic, tmp_path):
    first_rows = digits.Split(*(x[:80] for x in synthetic))
    checkpoints = pt.Checkpoints(tmp_path)
    with pg.use_backend("cpu"):
        uninterrupted = train_digits.fit(first_rows, 3)
        train_digits.fit(first_rows, 3, steps=3, checkpoints=checkpoints)
        resumed = train_digits.fit(first_rows, 3, checkpoints=checkpoints, resume=True)
    for name, x in uninterrupted.params.items():
        np.testing.assert_array_equal(x.numpy(), resumed.params[name].numpy())


def test_images_are_shifted_by_at_most_a_pixel(backend):
    image = np.arange(1, 65, dtype=np.float32).reshape(1, 8, 8, 1)
    padded = np.pad(image[0, ..., 0], 1)
    moves = {padded[i : i + 8, j : j + 8].tobytes() for i in range(3) for j in range(3)}
    images = pg.asarray(image.repeat(100, 0))
    found = train_digits.shifted(images, pg.random.key(0)).numpy()
    assert {x.tobytes() for x in found[..., 0]} == moves


def test_the_transformer_learns_and_writes(backend, tmp_path):
    fitted = language_model.fit(SIZE, 150, 8, 6000, report_every=20)
    losses = [record["loss"] for record in fitted.history]
    assert losses[0] < np.log(language_model.CHARACTERS) + 0.1
    assert losses[-1] < 3.4
    written = language_model.sample(fitted.params, SIZE, 20)
    assert len(written) == 20
    assert written == language_model.sample(fitted.params, SIZE, 20)


def test_no_position_sees_later_ones(backend):
    params = language_model.new_params(SIZE, 0)
    codes = np.arange(16, dtype=np.int32)[None]
    other = np.where(codes < 10, codes, 99)
    a, b = (language_model.logits_of(params, x, 2).numpy() for x in (codes, other))
    np.testing.assert_array_equal(a[:, :10], b[:, :10])
    assert np.abs(a[:, 10:] - b[:, 10:]).max() > 1e-3


def test_the_text_is_the_source_of_the_standard_library():
    text = language_model.text(5000)
    assert len(text) == 5000
    assert max(text) < language_model.CHARACTERS
    assert b"incompatible language changes" in text  # the first file is __future__.py


def test_the_command_line_trains_resumes_and_writes(tmp_path, capfd):
    pytest.importorskip("tqdm", reason="the bar needs tqdm: make demo")
    command = ["--characters", "3000", "--size", "1", "2", "16", "16", "--batch", "8"]
    command += ["--out", str(tmp_path), "--backend", "cpu", "--steps"]
    language_model.main([*command, "11"])
    assert " tokens a second, cpu\n" in capfd.readouterr().out
    language_model.main([*command, "11"])  # the training is already complete
    assert pt.Checkpoints(tmp_path).steps()[-1] == 11
