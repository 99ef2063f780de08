"""A plan's step, simulated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from meshwright.schedules.kinds import one_f_one_b
from meshwright.schedules.schedule import Pass, ScheduleTable, stages_on
from meshwright.schema import Calibration, Graph, Plan, PlanError, Setup, Stage, Topology
from meshwright_costmodel.calibrations import calibration_of
from meshwright_solver.evaluation.evaluate import check_documents, check_mesh
from meshwright_solver.evaluation.sequence_order import check_order, order_checked
from meshwright_solver.pipeline.pipeline_cost import tied_ns
from meshwright_solver.pipeline.rank_placement import group_of
from meshwright_solver.pipeline.stage_problems import Staged
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.simulation.events import TaskTimes, run
from meshwright_solver.simulation.half_batches import in_halves
from meshwright_solver.simulation.memory import Curve, curve_of
from meshwright_solver.simulation.stage_parts import StageParts
from meshwright_solver.simulation.stage_tasks import script_of
from meshwright_solver.simulation.stalls import Stalls, Waits, intervals_of, waits_of
from meshwright_solver.simulation.task_program import TaskProgram
from meshwright_solver.simulation.tasks import SectionKind
from meshwright_solver.strategies.parameter_owners import stage_extra_bytes


@dataclass(frozen=True)
class SimulatedStep:
    """One simulated step of a plan. levels: by rank, the topology levels of its devices."""

    plan: Plan
    program: TaskProgram
    levels: tuple[tuple[str, ...], ...]

    @cached_property
    def run(self) -> TaskTimes:
        return run(self.program.lines)

    @cached_property
    def waits(self) -> Stalls:
        return waits_of(self.program, self.run)

    @cached_property
    def idle(self) -> Waits:
        """The waits as intervals."""
        return intervals_of(self.program, self.run)

    def curve(self, rank: int) -> Curve:
        """Transient memory of a rank's fullest device over time."""
        return curve_of(self.program, self.run, rank)

    def static_bytes(self, rank: int) -> int:
        """Static memory of a rank's fullest device."""
        stages = stages_on(self.program.schedule.rank_of, rank)
        resting = sum(
            parameter.value_bytes + parameter.gradient_bytes + parameter.optimizer_bytes
            for stage in stages
            for parameter in self.plan.stages[stage].parameters
        )
        resting += sum(stage_extra_bytes(self.plan.stages[stage]) for stage in stages)
        return resting + self.buffers_bytes(rank)

    def buffers_bytes(self, rank: int) -> int:
        """Transfer buffers of a rank's fullest device."""
        stages = stages_on(self.program.schedule.rank_of, rank)
        return sum(self.program.scripts[stage][SectionKind.F].buffers_bytes for stage in stages)

    @property
    def ns(self) -> float:
        """Step time: from the start of the first task to the end of the last."""
        return float(self.run.ends.max(initial=0.0))


def step_of(
    plan: Plan,
    graph: Graph,
    topology: Topology,
    setup: Setup,
    calibration: Calibration | None = None,
) -> SimulatedStep:
    """Simulate a plan's step. Raises PlanError where the plan does not fit the documents."""
    calibration = calibration_of(plan, calibration)
    check_documents(plan, graph.id, topology.id, setup.id)
    if plan.calibration != calibration.id:
        raise PlanError(f"the plan was priced with {plan.calibration}, not with {calibration.id}")
    if plan.schedule is not None:
        staged = Staged.of_plan(plan, graph, topology, setup, calibration)
        parts = [part.topology for part in staged.parts]
        order_checked(plan, graph, topology, setup, calibration)
        program = _pipeline(plan, staged)
    else:
        parts = [group_of(plan, topology)]
        program = _one_stage(plan, graph, parts[0], setup, calibration)
    levels = (tuple(level.name for level in part.levels) for part in parts)
    return SimulatedStep(plan, program, tuple(levels))


def _one_stage(
    plan: Plan, graph: Graph, topology: Topology, setup: Setup, calibration: Calibration
) -> TaskProgram:
    if len(plan.stages) != 1:
        raise PlanError("the plan has several stages and no schedule")
    problem = build_problem(
        graph, topology, setup, calibration, plan.microbatches, copies=plan.copies
    )
    check_mesh(problem, plan.stages[0].mesh)
    check_order(plan, problem)
    parts = StageParts.of(problem, plan.stages[0], {}, {})
    table = one_f_one_b(1, problem.rounds)
    if not problem.training:
        rows = table.of_ranks[0]
        table = ScheduleTable("forward", problem.rounds, (0,), (rows[rows[:, 1] == Pass.F],))
    script = script_of(parts, split=False)
    if problem.copies > 1:
        script = in_halves(parts, script)
    return TaskProgram(table, (script,), len(topology.levels))


def _pipeline(plan: Plan, staged: Staged) -> TaskProgram:
    stages = plan.stages
    ways = [_ways(stage) for stage in stages]
    tied = tied_ns(staged, stages)
    scripts = []
    for number, stage in enumerate(stages):
        problem = staged.problem(number)
        check_mesh(problem, stage.mesh)
        sends = ways[number + 1] if number + 1 < len(stages) else {}
        parts = StageParts.of(problem, stage, sends, ways[number])
        scripts.append(script_of(parts, split=staged.schedule.is_split, tied_ns=tied[number]))
    levels = max(len(part.topology.levels) for part in staged.parts)
    return TaskProgram(staged.schedule, tuple(scripts), levels)


def _ways(stage: Stage) -> dict[str, tuple[float, float]]:
    """By tensor: its transfer time from the previous stage and that of its gradient, ns."""
    return {
        transfer.tensor: (transfer.forward_ns, transfer.backward_ns) for transfer in stage.receives
    }
