"""The training loop ``fit``, and its parts for loops of your own.

Contents: ``train_step``; ``fit`` and its result; the loop.
"""

from __future__ import annotations

import contextlib
import copy
import math
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, NamedTuple

import plugrad as pg
from plugrad.plugin import hinted, html_table

from . import logs
from ._arguments import check_optimizer, check_options, check_training
from ._trees import Tree, check_choice, check_integer
from .checkpoints import Checkpoints
from .data import Prefetch, Source
from .interrupts import interruption_message, interrupts
from .optimizers import Optimizer
from .transforms import learning_rate
from .wrappers import (
    Finite,
    NonFiniteError,
    Scaled,
    check_finite,
    half_precision,
    scale_loss,
    skip_nonfinite,
)

NONFINITE = ("stop", "skip", "apply")
MAX_SHOWN_REPORTS = 10  # rows of the table that a notebook shows for a Fitted
Loss = Callable[..., Any]


class TrainStep(NamedTuple):
    """A training step and the optimizer whose state it updates.

    Attributes:
        optimizer: The optimizer; ``optimizer.init(params)`` returns the state.
        run: ``run(params, state, batch)``, or ``run(params, state, batch, key)``,
            returns ``(params, state, loss)``.

    """

    optimizer: Optimizer
    run: Callable[..., tuple[Tree, Any, pg.Tensor]]


@hinted
def train_step(
    loss: Loss,
    optimizer: Optimizer,
    /,
    *,
    precision: Any = None,
    jit: bool = True,
    donate: bool = False,
) -> TrainStep:
    """Return a training step: gradients, then the update, under ``pg.jit``.

    Args:
        loss: A function ``loss(params, batch)`` or ``loss(params, batch, key)`` that
            returns a scalar.
        optimizer: The optimizer.
        precision: A dtype such as ``pg.float16``, in which the loss is computed, with
            loss scaling (``half_precision``, ``scale_loss``). None: the dtype of the
            parameters.
        jit: Whether the step is recorded and replayed.
        donate: Whether a step under ``jit`` consumes the parameters and the state that
            are passed to it (``pg.jit(donate=)``), which saves memory and time.

    Returns:
        The step and its optimizer.

    Example:
        >>> loss = lambda params, batch: pg.mean(pg.square(params - batch))
        >>> step = pt.train_step(loss, pt.sgd(0.25))
        >>> params = pg.asarray([1.0, 3.0])
        >>> state = step.optimizer.init(params)
        >>> params, state, value = step.run(params, state, pg.asarray([0.0, 1.0]))
        >>> params.tolist(), value.item()
        ([0.75, 2.5], 2.5)

    """
    if not callable(loss):
        raise TypeError(f"train_step: loss must be a function, got {loss!r:.100}")
    check_optimizer("train_step", optimizer)
    return _step(loss, optimizer, precision, jit, donate, checks_loss=False)


def _step(
    loss: Loss,
    optimizer: Optimizer,
    precision: Any,
    jit: bool,
    donate: bool,
    checks_loss: bool,
) -> TrainStep:
    """Return a training step, as ``train_step`` does.

    If ``checks_loss`` is set and the loss is not finite, a gradient becomes NaN, so
    that ``skip_nonfinite`` or ``scale_loss`` skips the step.
    """
    if precision is None:
        f = pg.value_and_grad(loss)
        gradients: Callable[..., Any] = lambda params, state, *args: f(params, *args)
    else:
        gradients = half_precision(loss, precision)
        optimizer = scale_loss(optimizer)

    def run(params: Tree, state: Any, *args: Any) -> tuple[Tree, Any, pg.Tensor]:
        value, grads = gradients(params, state, *args)
        if checks_loss:
            grads = _nan_unless_finite(grads, value)
        params, state = optimizer.update(grads, state, params)
        return params, state, value

    run.__qualname__ = "train_step"  # the name in messages
    donated = ("params", "state") if donate else ()
    return TrainStep(optimizer, pg.jit(run, donate=donated) if jit else run)


