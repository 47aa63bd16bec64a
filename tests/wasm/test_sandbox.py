"""Kernels from user modules: what they receive, and what they cannot do."""

import gc
import math
import os
import threading
import time
import weakref

import numpy as np
import plugrad as pg
import pytest
from plugrad import BackendError
from plugrad.plugin import Kernel, Spec, decomposition, run, runtime, same

pytest.importorskip("plugrad_wasm", reason="plugrad-wasm is not installed")
wasmtime = pytest.importorskip("wasmtime")

from plugrad_wasm import get_include, load_kernel  # noqa: E402

COPY = Kernel("sandbox.Copy(x)", out=same)
# A function (param $call i32) (result i32), in a module whose memory is one page.
MODULE = """(module (memory (export "memory") 1) {0}
    (func (export "f") (param $call i32) (result i32) {1}))"""
# WebAssembly expressions: the addresses of the first input and the first output, the
# number of elements of the input, and its bytes if each element has four.
IN = "(i32.load (i32.load offset=16 (local.get $call)))"
OUT = "(i32.load (i32.load offset=20 (local.get $call)))"
SIZE = "(i32.load offset=12 (i32.load offset=16 (local.get $call)))"
BYTES = f"(i32.shl {SIZE} (i32.const 2))"
OK = "(i32.const 0)"
COPYING = f"(memory.copy {OUT} {IN} {BYTES}) {OK}"
# Copies, but loops forever if the first element is less than 2.
FOREVER_BELOW_2 = f"""(if (f32.lt (f32.load {IN}) (f32.const 2))
    (then (loop $l (br $l)))) {COPYING}"""

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"]
DTYPES += ["uint64", "float16", "float32", "float64", "complex64", "complex128"]


def wat(body, more=""):
    return wasmtime.wat2wasm(MODULE.format(more, body))


def load(body, more="", kernel=COPY, **options):
    return load_kernel(wat(body, more), kernel, **options)


@pytest.fixture
def native():
    """Return a function that converts values to a native array of the backend."""
    upload = runtime("wasm").arrays.upload
    with pg.use_backend("wasm"):
        yield lambda x, dtype="float32": upload(np.asarray(x, dtype))


@pytest.fixture
def registered():
    """Return a function that registers a kernel until the end of the test."""
    names = []

    def register(kernel, function):
        pg.register_kernel(kernel, "wasm", function)
        names.append(kernel.name)

    yield register
    for name in names:
        pg.unregister_kernel(name, "wasm")


def call(name, *inputs, **attrs):
    with pg.use_backend("wasm"):
        return pg.run_kernel(name, list(inputs), attrs)


# --- what they receive -----------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 4), (100_000,)])
def test_values_are_passed_and_returned(shape, native):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    y = load(COPYING)(native(x))
    assert (y.shape, y.dtype) == (shape, np.float32)
    np.testing.assert_array_equal(np.asarray(y), x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 0, 3), (33, 7, 3)])
def test_elements_of_every_dtype(dtype, shape, native):
    kernel = Kernel("sandbox.Bytes(x; n)", out=lambda x, n: x)
    n = "(i32.trunc_f64_u (f64.load (i32.load (i32.load offset=24 (local.get $call)))))"
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    copy = load(f"(memory.copy {OUT} {IN} {n}) {OK}", kernel=kernel)
    y = np.asarray(copy(native(x, dtype), n=x.nbytes))
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    np.testing.assert_array_equal(y, x)


def test_calls_of_various_sizes_get_memory(native):
    copy = load(COPYING)
    for n in [1, 70_000, 3, 1_000_000, 500_000, 0, 1_000_001]:
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(np.asarray(copy(native(x))), x)


def test_memory_is_found_behind_pages_that_a_module_adds(native):
    growing = "(drop (memory.grow (i32.const 1)))" + COPYING
    copy = load(growing)
    for n in [1, 100_000, 2, 1_000_000]:
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(np.asarray(copy(native(x))), x)


# Returns the fields of a call as float32: version, counts, then rank, size and dtype of
# the first input, its shape, and the values of the first attribute.
ECHO_KERNEL = Kernel(
    "sandbox.Echo(x, b?; scale, name)",
    out=lambda x, b, scale, name: Spec((16,), np.dtype("float32")),
)


def word(index, value, convert="f32.convert_i32_u"):
    return f"(f32.store (i32.add {OUT} (i32.const {4 * index})) ({convert} {value}))"


