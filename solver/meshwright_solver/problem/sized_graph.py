"""A graph at its sizes: the shapes of tensors, the rules of ops, and their parts and slots.

Everything here follows from the graph, the sizes of its symbols and a few fields of the setup.
Problems of equal sizes share it, on any topology.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from meshwright.schema import Graph, Op, RuleError, Setup, Tensor
from meshwright_solver.problem.dataset_loading import with_loading
from meshwright_solver.problem.expert_dims import ExpertLoads, expert_loads
from meshwright_solver.problem.inference_graph import for_inference
from meshwright_solver.problem.op_info import OpInfo, Slot, TensorInfo, op_infos
from meshwright_solver.problem.subdims import Refinement, refine
from meshwright_solver.problem.uneven import Uneven, uneven_of
from meshwright_solver.rules import Bound, RuleTable
from meshwright_solver.rules.op_knowledge import RECEIVE

FLOATS = frozenset({"float64", "float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2"})
_DIFFERENTIABLE = FLOATS | {"complex64", "complex128"}


@dataclass(frozen=True, slots=True)
class SizedGraph:
    """A graph at its sizes.

    graph: with loading ops where the setup states layouts of inputs; for inference, the inference
    graph. uneven: sizes that axes may cut without dividing them. loads: of expert dims.
    """

    graph: Graph
    tensors: Mapping[str, TensorInfo]
    ops: tuple[OpInfo, ...]
    uneven: Uneven
    loads: ExpertLoads


def without_batch(setup: Setup) -> Setup:
    """The setup without the fields that make no difference to `sized_graph`."""
    return setup.model_copy(update={"global_batch": None, "microbatches": None})


def sized_graph(graph: Graph, setup: Setup, symbols: Mapping[str, int]) -> SizedGraph:
    """The graph at the sizes of its symbols. Raises MeshwrightError where the documents do not fit.

    Of the setup, the batch and the number of microbatches make no difference.
    """
    graph = with_loading(for_inference(graph, setup), setup)
    shapes = graph.instantiate(symbols)
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
    return SizedGraph(
        graph,
        tensors,
        ops,
        uneven_of(ops, tensors, setup.uneven),
        expert_loads(ops, tensors, setup.expert_imbalance),
    )


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
