"""Experts get the slots that the busiest one needs, or dropped tokens are counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from meshwright.capture.interpreter import KERNELS
from meshwright.runtime.expert_slots import mixtures_of
from meshwright.runtime.program import StageProgram
from meshwright.runtime.ranks import rank_strategy
from meshwright.runtime.torch.collective_log import Record
from meshwright.runtime.torch.collectives import TorchCollectives
from meshwright.runtime.torch.expert_slots import ExpertSlots
from meshwright.schema import Degrees, Setup
from meshwright.schema.rank_strategy import RankStrategy
from meshwright.stages.planned_stage import PlannedStage
from meshwright_solver.planning.planner import plan
from tests.runtime.models import mixtral_graph
from tests.solver.requests import toy_request
from tests.solver.small_graphs import topology

ROWS = 4
EXPERTS = "model.layers.0.mlp.experts"


def planned(sizes: tuple[int, ...], degrees: Degrees) -> tuple[RankStrategy, StageProgram]:
    """The strategy and the program of rank 0 for the mixture: 4 slots of 4 experts a sequence."""
    graph, setup = mixtral_graph(ROWS), Setup(global_batch=ROWS)
    request = toy_request(graph=graph, topology=topology(*sizes), setup=setup, degrees=degrees)
    answer = plan(request).plan
    assert answer is not None
    strategy = rank_strategy(answer, graph, setup, 0, request.topology)
    stage = PlannedStage(graph, strategy.stages[0].planned, strategy.symbols)
    return strategy, StageProgram(stage, KERNELS)


def test_more_slots_are_a_longer_dim_of_all_layouts_between_dispatch_and_combine() -> None:
    _, program = planned((2, 2), Degrees(dp=4, ep=4))
    mixture = mixtures_of(program, ())[f"{EXPERTS}.moe_dispatch"]
    assert (mixture.slots, mixture.multiple, mixture.fixed) == (4, 1, "")
    # the all-to-all from sequences to experts and back, over both axes
    assert mixture.axes == program.planned.mesh.names
    ops = mixture.with_slots(mixture.least_slots(7))
    assert ops[f"{EXPERTS}.moe_dispatch"].shapes == ((4, 1, 7, 32),)
    assert ops[f"{EXPERTS}.expert_matmul"].shapes == ((1, 4, 7, 96),)
    combine = ops[f"{EXPERTS}.moe_combine"]
    assert combine.whole_shapes[0] == (4, 4, 7, 32)
    move = combine.inputs[0].own.forward
    assert (move.before.shape, move.after.shape) == ((4, 4, 7, 32), (4, 4, 7, 32))
    assert [step.to.shape for step in move.steps] == [(4, 4, 7, 32)] * len(move.steps)
    assert combine.shapes == program.ops[program.ops.index(mixture.ops[-1])].shapes


@pytest.mark.parametrize("seed", range(5))
def test_slots_are_those_of_the_busiest_expert(seed: int) -> None:
    strategy, program = planned((1,), Degrees())
    record = Record()
    slots = ExpertSlots(mixtures_of(program, ()), TorchCollectives(strategy.stages[0], {}, record))
    name = f"{EXPERTS}.moe_dispatch"
    dispatch = next(op for op in program.ops if op.op.name == name)
    random = torch.Generator().manual_seed(seed)
    # from an even split to all tokens at one expert
    index = (torch.rand(ROWS, 8, 2, generator=random) * (4 - seed * 0.75)).long()
    most = max(int((row == expert).sum()) for row in index for expert in range(4))
    ops = slots.ops(dispatch, index)
    assert record.expert_slots[name] == max(4, most)
    assert ops[name].shapes[0][2] == most if most > 4 else not ops


def test_tokens_that_a_fixed_number_of_slots_drops_are_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    strategy, program = planned((1,), Degrees())
    record = Record()
    # as if the next stage had the second product
    mixtures = mixtures_of(program, (f"{EXPERTS}.expert_matmul",))
    slots = ExpertSlots(mixtures, TorchCollectives(strategy.stages[0], {}, record))
    name = f"{EXPERTS}.moe_dispatch"
    dispatch = next(op for op in program.ops if op.op.name == name)
    for _ in range(2):
        # expert 0 gets 16 choices of every sequence and has slots for 4
        assert not slots.ops(dispatch, torch.zeros(ROWS, 8, 2, dtype=torch.long))
    assert record.dropped_tokens == {name: 2 * ROWS * 12}
    (message,) = [entry.getMessage() for entry in caplog.records]
    assert message.startswith(f"op {name!r} drops 48 tokens, which the captured module does not")


def test_a_fixed_capacity_stays_fixed() -> None:
    _, program = planned((1,), Degrees())
    assert mixtures_of(program, ())
    program.ops = tuple(
        replace(each, op=each.op.model_copy(update={"attrs": {"capacity_factor": 1.25}}))
        if each.op.kind == "moe_dispatch"
        else each
        for each in program.ops
    )
    assert not mixtures_of(program, ())
