"""What every contestant in Python does: read a request a line, answer in a line.

The requests, in JSON, as for ``tfjs.mjs``:

- ``{"load": name, "folder": path}`` prepares a workload of ``definitions``, runs it
  once and writes the result to the folder as ``result.bin``, all of it in float32.
- ``{"time": seconds, "clock": "wall"}`` calls it for about so long, after a call that
  nobody times, and answers with the microseconds of one call; ``"cpu"`` counts those
  that all threads of the process have worked.

The first line, before any request, is ``{"versions": {...}}``.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import timeit
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import definitions
import numpy as np

Case = Callable[[], Any]
Make = Callable[..., Any]  # of the inputs by name: a case, or one and its ``arrays``


class Cases(dict[str, Make]):
    """What a contestant can do, by workload; use it as a decorator to add one.

    The decorated function gets the inputs by name, ``layers`` too if it asks for them,
    each turned into what the contestant computes with. It returns a case, whose result
    is complete when it returns; or the case and what turns its result into arrays,
    where that is special.
    """

    def __call__(self, name: str) -> Callable[[Make], Make]:
        """Add the decorated function as the workload ``name``."""

        def add(make: Make) -> Make:
            self[name] = make
            return make

        return add


def serve(
    cases: Mapping[str, Make],
    packages: list[str],
    convert: Callable[[Any], Any] = lambda array: array,
    arrays: Callable[[Any], Any] = np.asarray,
    wait: Callable[[], None] | None = None,
) -> None:
    """Answer requests until there are no more.

    Args:
        cases: The workloads.
        packages: The distributions whose versions are told.
        convert: Makes an input of an array.
        arrays: Makes an array of a result.
        wait: Is called after each call of a case, where results may not be complete.

    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    answers.write(json.dumps({"versions": {p: version(p) for p in packages}}) + "\n")
    case: Case = list
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "load" in request:
                case = list  # the memory of the last one goes first
                folder = Path(request["folder"])
                case, answer = _load(cases, request["load"], folder, convert, arrays)
                case = case if wait is None else _waiting(case, wait)
            else:
                clock = {"wall": perf_counter, "cpu": process_time}[request["clock"]]
                answer = {"us": _time(case, request["time"], clock)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


def _load(
    cases: Mapping[str, Make],
    name: str,
    folder: Path,
    convert: Callable[[Any], Any],
    arrays: Callable[[Any], Any],
) -> tuple[Case, dict[str, Any]]:
    if name not in cases:
        return list, {"missing": True}
    inputs, layers = definitions.read(folder)
    given = {key: convert(x) for key, x in inputs.items()}
    if "layers" in inspect.signature(cases[name]).parameters:
        given["layers"] = layers
    made = cases[name](**given)
    case, finish = made if isinstance(made, tuple) else (made, arrays)
    result = case()
    parts = result if isinstance(result, list | tuple) else [result]
    with open(folder / "result.bin", "wb") as file:
        for part in parts:
            file.write(np.asarray(finish(part), np.float32).tobytes())
    return case, {}


def _waiting(case: Case, wait: Callable[[], None]) -> Case:
    def complete() -> Any:
        result = case()
        wait()
        return result

    return complete


def _time(case: Case, seconds: float, clock: Callable[[], float]) -> float:
    timer = timeit.Timer(case, timer=clock)
    once = timer.timeit(1)
    if once < seconds:  # a first call may have to wake up threads, and fill caches
        once = timer.timeit(1)
    number = max(1, int(seconds / max(once, 1e-7)))
    return (timer.timeit(number) / number if once < seconds else once) * 1e6
