"""The planning problem: a graph with its sizes, the rules of its ops and its sub-dims.

Ops have parts and tensors have slots (`meshwright_solver.problem.op_info`). A *value* is a tensor
with all its views: reshapes and transposes move no data, so a view shares the layout of its source.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from meshwright.schema import (
    Calibration,
    Exposed,
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
from meshwright_solver.problem.expert_dims import EVEN, ExpertLoads, expert_loads, routed_tokens
from meshwright_solver.problem.inference_graph import for_inference
from meshwright_solver.problem.op_info import OpInfo, Slot, TensorInfo, op_infos
from meshwright_solver.problem.precision_recipes import check_precision
from meshwright_solver.problem.recomputed_ops import NOTHING, RecomputedOps
from meshwright_solver.problem.subdims import Refinement, refine
from meshwright_solver.problem.uneven import Uneven, uneven_of
from meshwright_solver.rules import Bound, RuleTable
from meshwright_solver.rules.op_knowledge import RECEIVE

FLOATS = frozenset({"float64", "float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2"})
_DIFFERENTIABLE = FLOATS | {"complex64", "complex128"}


@dataclass(frozen=True)
class Problem:
    """The input of `evaluate` and of the searches. Immutable.

    The graph is instantiated at the batch of one microbatch. The fields that a name cannot say:

    uneven: sizes that axes may cut without dividing them. in_flight: microbatches whose saved
    activations are held at one time. stage_link: to the neighboring pipeline stages. sent: tensors
    sent to the next stage, which sends back their gradients. whole: the unfolded graph, where
    `graph` is folded. remade: recomputed ops, with the segments of the whole graph. copies:
    interleaved microbatches. spare_bytes: memory reserved for transient memory. moved_bytes: limit
    on the bytes of one gathered or reduced tensor. loads: expert dims with uneven loads. counted:
    the shares of traffic that a search counts, where they are not the calibration's.
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
    counted: Exposed | None = None

    @cached_property
    def gradients(self) -> int:
        """Number of trained parameters where fusion is by gradient index; else 0."""
        graph = self.whole or self.graph
        if not self.training or self.setup.fusion.all_reduce.mode != "index":
            return 0
        trained = with_gradient(graph, graph.topological_order())
        return sum(
            tensor.role == "parameter" and tensor.name in trained for tensor in graph.tensors
        )

    @property
    def exposed(self) -> Exposed:
        """The shares of traffic that a search counts."""
        return self.counted or self.calibration.exposed

    @property
    def rounds(self) -> int:
        """Number of parameter gathers in a step; interleaved microbatches share one."""
        return self.microbatches // self.copies

    @cached_property
    def op_by_name(self) -> Mapping[str, OpInfo]:
        return {op.name: op for op in self.ops}

    @cached_property
    def producer_of(self) -> Mapping[str, int]:
        """The position of the op that makes each tensor; inputs and parameters have none."""
        return {port.tensor: k for k, op in enumerate(self.ops) for port in op.outputs}

    @cached_property
    def _routed(self) -> Mapping[str, int]:
        """Tensor -> chosen experts of a token, of dispatched tokens and of experts' results that
        travel once to each node; empty where they travel once to each expert."""
        if self.setup.expert_dispatch != "node":
            return {}
        return routed_tokens(self.ops, self.tensors)

    def top_k_of(self, names: Iterable[str]) -> int:
        """The chosen experts of a token, if one of the tensors is of tokens that travel once to
        each node; else 0."""
        return max((self._routed.get(name, 0) for name in names), default=0)

    @cached_property
    def position_of(self) -> Mapping[str, int]:
        """The position of every op, by name."""
        return {op.name: position for position, op in enumerate(self.ops)}

    def of_plan(self, plan: Plan) -> Problem:
        """The problem with the copies of a plan."""
        copies = _copies(self.setup, plan.copies)
        if copies == self.copies:
            return self
        if self.microbatches % copies:
            raise PlanError(
                f"the plan interleaves {copies} microbatches, which do not divide its "
                f"{self.microbatches} microbatches"
            )
        return replace(self, copies=copies, in_flight=self.in_flight / self.copies * copies)

    def of_stage(self, stage: Stage) -> Problem:
        """The problem with the recomputation and the uneven mode of a plan's stage."""
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
        """The host's rates; None where the topology has no host."""
        host = self.topology.host
        return None if host is None else HostRates.of(host, self.calibration)

    @property
    def host_limit_bytes(self) -> float:
        """Limit on a plan's bytes in a device's share of its host, by `usable_memory`."""
        host = self.topology.host
        return 0.0 if host is None else host.memory_bytes * self.setup.usable_memory

    @cached_property
    def caches(self) -> frozenset[str]:
        """Names of the key-value caches."""
        return frozenset(t.name for t in self.graph.tensors if t.role == "cache")

    @property
    def memory_limit_bytes(self) -> float:
        """Limit on static memory and saved activations of a device."""
        return self.room_bytes - self.spare_bytes

    @property
    def room_bytes(self) -> float:
        """Limit on the peak memory of a device."""
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
    """The planning problem of a graph. Raises MeshwrightError where the documents do not fit.

    microbatches, copies: of one step, where the setup leaves them open. The problem's graph has
    loading ops where the setup states layouts of inputs, and for inference it is the inference
    graph (`meshwright_solver.problem.inference_graph`).
    """
    if topology.beside:
        raise TopologyError(
            f"{topology.name or 'the topology'} has {len(topology.groups)} kinds of devices, but a "
            "stage has one. Use a pipeline, whose stages have one kind each",
            pointer="/topology",
        )
    check_precision(setup, topology.device)
    graph = with_loading(for_inference(graph, setup), setup)
    group_size = _copies(setup, copies)
    count = microbatches or setup.microbatches or group_size
    if count % group_size:
        raise SetupError(
            f"{count} microbatches cannot be interleaved in groups of {group_size}. Use "
            f"{count + 1}",
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
        in_flight=in_flight * group_size,
        stage_link=stage_link,
        sent=sent,
        remade=remade,
        loads=expert_loads(ops, tensors, setup.expert_imbalance),
        copies=group_size,
    )


