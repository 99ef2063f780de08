"""Placements at the borders of modules: tensor parallelism in PyTorch's `parallelize_module`.

A module with parameters of its own runs on DTensors, and its inputs and output are redistributed at
its borders. Two flows pass tensors from one module to the next:

    local    plain ops, which belong to no such module, run on local shards. The plan must have no
             communication in them. The *tail*, from the last module to the loss, runs on DTensors
    DTensor  all ops run on DTensors, which redistribute by rules of their own where an op needs it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from meshwright.common.name_ranges import pattern
from meshwright.schema import Axis, Layout, Mesh, Op
from meshwright.schema.notation import parse_notation
from meshwright.stages.op_axes import on_reused, on_summed
from meshwright.stages.planned_stage import PlannedStage

# the dim that tensor-parallel ranks shard, or another state of the tensor; `any` is left as it is
Placement = int | Literal["replicate", "partial", "any"]


class NotPlaced(Exception):
    """The plan has a layout or a redistribution that the borders of modules do not express."""


@dataclass(frozen=True, slots=True)
class InputPlacement:
    """The placement in which a tensor arrives at a module in the local flow, and the needed one."""

    arrives: Placement
    needed: Placement


_ANY = InputPlacement("any", "any")


@dataclass(frozen=True, slots=True)
class ModulePlacement:
    """The placements of a module with parameters of its own.

    parameters  by the names of the graph
    input       of the tensors that the forward takes
    output      of the tensor that the forward returns
    is_local    whether the local flow passes the output on as a local shard: plain ops read it
    """

    parameters: Mapping[str, Placement]
    input: InputPlacement
    output: Placement
    is_local: bool


@dataclass(frozen=True, slots=True)
class ModulePlacements:
    """The placements of the modules of a stage.

    raw         the placements of parameters that plain ops read
    unplaced    the parameters without a placement, with their layouts
    no_local    the reason for which there is no local flow; empty if there is one
    of_tail     the parameters that plain ops of the tail read
    shards_classes  whether the loss runs on shards of its classes (a vocabulary)
    """

    modules: Mapping[str, ModulePlacement] = field(default_factory=dict)
    raw: Mapping[str, Placement] = field(default_factory=dict)
    unplaced: tuple[str, ...] = ()
    no_local: str = ""
    of_tail: frozenset[str] = frozenset()
    shards_classes: bool = False


def module_placements(planned: PlannedStage, axes: Sequence[Axis]) -> ModulePlacements:
    """The placements of a stage's modules on the ranks along `axes`, the tensor-parallel ones."""
    axes = tuple(axis for axis in planned.mesh.names if axis in axes)
    if planned.mesh.size(axes) == 1:
        return ModulePlacements()
    borders = _Borders(planned, axes)
    modules: dict[str, ModulePlacement] = {}
    reasons: Counter[tuple[str, str]] = Counter()
    for path in borders.modules:
        try:
            modules[path] = borders.of_module(path)
        except NotPlaced as why:
            reasons[pattern(path), str(why)] += 1
    unplaced = [
        f"module {name}{f' ({times} of them)' if times > 1 else ''}: {why}"
        for (name, why), times in reasons.items()
    ]
    raw: dict[str, Placement] = {}
    try:
        raw = borders.raw_parameters()
    except NotPlaced as why:
        unplaced.append(f"a parameter outside of modules of its own: {why}")
    return ModulePlacements(
        modules=modules,
        raw=raw,
        unplaced=tuple(unplaced),
        no_local="" if unplaced else borders.why_not_local(modules, raw),
        of_tail=borders.of_tail,
        shards_classes=any(
            op.kind == "cross_entropy" and not set(axes).isdisjoint(on_reused(planned.ops[op.name]))
            for op in planned.order
        ),
    )


def placement_of(layout: Layout, axes: Sequence[Axis], mesh: Mesh) -> Placement:
    """The placement of a layout on the ranks along `axes`; raises NotPlaced for other layouts."""
    axes = tuple(axis for axis in axes if mesh.size((axis,)) > 1)
    partial = [axis for axis in axes if axis in layout.partial]
    cut = [(d, axis) for d, dim in enumerate(layout.dims) for axis in dim.axes if axis in axes]
    if not partial and not cut:
        return "replicate"
    if partial:
        if cut or len(partial) < len(axes):
            raise NotPlaced(f"{layout} is partial over a part of the tensor-parallel ranks")
        return "partial"
    position = cut[0][0]
    dim = layout.dims[position]
    first = dim.parts[0]
    if dim.segments or not set(first.axes).intersection(axes):
        raise NotPlaced(
            f"tensor-parallel ranks cut each of the parts of dim {position} of {dim.size} (a fused "
            "weight has several, such as query, key and value), which DTensor has no placement for"
        )
    if first.chunks or tuple(first.axes[: len(axes)]) != axes:
        raise NotPlaced(f"{layout} is no shard of one dim over all tensor-parallel ranks")
    return position


