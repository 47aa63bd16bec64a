"""Training programs for the ranks of tests: ``-m tests.mpi.trainees NAME ...``."""

import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import plugrad as pg
import plugrad_mpi as mpi
import pytest

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 4)).astype(np.float32)


def layers():
    rng = np.random.default_rng(1)
    new = lambda *shape: pg.asarray(rng.normal(size=shape).astype(np.float32))
    return [{"w": new(4, 4), "b": new(4), "steps": 3} for _ in range(3)]


def loss(layers, x, mark=lambda layer: layer):
    for layer in map(mark, layers):
        x = pg.tanh(x @ layer["w"] + layer["b"])
    return pg.mean(x * x)


def assert_close(found, wanted):
    pairs = zip(pg.tree.leaves(found), pg.tree.leaves(wanted), strict=True)
    for x, y in pairs:
        if isinstance(y, pg.Tensor):
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-5, atol=1e-7)


def gradients():
    """Averaged gradients equal those of one process, eagerly and under jit."""
    x = pg.asarray(X)
    shard = pg.asarray(mpi.shard(X))
    for backend in ("cpu", "wasm"):
        with pg.use_backend(backend):
            params = layers()
            wanted = pg.value_and_grad(loss)(params, x)
            for mark in (lambda layer: layer, mpi.overlap):
                local = pg.value_and_grad(lambda p, x, mark=mark: loss(p, x, mark))
                for mib in (25, 64 / 2**20):
                    step = mpi.data_parallel(local, bucket_mib=mib)
                    assert_close(step(params, shard), wanted)
                    jitted = pg.jit(step, strict=True)
                    for _ in range(4):
                        assert_close(jitted(params, shard), wanted)
                    names = kernels(jitted, params, shard)
                    buckets = 1 if mib == 25 else 4 if mark is mpi.overlap else 3
                    assert names.count("mpi.AllReduceStart") == buckets, names
                    early = names.index("mpi.AllReduceStart") < last_product(names)
                    assert early == (mark is mpi.overlap and mib < 25), names
    assert_aux_values_stay_local(shard)
    assert_variables_work()


def kernels(f, *args):
    return [step.kernel.name for step in f.explain(*args).graph.steps]


def last_product(names):
    return len(names) - 1 - names[::-1].index("BatchMatMul")


def assert_aux_values_stay_local(shard):
    with_aux = lambda p, x: (loss(p, x), {"rank": pg.asarray(float(mpi.rank()))})
    step = mpi.data_parallel(pg.value_and_grad(with_aux, has_aux=True))
    (value, aux), _ = step(layers(), shard)
    assert aux["rank"].item() == mpi.rank()
    assert abs(value.item() - loss(layers(), pg.asarray(X)).item()) < 1e-6


def other_dtypes():
    """Each dtype has a bucket; unused tensors and float16 are also supported."""

    def loss(p):
        p = mpi.overlap(p)
        parts = [p["half"], p["real"], pg.real(p["complex"] * 1j), p["double"]]
        return pg.add_n([pg.sum(pg.astype(x, pg.float32)) for x in parts]) * scale

    scale = 1.0 + mpi.rank()
    params = {"unused": pg.ones(2), "half": pg.ones(2, dtype="float16")}
    params |= {"real": pg.ones(2), "complex": pg.ones(2, dtype="complex64")}
    params |= {"double": pg.ones(2, dtype="float64"), "number": 3}
    _, grads = mpi.data_parallel(pg.value_and_grad(loss))(params)
    mean = 1 + (mpi.size() - 1) / 2
    assert grads["unused"].tolist() == [0.0, 0.0]
    for name in ("half", "real", "double"):
        assert grads[name].dtype == params[name].dtype
        assert grads[name].tolist() == [mean, mean], name
    assert [abs(x) for x in grads["complex"].tolist()] == [mean, mean]


