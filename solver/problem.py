"""The planning problem: a graph in whole numbers, with what is known of its ops and sub-dims.

A *slot* is a sub-dim of a tensor; a *part* is a sub-dim of a factor of an op. A strategy puts mesh
axes on parts, a layout puts them on slots, and `Port` says which part each slot of an op's input or
output is. A *value* is a tensor with all its views: reshapes and transposes move nothing, so that
their results share the layout of what they view.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from meshwright.schema import (
    DTYPE_BYTES,
    Calibration,
    Factor,
    Graph,
    GraphError,
    Notation,
    Op,
    PlanError,
    RuleError,
    Setup,
    SetupError,
    Stage,
    Tensor,
    Topology,
)
from meshwright.schema.notation import Segments, Term
from solver.refine import Refinement, refine
from solver.rules import Bound, Known, RuleTable
from solver.uneven import Uneven, uneven_of

FLOATS = frozenset({"float64", "float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2"})


@dataclass(frozen=True, slots=True)
class Slot:
    """A sub-dim: `size` steps of `inner` elements of dim `dim`."""

    dim: int
    inner: int
    size: int


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor in whole numbers. constant: it depends on no input and no parameter.

    chunks: slot -> the lengths of its chunks, where they are the user's own.
    """

    tensor: Tensor
    shape: tuple[int, ...]
    slots: tuple[Slot, ...]
    segments: Mapping[int, tuple[int, ...]]
    has_gradient: bool
    constant: bool
    chunks: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.tensor.name

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * DTYPE_BYTES[self.tensor.dtype]


@dataclass(frozen=True, slots=True)
class Part:
    """A sub-dim of a factor. name: the factor, numbered where it has several parts.

    may_follow: the factors whose axes may lie on it too.
    """

    name: str
    factor: Factor
    size: int
    shardable: bool
    reused: bool
    halo_elements: int
    may_follow: tuple[Factor, ...] = ()


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of an op: part -> slot of the tensor, for the parts that it has."""

    tensor: str
    slot_of: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class OpInfo:
    """An op with its rule refined into parts; known is None for an unknown kind."""

    op: Op
    known: Known | None
    parts: tuple[Part, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    flops: float
    notation: str | None

    @property
    def name(self) -> str:
        return self.op.name


@dataclass(frozen=True)
class Problem:
    """Everything that `evaluate` and the searches look at. Immutable.

    The graph is instantiated at the batch of one microbatch. uneven: what axes may cut that they do
    not divide.
    """

    graph: Graph
    topology: Topology
    setup: Setup
    calibration: Calibration
    microbatches: int
    tensors: Mapping[str, TensorInfo]
    ops: tuple[OpInfo, ...]
    uneven: Uneven

    @cached_property
    def op_by_name(self) -> Mapping[str, OpInfo]:
        return {op.name: op for op in self.ops}

    def of_stage(self, stage: Stage) -> Problem:
        """The problem as a plan's stage solves it: it need not use what the setup allows."""
        if stage.uneven == self.uneven.mode:
            return self
        if stage.uneven != "refuse":
            raise PlanError(
                f"the plan cuts sizes that do not divide ({stage.uneven}), the setup says "
                f"{self.setup.uneven}"
            )
        return replace(self, uneven=Uneven())

    @property
    def training(self) -> bool:
        return self.setup.phase == "training"


