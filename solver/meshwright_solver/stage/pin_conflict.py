"""Pins that contradict each other, found by QuickXplain on the whole cost graph."""

from __future__ import annotations

from meshwright.schema import Mesh
from meshwright_solver.common.arrays import BoolArray
from meshwright_solver.common.deadline import OutOfTime
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.lowering.lower import lower
from meshwright_solver.search.infeasible_subset import Restriction, explain_infeasible
from meshwright_solver.stage.mesh_space import MeshSpaces


def conflicting_pins(spaces: MeshSpaces, mesh: Mesh) -> tuple[str, ...]:
    """A smallest set of pins that no plan on the mesh satisfies within the memory limit.

    Empty if time runs out, or if no pin is the reason.
    """
    space = spaces.on(mesh, spaces.problem)
    models, filters = space.models, space.filters
    try:
        lowered = lower(models, filters.allowed, models.problem.memory_limit_bytes)
    except OutOfTime:
        return ()
    unfolding = Unfolding(spaces.folding, lowered)
    masks: dict[str, dict[int, BoolArray]] = {}
    for position, pin in spaces.pins.items():
        model = models.ops.model(position)
        is_kept = filters.pinned[position](model, model.choices)
        mask = masks.setdefault(str(pin), {})
        nodes = unfolding.places(unfolding.lowered.op_node[position])
        mask.update(dict.fromkeys(nodes.tolist(), is_kept))
    deadline = spaces.deadline
    explanation = explain_infeasible(
        unfolding.graph,
        [Restriction(pin, mask) for pin, mask in masks.items()],
        seconds=deadline.left_s(),
        stop=deadline.stop,
    )
    if explanation is None or explanation.constraint != "restrictions":
        return ()
    return explanation.names
