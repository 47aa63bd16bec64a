"""The ledger of an attribution: the parts of the value that do not reach the input.

Relevance rarely adds up to the value that is explained. Biases and stabilizers take a
share, softmax has a constant of its own, and a kernel without a rule may lose any
amount. The ledger adds up the relevance before and after each run, and books the
differences.

Contents: ``Row`` and ``Ledger``; ``Bookkeeper``, which makes a ledger from flows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import plugrad as pg
from plugrad.plugin import html_table

from .flows import Flow
from .kernels import LINEAR, WITH_CONSTANT, WITH_FILL

CONSTANTS, SOFTMAX, UNEXPLAINED = KINDS = "constants", "softmax", "unexplained"
TITLES = ("amount", "of the value", "kind", "kernel", "scope", "runs")
TEXT_COLUMNS = ("kind", "kernel", "scope")
MAX_PRINTED_ROWS = 12
MAX_SCOPE_CHARACTERS = 48
# A difference counts as rounding if it is below this number times the epsilon of the
# dtype times the sum of the absolute relevances. In these units, the largest difference
# of a linear kernel in 33 pretrained ONNX models was 0.8.
ROUNDING_EPSILONS = 10
SOFTMAX_PATTERNS = ("attribution.softmax", "plugrad.logsumexp")
UNSEEN = "(none)"  # for relevance lost in custom_grad functions, which run no kernel


class Row(NamedTuple):
    """The sum of the differences at the runs of a kernel in a scope.

    Attributes:
        amount: The relevance of the results minus that of the inputs.
        kind: ``"constants"``, ``"softmax"`` or ``"unexplained"``.
        kernel: The name of the kernel, or of the pattern.
        scope: The scope of the runs; empty outside of all scopes.
        runs: The number of runs.

    """

    amount: float
    kind: str
    kernel: str
    scope: str
    runs: int


@dataclass(frozen=True, repr=False)
class Ledger:
    """Where a value has gone: ``value = input + constants + softmax + unexplained``.

    The amounts are sums over all examples. The equation holds up to ``rounding``.
    ``print`` shows the largest rows.

    Attributes:
        value: The value that is explained.
        input: The relevance of the input.
        rows: The differences by scope and kernel, the largest first.

    Example:
        >>> import plugrad_attribution as attr
        >>> w, b = pg.asarray([[2.0], [1.0]]), pg.asarray([0.5])
        >>> rules = attr.Composite(dense=attr.Epsilon(0.0))
        >>> model = lambda x: x @ w + b
        >>> ledger = attr.attribute(model, [[3.0, 1.0]], rules, ledger=True).ledger
        >>> ledger.value, ledger.input, ledger.constants
        (7.5, 7.0, 0.5)

    """

    value: float
    input: float
    rows: tuple[Row, ...]

    @property
    def constants(self) -> float:
        """The relevance of biases, other constants, and stabilizers."""
        return self._total(CONSTANTS)

    @property
    def softmax(self) -> float:
        """The relevance of the constant term of softmax and log-softmax."""
        return self._total(SOFTMAX)

    @property
    def unexplained(self) -> float:
        """The relevance that was lost or created where there is no rule."""
        return self._total(UNEXPLAINED)

    @property
    def rounding(self) -> float:
        """The remainder, which is due to rounding errors."""
        return self.value - self.input - sum(row.amount for row in self.rows)

    def _total(self, kind: str) -> float:
        return sum((row.amount for row in self.rows if row.kind == kind), 0.0)

    def totals(self) -> dict[str, float]:
        """Return the value and the parts that add up to it, by name."""
        parts = {kind: self._total(kind) for kind in KINDS}
        known = {"value": self.value, "input": self.input}
        return {**known, **parts, "rounding": self.rounding}

    def to_dict(self) -> dict[str, Any]:
        """Return totals and rows as plain numbers, strings, lists and dicts."""
        return {**self.totals(), "rows": [row._asdict() for row in self.rows]}

    def __repr__(self) -> str:
        totals = [f"{name}={amount:.5g}" for name, amount in self.totals().items()]
        return f"Ledger({', '.join(totals)}, {len(self.rows)} rows)"

    def __str__(self) -> str:
        sums = [(name, self._shown(x)) for name, x in self.totals().items()]
        lines = [f"{name:12}{amount:>12}{share:>14}" for name, (amount, share) in sums]
        if self.rows:
            lines += [
                "",
                *aligned(TITLES, self._largest(), TEXT_COLUMNS),
                *self._rest(),
            ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the rows, and the totals below them."""
        totals = [f"{name} {self._shown(x)[0]}" for name, x in self.totals().items()]
        caption = "Ledger: value = input + constants + softmax + unexplained + rounding"
        notes = [*self._rest(), ", ".join(totals)]
        return html_table(
            caption, TITLES, self._largest(), text_columns=TEXT_COLUMNS, notes=notes
        )

    def _largest(self) -> list[list[str]]:
        """Return the cells of the largest rows."""
        return [self._cells(row) for row in self.rows[:MAX_PRINTED_ROWS]]

    def _rest(self) -> list[str]:
        """Return a line about the other rows, if there are any."""
        rest = self.rows[MAX_PRINTED_ROWS:]
        total, _ = self._shown(sum(row.amount for row in rest))
        return [f"{len(rest)} smaller rows: {total}"] if rest else []

    def _shown(self, amount: float) -> tuple[str, str]:
        """Return an amount and its share of the value, as text."""
        share = f"{100 * amount / self.value + 0.0:.4g} %" if self.value else ""
        return f"{amount:.5g}", share

    def _cells(self, row: Row) -> list[str]:
        amount, share = self._shown(row.amount)
        scope = shortened(row.scope)
        return [amount, share, row.kind, row.kernel, scope, str(row.runs)]


