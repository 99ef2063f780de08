"""Export of a plan as a networkx graph with strategies, layouts and costs.

Times are over one optimizer step on one device, as in the plan. The sum of `compute_ns`,
`communication_ns` and `redistribution_ns` over all nodes, and of `redistribution_ns` over all
edges, is the total of the plan's ops and redistributions: each is counted once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from meshwright.reports.ops import OpShare, received, roots_of, shares_of
from meshwright.schema import (
    DTYPE_BYTES,
    Graph,
    Layout,
    Mesh,
    Plan,
    PlanError,
    Redistribution,
    Step,
    Tensor,
)
from meshwright.schema.networkx_graphs import load_networkx

if TYPE_CHECKING:
    import networkx as nx


def plan_graph(plan: Plan, graph: Graph) -> nx.MultiDiGraph:
    """The plan's ops as nodes and the tensors between them as edges.

    Raises PlanError where `graph` is not the plan's, or lacks an op or a received tensor of the
    plan, and Unavailable without networkx.

    A node is the name of an op. In a plan with several stages it is `STAGE:OP`, because stages may
    run the same op. Nodes of kind `receive` produce the received tensors of a stage. Views that the
    plan does not list have no nodes; edges pass through them. Edges lead from the producer of a
    tensor to its reader; keys are 0, 1, 2, ... in the order of the readers.

    Nodes have: op, kind, module, stage, strategy (as typed for `--pin`), partial (the axes whose
    partial sums pass through the op), rule, recomputed, compute_ns, communication_ns (of the op's
    own steps), collectives and redistribution_ns (of redistributions of parameters, and of those
    that all readers of the op's result share), saved_bytes and parameter_bytes on one device.

    Edges have: tensor, the value; read_as, the view of it that the reader names; input, the
    position in the reader; dtype; rest_layout, read_layout and layout, which are the layout at
    rest, the layout of all readers and the layout of this reader; bytes of the whole tensor and
    device_bytes of the longest part in `layout`, both of one microbatch; collectives and
    redistribution_ns of the reader's own redistributions.
    """
    if graph.id != plan.graph:
        raise PlanError(f"the plan was made for the graph {plan.graph}, got {graph.id}")
    exported = load_networkx().MultiDiGraph(**_summary(plan))
    _check_names(plan, graph)
    builder = _Builder(plan, graph)
    key = 0
    for share in builder.shares:
        moves = list(share.moves)
        edges = []
        for read in builder.reads(share):
            own_moves = [move for move in moves if _is_move_of_input(move, share, read)]
            moves = [move for move in moves if move not in own_moves]
            edges.append((read, own_moves))
        name = builder.node(share.stage, share.own.op)
        exported.add_node(name, **builder.node_attributes(share, moves))
        for read, own_moves in edges:
            exported.add_edge(
                read.maker, name, key, **builder.edge_attributes(share, read, own_moves)
            )
            key += 1
    return exported


class _PlanEdge(NamedTuple):
    """An input of an op with a producer.

    maker: the producer's node. value: the base tensor of the view `tensor`. position: among the
    inputs. layout: the layout that the op reads, or None.
    """

    maker: str
    tensor: str
    value: str
    position: int
    layout: Layout | None


class _Builder:
    """Index of producers, layouts at rest and recomputed ops of a plan."""

    def __init__(self, plan: Plan, graph: Graph) -> None:
        self._plan, self._graph = plan, graph
        self._roots = roots_of(graph, {op.op for stage in plan.stages for op in stage.ops})
        self.shares = tuple(shares_of(plan, graph))
        self._rest = [
            {tensor.tensor: tensor.rest.value for tensor in stage.tensors} for stage in plan.stages
        ]
        self._shared = [
            {
                tensor.tensor: tensor.read.value
                for tensor in stage.tensors
                if tensor.read is not None
            }
            for stage in plan.stages
        ]
        self._recomputed = [
            {op for segment in stage.recompute.segments for op in segment.again}
            if stage.recompute
            else ()
            for stage in plan.stages
        ]
        self._makers: dict[tuple[int, str], str] = {}  # stage, tensor -> node
        for share in self.shares:
            source = received(share.own)
            outputs = [output.tensor for output in share.outputs]
            tensors = outputs if source is None else [source]
            name = self.node(share.stage, share.own.op)
            self._makers.update({(share.stage, tensor): name for tensor in tensors})

    def node(self, stage: int, op: str) -> str:
        return op if len(self._plan.stages) == 1 else f"{stage}:{op}"

    def reads(self, share: OpShare) -> Iterator[_PlanEdge]:
        """The inputs with a producer; received tensors come from the stage before."""
        source = received(share.own)
        if source is not None:
            maker = self._makers.get((share.stage - 1, source))
            if maker is not None:
                yield _PlanEdge(maker, source, source, 0, self._rest[share.stage].get(source))
            return
        for position, port in enumerate(share.inputs):
            value = self._roots.get(port.tensor, port.tensor)
            maker = self._makers.get((share.stage, value))
            if maker is not None:
                yield _PlanEdge(maker, port.tensor, value, position, port.layout)

    def node_attributes(
        self, share: OpShare, moves: Sequence[Redistribution]
    ) -> dict[str, str | int | float]:
        op = share.own
        strategy = sorted(op.strategy.items())
        return {
            "op": op.op,
            "kind": op.kind,
            "module": share.module,
            "stage": share.stage,
            "strategy": ",".join(f"{factor}={'+'.join(axes)}" for factor, axes in strategy if axes),
            "partial": "+".join(op.partial),
            "rule": op.rule or "",
            "recomputed": op.op in self._recomputed[share.stage],
            "compute_ns": float(op.compute_ns),
            "communication_ns": float(op.communication_ns),
            "collectives": _collectives(moves),
            "redistribution_ns": float(sum(move.ns for move in moves)),
            "saved_bytes": share.saved_bytes,
            "parameter_bytes": share.parameter_bytes,
        }

    def edge_attributes(
        self, share: OpShare, read: _PlanEdge, moves: Sequence[Redistribution]
    ) -> dict[str, str | int | float]:
        source_stage = share.stage - (received(share.own) is not None)
        rest = self._rest[source_stage].get(read.value)
        shared = self._shared[source_stage].get(read.value, rest)
        tensor = self._graph.tensor(read.value)
        whole, part = self._sizes(tensor, self._plan.stages[share.stage].mesh, read.layout)
        return {
            "tensor": read.value,
            "read_as": read.tensor,
            "input": read.position,
            "dtype": tensor.dtype,
            "rest_layout": "" if rest is None else str(rest),
            "read_layout": "" if shared is None else str(shared),
            "layout": "" if read.layout is None else str(read.layout),
            "bytes": whole,
            "device_bytes": part,
            "collectives": _collectives(moves),
            "redistribution_ns": float(sum(move.ns for move in moves)),
        }

    def _sizes(self, tensor: Tensor, mesh: Mesh, layout: Layout | None) -> tuple[int, int]:
        """Bytes of the whole tensor and of its longest part.

        Without a layout every device computes the whole tensor, of the graph's sizes.
        """
        width = DTYPE_BYTES[tensor.dtype]
        if layout is None:
            whole = math.prod(tensor.dims(self._graph.symbols)) * width
            return whole, whole
        return math.prod(layout.shape) * width, math.prod(layout.local_shape(mesh)) * width


def _check_names(plan: Plan, graph: Graph) -> None:
    ops = {op.name for op in graph.ops}
    tensors = {tensor.name for tensor in graph.tensors}
    for op in (op for stage in plan.stages for op in stage.ops):
        source = received(op)
        if op.op not in ops if source is None else source not in tensors:
            raise PlanError(f"the plan has the op {op.op!r}, which does not belong to its graph")


def _is_move_of_input(move: Redistribution, share: OpShare, read: _PlanEdge) -> bool:
    """Whether a redistribution belongs to this input of the reader only."""
    return (
        move.op == share.own.op
        and move.tensor == read.value
        and move.input in (None, read.position)
    )


def _summary(plan: Plan) -> dict[str, str | int | float]:
    return {
        "name": plan.name,
        "plan_id": plan.id,
        "graph_id": plan.graph,
        "stages": len(plan.stages),
        "meshes": "; ".join(_mesh(stage.mesh) for stage in plan.stages),
        "microbatches": plan.microbatches,
        "step_ns": float(plan.cost.step_ns),
        "memory_bytes": plan.cost.memory_bytes.total,
    }


def _mesh(mesh: Mesh) -> str:
    return " ".join(f"{axis.name}={axis.size}" for axis in mesh.axes)


def _collectives(moves: Iterable[Redistribution]) -> str:
    """Collectives as text, such as `forward all_gather(gpu); backward reduce_scatter(gpu)`."""
    return "; ".join(
        f"{when} {', '.join(map(_step, steps))}"
        for move in moves
        for when, steps in (
            ("forward and again" if move.again else "forward", move.forward),
            ("backward", move.backward),
            ("per step", move.per_step),
        )
        if steps
    )


def _step(step: Step) -> str:
    return f"{step.kind}({' '.join(step.axes)})"
