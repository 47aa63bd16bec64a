"""Pairs of runs: the same kernel run on a baseline and on an input, for DeepLIFT.

A model runs twice, on a baseline and on the input. The backward pass of the first run
records the inputs and outputs of the kernels, and that of the second one reads them. So
the rules make no assumption about the layout of tensors. Both passes visit the same
kernels in the same order.

Map: ``Runs``; the block in which they are recorded; gradients that read both runs.
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
        of_baseline: Kernel name, input name and values of each run, in the order of the
            backward pass.
        without_rule: The kernels that had no rule, with their scopes.

    """

    def __init__(self) -> None:
        self.of_baseline: list[tuple[str, str, Given]] = []
        self.without_rule: set[str] = set()
        self._unread: Iterator[tuple[str, str, Given]] | None = None

    def read(self) -> None:
        """From now on, read what was recorded."""
        self._unread = iter(self.of_baseline)

    def pair(self, kernel: str, name: str, given: Given) -> Given | None:
        """Return the values of this run on the baseline; None while they are recorded.

        Raises:
            ValueError: A different kernel ran for the baseline.

        """
        if self._unread is None:
            self.of_baseline.append((kernel, name, given))
            return None
        before = next(self._unread, None)
        if before is None or before[:2] != (kernel, name):
            raise _mismatch(kernel, "nothing" if before is None else before[0])
        return before[2]

    def check_all_read(self) -> None:
        """Raise a ``ValueError`` if the baseline has run more kernels."""
        before = None if self._unread is None else next(self._unread, None)
        if before is not None:
            raise _mismatch("nothing", before[0])


def _mismatch(kernel: str, of_baseline: str) -> ValueError:
    return ValueError(
        f"deep_lift: f runs {kernel} for x where it runs {of_baseline} for the "
        "baseline; it must run the same kernels for both"
    )


_runs: contextvars.ContextVar[Runs] = contextvars.ContextVar("deep_lift_runs")


@contextlib.contextmanager
def recording() -> Iterator[Runs]:
    """Return a block in which the rules record and read the runs of one call."""
    runs = Runs()
    token = _runs.set(runs)
    try:
        yield runs
    finally:
        _runs.reset(token)


def paired(
    kernel: str, name: str, rule: PairRule, *reads: str
) -> Callable[..., Tensor]:
    """Return a gradient function that passes the values ``reads`` of both to a rule."""

    def gradient(dy: Tensor, **given: Any) -> Tensor:
        before = _runs.get().pair(kernel, name, given)
        if before is None:
            found: Tensor = given["original"](dy)
            return found
        return rule(dy, given, before)

    return named(gradient, ["cotangent", *reads, "original"])


def without_rule(kernel: Kernel, name: str) -> Callable[..., Tensor]:
    """Return a gradient function that averages both runs and notes the missing rule."""

    def gradient(*dys: Any, site: plugin.Site, original: Any) -> Tensor:
        runs = _runs.get()
        given = {"original": original}
        before = runs.pair(kernel.name, name, given)
        found: Tensor = original(*dys)
        if before is None:
            where = f" in scope {site.scope!r}" if site.scope else ""
            runs.without_rule.add(kernel.name + where)
            return found
        return 0.5 * (found + before["original"](*dys))

    count = 1 if kernel.variadic_outputs else len(kernel.outputs)
    cotangents = [f"cotangent{number}" for number in range(count)]
    return named(gradient, [*cotangents, "original", "site"])
