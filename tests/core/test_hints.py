"""Errors for names of other libraries give hints, which are in ``tensor/foreign``."""

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
DOTTED_NAME = re.compile(r"\b(pg|pt|x)((?:\.[A-Za-z_]\w*)+)")
MODULES = {"pg": pg, "pt": pt}


def entries(table):
    return [(name, hint) for names, hint in hints.rows(table) for name in names]


def keyword_rows():
    for line in foreign.KEYWORDS.strip().splitlines():
        names, our_names, hint = map(str.strip, line.split("|"))
        yield from ((name, our_names.split(), hint) for name in names.split())


TRANSFORMS = (
    *("grad", "value_and_grad", "grads", "value_and_grads", "vjp", "jvp"),
    *("jacobian", "hessian", "vmap", "jit", "custom_grad"),
)


def functions():
    """Return all functions with keywords: ops, transforms, plugrad-train's."""
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
    transforms = {name: getattr(pg, name) for name in TRANSFORMS}
    return ops() | transforms | train | {"pt.Batches": pt.Batches}


def keywords(function):
    return hints.keywords(function)


TABLES = ("ATTRIBUTES", "METHODS", "DTYPES", "DEVICES")
RECOMMENDED = [hint for t in TABLES for _, hint in hints.rows(getattr(foreign, t))]
RECOMMENDED += [hint for _, _, hint in keyword_rows()]


@pytest.fixture(autouse=True)
def accelerators():
    """Run once: nothing here has an accelerator in C."""


@pytest.mark.parametrize("hint", sorted({*RECOMMENDED} - {""}))
def test_names_in_hints_exist(hint):
    x = pg.ones((1, 1))
    for code in CODE.findall(hint):
        for base, path in DOTTED_NAME.findall(code):
            assert attrgetter(path[1:])(MODULES.get(base, x)) is not None, code


@pytest.mark.parametrize(("name", "hint"), entries(foreign.ATTRIBUTES))
def test_a_foreign_name_of_a_module_has_a_hint(name, hint):
    assert name not in pg.__all__
    with pytest.raises(AttributeError, match=re.escape(hint)):
        attrgetter(name)(pg)
    if not hasattr(pt, name):
        with pytest.raises(AttributeError, match=re.escape(hint)):
            getattr(pt, name)


@pytest.mark.parametrize(("name", "hint"), entries(foreign.METHODS))
@pytest.mark.parametrize("make", [pg.asarray, pg.Variable])
def test_a_foreign_attribute_of_a_tensor_has_a_hint(name, hint, make):
    x = make([1.0])
    message = f"'{type(x).__name__}' object has no attribute '{name}'; {hint}"
    with pytest.raises(AttributeError, match=re.escape(message)):
        getattr(x, name)
    assert not hasattr(x, name)
    assert not hasattr(type(x), name)
    assert name not in dir(x)
    with pytest.raises(AttributeError, match=re.escape(message)):
        setattr(x, name, None)


FUNCTIONS = {name for name in vars(ForeignNames) if not hasattr(pg.Tensor, name)}
FUNCTIONS -= {name for name, _ in entries(foreign.METHODS)}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_that_is_a_method_elsewhere_has_a_hint(name):
    x = pg.asarray([1.0])
    with pytest.raises(AttributeError) as error:
        getattr(x, name)
    hint = str(error.value).partition("; ")[2]
    assert hint
    for path in re.findall(r"^it is x\.(\w+)", hint):
        assert callable(getattr(x, path))
    for path in re.findall(r"^write plugrad\.([\w.]+)", hint):
        assert callable(attrgetter(path)(pg))


METHODS = {
    "masked_fill": "`pg.where(mask, value, x)`",
    "unsqueeze": "it is x.expand_dims here",
    "mm": "it is x.matmul here",
    "cumsum": "it is x.cumulative_sum here",
    "norm": "write plugrad.linalg.vector_norm(x)",
    "median": "write plugrad.median(x)",
    "argsort": "write plugrad.argsort(x)",
}