def _nan_unless_finite(grads: Tree, value: pg.Tensor) -> Tree:
    """Return the gradients; the smallest tensor is NaN unless ``value`` is finite."""
    leaves, structure = pg.tree.flatten(grads)
    sizes = {n: x.size for n, x in enumerate(leaves) if isinstance(x, pg.Tensor)}
    if not sizes:
        return grads
    smallest = min(sizes, key=lambda n: sizes[n])
    x = leaves[smallest]
    leaves[smallest] = pg.where(pg.isfinite(value), x, pg.full_like(x, math.nan))
    return structure(leaves)


class Progress(NamedTuple):
    """The state of training, which ``fit`` passes to callbacks.

    Attributes:
        step: The number of completed steps.
        epoch: The number of the epoch; the first is 0.
        params: The parameters.
        state: The state of the optimizer.
        metrics: The loss, the learning rate and, after an epoch, the results of
            ``validate``.
        epoch_ends: Whether this report is the one at the end of an epoch.

    """

    step: int
    epoch: int
    params: Tree
    state: Any
    metrics: dict[str, float]
    epoch_ends: bool


class Fitted(NamedTuple):
    """The result of ``fit``.

    Attributes:
        params: The trained parameters.
        state: The state of the optimizer.
        step: The number of completed steps, including those before a resumption.
        history: The metrics at each report of this call, with ``step`` and ``epoch``.
        ended: Why training ended: ``"epochs"``, ``"steps"``, ``"interrupted"``, or the
            text that a callback returned.

    """

    params: Tree
    state: Any
    step: int
    history: list[dict[str, float]]
    ended: str

    def __repr__(self) -> str:
        """Return the last metrics and the size of the parameters."""
        last = self.history[-1] if self.history else {}
        metrics = [
            f"{n}={x:.4g}" for n, x in last.items() if n not in ("step", "epoch")
        ]
        parts = [f"step={self.step}", f"ended={self.ended!r}", *metrics]
        count, tensors = self._sizes()
        parts.append(f"params={count} numbers in {tensors} tensors")
        return f"Fitted({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: a table of the metrics at each report."""
        count, tensors = self._sizes()
        names = [*dict.fromkeys(name for record in self.history for name in record)]
        return html_table(
            f"Fitted: step {self.step}, ended: {self.ended}",
            names,
            [[record.get(name) for name in names] for record in self.history],
            notes=[f"The parameters are {count:,} numbers in {tensors:,} tensors."],
            max_rows=MAX_SHOWN_REPORTS,
        )

    def _sizes(self) -> tuple[int, int]:
        """Return the number of elements and of tensors of the parameters."""
        tensors = [x for x in pg.tree.leaves(self.params) if isinstance(x, pg.Tensor)]
        return sum(x.size for x in tensors), len(tensors)


Callback = Callable[[Progress], str | None]