def assert_variables_work():
    v = pg.Variable([1.0, 2.0])
    loss_of_rank = lambda: pg.sum(v * (1.0 + mpi.rank()))
    value, found = mpi.data_parallel(lambda: pg.variable_grads(loss_of_rank))()
    mean = 1 + (mpi.size() - 1) / 2
    assert value.item() == 3 * mean
    assert found[v].tolist() == [mean, mean]
    v.assign([mpi.rank() + 5.0, 0.0])
    assert mpi.broadcast_parameters({"v": v}, root=1)["v"] is v
    assert v.value.tolist() == [6.0, 0.0]


def tied():
    """A tensor that two layers use has one gradient, which is averaged once."""

    def twice(w, x):
        first = mpi.overlap({"w": w})
        second = mpi.overlap({"w": w})
        return pg.mean(pg.tanh(x @ first["w"]) @ second["w"])

    w = layers()[0]["w"]
    wanted = pg.value_and_grad(twice)(w, pg.asarray(X))
    shard = pg.asarray(mpi.shard(X))
    for mib in (25, 1 / 2**20):
        step = mpi.data_parallel(pg.value_and_grad(twice), bucket_mib=mib)
        assert_close(step(w, shard), wanted)


class Momentum:
    """A small optimizer with state, like those of plugrad-train."""

    def init(self, params):
        return {"mean": pg.tree.map(pg.zeros_like, params), "steps": pg.asarray(0)}

    def update(self, grads, state, params):
        mean = pg.tree.map(lambda m, g: 0.9 * m + g, state["mean"], grads)
        params = pg.tree.map(lambda p, m: p - 0.1 * m, params, mean)
        return params, {"mean": mean, "steps": state["steps"] + 1}


