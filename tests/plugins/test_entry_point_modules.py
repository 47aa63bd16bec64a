"""Valid values of entry points, and the errors of wrong entry-point modules."""

import textwrap

import pytest

from tests.plugins.sources import CLAIMS_CPU, GOOD, MISSPELT, PHASES

ENTRIES = {  # the value of the entry point, the module, the start of the reason
    "attribute": (
        "plugrad_it:Hooks",
        "class Hooks:\n    pass\n" + GOOD,
        "TypeError: plug",
    ),
    "undecorated": (
        "plugrad_it",
        "def plugrad_kernels():\n    return []",
        "TypeError: plugrad_it: plugrad_kernels needs the decorator @hookimpl",
    ),
    "misspelt": (
        "plugrad_it",
        MISSPELT,
        "TypeError: plugrad_it: unknown hook plugrad_backend; did you mean 'plugrad_b",
    ),
    "hookless": ("plugrad_it", "", "TypeError: plugrad_it defines no hook; define"),
    "missing": ("plugrad_it:nothing", "", "AttributeError: module 'plugrad_it' has no"),
    "no list": (
        "plugrad_it",
        CLAIMS_CPU.replace("return [", "return iter([").replace("99)]", "99)])"),
        "TypeError: plugrad_backends must return a list",
    ),
    "nothing": (
        "plugrad_it",
        CLAIMS_CPU.replace("return [", "return None and ["),
        "TypeError: plugrad_backends must return a list, got None",
    ),
    "twice": (
        "plugrad_it",
        CLAIMS_CPU.replace("return [", "return 2 * ["),
        "ValueError: plugrad-it 1.0: provides cpu twice",
    ),
    "priority": (
        "plugrad_it",
        CLAIMS_CPU.replace("=99", "='9'"),
        "TypeError: Backend 'cpu': priority must be an int, got '9'",
    ),
}


@pytest.mark.parametrize("case", ENTRIES)
def test_errors_in_entry_point_modules_are_reported(case, site, python):
    value, source, reason = ENTRIES[case]
    site("plugrad-it", source, f"[plugrad.v1]\nit = {value}\n")
    (line,) = [x for x in python(PHASES).splitlines() if x.startswith("plugrad-it")]
    assert line.startswith(f"plugrad-it failed {reason}")


def test_an_entry_point_may_name_an_object(site, python):
    head, hook = GOOD.split("@hookimpl\ndef plugrad_kernels")[0].split("@hookimpl")
    method = textwrap.indent(f"@hookimpl{hook}", "    ").replace(
        "backends()", "backends(self)"
    )
    source = f"{head}\nclass Hooks:\n{method}\nhooks = Hooks()\n"
    site("plugrad-toy", source, "[plugrad.v1]\ntoy = plugrad_toy:hooks\n")
    assert python("import plugrad as pg; print(pg.backends())") == "['cpu', 'toy']"


EMPTY = CLAIMS_CPU.replace("[Backend", "[] and [Backend")


def test_the_error_says_that_a_plugin_registers_nothing(site, python):
    site("plugrad-it", EMPTY)
    out = python("""
        import plugrad as pg
        try:
            pg.set_backend("it")
        except pg.BackendUnavailable as error:
            print(error)
    """)
    assert out == (
        "set_backend: plugrad-it 1.0 provides no backend 'it'; all its hooks "
        "return empty lists"
    )


WRONG_OPEN = """
from plugrad.plugin import Backend, KernelPack, GradientPack, hookimpl

@hookimpl
def plugrad_backends():
    return [Backend("it", open=lambda: None)]

@hookimpl
def plugrad_kernels():
    return [KernelPack("cpu", open=lambda: [("Relu", abs)])]

@hookimpl
def plugrad_gradients():
    return [GradientPack("rules", open=lambda: None)]
"""


def test_wrong_results_of_open_are_reported(site, python):
    site("plugrad-it", WRONG_OPEN)
    out = python("""
        import plugrad as pg
        from plugrad._src.registry.registry import registry
        pg.set_backend("cpu")
        for ask, name in ((pg.set_backend, "it"), (pg.use_gradients, "rules")):
            try:
                ask(name)
            except (pg.BackendUnavailable, ValueError) as error:
                print(error)
        packs = registry.kernel_packs("cpu")  # plugrad-llvm may be installed, too
        print(*(pack.reason for pack in packs if "plugrad-it" in str(pack.owner)))
    """)
    assert out.splitlines() == [
        "backend 'it' of plugrad-it 1.0 has failed: TypeError: open of backend 'it' "
        "must return a Runtime, got None",
        "pack 'rules' of plugrad-it 1.0 has failed: TypeError: open of pack 'rules' "
        "must return a Mapping, got None",
        "TypeError: open of kernel pack of 'cpu' must return a Mapping, got [('Relu', "
        "<built-in function abs>)]",
    ]