@hinted
def fit(
    loss: Loss,
    params: Tree,
    optimizer: Optimizer,
    batches: Source,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    key: pg.Tensor | None = None,
    validate: Callable[[Tree], Mapping[str, Any]] | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoints: Checkpoints | None = None,
    save_every: int | None = None,
    resume: bool = False,
    report_every: int = 10,
    log: str | Path | None = None,
    curves: str | Path | None = None,
    progress: bool = False,
    nonfinite: str = "stop",
    precision: Any = None,
    jit: bool = True,
) -> Fitted:
    """Train, and return the parameters, the state and the history.

    Ctrl-C ends training after the current step, with a checkpoint. A second Ctrl-C
    raises KeyboardInterrupt at once.

    Args:
        loss: A function ``loss(params, batch)`` or, with ``key``,
            ``loss(params, batch, key)``. It returns a scalar.
        params: The parameters before the first step.
        optimizer: The optimizer.
        batches: ``Batches``, or another iterable with a ``state``. The arrays of a
            batch become tensors.
        epochs: The total number of epochs, including those before a resumption.
        steps: The total number of steps, including those before a resumption.
        key: A random key; each step gets a key derived from it and the step number.
        validate: A function of the parameters that returns metrics, called after each
            epoch.
        callbacks: Functions of ``Progress``, called at each report. If one returns
            text, training ends with the text as the reason.
        checkpoints: The ``Checkpoints`` with which to save after each epoch and at the
            end.
        save_every: The number of steps between additional checkpoints.
        resume: Whether to continue from the newest checkpoint, if there is one. With
            the same arguments, the result has the same bits as without the
            interruption.
        report_every: The number of steps between reports, which read the loss.
        log: A file for the metrics, one JSON object per line.
        curves: A PNG file for the curves of the metrics, including those from before
            a resumption; needs matplotlib.
        progress: Whether to show a progress bar; needs tqdm.
        nonfinite: What to do with steps whose loss or gradients contain NaN or
            infinity: ``"stop"`` skips them and raises NonFiniteError at the next
            report, ``"skip"`` skips them and counts them in the metric ``skipped``,
            ``"apply"`` does not check.
        precision: See ``train_step``. With a precision, non-finite steps are always
            skipped, and ``"stop"`` raises an error only after the loss scale has
            reached 1, its minimum.
        jit: Whether the step is recorded and replayed.

    Returns:
        The parameters, the state of the optimizer, the number of steps, the history,
        and the reason why training ended.

    Raises:
        TypeError: An argument has the wrong type; for example, the optimizer was not
            called, or the loss has other parameters.
        ValueError: Neither ``epochs`` nor ``steps`` is given, no parameter is floating,
            or there are no batches.
        NonFiniteError: See ``nonfinite``.
        FileExistsError: ``checkpoints`` contains checkpoints and ``resume`` is false.

    Example:
        >>> x = np.linspace(-1, 1, 64, dtype=np.float32)
        >>> batches = pt.Batches((x, 3 * x), 16, shuffle=0)
        >>> loss = lambda slope, batch: pg.mean(pg.square(slope * batch[0] - batch[1]))
        >>> fitted = pt.fit(loss, pg.asarray(0.0), pt.sgd(0.5), batches, epochs=10)
        >>> fitted.step, round(fitted.params.item(), 2), fitted.ended
        (40, 3.0, 'epochs')

    """
    check_training(loss, params, optimizer, batches, key, precision)
    check_options(validate, callbacks, log, curves, checkpoints)
    check_choice("fit", "nonfinite", nonfinite, NONFINITE)
    _check_folder(checkpoints, resume)
    checks_finite = nonfinite != "apply" or precision is not None
    if checks_finite and precision is None:
        optimizer = skip_nonfinite(optimizer)
    step = _step(loss, optimizer, precision, jit, True, checks_loss=checks_finite)
    loop = _Loop(step, params, batches, key, _check_limits(epochs, steps))
    loop.validate, loop.checkpoints = validate, checkpoints
    loop.save_every = _check_limit("save_every", save_every, 1)
    loop.report_every = check_integer("fit", "report_every", report_every)
    loop.stops_at_nonfinite = nonfinite == "stop"
    loop.curve = [] if curves else None
    if resume and checkpoints and checkpoints.steps():
        loop.restore(checkpoints, callbacks, log)
    loop.run_with(callbacks, log, curves, progress)
    return Fitted(loop.params, loop.state, loop.step, loop.history, loop.ended)


def _check_limits(
    epochs: int | None, steps: int | None
) -> tuple[int | None, int | None]:
    """Return the limits on epochs and steps; raise if neither is given."""
    if epochs is None and steps is None:
        raise ValueError("fit: got neither epochs nor steps; pass one of them")
    return _check_limit("epochs", epochs, 0), _check_limit("steps", steps, 0)


def _check_limit(name: str, value: int | None, least: int) -> int | None:
    """Return a limit as an integer, or None; raise if it is not a valid number."""
    return None if value is None else check_integer("fit", name, value, least)


def _check_folder(checkpoints: Checkpoints | None, resume: bool) -> None:
    """Raise an error if the folder contains checkpoints of another training run."""
    if checkpoints is None:
        if resume:
            raise ValueError(
                "fit: resume=True needs checkpoints; pass pt.Checkpoints(folder)"
            )
    elif not resume and (steps := checkpoints.steps()):
        raise FileExistsError(
            f"fit: {checkpoints.folder} has a checkpoint of step {steps[-1]}; pass "
            "resume=True to continue, or another folder"
        )


