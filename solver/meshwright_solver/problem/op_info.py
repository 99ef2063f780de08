"""Ops in parts and tensors in slots: refined sharding rules.

A *slot* is a sub-dim of a tensor; a *part* is a sub-dim of a factor of an op. A strategy puts mesh
axes on parts, and a layout puts them on slots. `OpPort` maps the parts of an op to the slots of one
input or output.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from meshwright.schema import DTYPE_BYTES, Factor, GraphError, Notation, Op, RuleError, Tensor
from meshwright.schema.notation import Segments, Term
from meshwright_solver.common.identity_keys import IdentityKeys
from meshwright_solver.problem.subdims import Cuts, Refinement
from meshwright_solver.rules import Bound, Known


@dataclass(frozen=True, slots=True)
class Slot:
    """A sub-dim: `size` steps of `inner` elements of dim `dim`."""

    dim: int
    inner: int
    size: int


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor with its sizes. constant: it depends on no input and no parameter.

    chunks: slot -> the lengths of its chunks, where the user states them.
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
    def is_free(self) -> bool:
        """Whether every device can load or make any part of it."""
        return self.constant or self.tensor.role in ("input", "label")

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * DTYPE_BYTES[self.tensor.dtype]


@dataclass(frozen=True, slots=True)
class FactorPart:
    """A sub-dim of a factor. name: the factor, numbered where it has several parts.

    may_follow: the factors whose axes may also lie on this part.
    """

    name: str
    factor: Factor
    size: int
    shardable: bool
    reused: bool
    halo_elements: int
    may_follow: tuple[Factor, ...] = ()


@dataclass(frozen=True, slots=True)
class OpPort:
    """One input or output of an op. slot_of: part -> slot of the tensor, for parts that it has."""

    tensor: str
    slot_of: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class OpInfo:
    """An op with its rule refined into parts; known is None for an unknown kind."""

    op: Op
    known: Known | None
    parts: tuple[FactorPart, ...]
    inputs: tuple[OpPort, ...]
    outputs: tuple[OpPort, ...]
    flops: float
    notation: str | None

    @property
    def name(self) -> str:
        return self.op.name

    def parts_of(self, factor: str) -> list[int]:
        """The parts of a factor, major first."""
        return [j for j, part in enumerate(self.parts) if part.factor == factor]

    def local_sizes(self, ways: Sequence[int]) -> dict[str, int]:
        """Size of each factor on a device; ways: the number of cuts of each part."""
        sizes: dict[str, int] = {}
        for part, cut in zip(self.parts, ways, strict=True):
            sizes[part.factor] = sizes.get(part.factor, 1) * -(-part.size // cut)
        return sizes


def op_infos(
    order: Sequence[Op],
    bound: Sequence[Bound | None],
    refinement: Refinement,
    tensors: Mapping[str, TensorInfo],
) -> tuple[OpInfo, ...]:
    """The ops in parts. Ops of equal rule, sizes and cuts share all but the names of tensors.

    Tensors of equal slots have to hold the same tuple object.
    """
    key_of = IdentityKeys()
    known: dict[Hashable, OpInfo] = {}
    ops = []
    for position, (op, op_bound) in enumerate(zip(order, bound, strict=True)):
        if op_bound is None:
            inputs = tuple([OpPort(name, {}) for name in op.inputs])
            outputs = tuple([OpPort(name, {}) for name in op.outputs])
            ops.append(OpInfo(op, None, (), inputs, outputs, 0.0, None))
            continue
        names = (*op.inputs, *op.outputs)
        infos = [tensors[name] for name in names]
        cuts = refinement.factor_cuts[position]
        key = (
            key_of(op_bound),
            len(op.inputs),
            tuple([names.index(name) for name in names]) if len({*names}) < len(names) else (),
            key_of.each([info.slots for info in infos]),
            tuple(cuts.items()) if cuts else (),
            refinement.blocked[position],
            tuple([(k, *info.chunks.items()) for k, info in enumerate(infos) if info.chunks]),
        )
        like = known.get(key)
        if like is None:
            like = known[key] = _op_info(position, op, op_bound, refinement, tensors)
        inputs = tuple(
            [OpPort(name, port.slot_of) for name, port in zip(op.inputs, like.inputs, strict=True)]
        )
        outputs = tuple(
            [
                OpPort(name, port.slot_of)
                for name, port in zip(op.outputs, like.outputs, strict=True)
            ]
        )
        ops.append(
            OpInfo(op, op_bound.known, like.parts, inputs, outputs, like.flops, like.notation)
        )
    return tuple(ops)


def _op_info(
    position: int,
    op: Op,
    bound: Bound,
    refinement: Refinement,
    tensors: Mapping[str, TensorInfo],
) -> OpInfo:
    known, sizes = bound.known, bound.sizes
    parts: list[FactorPart] = []
    where: dict[tuple[Factor, int], int] = {}
    parsed = known.rule.parsed
    blocked, factor_cuts = refinement.blocked[position], refinement.factor_cuts[position]
    for factor in parsed.factors:
        if factor in parsed.follows:
            continue
        cuts = (*factor_cuts.get(factor, ()), 1)
        is_open = factor not in blocked
        shardable = factor not in parsed.unsharded and is_open
        outer = sizes[factor]
        for j, inner in enumerate(cuts):
            where[factor, inner] = len(parts)
            parts.append(
                FactorPart(
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
        OpPort(name, _slots_of(term, name, names, position, refinement, where, parsed, tensors))
        for name, term in zip(names, parsed.terms_of(len(names)), strict=False)
    ]
    if known.chunks and not tensors[op.inputs[0]].chunks:
        ports[0] = OpPort(op.inputs[0], {})
    count = len(op.inputs)
    return OpInfo(
        op,
        known,
        _with_loose_extents(parts, ports, tensors, has_chunks=bool(known.chunks)),
        tuple(ports[len(ports) - len(op.outputs) - count :][:count]),
        tuple(ports[len(ports) - len(op.outputs) :]),
        _flops(op, known, sizes),
        _refined_notation(parsed, factor_cuts, blocked),
    )


def _flops(op: Op, known: Known, sizes: Mapping[Factor, int]) -> float:
    try:
        flops = known.rule.flop_count({str(factor): size for factor, size in sizes.items()})
    except (GraphError, OverflowError) as wrong:
        raise RuleError(f"op {op.name!r}: its rule's FLOPs cannot be counted: {wrong}") from None
    if flops < 0:
        raise RuleError(
            f"op {op.name!r}: its rule counts {flops:.3g} FLOPs. Write FLOPs that are 0 or more"
        )
    return flops


def _slots_of(
    term: Term,
    name: str,
    names: Sequence[str],
    position: int,
    refinement: Refinement,
    where: Mapping[tuple[Factor, int], int],
    parsed: Notation,
    tensors: Mapping[str, TensorInfo],
) -> dict[int, int]:
    """Part -> slot for one term of an op. names: the tensors of all its terms."""
    slots = {(slot.dim, slot.inner): k for k, slot in enumerate(tensors[name].slots)}
    slot_of: dict[int, int] = {}
    uses = refinement.uses[position]
    for use in uses.uses:
        factor = use.factor
        if names[use.term] != name or not any(factor in product for product in term[use.dim]):
            continue
        if factor in uses.loose:
            majors = [k for (dim, _), k in slots.items() if dim == use.dim]
            leader = (parsed.follows.get(factor, factor), 1)
            if majors and leader in where:
                slot_of[where[leader]] = min(majors)
            continue
        for cut in (*refinement.factor_cuts[position].get(factor, ()), 1):
            slot = slots.get((use.dim, use.inner * cut))
            if slot is not None:
                slot_of[where[factor, cut]] = slot
    return slot_of


def _with_loose_extents(
    parts: Sequence[FactorPart],
    ports: Sequence[OpPort],
    tensors: Mapping[str, TensorInfo],
    *,
    has_chunks: bool,
) -> tuple[FactorPart, ...]:
    """The parts with sizes that divide their extents in all tensors.

    Slots with chunks can be sharded only by the op that states the chunks.
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


