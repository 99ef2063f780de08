"""Plan documents from assignments: names instead of codes, steps with groups, bytes and times.

What is written is written once for each content, and named for all that have it.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    look_of,
    pair_of,
    parameter_layouts,
)
from solver.ledger import Ledger, Share, Transfer
from solver.ledger_items import Items
from solver.lowering import Models
from solver.op_model import OpModel
from solver.own_moves import own_moves
from solver.peak_memory import peak_elements
from solver.redistribution import Path, Placed, Redistributions
from solver.states import PARTIAL, IntArray
from solver.values import Reader, Value

UNNAMED = ""  # of what is written for a content


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
                if transfer.way.forward or transfer.way.backward
            ),
            *_parameter_transfers(models, assignment, ledger),
        ),
    )


def _op(models: Models, position: int, codes: Codes, ledger: Ledger) -> OpPlan:
    op, model = models.problem.ops[position], models.ops.model(position)
    times = (ledger.op_compute_ns[position], ledger.op_communication_ns[position])
    # ops of equal parts hold the same tuple of them
    key = ("op plan", id(model), id(op.parts), op.op.kind, op.notation, codes, times)
    return models.shared(key, lambda: _op_of(models, position, codes, times)).like(op=op.name)


def _op_of(models: Models, position: int, codes: Codes, times: tuple[float, float]) -> OpPlan:
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
        op=UNNAMED,
        kind=op.op.kind,
        rule=op.notation,
        strategy=strategy,
        partial=partial,
        followers=tuple(
            axis
            for axis, code in zip(models.mesh.names, codes, strict=True)
            if len(model.parts_of_code[code]) > 1
        ),
        own_steps=_own_steps(models, model, codes),
        compute_ns=times[0],
        communication_ns=times[1],
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
    root = value.root
    read = assignment.read.get(root)
    rest = assignment.rest.get(root)
    if rest is None:
        rest = _value_codes(models, value, assignment.parameters[root])
    saved = "none"
    if value.is_saved and not value.is_parameter:
        saved = "rest" if read is not None and read.again else "read"
    saved_bytes = round(ledger.saved_bytes.get(root, 0.0))
    codes = read.codes if read is not None else None
    return models.shared(
        ("tensor plan", look_of(models, value), rest, codes, saved, saved_bytes),
        lambda: TensorPlan(
            tensor=UNNAMED,
            rest=pair_of(models, value, rest),
            read=pair_of(models, value, codes) if codes is not None else None,
            saved=saved,  # type: ignore[arg-type]  # one of the literals above
            saved_bytes=saved_bytes,
        ),
    ).like(tensor=root)


def _value_codes(models: Models, value: Value, codes: Codes) -> Codes:
    row = models.parameter(value).value(np.array([codes]))[0]
    return tuple(row.tolist())


def _parameter(
    models: Models, value: Value, codes: Codes, assignment: Assignment, ledger: Ledger
) -> ParameterPlan:
    held = ledger.parameter_bytes.get(value.root, (0.0, 0.0, 0.0))
    order = parameter_order(models, value, assignment)
    key = ("parameter plan", look_of(models, value), id(models.parameter(value)), codes, order)

    def written() -> ParameterPlan:
        layouts = parameter_layouts(models, value, codes, order)
        return ParameterPlan(
            tensor=UNNAMED,
            value=layouts[0],
            gradient=layouts[1],
            optimizer=layouts[2],
            value_bytes=round(held[0]),
            gradient_bytes=round(held[1]),
            optimizer_bytes=round(held[2]),
        )

    return models.shared((*key, held), written).like(tensor=value.root)


def _transfer(models: Models, transfer: Transfer) -> Redistribution:
    value, way = models.values.value_of[transfer.root], transfer.way

    def written() -> Redistribution:
        moves = models.redistributions(models.ops.space(value.root))
        return Redistribution(
            tensor=UNNAMED,
            op=None,
            traffic="activation",
            forward=_steps(models, value, moves, way.forward),
            backward=_steps(models, value, moves, way.backward),
            again=way.again,
            ns=way.ns,
            exposed_ns=way.ns * models.problem.calibration.exposed.activation,
        )

    # the ledger's items keep one way for all that are equal, for as long as there are models
    found = models.shared(("transfer", look_of(models, value), id(way)), written)
    return _named(models, found, transfer.root, transfer.reader)


def _named(
    models: Models, content: Redistribution, root: str, reader: Reader | None
) -> Redistribution:
    """Under the names of its tensor, of the op that reads it and of which input."""
    if reader is None:
        return content.like(tensor=root)
    return content.like(tensor=root, op=models.problem.ops[reader[0]].name, input=reader[1])


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
) -> Iterator[Redistribution]:
    """Gathers for each reader, reductions of its gradient, and what follows the update."""
    for (root, reader), times in ledger.parameter_ns.items():
        value = models.values.value_of[root]
        order = parameter_order(models, value, assignment)
        codes = assignment.parameters[root]
        if reader is None:
            read = assignment.read.get(root)
            needed = read.codes if read is not None else None
        else:
            needed = _needed(models, assignment, reader)
        own = (codes, needed, order, reader is None, times)
        key = ("parameter ways", look_of(models, value), id(models.parameter(value)), *own)
        found = models.shared(
            key,
            lambda value=value, own=own: tuple(_parameter_ways(models, value, *own)),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        )
        for content in found:
            yield _named(models, content, root, reader)


def _parameter_ways(
    models: Models,
    value: Value,
    codes: Codes,
    needed: Codes | None,
    order: tuple[int, ...],
    spreads: bool,
    times: tuple[float, float],
) -> Iterator[Redistribution]:
    """spreads: first what follows the update. needed: None where that is all."""
    model, row = models.parameter(value), np.array([codes])
    gather_ns, reduce_ns = times
    exposed = models.problem.calibration.exposed
    if spreads:
        steps = _parameter_path(
            models, value, model.value_moves, model.optimizer(row), model.value(row), order
        )
        ns = float(model.spread_ns(row)[0])
        gather_ns = max(0.0, gather_ns - ns)
        if steps:
            yield Redistribution(
                tensor=UNNAMED, op=None, traffic="parameter", per_step=steps,
                ns=ns, exposed_ns=ns * exposed.parameter,
            )  # fmt: skip
    if needed is None:
        return
    read = np.array([needed])
    gather = _parameter_path(
        models, value, model.value_moves, model.value(row), model.read_value(read), order
    )
    if gather:
        yield Redistribution(
            tensor=UNNAMED, op=None, traffic="parameter", forward=gather,
            again=model.trained, ns=gather_ns, exposed_ns=gather_ns * exposed.parameter,
        )  # fmt: skip
    if not model.trained:
        return
    kept = model.accumulated(row, read)[0]
    moves = model.gradient_moves
    often = _parameter_path(models, value, moves, model.left_gradient(read), kept, order)
    once = _parameter_path(models, value, moves, kept, model.optimizer(row), order)
    if often or once:
        yield Redistribution(
            tensor=UNNAMED, op=None, traffic="gradient", backward=often, per_step=once,
            ns=reduce_ns, exposed_ns=reduce_ns * exposed.gradient,
        )  # fmt: skip


def parameter_order(models: Models, value: Value, assignment: Assignment) -> tuple[int, ...]:
    """The order of a parameter's axes, from what its reader (or all its readers) need."""
    if value.root in assignment.read:
        needed = assignment.read[value.root].codes
    elif value.readers:
        needed = _needed(models, assignment, value.readers[0])
    else:
        return ()
    model, codes = models.parameter(value), assignment.parameters[value.root]
    key = ("parameter order", id(model), codes, needed)
    return models.shared(key, lambda: model.order(np.array(codes), np.array(needed)))


def _needed(models: Models, assignment: Assignment, reader: Reader) -> Codes:
    """The state in which a reader needs its input."""
    position, port = reader
    model = models.ops.model(position)
    return Items.of(models).needed(model, assignment.ops[position], port)


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
