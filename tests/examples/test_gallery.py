"""The scripts of the gallery, in small configurations."""

import re
import subprocess
import sys

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.registry.registry import registry

from tests.docs.blocks import ROOT

GALLERY = ROOT / "examples" / "gallery"
for package in ("sklearn", "matplotlib", "PIL", "plugrad_train"):
    pytest.importorskip(package, reason=f"the gallery is not run: no {package}")


@pytest.fixture
def restored_registry(monkeypatch):
    """Forget the contracts and the kernels that a script registers."""
    pg.backends()
    monkeypatch.setattr(registry, "contracts", registry.contracts)


def assert_is_a_picture(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert 8_000 < len(data) < 150_000


def test_low_bit_weights_train_with_straight_through_gradients(
    backend, tmp_path, capsys
):
    pytest.importorskip("plugrad_gradient_packs", reason="the pack is not installed")
    from examples.gallery import quantize

    w = np.array([-0.9, -0.2, 0.1, 0.5, 0.9], np.float32)
    found = quantize.quantized(pg.asarray(w), 2).numpy()
    np.testing.assert_allclose(found, [-0.9, 0, 0, 0.9, 0.9], rtol=1e-6)
    slope = lambda: pg.grad(lambda w: pg.sum(quantize.quantized(w, 3)))(w).tolist()
    assert slope() == [0.0] * 5
    with pg.use_gradients("straight_through", kernels=["Round"]):
        assert slope() == pytest.approx([1.0] * 5)
    if backend == "cpu":
        arguments = ["--epochs", "10", "--out", str(tmp_path / "new" / "a.png")]
        rows = quantize.main(arguments)
        assert [row[0] for row in rows] == list(quantize.BITS)
        assert all(row[3] > row[2] + 0.2 for row in rows)
        assert rows[1][3] > 0.9  # the accuracy with 3 bits
        assert "straight-through\n   2 " in capsys.readouterr().out
        assert_is_a_picture(tmp_path / "new" / "a.png")


def test_a_spiking_network_learns_with_a_surrogate(backend, tmp_path, capsys):
    pytest.importorskip("plugrad_attribution", reason="the packs are not installed")
    from examples.gallery import spikes

    potential, fired = spikes.fire(pg.asarray([0.5, 1.0]), pg.asarray([0.5, 0.5]))
    np.testing.assert_allclose(potential.numpy(), [0.95, 0.4], rtol=1e-6)
    assert fired.tolist() == [0.0, 1.0]
    params = spikes.new_params()
    images = np.random.default_rng(0).random((2, 64), np.float32)
    hidden, outputs = spikes.spikes_of(params, pg.asarray(images))
    assert hidden.shape == (spikes.STEPS, 2, 64)
    assert outputs.shape == (spikes.STEPS, 2, 10)
    slope = lambda: pg.grad(spikes.loss)(params, images, np.array([3, 4]))["w1"]
    assert not slope().numpy().any()
    with pg.use_gradients("surrogate.fast_sigmoid"):
        assert slope().numpy().any()
    if backend == "cpu":
        out = tmp_path / "new" / "a.png"
        found = spikes.main(["--epochs", "3", "--out", str(out)])
        assert found["derivative"][1] < 0.5
        assert found["surrogate.fast_sigmoid"][1] > 0.85
        assert found["surrogate.atan"][1] > 0.85
        curves = spikes.explain(found["surrogate.fast_sigmoid"][0])
        assert {curve[0] for curve in curves.values()} == {1.0}
        assert curves["relevance"][1] < curves["brightness"][1] - 0.2
        assert curves["brightness"][1] < curves["random"][1]
        assert "derivative" in capsys.readouterr().out
        assert_is_a_picture(out)


def test_a_score_falls_by_what_is_removed(backend):
    pytest.importorskip("plugrad_attribution", reason="needs plugrad-attribution")
    from examples.gallery import relevance

    weights = np.random.default_rng(0).normal(size=(16, 24, 3)).astype(np.float32)
    f = lambda images: pg.sum(images * weights, axis=(1, 2, 3))[:, None]
    xs = np.stack([np.ones_like(weights), np.zeros_like(weights)])
    exact = relevance.deletion(f, xs, 0, weights.sum(-1))
    patches = weights.sum(-1).reshape(2, 8, 3, 8).sum((1, 3)).ravel()
    left = np.append(patches.sum() - np.cumsum(np.sort(patches)[::-1]), patches.sum())
    counts = np.ceil(relevance.REMOVED * 6).astype(int)
    np.testing.assert_allclose(exact, left[counts - 1] / left[-1], atol=1e-4)


def test_seven_methods_explain_a_network(monkeypatch, tmp_path, capsys):
    pytest.importorskip("plugrad_attribution", reason="needs plugrad-attribution")
    from examples import efficientnet, photographs
    from examples.gallery import relevance

    photos = [photo for photo in photographs.PHOTOS if photo.package == "sklearn"]
    monkeypatch.setattr(photographs, "PHOTOS", tuple(photos))
    monkeypatch.setattr(photographs, "HEIGHT", 80)
    monkeypatch.setattr(efficientnet, "SIZE", 80)
    with pg.use_backend("cpu"):
        out = tmp_path / "new" / "a.png"
        rows = relevance.main(["--train", "10", "--out", str(out)])
    assert "a small network is trained" in capsys.readouterr().out
    for row in rows:
        assert row.curves.keys() == {*row.maps, "random order"}
        assert len(row.maps) == 7
        for values in row.maps.values():
            assert values.shape == row.image.shape[:2]
            assert np.isfinite(values).all()
        for curve in row.curves.values():
            assert curve[[0, -1]].tolist() == [1.0, 0.0]
    assert out.read_bytes().startswith(b"\x89PNG")


def test_explanations_of_the_pretrained_network_beat_a_random_order():
    pytest.importorskip("plugrad_attribution", reason="needs plugrad-attribution")
    from examples import efficientnet, photographs
    from examples.gallery import relevance

    if efficientnet.packaged(efficientnet.PACKAGE, efficientnet.WEIGHTS) is None:
        pytest.skip("needs the gallery group: make notebooks")
    photo = photographs.PHOTOS[1]
    with pg.use_backend("cpu"):
        image = photographs.read(photo.file, None, efficientnet.SIZE)
        row = relevance.explain(relevance.load_model(0), image)
    assert row.name in ("daisy", "class 985")
    area = {n: np.trapezoid(c, relevance.REMOVED) for n, c in row.curves.items()}
    for name in ("EpsilonPlusFlat", "EpsilonGammaBox", "guided_backprop", "grad_cam"):
        assert area[name] < area["random order"] - 0.1, name


def test_a_voice_is_found_among_other_sounds(tmp_path, capsys):
    pytest.importorskip("plugrad_attribution", reason="needs plugrad-attribution")
    from examples.gallery import voice

    with pg.use_backend("cpu"):
        out = tmp_path / "new" / "a.png"
        rows = voice.main(["--train", "200", "--out", str(out)])
    assert "a small network is trained" in capsys.readouterr().out
    assert all(np.isfinite(row.values).all() for row in rows.values())
    for name in ("integrated_gradients", "deep_lift", "EpsilonPlus"):
        assert rows[name].on_voice > 2 * rows["random order"].on_voice, name
        areas = [np.trapezoid(rows[n].curve) for n in (name, "random order")]
        assert areas[0] < areas[1] / 2, name
    assert_is_a_picture(out)


def test_the_pretrained_network_hears_the_voice():
    pytest.importorskip("plugrad_attribution", reason="needs plugrad-attribution")
    pytest.importorskip("plugrad_onnx", reason="needs plugrad-onnx")
    import plugrad_attribution as attr

    from examples import voices
    from examples.efficientnet import packaged
    from examples.gallery import voice

    if packaged(*voices.VOICE) is None or packaged(*voices.NETWORK) is None:
        pytest.skip("silero-vad and f5-tts are not installed")
    with pg.use_backend("cpu"):
        network, scene = voices.load(0)
        score = voice.score_of(network, scene.cells)
        ones = pg.ones((1, *scene.cells.shape))
        found = attr.deep_lift(score, ones).input.numpy()[0]  # it adds up
    positive = np.maximum(found, 0)
    assert positive[scene.is_voice].sum() > 0.7 * positive.sum()


def test_tokens_of_a_language_model_are_explained(tmp_path, capsys):
    pytest.importorskip("plugrad_attribution", reason="needs plugrad-attribution")
    pytest.importorskip("plugrad_gguf", reason="needs plugrad-gguf")
    from examples.gallery import tokens
    from tests.gguf.files import tiny
    from tests.gguf.vocabularies import bytelevel

    path = tiny(tmp_path, vocabulary=bytelevel(), tokens=269).path
    out = tmp_path / "new" / "a.png"
    arguments = ["--model", str(path), "--out", str(out), "--prompts", "the owl", "12"]
    with pg.use_backend("cpu"):
        rows = tokens.main(arguments)
    assert "area below the curve" in capsys.readouterr().out
    for row, text in zip(rows, ("the owl", "12"), strict=True):
        assert "".join(row.tokens) == text
        assert row.curves.keys() == {*row.values, "random order"}
        for name, values in row.values.items():
            assert values.shape == (len(row.tokens),), name
            assert np.isfinite(values).all(), name
        starts = [curve[0] for curve in row.curves.values()]
        ends = [curve[-1] for curve in row.curves.values()]
        assert len({*np.round(starts, 4)}) == len({*np.round(ends, 4)}) == 1
    assert_is_a_picture(out)


def test_waves_are_the_same_on_both_backends(restored_registry, tmp_path, capsys):
    pytest.importorskip("plugrad_opencl", reason="plugrad-opencl is not installed")
    if "opencl" not in pg.backends():
        pytest.skip("opencl has no device")
    from examples.gallery import waves

    arguments = ["--size", "24", "--steps", "20", "--iterations", "40"]
    found = waves.main([*arguments, "--out", str(tmp_path / "a.png")])
    try:
        target = waves.nabla(24)
        for name, steps in found.items():
            assert len(steps) == 21
            assert np.mean((steps[-1] - target) ** 2) < 0.5 * np.mean(target**2), name
        for a, b in zip(found["cpu"], found["opencl"], strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)
        x = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
        exact = sum(np.roll(x, s, axis) for s in (-1, 1) for axis in (0, 1)) - 4 * x
        for name in pg.backends():
            with pg.use_backend(name):
                y = waves.laplacian(pg.asarray(x)).numpy()
                np.testing.assert_allclose(y, exact, atol=1e-5)
                pg.check_gradients(lambda x: waves.laplacian(x), x[:3, :3])
        assert waves.LAPLACIAN.name in pg.get_kernels_for_backend("opencl")
    finally:
        for name in ("cpu", "opencl"):
            pg.unregister_kernel(waves.LAPLACIAN.name, name)


def test_implicit_gradients_agree_with_finite_differences(tmp_path, capsys):
    from examples.gallery import bilevel

    train, validation, _ = bilevel.load()
    first_five = lambda data: (data[0][:, :5], data[1])
    f = lambda decays: bilevel.loss(
        bilevel.trained(decays, first_five(train)), first_five(validation)
    )
    with pg.use_backend("cpu"):
        decays = pg.full(5, -3.0, dtype="float64")
        slope = pg.grad(f)(decays).numpy()
        for i, move in enumerate(1e-4 * np.eye(5)):
            rise = f(decays + move) - f(decays - move)
            assert slope[i] == pytest.approx(rise.item() / 2e-4, rel=1e-4, abs=1e-9)
        half = lambda w: pg.sum(w**3) / 6  # its Hessian is diag(w)
        product = bilevel.hessian_product(half, pg.asarray([1.0, 2.0]))
        assert product(pg.asarray([3.0, 5.0])).tolist() == [3.0, 10.0]
        losses = bilevel.main(["--steps", "3", "--out", str(tmp_path / "a.png")])
    assert (np.diff(losses[:, 0]) < 0).all()
    assert_is_a_picture(tmp_path / "a.png")


@pytest.mark.parametrize("name", ["cpu", "wasm", "opencl"])
def test_a_gaussian_process_learns_its_length_scale(name, tmp_path):
    """The script needs a new process, because SciPy reads its environment on import."""
    if name not in pg.backends():
        pytest.skip(f"{name} is not installed")
    script = GALLERY / "gaussian_process.py"
    out = tmp_path / "a.png"
    command = [sys.executable, "-W", "error", script, "--backend", name]
    done = subprocess.run(
        [*command, "--steps", "25", "--out", out], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    first, likelihood, *_ = done.stdout.splitlines()
    assert first == f"rbf_kernel of scikit-learn runs on {name}"
    before, after = map(float, re.findall(r"-?\d+\.\d+", likelihood))
    assert after < before - 50
    assert_is_a_picture(out)


def test_a_kernel_that_misbehaves_is_stopped(restored_registry, capsys):
    pytest.importorskip("plugrad_wasm", reason="plugrad-wasm is not installed")
    pytest.importorskip("ziglang", reason="ziglang, which compiles, is not installed")
    from examples.gallery import sandbox

    reasons = {
        "behaves": "none",
        "never ends": "it took longer than time_limit=0.5 s",
        "reads out of bounds": "out of bounds memory access",
        "writes out of bounds": "out of bounds memory access",
        "recurses for ever": "out of bounds memory access",
        "traps": "instruction executed",
    }
    found = sandbox.main()
    assert found.keys() == reasons.keys()
    for name, (message, seconds, after) in found.items():
        assert message.endswith(reasons[name])
        assert name == "behaves" or sandbox.UNTRUSTED.name in message
        assert after == [2.0, 4.0]
        assert seconds < 20
    assert found["never ends"][1] >= 0.5
    assert capsys.readouterr().out.count("\n") == 7


def test_private_gradients_are_clipped(backend, tmp_path, capsys):
    from examples.gallery import privacy

    grads = {
        "w": pg.asarray([[[3.0], [0.0]], [[0.0], [0.3]]]),
        "b": pg.asarray([[4.0], [0.4]]),
    }
    total, norms = privacy.private(grads, 0.0, pg.random.key(0))
    assert norms.tolist() == pytest.approx([5.0, 0.5])
    np.testing.assert_allclose(total["w"].numpy(), [[0.6], [0.3]], rtol=1e-6)
    np.testing.assert_allclose(total["b"].numpy(), [1.2], rtol=1e-6)
    assert privacy.epsilon(10.0, 150) == pytest.approx(6.6268, abs=1e-3)
    if backend == "cpu":
        rows = privacy.main(["--steps", "30", "--out", str(tmp_path / "a.png")])
        assert rows[0][2] > 0.6
        assert rows[0][2] > rows[-1][2]
        assert_is_a_picture(tmp_path / "a.png")


def test_the_curves_of_all_backends_are_the_same(tmp_path, capsys):
    from examples.gallery import backends

    curves = backends.main(
        ["--epochs", "2", "--out", str(tmp_path / "a.png"), "--backends"]
        + [name for name in ("cpu", "wasm", "opencl") if name in pg.backends()]
    )
    assert len(curves) > 1
    for name, losses in curves.items():
        np.testing.assert_allclose(losses, curves["cpu"], rtol=1e-4, err_msg=name)
        assert losses[-5:].mean() < 0.6 * losses[:5].mean()
    assert_is_a_picture(tmp_path / "a.png")
