"""The planner: from a request to a plan.

Every mesh of the topology (`solver.meshes`) is lowered and solved exactly; the best plan wins. The
lower bound of the answer is the least of the bounds over all meshes, so that it holds for every
plan on any of them with the same number of microbatches. Where the setup leaves that number open it
doubles until a plan fits. An answer without a plan names the constraint that no plan can keep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, nan, prod

from costmodel.calibrations import default_calibration
from meshwright.schema import (
    DTYPE_BYTES,
    Answer,
    Infeasible,
    InvalidInput,
    Mesh,
    Plan,
    Progress,
    Request,
    Search,
    TooLarge,
)
from solver.dynamic_programming import dynamic_programming
from solver.elimination.eliminator import TableTooLarge
from solver.evaluate import cost_of, ledger_of
from solver.folding import Folding, fold
from solver.lowering import Models, lower
from solver.meshes import meshes
from solver.notes import UNEVEN_WOULD_DO, idle_axes, repeated_work
from solver.outcome import Budget, Outcome
from solver.pins import Allowed, allowed_strategies, check_axes, matching_pins, pinned_ops
from solver.plan_document import stage_document
from solver.problem import Problem, build_problem, step_batch, with_gradient
from solver.states import IntArray
from solver.uneven import Uneven
from solver.unfolding import NotAlikeError, Unfolding
from solver.values import find_values

Report = Callable[[Progress], None]

# chosen: a gap below what any cost model can tell apart; the search stops there
TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class MeshOutcome:
    """What the search found and proved on one mesh."""

    mesh: Mesh
    outcome: Outcome
    models: Models
    unfolding: Unfolding | None = None
    choice: IntArray | None = None
    broken_pin: str | None = None  # the op that can keep its pin in no way
    is_too_large: bool = False  # its tables would not fit: nothing is known of it


_IMPOSSIBLE = Outcome("infeasible", None, inf, nan, inf, None)
_NOT_SEARCHED = Outcome("unknown", None, inf, nan, -inf, None)


def check(request: Request) -> None:
    """Raise what `plan` would raise for bad input, without searching: seconds become milliseconds.

    Rules are bound to the shapes of the first number of microbatches, and pins to their ops.
    """
    calibration = request.calibration or default_calibration()
    count = _microbatch_counts(request)[0]
    problem = build_problem(request.graph, request.topology, request.setup, calibration, count)
    candidates = meshes(request.topology, request.budget.max_axes)
    pins = pinned_ops(problem, request.pins, find_values(problem).views)
    check_axes(list(pins.values()), candidates)


def plan(request: Request, report: Report | None = None) -> Answer:
    """The best plan for a request, or why there is none; raises MeshwrightError for bad input."""
    say = report or (lambda _: None)
    say(Progress(phase="reading", done=0, total=1))
    seconds = request.budget.seconds
    deadline = None if seconds is None else time.monotonic() + seconds
    answer = Answer(infeasible=_states_alone(request))
    if answer.infeasible is not None:
        return answer
    folding = fold(request.graph, matching_pins(request.graph, request.pins))
    for count in _microbatch_counts(request):
        try:
            outcomes = _search_what_fits(request, folding, count, deadline, say)
        except NotAlikeError:
            folding = Folding(request.graph, ())
            outcomes = _search_what_fits(request, folding, count, deadline, say)
        except InvalidInput:
            if count == 1 or request.setup.microbatches is not None:
                check(request)  # says it of the graph as it was given
                raise
            break  # the graph cannot be run at so small a batch
        answer = _answer(request, outcomes)
        if answer.infeasible is None or answer.infeasible.constraint != "memory":
            break
    return answer


def _states_alone(request: Request) -> Infeasible | None:
    """Refuse at once what no sharding and no batch can make fit: a bound on every plan's memory."""
    graph, setup, topology = request.graph, request.setup, request.topology
    shapes = graph.instantiate(setup.symbols)
    training = setup.phase == "training"
    trained = with_gradient(graph, graph.topological_order()) if training else frozenset()
    read = {name for op in graph.ops for name in op.inputs}
    per_element = setup.optimizer.states * DTYPE_BYTES[setup.optimizer.state_dtype]
    per_element += DTYPE_BYTES[setup.gradient_dtype]
    total = 0
    for tensor in graph.tensors:
        if tensor.role == "parameter" and tensor.name in read:
            states = per_element if tensor.name in trained else 0
            total += prod(shapes[tensor.name]) * (DTYPE_BYTES[tensor.dtype] + states)
    needed = total // topology.device_count
    available = int(topology.device.memory_bytes * (1 - setup.memory_reserve))
    if needed <= available:
        return None
    return Infeasible(
        constraint="memory",
        detail=(
            f"parameters, gradients and optimizer state alone need {needed / 2**30:.1f} GiB on a "
            f"device even when split over all {topology.device_count} devices; "
            f"{topology.device.name} has {available / 2**30:.1f} GiB after the reserve. "
            f"At least {-(-total // available)} devices, a smaller model or narrower states would "
            "do."
        ),
        needed_bytes=needed,
        available_bytes=available,
    )


