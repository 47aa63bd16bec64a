"""Tensor values that Python code reads, so that results depend on them."""

import concurrent.futures
import contextlib
import io
import pickle
import queue
import threading

import numpy as np
import plugrad as pg

from ..helpers import floats
from .harness import no_change, pattern, sets_item

KIND = "values read by Python"


def signed(phase, call):
    """Return arguments that grow and change their sign from phase to phase."""
    return floats(3, scale=(1.0 + call) * (-1.0) ** phase * (1 + phase))


def reading(name):
    """Register a function of one tensor, called with positive and negative numbers."""

    def register(f):
        def make():
            return f, no_change, no_change

        make.__name__ = name
        return pattern(KIND, signed)(make)

    return register


def run_in_thread(call):
    results = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    thread.join()
    return results[0]


READS = {
    "item": lambda x: x * x[0].item(),
    "float": lambda x: x * float(pg.sum(x)),
    "int of an index": lambda x: x[: int(pg.argmax(x)) + 1],
    "index of a list": lambda x: x * [2.0, 3.0, 4.0][pg.argmax(x)],
    "bool": lambda x: x * 2.0 if pg.sum(x) > 0 else x,
    "bool in and": lambda x: x * 2.0 if pg.sum(x) > 0 and pg.max(x) > 0 else x,
    "bool in all": lambda x: x * 2.0 if all(y > 0 for y in x) else x,
    "while": lambda x: halved(x),
    "max of Python": lambda x: x * max(x[0], x[1]),
    "sorted": lambda x: pg.stack(sorted(x, key=float)),
    "in": lambda x: x * 2.0 if x[0] in [x[1], x[0]] and x[0] > 0 else x,
    "numpy": lambda x: pg.asarray(np.sort(x.numpy())),
    "numpy function": lambda x: pg.asarray(np.cumsum(np.asarray(x))),
    "tolist": lambda x: pg.asarray(x.tolist()[::-1]),
    "unpacked numbers": lambda x: pg.asarray([y.item() for y in x]),
    "str": lambda x: x * float(len(str(x))),
    "format": lambda x: x * float(f"{x[0].item():.3f}"),
    "format of a tensor": lambda x: x * float(len(f"{x}")),
    "repr": lambda x: x * float(len(repr(x))),
    "print": lambda x: x * float(len(printed(x))),
    "pickle": lambda x: x * float(sum(pickle.dumps(x)) % 97),
    "DLPack": lambda x: x * float(np.from_dlpack(x)[0]),
    "DLPack of a result": lambda x: x * float(np.from_dlpack(x * 2.0)[0]),
    "DLPack there and back": lambda x: pg.from_dlpack(np.from_dlpack(x) * 2) + x,
    "a mask": lambda x: pg.sum(x[x > 0]),
    "nonzero": lambda x: pg.nonzero(x > 0)[0] + 1,
    "unique": lambda x: pg.unique_values(pg.sign(x)),
    "a shape from values": lambda x: pg.ones(2 + int(x[0] > 0)),
    "a thread": lambda x: x * run_in_thread(lambda: x[0].item()),
    "a thread with a result": lambda x: x * run_in_thread((x * 2)[0].item),
    "an executor": lambda x: x * in_executor(lambda: pg.sum(x).item()),
    "a map of an executor": lambda x: x * in_map(x),
    "an error with values": lambda x: x * float(len(str(caught(x)))),
    "a dict key": lambda x: {True: x * 2.0, False: x}[bool(x[0] > 0)],
    "match": lambda x: matched(x),
    "range": lambda x: sum(x * 2.0 for _ in range(1 + int(x[0] > 0))) + x,
    "slice": lambda x: x[int(x[0] > 0) :],
    "math": lambda x: x * np.sin(x[0].item()).item(),
    "round": lambda x: x * float(round(x[0].item(), 2)),
    "divmod": lambda x: x * divmod(x[0].item(), 0.3)[1],
}


def halved(x):
    while pg.max(x) > 0.5:
        x = x * 0.5
    return x


def printed(x):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        print(x)
    return out.getvalue()


def in_executor(call):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def in_map(x):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return sum(pool.map(lambda y: y.item(), [x[0], x[1]]))


def caught(x):
    try:
        raise ValueError(f"values {x.tolist()}")
    except ValueError as error:
        return error


def matched(x):
    match x[0].item():
        case value if value > 0:
            return x * 2.0
        case _:
            return x


for _name, _f in READS.items():
    reading(f"values are read by {_name}")(_f)


@pattern(KIND, signed)
def values_are_read_through_queues():
    jobs = queue.Queue()
    results = queue.Queue()

    def work():
        for job in iter(jobs.get, None):
            results.put(job())

    def f(x):
        thread = threading.Thread(target=work)
        thread.start()
        jobs.put(lambda: (x * 2.0)[0].item())
        value = results.get()
        jobs.put(None)
        thread.join()
        return x * value

    return f, no_change, no_change


@pattern(KIND, signed)
def values_are_read_through_a_list():
    seen = []

    def f(x):
        seen.append(pg.sum(x))
        return x * seen[-1].item()

    return f, no_change, no_change


@pattern(KIND)
def values_of_a_captured_tensor_are_read():
    box = {"w": pg.asarray([2.0, 5.0])}
    return (
        lambda x: x * box["w"][0].item(),
        sets_item(box, "w", pg.asarray([3.0, 5.0])),
        lambda: sets_item(box["w"], 0, 4.0)(),
    )


@pattern(KIND)
def values_of_a_captured_tensor_decide():
    box = {"w": pg.asarray([2.0, 5.0])}
    return (
        lambda x: x * 2.0 if box["w"][0] > 2.5 else x,
        sets_item(box, "w", pg.asarray([3.0, 5.0])),
        lambda: sets_item(box["w"], 0, 1.0)(),
    )


@pattern(KIND)
def values_of_a_captured_tensor_are_read_by_dlpack():
    box = [pg.asarray([2.0, 5.0])]
    return (
        lambda x: x * float(np.from_dlpack(box[0])[0]),
        sets_item(box, 0, pg.asarray([3.0, 5.0])),
        lambda: sets_item(box[0], 0, 4.0)(),
    )


@pattern(KIND)
def values_of_a_variable_are_read():
    v = pg.Variable([2.0, 5.0])
    return lambda x: x * v.value[0].item(), lambda: v.assign([3.0, 5.0])


@pattern(KIND)
def values_of_a_random_tensor_decide():
    pg.random.seed(3)
    return lambda x: x * 2.0 if pg.random.uniform(()) > 0.5 else x, no_change, no_change
