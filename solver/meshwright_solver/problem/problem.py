"""The planning problem: a graph with its sizes, the rules of its ops and its sub-dims.

Ops have parts and tensors have slots (`meshwright_solver.problem.op_info`). A *value* is a tensor
with all its views: reshapes and transposes move no data, so a view shares the layout of its source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from meshwright.schema import (
    Calibration,
    Exposed,
    Fusion,
    Graph,
    Link,
    Plan,
    PlanError,
    Setup,
    SetupError,
    Stage,
    Topology,
    TopologyError,
    step_batch,
)
from meshwright.schema.garbage_collection import uncollected
from meshwright_costmodel.host_rates import HostRates
from meshwright_solver.problem.expert_dims import EVEN, ExpertLoads, routed_tokens
from meshwright_solver.problem.op_info import OpInfo, TensorInfo
from meshwright_solver.problem.precision_recipes import check_precision
from meshwright_solver.problem.recomputed_ops import NOTHING, RecomputedOps
from meshwright_solver.problem.sized_graph import SizedGraph, sized_graph, with_gradient
from meshwright_solver.problem.uneven import Uneven


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
        kinds = (getattr(self.setup.fusion, kind) for kind in Fusion.model_fields)
        if not self.training or all(settings.mode != "index" for settings in kinds):
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
                f"the plan says uneven {stage.uneven}, but the setup {self.setup.uneven}"
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


Sizes = Callable[[Graph, Setup, Mapping[str, int]], SizedGraph]


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
    sizes: Sizes = sized_graph,
) -> Problem:
    """The planning problem of a graph. Raises MeshwrightError where the documents do not fit.

    microbatches, copies: of one step, where the setup leaves them open. sizes: the graph at its
    sizes, `sized_graph` or a cache of it.
    """
    if topology.beside:
        raise TopologyError(
            f"{topology.name or 'the topology'} has {len(topology.groups)} kinds of devices, but a "
            "stage has one. Use a pipeline, whose stages have one kind each",
            pointer="/topology",
        )
    check_precision(setup, topology.device)
    group_size = _copies(setup, copies)
    count = microbatches or setup.microbatches or group_size
    if count % group_size:
        raise SetupError(
            f"{count} microbatches cannot be interleaved in groups of {group_size}. Use "
            f"{count + 1}",
            pointer="/microbatches",
        )
    sized = sizes(graph, setup, microbatch_symbols(graph, setup, count))
    return Problem(
        graph=sized.graph,
        topology=topology,
        setup=setup,
        calibration=calibration,
        microbatches=count,
        tensors=sized.tensors,
        ops=sized.ops,
        uneven=sized.uneven,
        in_flight=in_flight * group_size,
        stage_link=stage_link,
        sent=sent,
        remade=remade,
        loads=sized.loads,
        copies=group_size,
    )


def _copies(setup: Setup, plan_copies: int | None) -> int:
    """The copies of the setup, or those of the plan where the setup leaves them open."""
    if setup.copies == "auto":
        return plan_copies or 1
    if plan_copies not in (None, setup.copies):
        raise PlanError(f"the plan has {plan_copies} copies, the setup says {setup.copies}")
    return setup.copies


def microbatch_symbols(graph: Graph, setup: Setup, microbatches: int) -> dict[str, int]:
    """The sizes of the symbols in one microbatch. Raises SetupError if there are none."""
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