def _microbatch_counts(request: Request) -> list[int]:
    """The setup's own number, or 1, 2, 4, ... while the batch divides."""
    setup = request.setup
    if setup.microbatches is not None:
        return [setup.microbatches]
    batch = step_batch(request.graph, setup) or 1
    counts = [1]
    while batch % (2 * counts[-1]) == 0:
        counts.append(2 * counts[-1])
    return counts


def _search_what_fits(
    request: Request, folding: Folding, count: int, deadline: float | None, say: Report
) -> list[MeshOutcome]:
    """Search meshes of fewer axes where the tables of all finer ones would be too large."""
    calibration = request.calibration or default_calibration()
    problem = build_problem(folding.graph, request.topology, request.setup, calibration, count)
    search = _MeshSearch(request, folding, problem, deadline, say)
    searched: tuple[Mesh, ...] = ()
    for axes in range(request.budget.max_axes, 0, -1):
        candidates = meshes(request.topology, axes)
        if candidates == searched:
            continue
        searched = candidates
        outcomes = search.run(candidates)
        if any(not outcome.is_too_large for outcome in outcomes):
            return outcomes
    raise TooLarge(
        "the ops of this graph are too entangled for an exact search on any mesh of this topology; "
        "pins on some of them make it smaller",
        pointer="/graph",
    )


class _MeshSearch:
    """One problem, searched mesh by mesh."""

    def __init__(
        self,
        request: Request,
        folding: Folding,
        problem: Problem,
        deadline: float | None,
        say: Report,
    ) -> None:
        self.folding = folding
        self.problem = problem
        self.values = find_values(problem)
        self.pins = pinned_ops(problem, request.pins, self.values.views)
        check_axes(list(self.pins.values()), meshes(request.topology, request.budget.max_axes))
        self.deadline = deadline
        self.say = say

    def run(self, candidates: Sequence[Mesh]) -> list[MeshOutcome]:
        outcomes: list[MeshOutcome] = []
        spaces = [(mesh, own) for mesh in candidates for own in _spaces(self.problem, mesh)]
        for done, (mesh, problem) in enumerate(spaces):
            best = min((o.outcome.cost_ns for o in outcomes), default=inf)
            phase = f"{_shown(mesh)}, {self.problem.microbatches} microbatch(es)"
            incumbent = best if best < inf else None
            self.say(Progress(phase=phase, done=done, total=len(spaces), incumbent_ns=incumbent))
            left = None
            if self.deadline is not None:
                left = max(0.0, self.deadline - time.monotonic()) / (len(spaces) - done)
            budget = Budget(seconds=left, tolerance=TOLERANCE, cutoff_ns=best)
            outcomes.append(self._on(mesh, problem, budget))
        self.say(Progress(phase="done", done=len(spaces), total=len(spaces)))
        return outcomes

    def _on(self, mesh: Mesh, problem: Problem, budget: Budget) -> MeshOutcome:
        limit = problem.topology.device.memory_bytes * (1 - problem.setup.memory_reserve)
        models = Models(problem, self.values, mesh)
        allowed: dict[int, Allowed] = {
            position: allowed_strategies(pin, problem.ops[position], mesh)
            for position, pin in self.pins.items()
        }
        broken = _broken_pin(models, allowed)
        if broken is not None:
            return MeshOutcome(mesh, _IMPOSSIBLE, models, broken_pin=broken)
        unfolding = Unfolding(self.folding, lower(models, allowed, limit))
        try:
            found = dynamic_programming(unfolding.graph, budget)
        except TableTooLarge:
            return MeshOutcome(mesh, _NOT_SEARCHED, models, is_too_large=True)
        return MeshOutcome(mesh, found, models, unfolding, found.choice)


def _spaces(problem: Problem, mesh: Mesh) -> Iterator[Problem]:
    """The problem without spans and, where there are any, with: either can be the faster."""
    yield replace(problem, uneven=Uneven())
    if problem.uneven.has_spans(tuple(axis.size for axis in mesh.axes)):
        yield problem


def _broken_pin(models: Models, allowed: dict[int, Allowed]) -> str | None:
    for position, keep in allowed.items():
        model = models.ops.model(position)
        if not keep(model, model.choices).any():
            return models.problem.ops[position].name
    return None