def test_a_call_contains_inputs_and_attributes(native):
    call_ = "(local.get $call)"
    first = f"(i32.load offset=16 {call_})"
    attr = f"(i32.load offset=24 {call_})"
    double = f"(f64.load offset=%d (i32.load {attr}))"
    body = "".join(
        [word(i, f"(i32.load offset={4 * i} {call_})") for i in range(4)]
        + [word(4 + i, f"(i32.load offset={8 + 4 * i} {first})") for i in range(3)]
        + [
            word(7 + i, f"(i32.load offset={4 * i} (i32.load offset=4 {first}))")
            for i in range(2)
        ]
        + [word(9, f"(i32.load offset=20 {first})")]
        + [word(10, f"(i32.load offset=4 {attr})")]
        + [word(11 + i, double % (8 * i), "f32.demote_f64") for i in range(3)]
        + [word(14, f"(i32.load8_u (i32.load offset=20 {attr}))")]
    )
    echo = load(body + OK, kernel=ECHO_KERNEL)
    y = echo(native([[1, 2, 3]], "int32"), None, scale=(1.5, (True, -2)), name="é")
    words = [1, 2, 1, 2, 2, 3, 3, 1, 3, 0, 3, 1.5, 1, -2, 0xC3, 0]
    assert np.asarray(y).tolist() == words
    with pytest.raises(TypeError, match=r"sandbox\.Echo: scale=\(1, 'a'\): a Web"):
        echo(native([1]), None, scale=(1, "a"), name="")
    with pytest.raises(TypeError, match="9007199254740993 is not exact in float64"):
        echo(native([1]), None, scale=2**53 + 1, name="")


def test_outputs_start_as_zeros_and_bools_are_zero_or_one(native):
    native = native(np.ones(4))
    assert np.asarray(load(COPYING)(native)).tolist() == [1] * 4
    assert np.asarray(load(OK)(native)).tolist() == [0] * 4
    twos = f"(memory.fill {OUT} (i32.const 2) (i32.const 4)) {OK}"
    truth = Kernel("sandbox.Truth(x)", out=lambda x: Spec(x.shape, np.dtype(bool)))
    y = np.asarray(load(twos, kernel=truth)(native))
    assert y.view(np.uint8).tolist() == [1] * 4


def test_several_outputs_and_variadic_inputs(native):
    split = Kernel("sandbox.Two(*xs) -> a, b", out=lambda *xs: (xs[0], xs[1]))
    second = "(i32.load offset=20 (i32.load offset={} (local.get $call)))"
    body = f"(memory.copy {second.format(20)} {second.format(16)} (i32.const 4)) {OK}"
    a, b = load(body, kernel=split)(native([1, 2]), native([7]))
    assert np.asarray(a).tolist() == [0, 0]
    assert np.asarray(b).tolist() == [7]


def test_a_module_may_import_its_memory_and_initialize_itself(native):
    text = f"""(module (import "env" "memory" (memory 1 4000))
        (func (export "_initialize") (i32.store (i32.const 64) (i32.const 0x3f800000)))
        (func (export "f") (param $call i32) (result i32)
            (memory.copy {OUT} (i32.const 64) (i32.const 4)) {OK}))"""
    one = load_kernel(wasmtime.wat2wasm(text), COPY)
    assert np.asarray(one(native([5.0]))).tolist() == [1]


def test_not_implemented_runs_the_decomposition(registered):
    kernel = Kernel("sandbox.Declined(x)", out=same)
    decomposition(kernel)(lambda x: x + 1)
    registered(kernel, load("(i32.const 1)", kernel=kernel))
    assert call(kernel.name, pg.asarray([1.0])).tolist() == [2]


def test_a_module_can_replace_a_kernel_of_the_core(registered):
    pg.register_kernel("Exp", "wasm", load(COPYING, kernel="Exp"))
    try:
        with pg.use_backend("wasm"):
            assert pg.exp([3.0]).tolist() == [3]
    finally:
        pg.unregister_kernel("Exp", "wasm")
    with pg.use_backend("wasm"):
        assert pg.exp([0.0]).tolist() == [1]


def test_unregistering_unloads_the_module():
    function = load(COPYING)
    reference = weakref.ref(function)
    pg.register_kernel(COPY, "wasm", function)
    assert call(COPY.name, pg.asarray([3.0])).tolist() == [3]
    pg.unregister_kernel(COPY.name, "wasm")
    del function
    gc.collect()
    assert reference() is None


def test_two_modules_share_nothing(native):
    """Each module counts its own calls in its own memory."""
    count = f"""(i32.store (i32.const 8)
            (i32.add (i32.load (i32.const 8)) (i32.const 1)))
        {word(0, "(i32.load (i32.const 8))")} {OK}"""
    a = load(count)
    b = load(count)
    x = native([0.0])
    calls = [a, a, b, a, b]
    assert [np.asarray(f(x)).item() for f in calls] == [1, 2, 1, 3, 2]


