"""Print how many patterns of each kind have which outcome.

``python -m tests.core.jit.changes [BACKEND] [--all]``; with ``--all`` each pattern that
is not as expected has a line.
"""

import sys
from collections import Counter

import plugrad as pg

from . import PATTERNS, UNREAD, expected, explained, observe

OUTCOMES = ["right", "frozen", "silent", "error", "alarm"]


def main(arguments):
    names = [name for name in arguments if not name.startswith("-")]
    with pg.use_backend(names[0] if names else "cpu"):
        found = {name: observe(of) for name, of in PATTERNS.items()}
        unread = {name: explained(of) for name, of in UNREAD.items()}
    kinds = dict.fromkeys(of.kind for of in PATTERNS.values())
    width = max(map(len, kinds))
    print("kind".ljust(width), "count", *(f"{each:>6}" for each in OUTCOMES))
    for kind in (*sorted(kinds), "all"):
        of_kind = [n for n, of in PATTERNS.items() if kind in (of.kind, "all")]
        counts = Counter(found[name].outcome for name in of_kind)
        row = [f"{counts[each]:6}" for each in OUTCOMES]
        print(kind.ljust(width), f"{len(of_kind):5}", *row)
    wrong = [n for n in PATTERNS if found[n].outcome != expected(n)]
    print(f"{len(wrong)} of {len(PATTERNS)} patterns are not as expected")
    retraced = [n for n in UNREAD if not is_quiet(UNREAD[n], *unread[n])]
    print(
        f"{len(retraced)} of {len(UNREAD)} functions are recorded too often, or wrong"
    )
    if "--all" in arguments:
        for name in wrong:
            print(f"{name}: {found[name].outcome}; {found[name].detail[:150]}")
        for name in retraced:
            is_right, why = unread[name]
            print(f"{name}: right {is_right}; {why.reason}; {why.retraces}")


def is_quiet(of, is_right, why):
    return is_right and why.graph is not None and len(why.retraces) <= of.max_retraces


if __name__ == "__main__":
    main(sys.argv[1:])