@pytest.mark.parametrize("name", METHODS)
def test_hints_for_missing_methods(name):
    with pytest.raises(AttributeError, match=re.escape(f"; {METHODS[name]}")):
        getattr(pg.ones(2), name)


def test_names_of_no_library_have_no_hint():
    with pytest.raises(AttributeError, match=r"has no attribute 'zzz'$"):
        _ = pg.ones(2).zzz
    with pytest.raises(AttributeError, match=r"has no attribute 'zzz'$"):
        _ = pt.zzz
    with pytest.raises(AttributeError, match=r"'sdg'; did you mean 'sgd'\?$"):
        _ = pt.sdg


ANSWERED = {
    "cond": r"plugrad\.linalg\.cond here; the `cond` of `jax\.lax` is Python's `if`",
    "lax": "Python's `for`, `while` and `if`",
    "tree.all": r"'all'; `all\(pg\.tree\.leaves\(tree\)\)`$",
    "tree.transpose": r"'transpose'; `pg\.tree\.map\(",
    "tree.sum": r"has no attribute 'sum'$",
    "tree.tree_map": r"it is plugrad\.tree\.map here$",
    "addN": r"it is plugrad\.add_n here$",
    "gatherND": r"it is plugrad\.gather_nd here$",
    "randomNormal": r"it is plugrad\.random\.normal here$",
    "softmaxCrossEntropy": r"it is plugrad\.losses\.softmax_cross_entropy here",
}


@pytest.mark.parametrize("name", ANSWERED)
def test_what_a_name_of_another_library_is_here(name):
    with pytest.raises(AttributeError, match=ANSWERED[name]):
        attrgetter(name)(pg)


def error_of(function, **named):
    """Call a function with its required arguments and others; return the error."""
    required = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not parameter.empty:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            named.setdefault(parameter.name, None)
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            required.append(None)
    with pytest.raises(TypeError) as error:
        function(*required, **named)
    return str(error.value)