def test_two_threads_take_turns(native):
    copy = load(COPYING, time_limit=60)
    wrong = []

    def work(seed):
        for n in np.random.default_rng(seed).integers(1, 50_000, 40):
            x = np.full(n, seed, np.float32)
            if not (np.asarray(copy(native(x))) == x).all():
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert threading.active_count() < 10  # the timers are gone


# --- what they cannot do ---------------------------------------------------------


def test_an_infinite_loop_ends_at_the_time_limit(native):
    x = native([1.0])
    limited = load(FOREVER_BELOW_2, time_limit=0.2)
    start = time.perf_counter()
    with pytest.raises(
        BackendError,
        match=r"sandbox\.Copy failed in f of a module: it "
        r"took longer than time_limit=0\.2 s",
    ):
        limited(x)
    assert 0.2 <= time.perf_counter() - start < 5
    assert np.asarray(limited(native([3.0]))).tolist() == [3]  # usable again


def test_an_infinite_initialization_ends_at_the_time_limit():
    with pytest.raises(BackendError, match="the initialization of a module: it took"):
        load(OK, "(func $s (loop $l (br $l))) (start $s)", time_limit=0.1)


def test_a_rule_that_returns_no_outputs_is_named(native):
    kernel = load(OK, kernel=Kernel("sandbox.Silent(x)", out=lambda x: None))
    with pytest.raises(ValueError, match=r"sandbox\.Silent.*: out= gives no specs for"):
        kernel(native([1.0]))


def test_memory_does_not_grow_beyond_its_limit(native):
    """Growing further fails inside the module, which may continue."""
    result = word(0, "(memory.grow (i32.const 100))", "f32.convert_i32_s")
    x = native([1.0])
    assert np.asarray(load(result + OK, memory=1 << 22)(x)).item() == -1
    assert np.asarray(load(result + OK, memory=1 << 23)(x)).item() == 2
    two_pages = MODULE.format("", OK).replace('"memory") 1', '"memory") 2')
    with pytest.raises(ValueError, match="does not fit into memory=65,536 bytes"):
        load_kernel(wasmtime.wat2wasm(two_pages), COPY, memory=1 << 16)


def test_inputs_beyond_the_limit_are_refused(native):
    copy = load(COPYING, memory=1 << 19)
    big = np.arange(100_000, dtype=np.float32)
    for _ in range(2):
        with pytest.raises(BackendError, match=r"800,.* inputs and outputs do not fit"):
            copy(native(big))
    np.testing.assert_array_equal(np.asarray(copy(native(big[:9]))), big[:9])


@pytest.mark.parametrize("shape", [(-1,), (1 << 20,), (1 << 40, 0, 3), (2, -3, 0)])
def test_outputs_of_impossible_sizes_are_refused(shape, native):
    kernel = Kernel("sandbox.Size(x)", out=lambda x: Spec(shape, x.dtype))
    with pytest.raises(BackendError, match=r"sandbox\.Size.* does not fit"):
        load(OK, kernel=kernel, memory=1 << 20)(native([1.0]))


TRAPS = {
    "unreachable": "unreachable",
    f"(i32.store (i32.const -4) (i32.const 1)) {OK}": "out of bounds",
    f"(f32.store offset=65536 {OUT} (f32.const 1)) {OK}": "out of bounds",
    "(i32.div_s (i32.const 1) (i32.load (i32.const 0)))": "divide by zero",
    "(call_indirect (param i32) (result i32) (local.get $call) (i32.const 9))": "table",
    "(call $deep (local.get $call))": "stack",
}


@pytest.mark.parametrize("body", TRAPS)
def test_a_trap_is_an_error_with_names(body, native):
    more = """(table 1 funcref)
        (func $deep (param i32) (result i32) (call $deep (local.get 0)))"""
    once = f"(if (f32.lt (f32.load {IN}) (f32.const 2)) (then (return {body})))"
    if body == "unreachable":
        once = once.replace("(return unreachable)", "unreachable")
    trapping = load(once + COPYING, more)
    for _ in range(2):
        with pytest.raises(
            BackendError,
            match=rf"sandbox\.Copy failed in f of a module: .*{TRAPS[body]}",
        ):
            trapping(native([1.0]))
        assert np.asarray(trapping(native([3.0]))).tolist() == [3]


def test_a_module_cannot_reach_other_memory(native):
    """A module may overwrite its memory, from which the backend only reads outputs."""
    everything = "(i32.shl (memory.size) (i32.const 16))"
    wild = f"(memory.fill (i32.const 0) (i32.const 255) {everything})"
    x = native(np.ones(1000))
    y = load(wild + OK)(x)
    assert np.isnan(np.asarray(y)).all()
    assert (np.asarray(x) == 1).all()


