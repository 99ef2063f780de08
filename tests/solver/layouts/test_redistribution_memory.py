"""What ways of several steps hold, by hand and against every step of random plans."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from meshwright.schema.collective_step import CollectiveKind
from meshwright_solver.evaluation.accounting.assignment_of_plan import assignment_of_stage
from meshwright_solver.evaluation.accounting.ledger import ledger_of
from meshwright_solver.evaluation.memory.stage_memory import stage_moments
from meshwright_solver.layouts.redistribution import LayoutStep, Path, Placed
from meshwright_solver.layouts.redistribution_memory import between_bytes
from tests.solver.random_problems import Case, cases, plan_of, random_choice
from tests.solver.simulation.test_step import has_dead_ends


def way(*steps: tuple[CollectiveKind, int, int]) -> Path:
    """Of layouts whose code is their size."""
    return tuple(
        LayoutStep(kind, (), Placed((before,), (0,)), Placed((after,), (0,)), 0.0, 0.0)
        for kind, before, after in steps
    )


def size(codes: tuple[int, ...]) -> int:
    return codes[0]


def test_what_a_way_makes_on_the_way() -> None:
    """One step makes what it ends with. Gathered to 8 and cut to 2: 8 beside the 2 that are
    counted. Gathered to 4, then to 16: 4 beside. Summed in place: no second 8, cut to 2 then."""
    assert between_bytes((), size) == 0
    assert between_bytes(way(("all_gather", 1, 8)), size) == 0
    assert between_bytes(way(("all_gather", 1, 8), ("slice", 8, 2)), size) == 8
    assert between_bytes(way(("all_gather", 1, 4), ("all_gather", 4, 16)), size) == 4
    summed = way(("all_to_all", 8, 8), ("all_reduce", 8, 8), ("slice", 8, 2))
    assert between_bytes(summed, size) == 8


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 2**16))
def test_no_step_takes_more_than_the_fullest_moment(case: Case, seed: int) -> None:
    """Input and output of every step, as the plan says, are there at one moment of its pass; of a
    parameter the input rests there."""
    choice = random_choice(case.lowered.graph, seed)
    assume(choice is not None and not has_dead_ends(case))
    assert choice is not None
    plan, problem = plan_of(case, choice), case.models.problem
    assignment = assignment_of_stage(case.models, plan.stages[0])
    moments = stage_moments(case.models, assignment, ledger_of(case.models, assignment))
    memory = plan.cost.memory_bytes
    for moved in plan.stages[0].redistributions:
        if moved.traffic == "activation":
            is_parameter = problem.tensors[moved.tensor].tensor.role == "parameter"
            resting = memory.parameters + memory.gradients if is_parameter else 0
            ways = (moved.forward, moved.backward)
            for own, steps in zip(moments.passes, ways, strict=False):
                for step in steps:
                    assert step.peak_bytes <= own.total + resting
