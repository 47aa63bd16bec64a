"""A model, a hook that records events, and a comparison, for tests of hooks."""

import sys

from .helpers import floats, look


class Model:
    """A user's object whose method is jitted."""

    def __init__(self):
        self.rate = 2.0

    def scaled(self, x):
        return x * self.rate

    def __call__(self, x):
        y = self.scaled(x)
        return y + 1.0


CODES = {Model.scaled.__code__, Model.__call__.__code__}


def check_against_eager(jitted, model, calls=3):
    """Call a function before and after a change, and compare it with eager mode."""
    for rate in (2.0, 3.0):
        model.rate = rate
        for call in range(calls):
            x = floats(3, scale=1.0 + call)
            assert look(jitted(x)) == look(x * rate + 1.0)


class Events:
    """A hook that records the events of the user's code."""

    def __init__(self, codes=CODES):
        self.codes, self.seen = codes, []

    def __call__(self, frame, event, argument):
        if frame.f_code in self.codes:
            self.seen.append((event, frame.f_code.co_name))
        return self

    def count(self, event):
        return sum(found == event for found, _ in self.seen)

    def is_balanced(self):
        """Return whether each function that was called has returned, in order."""
        stack = []
        for event, name in self.seen:
            if event == "call":
                stack.append(name)
            elif event == "return" and (not stack or stack.pop() != name):
                return False
        return not stack


HOOKS = {
    "profile": (sys.setprofile, sys.getprofile),
    "trace": (sys.settrace, sys.gettrace),
}
