"""Parameters in plan documents: layouts at rest, gathers, gradient reductions and spreading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from meshwright.schema import (
    ParameterPlan,
    Redistribution,
    Step,
)
from meshwright.schema.stage import Resting
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.evaluation.accounting.assignment import (
    Codes,
    parameter_layouts,
)
from meshwright_solver.evaluation.accounting.ledger_items import (
    Gathered,
    ParameterItems,
)
from meshwright_solver.evaluation.redistribution_steps import UNNAMED, steps_of
from meshwright_solver.layouts.redistribution import Redistributions
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.strategies.mesh_models import Models


class ParameterDocument(NamedTuple):
    """Plan of a parameter and its redistributions.

    moves: index of the reader, or None for all readers, with its redistribution.
    """

    plan: ParameterPlan
    moves: tuple[tuple[int | None, Redistribution], ...]


def parameter_document(
    models: Models, value: ProblemValue, items: ParameterItems
) -> ParameterDocument:
    """Document of a parameter without its name, shared by all parameters of equal content."""
    key = ("parameter plan", models.look(value), models.key_of(items))
    return models.shared(key, lambda: _parameter_of(models, value, items))


def _parameter_of(models: Models, value: ProblemValue, items: ParameterItems) -> ParameterDocument:
    model = models.parameter(value)
    # the first reader, or the layout that readers share, determines the order of the axes
    order = model.order(np.array(items.codes), np.array(items.targets[0]))
    layouts = parameter_layouts(models, value, items.codes, order)
    plan = ParameterPlan(
        tensor=UNNAMED,
        value=layouts[0],
        gradient=layouts[1],
        optimizer=layouts[2],
        value_bytes=round(items.bytes.value),
        gradient_bytes=round(items.bytes.gradient),
        optimizer_bytes=round(items.bytes.optimizer),
        on_host=model.on_host(np.array(items.codes)),
        host_bytes=round(items.bytes.host),
        sparse_gradient=items.rows is not None,
        owner={models.mesh.names[axis]: 0 for axis in items.dealt.axes} if items.dealt else {},
        owned=_owned_states(items),
        dealt_bytes=items.dealt.bytes if items.dealt else 0,
        host_ns=items.host_ns,
        link_ns=items.up_ns + items.down_ns,
    )
    moves: list[tuple[int | None, Redistribution]] = []
    moves += [(None, moved) for moved in _spread_redistributions(models, value, items, order)]
    for k in range(len(items.targets)):
        reader = None if models.reads_shared(value) else k
        moves += [
            (reader, moved) for moved in _target_redistributions(models, value, items, k, order)
        ]
    return ParameterDocument(plan, tuple(moves))


def _owned_states(items: ParameterItems) -> tuple[Resting, ...]:
    if items.dealt is None:
        return ()
    return ("gradient", "optimizer") if items.dealt.has_gradient else ("optimizer",)


def _spread_redistributions(
    models: Models, value: ProblemValue, items: ParameterItems, order: tuple[int, ...]
) -> Iterator[Redistribution]:
    """Redistributions of the value after the optimizer update."""
    model, row = models.parameter(value), np.array([items.codes])
    steps = steps_of(models, value, model.value_moves, model.spread_path(row), order)
    if steps:
        counted_ns = items.spread_ns * models.problem.calibration.exposed.parameter_once
        yield Redistribution(
            tensor=UNNAMED, op=None, traffic="parameter", per_step=steps,
            ns=items.spread_ns, counted_ns=counted_ns,
        )  # fmt: skip


def _target_redistributions(
    models: Models, value: ProblemValue, items: ParameterItems, target: int, order: tuple[int, ...]
) -> Iterator[Redistribution]:
    """Gathers for one target, and reductions of its gradient."""
    model, row = models.parameter(value), np.array([items.codes])
    needed = np.array([items.targets[target]])
    exposed = models.problem.calibration.exposed
    gather = _parameter_path(
        models, value, model.value_moves, model.value(row), model.read_value(needed), order
    )
    if gather:
        ns = items.gathers_ns[target]
        yield Redistribution(
            tensor=UNNAMED, op=None, traffic="parameter", forward=gather,
            again=model.trained, ns=ns, counted_ns=ns * exposed.parameter,
        )  # fmt: skip
    if not model.trained:
        return
    if items.rows is not None:
        yield from _gathered_rows(models, value, items.rows, items.codes, order)
        return
    moves, paths = model.gradient_moves, model.reduction_paths(row, needed)
    often, once = (steps_of(models, value, moves, path, order) for path in paths)
    if often or once:
        ns, once_ns = items.reductions_ns[target], items.reductions_once_ns[target]
        counted_ns = (ns - once_ns) * exposed.gradient + once_ns * exposed.gradient_once
        yield Redistribution(
            tensor=UNNAMED, op=None, traffic="gradient", backward=often, per_step=once,
            ns=ns, counted_ns=counted_ns,
        )  # fmt: skip


def _gathered_rows(
    models: Models, value: ProblemValue, rows: Gathered, codes: Codes, order: tuple[int, ...]
) -> Iterator[Redistribution]:
    """Reduction of a sparse gradient, once per step."""
    if not rows.axes:
        return
    made_bytes = rows.made_bytes * models.problem.microbatches
    step = Step(
        kind="sparse_all_reduce",
        axes=tuple(models.mesh.names[axis] for axis in rows.axes),
        payload_bytes=round(rows.payload_bytes),
        peak_bytes=round(rows.payload_bytes + made_bytes),
        ns=rows.ns,
        to=parameter_layouts(models, value, codes, order)[0],
    )
    counted_ns = rows.ns * models.problem.calibration.exposed.gradient_once
    yield Redistribution(
        tensor=UNNAMED, op=None, traffic="gradient", per_step=(step,),
        ns=rows.ns, counted_ns=counted_ns,
    )  # fmt: skip


def _parameter_path(
    models: Models,
    value: ProblemValue,
    moves: Redistributions,
    source: IntArray,
    target: IntArray,
    order: tuple[int, ...],
) -> tuple[Step, ...]:
    a, b = int(moves.space.index(source)[0]), int(moves.space.index(target)[0])
    return steps_of(models, value, moves, moves.forward_path(a, b), order)
