"""Code objects: the names that they read, and which of them run in a block.

``jit`` compares the values that a function reads. This module tells it which code
objects ran in a call, and which globals, attributes and modules they name.

Contents: ``Names`` and ``names_in``; what is trusted; ``RunningCode``; ``code_of``, an
estimate for a function that has not run.
"""

from __future__ import annotations

import dis
import functools
import gc
import sys
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import (
    CodeType,
    FrameType,
    FunctionType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import Any, NamedTuple, Self

from plugrad._src.registry.backend import transferring

from . import accelerated
from .context import in_thread

# Packages whose state is not compared, because it does not depend on the user.
TRUSTED = frozenset({*sys.stdlib_module_names, "numpy", "plugrad"})
# Standard-library modules that read attributes without naming them in their code, as
# ``dataclasses.asdict(config)`` does.
READ_BY_NAME = frozenset(
    {"argparse", "copy", "dataclasses", "json", "pickle", "pprint"}
)
# Code with one of these names may read any attribute.
ANY_ATTRIBUTE = frozenset(
    {
        "__dict__",
        "__getattribute__",
        "attrgetter",
        "dir",
        "format",
        "format_map",
        "getattr",
        "hasattr",
        "methodcaller",
        "vars",
    }
)


# Code objects, each with the globals that it ran in.
CodeWithGlobals = Iterable[tuple[CodeType, dict[str, Any]]]


def package_of(module: str) -> str:
    """Return the top-level package of a module."""
    return module.partition(".")[0]


def module_of(value: Any) -> object:
    """Return the module of a function, a class or an object; a module's own name."""
    kind = type(value)
    if issubclass(kind, FunctionType):
        return value.__globals__.get("__name__")
    if issubclass(kind, ModuleType):
        return value.__name__
    return value.__module__ if issubclass(kind, type) else kind.__module__


# --- names -----------------------------------------------------------------------


# Code with one of these names may run code that ``RunningCode`` does not see.
HOOKS = frozenset({"setprofile", "settrace"})
# Code with one of these names may read globals or modules named in its strings.
DYNAMIC_LOOKUPS = frozenset(
    {"__globals__", "__import__", "globals", "import_module", "modules"}
)


class Names(NamedTuple):
    """The names that code reads.

    Attributes:
        globals: Globals, and built-in names.
        attributes: Attributes of any object.
        chains: Chains of attributes that start at a global: ``pg.random.key`` is
            ``("pg", ("random", "key"))``. A name in a chain is in ``attributes`` only
            if the code also reads it elsewhere.
        modules: Modules that the code imports.
        any_attribute: Whether the code may read attributes that it does not name.
        has_dynamic_lookups: Whether the strings in the code may name globals or modules
            that it reads.

    """

    globals: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    chains: frozenset[tuple[str, tuple[str, ...]]] = frozenset()
    modules: frozenset[str] = frozenset()
    any_attribute: bool = False
    has_dynamic_lookups: bool = False


# The set to which an instruction adds a name, and how many low bits of its argument
# are flags. The test of this module compares the result with ``dis``.
_FLAG_BITS = {
    "LOAD_GLOBAL": ("globals", 1),
    "LOAD_NAME": ("globals", 0),
    "LOAD_FROM_DICT_OR_GLOBALS": ("globals", 0),
    "LOAD_ATTR": ("attributes", 1 if sys.version_info >= (3, 12) else 0),
    "LOAD_METHOD": ("attributes", 0),
    "LOAD_SUPER_ATTR": ("attributes", 2),
    "IMPORT_FROM": ("attributes", 0),
    "IMPORT_NAME": ("modules", 0),
}
_READS = {
    dis.opmap[name]: reads for name, reads in _FLAG_BITS.items() if name in dis.opmap
}
_SKIPPED = frozenset({dis.EXTENDED_ARG, dis.opmap.get("CACHE", 0)})
_MATCH_CLASS = dis.opmap["MATCH_CLASS"]


@functools.lru_cache(4096)
def _names_of(key: _ByIdentity) -> Names:
    found = {kind: set[str]() for kind in ("globals", "attributes", "modules")}
    chains: dict[tuple[str, tuple[str, ...]], None] = {}
    root = ""
    chain = tuple[str, ...]()
    any_attribute = False
    for operation, argument in _instructions(key.code):
        kind, flags = _READS.get(operation, ("", 0))
        name = key.code.co_names[argument >> flags] if kind else ""
        if kind == "attributes" and root:
            chain = (*chain, name)
            continue
        if chain:
            chains[root, chain] = None
        root = name if kind == "globals" else ""
        chain = ()
        if kind:
            found[kind].add(name)
        any_attribute = any_attribute or operation == _MATCH_CLASS
    everything = found["globals"] | found["attributes"]
    everything.update(*[names for _, names in chains])
    has_dynamic_lookups = not DYNAMIC_LOOKUPS.isdisjoint(everything)
    if has_dynamic_lookups:
        texts = _texts(key.code)
        found["globals"].update(texts)
        found["modules"].update(texts)
    return Names(
        frozenset(found["globals"]),
        frozenset(found["attributes"]),
        frozenset(chains),
        frozenset(found["modules"]),
        any_attribute or not ANY_ATTRIBUTE.isdisjoint(everything),
        has_dynamic_lookups,
    )


def _instructions(code: CodeType) -> Iterator[tuple[int, int]]:
    """Yield the operations of code with their arguments."""
    extended = 0
    raw = code.co_code
    for i in range(0, len(raw), 2):
        operation = raw[i]
        argument = raw[i + 1] | extended
        extended = argument << 8 if operation == dis.EXTENDED_ARG else 0
        if operation not in _SKIPPED:
            yield operation, argument


def _texts(code: CodeType) -> list[str]:
    """Return the strings in code that may be names."""
    texts = [x for x in code.co_consts if isinstance(x, str)]
    return [x for x in texts if all(part.isidentifier() for part in x.split("."))]


class _ByIdentity:
    """A code object as a key, by identity: hashing its contents would be slow."""

    __slots__ = ("code",)

    def __init__(self, code: CodeType) -> None:
        self.code = code

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.code is other.code

    def __hash__(self) -> int:
        return id(self.code)


def names_in(code: CodeType) -> Names:
    """Return the names that a code object reads, without those of code inside it."""
    return _names_of(_ByIdentity(code))


def all_names(names: Names) -> set[str]:
    """Return all globals and attributes in ``names``."""
    found = {*names.globals, *names.attributes}
    return found.union(*[chain for _, chain in names.chains])


def code_inside(code: CodeType) -> Iterable[CodeType]:
    """Yield a code object, and those of the functions that it defines."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_inside(constant)


# --- what is trusted -------------------------------------------------------------


def is_trusted_class(cls: type) -> bool:
    """Return whether a class belongs to the standard library, NumPy or plugrad."""
    if package_of(cls.__module__) not in TRUSTED:
        return False
    # A class made by ``types.new_class`` only claims to be in ``types``.
    module = sys.modules.get(cls.__module__)
    return hasattr(module, cls.__qualname__.partition(".")[0])


def joined_names(ran: CodeWithGlobals) -> Names:
    """Return the names in all code that ran."""
    attributes: set[str] = set()
    any_attribute = has_dynamic_lookups = False
    for code, code_globals in ran:
        names = names_in(code)
        attributes |= names.attributes
        for root, chain in names.chains:
            if not is_trusted_module(code_globals.get(root)):
                attributes.update(chain)
        package = package_of(str(code_globals.get("__name__", "")))
        if package not in TRUSTED or package in READ_BY_NAME:
            any_attribute = any_attribute or names.any_attribute
        if package not in TRUSTED:
            has_dynamic_lookups = has_dynamic_lookups or names.has_dynamic_lookups
    return Names(
        attributes=frozenset(attributes),
        any_attribute=any_attribute,
        has_dynamic_lookups=has_dynamic_lookups,
    )


def is_trusted_module(value: Any) -> bool:
    """Return whether a value is a standard-library, NumPy or plugrad module."""
    is_module = issubclass(type(value), ModuleType)
    return is_module and package_of(value.__name__) in TRUSTED


def imported_modules(names: Iterable[str], package: str) -> list[str]:
    """Return the full names of the modules that the imports in a package may denote."""
    found: list[str] = []
    for name in sorted(names):
        parents = package.split(".")
        relative = [
            ".".join([*parents[:depth], *([name] if name else [])])
            for depth in range(1, len(parents) + 1)
        ]
        found += [n for n in relative if n in sys.modules]
        found += [name, package_of(name)] if name else []
    return [*dict.fromkeys(n for n in found if package_of(n) not in TRUSTED)]


# --- what runs -------------------------------------------------------------------


# Callbacks of weak references: they run when an object dies.
_WEAKREF_CALLBACKS = [weakref.finalize.__call__.__code__]
# What ``RunningCode._answer`` returns, in this order: report the next call of this code
# as well; report no more calls of it in this block; never report this code again;
# report no calls until this one returns.
FOLLOW, IGNORE_THIS_CALL, IGNORE_CODE, IGNORE_CALLEES = range(4)


class RunningCode:
    """A context manager that collects the code that this thread runs outside kernels.

    It installs a profile function in C. If the accelerators are missing or the user
    runs a profiler, it installs a trace function instead. If the accelerators are
    missing and the user runs a debugger, it installs a profile function in Python. Each
    of them is called whenever a Python function is called, and does not change what
    that function does. Kernel functions and transfers are left out, because a replay
    runs them again. Finalizers are left out, because they may run at any time.

    Attributes:
        ran: The code, except plugrad's own, with the globals that it ran in.
        reason: Why code may be missing; empty if nothing is missing.

    """

    reason: str

    def __init__(self) -> None:
        self.ran: list[tuple[CodeType, dict[str, Any]]] = []
        self.reason = ""
        self._seen: set[tuple[int, int]] = set()
        self._finalizer: FrameType | None = None
        called = [getattr(f, "__code__", None) for f in gc.callbacks]
        self._callbacks = {id(code) for code in (*called, *_WEAKREF_CALLBACKS)}
        self._get: Any = None
        self._set: Any = None
        self._hook: Any = None
        self._is_paused = False

    def __enter__(self) -> Self:
        if sys.getprofile() is None and (watcher := accelerated.watcher()):
            self._hook = watcher(self._answer)
            self._get, self._set = sys.getprofile, watcher.install
        elif sys.gettrace() is None:
            self._hook = self._called
            self._get, self._set = sys.gettrace, sys.settrace
        elif sys.getprofile() is None:
            self._hook = self._called
            self._get, self._set = sys.getprofile, sys.setprofile
        else:
            self.reason = "a debugger and a profiler watch the call"
            return self
        in_thread.hook = self
        self._set(self._hook)
        return self

    def __exit__(
        self, kind: object, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._set is None:
            return
        in_thread.hook = None
        if self._get() is self._hook:
            self._set(None)
            watched = all(
                HOOKS.isdisjoint(all_names(names_in(code))) for code, _ in self.ran
            )
        else:
            watched = False  # keep the hook that the function set
        if not watched:
            self.reason = "the call starts or stops a debugger or a profiler"

    def pause(self) -> None:
        """Stop collecting code, and slowing it down, until ``resume`` is called."""
        if self._get() is self._hook:
            self._set(None)
            self._is_paused = True

    def resume(self) -> None:
        """Collect code again."""
        if self._is_paused and self._get() is None:
            self._set(self._hook)
        self._is_paused = False

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Collect code inside the block, even if collection is paused outside."""
        self.resume()
        try:
            yield
        finally:
            self.pause()

    def _called(self, frame: FrameType, event: str, _: object) -> Any:
        """Handle an event of the trace or profile function: note the code of a call."""
        if self._finalizer is not None:
            if event == "return" and frame is self._finalizer:
                self._finalizer = None
            return None
        if event != "call" or id(frame.f_code) in _PLUGRAD_CODE:
            return None
        if self._answer(frame) != IGNORE_CALLEES:
            return None
        self._finalizer = frame
        frame.f_trace_lines = False
        return self._hook  # Python calls it when the frame returns

    def _answer(self, frame: FrameType) -> int:
        """Note the code of a call; return what to do with later calls."""
        code, code_globals = frame.f_code, frame.f_globals
        if code.co_name == "__del__" or id(code) in self._callbacks:
            return IGNORE_CALLEES  # an object dies, or the garbage collector runs
        if transferring.depth:
            return FOLLOW
        module = str(code_globals.get("__name__", ""))
        if package_of(module) == "plugrad" or module.startswith("namedtuple_"):
            _PLUGRAD_CODE[id(code)] = code
            return IGNORE_CODE
        if package_of(module) in READ_BY_NAME and _is_for_plugrad(frame):
            return FOLLOW
        key = id(code), id(code_globals)
        if key not in self._seen:
            self._seen.add(key)
            self.ran.append((code, code_globals))
        # The same code may run with other globals: in a module that is executed twice.
        return IGNORE_THIS_CALL if package_of(module) in TRUSTED else FOLLOW


def _is_for_plugrad(frame: FrameType) -> bool:
    """Return whether plugrad called the standard-library code of this frame."""
    caller: FrameType | None = frame
    package = ""
    while caller is not None:
        package = package_of(str(caller.f_globals.get("__name__", "")))
        if package not in READ_BY_NAME:
            break
        caller = caller.f_back
    return package.startswith("plugrad")


# Code of plugrad and of named tuples that has run, by id; most calls run such code.
_PLUGRAD_CODE: dict[int, CodeType] = {}


# --- without running -------------------------------------------------------------


def code_of(function: Any, module: str) -> list[tuple[CodeType, dict[str, Any]]]:
    """Return the code of a function, and of the functions of its module that it names.

    This estimates the code that a call would run, without running it.
    """
    found: dict[int, tuple[CodeType, dict[str, Any]]] = {}
    waiting = [function]
    while waiting:
        called = python_function(waiting.pop())
        if called is None or id(called.__code__) in found:
            continue
        for code in code_inside(called.__code__):
            found[id(code)] = code, called.__globals__
            named = names_in(code).globals & called.__globals__.keys()
            values = [called.__globals__[name] for name in named]
            waiting += [x for x in values if _module_of(x) == module]
        waiting += [*_cells(called)]
    return [*found.values()]


def python_function(value: Any) -> FunctionType | None:
    """Return the Python function that a call of ``value`` runs; None if none does."""
    if isinstance(value, functools.partial):
        return python_function(value.func)
    if isinstance(value, MethodType):
        return python_function(value.__func__)
    if isinstance(value, FunctionType):
        return value
    for cls in type(value).__mro__:
        if isinstance(call := vars(cls).get("__call__"), FunctionType):
            return call
    return None


def _module_of(value: Any) -> str:
    """Return the module of a function, or of the class of another object."""
    definition = value if isinstance(value, FunctionType) else type(value)
    return str(definition.__module__)


def _cells(function: FunctionType) -> list[Any]:
    """Return the values that a function closes over."""
    found = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is empty
            found.append(cell.cell_contents)
    return found
