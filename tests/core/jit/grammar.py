"""Templates for the parts of random programs with state.

Empty lines separate entries. The plain lines of an entry run once, to set up the
program; lines after ``>`` are part of the function, and lines after ``~`` change state
between two calls. ``$e`` is an expression that reads state, ``$v`` a new value of the
same kind, ``$s`` a small number, ``$n`` the number of this use of the entry, and
``$block`` lines that compute a new ``y``.

Contents: ``Entry``, ``parsed``; ``VALUES`` that state may have; ``HOLDERS`` of a value.
``grammar_of_reading`` contains the ways to read a value, ``grammar_of_running`` the
code around the lines that read it.
"""

import re
from typing import NamedTuple


class Entry(NamedTuple):
    """One template: lines that set it up, lines of the function, changes of state."""

    setup: tuple[str, ...]
    body: tuple[str, ...]
    changes: tuple[str, ...]


def parsed(text):
    """Return the entries of a text."""
    return [_entry(part.splitlines()) for part in re.split(r"\n\s*\n", text.strip())]


def _entry(lines):
    body = tuple(line[2:] for line in lines if line.startswith("> "))
    changes = tuple(line[2:] for line in lines if line.startswith("~ "))
    setup = tuple(line for line in lines if line[:2] not in ("> ", "~ "))
    return Entry(setup, body, changes)


class Value(NamedTuple):
    """A kind of value: how it is written, how it is used, how it changes in place."""

    literals: tuple[str, ...]
    uses: tuple[str, ...]
    changes: tuple[str, ...] = ()


VALUES = {
    "number": Value(
        ("0.5", "1", "True", "1.0", "2", "-0.0", "0.75", "1.25", "0"),
        (
            "y = y * $e",
            "y = y + $e",
            "y = y - float($e)",
            "if $e > 0.9:\n    y = pg.sin(y)",
            "y = y * 3.0 if isinstance($e, int) else y * $e",
            "for _ in range(int($e)):\n    y = y * 0.5",
            "y = pg.sum(y, axis=-1) if $e == 1 else y",
            "out[$e] = y",
            "y = y + pg.grad(lambda w: pg.sum(pg.sin(w) * $e))(y)",
        ),
    ),
    "flag": Value(
        ("True", "False", "None"),
        (
            "if $e:\n    y = pg.sin(y)",
            "y = y if $e else -y",
            "y = y * (2.0 if $e is None else 0.5)",
            "y = pg.tanh(y) if not $e else y + 1.0",
        ),
    ),
    "tensor": Value(
        (
            "tensor(1)",
            "tensor(2)",
            "tensor(3)",
            "tensor(1) * 2",
            "pg.asarray(0.5)",
            "pg.log(tensor(4))",
            "pg.asarray([1, 2, 3])",
        ),
        (
            "y = y * $e",
            "y = pg.maximum(y, $e)",
            "y = y + pg.sum($e)",
            "y = y + pg.grad(lambda w: pg.sum(w * w))($e)",
            "y = y + pg.grad(lambda w: pg.sum(w * $e))(y)",
            "out['e'] = $e",
            "y = y + $e.shape[0] if $e.ndim else y",
            "y = y * 0.5 if $e.dtype == 'int64' else y",
            "y = y + pg.stack([$e, $e * 2.0])[1]",
        ),
        ("$e[0] = $s", "$e[...] = $s"),
    ),
    "array": Value(
        ("array(1)", "array(2)", "array(3)"),
        (
            "y = y + pg.asarray($e)",
            "y = y * $e",
            "y = y * float($e[0])",
            "if $e.max() > 0.9:\n    y = pg.sin(y)",
        ),
        ("$e[1] = $s", "$e[...] = $s"),
    ),
    "text": Value(
        ("'sin'", "'tanh'", "'cos'", "'square'"),
        (
            "y = getattr(pg, $e)(y)",
            "if $e == 'sin':\n    y = pg.sin(y)",
            "out[$e] = y",
        ),
    ),
    "numbers": Value(
        ("[1.5, 0.5]", "(0.5,)", "[]", "deque([0.25, 1])", "[True, 2]", "Bag([1.5])"),
        (
            "for z in $e:\n    y = y * z + 1.0",
            "y = y * len($e)",
            "y = y + sum($e)",
            "y = y * (0.5 if $e else 2.0)",
            "y = y * [*$e][-1]",
            "y = y + 1.0 if 0.5 in $e else y",
        ),
        ("$e.append($s)", "$e.reverse()", "$e[0] = $s", "$e.clear()", "$e.pop()"),
    ),
    "table": Value(
        (
            "{'a': 1.5, 'b': 0.5}",
            "{'b': 0.5, 'a': 1.5}",
            "{}",
            "OrderedDict(b=0.5, a=2)",
            "{True: 0.5}",
            "{1: 0.5}",
        ),
        (
            "for k, z in $e.items():\n    y = y * z + len(str(k))",
            "y = y * $e.get('b', 2.0)",
            "y = y + 1.0 if 'c' in $e else y",
            "out.update($e)",
            "y = y * sum($e.values())",
            "y = y + len($e)",
        ),
        ("$e['b'] = $s", "$e['c'] = $s", "$e['b'] = $e.pop('b')", "$e.clear()"),
    ),
    "tensors": Value(
        ("[tensor(1), tensor(2)]", "(tensor(3),)", "[tensor(2), tensor(1)]", "[]"),
        ("for z in $e:\n    y = y * z + 1.0", "y = sum($e, y)", "y = y + $e[0]"),
        ("$e[0] = tensor(5)", "$e.append(tensor(6))", "$e.reverse()", "$e[0][1] = $s"),
    ),
    "function": Value(
        ("pg.sin", "pg.tanh", "lambda y: y * 0.5", "double", "partial(pg.add, 0.5)"),
        ("y = $e(y)", "y = y + pg.grad(lambda w: pg.sum($e(w)))(y)"),
    ),
    "variable": Value(
        ("pg.Variable(tensor(1))", "pg.Variable(tensor(2))", "pg.Variable(0.5)"),
        (
            "y = y * $e",
            "y = y + $e.value",
            "$e.assign($e * 0.5 + pg.mean(y))\ny = y + $e",
            "$e.assign(pg.mean(y) + $e * 0.0)",
        ),
        ("$e.assign($e + $s)", "$e[...] = $s"),
    ),
    "matrix": Value(
        ("eye(1.0)", "eye(-1.0)", "eye(4.0)"),
        (
            "try:\n    y = y + pg.sum(pg.linalg.cholesky($e))\n"
            "except ValueError:\n    y = y - 1.0",
            "y = y + pg.sum(pg.linalg.cholesky($e))",
            "try:\n    pg.linalg.cholesky($e)\n"
            "except ValueError as error:\n    out[str(error)] = y",
            "y = y * pg.mean($e)",
        ),
    ),
    "index": Value(
        ("0", "1", "2", "7", "pg.asarray([1])", "pg.asarray([9])", "pg.asarray([0])"),
        (
            "try:\n    y = y + pg.gather(tensor(1), $e)\n"
            "except IndexError:\n    y = y * 0.5",
            "y = y + pg.gather(tensor(2), $e)",
            "y = y + tensor(1)[int($e)] if isinstance($e, int) else y",
        ),
    ),
}

