"""Malicious modules: control characters in names and messages, endless recursion."""

import numpy as np
import pytest
from plugrad import BackendError
from plugrad.plugin import runtime

from .processes import run

pytest.importorskip("plugrad_wasm", reason="plugrad-wasm is not installed")
wasmtime = pytest.importorskip("wasmtime")

from plugrad_wasm import load_kernel  # noqa: E402

from .test_sandbox import COPY, OK, load, wat  # noqa: E402

ONE = np.ones(1, np.float32)


def upload(x):
    return runtime("wasm").arrays.upload(x)


def test_control_characters_from_a_module_are_escaped():
    """Neither messages nor names from a module can control a terminal."""
    title = r"\1b]0;owned\07\1b[2J\c2\9b31m\e2\80\aexyz"  # ESC, BEL, CSI of C1, RLO
    complaining = load("(i32.const 32)", f'(data (i32.const 32) "{title}")')
    with pytest.raises(BackendError) as caught:
        complaining(upload(ONE))
    escaped = r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202exyz"
    assert str(caught.value).endswith(f"f of a module: {escaped}")

    def refused(text, error, **options):
        with pytest.raises(error) as caught:
            load_kernel(wasmtime.wat2wasm(text), COPY, **options)(upload(ONE))
        assert str(caught.value).isprintable()
        assert r"\x1b]0;owned\x07" in str(caught.value)

    memory = '(memory (export "memory") 1)'
    function = "(param i32) (result i32) unreachable"
    refused(f'(module {memory} (func (export "{title}") {function}))', BackendError)
    two = f'(func (export "{title}")) (func (export "g") {function})'
    refused(f"(module {memory} {two})", ValueError)
    refused(f'(module (import "{title}" "f" (func)) {memory})', ValueError)
    one = f'(module {memory} (func (export "{title}")))'
    refused(one, ValueError)


def test_long_messages_are_shortened():
    """A message does not name a thousand exports."""
    many = "".join([f'(func (export "{"x" * 100}{i}"))' for i in range(1000)])
    with pytest.raises(ValueError, match=r"it exports x.*\.\.\.$") as caught:
        load(OK, many)
    assert len(str(caught.value)) < 1200


SMALL_STACK = """
    import wasmtime
    from plugrad.plugin import Kernel, same
    from plugrad_wasm import load_kernel
    # In a small stack, Python 3.14 cannot import it, because it parses annotations.
    import plugrad_wasm.sandbox

    def work():
        deep = load_kernel({module!r}, Kernel("sandbox.Copy(x)", out=same), **{options})
        for _ in range(2):
            try:
                deep(upload(np.ones(3, np.float32)))
            except BackendError as error:
                print("call stack exhausted" in str(error))
        print(pg.asarray([2.0]).to("wasm").tolist()[0], float(pg.exp(0.0)))

    threading.stack_size({size})
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    print(threading.stack_size() == {size})
"""


@pytest.mark.parametrize("options", [{}, {"time_limit": 10.0}])
@pytest.mark.parametrize("size", [1 << 16, 1 << 17, 1 << 18, 1 << 20])
def test_a_thread_with_a_small_stack(size, options, tmp_path):
    """Compiling without a cache needs a larger stack, as does endless recursion."""
    deep = "(func $deep (param i32) (result i32) (call $deep (local.get 0)))"
    more = f"{deep} (func $once (param i32) (result i32) (call $deep (local.get 0)))"
    module = wat("(i32.add (call $once (local.get $call)) (i32.const 1))", more)
    code = SMALL_STACK.format(module=module, options=options, size=size)
    found = run(1, code, XDG_CACHE_HOME=str(tmp_path), HOME=str(tmp_path))
    assert found == ["True", "True", "2.0", "1.0", "True"]