ROWS = [*keyword_rows()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{'-'.join(row[1])}")
def test_each_function_with_a_keyword_has_hints_for_its_foreign_names(row):
    word, our_names, hint = row
    functions_with_hint = 0
    for name, function in functions().items():
        known = keywords(function)
        if word in known or not has_keyword_hints(function):
            continue
        fitting = [x for x in our_names if x in known]
        if our_names and not fitting:
            continue
        message = error_of(function, **{word: None})
        assert f"got an unexpected keyword argument {word!r}; " in message, name
        if not our_names:
            elsewhere = {x for w, names, _ in ROWS if w == word for x in names}
            assert hint in message or {*known} & elsewhere, name
        elif hint:
            assert f"{word}= is {hint} here" in message, name
        else:
            assert re.search(rf"; {word}= is \w+= here$", message), name
        functions_with_hint += 1
    assert functions_with_hint, "no function has such a keyword"


def has_keyword_hints(function):
    """Return whether a function's errors translate keywords of other libraries."""
    if hasattr(function, "__wrapped__") or inspect.isclass(function):
        return True
    code = function.__code__
    accepts_any_keyword = code.co_flags & inspect.CO_VARKEYWORDS
    return bool(accepts_any_keyword) and "unknown" in code.co_varnames


def test_each_op_with_a_keyword_in_the_table_has_hints():
    all_our_names = {name for _, our_names, _ in ROWS for name in our_names}
    without_hints = [
        name
        for name, op in ops().items()
        if {*keywords(op)} & all_our_names and not has_keyword_hints(op)
    ]
    assert without_hints == ["isdtype"]  # its dtype is the value that it tests


def test_signatures_show_only_known_keywords():
    for name, function in functions().items():
        assert "unknown" not in inspect.signature(function).parameters, name
    assert "unknown" not in str(inspect.signature(pg.Tensor.sum))


MESSAGES = {
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
    "nobody's": (lambda x: pg.sum(x, q=1), "it has axis=, dtype=, keepdims=, where=$"),
    "lr": (lambda x: pt.sgd(lr=0.1), r"^sgd\(\) .*lr= is learning_rate= here$"),
    "betas": (lambda x: pt.adam(0.1, betas=(0, 0)), "betas= is `b1=` and `b2=` here$"),
    "eps": (lambda x: pg.layer_norm(x, eps=1), "eps= is epsilon= here$"),
    "epsilon": (lambda x: pt.adam(0.1, epsilon=1), "epsilon= is eps= here$"),
    "static_argnums": (
        lambda x: pg.jit(static_argnums=0),
        r"^jit\(\) .*; static_argnums= is static= here$",
    ),
    "donate_argnums": (
        lambda x: pg.jit(pg.sin, donate_argnums=0),
        "donate_argnums= is donate= here$",
    ),
    "axis_size": (
        lambda x: pg.vmap(pg.sin, axis_size=3),
        "the size from its arguments",
    ),
    "holomorphic": (lambda x: pg.grad(pg.sin, holomorphic=True), "need no flag$"),
    "argnums": (
        lambda x: pg.jacobian(pg.sin, argnums=1),
        "function of the one argument",
    ),
    "has_aux": (
        lambda x: pg.vjp(pg.sin, x, has_aux=True),
        r"`pg.grad` .* have it; here",
    ),
    "num": (lambda x: pg.random.split(pg.random.key(0), num=3), "num= is n= here$"),
    "batch_size": (lambda x: pt.Batches(x, batch_size=1), "batch_size= is size= here$"),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_messages_for_foreign_keywords(case):
    call, message = MESSAGES[case]
    with pytest.raises(TypeError, match=message):
        call(pg.ones(2))


@pytest.mark.parametrize(("name", "hint"), entries(foreign.DTYPES))
def test_a_foreign_dtype_has_a_hint(name, hint):
    with pytest.raises(TypeError, match=re.escape(f"; write {hint}")):
        pg.zeros(2, dtype=f"torch.{name}")


class ForeignDtype:
    """A dtype of another library, which plugrad recognizes by its repr."""

    def __init__(self, shown):
        self.shown = shown

    def __repr__(self):
        return self.shown


HINTS_BY_REPR = {
    "torch.float32": "write plugrad.float32",
    "torch.bfloat16": "write plugrad.bfloat16",
    "tf.float64": "write plugrad.float64",
    "<dtype: 'int64'>": "write plugrad.int64",
    "<class 'jax.numpy.bfloat16'>": "write plugrad.bfloat16",
    "nothing": "use one of bool int8",
}


@pytest.mark.parametrize("shown", HINTS_BY_REPR)
def test_hints_for_dtypes_as_other_libraries_show_them(shown):
    with pytest.raises(TypeError, match=f"is not supported; {HINTS_BY_REPR[shown]}"):
        pg.zeros(2, dtype=ForeignDtype(shown))


@pytest.mark.parametrize(("name", "hint"), entries(foreign.DEVICES))
@pytest.mark.parametrize("number", ["", ":0"])
def test_a_foreign_device_has_a_hint(name, number, hint):
    if name in pg.backends():
        pytest.skip(f"{name} is installed, so the name is valid")
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


CONSTRUCTIONS = {
    "of a list": lambda: pg.Tensor([1.0]),
    "of an array": lambda: pg.Tensor(np.ones(2)),
    "of sizes": lambda: pg.Tensor(2, 3),
    "with a dtype": lambda: pg.Tensor([1.0], dtype="float32"),
    "that requires a gradient": lambda: pg.Tensor([1.0], requires_grad=True),
}


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_a_tensor_is_not_made_by_its_class(name):
    with pytest.raises(TypeError, match=r"^Tensor: .* write plugrad.asarray\(values, "):
        CONSTRUCTIONS[name]()


def test_the_signature_shows_required_parameters():
    parameters = inspect.signature(pg.max_pool).parameters
    assert [*parameters][:2] == ["x", "filter_size"]
    assert parameters["filter_size"].default is inspect.Parameter.empty