@pytest.mark.parametrize(
    ("answer", "message"),
    [("(i32.const 32)", "no good"), ("(i32.const -1)", "it returned 4294967295")],
)
def test_a_message_is_an_error(answer, message, native):
    complaining = load(answer, '(data (i32.const 32) "no good")')
    with pytest.raises(BackendError, match=rf"sandbox\.Copy, f of a module: {message}"):
        complaining(native([1.0]))


BAD = {
    "imports wasi.exit; only a memory may be imported": (
        '(import "wasi" "exit" (func))',
        OK,
        {},
    ),
    "imports env.g; only a memory": ('(import "env" "g" (global i32))', OK, {}),
    r"f is \(i64\) -> \(\); a kernel is \(i32\) -> \(i32\)": (
        '(func (export "g") (param i64))',
        OK,
        {"export": "g"},
    ),
    "export= is needed; it exports g, f": ('(func (export "g") (param i32))', OK, {}),
    "no function 'h'; it exports f": ("", OK, {"export": "h"}),
    "no function 'memory'": ("", OK, {"export": "memory"}),
    "memory=100: give bytes from 65536 to 4294967296": ("", OK, {"memory": 100}),
    "memory=8589934592: give bytes from 65536": ("", OK, {"memory": 1 << 33}),
    "memory=65536.0: give bytes from": ("", OK, {"memory": 65536.0}),
    r"a module has [\d]+ bytes, more than module_size=20; if": (
        "",
        OK,
        {"module_size": 20},
    ),
    r"_initialize is \(i32\) -> \(\); it is called when": (
        '(func (export "_initialize") (param i32))',
        OK,
        {},
    ),
    r"_initialize is \(\) -> \(f64\); it": (
        '(func (export "_initialize") (result f64) unreachable)',
        OK,
        {},
    ),
    "_initialize is a global; it is called": (
        '(global (export "_initialize") i32 (i32.const 0))',
        OK,
        {},
    ),
    "time_limit=0: give seconds": ("", OK, {"time_limit": 0}),
    "time_limit=inf: give seconds": ("", OK, {"time_limit": math.inf}),
}


@pytest.mark.parametrize("message", BAD)
def test_modules_that_are_refused(message):
    more, body, options = BAD[message]
    text = f"""(module {more} (memory (export "memory") 1)
        (func (export "f") (param $call i32) (result i32) {body}))"""
    message = message.replace("f is ", "g is ")
    with pytest.raises(ValueError, match=f"load_kernel: .*{message}"):
        load_kernel(wasmtime.wat2wasm(text), COPY, **options)


def test_other_arguments_that_are_refused(tmp_path):
    path = tmp_path / "no.wasm"
    path.write_bytes(b"\0asm\1\0\0\0junk")
    with pytest.raises(ValueError, match=r"load_kernel: no\.wasm cannot be compiled: "):
        load_kernel(path, COPY)
    with pytest.raises(ValueError, match=r"a module cannot be compiled: expected `\("):
        load_kernel(b"junk", COPY)
    with pytest.raises(TypeError, match="expected a Kernel or a name, got 3"):
        load_kernel(b"", 3)
    with pytest.raises(FileNotFoundError):
        load_kernel(tmp_path / "none.wasm", COPY)
    with pytest.raises(ValueError, match=r"unknown kernel 'sandbox\.None'"):
        load(OK, kernel="sandbox.None")
    with pytest.raises(ValueError, match="has no out rule"):
        load(OK, kernel=Kernel("sandbox.Ruleless(x)"))
    text = f'(module (func (export "f") (param $call i32) (result i32) {OK}))'
    with pytest.raises(ValueError, match="export one as 'memory'"):
        load_kernel(wasmtime.wat2wasm(text), COPY)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_forked_child_works_while_the_parent_runs_a_module(native):
    """The lock may be held by a thread that the child does not have."""
    slow = load(FOREVER_BELOW_2, time_limit=1)

    def late():
        with pytest.raises(BackendError, match="took longer"):
            slow(native([1.0]))

    thread = threading.Thread(target=late)
    thread.start()
    time.sleep(0.2)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = int(np.asarray(slow(native([3.0]))).tolist() != [3])
        finally:
            os._exit(code)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert np.asarray(slow(native([3.0]))).tolist() == [3]


def test_the_header_is_in_the_include_folder():
    with open(os.path.join(get_include(), "plugrad_kernel.h")) as file:
        assert "PLUGRAD_KERNEL(name)" in file.read()


def test_run_calls_a_registered_module(registered):
    registered(COPY, load(COPYING))
    with pg.use_backend("wasm"):
        assert run(COPY, pg.asarray([1.0, 2.0])).tolist() == [1, 2]
