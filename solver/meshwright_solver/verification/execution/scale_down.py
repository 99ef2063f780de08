"""Scaling down: the same graph and plan with small sizes, for the execution.

Every mesh axis becomes 2 devices. Slots and parts with the same index form one class. Each class
gets the least size, at least 2, that is divisible by all axes that a strategy or layout of the plan
puts on it together. Some classes are not free:

- sizes with symbols follow the symbols, which are scaled first
- small sizes (at most KEPT: kernel windows, top-k, fused projections) stay, where they divide
- classes over which a rule exchanges halos, or whose extents differ within one factor, shrink by
  one common divisor, so that strides and paddings still fit
- a sum of segments is as long as its segments together
- factors that have one length keep one length
- a dim with the user's own chunks gets as many chunks as its axes need, of two lengths
- a class that is loaded in an order of its own gets twice as many positions as its axes need: each
  part is two chunks
- a class with a span stays uneven: its last chunk, cut over all of its axes, is short, or empty
  where it is empty in the plan

The scaled problem has the same parts and slots. Small sizes can change them, as with two experts
and the best two of them. The sizes then grow; if that does not help, `ScaleError` names the op.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from meshwright.schema import Graph, Layout, Op, OpPlan, Setup, Stage
from meshwright.schema import Tensor as GraphTensor
from meshwright.schema.sizes import symbols_in
from meshwright_solver.common.union_find import Classes
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem, build_problem
from meshwright_solver.problem.uneven import Key, Uneven, index_classes
from meshwright_solver.verification.execution.scaled_mesh import scaled_mesh
from meshwright_solver.verification.execution.scaled_stage import scaled_stage
from meshwright_solver.verification.execution.symbol_sizes import SizeRequirement, SymbolSizes

KEPT = 16  # chosen: kernel windows, experts, segments of a fused projection
SCALES = (1, 2, 3)  # chosen: multiples of the least sizes, tried until the structure is the plan's
CHUNK = 2  # chosen: the least length at which a chunk can be short and not empty
# the factor of groups in the rules of convolutions and group norms; that of a depthwise convolution
_GROUPS = ("q", "g", "o")


class ScaleError(Exception):
    """The graph cannot be scaled down and keep its structure."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """A small problem and the plan's stage for it.

    chunks: the chunk counts of slots that are loaded in an order of their own.
    """

    problem: Problem
    stage: Stage
    chunks: Mapping[tuple[str, int], int] = field(default_factory=dict)


def scale_down(problem: Problem, stage: Stage, ordered: Collection[tuple[str, int]] = ()) -> Scaled:
    """The problem and stage with small sizes; raises ScaleError.

    ordered: the slots of sequences that are loaded in another order than their own.
    """
    for scale in SCALES:
        try:
            return _scale(problem, stage, scale, ordered)
        except ScaleError:
            if scale == SCALES[-1]:
                raise
    raise AssertionError("there are scales")


def _scale(
    problem: Problem, stage: Stage, scale: int, ordered: Collection[tuple[str, int]]
) -> Scaled:
    sizes = _Sizes(problem, stage, scale, ordered)
    graph = sizes.graph()
    setup = Setup(phase=problem.setup.phase, microbatches=1)
    small = build_problem(
        graph, problem.topology, setup, problem.calibration, remade=problem.remade
    )
    small = replace(small, uneven=Uneven(mode=problem.uneven.mode, spans=sizes.spans))
    for op, other in zip(problem.ops, small.ops, strict=True):
        same = [part.name for part in op.parts] == [part.name for part in other.parts]
        if not same or [p.slot_of for p in (*op.inputs, *op.outputs)] != [
            p.slot_of for p in (*other.inputs, *other.outputs)
        ]:
            raise ScaleError(
                f"op {op.name!r} has the rule {op.notation} over {_shapes(problem, op)} and, "
                f"scaled down, {other.notation} over {_shapes(small, other)}"
            )
    return Scaled(small, scaled_stage(stage, small), sizes.order)


@dataclass(slots=True)
class _Sizes:
    """The choice of a small size for every class of slots and parts."""

    problem: Problem
    stage: Stage
    scale: int
    ordered: Collection[tuple[str, int]]
    classes: Classes[Key] = field(init=False)
    spans: dict[Key, int] = field(default_factory=dict)
    chunks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    axes: dict[Key, set[frozenset[str]]] = field(default_factory=dict)
    order: dict[tuple[str, int], int] = field(default_factory=dict)

    def graph(self) -> Graph:
        """The graph with small sizes and no symbols."""
        self.classes = index_classes(self.problem.ops, self.problem.tensors)
        self._collect_axes()
        chosen = self._choose()
        tensors = []
        for info in self.problem.tensors.values():
            shape = [1] * len(info.shape)
            for k, slot in enumerate(info.slots):
                shape[slot.dim] *= chosen[self.find((info.name, k))]
            tensors.append(
                GraphTensor(
                    name=info.name,
                    shape=tuple(shape),
                    dtype=info.tensor.dtype,
                    role=info.tensor.role,
                    trainable=info.tensor.trainable,
                )
            )
            self.rows[info.name] = shape[0] if shape else 1
        graph = self.problem.graph
        return Graph(
            name=f"{graph.name} (scaled down)",
            tensors=tuple(tensors),
            ops=tuple(self._scale_op(op, chosen) for op in graph.ops),
            outputs=graph.outputs,
            loss=graph.loss,
        )

    def find(self, key: Key) -> Key:
        return self.classes.find(key)

    def _scale_op(self, op: Op, chosen: Mapping[Key, int]) -> Op:
        if op.rule is not None and op.rule.sizes:
            sizes = self._factor_sizes(op, chosen)
            stated = {factor: sizes[factor] for factor in op.rule.sizes}
            return op.model_copy(update={"rule": op.rule.model_copy(update={"sizes": stated})})
        if op.attrs.get("groups", 1) != 1:
            sizes = self._factor_sizes(op, chosen)
            groups = next(sizes[factor] for factor in _GROUPS if factor in sizes)
            return op.model_copy(update={"attrs": {**op.attrs, "groups": groups}})
        if "manual_split" not in op.attrs:
            return op
        # a table without chunks at rest is whole: one chunk
        lengths = self.chunks.get(op.inputs[0], (self.rows[op.inputs[0]],))
        return op.model_copy(update={"attrs": {**op.attrs, "manual_split": list(lengths)}})

    def _factor_sizes(self, op: Op, chosen: Mapping[Key, int]) -> dict[str, int]:
        position = self.problem.position_of[op.name]
        sizes: dict[str, int] = {}
        for j, part in enumerate(self.problem.ops[position].parts):
            size = chosen.get(self.find((position, j)), part.size)
            sizes[part.factor] = sizes.get(part.factor, 1) * size
        return sizes

    def _collect_axes(self) -> None:
        """Collect the sets of axes that lie together on a class, anywhere in the plan."""
        positions = self.problem.position_of
        for planned in self.stage.ops:
            position = positions[planned.op]
            op = self.problem.ops[position]
            for part, axes in _axes_on(op, planned).items():
                for port in (*op.inputs, *op.outputs):
                    slot = port.slot_of.get(part)
                    if slot is not None:
                        self._on((port.tensor, slot), axes)
                self._on((position, part), axes)
        for tensor in self.stage.tensors:
            for pair in (tensor.rest, tensor.read):
                if pair is not None:
                    self._on_layout(tensor.tensor, pair.value)
        for parameter in self.stage.parameters:
            for layout in (parameter.value, parameter.gradient, parameter.optimizer):
                if layout is not None:
                    self._on_layout(parameter.tensor, layout)
        for moved in self.stage.redistributions:
            for step in moved.steps:
                self._on_layout(moved.tensor, step.to)

    def _on_layout(self, tensor: str, layout: Layout) -> None:
        slots = self.problem.tensors[tensor].slots
        for d, dim in enumerate(layout.dims):
            slots_of_dim = [k for k, slot in enumerate(slots) if slot.dim == d]
            for k, part in zip(slots_of_dim, dim.parts, strict=False):
                self._on((tensor, k), part.axes)

    def _on(self, key: Key, axes: Sequence[str]) -> None:
        if axes:
            self.axes.setdefault(self.find(key), set()).add(frozenset(axes))

    def _choose(self) -> dict[Key, int]:
        old: dict[Key, int] = {}
        for info in self.problem.tensors.values():
            for k, slot in enumerate(info.slots):
                old[self.find((info.name, k))] = slot.size
        devices = {str(axis.name): axis.size for axis in scaled_mesh(self.stage).axes}
        needed = {
            key: math.lcm(
                1, *(math.prod(devices[a] for a in axes) for axes in self.axes.get(key, ()))
            )
            for key in old
        }
        spatial = self._spatial()
        divisor = self._common_divisor(spatial, old, needed)
        uneven = self._uneven_classes(old)
        if any(self.find(key) in uneven for key in self.ordered):
            raise ScaleError("a sequence is cut unevenly and loaded in an order of its own")
        ordered = {self.find(key) for key in self.ordered}
        chunks = 2 * math.lcm(2, *(needed[key] for key in ordered))
        needed.update(dict.fromkeys(ordered, chunks))
        self.order = dict.fromkeys(self.ordered, chunks)
        symbolic = self._symbol_sizes(old, needed, uneven).sizes(self.problem.graph.symbols)
        if symbolic is None:
            raise ScaleError("no small values of the symbols suit the axes of the plan")
        chosen = {}
        for key, size in old.items():
            if key in symbolic:
                chosen[key] = symbolic[key]
            elif key in spatial:
                chosen[key] = size // divisor
            elif key in uneven:
                short = CHUNK if uneven[key] else 1
                chosen[key] = CHUNK * needed[key] * self.scale - short
            elif size <= KEPT and size % needed[key] == 0:
                chosen[key] = size
            else:
                chosen[key] = max(2, needed[key]) * self.scale
        for info in self.problem.tensors.values():
            for k in info.chunks:
                self.chunks[info.name] = _small_chunks(needed[self.find((info.name, k))])
                chosen[self.find((info.name, k))] = sum(self.chunks[info.name])
        self._keep_longer(chosen, needed)
        self._sum_segments(chosen)
        self._equalize(chosen, needed)
        self._set_spans({key: chosen[key] for key in uneven}, needed)
        return chosen

    def _keep_longer(self, chosen: dict[Key, int], needed: Mapping[Key, int]) -> None:
        """Keep the input of a top-k or a slice longer than its output.

        A sliced dim has no axes. It is no multiple of its output, which would make another kind of
        slice.
        """
        for op in self.problem.ops:
            if op.op.kind not in ("topk", "slice"):
                continue
            read, written = op.inputs[0].tensor, op.outputs[0].tensor
            before, after = (self.problem.tensors[name] for name in (read, written))
            for dim, (long, short) in enumerate(zip(before.shape, after.shape, strict=True)):
                keys = [
                    [self.find((info.name, k)) for k, s in enumerate(info.slots) if s.dim == dim]
                    for info in (before, after)
                ]
                if long <= short:
                    continue
                if any(len(of_tensor) != 1 for of_tensor in keys):
                    continue
                (whole,), (rest,) = keys
                if chosen[whole] > chosen[rest] or whole == rest:
                    continue
                if op.op.kind == "slice" and needed[whole] == 1 and long % short:
                    chosen[whole] = chosen[rest] + 1
                elif op.op.kind == "topk":
                    chosen[whole] *= -(-chosen[rest] // chosen[whole])

    def _uneven_classes(self, old: Mapping[Key, int]) -> dict[Key, bool]:
        """Classes that the plan cuts unevenly, and whether their last chunk is empty."""
        sizes = {str(axis.name): axis.size for axis in self.stage.mesh.axes}
        ends_empty = {}
        for info in self.problem.tensors.values():
            for k in range(len(info.slots)):
                key = self.find((info.name, k))
                span = self.problem.uneven.span((info.name, k), tuple(sizes.values()))
                if span is not None and self.axes.get(key):
                    ways = max(math.prod(sizes[a] for a in axes) for axes in self.axes[key])
                    ends_empty[key] = span - old[key] >= span // ways
        return ends_empty

    def _set_spans(self, sizes: Mapping[Key, int], needed: Mapping[Key, int]) -> None:
        """Set the spans of the scaled problem, by slot and part."""
        spans = {key: -(-size // needed[key]) * needed[key] for key, size in sizes.items()}
        for key in list(self.classes.parent):
            root = self.find(key)
            if root in spans and spans[root] > sizes[root]:
                self.spans[key] = spans[root]

    def _sum_segments(self, chosen: dict[Key, int]) -> None:
        """Set the length of a dim that is a sum of segments to the sum of their lengths."""
        for op in self.problem.ops:
            if op.known is None:
                continue
            parsed = op.known.rule.parsed
            sizes = self._factor_sizes(op.op, chosen)
            ports = (*op.inputs, *op.outputs)
            for port, term in zip(ports, parsed.terms_of(len(ports)), strict=False):
                for d, dim in enumerate(term):
                    if len(dim) < 2:
                        continue
                    keys = [
                        self.find((port.tensor, k))
                        for k, slot in enumerate(self.problem.tensors[port.tensor].slots)
                        if slot.dim == d
                    ]
                    length = sum(math.prod(sizes[f] for f in product) for product in dim)
                    chosen[keys[-1]] = length // math.prod(chosen[key] for key in keys[:-1])

    def _equalize(self, chosen: dict[Key, int], needed: Mapping[Key, int]) -> None:
        """Give a factor in one part the length of its equal in several parts."""
        for position, op in enumerate(self.problem.ops):
            for pair in op.known.equal if op.known is not None else ():
                one, other = sorted((op.parts_of(factor) for factor in pair), key=len)
                if len(one) == len(other):
                    continue
                key = self.find((position, one[0]))
                length = math.prod(chosen[self.find((position, part))] for part in other)
                if len(one) > 1 or length % needed[key]:
                    raise ScaleError(
                        f"op {op.name!r}: {pair[0]} and {pair[1]} differ in their cuts"
                    )
                chosen[key] = length

    def _symbol_sizes(
        self, old: Mapping[Key, int], needed: Mapping[Key, int], uneven: Mapping[Key, bool]
    ) -> SymbolSizes:
        """The classes that are a whole dim with symbols in its length."""
        requirements = SymbolSizes()
        for info in self.problem.tensors.values():
            for d, size in enumerate(info.tensor.shape):
                slots = [k for k, slot in enumerate(info.slots) if slot.dim == d]
                if not isinstance(size, int) and len(slots) == 1 and symbols_in(size):
                    key = self.find((info.name, slots[0]))
                    wanted = SizeRequirement(needed[key], min(2, old[key]), uneven.get(key))
                    requirements.add(key, size, wanted)
        return requirements

    def _spatial(self) -> set[Key]:
        """Classes of dims that a rule shards with a halo."""
        keys: set[Key] = set()
        for op in self.problem.ops:
            if op.known is None or not op.known.rule.parsed.halo:
                continue
            halo = op.known.rule.parsed.halo
            for port in (*op.inputs, *op.outputs):
                for part, slot in port.slot_of.items():
                    if op.parts[part].factor in halo:
                        keys.add(self.find((port.tensor, slot)))
        return keys

    @staticmethod
    def _common_divisor(
        spatial: set[Key], old: Mapping[Key, int], needed: Mapping[Key, int]
    ) -> int:
        common = math.gcd(0, *(old[key] for key in spatial)) or 1
        for divisor in range(common, 0, -1):
            if common % divisor == 0 and all(
                old[key] // divisor % needed[key] == 0 and old[key] // divisor >= min(2, old[key])
                for key in spatial
            ):
                return divisor
        return 1


def _shapes(problem: Problem, op: OpInfo) -> str:
    ports = (*op.inputs, *op.outputs)
    return ", ".join("×".join(map(str, problem.tensors[port.tensor].shape)) for port in ports)


def _small_chunks(count: int) -> tuple[int, ...]:
    return tuple(CHUNK + k % 2 for k in range(count))


def _axes_on(op: OpInfo, planned: OpPlan) -> dict[int, tuple[str, ...]]:
    """The axes on every part of an op, those of the parts that it follows included."""
    axes_of: dict[int, tuple[str, ...]] = {}
    for j, part in enumerate(op.parts):
        axes = planned.strategy.get(part.name, ())
        led = [other.name for other in op.parts if other.factor in part.may_follow]
        follows = [a for name in led for a in planned.strategy.get(name, ())]
        axes_of[j] = (*axes, *(a for a in follows if a in planned.followers))
    return axes_of
