"""Plan documents from assignments: names instead of codes, steps with groups, bytes and times."""

from __future__ import annotations

from math import prod

import numpy as np

from meshwright.schema import (
    Axis,
    Layout,
    OpPlan,
    OwnStep,
    ParameterPlan,
    Redistribution,
    Stage,
    Step,
    TensorPlan,
)
from solver.assignment import (
    Assignment,
    Codes,
    layout_of,
    pair_of,
    parameter_layouts,
    parameter_order,
)
from solver.evaluate import Ledger, Share, Transfer
from solver.lowering import Models
from solver.op_model import OpModel
from solver.own_moves import own_moves
from solver.parameters import ParameterModel
from solver.peak_memory import peak_elements
from solver.redistribution import Path, Placed, Redistributions
from solver.states import PARTIAL, IntArray
from solver.values import Reader, Value


def stage_document(
    models: Models, assignment: Assignment, ledger: Ledger, share: Share | None = None
) -> Stage:
    """The one stage of a plan, or a share of it; the ledger is of the same."""
    share = share or Share.all_of(models, assignment)
    roots = {value.root for value in share.values}
    return Stage(
        mesh=models.mesh,
        uneven=models.problem.uneven.mode,
        ops=tuple(
            _op(models, position, assignment.ops[position], ledger) for position in share.ops
        ),
        tensors=tuple(
            _tensor(models, value, assignment, ledger)
            for value in share.values
            if value.root in assignment.rest or value.root in assignment.read
        ),
        parameters=tuple(
            _parameter(models, models.values.value_of[root], codes, assignment, ledger)
            for root, codes in assignment.parameters.items()
            if root in roots
        ),
        redistributions=(
            *(
                _transfer(models, transfer)
                for transfer in ledger.transfers
                if transfer.forward or transfer.backward
            ),
            *_parameter_transfers(models, assignment, ledger),
        ),
    )


def _op(models: Models, position: int, codes: Codes, ledger: Ledger) -> OpPlan:
    op = models.problem.ops[position]
    model = models.ops.model(position)
    strategy: dict[str, tuple[Axis, ...]] = {}
    partial: dict[Axis, int] = {}
    for axis, code in zip(models.mesh.names, codes, strict=True):
        own = model.parts_of_code[code]
        if own:
            name = op.parts[own[0]].name
            strategy[name] = (*strategy.get(name, ()), axis)
        elif code > model.idle:
            partial[axis] = model.groups[code - model.parts - 1][0]
    return OpPlan(
        op=op.name,
        kind=op.op.kind,
        rule=op.notation,
        strategy=strategy,
        partial=partial,
        followers=tuple(
            axis
            for axis, code in zip(models.mesh.names, codes, strict=True)
            if len(model.parts_of_code[code]) > 1
        ),
        own_steps=models.shared(
            ("own steps", model, codes), lambda: _own_steps(models, model, codes)
        ),
        compute_ns=ledger.op_compute_ns[position],
        communication_ns=ledger.op_communication_ns[position],
    )


def _own_steps(models: Models, model: OpModel, codes: Codes) -> tuple[OwnStep, ...]:
    row = np.array([codes])
    return tuple(
        OwnStep(
            what=move.what,
            kind=move.kind,
            axes=tuple(models.mesh.names[axis] for axis in move.axes),
            direction="backward" if move.backward else "forward",
            times=move.times,
            payload_bytes=round(float(move.payload_bytes[0])),
            ns=float(move.ns[0]),
        )
        for move in own_moves(model, row, models.interconnect)
    )


def _tensor(models: Models, value: Value, assignment: Assignment, ledger: Ledger) -> TensorPlan:
    read = assignment.read.get(value.root)
    rest = (
        pair_of(models, value, assignment.rest[value.root])
        if value.root in assignment.rest
        else pair_of(models, value, _value_codes(models, value, assignment))
    )
    saved = "none"
    if value.is_saved and not value.is_parameter:
        saved = "rest" if read is not None and read.again else "read"
    return TensorPlan(
        tensor=value.root,
        rest=rest,
        read=pair_of(models, value, read.codes) if read is not None else None,
        saved=saved,  # type: ignore[arg-type]  # one of the literals above
        saved_bytes=round(ledger.saved_bytes.get(value.root, 0.0)),
    )


def _value_codes(models: Models, value: Value, assignment: Assignment) -> Codes:
    model = models.parameter(value)
    row = model.value(np.array([assignment.parameters[value.root]]))[0]
    return tuple(int(code) for code in row)


def _parameter(
    models: Models, value: Value, codes: Codes, assignment: Assignment, ledger: Ledger
) -> ParameterPlan:
    layouts = parameter_layouts(models, value, codes, parameter_order(models, value, assignment))
    held = ledger.parameter_bytes.get(value.root, (0.0, 0.0, 0.0))
    return ParameterPlan(
        tensor=value.root,
        value=layouts[0],
        gradient=layouts[1],
        optimizer=layouts[2],
        value_bytes=round(held[0]),
        gradient_bytes=round(held[1]),
        optimizer_bytes=round(held[2]),
    )


