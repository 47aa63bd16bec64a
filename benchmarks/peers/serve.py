"""The server of every Python contestant: one request and one answer per line.

The requests are in JSON, and are the same for ``tfjs.mjs``:

- ``{"load": name, "folder": path}`` prepares a workload of ``definitions``, runs it
  once and writes the result to the folder as ``result.bin``, all in float32.
- ``{"load": name, "folder": path, "memory": calls}`` does the same, and then runs the
  workload ``calls`` more times.
  The answer contains the peak of the resident bytes beyond those before the first call
  (``peak``, on Linux), and the library's own statistics (``usage``).
- ``{"time": seconds, "warm": seconds, "calls": number, "clock": "wall"}`` warms up
  for ``warm`` seconds, with at least one call; then calls the workload for about
  ``time`` seconds, at least ``calls`` times; and answers with the microseconds of one
  call. The clock ``"cpu"`` counts the CPU time of all threads of the process instead.

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
Make = Callable[..., Any]  # inputs by name -> a case, or a case and ``arrays``


class Cases(dict[str, Make]):
    """The workloads that a contestant supports; use it as a decorator to add one.

    The decorated function takes the converted inputs by name, and ``layers`` if it has
    this parameter. It returns a case, whose result is complete when the call returns.
    If the result needs a special conversion to arrays, the function returns the
    case and the conversion.
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
    memory_usage: Callable[[], dict[str, int]] = dict,
) -> None:
    """Answer requests until the input ends.

    Args:
        cases: The workloads.
        packages: The distributions whose versions the first line reports.
        convert: Converts an array to an input.
        arrays: Converts a result to an array.
        wait: Waits for the result after each call of a case; None if calls block.
        memory_usage: Returns the library's own statistics of its memory, in bytes.

    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the output of libraries must not mix with answers
    answers.write(json.dumps({"versions": {p: version(p) for p in packages}}) + "\n")
    case: Case = list
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "load" in request:
                case = list  # free the memory of the previous case first
                folder = Path(request["folder"])
                case, answer = _load(cases, request, folder, convert, arrays)
                if "memory" in request:
                    answer["usage"] = memory_usage()
                case = case if wait is None else _with_wait(case, wait)
            else:
                clock = {"wall": perf_counter, "cpu": process_time}[request["clock"]]
                timed = (request[key] for key in ("time", "warm", "calls"))
                answer = {"us": _time(case, *timed, clock)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


def _load(
    cases: Mapping[str, Make],
    request: Mapping[str, Any],
    folder: Path,
    convert: Callable[[Any], Any],
    arrays: Callable[[Any], Any],
) -> tuple[Case, dict[str, Any]]:
    name = request["load"]
    if name not in cases:
        return list, {"missing": True}
    inputs, layers = definitions.read(folder)
    given = {key: convert(x) for key, x in inputs.items()}
    if "layers" in inspect.signature(cases[name]).parameters:
        given["layers"] = layers
    made = cases[name](**given)
    case, to_array = made if isinstance(made, tuple) else (made, arrays)
    start_bytes = resident("VmRSS") if "memory" in request else 0
    result = case()
    answer = {}
    if "memory" in request:
        for _ in range(request["memory"]):
            case()
        answer["peak"] = resident("VmHWM") - start_bytes
    parts = result if isinstance(result, list | tuple) else [result]
    with open(folder / "result.bin", "wb") as file:
        for part in parts:
            file.write(np.asarray(to_array(part), np.float32).tobytes())
    return case, answer


def resident(field: str) -> int:
    """Return the resident bytes of the process: current (VmRSS) or peak (VmHWM).

    Reading ``VmRSS`` also resets the peak.
    """
    if field == "VmRSS":
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def _with_wait(case: Case, wait: Callable[[], None]) -> Case:
    def complete() -> Any:
        result = case()
        wait()
        return result

    return complete


def _time(
    case: Case, seconds: float, warm: float, calls: int, clock: Callable[[], float]
) -> float:
    timer = timeit.Timer(case, timer=clock)
    once = timer.timeit(1)
    end = perf_counter() + warm
    while perf_counter() < end:  # until threads are awake and caches are warm
        once = timer.timeit(1)
    if once < seconds:
        once = timer.timeit(1)
    number = max(calls, int(seconds / max(once, 1e-7)))
    return (timer.timeit(number) / number if number > 1 else once) * 1e6