def zero():
    """ZeRO-1 takes the same steps as one process; each rank holds part of the state."""
    params = {"w": pg.asarray(X), "b": pg.ones(3), "c": pg.ones(2, dtype="float64")}
    grads = lambda n: pg.tree.map(lambda p: p * (mpi.rank() + n), params)
    mean = lambda n: pg.tree.map(lambda p: p * ((mpi.size() - 1) / 2 + n), params)
    whole = Momentum()
    sharded = mpi.sharded(Momentum())
    sharded_params, whole_params = params, params
    state = sharded.init(params)
    wanted = whole.init(params)
    for n in range(3):
        sharded_params, state = sharded.update(grads(n), state, sharded_params)
        whole_params, wanted = whole.update(mean(n), wanted, whole_params)
        assert_close(sharded_params, whole_params)
    assert_vectors_of_one_length_stay_separate()
    rows = [x.size for x in pg.tree.leaves(state["mean"])]
    assert rows == [-(-35 // mpi.size()), -(-2 // mpi.size())], rows
    gathered = sharded.gather(state, params)
    assert sorted(x.size for x in pg.tree.leaves(gathered["mean"])) == [2, 35]
    assert gathered["steps"].item() == 3
    scattered = sharded.scatter(gathered, params)
    assert_close(scattered, state)


def assert_vectors_of_one_length_stay_separate():
    n = mpi.size()
    params = {"a": pg.ones(2 * n), "b": pg.ones(2 * n - 1, dtype="float64")}
    sharded = mpi.sharded(Momentum())
    state = sharded.init(params)
    found = sharded.gather(state, params)["mean"]
    assert {name: x.size for name, x in found.items()} == {
        "float32": 2 * n,
        "float64": 2 * n - 1,
    }
    with pytest.raises(TypeError, match="sharded: a parameter must be a floating"):
        sharded.init({"a": pg.asarray([1, 2])})


def checkpoints(folder):
    """Rank 0 writes and reads; all ranks get its results and its errors."""

    class Files:
        def save(self, name, x):
            assert mpi.rank() == 0
            (Path(folder) / name).write_text(str(x.tolist()))

        def restore(self, name):
            text = (Path(folder) / name).read_text()
            return text, pg.ones(2)

    files = mpi.Checkpoints(Files())
    files.save("a", pg.asarray([0.5]))
    text, x = files.restore("a")
    assert (text, x.tolist()) == ("[0.5]", [1.0, 1.0])
    with pytest.raises(FileNotFoundError) as error:
        files.restore("b")
    mpi.log(Path(error.value.filename).name, every_rank=True)
    mpi.log("once", 1)
    mpi.log("each", every_rank=True)


def fit(folder):
    """plugrad-train's ``fit`` reports and resumes as it does in one process."""
    import plugrad_train as pt

    def squares(params, batch):
        error = pg.mean(pg.square(mpi.shard(batch) @ params))
        return mpi.all_reduce(error, "mean")

    averaged = pt.transforms.stateless(lambda g, _: mpi.average(g))
    checkpoints = mpi.Checkpoints(pt.Checkpoints(Path(folder) / str(mpi.size())))
    for epochs in (2, 4):
        fitted = pt.fit(
            squares,
            pg.ones((4, 2)),
            pt.chain(averaged, pt.adam(0.1)),
            pt.Batches(np.tile(X, (4, 1)), 8, shuffle=1),
            epochs=epochs,
            checkpoints=checkpoints,
            resume=epochs == 4,
        )
    mpi.log(fitted.step, len(fitted.history))
    mpi.log(*fitted.params.numpy().ravel(), fitted.history[-1]["loss"])


def fail(how, rank="1"):
    """A rank fails after the first collective."""
    mpi.barrier()
    if mpi.rank() == int(rank):
        if how == "raises":
            raise KeyError("no such image")
        if how == "hangs":
            signal.pause()
        if how == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "ends":
            sys.exit()
        if how == "differs":
            mpi.all_gather([1.0, 2.0])
    mpi.all_reduce([1.0] * (2 + (how == "has another shape") * mpi.rank()))
    print("not reached")


def differs_in_the_last_call(how):
    """The ranks run different collectives after several equal ones."""
    reduce = lambda x: 3.0 * mpi.all_reduce(pg.tanh(2.0 * x))  # what rank 0 does
    step = pg.jit(reduce) if "jit" in how else reduce

    def run():
        for number in range(5):
            if number == 4 and mpi.rank() == 1:
                mpi.all_gather([1.0, 2.0])  # what rank 1 does
            step(pg.ones(2))  # what rank 0 does

    if "thread" not in how:
        return run()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def ends_early():
    """Rank 1 ends before it starts MPI."""
    if os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK")) == "1":
        raise ValueError("no such file")
    mpi.barrier()


def synthetic_digits():
    """Return noisy images of ten coarse patterns; a fifth of them is held out."""
    from examples import digits

    rng = np.random.default_rng(0)
    patterns = np.kron(rng.random((10, 4, 4)) > 0.5, np.ones((2, 2)))
    labels = np.arange(400, dtype=np.int32) % 10
    images = patterns[labels] * rng.uniform(0.7, 1.0, (400, 8, 8))
    images = images[..., None].astype(np.float32)
    return digits.Split(images[:320], labels[:320], images[320:], labels[320:])


def digits(folder, *options):
    """Train the example; with ``kill``, rank 1 is killed in the third epoch."""
    from examples import digits, train_digits_mpi

    if "kill" in options:
        epoch = train_digits_mpi.Training.epoch

        def kill_or_train(training):
            if training.batches.state["epoch"] == 2 and mpi.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return epoch(training)

        train_digits_mpi.Training.epoch = kill_or_train
    data = synthetic_digits()
    flags = {name: name in options for name in ("resume", "zero")}
    params = train_digits_mpi.train(data, 4, Path(folder), **flags)
    score = digits.accuracy(params, data.test_images, data.test_labels)
    if mpi.rank() == 0:
        weights = {name: x.numpy() for name, x in params.items()}
        np.savez(Path(folder) / "weights.npz", accuracy=score, **weights)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
