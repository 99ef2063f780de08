"""What can be sharded is a fixed point: no op and no value has anything left to give up."""

from __future__ import annotations

import pytest

from bench.planning import GRAPHS
from bench.series_parallel import series_parallel
from meshwright.common.files import read_document
from meshwright.schema import Graph, Setup
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.problem.problem import Problem, build_problem
from meshwright_solver.problem.values import ProblemValue, Values, find_values

NAMES = ("bert-large", "mixtral-8x7b", "resnet50", "unet3d", "wide-deep")


def problem_of(graph: Graph) -> Problem:
    return build_problem(graph, preset("h100-2x8"), Setup(), default_calibration())


def graphs() -> list[Graph]:
    own = [read_document(GRAPHS / f"{name}.json.gz", Graph) for name in NAMES]
    return [*own, *(series_parallel(120, seed=seed) for seed in range(3))]


def root_slots(values: Values, position: int, port) -> dict[int, int]:
    """Part -> slot of the root, for the shardable parts of an op."""
    mapping = values.value_of[port.tensor].slot_of[port.tensor]
    return {
        part: mapping[slot]
        for part, slot in port.slot_of.items()
        if part in values.shardable[position]
    }


def offered(values: Values, found: Problem, value: ProblemValue) -> tuple[set[int], set[int]]:
    """Slots that readers can shard, and that the producer can."""
    read = {
        slot
        for position, k in value.readers
        for slot in root_slots(values, position, found.ops[position].inputs[k]).values()
    }
    if value.producer is None:
        return read, read
    position, k = value.producer
    made = root_slots(values, position, found.ops[position].outputs[k])
    return read, set(made.values())


@pytest.mark.parametrize("graph", graphs(), ids=lambda graph: graph.name)
def test_values_keep_what_both_sides_can_shard_and_ops_what_their_values_can(graph):
    found = problem_of(graph)
    values = find_values(found)
    for value in values.values:
        slots = found.tensors[value.root].slots
        read, made = offered(values, found, value)
        for d in {slot.dim for slot in slots}:
            here = {k for k, slot in enumerate(slots) if slot.dim == d}
            wanted = (here & read & made) or (here & (read | made))
            assert wanted <= set(value.slots)
            if not value.is_parameter:  # one may rest on its largest slot too
                assert wanted == here & set(value.slots)
    for position, op in enumerate(found.ops):
        for port in (*op.inputs, *op.outputs):
            value = values.value_of[port.tensor]
            own = root_slots(values, position, port).values()
            assert value.is_free or set(own) <= set(value.slots)