def _answer(request: Request, outcomes: Sequence[MeshOutcome]) -> Answer:
    solved = [o for o in outcomes if o.choice is not None]
    if not solved:
        return Answer(infeasible=_infeasible(outcomes))
    return Answer(plan=_plan(request, outcomes, min(solved, key=lambda o: o.outcome.cost_ns)))


def _plan(request: Request, outcomes: Sequence[MeshOutcome], best: MeshOutcome) -> Plan:
    assert best.unfolding is not None
    assert best.choice is not None
    models, unfolding = best.models, best.unfolding
    problem = models.problem
    portions = unfolding.portions(best.choice)
    ledgers = [ledger_of(models, portion.assignment, portion.share) for portion in portions]
    times = [len(portion.copies) for portion in portions]
    cost = cost_of(models, zip(ledgers, times, strict=True))
    chosen = [
        (position, portion.assignment.ops[position], len(portion.copies))
        for portion in portions
        for position in portion.share.ops
    ]
    stages = [
        stage_document(models, portion.assignment, ledger, portion.share)
        for portion, ledger in zip(portions, ledgers, strict=True)
    ]
    searched = [outcome for outcome in outcomes if not outcome.is_too_large]
    bound = min(
        cost.step_ns,
        *(o.outcome.lower_bound_ns for o in searched if o.outcome.status != "infeasible"),
    )
    gap = (cost.step_ns - bound) / cost.step_ns if cost.step_ns else 0.0
    return Plan(
        name=request.graph.name,
        graph=request.graph.id,
        topology=request.topology.id,
        setup=request.setup.id,
        calibration=problem.calibration.id,
        microbatches=problem.microbatches,
        stages=(unfolding.stage(portions, stages),),
        cost=cost,
        search=Search(
            solver=request.solver,
            found_by="dynamic_programming",
            outcome="optimal" if gap <= TOLERANCE * (1 + 1e-9) else "feasible",
            cost_ns=cost.step_ns,
            lower_bound_ns=bound,
            gap=gap,
            meshes=tuple(dict.fromkeys(_shown(o.mesh) for o in searched)),
        ),
        repeated_work=repeated_work(models, chosen),
        unknown_kinds=tuple(sorted({op.op.kind for op in problem.ops if op.known is None})),
        pins=tuple(pin.model_dump(mode="json") for pin in request.pins),
        padding=unfolding.paddings(portions, stages),
        notes=(
            *idle_axes(models, chosen),
            *(
                f"mesh {_shown(o.mesh)}{_with_chunks(o)} was not searched: its tables would be too "
                "large"
                for o in outcomes
                if o.is_too_large
            ),
            *request.graph.notes,
        ),
    )


def _with_chunks(searched: MeshOutcome) -> str:
    return "" if searched.models.problem.uneven.mode == "refuse" else " with uneven chunks"


def _infeasible(outcomes: Sequence[MeshOutcome]) -> Infeasible:
    problem = outcomes[0].models.problem
    capacity = problem.topology.device.memory_bytes
    available = int(capacity * (1 - problem.setup.memory_reserve))
    least = [
        o.outcome.minimum_memory_bytes
        for o in outcomes
        if o.outcome.minimum_memory_bytes is not None
    ]
    if any(o.outcome.status == "unknown" for o in outcomes):
        return Infeasible(
            constraint="time",
            detail="the time budget ended before any plan that fits was found; give more seconds",
            needed_bytes=int(min(least)) if least else None,
            available_bytes=available if least else None,
        )
    if not least:
        broken = [o.broken_pin for o in outcomes if o.broken_pin is not None]
        tried = "; ".join(dict.fromkeys(_shown(o.mesh) for o in outcomes))
        return Infeasible(
            constraint="pins",
            detail=f"op {broken[0]!r} can keep its pin on none of the meshes "
            f"({tried}): the sizes of its factors do not "
            "divide by the axes, or what it reads or makes cannot be split so"
            + ("; " + UNEVEN_WOULD_DO if problem.setup.uneven == "refuse" else "")
            if len(broken) == len(outcomes)
            else "no plan keeps all pins: two of them contradict each other",
        )
    needed = int(min(least))
    return Infeasible(
        constraint="memory",
        detail=(
            f"every plan needs at least {needed / 2**30:.1f} GiB on a device "
            f"({problem.topology.device.name} has {capacity / 2**30:.1f} GiB, of which "
            f"{problem.setup.memory_reserve:.0%} are kept free: {available / 2**30:.1f} GiB); "
            f"{needed / available:.2f} times what there is, with {problem.microbatches} "
            "microbatch(es). More microbatches, a smaller batch, a shorter sequence or more "
            "devices would do."
        ),
        needed_bytes=needed,
        available_bytes=available,
    )


def _shown(mesh: Mesh) -> str:
    return " × ".join(f"{axis.name} {axis.size}" for axis in mesh.axes)
