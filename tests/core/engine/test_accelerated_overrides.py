"""The C accelerators under overrides: their plans, places, and parts of patterns."""

import gc
import sys

import plugrad as pg
import pytest
from plugrad._src.ops.basis import unary

from tests.core.engine.test_accelerated import (
    SlowPath,
    accelerator,
    accelerators,
    f32,
    taped,
)

__all__ = ["accelerators"]  # a fixture of all tests here


def test_runs_under_overrides_take_the_fast_path():
    x = f32(2)
    double = lambda dy: 2 * dy
    with pg.override_gradient("Exp", x=double):
        with pytest.raises(SlowPath):  # Python makes the first plan
            taped(lambda: accelerator("run")(unary.EXP, x), x)
        taped(lambda: pg.exp(x), x)
        _, tape = taped(lambda: accelerator("run")(unary.EXP, x), x)
        with pg.override_gradient("Exp", x=double), pytest.raises(SlowPath):
            taped(lambda: accelerator("run")(unary.EXP, x), x)
    (step,) = tape.nodes[0].plan.steps
    assert step.function is double


def test_runs_whose_override_depends_on_the_place_are_left_to_python():
    x = f32(2)
    with pg.override_gradient("Exp", x=lambda dy: dy, where="*"):
        for _ in range(2):
            taped(lambda: pg.exp(x), x)
        with pytest.raises(SlowPath):
            taped(lambda: accelerator("run")(unary.EXP, x), x)


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_plans_under_overrides_end_when_a_gradient_is_registered():
    x = f32(2)
    with pg.override_gradient("Exp", x=lambda dy: dy):
        for _ in range(2):
            taped(lambda: pg.exp(x), x)
        pg.register_gradient("Tanh", x=lambda dy: dy)
        try:
            with pytest.raises(SlowPath):
                taped(lambda: accelerator("run")(unary.EXP, x), x)
        finally:
            pg.unregister_gradient("Tanh")


def test_parts_of_patterns_are_noted_on_the_fast_path():
    pattern = pg.plugin.Pattern(lambda x: pg.exp(x) * 2.0, ((3,),), name="doubled")
    x = f32(3)
    f = lambda x: pg.sum(pg.exp(x) * 2.0)
    override = pg.override_gradient(pattern, x=lambda dy: 7 * dy)
    for _ in range(3):  # C makes the runs of the second and third turn
        with override:
            assert pg.grad(f)(x).numpy().tolist() == [7, 7, 7]


def test_an_error_while_a_part_is_noted_is_raised():
    x = f32(3)
    fail = lambda *_: 1 / 0
    pattern = pg.plugin.Pattern(
        lambda x: pg.exp(x) * 2.0, ((3,),), name="doubled", fits=fail
    )
    override = pg.override_gradient(pattern, x=lambda dy: dy)
    for _ in range(3):
        with override, pytest.raises(ZeroDivisionError):
            taped(lambda: pg.exp(x) * 2.0, x)


def test_reference_counts_stay_the_same_under_overrides():
    pattern = pg.plugin.Pattern(lambda x: pg.tanh(x * x), ((3,),), name="squared")
    override = pg.override_gradient(pattern, x=lambda dy: dy)
    x = f32(2, 3)

    def work():
        with override:
            pg.grad(lambda x: pg.sum(pg.tanh(x * x)))(x)

    for _ in range(50):
        work()
    gc.collect()
    before = sys.getrefcount(unary.EXP), len(gc.get_objects())
    for _ in range(2000):
        work()
    gc.collect()
    after = sys.getrefcount(unary.EXP), len(gc.get_objects())
    assert max(b - a for a, b in zip(before, after, strict=True)) < 50
