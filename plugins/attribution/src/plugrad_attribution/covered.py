"""``coverage``: which rules apply in a model; here, a missing rule is not an error.

Contents: ``Covered`` and ``Coverage``; ``coverage``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from plugrad.plugin import Tensor, TensorLike, html_table

from .attribution import checked, gradient_of
from .composites import Composite
from .examples import Target
from .flows import Extent, Flow, watched
from .kernels import LINEAR, WITH_CONSTANT
from .layers import INPUT
from .ledger import aligned, shortened

RULES = ("missing", "constant", "ruled", "linear")
TITLES = ("rule", "kernel", "scope", "runs")
TEXT_COLUMNS = ("rule", "kernel", "scope")
MAX_PRINTED_ROWS = 30


class Covered(NamedTuple):
    """The runs of a kernel in a scope, and the kind of rule that applies to them.

    Attributes:
        rule: ``"ruled"``: the composite has a rule; ``"linear"``: the gradient keeps
            relevance; ``"constant"``: softmax, whose constant term takes a share; or
            ``"missing"``.
        kernel: The name of the kernel, or of the pattern.
        scope: The scope of the runs; empty outside of all scopes.
        runs: The number of runs.

    """

    rule: str
    kernel: str
    scope: str
    runs: int


@dataclass(frozen=True)
class Coverage:
    """The runs that relevance passes through; ``print`` shows them as a table.

    Attributes:
        rows: The runs by rule, kernel and scope; those without a rule come first.

    Example:
        >>> import plugrad_attribution as attr
        >>> model = lambda x: pg.sign(pg.relu(x) - 2.0)
        >>> found = attr.coverage(model, [[3.0, 4.0]], attr.EpsilonPlus())
        >>> found.missing, found.counts()["linear"]
        ({'Sign': 1}, 4)

    """

    rows: tuple[Covered, ...]

    @property
    def missing(self) -> dict[str, int]:
        """The number of runs without a rule, by kernel."""
        found: Counter[str] = Counter()
        for row in self.rows:
            if row.rule == "missing":
                found[row.kernel] += row.runs
        return dict(found)

    def counts(self) -> dict[str, int]:
        """Return the number of runs for each kind of rule."""
        found = dict.fromkeys(RULES, 0)
        for row in self.rows:
            found[row.rule] += row.runs
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return counts and rows as plain numbers, strings, lists and dicts."""
        return {**self.counts(), "rows": [row._asdict() for row in self.rows]}

    def __str__(self) -> str:
        rows = [_cells(row) for row in self.rows[:MAX_PRINTED_ROWS]]
        lines = aligned(TITLES, rows, TEXT_COLUMNS)
        return "\n".join([self._summary(), "", *lines, *self._rest()])

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: a table of the rows."""
        return html_table(
            self._summary(),
            TITLES,
            [_cells(row) for row in self.rows[:MAX_PRINTED_ROWS]],
            text_columns=TEXT_COLUMNS,
            notes=self._rest(),
        )

    def _rest(self) -> list[str]:
        """Return a line about the rows that are not shown, if there are any."""
        count = len(self.rows) - MAX_PRINTED_ROWS
        return [f"{count} more rows"] if count > 0 else []

    def _summary(self) -> str:
        counts = [f"{count} {rule}" for rule, count in self.counts().items()]
        return f"runs: {', '.join(counts)}"


def _cells(row: Covered) -> list[str]:
    return [row.rule, row.kernel, shortened(row.scope), str(row.runs)]


def coverage(
    f: Callable[[Tensor], Tensor],
    x: TensorLike,
    rules: Composite,
    target: Target = None,
) -> Coverage:
    """Return which rules apply to the runs that relevance passes through.

    ``coverage`` computes ``attribute(f, x, rules, target)``. Where a rule is missing,
    it uses the gradient of the kernel, or zeros if the kernel has none. Functions
    with ``custom_grad`` run no kernel, so they are not listed.

    Args:
        f: The model, as in ``attribute``.
        x: The examples; one is enough.
        rules: The rules.
        target: The value that is explained, as in ``attribute``.

    Returns:
        A ``Coverage``.

    Raises:
        TypeError: An argument has the wrong type, as in ``attribute``.
        ValueError: ``target`` is invalid.

    Example:
        >>> import plugrad_attribution as attr
        >>> model = lambda x: pg.softmax(pg.tanh(x))
        >>> print(attr.coverage(model, [[3.0, 4.0]], attr.AttnLRP(), target=1))
        runs: 0 missing, 1 constant, 1 ruled, 3 linear
        <BLANKLINE>
        rule      kernel        scope  runs
        constant  Softmax                 1
        ruled     Tanh                    1
        linear    Reshape                 1
        linear    StridedSlice            1
        linear    Sum                     1

    """
    values = checked("coverage", f, x, rules)
    found: Counter[tuple[int, str, str]] = Counter()

    def report(flow: Flow) -> None:
        site = flow.site
        if flow.is_first and site.kernel != INPUT.name:
            found[RULES.index(_rule_of(flow)), site.kernel, site.scope] += 1

    extent = Extent(stops=True, gaps=True)
    watched(rules.with_gradients(), gradient_of(f, target), report, extent)(values)
    rows = [
        Covered(RULES[number], kernel, scope, runs)
        for (number, kernel, scope), runs in sorted(found.items())
    ]
    return Coverage(tuple(rows))


def _rule_of(flow: Flow) -> str:
    """Return the kind of rule that applies to a run."""
    kernel = flow.site.kernel
    if flow.is_ruled:
        return "ruled"
    if kernel in WITH_CONSTANT:
        return "constant"
    return "linear" if kernel in LINEAR else "missing"