def aligned(
    titles: Iterable[str], rows: Iterable[Iterable[str]], left: Iterable[str]
) -> list[str]:
    """Return the lines of a table; the columns with these titles are left-aligned."""
    columns = [*zip(titles, *rows, strict=True)]
    padded = []
    for column in columns:
        width = max(map(len, column))
        side = str.ljust if column[0] in left else str.rjust
        padded.append([side(cell, width) for cell in column])
    return ["  ".join(cells).rstrip() for cells in zip(*padded, strict=True)]


class Entry(NamedTuple):
    """The amounts that are booked for the runs of a kernel in a scope."""

    amount: float = 0.0  # relevance of the results minus that of the inputs
    size: float = 0.0  # the sum of the absolute relevances of the results
    runs: int = 0

    def plus(self, flow: Flow) -> Entry:
        """Return this entry with a flow added."""
        amount = self.amount - sum(pair.total() for pair in flow.inputs)
        if not flow.is_first:  # the results have been booked already
            return self._replace(amount=amount)
        totals = [pair.total() for pair in flow.results]
        sizes = [pair.size() for pair in flow.results]
        return Entry(amount + sum(totals), self.size + sum(sizes), self.runs + 1)


def shortened(scope: str) -> str:
    """Return a scope name, with its middle cut out if it is too long for a table."""
    if len(scope) <= MAX_SCOPE_CHARACTERS:
        return scope
    half = MAX_SCOPE_CHARACTERS // 2
    return f"{scope[:half]}…{scope[-half:]}"


class Bookkeeper:
    """Books flows. Booking reads tensor values, which ``jit`` cannot replay."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str, str], Entry] = {}
        self._epsilon = 0.0

    def __call__(self, flow: Flow) -> None:
        """Book the difference between the results and an input of a run."""
        if not flow.results:
            return  # their number varies, and such kernels only distribute relevance
        dtype = flow.results[0].cotangent.dtype
        self._epsilon = max(self._epsilon, pg.finfo(dtype).eps)
        key = (kind_of(flow), flow.site.kernel, flow.site.scope)
        self._entries[key] = self._entries.get(key, Entry()).plus(flow)

    def ledger(self, value: float, relevance: float) -> Ledger:
        """Return the ledger, given the value and the relevance of the input."""
        limit = ROUNDING_EPSILONS * self._epsilon
        rows = [
            Row(entry.amount, *key, entry.runs)
            for key, entry in self._entries.items()
            if abs(entry.amount) > limit * entry.size
        ]
        booked = sum(entry.amount for entry in self._entries.values())
        sizes = [entry.size for entry in self._entries.values()]
        unseen = value - relevance - booked
        if abs(unseen) > limit * max(sizes, default=0.0):
            rows.append(Row(unseen, UNEXPLAINED, UNSEEN, "", 0))
        return Ledger(value, relevance, tuple(sorted(rows, key=_largest_first)))


def _largest_first(row: Row) -> float:
    return -abs(row.amount)


def kind_of(flow: Flow) -> str:
    """Return the kind of the difference between the results and inputs of a run."""
    kernel = flow.site.kernel
    if kernel in WITH_CONSTANT or kernel.startswith(SOFTMAX_PATTERNS):
        return SOFTMAX
    is_linear = kernel in LINEAR and (flow.has_constants or kernel in WITH_FILL)
    return CONSTANTS if flow.is_ruled or is_linear else UNEXPLAINED
