"""Plan documents from assignments: names instead of codes, steps with groups, bytes and times.

Each distinct content is built once and copied under the name of every item that has it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from meshwright.schema import (
    Axis,
    OpPlan,
    OwnStep,
    Redistribution,
    Stage,
    TensorPlan,
)
from meshwright.schema.plan import Saved
from meshwright_solver.evaluation.accounting.assignment import (
    Assignment,
    Codes,
    pair_of,
)
from meshwright_solver.evaluation.accounting.ledger import AssignmentShare, Ledger
from meshwright_solver.evaluation.accounting.ledger_items import (
    RedistributionItem,
    ValueItems,
)
from meshwright_solver.evaluation.parameter_document import parameter_document
from meshwright_solver.evaluation.redistribution_steps import UNNAMED, steps_of
from meshwright_solver.problem.shardable_slots import Reader
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_collectives import own_moves
from meshwright_solver.strategies.op_model import OpModel


def stage_document(
    models: Models, assignment: Assignment, ledger: Ledger, share: AssignmentShare | None = None
) -> Stage:
    """Stage document of an assignment, or of a share of it. ledger: of the same share."""
    share = share or AssignmentShare.all_of(models, assignment)
    value_of = models.values.value_of
    contents = {
        root: parameter_document(models, value_of[root], items)
        for root, items in ledger.parameters.items()
    }
    return Stage(
        mesh=models.mesh,
        uneven=models.problem.uneven.mode,
        ops=tuple(
            [_op(models, position, assignment.ops[position], ledger) for position in share.ops]
        ),
        tensors=tuple(_tensors(models, share, ledger)),
        parameters=tuple(
            [
                contents[root].plan.like(tensor=root)
                for root in assignment.parameters
                if root in contents
            ]
        ),
        redistributions=(
            *_activations(models, share, ledger),
            *(
                _with_names(models, moved, root, None if k is None else value_of[root].readers[k])
                for root, document in contents.items()
                for k, moved in document.moves
            ),
        ),
    )


def _op(models: Models, position: int, codes: Codes, ledger: Ledger) -> OpPlan:
    op, model = models.problem.ops[position], models.ops.model(position)
    times = ledger.ops[position]
    # ops with equal parts share one tuple object
    key = (
        "op plan",
        models.key_of(model),
        models.key_of(op.parts),
        op.op.kind,
        op.notation,
        codes,
        times,
    )
    return models.shared(key, lambda: op_of_codes(models, position, codes, times)).like(op=op.name)


def op_of_codes(models: Models, position: int, codes: Codes, times: tuple[float, float]) -> OpPlan:
    """Plan of an op from its strategy codes, without the name of the op."""
    op = models.problem.ops[position]
    model = models.ops.model(position)
    strategy: dict[str, tuple[Axis, ...]] = {}
    partial: dict[Axis, int] = {}
    for axis, code in zip(models.mesh.names, codes, strict=True):
        parts = model.parts_of_code[code]
        if parts:
            name = op.parts[parts[0]].name
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
            again=move.again,
            payload_bytes=round(float(move.payload_bytes[0])),
            ns=float(move.ns[0]),
        )
        for move in own_moves(model, row, models.interconnect)
    )


def _tensors(models: Models, share: AssignmentShare, ledger: Ledger) -> Iterator[TensorPlan]:
    """Plans of all op outputs, and of parameters whose readers share a layout."""
    for value in share.values:
        items = ledger.values.get(value.root)
        if items is not None:
            key = ("tensor plan", models.look(value), models.key_of(items))
            # equal items of the ledger are one object for the lifetime of the models
            content = models.shared(
                key,
                lambda items=items, value=value: _tensor(models, value, items),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            )
            yield content.like(tensor=value.root)
        elif value.root in ledger.parameters and models.reads_shared(value):
            parameter = ledger.parameters[value.root]
            yield TensorPlan(
                tensor=value.root,
                rest=pair_of(models, value, _value_codes(models, value, parameter.codes)),
                read=pair_of(models, value, parameter.targets[0]),
            )


def _tensor(models: Models, value: ProblemValue, items: ValueItems) -> TensorPlan:
    saved: Saved = "none"
    if value.kept.wanted:
        as_read = value.kept.again and not (items.read is not None and items.read.again)
        saved = "read" if as_read else "rest"
        if value.is_remade and (saved == "rest" or items.read is None):
            saved = "recomputed"
    return TensorPlan(
        tensor=UNNAMED,
        rest=pair_of(models, value, items.rest),
        read=pair_of(models, value, items.read.codes) if items.read is not None else None,
        saved=saved,
        saved_bytes=round(items.saved_bytes or 0.0),
    )


def _value_codes(models: Models, value: ProblemValue, codes: Codes) -> Codes:
    row = models.parameter(value).value(np.array([codes]))[0]
    return tuple(row.tolist())


def _activations(
    models: Models, share: AssignmentShare, ledger: Ledger
) -> Iterator[Redistribution]:
    """Redistributions to readers, for parameters from the layout that their readers share."""
    for value in share.values:
        items = ledger.values.get(value.root)
        parameter = ledger.parameters.get(value.root)
        if items is not None and items.shared is not None:
            yield from _transfer(models, value, items.shared, None)
        ways = items.to_readers if items is not None else ()
        ways = parameter.to_readers if parameter is not None else ways
        for reader, way in zip(value.readers, ways, strict=False):
            if way is not None:
                yield from _transfer(models, value, way, reader)


def _transfer(
    models: Models, value: ProblemValue, way: RedistributionItem, reader: Reader | None
) -> Iterator[Redistribution]:
    """Redistribution to one reader; nothing if only the cost of a state changes."""
    if not (way.forward or way.backward):
        return

    def written() -> Redistribution:
        moves = models.redistributions(models.ops.space(value.root))
        return Redistribution(
            tensor=UNNAMED,
            op=None,
            traffic="activation",
            forward=steps_of(models, value, moves, way.forward),
            backward=steps_of(models, value, moves, way.backward),
            again=way.again,
            ns=way.ns,
            counted_ns=(way.ns - way.hidden_ns) * models.problem.calibration.exposed.activation,
        )

    content = models.shared(("transfer", models.look(value), models.key_of(way)), written)
    yield _with_names(models, content, value.root, reader)


def _with_names(
    models: Models, content: Redistribution, root: str, reader: Reader | None
) -> Redistribution:
    """Redistribution with the names of its tensor and of its reader."""
    if reader is None:
        return content.like(tensor=root)
    return content.like(tensor=root, op=models.problem.ops[reader[0]].name, input=reader[1])
