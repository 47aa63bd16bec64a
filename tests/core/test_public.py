"""Public objects name public modules: in tracebacks, pickles and ``help``."""

import ast
import pickle
import pickletools
import re
import sys
import traceback
import types
from importlib import import_module
from pathlib import Path

import numpy as np
import plugrad as pg
import pytest
from plugrad import importing, plugin
from plugrad._src.registry.contract import origin

from tests.surface import namespaces, public

MODULES = ["plugrad", "plugrad.plugin", "plugrad.geometry", "plugrad.importing"]
MODULES += [f"plugrad.{name}" for name in namespaces() if name]
OBJECTS = {f"pg.{name}": value for name, value in public().items()}
OBJECTS |= {f"plugin.{name}": getattr(plugin, name) for name in plugin.__all__}
OBJECTS |= {f"importing.{n}": getattr(importing, n) for n in importing.__all__}
# A union of types, such as TensorLike, has no name; in Python 3.14, its name comes from
# typing.
OBJECTS_EXCEPT_UNIONS = {
    n: v for n, v in OBJECTS.items() if not isinstance(v, types.UnionType)
}
OBJECTS = {n: v for n, v in OBJECTS_EXCEPT_UNIONS.items() if hasattr(v, "__qualname__")}


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_a_public_object_is_in_the_module_that_it_names(name):
    value = OBJECTS[name]
    assert value.__module__ in MODULES
    assert getattr(import_module(value.__module__), value.__name__) is value


@pytest.mark.parametrize("name", [name for name in namespaces() if name])
def test_a_namespace_is_a_module(name):
    module = import_module(f"plugrad.{name}")
    assert module is getattr(pg, name)
    assert module.__all__
    assert module.__doc__
    assert {getattr(module, n).__module__ for n in module.__all__} == {module.__name__}


def test_imports_from_namespaces_and_ops_with_two_names():
    from plugrad.fft import rfft

    assert rfft is pg.fft.rfft
    assert pg.linalg.matmul is pg.matmul
    assert pg.matmul.__module__ == "plugrad"  # the first of its two namespaces


NAMESPACE_OF_FAMILY = {"block_quantized": "quantized", "interpolation": "image"}


@pytest.mark.parametrize(
    "family", sorted(f for f in sys.modules if f.startswith("plugrad._src.ops."))
)
def test_names_that_a_family_exports_are_public(family):
    module = sys.modules[family]
    name = family.rpartition(".")[2]
    name = NAMESPACE_OF_FAMILY.get(name, name)
    space = getattr(pg, name) if name in namespaces() else pg
    lacking = {*getattr(module, "__all__", [])} - {*space.__all__}
    assert not lacking, f"import {lacking} from {family} in {space.__file__}"


PICKLED = {
    "tensor": lambda: pg.asarray([1.0, 2.0]),
    "variable": lambda: pg.Variable([1.0], name="w"),
    "spec": lambda: plugin.Spec((2, 3), np.dtype("float32")),
    "svd": lambda: pg.linalg.svd(pg.eye(2)),
    "slogdet": lambda: pg.linalg.slogdet(pg.eye(2)),
    "unique": lambda: pg.unique_all([1, 1, 2]),
    "filled rows": lambda: pg.sparse.fill_empty_rows([[0, 0]], [1.0], [2, 2], 0.0),
    "pieces": lambda: pg.strings.split(["a b"], " "),
    "packs": lambda: pg.gradient_packs(),
    "error": lambda: pg.KernelNotFound("no kernel"),
    "model error": lambda: importing.ModelError(["no outputs", "a circle"]),
    "backend error": lambda: pg.BackendUnavailable("no backend"),
    "op": lambda: pg.relu,
    "op of a namespace": lambda: pg.image.resize_bilinear,
    "function": lambda: pg.grad,
    "tool": lambda: pg.save,
    "function of plugins": lambda: plugin.run,
    "class": lambda: pg.Tensor,
}


@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize("name", PICKLED)
def test_a_pickle_names_no_private_module(name, protocol):
    with pg.use_backend("cpu"):
        value = PICKLED[name]()
        data = pickle.dumps(value, protocol)
        unpickled = pickle.loads(data)
    assert type(unpickled) is type(value)
    assert repr(unpickled) == repr(value) or name == "variable"
    words = [arg for _, arg, _ in pickletools.genops(data) if isinstance(arg, str)]
    first = {word.split(" ")[0] for word in words}
    named = {word for word in first if re.fullmatch(r"plugrad(\.\w+)*", word)}
    assert named <= {*MODULES}


@pytest.mark.parametrize(
    "name", [n for n in pg.__all__ if n.endswith(("Error", "Unavailable", "NotFound"))]
)
def test_a_traceback_shows_the_public_name(name):
    (line,) = traceback.format_exception_only(getattr(pg, name)("why"))
    assert line == f"plugrad.{name}: why\n"


def test_the_origin_of_a_gradient_is_the_module_that_has_the_line():
    line = pg.negative.__code__.co_firstlineno
    assert origin(pg.negative, "user") == f"user (plugrad._src.ops.basis.unary:{line})"


def published(module):
    """Return the names that a public module publishes in addition to ``__all__``."""
    tree = ast.parse(module.read_text())
    calls = [node.value for node in tree.body if isinstance(node, ast.Expr)]
    publishing = [
        call
        for call in calls
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "publish"
    ]
    return {ast.unparse(name) for call in publishing for name in call.args[1:]}


@pytest.mark.parametrize(
    "module", sorted(Path(pg.__file__).parent.glob("*.py")), ids=lambda p: p.stem
)
def test_type_checkers_find_names_that_are_published_outside_of_all(module):
    """Type checkers treat an import as public if it has the form ``x as x``."""
    aliases = {
        name.name
        for node in ast.parse(module.read_text()).body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.asname == name.name
    }
    private = {name for name in published(module) if name.startswith("_")}
    assert published(module) - private - aliases == set()
