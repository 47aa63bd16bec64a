"""Callbacks of ``fit``: early stopping, logs, curves and the progress bar.

Contents: ``EarlyStopping``; ``JsonLines`` and ``read_log``; ``draw_curves``; the
callbacks that ``fit`` opens.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._trees import check_between, check_choice

if TYPE_CHECKING:
    from .loop import Progress

Record = dict[str, float]


class EarlyStopping:
    """A callback that ends training when a metric has not improved for some epochs.

    Args:
        metric: The name of a metric that ``validate`` returns.
        patience: The number of epochs without improvement after which to end.
        mode: ``"min"`` if a smaller metric is better, ``"max"`` if a larger one is.
        min_delta: The smallest change that counts as an improvement.

    Attributes:
        state: The best value, and the number of epochs without improvement since;
            checkpoints save both.

    """

    def __init__(
        self, metric: str, patience: int = 5, mode: str = "min", min_delta: float = 0.0
    ) -> None:
        self.metric = metric
        self.patience = check_between("EarlyStopping", "patience", patience, 1)
        self.sign = (
            -1
            if check_choice("EarlyStopping", "mode", mode, ("min", "max")) == "min"
            else 1
        )
        self.min_delta = check_between("EarlyStopping", "min_delta", min_delta, 0)
        self.state: dict[str, Any] = {"best": None, "waited": 0}

    def __call__(self, progress: Progress) -> str | None:
        """Return the reason to end, or None."""
        if not progress.epoch_ends:
            return None
        if self.metric not in progress.metrics:
            names = ", ".join(map(repr, progress.metrics))
            raise ValueError(
                f"EarlyStopping: there is no metric {self.metric!r}; use one of {names}"
            )
        value = self.sign * progress.metrics[self.metric]
        best = self.state["best"]
        if best is None or value > best + self.min_delta:
            self.state = {"best": value, "waited": 0}
            return None
        self.state = {"best": best, "waited": self.state["waited"] + 1}
        if self.state["waited"] < self.patience:
            return None
        return f"no better {self.metric} for {self.state['waited']} epochs"


# --- logs and curves -------------------------------------------------------------


class JsonLines:
    """A callback that appends the metrics to a file, one JSON object per line.

    Args:
        path: The file.
        step: The step from which training continues; lines of later steps are removed.

    """

    def __init__(self, path: str | Path, step: int = 0) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = records_until(self.path, step) if step else []
        self.path.write_text("".join(map(_line, kept)))

    def __call__(self, progress: Progress) -> None:
        """Append a line."""
        with self.path.open("a") as file:
            file.write(
                _line(
                    {"step": progress.step, "epoch": progress.epoch, **progress.metrics}
                )
            )


def _line(record: Record) -> str:
    """Return a record as a line of JSON; NaN and infinity become null."""
    values = {n: x if math.isfinite(x) else None for n, x in record.items()}
    return json.dumps(values) + "\n"


def read_log(path: str | Path, /) -> list[Record]:
    """Return the records of a log; an incomplete line is omitted."""
    records = []
    for line in Path(path).read_text().splitlines():
        # A line is incomplete if the process was killed while writing it.
        with contextlib.suppress(json.JSONDecodeError):
            records.append(json.loads(line))
    return records


def records_until(path: str | Path | None, step: int) -> list[Record]:
    """Return the records of a log up to a step; none if there is no log."""
    if path is None or not Path(path).exists():
        return []
    return [record for record in read_log(path) if record["step"] <= step]


def draw_curves(records: Sequence[Record], path: str | Path, /) -> None:
    """Write a PNG with a curve for each metric over the steps; needs matplotlib."""
    figures = _package("matplotlib.figure")
    names = [n for n in dict.fromkeys(n for r in records for n in r)]
    names = [n for n in names if n not in ("step", "epoch", "seconds")]
    figure = figures.Figure(figsize=(8, 2.4 * max(1, len(names))), layout="constrained")
    axes = figure.subplots(max(1, len(names)), 1, squeeze=False)[:, 0]
    for axis, name in zip(axes, names, strict=False):
        points = [(r["step"], r[name]) for r in records if r.get(name) is not None]
        axis.plot(*zip(*points, strict=True))
        axis.set(xlabel="step", ylabel=name)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")


def _package(module: str) -> Any:
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"fit: needs {package}; try `pip install {package}`"
        ) from error


# --- callbacks that fit opens ----------------------------------------------------


def open_callbacks(
    stack: contextlib.ExitStack,
    log: str | Path | None,
    curves: str | Path | None,
    curve: list[Record] | None,
    step: int,
) -> list[Callable[[Progress], str | None]]:
    """Return the callbacks that write the log and the curves.

    Args:
        stack: The exit stack that draws the curves when it closes.
        log: The file of the log, if any.
        curves: The file of the curves, if any.
        curve: The list of records to draw, to which the callback appends.
        step: The step from which training continues.

    """
    callbacks: list[Any] = []
    if curves is not None:
        _package("matplotlib.figure")  # raises before training if it is missing
    if log is not None:
        callbacks.append(JsonLines(log, step))
    if curves is not None and curve is not None:
        callbacks.append(lambda now: curve.append({"step": now.step, **now.metrics}))
        stack.callback(lambda: draw_curves(curve, curves))
    return callbacks


def progress_bar(
    stack: contextlib.ExitStack, step: int, epochs: int | None, total: int | None
) -> Callable[[Progress], str | None]:
    """Return the callback that shows progress: a bar or, in notebooks, a widget."""
    tqdm = _package("tqdm.auto").tqdm
    bar = stack.enter_context(tqdm(total=total, initial=step, unit=" steps"))

    def update_bar(now: Progress) -> None:
        loss = now.metrics.get("loss", math.nan)
        total_epochs = f"/{epochs}" if epochs else ""
        text = f"epoch {now.epoch + 1}{total_epochs}, loss {loss:.4g}"
        bar.set_postfix_str(text, refresh=False)
        bar.update(now.step - bar.n)

    return update_bar
