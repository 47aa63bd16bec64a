"""``KernelTable.collect``: the kernels of all modules of a package."""

import importlib

import pytest
from plugrad.plugin import KernelTable

TABLE = "from plugrad.plugin import KernelTable\nkernels = KernelTable({})\n"
PACKAGES = {  # modules with their tables: the collected kernels, or the error
    "two families": ({"a": "A=abs", "b": "B=abs"}, ["A", "B"]),
    "a module of helpers": ({"a": "A=abs", "_b": "A=abs"}, ["A"]),
    "no module": ({}, []),
    "a kernel twice": ({"a": "A=abs", "b": "A=abs"}, r"\.b and .* same kernels: A$"),
    "a module without a table": ({"a": None}, r"\.a has no KernelTable named kernels"),
}


@pytest.mark.parametrize("row", PACKAGES)
def test_collect(row, tmp_path, monkeypatch):
    modules, expected = PACKAGES[row]
    name = f"collected_{[*PACKAGES].index(row)}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").touch()
    for module, kernels in modules.items():
        text = "" if kernels is None else TABLE.format(kernels)
        (folder / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    if isinstance(expected, list):
        assert [*KernelTable.collect(name)] == expected
    else:
        with pytest.raises((TypeError, ValueError), match=expected):
            KernelTable.collect(name)