# The line after ``>`` reads the value from its holder ``$b``.
HOLDERS = parsed("""
{"a": $v, "b": 1.5}
> $b["a"]
~ $b["a"] = $v
~ $b.update(a=$v)
~ $b["a"] = $b.pop("a")
~ del $b["a"]

OrderedDict(a=$v, b=$v)
> $b["a"]
~ $b["a"] = $v
~ $b.move_to_end("a")
~ $b["a"], $b["b"] = $b["b"], $b["a"]

defaultdict(lambda: 0.5, a=$v)
> $b["a"]
~ $b["a"] = $v
~ del $b["a"]
~ $b.default_factory = lambda: $v

ChainMap({"b": 1.5}, {"a": $v})
> $b["a"]
~ $b["a"] = $v
~ $b.maps[1]["a"] = $v
~ $b.maps.insert(0, {"a": $v})

MappingProxyType({"a": $v})
> $b["a"]

UserDict(a=$v)
> $b["a"]
~ $b["a"] = $v
~ $b.data = {"a": $v}

Table(a=$v)
> $b["a"]
~ $b["a"] = $v

[$v, $v]
> $b[0]
~ $b[0] = $v
~ $b.reverse()
~ $b.insert(0, $v)

($v, $v)
> $b[1]

deque([$v, $v])
> $b[0]
~ $b[0] = $v
~ $b.rotate(1)
~ $b.appendleft($v)

Bag([$v])
> [*$b][0]
~ $b[0] = $v
~ $b.items = [$v]

SimpleNamespace(v=$v)
> $b.v
~ $b.v = $v
~ del $b.v
~ $b.__dict__["v"] = $v

set_up(Plain(), v=$v)
> $b.v
~ $b.v = $v
~ vars($b)["v"] = $v
~ del $b.v
~ $b.other = $s
~ $b.__class__ = Other

set_up(Slots(), v=$v)
> $b.v
~ $b.v = $v
~ del $b.v

Data($v)
> $b.v
~ $b.v = $v
~ $b.other = $s

set_up(ModuleType("settings"), v=$v)
> $b.v
~ $b.v = $v
~ del $b.v
~ vars($b).update(v=$v)

set_up(lambda: None, v=$v)
> $b.v
~ $b.v = $v
~ vars($b)["v"] = $v

cell($v)
> $b()
~ $b.__closure__[0].cell_contents = $v

partial(identity, $v)
> $b()

Fetch($v)
> $b["v"]
~ $b.found = $v

np.array([$v, None], dtype=object)
> $b[0]
~ $b[0] = $v

context_variable($v)
> $b.get()
~ $b.set($v)
""")
