"""Names of other libraries are answered by what plugrad has: ``tensor/foreign``."""

import inspect
import re
from operator import attrgetter

import numpy as np
import plugrad as pg
import plugrad_train as pt
import pytest
from plugrad._src.tensor import foreign, hints
from plugrad._src.tensor.hints import ForeignNames

from tests.surface import ops

CODE = re.compile(r"`([^`]*)`")
NAMED = re.compile(r"\b(pg|pt|x)((?:\.[A-Za-z_]\w*)+)")
MODULES = {"pg": pg, "pt": pt}


def entries(table):
    return [(name, hint) for names, hint in hints.rows(table) for name in names]


def keyword_rows():
    for line in foreign.KEYWORDS.strip().splitlines():
        names, here, hint = map(str.strip, line.split("|"))
        yield from ((name, here.split(), hint) for name in names.split())


def functions():
    """Return what has keywords: the ops, and the functions of plugrad-train."""
    spaces = {
        "pt": pt,
        "pt.schedules": pt.schedules,
        "pt.initializers": pt.initializers,
    }
    train = {
        f"{space}.{name}": getattr(module, name)
        for space, module in spaces.items()
        for name in getattr(module, "__all__", dir(module))
        if inspect.isfunction(getattr(module, name))
    }
    return ops() | train | {"pt.Batches": pt.Batches}


def keywords(function):
    return hints.keywords(function)


TABLES = ("ATTRIBUTES", "METHODS", "DTYPES", "DEVICES")
RECOMMENDED = [hint for t in TABLES for _, hint in hints.rows(getattr(foreign, t))]
RECOMMENDED += [hint for _, _, hint in keyword_rows()]


@pytest.fixture(autouse=True)
def accelerators():
    """Run once: what is tested has no accelerator in C."""


@pytest.mark.parametrize("hint", sorted({*RECOMMENDED} - {""}))
def test_what_a_hint_recommends_exists(hint):
    x = pg.ones((1, 1))
    for code in CODE.findall(hint):
        for base, path in NAMED.findall(code):
            assert attrgetter(path[1:])(MODULES.get(base, x)) is not None, code


@pytest.mark.parametrize(("name", "hint"), entries(foreign.ATTRIBUTES))
def test_a_name_of_a_module_is_answered(name, hint):
    assert name not in pg.__all__
    with pytest.raises(AttributeError, match=re.escape(hint)):
        getattr(pg, name)
    if not hasattr(pt, name):
        with pytest.raises(AttributeError, match=re.escape(hint)):
            getattr(pt, name)


@pytest.mark.parametrize(("name", "hint"), entries(foreign.METHODS))
@pytest.mark.parametrize("make", [pg.asarray, pg.Variable])
def test_a_name_of_a_tensor_is_answered(name, hint, make):
    x = make([1.0])
    message = f"'{type(x).__name__}' object has no attribute '{name}'; {hint}"
    with pytest.raises(AttributeError, match=re.escape(message)):
        getattr(x, name)
    assert not hasattr(x, name)
    assert not hasattr(type(x), name)
    assert name not in dir(x)


FUNCTIONS = {name for name in vars(ForeignNames) if not hasattr(pg.Tensor, name)}
FUNCTIONS -= {name for name, _ in entries(foreign.METHODS)}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_that_is_a_method_elsewhere_is_answered(name):
    x = pg.asarray([1.0])
    with pytest.raises(AttributeError) as error:
        getattr(x, name)
    told = str(error.value).partition("; ")[2]
    assert told
    for path in re.findall(r"^it is x\.(\w+)", told):
        assert callable(getattr(x, path))
    for path in re.findall(r"^write plugrad\.([\w.]+)", told):
        assert callable(attrgetter(path)(pg))


METHODS = {
    "unsqueeze": "it is x.expand_dims here",
    "mm": "it is x.matmul here",
    "cumsum": "it is x.cumulative_sum here",
    "norm": "write plugrad.linalg.vector_norm(x)",
    "median": "write plugrad.median(x)",
    "argsort": "write plugrad.argsort(x)",
}


@pytest.mark.parametrize("name", METHODS)
def test_what_a_missing_method_is_here(name):
    with pytest.raises(AttributeError, match=re.escape(f"; {METHODS[name]}")):
        getattr(pg.ones(2), name)


def test_names_of_nobody_have_no_hint():
    with pytest.raises(AttributeError, match=r"has no attribute 'zzz'$"):
        _ = pg.ones(2).zzz
    with pytest.raises(AttributeError, match=r"has no attribute 'zzz'$"):
        _ = pt.zzz
    with pytest.raises(AttributeError, match=r"'sdg'; did you mean 'sgd'\?$"):
        _ = pt.sdg


def error_of(function, **named):
    """Call a function with the arguments that it needs and others; return the error."""
    needed = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not parameter.empty:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            named.setdefault(parameter.name, None)
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            needed.append(None)
    with pytest.raises(TypeError) as error:
        function(*needed, **named)
    return str(error.value)


