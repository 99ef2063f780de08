"""Plans of one stage: of a whole graph, or of what one pipeline rank runs of it.

Every mesh of the topology (`solver.meshes`) is searched (`solver.mesh_search`); the best plan wins.
The lower bound of the answer is the least of the bounds over all meshes, so that it holds for every
plan on any of them with the same number of microbatches and the same recompute policy. Where the
setup leaves the number open it doubles until a plan fits; where the request leaves the policy open
(`auto`) others are tried once memory is short, and the fastest step wins. An answer without a plan
names the constraint that no plan can keep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod

from costmodel.calibrations import calibration_for
from meshwright.schema import (
    DTYPE_BYTES,
    Answer,
    Graph,
    Infeasible,
    InvalidInput,
    Link,
    Mesh,
    Progress,
    RecomputePolicy,
    Request,
    TooLarge,
    step_batch,
)
from meshwright.schema.collector import uncollected
from solver.answer import Missed, Write, answer_of, answer_so_far, plan_of
from solver.constraints import filters
from solver.deadline import Deadline, Stop, never
from solver.folded_plan import FoldedPlan
from solver.folding import Folding
from solver.inference import for_inference
from solver.keeping import Best, Keep, unwanted
from solver.known_foldings import Foldings
from solver.mesh_outcome import TOLERANCE, TOO_LARGE, History, MeshOutcome
from solver.mesh_search import Floors, MeshSearch
from solver.meshes import meshes_of
from solver.outcome import MOST_LABELS
from solver.pins import check_axes, matching_pins, pinned_ops
from solver.priced_plans import plans_along_prices
from solver.problem import FLOATS, Problem, build_problem, with_gradient
from solver.recompute import remade
from solver.recompute.ladder import descend, ladder
from solver.recompute.tries import FULL, POLICIES, Tries
from solver.remade import NOTHING, Remade
from solver.sparse_tables import sparse_lookups
from solver.unrolling import NotAlikeError
from solver.values import Values, find_values
from solver.within_memory import Room, plan_within_memory

Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stage stands in a pipeline.

    in_flight: of so many microbatches it holds saved activations; no whole number where other bytes
    stand for some of them. link: to its neighbours. sent: what goes to the next and has a gradient
    that comes back. tolerance: the gap at which the search for its plan ends. spare_bytes: what is
    left at first for what passes by. max_labels: of the last stage of a search (`Budget`). meshes:
    those to search, all by default. A plan is as good with any of these; what is said of its bound
    holds for the meshes.
    """

    in_flight: float = 1
    link: Link | None = None
    tolerance: float = TOLERANCE
    sent: frozenset[str] = frozenset()
    spare_bytes: float = 0.0
    max_labels: int = MOST_LABELS
    meshes: tuple[Mesh, ...] = ()


ALONE = Place()


def check(request: Request) -> None:
    """Raise what `plan` would raise for bad input, without searching: seconds become milliseconds.

    Rules are bound to the shapes of the first number of microbatches, and pins to their ops.
    """
    calibration = calibration_for(request)
    count = microbatch_counts(request)[0]
    problem = build_problem(request.graph, request.topology, request.setup, calibration, count)
    candidates = meshes_of(request, request.budget.max_axes)
    values = find_values(problem)
    pins = pinned_ops(problem, request.pins, values.views)
    check_axes(list(pins.values()), candidates)
    filters(problem, request, pins, values, candidates[0])


def plan_stage(
    request: Request,
    report: Report | None = None,
    stop: Stop = never,
    place: Place = ALONE,
    write: Write = plan_of,
    ways: Foldings | None = None,
    keep: Keep = unwanted,
) -> Answer:
    """The best plan of one stage, or why there is none; raises MeshwrightError for bad input.

    write: in full, unless the caller needs less of a plan than that. ways: the foldings of the
    request's graph, where they are asked for more than once. keep: the best plan so far.
    """
    say = report or (lambda _: None)
    say(Progress(phase="reading", done=0, total=1))
    deadline = Deadline.after(request.budget.seconds, stop)
    graph = for_inference(request.graph, request.setup)
    if graph is not request.graph:
        request = request.model_copy(update={"graph": graph})
    impossible = states_alone(request)
    if impossible is not None:
        return Answer(infeasible=impossible)
    if ways is None or ways.graph is not request.graph:
        ways = Foldings(request.graph)
    return _StageSearch(request, place, deadline, say, write, ways, keep).answer()


