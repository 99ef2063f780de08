"""Assignment of a stage in a plan document."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping

import numpy as np

from meshwright.schema import Axis, Layout, ParameterPlan, PlanError, Stage
from meshwright.schema.stage import Resting
from meshwright_solver.evaluation.accounting.assignment import (
    Assignment,
    Codes,
    Read,
    codes_of,
    parameter_layouts,
)
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.offload import DEALT, DEALT_TOO, DEVICE, ON_HOST, ROWS, TABLE
from meshwright_solver.strategies.parameter_model import ParameterModel
from meshwright_solver.strategies.sparse_tables import LOOKUP


def strategies_of_stage(models: Models, stage: Stage) -> dict[int, Codes]:
    """Strategies by position of op. Raises PlanError for unknown, duplicate or missing ops."""
    problem = models.problem
    positions = problem.position_of
    _check_once("op", [planned.op for planned in stage.ops])
    ops: dict[int, Codes] = {}
    for planned in stage.ops:
        position = positions.get(planned.op)
        if position is None:
            raise PlanError(f"op {planned.op!r} is not in the graph")
        ops[position] = _op_codes(
            models, position, planned.strategy, planned.partial, planned.followers
        )
    for position, op in enumerate(problem.ops):
        if position not in ops and position not in models.values.views:
            raise PlanError(f"the plan has no strategy for op {op.name!r}")
    return ops


def assignment_of_stage(models: Models, stage: Stage) -> Assignment:
    """Assignment of a stage. Raises PlanError, with op or tensor, if it does not fit the graph."""
    values = models.values
    _check_once("tensor", [tensor.tensor for tensor in stage.tensors])
    _check_once("parameter", [parameter.tensor for parameter in stage.parameters])
    ops = strategies_of_stage(models, stage)
    rest: dict[str, Codes] = {}
    read: dict[str, Read] = {}
    for tensor in stage.tensors:
        value = values.value_of.get(tensor.tensor)
        if value is None or value.root != tensor.tensor:
            raise PlanError(f"tensor {tensor.tensor!r} is not a value of the graph")
        if not value.is_parameter:
            rest[value.root] = codes_of(models, value, tensor.rest)
        if models.reads_shared(value):
            if tensor.read is None:
                raise PlanError(f"tensor {value.root!r}: the plan has no layout for its readers")
            codes = codes_of(models, value, tensor.read)
            is_again = value.kept.again and tensor.saved in ("rest", "recomputed")
            read[value.root] = Read(codes, is_again)
    parameters: dict[str, Codes] = {}
    for planned_parameter in stage.parameters:
        value = values.value_of.get(planned_parameter.tensor)
        if value is None or not value.is_parameter:
            raise PlanError(f"{planned_parameter.tensor!r} is not a parameter of the graph")
        triple = (
            planned_parameter.value,
            planned_parameter.gradient,
            planned_parameter.optimizer,
        )
        codes = _parameter_codes(models, value, triple)
        parameters[value.root] = _with_placement(models, value, codes, planned_parameter)
    for value in values.values:
        if value.readers and not value.is_free:
            if value.is_parameter and value.root not in parameters:
                raise PlanError(f"the plan has no layout for parameter {value.root!r}")
            if not value.is_parameter and value.root not in rest:
                raise PlanError(f"the plan has no layout for tensor {value.root!r}")
            if models.reads_shared(value) and value.root not in read:
                raise PlanError(f"tensor {value.root!r}: the plan has no layout for its readers")
    return Assignment(ops, rest, read, parameters)


def _check_once(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise PlanError(f"{what} {name!r} is listed twice in the plan")
        seen.add(name)


def _op_codes(
    models: Models,
    position: int,
    strategy: Mapping[str, tuple[str, ...]],
    partial: Mapping[Axis, int],
    followers: tuple[Axis, ...],
) -> Codes:
    op = models.problem.ops[position]
    parts = {part.name: j for j, part in enumerate(op.parts)}
    model = models.ops.model(position)
    codes = dict.fromkeys(models.mesh.names, model.idle)
    placed = [*(axis for axes in strategy.values() for axis in axes), *partial]
    if len(set(placed)) < len(placed):
        raise PlanError(f"op {op.name!r}: an axis is used twice in its strategy")
    for factor, axes in strategy.items():
        for axis in axes:
            if factor not in parts or axis not in codes:
                raise PlanError(
                    f"op {op.name!r}: {factor!r} on {axis!r}; its factors are "
                    f"{', '.join(parts) or 'none'}, the axes {', '.join(models.mesh.names)}"
                )
            codes[axis] = parts[factor]  # type: ignore[index]  # checked to be an axis above
    for axis, first in partial.items():
        group = next((g for g, inputs in enumerate(model.groups) if inputs[0] == first), None)
        if group is None or axis not in codes:
            raise PlanError(f"op {op.name!r}: no partial sum passes its input {first} on {axis!r}")
        codes[axis] = model.parts + 1 + group
    for axis in followers:
        following = model.following(codes.get(axis, model.idle))
        if following is None:
            raise PlanError(f"op {op.name!r}: no factor can follow the factor on axis {axis!r}")
        codes[axis] = following
    row = np.array([list(codes.values())])
    if not (model.choices == row).all(axis=1).any():
        raise PlanError(f"op {op.name!r} ({op.notation}) cannot have the strategy {dict(strategy)}")
    return tuple(codes.values())


def _parameter_codes(
    models: Models, value: ProblemValue, triple: tuple[Layout, Layout | None, Layout | None]
) -> Codes:
    model = models.parameter(value)
    known, others = models.shared(
        ("parameter codes", models.look(value), models.key_of(model)), lambda: _no_codes_yet(model)
    )
    wanted = _axes_of(triple)
    while wanted not in known:
        row = next(others, None)
        if row is None:
            break
        known.setdefault(_axes_of(parameter_layouts(models, value, row)), row)
    codes = known.get(wanted)
    # a state also determines sizes, spans and chunks
    if codes is not None and _shapes_of(parameter_layouts(models, value, codes)) == _shapes_of(
        triple
    ):
        return codes
    raise PlanError(
        f"parameter {value.root!r}: the layouts {triple[0]}, {triple[1]}, {triple[2]} are not a "
        "state of the search space"
    )


def _no_codes_yet(model: ParameterModel) -> tuple[dict[Hashable, Codes], Iterator[Codes]]:
    """Known states by layout, and an iterator over the rest; most states are never requested."""
    return {}, (tuple(row) for row in model.every_state.tolist())


def _with_placement(
    models: Models, value: ProblemValue, codes: Codes, planned: ParameterPlan
) -> Codes:
    """Codes with host offload, ownership or a sparse gradient. Raises PlanError if invalid."""
    model, on_host = models.parameter(value), planned.on_host
    if planned.owner:
        return _with_owner(models, value, codes, planned)
    if planned.sparse_gradient:
        return _with_sparse_gradient(value, model, codes, on_host)
    if on_host == ("value",) and not model.trained:
        on_host = ON_HOST[TABLE]
    place = ON_HOST.index(on_host) if on_host in ON_HOST else None
    if place == DEVICE:
        return codes
    if place is None or model.host is None or (place == TABLE and not model.is_table):
        why = (
            "its topology has no host"
            if model.host is None
            else f"use {'; '.join(', '.join(parts) for parts in ON_HOST if parts)}, and the value "
            "only where a single op looks up its rows"
        )
        raise PlanError(
            f"parameter {value.root!r}: {', '.join(on_host)} cannot be offloaded to hosts: {why}"
        )
    return tuple(code + model.space.base * place for code in codes)


def _with_owner(models: Models, value: ProblemValue, codes: Codes, planned: ParameterPlan) -> Codes:
    model = models.parameter(value)
    place = {("optimizer",): DEALT, ("gradient", "optimizer"): DEALT_TOO}.get(planned.owned, DEALT)
    state = tuple(code + model.space.base * place for code in codes)
    over = np.flatnonzero(model.dealt_axes(np.array(state))).tolist()
    along = [models.mesh.names[axis] for axis in over]
    if (
        not model.trained
        or planned.on_host
        or planned.sparse_gradient
        or not model.may_be_dealt(np.array([codes]))[0]
        or sorted(along) != sorted(planned.owner)
        or (place == DEALT_TOO and not model.has_fine_gradient(np.array([codes]))[0])
    ):
        raise PlanError(
            f"parameter {value.root!r} cannot have an owner along {', '.join(planned.owner)}: only "
            "the optimizer state of a trained parameter on devices has an owner, along all axes "
            f"that do not and cannot shard it; use {', '.join(along) or 'none'}"
        )
    return state


def _with_sparse_gradient(
    value: ProblemValue, model: ParameterModel, codes: Codes, on_host: tuple[Resting, ...]
) -> Codes:
    if not model.trained or model.rows is None or on_host or max(codes) > model.space.slots:
        raise PlanError(
            f"parameter {value.root!r} cannot have a sparse gradient: it requires a trained table "
            f"on devices with a single {LOOKUP} as its only reader, in the layout of the table"
        )
    return tuple(code + model.space.base * ROWS for code in codes)


def _axes_of(layouts: Iterable[Layout | None]) -> Hashable:
    """Unordered axes of every sub-dim, and partial sums."""
    return tuple(
        None
        if layout is None
        else (
            tuple([tuple([frozenset(p.axes) for p in dim.parts]) for dim in layout.dims]),
            tuple(sorted(layout.partial.items())),
        )
        for layout in layouts
    )


def _shapes_of(layouts: Iterable[Layout | None]) -> Hashable:
    """Sizes, spans, chunks, segments and padding of layouts."""
    return tuple(
        None
        if layout is None
        else (
            tuple(
                [
                    (dim.segments, *((p.size, p.span, p.chunks) for p in dim.parts))
                    for dim in layout.dims
                ]
            ),
            layout.padded,
        )
        for layout in layouts
    )