def _copies(setup: Setup, plan_copies: int | None) -> int:
    """The copies of the setup, or those of the plan where the setup leaves them open."""
    if setup.copies == "auto":
        return plan_copies or 1
    if plan_copies not in (None, setup.copies):
        raise PlanError(f"the plan has {plan_copies} copies, the setup says {setup.copies}")
    return setup.copies


def check_rules(graph: Graph) -> None:
    """Raise RuleError with the op's name where the rule of its kind or its own does not fit."""
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
            place = next(k for k, other in enumerate(graph.ops) if other.name == op.name)
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
    """Tensors between a trainable parameter and the loss (or any output, without a loss).

    No gradient passes an op `stop_gradient`.
    """
    floats = {t.name for t in graph.tensors if t.dtype in _DIFFERENTIABLE}
    live = {
        t.name for t in graph.tensors if t.role == "parameter" and t.trainable and t.name in floats
    }
    for op in order:
        if op.attrs.get("gradient") is True and op.kind == RECEIVE:
            live.update(op.outputs)
        if op.kind != "stop_gradient" and not live.isdisjoint(op.inputs):
            live.update([name for name in op.outputs if name in floats])
    wanted = {graph.loss} if graph.loss is not None else set(graph.outputs)
    for op in reversed(order):
        if any(name in wanted and name in live for name in op.outputs):
            wanted.update(op.inputs)
    return frozenset(live & wanted)


def _constants(graph: Graph, order: Sequence[Op]) -> frozenset[str]:
    names = {t.name for t in graph.tensors if t.role in ("constant", "buffer")}
    for op in order:
        if names.issuperset(op.inputs) and op.kind != RECEIVE:
            names.update(op.outputs)
    return frozenset(names)


def _with_chunks(
    order: Sequence[Op], bound: Sequence[Bound | None], tensors: Mapping[str, TensorInfo]
) -> dict[str, TensorInfo]:
    """The tensors with the chunks of embedding tables that their lookups state.

    Only parameters whose rows are one slot have chunks. Raises RuleError where two lookups differ.
    """
    infos = dict(tensors)
    chunks_of: dict[str, tuple[str, tuple[int, ...]]] = {}
    for op, op_bound in zip(order, bound, strict=True):
        for lengths in op_bound.known.chunks.values() if op_bound is not None else ():
            info = infos[op.inputs[0]]
            other, known = chunks_of.setdefault(info.name, (op.name, lengths))
            if known != lengths:
                raise RuleError(
                    f"op {op.name!r} splits the rows of {info.name!r} into {list(lengths)}, op "
                    f"{other!r} into {list(known)}; one table has one manual_split"
                )
            rows = [k for k, slot in enumerate(info.slots) if slot.dim == 0]
            if info.tensor.role == "parameter" and len(rows) == 1:
                infos[info.name] = replace(info, chunks={rows[0]: lengths})
    return infos


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
    """The slots of tensors; tensors of equal shape and cuts share one tuple."""

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
    for d, (size, dim_cuts) in enumerate(zip(shape, cuts, strict=True)):
        outer = size
        for inner in (*dim_cuts, 1):
            if outer > inner:
                slots.append(Slot(d, inner, outer // inner))
            outer = inner
    return tuple(slots)