def price_stage(
    request: Request,
    policy: RecomputePolicy,
    place: Place,
    ways: Foldings,
    deadline: Deadline,
    most: int,
) -> list[FoldedPlan]:
    """Plans of one stage along the price of memory, whether they fit or not, so many at the most of
    each mesh; none where not even the leanest seem to. The setup says how many microbatches.

    Raises MeshwrightError for bad input, OutOfTime, TableTooLarge.
    """
    search = _StageSearch(request, place, deadline, lambda _: None, plan_of, ways)
    return search.priced(policy, most)


def states_alone(request: Request) -> Infeasible | None:
    """Refuse at once what no sharding and no batch can make fit: a bound on every plan's memory."""
    graph, setup, topology = request.graph, request.setup, request.topology
    shapes = graph.instantiate(setup.symbols)
    per_element = setup.optimizer.states * DTYPE_BYTES[setup.optimizer.state_dtype]
    per_element += DTYPE_BYTES[setup.gradient_dtype]
    memory = sum(own.device.memory_bytes * own.device_count for own in topology.groups)
    available = int(memory // topology.device_count * (1 - setup.memory_reserve))
    resting = [tensor for tensor in graph.tensors if tensor.role in ("parameter", "cache")]
    most = sum(
        prod(shapes[tensor.name]) * (DTYPE_BYTES[tensor.dtype] + per_element) for tensor in resting
    )
    if most // topology.device_count <= available:  # were all of them read and trained
        return None
    total, offload = 0, request.constraints.offload if topology.host is not None else "none"
    if offload in ("optimizer", "auto"):
        per_element = 0
    training = setup.phase == "training"
    trained = with_gradient(graph, graph.topological_order()) if training else frozenset()
    tables = _looked_up(graph) if offload in ("embeddings", "auto") else frozenset()
    held = {name for op in graph.ops for name in op.inputs} - tables
    sparse = {*request.constraints.sparse_gradients}
    for tensor in resting:
        if tensor.name in held:
            states = per_element if tensor.name in trained else 0
            if states and tensor.name in sparse:
                states -= DTYPE_BYTES[setup.gradient_dtype]
            total += prod(shapes[tensor.name]) * (DTYPE_BYTES[tensor.dtype] + states)
    needed = total // topology.device_count
    if needed <= available:
        return None
    has = "a device has, on the mean," if topology.beside else f"{topology.device.name} has"
    return Infeasible(
        constraint="memory",
        detail=(
            f"parameters, gradients and optimizer state alone need {needed / 2**30:.1f} GiB on a "
            f"device even when split over all {topology.device_count} devices; "
            f"{has} {available / 2**30:.1f} GiB after the reserve. "
            f"At least {-(-total // max(1, available))} devices, a smaller model or narrower "
            "states would do."
        ),
        needed_bytes=needed,
        available_bytes=available,
    )


def _looked_up(graph: Graph) -> frozenset[str]:
    """What may be a table: parameters that one op reads together with indices."""
    dtypes = {tensor.name: tensor.dtype for tensor in graph.tensors}
    counts = Counter(name for op in graph.ops for name in op.inputs)
    return frozenset(
        name
        for op in graph.ops
        for name in op.inputs
        if counts[name] == 1 and any(dtypes[other] not in FLOATS for other in op.inputs)
    )


def microbatch_counts(request: Request) -> list[int]:
    """The setup's own number, or 1, 2, 4, ... while the batch divides; from 2 in pairs."""
    setup = request.setup
    if setup.microbatches is not None:
        return [setup.microbatches]
    if setup.cache is not None:
        return [1]
    batch = step_batch(request.graph, setup) or 1
    counts: list[int] = [setup.least_copies]
    while batch % (2 * counts[-1]) == 0:
        counts.append(2 * counts[-1])
    return counts


class _StageSearch:
    """Numbers of microbatches and recompute policies, until a plan fits."""

    def __init__(
        self,
        request: Request,
        place: Place,
        deadline: Deadline,
        say: Report,
        write: Write,
        ways: Foldings,
        keep: Keep = unwanted,
    ) -> None:
        self.write = write
        self.best = Best(keep)
        self.ways = ways
        self.request = request
        self.place = place
        self.deadline = deadline
        self.say = say
        self.history = History()
        self.calibration = calibration_for(request)
        self.marks = marks_of(request)
        self._whole: tuple[int, Problem, Values] | None = None
        self._known: list[_Foldings] = []
        self._answers: dict[Hashable, Answer] = {}

    def answer(self) -> Answer:
        asked = self.request.recompute.policy
        tries = Tries()
        first: RecomputePolicy = "none" if asked == "auto" or asked == "ops" else asked
        for count in microbatch_counts(self.request):
            try:
                answer = self._planned(self._remade(first, count), count)
            except InvalidInput:
                if count == 1 or self.request.setup.microbatches is not None:
                    check(self.request)  # says it of the graph as it was given
                    raise
                break  # the graph cannot be run at so small a batch
            tries.add(first, count, answer)
            if asked == "auto" and self._may_gain(answer) and not tries.has_recomputed:
                for policy in POLICIES:
                    tries.add(policy, count, self._planned(self._remade(policy, count), count))
            if asked == "ops" and self._may_gain(answer):
                self._op_by_op(count, answer, tries)
                answer = tries.best()
            if answer.infeasible is None or answer.infeasible.constraint != "memory":
                break
        return tries.best()

    def priced(self, policy: RecomputePolicy, most: int) -> list[FoldedPlan]:
        (count,) = microbatch_counts(self.request)
        again = self._remade(policy, count)
        ways = self._foldings(marked(self.marks, again))
        while True:
            try:
                search = self._search(ways.folding, count, again, Room(self.place.spare_bytes), {})
                candidates = self._candidates(self.request.budget.max_axes)
                return plans_along_prices(search, candidates, most)
            except NotAlikeError:
                ways.fold_less()

    def _may_gain(self, answer: Answer) -> bool:
        """Whether more memory could make a difference: not where a plan leaves some."""
        if self.deadline.is_over():
            return False
        if answer.plan is None:
            return answer.infeasible is not None and answer.infeasible.constraint == "memory"
        use = answer.plan.cost.memory_bytes
        return use.total > FULL * use.capacity

    def _op_by_op(self, count: int, plain: Answer, tries: Tries) -> None:
        """Add plans with more and more done again."""

        def step_ns(again: Remade) -> float:
            answer = self._planned(again, count) if again else plain
            if again:
                tries.add("ops", count, answer, len(again.again))
            return inf if answer.plan is None else answer.plan.cost.step_ns

        steps = ladder(*self._as_given(count), self.request.recompute.blocks)
        descend(steps, step_ns, lambda: not self.deadline.is_over())

    def _planned(self, again: Remade, count: int) -> Answer:
        """In so many microbatches, with what is done again; what several policies do, once."""
        terms = count, again.again, frozenset(again.segment_of.items())
        if terms not in self._answers:
            self._answers[terms] = self._planned_anew(again, count)
            self.best.add(self._answers[terms])
            self.best.offer()
        return self._answers[terms]

    def _planned_anew(self, again: Remade, count: int) -> Answer:
        ways = self._foldings(marked(self.marks, again))
        floors: Floors = {}

        def search(room: Room) -> Answer | Missed:
            while True:
                try:
                    return self._searched(ways.folding, count, again, room, floors)
                except NotAlikeError:
                    ways.fold_less()

        topology, reserve = self.request.topology, self.request.setup.memory_reserve
        limit_bytes = topology.device.memory_bytes * (1 - reserve)
        return plan_within_memory(search, limit_bytes, self.place.spare_bytes)

    def _foldings(self, marks: Mapping[str, Hashable]) -> _Foldings:
        """Of the graph with these marks: the same for every number of microbatches."""
        for known in self._known:
            if known.marks == marks:
                return known
        self._known.append(_Foldings(self.ways, marks))
        return self._known[-1]

    def _remade(self, policy: RecomputePolicy, count: int) -> Remade:
        if policy == "none" or self.request.setup.phase != "training":
            return NOTHING
        device = self.request.topology.device.model_dump_json(exclude={"memory_bytes"})
        blocks, setup = self.request.recompute.blocks, self.request.setup
        terms = policy, count, blocks, setup.id, self.calibration.id, device, self.place.sent
        return self.ways.remade(terms, lambda: remade(*self._as_given(count), policy, blocks))

    def _as_given(self, count: int) -> tuple[Problem, Values]:
        """The whole graph, with nothing done again."""
        if self._whole is None or self._whole[0] != count:
            problem = self._problem(self.request.graph, count, NOTHING, Room())
            self._whole = count, problem, find_values(problem)
        return self._whole[1:]

    def _problem(self, graph: Graph, count: int, again: Remade, room: Room) -> Problem:
        problem = build_problem(
            graph,
            self.request.topology,
            self.request.setup,
            self.calibration,
            count,
            in_flight=self.place.in_flight,
            stage_link=self.place.link,
            sent=self.place.sent,
            remade=again,
        )
        return replace(
            problem,
            whole=self.request.graph,
            spare_bytes=room.spare_bytes,
            moved_bytes=room.moved_bytes,
        )

    @uncollected
    def _searched(
        self, folding: Folding, count: int, again: Remade, room: Room, floors: Floors
    ) -> Answer | Missed:
        """Search meshes of fewer axes where the tables of all finer ones would be too large."""
        if room != Room():
            self.history = History(self.history.started)  # what was found before does not fit
        search = self._search(folding, count, again, room, floors)
        searched: tuple[Mesh, ...] = ()
        for axes in range(self.request.budget.max_axes, 0, -1):
            candidates = self._candidates(axes)
            if candidates == searched:
                continue
            searched = candidates
            outcomes = search.run(candidates)
            if any(outcome.left_out != TOO_LARGE for outcome in outcomes):
                return answer_of(self.request, outcomes, search, self.write)
        raise TooLarge(
            "the ops of this graph are too entangled for an exact search on any mesh of this "
            "topology; pins on some of them make it smaller",
            pointer="/graph",
        )

    def _search(
        self, folding: Folding, count: int, again: Remade, room: Room, floors: Floors
    ) -> MeshSearch:
        search = MeshSearch(
            self.request,
            folding,
            self._problem(folding.graph, count, again, room),
            self.deadline,
            self.history,
            self.say,
            self.place.tolerance,
            floors,
            self.place.max_labels,
        )
        search.hear = lambda outcomes: self.best(lambda: self._so_far(search, outcomes()))
        return search

    def _so_far(self, search: MeshSearch, outcomes: Sequence[MeshOutcome]) -> Answer | None:
        try:
            return answer_so_far(self.request, outcomes, search, self.write)
        except NotAlikeError:
            return None

    def _candidates(self, axes: int) -> tuple[Mesh, ...]:
        return self.place.meshes or meshes_of(self.request, axes)


class _Foldings:
    """The foldings of a graph; one that does not hold is not come back to."""

    def __init__(self, ways: Foldings, marks: Mapping[str, Hashable]) -> None:
        self.marks = marks
        self._ways = ways.of(marks)
        self.folding = next(self._ways)

    def fold_less(self) -> None:
        """Copies are not alike: the next."""
        self.folding = next(self._ways)


def marks_of(request: Request) -> Mapping[str, Hashable]:
    """What a request says of single ops."""
    pins = matching_pins(request.graph, request.pins, request.module)
    sparse = sparse_lookups(request)
    if not sparse:
        return pins
    return {name: (pins.get(name), name in sparse) for name in {*pins, *sparse}}


def marked(marks: Mapping[str, Hashable], again: Remade) -> Mapping[str, Hashable]:
    """What tells ops apart that look alike: pins, and their place in a segment."""
    if not again:
        return marks
    found: dict[str, Hashable] = dict(marks)
    places: dict[int, int] = {}
    for op, segment in again.segment_of.items():
        place = places[segment] = places.get(segment, 0) + 1
        found[op] = (marks.get(op), place, op in again.again)
    return found