def _transfer(models: Models, transfer: Transfer) -> Redistribution:
    value = models.values.value_of[transfer.root]
    moves = models.redistributions(models.ops.space(value.root))
    exposed = models.problem.calibration.exposed.activation
    op, input_ = _named(models, transfer.reader)
    return Redistribution(
        tensor=transfer.root,
        op=op,
        input=input_,
        traffic="activation",
        forward=_steps(models, value, moves, transfer.forward),
        backward=_steps(models, value, moves, transfer.backward),
        again=transfer.again,
        ns=transfer.ns,
        exposed_ns=transfer.ns * exposed,
    )


def _steps(
    models: Models,
    value: Value,
    moves: Redistributions,
    path: Path,
    order: tuple[int, ...] = (),
) -> tuple[Step, ...]:
    """A path as steps. order: the ranks of a parameter's axes; else the path's own."""
    order = order and _with_passing_axes(order, path, moves.space.slots)

    def layout(placed: Placed) -> Layout:
        codes, ranks = placed.codes, order or placed.ranks
        return layout_of(models, value, codes, partial=moves.space.slots + PARTIAL, order=ranks)

    steps = []
    for move in path:
        before, after = layout(move.before), layout(move.after)
        element_bytes = moves.space.bytes // prod(after.shape)
        steps.append(
            Step(
                kind=move.kind,
                axes=tuple(models.mesh.names[axis] for axis in move.axes),
                payload_bytes=round(move.payload_bytes),
                peak_bytes=element_bytes * peak_elements(move.kind, before, after, models.mesh),
                ns=move.ns,
                to=after,
            )
        )
    return tuple(steps)


def _with_passing_axes(order: tuple[int, ...], path: Path, slots: int) -> tuple[int, ...]:
    """The order, in which axes that lie on a slot only on the way come last, as they are laid."""
    if not path:
        return order
    ends = (path[0].before.codes, path[-1].after.codes)
    ranks = list(order)
    for step, move in enumerate(path, 1 + max(order)):
        for a in move.axes:
            passes = all(codes[a] >= slots for codes in ends)
            if passes and move.before.codes[a] >= slots > move.after.codes[a]:
                ranks[a] = step
    return tuple(ranks)


def _parameter_transfers(
    models: Models, assignment: Assignment, ledger: Ledger
) -> list[Redistribution]:
    """Gathers for each reader, reductions of its gradient, and what follows the update."""
    found = []
    calibration = models.problem.calibration
    for (root, reader), (gather_ns, reduce_ns) in ledger.parameter_ns.items():
        value = models.values.value_of[root]
        model = models.parameter(value)
        row = np.array([assignment.parameters[root]])
        order = parameter_order(models, value, assignment)
        if reader is None:
            spread = _parameter_path(
                models, value, model.value_moves, model.optimizer(row), model.value(row), order
            )
            spread_ns = float(model.spread_ns(row)[0])
            if spread:
                found.append(
                    Redistribution(
                        tensor=root,
                        op=None,
                        traffic="parameter",
                        per_step=spread,
                        ns=spread_ns,
                        exposed_ns=spread_ns * calibration.exposed.parameter,
                    )
                )
            if root not in assignment.read:
                continue
            gather_ns = max(0.0, gather_ns - spread_ns)
        needed = _needed(models, value, assignment, reader)
        found += _reader_transfers(
            models, value, model, row, needed, reader, gather_ns, reduce_ns, order
        )
    return found


def _needed(
    models: Models, value: Value, assignment: Assignment, reader: Reader | None
) -> IntArray:
    if reader is None:
        return np.array([assignment.read[value.root].codes])
    position, k = reader
    return models.ops.model(position).required(np.array([assignment.ops[position]]), k)


def _named(models: Models, reader: Reader | None) -> tuple[str | None, int | None]:
    """A reader as plans say it: its op, and which of its inputs."""
    return (None, None) if reader is None else (models.problem.ops[reader[0]].name, reader[1])


def _reader_transfers(
    models: Models,
    value: Value,
    model: ParameterModel,
    row: IntArray,
    needed: IntArray,
    reader: Reader | None,
    gather_ns: float,
    reduce_ns: float,
    order: tuple[int, ...],
) -> list[Redistribution]:
    found = []
    gather = _parameter_path(
        models, value, model.value_moves, model.value(row), model.read_value(needed), order
    )
    exposed = models.problem.calibration.exposed
    op, input_ = _named(models, reader)
    if gather:
        found.append(
            Redistribution(
                tensor=value.root, op=op, input=input_, traffic="parameter", forward=gather,
                again=model.trained, ns=gather_ns, exposed_ns=gather_ns * exposed.parameter,
            )
        )  # fmt: skip
    if model.trained:
        kept = model.accumulated(row, needed)[0]
        often = _parameter_path(
            models, value, model.gradient_moves, model.left_gradient(needed), kept, order
        )
        once = _parameter_path(
            models, value, model.gradient_moves, kept, model.optimizer(row), order
        )
        if often or once:
            found.append(
                Redistribution(
                    tensor=value.root, op=op, input=input_, traffic="gradient",
                    backward=often, per_step=once, ns=reduce_ns,
                    exposed_ns=reduce_ns * exposed.gradient,
                )
            )  # fmt: skip
    return found


def _parameter_path(
    models: Models,
    value: Value,
    moves: Redistributions,
    source: IntArray,
    target: IntArray,
    order: tuple[int, ...],
) -> tuple[Step, ...]:
    a, b = int(moves.space.index(source)[0]), int(moves.space.index(target)[0])
    return _steps(models, value, moves, moves.forward_path(a, b), order)
