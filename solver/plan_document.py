"""Plan documents from assignments: names instead of codes, steps with groups, bytes and times.

What is written is written once for each content, and named for all that have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

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
from meshwright.schema.plan import Resting, Saved
from solver.assignment import (
    Assignment,
    Codes,
    layout_of,
    pair_of,
    parameter_layouts,
)
from solver.ledger import Ledger, Share
from solver.ledger_items import Gathered, ParameterItems, ValueItems, Way
from solver.lowering import Models
from solver.op_model import OpModel
from solver.own_moves import own_moves
from solver.peak_memory import peak_elements
from solver.redistribution import Path, Placed, Redistributions
from solver.shardable import Reader
from solver.states import PARTIAL, IntArray
from solver.values import Value

UNNAMED = ""  # of what is written for a content


def stage_document(
    models: Models, assignment: Assignment, ledger: Ledger, share: Share | None = None
) -> Stage:
    """The one stage of a plan, or a share of it; the ledger is of the same."""
    share = share or Share.all_of(models, assignment)
    value_of = models.values.value_of
    contents = {
        root: _parameter(models, value_of[root], own) for root, own in ledger.parameters.items()
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
                _named(models, moved, root, None if k is None else value_of[root].readers[k])
                for root, own in contents.items()
                for k, moved in own.moves
            ),
        ),
    )


def _op(models: Models, position: int, codes: Codes, ledger: Ledger) -> OpPlan:
    op, model = models.problem.ops[position], models.ops.model(position)
    times = ledger.ops[position]
    # ops of equal parts hold the same tuple of them
    key = ("op plan", id(model), id(op.parts), op.op.kind, op.notation, codes, times)
    return models.shared(key, lambda: op_of_codes(models, position, codes, times)).like(op=op.name)


def op_of_codes(models: Models, position: int, codes: Codes, times: tuple[float, float]) -> OpPlan:
    """A strategy of an op as plans say it, without the op's name."""
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
            again=move.again,
            payload_bytes=round(float(move.payload_bytes[0])),
            ns=float(move.ns[0]),
        )
        for move in own_moves(model, row, models.interconnect)
    )


def _tensors(models: Models, share: Share, ledger: Ledger) -> Iterator[TensorPlan]:
    """Of all values that an op makes, and of parameters that readers share."""
    for value in share.values:
        made = ledger.values.get(value.root)
        if made is not None:
            key = ("tensor plan", models.look(value), id(made))
            # what the ledger holds is one object for all that is equal, as long as there are models
            found = models.shared(key, lambda own=made, value=value: _tensor(models, value, own))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            yield found.like(tensor=value.root)
        elif value.root in ledger.parameters and models.reads_shared(value):
            own = ledger.parameters[value.root]
            yield TensorPlan(
                tensor=value.root,
                rest=pair_of(models, value, _value_codes(models, value, own.codes)),
                read=pair_of(models, value, own.targets[0]),
            )


def _tensor(models: Models, value: Value, own: ValueItems) -> TensorPlan:
    saved: Saved = "none"
    if value.kept.wanted:
        as_read = value.kept.again and not (own.read is not None and own.read.again)
        saved = "read" if as_read else "rest"
        if value.is_remade and (saved == "rest" or own.read is None):
            saved = "recomputed"
    return TensorPlan(
        tensor=UNNAMED,
        rest=pair_of(models, value, own.made),
        read=pair_of(models, value, own.read.codes) if own.read is not None else None,
        saved=saved,
        saved_bytes=round(own.saved_bytes or 0.0),
    )


def _value_codes(models: Models, value: Value, codes: Codes) -> Codes:
    row = models.parameter(value).value(np.array([codes]))[0]
    return tuple(row.tolist())


def _activations(models: Models, share: Share, ledger: Ledger) -> Iterator[Redistribution]:
    """On the way to readers; of parameters, from the layout that these share."""
    for value in share.values:
        made = ledger.values.get(value.root)
        parameter = ledger.parameters.get(value.root)
        if made is not None and made.shared is not None:
            yield from _transfer(models, value, made.shared, None)
        ways = made.to_readers if made is not None else ()
        ways = parameter.to_readers if parameter is not None else ways
        for reader, way in zip(value.readers, ways, strict=False):
            if way is not None:
                yield from _transfer(models, value, way, reader)


def _transfer(
    models: Models, value: Value, way: Way, reader: Reader | None
) -> Iterator[Redistribution]:
    """None where only the price of a state changes, and nothing moves."""
    if not (way.forward or way.backward):
        return

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
            counted_ns=way.ns * models.problem.calibration.exposed.activation,
        )

    found = models.shared(("transfer", models.look(value), id(way)), written)
    yield _named(models, found, value.root, reader)


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
    """A path as steps. order: the ranks of a parameter's axes; else, and where the path starts and
    ends in it, the path's own."""
    order = _order_on(path, order, moves.space.slots)

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


def _order_on(path: Path, order: tuple[int, ...], slots: int) -> tuple[int, ...]:
    """The order of axes on the way; none where each layout's own ranks say it.

    Where the path has another order at its ends, axes that lie on a slot only on the way come last,
    as they are laid.
    """
    if not path or not order or all(_is_in(order, end, slots) for end in _ends(path)):
        return ()
    ends = [end.codes for end in _ends(path)]
    ranks = list(order)
    for step, move in enumerate(path, 1 + max(order)):
        for a in move.axes:
            passes = all(codes[a] >= slots for codes in ends)
            if passes and move.before.codes[a] >= slots > move.after.codes[a]:
                ranks[a] = step
    return tuple(ranks)