class _Loop:
    """The state of a training run.

    Attributes:
        limits: The numbers of epochs and steps after which training ends.
        curve: The records that ``curves`` draws, including those before a resumption.
        interrupted: Set when Ctrl-C was pressed.
        metrics: The last known metrics.
        saved: The step of the last checkpoint.
        reported: The step of the last report.
        ended: Why training ended; empty until then.

    """

    validate: Callable[[Tree], Mapping[str, Any]] | None
    checkpoints: Checkpoints | None
    save_every: int | None
    report_every: int
    stops_at_nonfinite: bool
    curve: list[dict[str, float]] | None
    callbacks: Sequence[Callback]
    interrupted: threading.Event

    def __init__(
        self,
        step: TrainStep,
        params: Tree,
        batches: Source,
        key: pg.Tensor | None,
        limits: tuple[int | None, int | None],
    ) -> None:
        self.run_step = step.run
        self.batches = batches
        self.key = key
        self.limits = limits
        self.params, self.state = _copy_handles((params, step.optimizer.init(params)))
        self.step = 0
        self.saved = -1
        self.reported = -1
        self.skipped = 0
        self.loss: pg.Tensor | None = None
        self.metrics: dict[str, float] = {}
        self.history: list[dict[str, float]] = []
        self.ended, self.started = "", time.perf_counter()

    @property
    def tree(self) -> Tree:
        return {"params": self.params, "optimizer": self.state, "key": self.key}

    def last_step(self) -> int | None:
        """Return the step after which training ends, or None if it is not known."""
        epochs, steps = self.limits
        source = self.batches
        while isinstance(source, Prefetch):
            source = source.source
        length = None
        if epochs is not None and isinstance(source, Sized):
            length = epochs * len(source)
        return min((n for n in (length, steps) if n is not None), default=None)

    def restore(
        self,
        checkpoints: Checkpoints,
        callbacks: Sequence[Callback],
        log: str | Path | None,
    ) -> None:
        """Continue from the newest checkpoint."""
        checkpoint = checkpoints.restore(self.tree)
        self.params, self.state = (
            checkpoint.tree["params"],
            checkpoint.tree["optimizer"],
        )
        self.key, self.step = checkpoint.tree["key"], checkpoint.step
        self.batches.state = checkpoint.rest["batches"]
        self.saved, self.skipped = checkpoint.step, _skipped_steps(self.state)
        states = checkpoint.rest["callbacks"]
        stateful = _stateful(callbacks)
        if len(states) != len(stateful):
            raise ValueError(
                f"fit: the checkpoint has the states of {len(states)} callbacks, got "
                f"{len(stateful)} with a state; pass the same callbacks to resume"
            )
        for callback, state in zip(stateful, states, strict=True):
            callback.state = state
        if self.curve is not None:
            saved = checkpoint.rest.get("curve")  # None if curves were not requested
            self.curve += logs.records_until(log, self.step) if saved is None else saved

    def run_with(
        self,
        callbacks: Sequence[Callback],
        log: str | Path | None,
        curves: str | Path | None,
        progress: bool,
    ) -> None:
        """Train, with a log, curves and a progress bar if requested."""
        with contextlib.ExitStack() as stack:
            own_callbacks = logs.open_callbacks(
                stack, log, curves, self.curve, self.step
            )
            if progress:
                end = self.last_step()
                own_callbacks.append(
                    logs.progress_bar(stack, self.step, self.limits[0], end)
                )
            self.callbacks = [*callbacks, *own_callbacks]
            self.interrupted = stack.enter_context(interrupts())
            self.run()

    def run(self) -> None:
        """Train until a limit is reached, then save."""
        epochs, steps = self.limits
        if steps is not None and self.step >= steps:
            self.ended = "steps"
        while not self.ended:
            epoch, before = self.batches.state["epoch"], self.step
            from_start = self.batches.state["batch"] == 0
            if epochs is not None and epoch >= epochs:
                self.ended = "epochs"
                break
            for batch in self.batches:
                self._take_step(batch)
                if self.batches.state["batch"] and self._check_end():
                    break  # not after the last batch, so that the epoch ends first
            if self.step == before and from_start:
                raise ValueError("fit: batches yielded no batch in an epoch; pass data")
            if not self.ended:
                self._report(epoch, epoch_ends=True)
                self._check_end()
                self._save(self.metrics)
        if self.loss is not None and self.reported != self.step:
            self._report(self.batches.state["epoch"], epoch_ends=False)
        if self.saved != self.step:
            self._save(None)
        if self.ended == "interrupted":
            print(interruption_message(self.checkpoints, self.step), file=sys.stderr)

    def _take_step(self, batch: Any) -> None:
        """Run one training step; report and save when due."""
        batch = pg.tree.map(pg.asarray, batch)
        keys = () if self.key is None else (pg.random.fold_in(self.key, self.step),)
        self.params, self.state, self.loss = self.run_step(
            self.params, self.state, batch, *keys
        )
        self.step += 1
        epoch, batches_taken = self.batches.state["epoch"], self.batches.state["batch"]
        if batches_taken == 0:  # ``run`` reports and saves at the end of the epoch
            return
        if self.step % self.report_every == 0:
            self._report(epoch, epoch_ends=False)
        if self.save_every and self.step % self.save_every == 0:
            self._save(None)

    def _check_end(self) -> bool:
        """Return whether training ends now; if so, record why."""
        steps = self.limits[1]
        if not self.ended and steps is not None and self.step >= steps:
            self.ended = "steps"
        if not self.ended and self.interrupted.is_set():
            self.ended = "interrupted"
        return bool(self.ended)

    def _report(self, epoch: int, *, epoch_ends: bool) -> None:
        """Read and check the loss, and call the callbacks."""
        self._check_finite()
        self.reported = self.step
        if self.loss is not None:
            self.metrics["loss"] = self.loss.item()
        with contextlib.suppress(ValueError):  # the optimizer has no learning rate
            self.metrics["learning_rate"] = learning_rate(self.state).item()
        self.metrics["seconds"] = time.perf_counter() - self.started
        if epoch_ends and self.validate is not None:
            validated = self.validate(_copy_handles(self.params))
            self.metrics |= {name: float(x) for name, x in validated.items()}
        self.history.append({"step": self.step, "epoch": epoch, **self.metrics})
        params, state = _copy_handles((self.params, self.state))
        progress = Progress(self.step, epoch, params, state, self.metrics, epoch_ends)
        for callback in self.callbacks:
            self.ended = callback(progress) or self.ended

    def _check_finite(self) -> None:
        """Count the skipped steps; raise an error if ``nonfinite`` is "stop"."""
        if isinstance(self.state, Scaled):
            self.metrics["loss_scale"] = scale = self.state.scale.item()
            if scale == 1.0 and self.stops_at_nonfinite:
                check_finite(self.state)
        skipped = _skipped_steps(self.state)
        new = skipped - self.skipped
        self.skipped = skipped
        if skipped:
            self.metrics["skipped"] = float(skipped)
        if new and self.stops_at_nonfinite:
            self._save(None)
            raise NonFiniteError(
                f"fit: of the steps up to {self.step}, {new} had NaN or infinity in "
                "the gradients or the loss and were skipped; reduce the learning rate, "
                'clip the gradients, or pass nonfinite="skip"'
            )

    def _save(self, metrics: Mapping[str, float] | None) -> None:
        if self.checkpoints is None:
            return
        states = [callback.state for callback in _stateful(self.callbacks)]
        rest = {"batches": self.batches.state, "callbacks": states}
        if self.curve is not None:
            rest["curve"] = self.curve
        self.checkpoints.save(self.step, self.tree, rest, metrics)
        self.saved = self.step


def _copy_handles(tree: Tree) -> Tree:
    """Return new handles on the tensors: the next step donates its arguments."""
    return pg.tree.map(lambda x: copy.copy(x) if isinstance(x, pg.Tensor) else x, tree)


def _stateful(callbacks: Sequence[Callback]) -> list[Any]:
    """Return the callbacks with a ``state``, which checkpoints save."""
    return [callback for callback in callbacks if hasattr(callback, "state")]


def _skipped_steps(state: Any) -> int:
    return int(state.skipped) if isinstance(state, Finite) else 0
