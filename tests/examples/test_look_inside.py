"""Four maps of a network match their formulas, and are the same on each backend.

The network trains on small versions of scikit-learn's two photographs. The four
photographs in the published picture need scikit-image, from ``--group gallery``.
"""

import io
import pickle
import sys
import types

import numpy as np
import plugrad as pg
import pytest

pytest.importorskip("PIL", reason="Pillow, which reads photographs, is not installed")
pytest.importorskip("plugrad_gradient_packs", reason="the pack is not installed")

from examples import efficientnet, look_inside, photographs

W = np.random.default_rng(1).normal(size=(24, 32, 3)).astype(np.float32)
IMAGE = np.random.default_rng(0).random((24, 32, 3), np.float32)


@pytest.fixture(scope="module")
def network():
    """Return a network with random weights."""
    with pg.use_backend("cpu"):
        params = photographs.new_params(0)
    score = lambda image: photographs.logits_of(params, image[None])[0]
    return look_inside.Network(score, photographs.CLASSES, None)


@pytest.fixture
def two_photographs(monkeypatch):
    """Use only the photographs of scikit-learn, at a small size."""
    pytest.importorskip("sklearn", reason="needs the demo group: make demo")
    from_sklearn = [photo for photo in photographs.PHOTOS if photo.package == "sklearn"]
    monkeypatch.setattr(photographs, "PHOTOS", tuple(from_sklearn))
    monkeypatch.setattr(photographs, "HEIGHT", 80)
    return from_sklearn


# --- maps match their formulas ---------------------------------------------------

linear = lambda image: pg.sum(image * W)
square = lambda image: pg.sum(pg.square(image))
EXACT = {
    "gradient": (linear, lambda: np.abs(W).max(-1)),
    "integrated gradients": (
        square,
        lambda: np.abs((IMAGE**2 - look_inside.blurred(IMAGE) ** 2).sum(-1)),
    ),
    "guided backpropagation": (
        lambda image: pg.sum(pg.relu(image - 0.5) * W),
        lambda: (np.maximum(W, 0) * (IMAGE > 0.5)).max(-1),
    ),
    "Grad-CAM": (
        lambda image: pg.sum(pg.relu(pg.mean(image, -1)[None, ..., None]) * 2.0),
        lambda: 2 * IMAGE.mean(-1),
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_map_is_its_formula(name, backend):
    score, exact = EXACT[name]
    found = look_inside.MAPS[name](score, IMAGE)
    np.testing.assert_allclose(found, exact(), rtol=1e-4, atol=1e-5)


def test_all_maps_are_tested():
    assert EXACT.keys() == look_inside.MAPS.keys()


def test_grad_cam_takes_the_last_features(backend):
    filters = pg.asarray(np.ones((1, 1, 3, 2), np.float32))

    def score(image):
        x = pg.relu(pg.conv2d(image[None], filters))
        x = pg.relu(pg.max_pool(x, 2) * pg.asarray([1.0, 3.0]))
        return pg.sum(pg.mean(x, axis=(1, 2)) * pg.asarray([1.0, -0.1]))

    pooled = IMAGE.sum(-1).reshape(12, 2, 16, 2).max((1, 3))
    exact = look_inside.enlarged(np.maximum(pooled - 0.3 * pooled, 0), (24, 32)) / 192
    np.testing.assert_allclose(look_inside.grad_cam(score, IMAGE), exact, rtol=1e-4)


def test_a_blurred_image_keeps_its_mean_and_loses_its_edges():
    image = np.zeros((60, 80), np.float32)
    image[28:32, 38:42] = 1
    found = look_inside.blurred(image, 3)
    assert found.sum() == pytest.approx(16, rel=1e-4)
    assert found.max() < 0.25
    np.testing.assert_allclose(look_inside.blurred(np.ones((9, 7, 3))), 1, rtol=1e-6)


# --- the same on each backend ----------------------------------------------------


def test_maps_are_those_of_cpu(network, backend):
    found = look_inside.explain_image(network, IMAGE)
    with pg.use_backend("cpu"):
        exact = look_inside.explain_image(network, IMAGE)
    assert found.name == exact.name
    assert found.maps.keys() == look_inside.MAPS.keys()
    for title, values in found.maps.items():
        assert np.ptp(values) > 0, title
        assert look_inside.difference(exact.maps[title], values) < 1e-4, title


def test_each_backend_computes_its_own_maps(network, backend):
    with pg.profile() as profile:
        look_inside.grad_cam(lambda image: network.scores(image)[0], IMAGE)
    found = {run.backend for run in profile.records if run.kernel == "Conv2D"}
    assert found == {backend}


def test_a_network_of_onnx_has_the_same_maps(network, backend, tmp_path):
    onnx = pytest.importorskip("plugrad_onnx", reason="plugrad-onnx is not installed")

    def standardized(x):
        image = pg.permute_dims(x, (0, 2, 3, 1)) * look_inside.STD + look_inside.MEAN
        return network.scores(image[0])[None]

    with pg.use_backend("cpu"):
        onnx.save(standardized, [pg.ones((1, 3, 24, 32))], tmp_path / "net.onnx")
    loaded = look_inside.load_onnx_network(tmp_path / "net.onnx")
    assert loaded.size == (24, 32)
    exact = look_inside.explain_image(network, IMAGE)
    found = look_inside.explain_image(loaded, IMAGE)
    index = photographs.CLASSES.index(exact.name)
    assert found.name == f"class {index}"
    for title, values in found.maps.items():
        assert look_inside.difference(exact.maps[title], values) < 1e-3, title


# --- complete runs ----------------------------------------------------------------


def test_crops_have_the_class_of_their_centre(two_photographs, monkeypatch):
    colours = {"dahlia": 0.9, "pagoda": 0.1}
    monkeypatch.setattr(
        photographs,
        "at_height",
        lambda photo, height: np.full((height, 2 * height, 3), colours[photo.name]),
    )
    rng = np.random.default_rng(0)
    crops = [photographs.crop(rng) for _ in range(200)]
    names = {1: "dahlia", 2: "pagoda"}  # by class; class 0 is neither
    assert {label for _, label in crops} == {0, 1, 2}
    for image, label in crops:
        assert image.shape == (photographs.CROP, photographs.CROP, 3)
        assert not label or image[0, 0, 0] == colours[names[label]]


def test_a_short_run_on_real_photographs(two_photographs, backend, tmp_path, capsys):
    out = tmp_path / "new" / "maps.png"
    command = ["--backends", "cpu", backend, "--train", "--steps", "10"]
    command += ["--out", str(out)]
    rows = look_inside.main(command)
    shown = capsys.readouterr().out
    assert "10 steps in " in shown
    assert f"{backend}: maps within " in shown
    assert [row.image.shape[0] for row in rows[backend]] == [80, 80]
    for one, other in zip(rows["cpu"], rows[backend], strict=True):
        for title in look_inside.MAPS:
            gap = look_inside.difference(one.maps[title], other.maps[title])
            assert gap < 5e-3, title  # after 10 steps, maps are weak
    data = out.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20]) == 1100


