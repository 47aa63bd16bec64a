"""Print the number of patterns by kind and outcome.

``python -m tests.core.jit.changes [BACKEND] [--all]``; with ``--all`` it also prints a
line for each pattern whose outcome is unexpected.
"""

import sys
from collections import Counter

import plugrad as pg

from . import PATTERNS, UNREAD, expected, explained, observe

OUTCOMES = ["right", "frozen", "silent", "error", "alarm"]


def main(arguments):
    names = [name for name in arguments if not name.startswith("-")]
    with pg.use_backend(names[0] if names else "cpu"):
        found = {name: observe(pattern) for name, pattern in PATTERNS.items()}
        unread = {name: explained(pattern) for name, pattern in UNREAD.items()}
    kinds = dict.fromkeys(pattern.kind for pattern in PATTERNS.values())
    width = max(map(len, kinds))
    print("kind".ljust(width), "count", *(f"{outcome:>6}" for outcome in OUTCOMES))
    for kind in (*sorted(kinds), "all"):
        names_of_kind = [
            n for n, pattern in PATTERNS.items() if kind in (pattern.kind, "all")
        ]
        counts = Counter(found[name].outcome for name in names_of_kind)
        row = [f"{counts[outcome]:6}" for outcome in OUTCOMES]
        print(kind.ljust(width), f"{len(names_of_kind):5}", *row)
    wrong = [n for n in PATTERNS if found[n].outcome != expected(n)]
    print(f"{len(wrong)} of {len(PATTERNS)} patterns are not as expected")
    retraced = [n for n in UNREAD if not is_as_expected(UNREAD[n], *unread[n])]
    print(
        f"{len(retraced)} of {len(UNREAD)} functions are recorded too often or give "
        "wrong results"
    )
    if "--all" in arguments:
        for name in wrong:
            print(f"{name}: {found[name].outcome}; {found[name].detail[:150]}")
        for name in retraced:
            is_right, why = unread[name]
            print(f"{name}: right {is_right}; {why.reason}; {why.retraces}")


def is_as_expected(pattern, is_right, why):
    return (
        is_right and why.graph is not None and len(why.retraces) <= pattern.max_retraces
    )


if __name__ == "__main__":
    main(sys.argv[1:])
