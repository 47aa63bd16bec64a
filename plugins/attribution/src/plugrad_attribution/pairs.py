"""Pairs of runs: the same kernel run on a baseline and on an input, for DeepLIFT.

A model runs twice, on a baseline and on the input. The backward pass for the baseline
records the inputs and outputs of the kernels, and the one for the input reads them.
Both passes visit the same kernels in the same order. Because the two runs are separate,
and not two halves of one batch, no rule needs to know which axis of a tensor is the
batch axis.

Contents: ``Runs``; the block in which they are recorded; gradients that read both runs.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

from plugrad import plugin
from plugrad.plugin import Kernel, Tensor

from .layers import named

Given = dict[str, Any]  # inputs, outputs, attributes and ``original`` of a run
# A rule takes a cotangent, the values of the run on the input, and those of the run on
# the baseline.
PairRule = Callable[[Tensor, Given, Given], Tensor]


class Runs:
    """The runs of one call: recorded for the baseline, then read for the input.

    Attributes:
        baseline_runs: Kernel name, input name and values of each run, in the order of
            the backward pass.
        without_rule: The kernels that had no rule, with their scopes.

    """

    def __init__(self) -> None:
        self.baseline_runs: list[tuple[str, str, Given]] = []
        self.without_rule: set[str] = set()
        self._unread: Iterator[tuple[str, str, Given]] | None = None

    def read(self) -> None:
        """Start reading the recorded runs."""
        self._unread = iter(self.baseline_runs)

    def pair(self, kernel: str, name: str, given: Given) -> Given | None:
        """Return this run's values on the baseline; None while those are recorded.

        Raises:
            ValueError: A different kernel ran for the baseline.

        """
        if self._unread is None:
            self.baseline_runs.append((kernel, name, given))
            return None
        at_baseline = next(self._unread, None)
        if at_baseline is None or at_baseline[:2] != (kernel, name):
            raise _mismatch(
                kernel, "nothing" if at_baseline is None else at_baseline[0]
            )
        return at_baseline[2]

    def check_all_read(self) -> None:
        """Raise a ``ValueError`` if the baseline ran more kernels than the input."""
        at_baseline = None if self._unread is None else next(self._unread, None)
        if at_baseline is not None:
            raise _mismatch("nothing", at_baseline[0])


def _mismatch(kernel: str, baseline_kernel: str) -> ValueError:
    return ValueError(
        f"deep_lift: f runs {kernel} for x where it runs {baseline_kernel} for the "
        "baseline; it must run the same kernels for both"
    )


_runs: contextvars.ContextVar[Runs] = contextvars.ContextVar("deep_lift_runs")


@contextlib.contextmanager
def recording() -> Iterator[Runs]:
    """Return a context manager in which rules record and read the runs of one call."""
    runs = Runs()
    token = _runs.set(runs)
    try:
        yield runs
    finally:
        _runs.reset(token)


def paired(
    kernel: str, name: str, rule: PairRule, *reads: str
) -> Callable[..., Tensor]:
    """Return a gradient function that passes the values of both runs to a rule."""

    def gradient(dy: Tensor, **given: Any) -> Tensor:
        at_baseline = _runs.get().pair(kernel, name, given)
        if at_baseline is None:
            found: Tensor = given["original"](dy)
            return found
        return rule(dy, given, at_baseline)

    return named(gradient, ["cotangent", *reads, "original"])


def without_rule(kernel: Kernel, name: str) -> Callable[..., Tensor]:
    """Return a gradient function that averages the gradients of both runs.

    It adds the kernel to ``Runs.without_rule``.
    """

    def gradient(*dys: Any, site: plugin.Site, original: Any) -> Tensor:
        runs = _runs.get()
        given = {"original": original}
        at_baseline = runs.pair(kernel.name, name, given)
        found: Tensor = original(*dys)
        if at_baseline is None:
            where = f" in scope {site.scope!r}" if site.scope else ""
            runs.without_rule.add(kernel.name + where)
            return found
        return 0.5 * (found + at_baseline["original"](*dys))

    count = 1 if kernel.variadic_outputs else len(kernel.outputs)
    cotangents = [f"cotangent{number}" for number in range(count)]
    return named(gradient, [*cotangents, "original", "site"])