def _ends(path: Path) -> tuple[Placed, Placed]:
    return path[0].before, path[-1].after


def _is_in(order: tuple[int, ...], placed: Placed, slots: int) -> bool:
    """Whether the axes of every slot stand in this order."""
    on_slots = [a for a, code in enumerate(placed.codes) if code < slots]
    by_order = sorted(on_slots, key=lambda a: (placed.codes[a], order[a]))
    return by_order == sorted(on_slots, key=lambda a: (placed.codes[a], placed.ranks[a]))


class _Parameter(NamedTuple):
    """A parameter's plan, and what moves: for which of the readers, or for all together."""

    plan: ParameterPlan
    moves: tuple[tuple[int | None, Redistribution], ...]


def _parameter(models: Models, value: Value, own: ParameterItems) -> _Parameter:
    key = ("parameter plan", models.look(value), id(own))
    return models.shared(key, lambda: _parameter_of(models, value, own))


def _parameter_of(models: Models, value: Value, own: ParameterItems) -> _Parameter:
    model = models.parameter(value)
    # the order of its axes follows what the first reader needs, or all together
    order = model.order(np.array(own.codes), np.array(own.targets[0]))
    layouts = parameter_layouts(models, value, own.codes, order)
    plan = ParameterPlan(
        tensor=UNNAMED,
        value=layouts[0],
        gradient=layouts[1],
        optimizer=layouts[2],
        value_bytes=round(own.bytes[0]),
        gradient_bytes=round(own.bytes[1]),
        optimizer_bytes=round(own.bytes[2]),
        on_host=model.on_host(np.array(own.codes)),
        host_bytes=round(own.bytes[3]),
        sparse_gradient=own.rows is not None,
        owner={models.mesh.names[axis]: 0 for axis in own.dealt.axes} if own.dealt else {},
        owned=_owned(own),
        dealt_bytes=own.dealt.bytes if own.dealt else 0,
        host_ns=own.host_ns,
        link_ns=own.up_ns + own.down_ns,
    )
    moves: list[tuple[int | None, Redistribution]] = []
    moves += [(None, moved) for moved in _spread(models, value, own, order)]
    for k in range(len(own.targets)):
        reader = None if models.reads_shared(value) else k
        moves += [(reader, moved) for moved in _served(models, value, own, k, order)]
    return _Parameter(plan, tuple(moves))


def _owned(own: ParameterItems) -> tuple[Resting, ...]:
    if own.dealt is None:
        return ()
    return ("gradient", "optimizer") if own.dealt.has_gradient else ("optimizer",)


def _spread(
    models: Models, value: Value, own: ParameterItems, order: tuple[int, ...]
) -> Iterator[Redistribution]:
    """What follows the update."""
    model, row = models.parameter(value), np.array([own.codes])
    steps = _steps(models, value, model.value_moves, model.spread_path(row), order)
    if steps:
        counted_ns = own.spread_ns * models.problem.calibration.exposed.parameter
        yield Redistribution(
            tensor=UNNAMED, op=None, traffic="parameter", per_step=steps,
            ns=own.spread_ns, counted_ns=counted_ns,
        )  # fmt: skip


def _served(
    models: Models, value: Value, own: ParameterItems, target: int, order: tuple[int, ...]
) -> Iterator[Redistribution]:
    """Gathers for one target, and reductions of its gradient."""
    model, row = models.parameter(value), np.array([own.codes])
    needed = np.array([own.targets[target]])
    exposed = models.problem.calibration.exposed
    gather = _parameter_path(
        models, value, model.value_moves, model.value(row), model.read_value(needed), order
    )
    if gather:
        ns = own.gathers_ns[target]
        yield Redistribution(
            tensor=UNNAMED, op=None, traffic="parameter", forward=gather,
            again=model.trained, ns=ns, counted_ns=ns * exposed.parameter,
        )  # fmt: skip
    if not model.trained:
        return
    if own.rows is not None:
        yield from _gathered_rows(models, value, own.rows, own.codes, order)
        return
    moves, paths = model.gradient_moves, model.reduction_paths(row, needed)
    often, once = (_steps(models, value, moves, path, order) for path in paths)
    if often or once:
        ns = own.reductions_ns[target]
        yield Redistribution(
            tensor=UNNAMED, op=None, traffic="gradient", backward=often, per_step=once,
            ns=ns, counted_ns=ns * exposed.gradient,
        )  # fmt: skip


def _gathered_rows(
    models: Models, value: Value, own: Gathered, codes: Codes, order: tuple[int, ...]
) -> Iterator[Redistribution]:
    """The reduction of a sparse gradient, once a step."""
    if not own.axes:
        return
    made_bytes = own.made_bytes * models.problem.microbatches
    step = Step(
        kind="sparse_all_reduce",
        axes=tuple(models.mesh.names[axis] for axis in own.axes),
        payload_bytes=round(own.payload_bytes),
        peak_bytes=round(own.payload_bytes + made_bytes),
        ns=own.ns,
        to=parameter_layouts(models, value, codes, order)[0],
    )
    counted_ns = own.ns * models.problem.calibration.exposed.gradient
    yield Redistribution(
        tensor=UNNAMED, op=None, traffic="gradient", per_step=(step,),
        ns=own.ns, counted_ns=counted_ns,
    )  # fmt: skip


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