class _Borders:
    """The borders of the modules of one stage."""

    def __init__(self, planned: PlannedStage, axes: tuple[Axis, ...]) -> None:
        self._planned = planned
        self._axes = axes
        self._order = planned.order
        self._producers = planned.graph.producers()
        self._readers: dict[str, list[tuple[Op, int]]] = {}
        for op in self._order:
            for k, name in enumerate(op.inputs):
                self._readers.setdefault(planned.source(name).root, []).append((op, k))
        self.modules = self._paths()
        self._module_of = {op.name: self._module(op) for op in self._order}

    def of_module(self, path: str) -> ModulePlacement:
        """The placements of a module; raises NotPlaced for a layout of a parameter."""
        parameters: dict[str, Placement] = {}
        inputs: dict[str, InputPlacement] = {}
        outputs = []
        for op in self._order:
            if self._module_of[op.name] != path:
                continue
            for k, name in enumerate(op.inputs):
                root = self._planned.source(name).root
                if root in self._planned.parameters:
                    placement = self._placement(self._planned.needed(op, k))
                    if parameters.setdefault(root, placement) != placement:
                        raise NotPlaced(f"its ops read {root!r} in two layouts")
                elif not self._is_made_in(root, path):
                    argument = self._argument(name, path)
                    needed = self._needed_as(argument, op, k)
                    before = inputs.setdefault(
                        argument, InputPlacement(self._arrival(root, argument), needed)
                    )
                    if before.needed != needed:
                        inputs[argument] = _ANY
            outputs += [
                name
                for name in op.outputs
                if name == self._planned.graph.loss or self._outer_readers(name, path)
            ]
        if len(outputs) == 1:
            output, is_local = self._output(outputs[0], path)
        else:
            output, is_local = "any", bool(outputs)
        # several inputs with different placements cannot be told apart in a call
        entry = inputs.popitem()[1] if len(set(inputs.values())) == 1 else _ANY
        return ModulePlacement(parameters, entry, output, is_local)

    def raw_parameters(self) -> dict[str, Placement]:
        """The placements of parameters that plain ops read; NotPlaced for another layout."""
        return {
            root: self._placement(self._planned.at_rest(root))
            for op in self._order
            if self._module_of[op.name] is None
            for root in (self._planned.source(name).root for name in op.inputs)
            if root in self._planned.parameters
        }

    @cached_property
    def of_tail(self) -> frozenset[str]:
        """The parameters that plain ops of the tail read."""
        return frozenset(self._raw(tail=True))

    def _raw(self, *, tail: bool) -> Iterator[str]:
        """The parameters that plain ops read, of the tail or of the others."""
        for op in self._order:
            if self._module_of[op.name] is None and self._is_tail(op) == tail:
                roots = (self._planned.source(name).root for name in op.inputs)
                yield from (root for root in roots if root in self._planned.parameters)

    def why_not_local(
        self, modules: Mapping[str, ModulePlacement], raw: Mapping[str, Placement]
    ) -> str:
        """The reason for which there is no local flow; empty if there is one."""
        if both := self.of_tail.intersection(self._raw(tail=False)):
            return f"the loss reads {min(both)!r}, and other ops do"
        for name, placement in raw.items():
            if placement != "replicate":
                return f"plain ops read the parameter {name!r}, which is sharded"
        for path, placed in modules.items():
            if placed.is_local and placed.output in ("partial", "any"):
                return f"plain ops read the output of {path!r} in a layout without a placement"
            if placed.input.arrives in ("partial", "any"):
                return f"an input of {path!r} has a layout without a placement"
        for op in self._order:
            if self._module_of[op.name] is None:
                try:
                    if self._is_tail(op):
                        self._check_tail(op)
                    else:
                        self._check_plain(op)
                except NotPlaced as why:
                    return f"op {op.name!r}: {why}"
        return ""

    def _check_plain(self, op: Op) -> None:
        """Raise NotPlaced if an op on local shards would not compute its part of the result."""
        planned, entry = self._planned, self._planned.ops[op.name]
        if entry.rule is None or all(planned.is_free(name) for name in op.outputs):
            return
        on_op = self._on_op(op)
        for k, name in enumerate(op.inputs):
            root = planned.source(name).root
            needed = self._placement(planned.needed(op, k))
            is_parameter = root in planned.parameters
            if needed != ("replicate" if is_parameter else self._arrival(root, root)):
                raise NotPlaced(f"input {k} is redistributed outside of a module with parameters")
            if on_op and needed == "replicate" and (is_parameter or self._has_gradient(root)):
                raise NotPlaced(f"the gradient of input {k} is partial")
        rule = parse_notation(entry.rule)
        moved = {f for f, axes in entry.strategy.items() if on_op & set(axes)}
        communicates = {*on_reused(entry), *on_summed(entry), *entry.partial}
        if communicates & on_op or moved & rule.halo or entry.followers:
            raise NotPlaced("it communicates over tensor-parallel ranks")

    def _check_tail(self, op: Op) -> None:
        """Raise NotPlaced if a local shard comes beside the DTensors of the tail."""
        for name in op.inputs:
            root = self._planned.source(name).root
            producer = self._producers.get(root)
            if producer is None or producer.name not in self._module_of:
                continue
            path = self._module_of[producer.name]
            is_dtensor = not self._output(root, path)[1] if path else self._is_tail(producer)
            if not is_dtensor and self._arrival(root, root) != "replicate":
                raise NotPlaced(f"the loss reads a local shard of {root!r}")

    def _output(self, root: str, path: str) -> tuple[Placement, bool]:
        """The placement in which a module passes on a value, and whether plain ops read it."""
        readers = self._outer_readers(root, path)
        rest = self._placement_or_any(self._planned.at_rest(root))
        needs = [
            (self._module_of[op.name], self._placement_or_any(self._planned.needed(op, k)))
            for op, k in readers
        ]
        if all(self._is_tail(op) for op, _ in readers):
            return (needs[0][1] if needs and rest == "partial" else rest), False
        plain = {need for module, need in needs if module is None}
        if plain:
            return (plain.pop() if len(plain) == 1 else "any"), True
        of_all = {need for _, need in needs}
        return (of_all.pop() if len(of_all) == 1 else rest), False

    def _arrival(self, root: str, name: str) -> Placement:
        """The placement in which a value arrives at its readers, as the tensor `name`."""
        planned = self._planned
        producer = self._producers.get(root)
        if planned.is_free(root) or producer is None:
            return "replicate"  # every rank computes or loads the whole
        layouts = [planned.at_rest(root)]
        path = self._module_of[producer.name]
        if path is not None:
            placement, _ = self._output(root, path)
            layouts += [planned.needed(op, k) for op, k in self._outer_readers(root, path)]
            layouts = [own for own in layouts if self._placement_or_any(own) == placement]
        return self._placement_or_any(planned.seen(name, layouts[0])) if layouts else "any"

    def _needed_as(self, name: str, op: Op, k: int) -> Placement:
        """The placement of a tensor from which an op needs an input, as the tensor `name`."""
        needed = self._planned.needed(op, k)
        if self._planned.is_free(self._planned.source(name).root):
            return self._placement_or_any(needed)
        return self._placement_or_any(self._planned.seen(name, needed))

    def _argument(self, name: str, path: str) -> str:
        """The tensor that enters a module: the input of an op before the module's own views."""
        while name not in self._planned.tensors:
            producer = self._producers.get(name)
            if producer is None or not _is_within(producer.module, path):
                break
            name = producer.inputs[0]
        return name

    def _outer_readers(self, root: str, path: str) -> list[tuple[Op, int]]:
        return [e for e in self._readers.get(root, ()) if self._module_of[e[0].name] != path]

    def _is_made_in(self, root: str, path: str) -> bool:
        producer = self._producers.get(root)
        return producer is not None and self._module_of.get(producer.name) == path

    def _paths(self) -> tuple[str, ...]:
        """Paths of modules with parameters that have no other such module inside."""
        paths = {
            op.module
            for op in self._order
            if op.module
            and any(self._planned.source(n).root in self._planned.parameters for n in op.inputs)
        }
        inside = {parent for path in paths for parent in _parents(path)}
        return tuple(sorted(paths - inside))

    def _module(self, op: Op) -> str | None:
        paths = {op.module, *_parents(op.module)}
        return next((path for path in self.modules if path in paths), None)

    @cached_property
    def _before_modules(self) -> frozenset[str]:
        """Names of ops from which another module with placements is reached."""
        reaching: set[str] = set()
        for op in reversed(self._order):
            own = self._module_of[op.name]
            for name in op.outputs:
                for reader, _ in self._readers.get(name, ()):
                    other = self._module_of[reader.name]
                    if other not in (None, own) or reader.name in reaching:
                        reaching.add(op.name)
        return frozenset(reaching)

    @cached_property
    def _after_modules(self) -> frozenset[str]:
        """Names of ops that depend on a module with placements."""
        live = {name for op in self._order if self._module_of[op.name] for name in op.outputs}
        names = set()
        for op in self._order:
            if any(self._planned.source(name).root in live for name in op.inputs):
                live.update(op.outputs)
                names.add(op.name)
        return frozenset(names)

    def _is_tail(self, op: Op) -> bool:
        """Whether a plain op depends on a module with placements, and no such module on it."""
        return (
            self._module_of[op.name] is None
            and op.name in self._after_modules
            and op.name not in self._before_modules
        )

    def _on_op(self, op: Op) -> set[Axis]:
        """The tensor-parallel axes on an op."""
        entry = self._planned.ops[op.name]
        return {axis for axes in entry.strategy.values() for axis in axes} & set(self._axes)

    def _has_gradient(self, root: str) -> bool:
        tensor = self._planned.tensors.get(root)
        return tensor is not None and tensor.rest.gradient is not None

    def _placement(self, layout: Layout) -> Placement:
        return placement_of(layout, self._axes, self._planned.mesh)

    def _placement_or_any(self, layout: Layout) -> Placement:
        try:
            return self._placement(layout)
        except NotPlaced:
            return "any"


def _is_within(path: str, module: str) -> bool:
    return path == module or path.startswith(f"{module}.")


def _parents(path: str) -> Iterator[str]:
    while "." in path:
        path = path.rpartition(".")[0]
        yield path
