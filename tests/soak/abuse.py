"""Call every public function and method with random arguments of every kind.

``python -m tests.soak.abuse BACKEND CALLS SEED`` makes ``CALLS`` calls of each function
and prints the outcomes. It writes each call to ``abuse.log`` in the working directory
before making it, so that the last line names the call that ended the process. A call
that takes longer than ``CALL_TIMEOUT_S`` counts as hanging.

Functions with a lasting effect on the registry or the process are not called.
"""

import contextlib
import faulthandler
import inspect
import itertools
import random
import signal
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import plugrad as pg

from tests.surface import public

CALL_TIMEOUT_S = 20
NOT_CALLED = {
    "copy_registered_kernels",
    "register_backend",
    "register_gradient",
    "register_kernel",
    "remove_backend",
    "remove_plugin",
    "set_backend",
    "set_gradients",
    "unregister_gradient",
    "unregister_kernel",
    "random.seed",
}
NUMBERS = [-1, 0, 1, 2, 3, -7, 10**6, 2**40, 2**63, -(2**70), 0.5, -1.5, 1e39, 2j]
NUMBERS += [float("nan"), float("inf"), np.float32(0.5), np.int64(2), np.bool_(True)]
WORDS = ["", "x", "same", "valid", "float32", "int32", "bool", "string", "sum", "ij,jk"]
OTHERS = [
    None,
    True,
    False,
    b"x",
    object(),
    Ellipsis,
    slice(1, 2),
    print,
    {},
    {"a": 1.0},
]
LISTS = [(), [], (0,), (1, 2), (-1, 5), [(0, 1), (2, 0)], [1.0, [2.0]], ["a"], (2**40,)]
LISTS += [(0, 0), [[1.0, 2.0], [3.0, 4.0]], ((1, 1),) * 4, range(3), {1, 2}, [None]]
SHAPES = [(), (1,), (3,), (0,), (2, 3), (3, 3), (2, 0, 3), (1, 4, 4, 2), (1,) * 40]
DTYPES = ["float32", "float32", "int32", "bool", "complex64", "float64", "int64"]


def arguments():
    """Return arguments of each kind, including tensors of the active backend."""
    found = [*NUMBERS, *WORDS, *OTHERS, *LISTS]
    dtypes = set(pg.plugin.runtime(pg.get_backend()).dtypes)
    for shape, dtype in itertools.product(SHAPES, dict.fromkeys(DTYPES)):
        values = (np.arange(int(np.prod(shape))) - 1).reshape(shape).astype(dtype)
        found.append(values)
        if dtype in dtypes:
            found.append(pg.asarray(values))
    disposed = pg.ones((2,)) + 1.0
    disposed.dispose()
    found += [disposed, pg.Variable(2.0), np.array(["a"])]
    if "string" in dtypes:
        found.append(pg.asarray(["a", "bc"]))
    found += [lambda x: x, lambda *xs: pg.sum(xs[0]), pg.relu, np.ones((2, 2))[::-1]]
    return found


def targets():
    """Return every public function, class and method by name."""
    found = {n: f for n, f in public().items() if n not in NOT_CALLED and callable(f)}
    for kind in (pg.Tensor, pg.Variable):
        for name in dir(kind):
            # dir() also lists names of other libraries' methods, which do not exist.
            method = getattr(kind, name, None)
            if callable(method) and not name.startswith("_"):
                found[f"{kind.__name__}.{name}"] = method
    for name in ("__getitem__", "__matmul__", "__pow__", "__format__", "__dlpack__"):
        found[f"Tensor.{name}"] = getattr(pg.Tensor, name)
    return found


def options(function):
    """Return the names of the parameters that can be given by keyword."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [p.name for p in parameters if p.kind in kinds]


def call(function, args, kwargs):
    """Call a function; return "ran", "hangs", or the class name of the error."""
    signal.alarm(CALL_TIMEOUT_S)
    try:
        found = function(*args, **kwargs)
        if isinstance(found, pg.Tensor):
            found.numpy()
        return "ran"
    except TimeoutError:
        return "hangs"
    except Exception as error:
        return type(error).__name__
    finally:
        signal.alarm(0)
        with contextlib.suppress(IndexError):  # from an asynchronous backend
            pg.exp(0.0).numpy()


def stop(*_):
    """Interrupt a call that hangs."""
    raise TimeoutError("the call takes too long")


def main(backend, calls, seed):
    """Make the calls and print the counts; return whether one hung."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, stop)
    rng = random.Random(seed)
    counts = Counter()
    slow = []
    with pg.use_backend(backend), Path("abuse.log").open("w") as log:
        values = arguments()
        tensors = [v for v in values if isinstance(v, pg.Tensor)]
        for name, function in sorted(targets().items()):
            names = options(function)
            for _ in range(calls):
                args = [rng.choice(values) for _ in range(rng.randint(0, 3))]
                if name.startswith("Tensor.") or rng.random() < 0.5:
                    args = [rng.choice(tensors), *args]
                chosen = rng.sample(names, min(len(names), rng.randint(0, 2)))
                kwargs = {option: rng.choice(values) for option in chosen}
                shown = [getattr(v, "shape", v) for v in (*args, kwargs)]
                log.write(f"{name}{repr(shown)[:200]}\n".replace("\n", " ") + "\n")
                log.flush()
                outcome = call(function, args, kwargs)
                counts[outcome] += 1
                if outcome == "hangs":
                    slow.append(f"{name}{repr(shown)[:200]}")
        assert pg.exp(0.0).item() == 1.0  # the backend still works
    print(f"{backend}: {sum(counts.values())} calls: {dict(counts.most_common())}")
    print("\n".join(slow))
    return bool(slow)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