def build_problem(
    graph: Graph,
    topology: Topology,
    setup: Setup,
    calibration: Calibration,
    microbatches: int | None = None,
) -> Problem:
    """The problem of running `graph`; raises MeshwrightError where its parts do not fit.

    microbatches: of one step, where the setup leaves them open.
    """
    count = microbatches or setup.microbatches or 1
    shapes = graph.instantiate(_symbols(graph, setup, count))
    order = graph.topological_order()
    bound = _bound_rules(graph, order, shapes)
    rules = [
        (
            (own.known.rule, (*op.inputs, *op.outputs), own.sizes)
            if own is not None
            else (None, (), {})
        )
        for op, own in zip(order, bound, strict=True)
    ]
    refinement = refine(rules, shapes)
    gradient = with_gradient(graph, order) if setup.phase == "training" else frozenset()
    constant = _constants(graph, order)
    tensors = {
        tensor.name: TensorInfo(
            tensor,
            shapes[tensor.name],
            _slots(tensor.name, shapes[tensor.name], refinement),
            {
                d: refinement.segments[tensor.name, d]
                for d in range(len(tensor.shape))
                if (tensor.name, d) in refinement.segments
            },
            tensor.name in gradient,
            tensor.name in constant,
        )
        for tensor in graph.tensors
    }
    tensors = _with_chunks(order, bound, tensors)
    ops = tuple(
        _op_info(position, op, own.known if own else None, rules[position][2], refinement, tensors)
        for position, (op, own) in enumerate(zip(order, bound, strict=True))
    )
    uneven = uneven_of(ops, tensors, setup.uneven)
    return Problem(graph, topology, setup, calibration, count, tensors, ops, uneven)


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


def step_batch(graph: Graph, setup: Setup) -> int | None:
    """The batch of one optimizer step; None where the graph has no symbol for it."""
    if "batch" not in graph.symbols:
        return None
    return setup.global_batch or setup.symbols.get("batch") or graph.symbols["batch"]


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
    live = {
        t.name for t in graph.tensors if t.role == "parameter" and t.trainable and t.dtype in FLOATS
    }
    for op in order:
        if any(name in live for name in op.inputs):
            live.update(name for name in op.outputs if graph.tensor(name).dtype in FLOATS)
    wanted = {graph.loss} if graph.loss is not None else set(graph.outputs)
    for op in reversed(order):
        if any(name in wanted and name in live for name in op.outputs):
            wanted.update(op.inputs)
    return frozenset(live & wanted)


def _constants(graph: Graph, order: Sequence[Op]) -> frozenset[str]:
    found = {t.name for t in graph.tensors if t.role in ("constant", "buffer")}
    for op in order:
        if all(name in found for name in op.inputs):
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