ROWS = [*keyword_rows()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{'-'.join(row[1])}")
def test_a_keyword_is_answered_by_each_function_that_has_it(row):
    word, here, hint = row
    asked = 0
    for name, function in functions().items():
        known = keywords(function)
        if word in known or not answers_keywords(function):
            continue
        fitting = [x for x in here if x in known]
        if here and not fitting:
            continue
        message = error_of(function, **{word: None})
        assert f"got an unexpected keyword argument {word!r}; " in message, name
        if not here:
            elsewhere = {x for w, theirs, _ in ROWS if w == word for x in theirs}
            assert hint in message or {*known} & elsewhere, name
        elif hint:
            assert f"{word}= is {hint} here" in message, name
        else:
            assert re.search(rf"; {word}= is \w+= here$", message), name
        asked += 1
    assert asked, "no function has such a keyword"


def answers_keywords(function):
    """Return whether a function says itself what a keyword is called here."""
    if hasattr(function, "__wrapped__") or inspect.isclass(function):
        return True
    code = function.__code__
    takes_more = code.co_flags & inspect.CO_VARKEYWORDS
    return bool(takes_more) and "unknown" in code.co_varnames


def test_each_op_that_has_a_keyword_of_the_table_answers():
    theirs = {name for _, here, _ in ROWS for name in here}
    silent = [
        name
        for name, op in ops().items()
        if {*keywords(op)} & theirs and not answers_keywords(op)
    ]
    assert silent == ["isdtype"]  # dtype is what it asks about


def test_signatures_show_what_can_be_passed():
    for name, function in functions().items():
        assert "unknown" not in inspect.signature(function).parameters, name
    assert "unknown" not in str(inspect.signature(pg.Tensor.sum))


SAID = {
    "dim": (lambda x: pg.sum(x, dim=0), r"^sum\(\) .*; dim= is axis= here$"),
    "method": (lambda x: x.sum(dim=0), r"^sum\(\) .*; dim= is axis= here$"),
    "two": (
        lambda x: pg.sum(x, dim=0, keepdim=True),
        "keyword arguments 'dim' and 'keepdim'; dim= is axis= here; "
        "keepdim= is keepdims= here$",
    ),
    "stride": (
        lambda x: pg.conv2d(x, x, stride=1, padding=1),
        "stride= is strides= here; padding= is pad= here$",
    ),
    "requires_grad": (
        lambda x: pg.zeros(2, requires_grad=True),
        "requires_grad=: leave it out: `pg.grad` differentiates",
    ),
    "axes": (lambda x: pg.fft.fftn(x, axis=0), "axis= is axes= here$"),
    "misspelt": (lambda x: pg.sum(x, keepdms=1), r"did you mean keepdims=\?$"),
    "nobody's": (lambda x: pg.sum(x, q=1), "it has axis=, dtype=, keepdims=$"),
    "lr": (lambda x: pt.sgd(lr=0.1), r"^sgd\(\) .*lr= is learning_rate= here$"),
    "betas": (lambda x: pt.adam(0.1, betas=(0, 0)), "betas= is `b1=` and `b2=` here$"),
    "eps": (lambda x: pg.layer_norm(x, eps=1), "eps= is epsilon= here$"),
    "epsilon": (lambda x: pt.adam(0.1, epsilon=1), "epsilon= is eps= here$"),
    "batch_size": (lambda x: pt.Batches(x, batch_size=1), "batch_size= is size= here$"),
}


@pytest.mark.parametrize("case", SAID)
def test_what_a_message_says(case):
    call, message = SAID[case]
    with pytest.raises(TypeError, match=message):
        call(pg.ones(2))


@pytest.mark.parametrize(("name", "hint"), entries(foreign.DTYPES))
def test_a_dtype_is_answered(name, hint):
    with pytest.raises(TypeError, match=re.escape(f"; write {hint}")):
        pg.zeros(2, dtype=f"torch.{name}")


class OfAnother:
    """A dtype of another library; plugrad knows it by its repr."""

    def __init__(self, shown):
        self.shown = shown

    def __repr__(self):
        return self.shown


SHOWN = {
    "torch.float32": "write plugrad.float32",
    "torch.bfloat16": "write `pg.float16` or `pg.float32`",
    "tf.float64": "write plugrad.float64",
    "<dtype: 'int64'>": "write plugrad.int64",
    "<class 'jax.numpy.bfloat16'>": "write `pg.float16` or `pg.float32`",
    "nothing": "there are bool int8",
}


@pytest.mark.parametrize("shown", SHOWN)
def test_dtypes_as_other_libraries_show_them(shown):
    with pytest.raises(TypeError, match=f"is not supported; {SHOWN[shown]}"):
        pg.zeros(2, dtype=OfAnother(shown))


@pytest.mark.parametrize(("name", "hint"), entries(foreign.DEVICES))
@pytest.mark.parametrize("number", ["", ":0"])
def test_a_device_is_answered(name, number, hint):
    for call in (
        lambda: pg.ones(2).to(name + number),
        lambda: pg.set_backend(name + number),
        lambda: pg.zeros(2, device=name + number),
    ):
        with pytest.raises(pg.BackendUnavailable, match=re.escape(hint)):
            call()


@pytest.mark.parametrize("dtype", [pg.float16, "float16", np.float32, "half"])
def test_a_tensor_is_not_moved_to_a_dtype(dtype):
    with pytest.raises(pg.BackendUnavailable, match=r"; `x.astype\(dtype\)` changes"):
        pg.ones(2).to(dtype)


MADE = {
    "of a list": lambda: pg.Tensor([1.0]),
    "of an array": lambda: pg.Tensor(np.ones(2)),
    "of sizes": lambda: pg.Tensor(2, 3),
    "with a dtype": lambda: pg.Tensor([1.0], dtype="float32"),
    "that requires a gradient": lambda: pg.Tensor([1.0], requires_grad=True),
}


@pytest.mark.parametrize("how", MADE)
def test_a_tensor_is_not_made_by_its_class(how):
    with pytest.raises(TypeError, match=r"^Tensor: .* write plugrad.asarray\(values, "):
        MADE[how]()


def test_the_signature_shows_what_is_required():
    parameters = inspect.signature(pg.max_pool).parameters
    assert [*parameters][:2] == ["x", "filter_size"]
    assert parameters["filter_size"].default is inspect.Parameter.empty
