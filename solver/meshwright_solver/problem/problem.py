"""The planning problem: a graph in whole numbers, with what is known of its ops and sub-dims.

Ops have parts and tensors slots (`meshwright_solver.problem.op_info`). A *value* is a tensor with
all its views: reshapes and transposes move nothing, so that their results share the layout of what
they view.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from meshwright.schema import (
    Calibration,
    Graph,
    Link,
    Op,
    Plan,
    PlanError,
    RuleError,
    Setup,
    SetupError,
    Stage,
    Tensor,
    Topology,
    TopologyError,
    step_batch,
)
from meshwright.schema.garbage_collection import uncollected
from meshwright_costmodel.host_rates import HostRates
from meshwright_solver.problem.dataset_loading import with_loading
from meshwright_solver.problem.expert_dims import EVEN, ExpertLoads, expert_loads
from meshwright_solver.problem.inference_graph import for_inference
from meshwright_solver.problem.op_info import OpInfo, Slot, TensorInfo, op_infos
from meshwright_solver.problem.recomputed_ops import NOTHING, RecomputedOps
from meshwright_solver.problem.subdims import Refinement, refine
from meshwright_solver.problem.uneven import Uneven, uneven_of
from meshwright_solver.rules import Bound, RuleTable
from meshwright_solver.rules.op_knowledge import RECEIVE

FLOATS = frozenset({"float64", "float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2"})


@dataclass(frozen=True)
class Problem:
    """Everything that `evaluate` and the searches look at. Immutable.

    The graph is instantiated at the batch of one microbatch. uneven: what axes may cut that they do
    not divide. in_flight: how many microbatches' saved activations are held at one time.
    stage_link: to the neighbouring pipeline stages. sent: what goes to the next one, so that its
    gradient comes back. whole: what the graph stands for, where it is folded. remade: what is done
    again in the backward pass, with the segments of the whole graph. copies: microbatches that take
    turns. spare_bytes: of the memory,
    what has to be left for what passes by. moved_bytes: the most that a search may let pass by of
    one thing. loads: where tokens of experts are spread unevenly.
    """

    graph: Graph
    topology: Topology
    setup: Setup
    calibration: Calibration
    microbatches: int
    tensors: Mapping[str, TensorInfo]
    ops: tuple[OpInfo, ...]
    uneven: Uneven
    in_flight: float = 1
    stage_link: Link | None = None
    sent: frozenset[str] = frozenset()
    whole: Graph | None = None
    remade: RecomputedOps = NOTHING
    spare_bytes: float = 0.0
    moved_bytes: float = inf
    loads: ExpertLoads = EVEN
    copies: int = 1

    @cached_property
    def gradients(self) -> int:
        """How many parameters are trained, where fusion goes by number; else 0."""
        graph = self.whole or self.graph
        if not self.training or self.setup.fusion.all_reduce.mode != "index":
            return 0
        trained = with_gradient(graph, graph.topological_order())
        return sum(own.role == "parameter" and own.name in trained for own in graph.tensors)

    @property
    def rounds(self) -> int:
        """How often a step gathers parameters: microbatches that take turns share it."""
        return self.microbatches // self.copies

    @cached_property
    def op_by_name(self) -> Mapping[str, OpInfo]:
        return {op.name: op for op in self.ops}

    @cached_property
    def position_of(self) -> Mapping[str, int]:
        """The position of every op, by name."""
        return {op.name: position for position, op in enumerate(self.ops)}

    def of_plan(self, plan: Plan) -> Problem:
        """The problem with the copies that a plan says."""
        copies = _copies(self.setup, plan.copies)
        if copies == self.copies:
            return self
        if self.microbatches % copies:
            raise PlanError(f"{self.microbatches} microbatches do not take turns in pairs")
        return replace(self, copies=copies, in_flight=self.in_flight / self.copies * copies)

    def of_stage(self, stage: Stage) -> Problem:
        """The problem as a plan's stage solves it: it need not use what the setup allows."""
        problem = replace(self, remade=RecomputedOps.of(stage.recompute))
        if stage.uneven == self.uneven.mode:
            return problem
        if stage.uneven != "refuse":
            raise PlanError(
                f"the plan cuts sizes that do not divide ({stage.uneven}), the setup says "
                f"{self.setup.uneven}"
            )
        return replace(problem, uneven=Uneven())

    @cached_property
    def host(self) -> HostRates | None:
        """None where the topology does not say."""
        host = self.topology.host
        return None if host is None else HostRates.of(host, self.calibration)

    @property
    def host_limit_bytes(self) -> float:
        """What a plan may take of a device's share of its host: the same reserve stays free."""
        host = self.topology.host
        return 0.0 if host is None else host.memory_bytes * self.setup.usable_memory

    @cached_property
    def caches(self) -> frozenset[str]:
        """Tensors that inference keeps between its steps."""
        return frozenset(t.name for t in self.graph.tensors if t.role == "cache")

    @property
    def memory_limit_bytes(self) -> float:
        """What may rest on a device, and be saved."""
        return self.room_bytes - self.spare_bytes

    @property
    def room_bytes(self) -> float:
        """What a plan may take of a device."""
        return self.topology.device.memory_bytes * self.setup.usable_memory

    @property
    def training(self) -> bool:
        return self.setup.phase == "training"