def test_the_network_learns(two_photographs):
    with pg.use_backend("cpu"):
        _, accuracy = photographs.train(60)
    assert accuracy > 0.7


def test_grad_cam_follows_the_object():
    """On all four photographs, most of the map lies on the object."""
    pytest.importorskip("skimage", reason="needs the gallery group: make notebooks")
    with pg.use_backend("cpu"):
        network = look_inside.train_network(500)  # as in the picture
        for photo in photographs.PHOTOS:
            row = look_inside.explain_image(network, photographs.read(photo.file))
            assert row.name == photo.name
            height, width = row.image.shape[:2]
            left, top, right, bottom = photo.box
            values = row.maps["Grad-CAM"].copy()
            inside = values[
                int(top * height) : int(bottom * height),
                int(left * width) : int(right * width),
            ].sum()
            area = (right - left) * (bottom - top)
            assert inside / values.sum() > 0.3 + 0.7 * area, photo.name


# --- the pretrained network ------------------------------------------------------


class Storage:
    """A stand-in for a PyTorch storage, to which pickles refer by a key."""

    def __init__(self, key, values):
        self.key, self.values = key, values


class Strided:
    """An object that is pickled like a PyTorch tensor."""

    def __init__(self, storage, start, shape, strides):
        self.arguments = storage, start, shape, strides, False, {}

    def __reduce__(self):
        return sys.modules["torch._utils"]._rebuild_tensor_v2, self.arguments


@pytest.fixture
def torch_names(monkeypatch):
    """Provide the names that PyTorch's files contain, without PyTorch."""
    torch = types.ModuleType("torch")
    utils = types.ModuleType("torch._utils")
    torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})

    def rebuild():
        raise AssertionError("a file of PyTorch ran code")

    rebuild.__module__ = "torch._utils"
    rebuild.__name__ = rebuild.__qualname__ = "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = rebuild
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utils)
    return torch


