"""Which gradient a run is recorded with: the layers in force, and plans made from them.

Contents: a block of overrides; the rules in force; the plan of a run; patterns of
several runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from plugrad._src.registry.backend import OpenBackend
from plugrad._src.registry.contract import VJP, Kernel, VJPs, origin
from plugrad._src.registry.registry import registry
from plugrad._src.registry.rules import Site, bind_original
from plugrad._src.tensor.tensor import TapeId, Tensor

from . import tape
from .context import UserScope
from .forms import PARTS, Find, Form, Made, Whole, kept_by_all, note
from .layers import Override, OverrideLayer, Overrides
from .matching import Match, matches
from .sites import Where
from .tape import (
    ATTRIBUTE,
    Node,
    Tape,
    TapePlan,
    make_joint_plan,
    make_plan,
    replace_node,
    saved_values,
    tapes_tracking,
)

MAX_PLANS_BY_SITE = 4096  # plans that one combination of overrides may have


def override(
    rules: Mapping[str, VJPs],
    backend: str | None,
    where: object,
    who: str,
    *,
    innermost: bool = False,
    wholes: tuple[Whole, ...] = (),
) -> UserScope:
    """Return a scope in which these rules override all others."""
    if backend is not None:
        registry.known(backend, who)
    place = None if where is None else Where(who, where)
    layer = OverrideLayer(backend, rules, place, innermost, wholes, used=set())
    return UserScope(who, override=Override(layer))


def vjp_rules_in_force(
    kernel: Kernel, backend: OpenBackend, overrides: Overrides | None, site: Site
) -> dict[str, VJP | None]:
    """Return the VJP of each input of a run, from the innermost layer that has one."""
    layers = [table for _, table in registry.gradients.layers(kernel, backend.name)]
    if overrides is not None:
        layers += _layers_at(overrides, kernel, backend, site)
    if kernel.fused and layers:  # for the inputs that an override leaves out
        layers.insert(0, rules_of_parts(kernel))
    found: dict[str, VJP | None] = {}
    for table in layers:
        if not table:  # the kernel is to be decomposed
            found.clear()
        for name, vjp in table.items():
            found[name] = vjp and bind_original(kernel, name, vjp, found.get(name))
    return found


def rules_of_parts(kernel: Kernel) -> VJPs:
    """Return rules that differentiate the decomposition of a kernel."""
    decomposition = kernel.decomposition
    assert decomposition is not None  # every fused kernel has one
    count = len(kernel.inputs)

    def rule_of(position: int) -> VJP:
        def pulled_back(*values: Any) -> Any:
            dys, saved = values[: len(kernel.outputs)], values[len(kernel.outputs) :]
            before, after = saved[:position], saved[position + 1 : count]
            attrs = dict(zip(kernel.attrs, saved[count:], strict=True))
            part = lambda x: decomposition(*before, x, *after, **attrs)
            _, pull_back = reverse().vjp(part, saved[position])
            return pull_back(dys[0] if len(dys) == 1 else dys)[0]

        residuals = kernel.inputs + kernel.attrs
        owner = str(registry.owners.get(kernel.name, registry.core))
        place = origin(decomposition, owner)
        return VJP(pulled_back, residuals, owner, origin=place)

    return {name: rule_of(i) for i, name in enumerate(kernel.inputs)}


def reverse() -> Any:
    """Return the module of reverse mode; it lies in a higher layer."""
    return import_module("plugrad._src.autodiff.reverse")


def _layers_at(
    overrides: Overrides, kernel: Kernel, backend: OpenBackend, site: Site
) -> list[VJPs]:
    """Return the rules of the layers that apply to a run, the innermost last."""
    layers = [
        layer
        for layer in overrides.layers
        if kernel.name in layer.rules
        and layer.backend in (None, backend.name)
        and (layer.where is None or layer.where.applies(site))
    ]
    for layer in layers:
        layer.used.add(kernel.name)
    return [layer.rules[kernel.name] for layer in layers]


def plan_of(
    overrides: Overrides | None,
    scope: str,
    recording: tuple[Tape, ...],
    kernel: Kernel,
    backend: OpenBackend,
    mask: int,
    count: int,
) -> TapePlan | None:
    """Return how these tapes record a run; None if its decomposition is recorded.

    ``mask`` has a bit for each of the ``count`` inputs, set if the input is tracked.
    """
    key: tuple[Any, ...] = (kernel, backend, mask, 1 << count)
    site = None
    if overrides is None:
        plans = registry.gradients.plans
    else:
        under, plans = overrides.plans
        if under is not registry.gradients.plans:
            overrides.plans = registry.gradients.plans, (plans := {})
        if kernel.name in overrides.by_site:
            nth = _count(kernel, recording) if kernel.name in overrides.by_number else 0
            site = Site(kernel.name, scope, nth)
            if len(plans) >= MAX_PLANS_BY_SITE:
                plans.clear()
            key += (site,)
    try:
        return cast("TapePlan | None", plans[key])
    except KeyError:
        at = site or Site(kernel.name, scope, 0)
        rules = vjp_rules_in_force(kernel, backend, overrides, at)
        decomposed = not rules and kernel.decomposition is not None
        plans[key] = found = (
            None if decomposed else make_plan(kernel, rules, mask, count, site)
        )
        return found


def joint_plan(
    overrides: Overrides | None,
    recording: tuple[Tape, ...],
    kernel: Kernel,
    backend: OpenBackend,
    mask: int,
    inputs: tuple[Tensor | None, ...],
    attrs: Mapping[str, Any],
) -> TapePlan | None:
    """Return how to record a fused kernel as one node; None if it is decomposed.

    A joint gradient computes the gradients of all its inputs, so all must be tracked. A
    second tape would record the parts of the joint gradient in the backward pass, under
    the overrides in force then.
    """
    joint = kernel._joint_gradient
    if joint is None or overrides is not None or backend.depth or len(recording) > 1:
        return None
    if joint.kernel.name not in backend.table or not joint.pays(*inputs, **attrs):
        return None
    plans = registry.gradients.plans
    key = kernel, backend, mask, len(inputs), joint
    if key not in plans:
        places = kernel.places(len(inputs))
        needed = sum(1 << cast("int", places[name]) for name in joint.inputs)
        fits = mask == needed and registry.gradients.are_original(backend.name)
        plans[key] = make_joint_plan(kernel, joint, len(inputs)) if fits else None
    return cast("TapePlan | None", plans[key])


def plan_for_others(
    overrides: Overrides,
    scope: str,
    others: tuple[Tape, ...],
    kernel: Kernel,
    backend: OpenBackend,
    mask: int,
    count: int,
) -> TapePlan:
    """Return how outer tapes record a run if only the innermost tape sees overrides."""
    plain = overrides.for_others()
    plan = plan_of(plain, scope, others, kernel, backend, mask, count)
    if plan is None:  # its parts have not been recorded
        return make_plan(kernel, rules_of_parts(kernel), mask, count)
    return plan


# --- patterns --------------------------------------------------------------------


def note_run(
    overrides: Overrides, recording: tuple[Tape, ...], backend: OpenBackend, run: Made
) -> None:
    """Note a recorded run; if it is the last part of a pattern, record the whole.

    The tapes have already noted the other parts. All tapes that have recorded the run
    must have recorded the parts, because otherwise a gradient with respect to a part
    would be lost.
    """
    if run.outputs[0]._tape_id is None:
        return  # integers, which no tape records
    rows = overrides.wholes.get(run.kernel.name)
    if rows:
        find = kept_by_all(recording)
        names = set[str]()
        for x in run.inputs:
            if x is not None and x._tape_id is not None:
                made = find(x._tape_id)
                if made is not None:
                    names.add(made.kernel.name)
        for feeding, whole, form in rows:
            if feeding <= names and _find_whole(
                whole, form, overrides, recording, backend, run, find
            ):
                break
    if run.kernel.name in overrides.noted:
        for one in recording:
            note(one, run)


def _find_whole(
    whole: Whole,
    form: Form,
    overrides: Overrides,
    recording: tuple[Tape, ...],
    backend: OpenBackend,
    run: Made,
    find: Find,
) -> bool:
    """Record a run and those before it as one, if they match and a rule applies."""
    for match in matches(form, run, find):
        count = len(whole.kernel.inputs)
        operands = tuple([match.operands[i] for i in range(count)])
        if whole.fits is None or whole.fits(*operands):
            return _record_whole(
                whole.kernel, overrides, recording, backend, form, match, operands
            )
    return False


def _record_whole(
    kernel: Kernel,
    overrides: Overrides,
    recording: tuple[Tape, ...],
    backend: OpenBackend,
    form: Form,
    match: Match,
    operands: tuple[Tensor, ...],
) -> bool:
    """Replace the node of the last part by a node of the whole."""
    _, mask = tapes_tracking(recording, operands)
    scope = match.runs[0].scope
    plan = plan_of(overrides, scope, recording, kernel, backend, mask, len(operands))
    if plan is None:
        return False  # no rule applies at this place
    runs = [match.runs[number] for number in range(len(form.parts))]
    last = runs[-1]
    attrs = _attributes_of_parts(plan, form, runs, match.constants)
    node = Node(
        plan,
        backend,
        [x._tape_id for x in operands],
        [cast("TapeId", y._tape_id) for y in last.outputs],
        saved_values(plan, operands + last.outputs, attrs),
        scope,
    )
    is_innermost = kernel.name in overrides.innermost
    for one in recording[-1:] if is_innermost else recording:
        replace_node(one, node)
    return True


def _attributes_of_parts(
    plan: TapePlan, form: Form, runs: list[Made], constants: Mapping[int, Tensor]
) -> dict[str, Any]:
    """Return the attributes of a whole that a plan saves.

    These are attributes of its parts, and ``PARTS``, which tells how to run them.
    """
    found: dict[str, Any] = {
        name: None for kind, name in plan.others if kind == ATTRIBUTE
    }
    for run in runs:
        for name, value in run.attrs.items():
            if name in found:
                found[name] = value
    if PARTS not in found:
        return found
    found[PARTS] = tuple(
        [
            (run.kernel, run.again, part.inputs, run.attrs, constants)
            for part, run in zip(form.parts, runs, strict=True)
        ]
    )
    return found


def _count(kernel: Kernel, recording: tuple[Tape, ...]) -> int:
    """Return how many runs of the kernel the tape has counted, and count this one."""
    innermost = recording[-1]
    with tape.state_lock:  # other threads may record on the same tape
        counts = getattr(innermost, "counts", None)
        if counts is None:
            innermost.counts = counts = {}
        nth = counts.get(kernel.name, 0)
        counts[kernel.name] = nth + 1
    return nth
