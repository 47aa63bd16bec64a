"""Regions in linear memory: bounds, interrupts, lifetime, loops and memory."""

import pytest

from .processes import run

pytest.importorskip("plugrad_wasm", reason="plugrad-wasm is not installed")

PROGRAM = """
    import gc, math

    def f(x, y, row, column):
        a = pg.tanh(x * y + row) * column
        return a - row, pg.where(a > 0.5, x, y) + column, a < row

    def given(*shape):
        n = shape[-1]
        sizes = shape, shape, (n,), (*shape[:-1], 1)
        return [pg.reshape(pg.sin(pg.arange(math.prod(s)) + 1.0), s) for s in sizes]

    def regions(jitted, xs):
        return [len(region.steps) for region in jitted.explain(*xs).regions]

    jitted = pg.jit(f)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_regions_stay_in_their_arrays(threads):
    """Guard zones reveal each byte that is written outside of an array."""
    found = run(
        threads,
        PROGRAM
        + """
    sizes = [(1, 2), (3, 1), (2, 7), (5, 33), (1, 1023), (3, 1365), (130, 1025)]
    for shape in [*sizes, (70_001, 2)]:
        xs = given(*shape)
        expected = [y.tolist() for y in f(*xs)]
        for _ in range(4):
            assert [y.tolist() for y in jitted(*xs)] == expected, shape
    print(regions(jitted, xs) == [9], count())
    """,
        PLUGRAD_WASM_GUARD="1",
    )
    assert found == ["True", "True"]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_region_is_interrupted(threads):
    """A handler raises in the middle; the next call gives the right result."""
    found = run(
        threads,
        PROGRAM
        + """
    class Stop(Exception): pass
    def stop(*_):
        raise Stop
    signal.signal(signal.SIGALRM, stop)
    xs, stopped = given(400, 10_000), 0
    expected = [y.numpy().tobytes() for y in f(*xs)]
    for _ in range(3):
        jitted(*xs)
    for i in range(30):
        signal.setitimer(signal.ITIMER_REAL, 0.001 + i / 10_000)
        try:
            jitted(*xs)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Stop:
            stopped += 1
    print(stopped > 0, [y.numpy().tobytes() for y in jitted(*xs)] == expected)
    """,
    )
    assert found == ["True", "True"]


def test_a_region_is_freed_with_its_function():
    """The memory of the region's description is freed."""
    found = run(
        1,
        PROGRAM
        + """
    xs, used = given(3, 5), []
    for _ in range(20):
        jitted = pg.jit(lambda *xs: f(*xs))
        for _ in range(3):
            jitted(*xs)
        assert regions(jitted, xs)
        del jitted
        gc.collect()
        used.append(machine.heap.used())
    print(len({*used[3:]}))
    """,
    )
    assert found == ["1"]


def test_the_module_has_each_loop():
    found = run(
        1,
        """
    from plugrad_wasm.regions import LOOPS, _addresses
    from plugrad_cpu.regions import ARITHMETIC
    wanted = {n for loop in LOOPS.values() for n in (loop.name, loop.then) if n}
    names = [*ARITHMETIC.values()]
    wanted |= {f"{a}_{b}_f32_row" for a in names for b in (*names, "rsub")}
    found = machine.cached[_addresses]()
    print(wanted == {*found}, len({*found.values()}) == len(found), 0 in found.values())
    """,
    )
    assert found == ["True", "True", "False"]


@pytest.mark.parametrize("wide", [64, 512])
def test_a_replay_uses_no_more_memory_than_eager(wide):
    """Calls that record need a few more arrays, and replays set no new peak.

    A graph keeps its constants, such as the exponent here, in 64 bytes each.
    """
    program = f"""
    def loss(layers, x):
        for w, v in layers:
            x = x + pg.gelu(pg.layer_norm(x, axis=-1) @ w) @ v
            x = x * pg.sigmoid(x) + pg.tanh(x)
        return pg.mean(x ** 2)

    layers = [(0.05 * pg.random.normal((64, {wide}), seed=i),
               0.05 * pg.random.normal(({wide}, 64), seed=9 + i)) for i in range(4)]
    x = pg.random.normal((256, 64), seed=99)
    f = g = pg.value_and_grad(loss)
    if jitted: f = pg.jit(g)
    for _ in range(5):
        y = f(layers, x)
        print(pg.memory().backends["wasm"].peak)
    """
    found = [run(1, f"    jitted = {jitted}\n{program}") for jitted in (False, True)]
    eager, jitted = [list(map(int, peaks)) for peaks in found]
    array = 256 * 64 * 4
    assert jitted[1] <= eager[-1] + 4 * array  # it records
    assert jitted[-1] <= jitted[1] + 1024