@uncollected
def build_problem(
    graph: Graph,
    topology: Topology,
    setup: Setup,
    calibration: Calibration,
    microbatches: int | None = None,
    *,
    in_flight: float = 1,
    stage_link: Link | None = None,
    sent: frozenset[str] = frozenset(),
    remade: RecomputedOps = NOTHING,
    copies: int | None = None,
) -> Problem:
    """The problem of running `graph`; raises MeshwrightError where its parts do not fit.

    microbatches, copies: of one step, where the setup leaves them open. Where the setup says how
    inputs are loaded, the problem's graph has ops that do so; for inference it has no loss, and
    perhaps a cache (`meshwright_solver.problem.inference_graph`).
    """
    if topology.beside:
        raise TopologyError(
            f"{topology.name or 'the topology'} has {len(topology.groups)} kinds of devices; what "
            "is planned or judged as one stage has one",
            pointer="/topology",
        )
    graph = with_loading(for_inference(graph, setup), setup)
    taking_turns = _copies(setup, copies)
    count = microbatches or setup.microbatches or taking_turns
    if count % taking_turns:
        raise SetupError(
            f"{count} microbatches do not go in groups of {taking_turns} that take turns; "
            f"{count + 1} would do",
            pointer="/microbatches",
        )
    shapes = graph.instantiate(_symbols(graph, setup, count))
    order = graph.topological_order()
    bound = _bound_rules(graph, order, shapes)
    refinement = refine(bound, [(*op.inputs, *op.outputs) for op in order], shapes)
    gradient = with_gradient(graph, order) if setup.phase == "training" else frozenset()
    constant = _constants(graph, order)
    slots = _Slots(refinement)
    tensors = {
        tensor.name: TensorInfo(
            tensor,
            shapes[tensor.name],
            slots.of(tensor.name, shapes[tensor.name]),
            _segments(tensor, refinement),
            tensor.name in gradient,
            tensor.name in constant,
            _NO_CHUNKS,
        )
        for tensor in graph.tensors
    }
    tensors = _with_chunks(order, bound, tensors)
    ops = op_infos(order, bound, refinement, tensors)
    uneven = uneven_of(ops, tensors, setup.uneven)
    return Problem(
        graph=graph,
        topology=topology,
        setup=setup,
        calibration=calibration,
        microbatches=count,
        tensors=tensors,
        ops=ops,
        uneven=uneven,
        in_flight=in_flight * taking_turns,
        stage_link=stage_link,
        sent=sent,
        remade=remade,
        loads=expert_loads(ops, tensors, setup.expert_imbalance),
        copies=taking_turns,
    )


def _copies(setup: Setup, said: int | None) -> int:
    """What a plan says where the setup leaves it open."""
    if setup.copies == "auto":
        return said or 1
    if said not in (None, setup.copies):
        raise PlanError(f"the plan has {said} copies, the setup says {setup.copies}")
    return setup.copies


def check_rules(graph: Graph) -> None:
    """Raise RuleError, naming the op, where a known kind or an op's own rule does not fit."""
    _bound_rules(graph, graph.ops, graph.instantiate({}))


def _bound_rules(
    graph: Graph, order: Sequence[Op], shapes: Mapping[str, tuple[int, ...]]
) -> list[Bound | None]:
    table = RuleTable(shapes)
    bound = []
    for op in order:
        try:
            bound.append(table.rule_of(op))
        except RuleError as wrong:
            place = next(k for k, own in enumerate(graph.ops) if own.name == op.name)
            raise RuleError(wrong.detail, pointer=f"/ops/{place}{wrong.pointer}") from None
    return bound


