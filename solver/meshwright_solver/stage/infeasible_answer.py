"""Infeasible answers: the constraint that binds, the shortfall and the remedy.

memory   the least memory of every plan, by kind and by tensor
pins     a smallest set of pins that no plan satisfies together
(solver/meshwright_solver/search/infeasible_subset.py)
time     the search ended first
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from meshwright.schema import Infeasible, MemoryUse, Mesh, Pin
from meshwright.schema.request import Consumer
from meshwright_solver.evaluation.memory_shortfall import GIB
from meshwright_solver.evaluation.memory_shortfall import shown as parts_of
from meshwright_solver.evaluation.notes import LAYER, UNEVEN_WOULD_DO
from meshwright_solver.folding.mesh_outcome import MeshOutcome, shown
from meshwright_solver.problem.problem import Problem
from meshwright_solver.stage.lower_bounds import LeastMemory, least_memory
from meshwright_solver.stage.mesh_space import MeshSpaces
from meshwright_solver.stage.pin_conflict import conflicting_pins

LARGEST = 5  # chosen: tensors that an explanation names


def why_none(outcomes: Sequence[MeshOutcome], spaces: MeshSpaces) -> Infeasible:
    """The explanation of outcomes of which none has a choice."""
    short = [_with_transient(o, o.short_bytes) for o in outcomes if o.short_bytes is not None]
    if short:
        return _strategies_do_not_fit(outcomes[0], min(short))
    least = [
        _with_transient(o, o.outcome.minimum_memory_bytes)
        for o in outcomes
        if o.outcome.minimum_memory_bytes is not None
    ]
    if any(o.outcome.status == "unknown" for o in outcomes):
        return Infeasible(
            constraint="time",
            detail="the time budget ended before any plan that fits was found. Use more seconds",
            needed_bytes=int(min(least)) if least else None,
            available_bytes=_available(outcomes[0].models.problem) if least else None,
        )
    if not least:
        return _no_plan_for_pins(outcomes, spaces)
    return _nothing_fits(outcomes, spaces)


def _with_transient(outcome: MeshOutcome, resting_bytes: float) -> float:
    return resting_bytes + outcome.models.problem.spare_bytes


def _available(problem: Problem) -> int:
    return int(problem.room_bytes)


def _strategies_do_not_fit(outcome: MeshOutcome, needed_bytes: float) -> Infeasible:
    problem = outcome.models.problem
    available = _available(problem)
    return Infeasible(
        constraint="memory",
        detail=(
            f"the strategies of {outcome.found_by} need at least {needed_bytes / GIB:.1f} GiB on a "
            f"device, {problem.topology.device.name} has {available / GIB:.1f} GiB after the "
            "reserve. Use dynamic_programming or auto, which search all strategies"
        ),
        needed_bytes=int(needed_bytes),
        available_bytes=available,
    )


def _no_plan_for_pins(outcomes: Sequence[MeshOutcome], spaces: MeshSpaces) -> Infeasible:
    broken = [o.broken_pin for o in outcomes if o.broken_pin is not None]
    if len(broken) == len(outcomes):
        tried = "; ".join(dict.fromkeys(shown(o.mesh) for o in outcomes))
        problem = outcomes[0].models.problem
        misfits = _misfits(problem, broken[0], spaces.pins, outcomes[0].mesh)
        would_do = problem.setup.uneven == "refuse" and all(n >= ways for _, n, ways in misfits)
        lengths = [f"{name!r} has length {n}, not to be cut by {w}" for name, n, w in misfits]
        why = "; ".join(lengths) or (
            "the axes do not divide the sizes of its factors, or its inputs or outputs cannot be "
            "split so"
        )
        return Infeasible(
            constraint="pins",
            detail=(
                f"op {broken[0]!r} cannot satisfy its pin on any of the meshes ({tried}): {why}"
                + ("; " + UNEVEN_WOULD_DO if would_do else "")
                + ". State other numbers, or leave the op out of the pins"
            ),
        )
    mesh = next(o.mesh for o in outcomes if o.broken_pin is None)
    pins = conflicting_pins(spaces, mesh)
    conflict = "two of them contradict each other"
    if pins:
        conflict = f"these contradict each other: {', '.join(map(repr, pins))}"
    return Infeasible(
        constraint="pins",
        detail=f"no plan satisfies all pins; {conflict}. Remove one of them",
        pins=pins,
    )


def _misfits(
    problem: Problem, name: str, pins: Mapping[int, Pin], mesh: Mesh
) -> list[tuple[str, int, int]]:
    """Factors of an op whose length its pin does not divide evenly: name, length, parts."""
    position = problem.position_of[name]
    pin = pins.get(position)
    misfits = []
    for factor, axes in (pin.strategy or {}).items() if pin is not None else ():
        parts = [p for p in problem.ops[position].parts if factor in (p.name, p.factor)]
        length = prod(part.size for part in parts)
        ways = prod(axis.size for axis in mesh.axes if {axis.name, axis.level} & set(axes))
        if length % ways:
            misfits.append((factor, length, ways))
    return misfits


def _nothing_fits(outcomes: Sequence[MeshOutcome], spaces: MeshSpaces) -> Infeasible:
    best = min(outcomes, key=_needed)
    problem, needed = best.models.problem, _needed(best)
    capacity = problem.topology.device.memory_bytes
    available = _available(problem)
    parts = least_memory(best.models, spaces.folding)
    use = _use(parts, problem)
    pins: tuple[str, ...] = ()
    also = ""
    if spaces.pins and use.total <= available:
        pins = conflicting_pins(spaces, best.mesh)
        also = (
            f" Without one of the pins {', '.join(map(repr, pins))} there is a plan."
            if pins
            else ""
        )
    return Infeasible(
        constraint="memory",
        detail=(
            f"every plan needs at least {needed / GIB:.1f} GiB on a device ({parts_of(use)}); "
            f"{problem.topology.device.name} has {capacity / GIB:.1f} GiB, of which "
            f"{problem.setup.memory_reserve:.0%} are reserved: {available / GIB:.1f} GiB. "
            f"That is {needed / max(1, available):.2f} times the available memory, with "
            f"{problem.microbatches} microbatch(es). Use more microbatches, a smaller batch, a "
            f"shorter sequence or more devices.{also}"
        ),
        needed_bytes=int(needed),
        available_bytes=available,
        least=use.model_copy(update={"reserved": capacity - available, "capacity": capacity}),
        largest=_largest(parts),
        pins=pins,
    )


def _needed(outcome: MeshOutcome) -> float:
    least_bytes = outcome.outcome.minimum_memory_bytes
    return float("inf") if least_bytes is None else _with_transient(outcome, least_bytes)


def _use(parts: Sequence[LeastMemory], problem: Problem) -> MemoryUse:
    cache = sum(part.count * part.value for part in parts if part.name in problem.caches)
    return MemoryUse(
        parameters=int(sum(part.count * part.value for part in parts) - cache),
        gradients=int(sum(part.count * part.gradient for part in parts)),
        optimizer=int(sum(part.count * part.optimizer for part in parts)),
        activations=int(sum(part.count * part.activation for part in parts)),
        cache=int(cache),
        working=int(problem.spare_bytes),
    )


def _largest(parts: Sequence[LeastMemory]) -> tuple[Consumer, ...]:
    """The largest tensors; those of repeated layers are merged: `layers.*.mlp`."""
    consumers: dict[str, Consumer] = {}
    for part in parts:
        name = LAYER.sub("*", part.name)
        old = consumers.get(name, Consumer(tensor=name, count=0, bytes=0))
        consumers[name] = Consumer(
            tensor=part.name if not old.count and part.count == 1 else name,
            count=old.count + part.count,
            bytes=old.bytes + int(part.total),
        )
    return tuple(sorted(consumers.values(), key=lambda consumer: -consumer.bytes)[:LARGEST])