def torch_file(torch, tensors, storages):
    """Return a file in the format of ``torch.save`` before PyTorch 1.6."""

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            if isinstance(value, Storage):
                size = len(value.values)
                return "storage", torch.FloatStorage, value.key, "cpu", size, None
            return None

    file = io.BytesIO()
    for part in (1, 1001, {}, tensors, [storage.key for storage in storages]):
        Pickler(file, protocol=2).dump(part)
    for storage in storages:
        file.write(len(storage.values).to_bytes(8, "little"))
        file.write(np.asarray(storage.values, "<f4").tobytes())
    file.seek(0)
    return file


def test_a_file_of_pytorch_has_its_strides_and_offsets(torch_names):
    one = Storage("7", range(8))
    other = Storage("3", [0.5])
    tensors = {
        "rows": Strided(one, 2, (2, 3), (3, 1)),
        "columns": Strided(one, 0, (2, 3), (1, 2)),
        "scalar": Strided(other, 0, (), ()),
    }
    found = efficientnet.read_pytorch(torch_file(torch_names, tensors, [other, one]))
    assert found["rows"].tolist() == [[2, 3, 4], [5, 6, 7]]
    assert found["columns"].tolist() == [[0, 2, 4], [1, 3, 5]]
    assert found["scalar"].tolist() == 0.5


@pytest.mark.parametrize(
    ("start", "shape", "strides"),
    [(3, (2, 3), (3, 1)), (0, (2, 3), (9, 1)), (0, (9,), (1,)), (0, (2,), (-1,))],
)
def test_a_tensor_outside_of_its_storage_is_refused(torch_names, start, shape, strides):
    storage = Storage("7", range(8))
    tensors = {"a": Strided(storage, start, shape, strides)}
    with pytest.raises((TypeError, ValueError), match="buffer"):
        efficientnet.read_pytorch(torch_file(torch_names, tensors, [storage]))


def test_a_pickle_that_could_run_code_is_refused():
    file = io.BytesIO(pickle.dumps(print))
    with pytest.raises(pickle.UnpicklingError, match=r"builtins\.print is not part"):
        efficientnet.TensorUnpickler(file).load()


def test_without_the_weights_a_network_is_trained_and_the_program_says_so(
    two_photographs, monkeypatch, capsys
):
    monkeypatch.setattr(efficientnet, "packaged", lambda package, path: None)
    with pg.use_backend("cpu"):
        network = look_inside.choose_network(None, train=False, steps=10)
    shown = capsys.readouterr().out
    assert "is not installed: a small network is trained instead" in shown
    assert network.names == ("dahlia", "pagoda")
    assert efficientnet.class_names() == ()


# The plain gradient is left out: on the dahlia, it is no stronger inside the box.
MAPS_ON_THE_OBJECT = ("integrated gradients", "guided backpropagation", "Grad-CAM")


@pytest.fixture(scope="module")
def pretrained():
    """Return EfficientNet-Lite0."""
    pytest.importorskip("skimage", reason="needs the gallery group: make notebooks")
    for package in (efficientnet.PACKAGE, efficientnet.NAMES_PACKAGE):
        pytest.importorskip(package, reason="needs the gallery group: make notebooks")
    with pg.use_backend("cpu"):
        return look_inside.load_pretrained_network()


def test_the_pretrained_network_names_the_photographs(pretrained, backend):
    names = ["Egyptian cat", "daisy", "bell cote", "espresso"]  # as in the picture
    for photo, name in zip(photographs.PHOTOS, names, strict=True):
        image = photographs.read(photo.file, None, pretrained.height)
        scores = pretrained.scores(pg.asarray(image)).numpy()
        assert scores.shape == (1000,)
        assert pretrained.names[int(scores.argmax())] == name


@pytest.mark.parametrize("index", [1, 2, 3])  # the box of the cat is the whole image
def test_the_maps_of_the_pretrained_network_lie_on_the_object(pretrained, index):
    photo = photographs.PHOTOS[index]
    with pg.use_backend("cpu"):
        image = photographs.read(photo.file, None, pretrained.height)
        row = look_inside.explain_image(pretrained, image)
    assert row.label == f"{row.name} {row.probability:.0%}"
    area = look_inside.share_in_box(np.ones(image.shape[:2]), photo.box)
    for title in MAPS_ON_THE_OBJECT:
        share = look_inside.share_in_box(row.maps[title], photo.box)
        assert share > area + 0.15, title
