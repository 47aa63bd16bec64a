"""Names and types that the search for references treats specially."""

from __future__ import annotations

import types

import numpy as np

IMMUTABLE_TYPE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: its attributes cannot be assigned
# Attributes of classes and modules that no call depends on.
BOOKKEEPING = frozenset(
    [
        "__abstractmethods__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        "__builtins__",
        "__cached__",
        "__conditional_annotations__",
        "__dataclass_fields__",
        "__dataclass_params__",
        "__dict__",
        "__doc__",
        "__file__",
        "__firstlineno__",
        "__loader__",
        "__module__",
        "__name__",
        "__orig_bases__",
        "__package__",
        "__parameters__",
        "__path__",
        "__qualname__",
        "__spec__",
        "__static_attributes__",
        "__type_params__",
        "__weakref__",
        "_abc_impl",
    ]
)

# Special methods, which Python calls although no code contains their names.
_OF_BUILTIN_CLASSES = {
    name
    for cls in (bytes, complex, dict, float, int, list, memoryview, set, type)
    for name in dir(cls)
    if name[:2] == "__"
}
_OF_OTHER_CLASSES = {
    "__array__",
    "__array_function__",
    "__array_ufunc__",
    "__array_wrap__",
    "__bool__",
    "__call__",
    "__complex__",
    "__copy__",
    "__deepcopy__",
    "__del__",
    "__delete__",
    "__dlpack__",
    "__enter__",
    "__exit__",
    "__fspath__",
    "__get__",
    "__getattr__",
    "__imatmul__",
    "__index__",
    "__instancecheck__",
    "__length_hint__",
    "__matmul__",
    "__missing__",
    "__next__",
    "__rmatmul__",
    "__set__",
    "__set_name__",
    "__subclasscheck__",
}
SPECIAL_METHODS = frozenset(_OF_BUILTIN_CLASSES | _OF_OTHER_CLASSES) - {
    "__dict__",
    "__doc__",
    "__module__",
}
# Attributes that are not in a dict.
FUNCTION_ATTRIBUTES = ("__annotations__", "__doc__", "__name__", "__qualname__")
CLASS_ATTRIBUTES = ("__bases__", "__name__", "__qualname__")
# Types whose objects refer to nothing that a call reads.
OPAQUE = (
    np.dtype,
    types.AsyncGeneratorType,
    types.CodeType,
    types.CoroutineType,
    types.FrameType,
    types.GeneratorType,
    types.TracebackType,
)