def _slots(name: str, shape: tuple[int, ...], refinement: Refinement) -> tuple[Slot, ...]:
    slots = []
    for d, size in enumerate(shape):
        outer = size
        for inner in (*refinement.dim_cuts[name, d], 1):
            if outer > inner:
                slots.append(Slot(d, inner, outer // inner))
            outer = inner
    return tuple(slots)


def _op_info(
    position: int,
    op: Op,
    known: Known | None,
    sizes: Mapping[Factor, int],
    refinement: Refinement,
    tensors: Mapping[str, TensorInfo],
) -> OpInfo:
    if known is None:
        bare = [tuple(Port(name, {}) for name in names) for names in (op.inputs, op.outputs)]
        return OpInfo(op, None, (), bare[0], bare[1], 0.0, None)
    parts: list[Part] = []
    where: dict[tuple[Factor, int], int] = {}
    parsed = known.rule.parsed
    for factor in parsed.factors:
        if factor in parsed.follows:
            continue
        key = (position, factor)
        cuts = (*refinement.factor_cuts.get(key, ()), 1)
        is_open = key not in refinement.blocked
        shardable = factor not in parsed.unsharded and is_open
        outer = sizes[factor]
        for j, inner in enumerate(cuts):
            where[factor, inner] = len(parts)
            parts.append(
                Part(
                    factor
                    if len(cuts) == 1
                    else f"{factor}{'_' if factor[-1].isdigit() else ''}{j}",
                    factor,
                    outer // inner,
                    shardable and outer > inner,
                    factor in parsed.reused,
                    known.halo_elements.get(factor, 0),
                    parsed.may_follow.get(factor, ()) if is_open and outer > inner else (),
                )
            )
            outer = inner
    names = (*op.inputs, *op.outputs)
    ports = [
        Port(name, _slots_of(term, name, position, refinement, where, parsed, tensors))
        for name, term in zip(names, parsed.terms, strict=False)
    ]
    if known.chunks and not tensors[op.inputs[0]].chunks:
        ports[0] = Port(op.inputs[0], {})
    count = len(op.inputs)
    return OpInfo(
        op,
        known,
        _with_loose_extents(parts, ports, tensors, has_chunks=bool(known.chunks)),
        tuple(ports[len(ports) - len(op.outputs) - count :][:count]),
        tuple(ports[len(ports) - len(op.outputs) :]),
        _flops(op, known, sizes),
        _refined_notation(parsed, refinement, position),
    )


def _flops(op: Op, known: Known, sizes: Mapping[Factor, int]) -> float:
    try:
        flops = known.rule.flop_count({str(factor): size for factor, size in sizes.items()})
    except (GraphError, OverflowError) as wrong:
        raise RuleError(f"op {op.name!r}: its rule's FLOPs cannot be counted: {wrong}") from None
    if flops < 0:
        raise RuleError(f"op {op.name!r}: its rule counts {flops:.3g} FLOPs, 0 or more would do")
    return flops


def _slots_of(
    term: Term,
    name: str,
    position: int,
    refinement: Refinement,
    where: Mapping[tuple[Factor, int], int],
    parsed: Notation,
    tensors: Mapping[str, TensorInfo],
) -> dict[int, int]:
    """Part -> slot for one term of an op."""
    slots = {(slot.dim, slot.inner): k for k, slot in enumerate(tensors[name].slots)}
    found: dict[int, int] = {}
    for use in refinement.uses[position]:
        tensor, d = use.dim
        factor = use.factor[1]
        if tensor != name or not any(factor in product for product in term[d]):
            continue
        if use.factor in refinement.loose:
            majors = [k for (dim, _), k in slots.items() if dim == d]
            leader = (parsed.follows.get(factor, factor), 1)
            if majors and leader in where:
                found[where[leader]] = min(majors)
            continue
        for cut in (*refinement.factor_cuts[use.factor], 1):
            slot = slots.get((d, use.inner * cut))
            if slot is not None:
                found[where[factor, cut]] = slot
    return found


def _with_loose_extents(
    parts: Sequence[Part],
    ports: Sequence[Port],
    tensors: Mapping[str, TensorInfo],
    *,
    has_chunks: bool,
) -> tuple[Part, ...]:
    """A part whose extent differs from tensor to tensor divides only as all of them do.

    Slots with chunks divide for the op that has them, and are whole for all others.
    """
    resized = []
    for index, part in enumerate(parts):
        places = [(tensors[p.tensor], p.slot_of[index]) for p in ports if index in p.slot_of]
        common = math.gcd(part.size, *(i.slots[k].size for i, k in places if k not in i.chunks))
        is_open = has_chunks or not any(k in info.chunks for info, k in places)
        resized.append(
            replace(
                part,
                size=common,
                shardable=part.shardable and common > 1 and is_open,
                may_follow=part.may_follow if is_open else (),
            )
        )
    return tuple(resized)


def _refined_notation(parsed: Notation, refinement: Refinement, position: int) -> str:
    """The rule with every factor written as the product of its parts."""

    def shown(factor: Factor) -> list[str]:
        choice = "".join(f"@{leader}?" for leader in parsed.may_follow.get(factor, ()))
        cuts = (*refinement.factor_cuts.get((position, factor), ()), 1)
        mark = "!" if factor in parsed.unsharded or (position, factor) in refinement.blocked else ""
        mark += "^" if factor in parsed.reused else ""
        mark += "~" if factor in parsed.halo else ""
        mark += f"@{parsed.follows[factor]}" if factor in parsed.follows else choice
        if len(cuts) == 1:
            return [factor + mark]
        joint = "_" if factor[-1].isdigit() else ""
        return [f"{factor}{joint}{j}{mark}" for j in range(len(cuts))]

    def dim(parts: Segments) -> str:
        written = [" ".join(w for f in part for w in shown(f)) for part in parts]
        if len(written) == 1:
            return "1" if not written[0] else f"({written[0]})" if " " in written[0] else written[0]
        return f"({'|'.join(written)})"

    def terms(side: tuple[Term, ...]) -> str:
        return ", ".join(" ".join(dim(parts) for parts in term) for term in side)

    return f"{terms(parsed.inputs)} -> {terms(parsed.outputs)}"