def _symbols(graph: Graph, setup: Setup, microbatches: int) -> dict[str, int]:
    batch = step_batch(graph, setup)
    if batch is None:
        if setup.global_batch is not None or microbatches > 1:
            raise SetupError(
                f"a global batch ({setup.global_batch}) or microbatches ({microbatches}) need a "
                "graph with the symbol 'batch'; capture it with a symbolic batch",
                pointer="/global_batch",
            )
        return dict(setup.symbols)
    if batch % microbatches:
        raise SetupError(
            f"a global batch of {batch} cannot be cut into {microbatches} equal microbatches",
            pointer="/microbatches",
        )
    return {**setup.symbols, "batch": batch // microbatches}


def with_gradient(graph: Graph, order: Sequence[Op]) -> frozenset[str]:
    """Tensors between a trainable parameter and the loss (or any output, without a loss)."""
    floats = {t.name for t in graph.tensors if t.dtype in FLOATS}
    live = {
        t.name for t in graph.tensors if t.role == "parameter" and t.trainable and t.name in floats
    }
    for op in order:
        if op.attrs.get("gradient") is True and op.kind == RECEIVE:
            live.update(op.outputs)
        if not live.isdisjoint(op.inputs):
            live.update([name for name in op.outputs if name in floats])
    wanted = {graph.loss} if graph.loss is not None else set(graph.outputs)
    for op in reversed(order):
        if any(name in wanted and name in live for name in op.outputs):
            wanted.update(op.inputs)
    return frozenset(live & wanted)


def _constants(graph: Graph, order: Sequence[Op]) -> frozenset[str]:
    found = {t.name for t in graph.tensors if t.role in ("constant", "buffer")}
    for op in order:
        if found.issuperset(op.inputs) and op.kind != RECEIVE:
            found.update(op.outputs)
    return frozenset(found)


def _with_chunks(
    order: Sequence[Op], bound: Sequence[Bound | None], tensors: Mapping[str, TensorInfo]
) -> dict[str, TensorInfo]:
    """Parameters with the chunks that the ops which look them up say; RuleError where two differ.

    What is made by an op, or cut into several slots, keeps no chunks of its own: it stays whole.
    """
    found = dict(tensors)
    said: dict[str, tuple[str, tuple[int, ...]]] = {}
    for op, own in zip(order, bound, strict=True):
        for lengths in own.known.chunks.values() if own is not None else ():
            info = found[op.inputs[0]]
            other, known = said.setdefault(info.name, (op.name, lengths))
            if known != lengths:
                raise RuleError(
                    f"op {op.name!r} splits the rows of {info.name!r} into {list(lengths)}, op "
                    f"{other!r} into {list(known)}; one table has one manual_split"
                )
            rows = [k for k, slot in enumerate(info.slots) if slot.dim == 0]
            if info.tensor.role == "parameter" and len(rows) == 1:
                found[info.name] = replace(info, chunks={rows[0]: lengths})
    return found


_NO_SEGMENTS: Mapping[int, tuple[int, ...]] = {}
_NO_CHUNKS: Mapping[int, tuple[int, ...]] = {}


def _segments(tensor: Tensor, refinement: Refinement) -> Mapping[int, tuple[int, ...]]:
    if not refinement.segments:
        return _NO_SEGMENTS
    return {
        d: refinement.segments[tensor.name, d]
        for d in range(len(tensor.shape))
        if (tensor.name, d) in refinement.segments
    }


class _Slots:
    """The slots of tensors, one tuple for all of equal shape and cuts."""

    def __init__(self, refinement: Refinement) -> None:
        self._cuts = refinement.dim_cuts
        self._known: dict[Hashable, tuple[Slot, ...]] = {}

    def of(self, name: str, shape: tuple[int, ...]) -> tuple[Slot, ...]:
        cuts = [self._cuts.get((name, d), ()) for d in range(len(shape))] if self._cuts else ()
        key = (shape, *cuts)
        if key not in self._known:
            self._known[key] = _slots(shape, cuts or [()] * len(shape))
        return self._known[key]


def _slots(shape: tuple[int, ...], cuts: Sequence[tuple[int, ...]]) -> tuple[Slot, ...]:
    slots = []
    for d, (size, own) in enumerate(zip(shape, cuts, strict=True)):
        outer = size
        for inner in (*own, 1):
            if outer > inner:
                slots.append(Slot(d, inner, outer // inner))
            outer = inner
    return tuple(slots)