def _refined_notation(
    parsed: Notation, factor_cuts: Mapping[Factor, Cuts], blocked: frozenset[Factor]
) -> str:
    """The notation of a rule in which every factor is the product of its parts.

    A part follows the part of its leader at the same place, and may follow every part.
    """

    def names(factor: Factor) -> list[str]:
        count = len(factor_cuts.get(factor, ())) + 1
        joint = "_" if factor[-1].isdigit() else ""
        return [factor] if count == 1 else [f"{factor}{joint}{j}" for j in range(count)]

    def shown(factor: Factor) -> list[str]:
        leaders = [name for f in parsed.may_follow.get(factor, ()) for name in names(f)]
        choice = "".join(f"@{leader}?" for leader in leaders)
        mark = "!" if factor in parsed.unsharded or factor in blocked else ""
        mark += "^" if factor in parsed.reused else ""
        mark += "~" if factor in parsed.halo else ""
        if factor not in parsed.follows:
            return [name + mark + choice for name in names(factor)]
        always = names(parsed.follows[factor])
        return [
            f"{name}{mark}@{always[min(j, len(always) - 1)]}"
            for j, name in enumerate(names(factor))
        ]

    def dim(parts: Segments) -> str:
        written = [" ".join(w for f in part for w in shown(f)) for part in parts]
        if len(written) == 1:
            return "1" if not written[0] else f"({written[0]})" if " " in written[0] else written[0]
        return f"({'|'.join(written)})"

    def terms(side: tuple[Term, ...]) -> str:
        return ", ".join(" ".join(dim(parts) for parts in term) for term in side)

    return f"{terms(parsed.inputs)} -> {terms(parsed.outputs)}"
