"""Stated outputs: the layouts that dim pins state for outputs after the reduction of partial sums.

A pin of all inputs and of an output states the output as its readers get it, as MindSpore's
`shard(in_strategy, out_strategy)` does. A pin of outputs alone means them as the op makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from meshwright.schema import Mesh, Pin, RequestError
from meshwright.schema.dim_cuts import Cut, Cuts
from meshwright_solver.constraints.port_dims import named_axes, parts_of_dims
from meshwright_solver.layouts.stated_layout import StatedLayout
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import Values


def states_all_inputs(pin: Pin) -> bool:
    """Whether a pin leaves no input open, so that it determines its outputs."""
    return pin.inputs is not None and all(cuts is not None for cuts in pin.inputs)


def stated_outputs(
    problem: Problem, op: OpInfo, pin: Pin, *, values: Values, mesh: Mesh
) -> dict[int, StatedLayout]:
    """The stated layouts of an op's outputs on a mesh, by output; none where an input is open."""
    if not states_all_inputs(pin):
        return {}
    sizes = tuple(axis.size for axis in mesh.axes)
    stated = {}
    for k, cuts in enumerate(pin.outputs or ()):
        value = values.value_of[op.outputs[k].tensor]
        if cuts is None or value.is_free:
            continue
        slots = problem.tensors[value.root].slots
        stated[k] = StatedLayout(
            len(value.slots),
            sizes,
            tuple(
                tuple(place for place, slot in enumerate(value.slots) if slots[slot].dim == d)
                for d in range(len(cuts))
            ),
            tuple(cut if isinstance(cut, int) else named_axes(mesh, cut) for cut in cuts),
        )
    return stated


def check_scatter(problem: Problem, op: OpInfo, output: int, *, cuts: Cuts, pin: Pin) -> None:
    """Raise RequestError for numbers of parts that no reduction of partial sums gives."""
    where = f"pin {pin.op!r}: output {output} of op {op.name!r}"
    cut_of_parts = _input_cuts(problem, op, pin)
    parts_of = parts_of_dims(problem, op.outputs[output])
    kept = set().union(*parts_of.values())
    summed = {parts: cut for parts, cut in cut_of_parts.items() if parts.isdisjoint(kept)}
    scattered = 1
    for d, cut in enumerate(cuts):
        made = _made(parts_of[d], cut_of_parts)
        if made is None or not isinstance(cut, int):
            return  # named axes are compared on a mesh
        if cut % made:
            raise RequestError(
                f"{where} cuts dim {d} into {cut} parts, and the inputs cut it into {made} "
                f"({op.notation}). An output keeps the cuts of its inputs, and a reduce-scatter "
                f"multiplies them. Use a multiple of {made}"
            )
        scattered *= cut // made
    ways = _product(summed.values())
    if ways is not None and ways % scattered:
        cause = (
            f"there are partial sums of {ways} devices only"
            if ways > 1
            else "the inputs cut no factor that the op sums, so there are no partial sums"
        )
        raise RequestError(
            f"{where} has {scattered} times as many parts as the op makes, and {cause} "
            f"({op.notation}). Cut the summed dim of the inputs into {scattered} parts, or state "
            "the output as the op makes it"
        )


def _input_cuts(problem: Problem, op: OpInfo, pin: Pin) -> Mapping[frozenset[int], Cut]:
    """The cut of every dim of the inputs that has parts, by its parts."""
    cuts: dict[frozenset[int], Cut] = {}
    for port, port_cuts in zip(op.inputs, pin.inputs or (), strict=True):
        parts_of = parts_of_dims(problem, port)
        for d, cut in enumerate(port_cuts or ()):
            if parts_of[d]:
                cuts.setdefault(frozenset(parts_of[d]), cut)
    return cuts


def _made(parts: set[int], cut_of_parts: Mapping[frozenset[int], Cut]) -> int | None:
    """The number of parts in which the op makes a dim; None where the pin does not tell."""
    inside = {some: cut for some, cut in cut_of_parts.items() if some <= parts}
    if set().union(*inside) != parts or sum(map(len, inside)) != len(parts):
        return None
    return _product(inside.values())


def _product(cuts: Iterable[Cut]) -> int | None:
    """The product of numbers of parts; None where one of them names axes."""
    numbers = [cut if isinstance(cut, int) else 0 for cut in cuts]
    return prod(numbers) or None
