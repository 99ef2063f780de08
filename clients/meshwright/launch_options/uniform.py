"""The uniform part of a plan: degrees for the whole model, and the differences from them.

The degrees are derived from the layouts, so that searched plans have them too. Their sources are
the roles of the axes (`launch_options.roles`), the sharding of most parameter bytes and the stages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from meshwright.common.name_ranges import pattern
from meshwright.launch_options.roles import OpRoles, axis_roles, op_roles
from meshwright.schema import (
    DTYPE_BYTES,
    Degrees,
    Graph,
    Layout,
    ParameterPlan,
    Plan,
    PlanError,
    Setup,
    Stage,
)
from meshwright.schema.degrees import ZeroStage
from meshwright.schema.graph import DType
from meshwright.schema.plan import Padding
from meshwright.schema.uniform_degrees import Difference, Role, Uniform

_PRODUCTS = frozenset({"linear", "matmul", "attention", "expert_matmul", "conv"})
_STAGES: tuple[ZeroStage, ...] = (0, 1, 2, 3)
_NORMS = frozenset({"layer_norm", "rms_norm"})
# from the slowest axis to the fastest, as Megatron-LM, torchtitan and MindSpore place ranks
_ORDER: tuple[Role, ...] = ("dp", "ep", "cp", "tp")
# chosen: parameters up to this size stay replicated in every ZeRO stage; MindSpore's default
_SMALL_BYTES = 64 * 1024


def uniform_of(plan: Plan, graph: Graph, setup: Setup | None = None) -> Uniform:
    """The degrees of a plan; PlanError where the graph is not the plan's."""
    if graph.id != plan.graph:
        raise PlanError(f"the plan was made for the graph {plan.graph}, got {graph.id}")
    weighted = _weighted_ops(graph)
    stages = [_stage_degrees(stage, graph, weighted) for stage in plan.stages]
    # the stage with most of the arithmetic determines the degrees
    most = max(stages, key=lambda stage: sum(op.planned.compute_ns for op in stage.ops))
    symbols = {**graph.symbols, **(setup.symbols if setup is not None else {})}
    if setup is not None and setup.global_batch is not None:
        symbols["batch"] = setup.global_batch
    # the others are padded for ZeRO alone
    for_parts = [padding for padding in plan.padding if padding.size % most.degrees.tp]
    vocabulary = _padded_vocabulary(for_parts, graph)
    padded = frozenset() if vocabulary is None else frozenset({vocabulary.size})
    parts = [uneven for stage in stages for uneven in stage.uneven_parts(padded)]
    if vocabulary is None:
        parts += map(_padding, for_parts)
    states = [_padding(padding) for padding in plan.padding if padding not in for_parts]
    states += [uneven for stage in stages for uneven in stage.uneven_states()]
    differences = [difference for stage in stages for difference in stage.differences(most)]
    layers = _layers(plan)
    if layers is None:
        differences.append(("layers", "stages begin within layers"))
    recomputed_layers, unlike = _recomputed_layers(plan)
    differences += unlike
    return Uniform(
        degrees=most.degrees,
        zero_size=most.zero_size,
        pipeline_ranks=plan.schedule.ranks if plan.schedule is not None else 1,
        stages_per_rank=plan.schedule.stages_per_rank if plan.schedule is not None else 1,
        schedule=plan.schedule.kind if plan.schedule is not None else None,
        layers=layers or (),
        microbatches=plan.microbatches,
        global_batch=symbols.get("batch"),
        sequence=symbols.get("seq"),
        is_zigzag=bool(plan.order),
        precision=setup.precision if setup is not None else "graph",
        expert_dispatch=setup.expert_dispatch if setup is not None else "expert",
        dtype=dtype_of(graph),
        padded_vocabulary=None if vocabulary is None else vocabulary.padded,
        recompute=most.stage.recompute.policy if most.stage.recompute is not None else "none",
        recomputed_layers=recomputed_layers,
        repeats_communication=_repeats_communication(most.stage),
        gradient_buckets=_gradient_buckets(most.stage),
        copies=plan.copies or (setup.least_copies if setup is not None else 1),
        differing=tuple(_grouped_differences(differences)),
        uneven_parts=tuple(_grouped_differences(parts)),
        uneven_states=tuple(_grouped_differences(states)),
    )


@dataclass(frozen=True, slots=True)
class _StageDegrees:
    """The degrees of one stage, with the data that they are derived from."""

    stage: Stage
    ops: list[OpRoles]
    weighted: frozenset[str]  # ops that depend on a parameter
    roles: Mapping[str, Role | None]
    degrees: Degrees
    zero_size: int
    zero_of: Mapping[str, tuple[int, int]]  # parameter -> stage of ZeRO, over so many devices

    @property
    def sizes(self) -> dict[str, int]:
        """The devices of each axis."""
        return {str(axis.name): axis.size for axis in self.stage.mesh.axes}

    def uneven_parts(self, padded: frozenset[int]) -> Iterator[tuple[str, str]]:
        """Tensors that ops read or make in unequal parts. padded: sizes that are padded."""
        for tensor in self.stage.tensors:
            if what := _uneven_cut(tensor.rest.value, self.sizes, padded):
                yield tensor.tensor, what

    def uneven_states(self) -> Iterator[tuple[str, str]]:
        """Parameters whose states at rest are unequal parts."""
        for parameter in self.stage.parameters:
            for layout in (parameter.value, parameter.gradient, parameter.optimizer):
                what = layout and _uneven_cut(layout, self.sizes, frozenset())
                if what:
                    yield parameter.tensor, what
                    break

    def differences(self, most: _StageDegrees) -> Iterator[tuple[str, str]]:
        """The names of ops and tensors that differ from the degrees, each with the difference."""
        sizes = self.sizes
        for axis, role in self.roles.items():
            if role is None:
                yield f"axis {axis}", f"its {sizes[axis]} devices repeat each other's work"
        order = [role for role in self.roles.values() if role is not None]
        if order != sorted(order, key=_ORDER.index):
            axes = ", ".join(f"{axis}={role}" for axis, role in self.roles.items() if role)
            yield (
                "ranks",
                f"the axes are {axes}, slowest first; launchers place tp on neighboring ranks, "
                "then cp, ep and dp",
            )
        if self.degrees != most.degrees:
            yield f"stage of {self.stage.ops[0].op}", f"it has {self.degrees}"
        for op in self.ops:
            if op.planned.op not in self.weighted:
                continue  # masks, rotary tables, labels: every device computes its part
            if what := _op_difference(op, self.roles, most.degrees):
                yield op.planned.op, what
        for parameter in self.stage.parameters:
            if parameter.on_host:
                yield parameter.tensor, f"its {', '.join(parameter.on_host)} is on the host"
            if parameter.sparse_gradient:
                yield parameter.tensor, "its gradient is rows that were looked up"
            if parameter.owner:
                yield parameter.tensor, "one device of a group holds its whole optimizer state"
            zero = self.zero_of.get(parameter.tensor)
            wanted = (most.degrees.zero, most.zero_size if most.degrees.zero else 1)
            if zero is not None and zero != wanted:
                stage, ways = zero
                yield (
                    parameter.tensor,
                    f"it is sharded as in ZeRO-{stage} over {ways} devices"
                    if stage
                    else "it is replicated",
                )


def _op_difference(op: OpRoles, roles: Mapping[str, Role | None], degrees: Degrees) -> str:
    on = op.on
    is_product = op.op.kind in _PRODUCTS
    differences = []
    for axis, role in roles.items():
        actual = on.get(axis)
        expected = role
        if role == "ep" and not op.has("ep"):
            expected = "dp"
        if role == "ep" and op.op.kind in ("moe_dispatch", "moe_combine"):
            expected = "dp"  # the all-to-all sends tokens from here
        if expected is None or actual == expected:
            continue
        if actual is None:
            may_rest = expected == "tp" and not is_product
            if not may_rest and op.has(expected):
                differences.append(f"{axis} does not cut it")
            continue
        if role == "ep" and actual == "tp" and not is_product:
            continue  # between the products of experts
        if expected == "tp" and actual == "cp" and degrees.sequence_parallel and not is_product:
            continue
        what = {"dp": "the batch", "cp": "the sequence", "ep": "experts", "tp": "other dims"}[
            actual
        ]
        differences.append(f"{axis} cuts {what} of it")
    return "; ".join(differences)


def _stage_degrees(stage: Stage, graph: Graph, weighted: frozenset[str]) -> _StageDegrees:
    ops = op_roles(stage, graph)
    roles = axis_roles(stage, ops)
    sizes = {str(axis.name): axis.size for axis in stage.mesh.axes}
    ways = {
        kind: prod(sizes[axis] for axis, role in roles.items() if role == kind)
        for kind in ("dp", "tp", "cp", "ep")
    }
    shared = {axis for axis, role in roles.items() if role != "tp"}
    read_over = _reader_axes(ops)
    dtypes = {tensor.name: tensor.dtype for tensor in graph.tensors}
    bytes_by_parameter = {
        parameter.tensor: prod(dim.size for dim in parameter.value.dims)
        * DTYPE_BYTES[dtypes[parameter.tensor]]
        for parameter in stage.parameters
        if parameter.gradient is not None
    }
    zero_of = {
        parameter.tensor: _zero(
            parameter, read_over.get(parameter.tensor, frozenset()), shared, sizes
        )
        for parameter in stage.parameters
        if bytes_by_parameter.get(parameter.tensor, 0) > _SMALL_BYTES
        and _has_replicas(read_over.get(parameter.tensor, frozenset()), shared, sizes)
    }
    bytes_by_zero: Counter[tuple[int, int]] = Counter()
    for parameter in stage.parameters:
        if parameter.tensor in zero_of:
            bytes_by_zero[zero_of[parameter.tensor]] += bytes_by_parameter[parameter.tensor]
    zero, zero_size = (
        max(bytes_by_zero, key=lambda key: bytes_by_zero[key]) if bytes_by_zero else (0, 1)
    )
    degrees = Degrees(
        dp=ways["dp"] * ways["ep"],
        tp=ways["tp"],
        cp=ways["cp"],
        ep=ways["ep"],
        zero=_stage_of_zero(zero),
        sequence_parallel=ways["tp"] > 1 and _norms_on_sequence(ops, roles),
    )
    return _StageDegrees(stage, ops, weighted, roles, degrees, zero_size, zero_of)


def _padded_vocabulary(paddings: Sequence[Padding], graph: Graph) -> Padding | None:
    """The padding of the vocabulary, if no other size is padded."""
    sizes = {(padding.size, padding.padded) for padding in paddings}
    tables = {op.inputs[0] for op in graph.ops if op.kind == "embedding" and op.inputs}
    if len(sizes) != 1 or not any(padding.tensor in tables for padding in paddings):
        return None
    return paddings[0]


def _padding(padding: Padding) -> tuple[str, str]:
    what = f"dim {padding.dim} is stored padded from {padding.size} to {padding.padded}"
    return padding.tensor, what


def dtype_of(graph: Graph) -> DType | None:
    """The dtype of most products, by that of their first input."""
    dtypes = {tensor.name: tensor.dtype for tensor in graph.tensors}
    counts = Counter(dtypes[op.inputs[0]] for op in graph.ops if op.kind in _PRODUCTS and op.inputs)
    return max(counts, key=lambda dtype: counts[dtype], default=None)


def _weighted_ops(graph: Graph) -> frozenset[str]:
    """Names of the ops that depend on a parameter."""
    live = {tensor.name for tensor in graph.tensors if tensor.role == "parameter"}
    names = set()
    for op in graph.topological_order():
        if not live.isdisjoint(op.inputs):
            live.update(op.outputs)
            names.add(op.name)
    return frozenset(names)


def _stage_of_zero(zero: int) -> ZeroStage:
    return next(stage for stage in _STAGES if stage == zero)


def _norms_on_sequence(ops: Iterable[OpRoles], roles: Mapping[str, Role | None]) -> bool:
    tensor = {axis for axis, role in roles.items() if role == "tp"}
    norms = [op for op in ops if op.op.kind in _NORMS]
    split = [op for op in norms if tensor & {a for a, role in op.on.items() if role == "cp"}]
    return 2 * len(split) > len(norms)


def _reader_axes(ops: Iterable[OpRoles]) -> dict[str, frozenset[str]]:
    """The axes, by tensor, over which any reader cuts the tensor."""
    read_over: dict[str, frozenset[str]] = {}
    for op in ops:
        for place, name in enumerate(op.op.inputs):
            axes = op.axes_of_input(place)
            read_over[name] = read_over.get(name, frozenset()) | axes
    return read_over


def _has_replicas(read: frozenset[str], shared: set[str], sizes: Mapping[str, int]) -> bool:
    """Whether several devices read one part of a parameter; experts on all of dp have no replicas
    to shard over."""
    return prod(sizes[axis] for axis in shared - read) > 1


def _zero(
    parameter: ParameterPlan, read: frozenset[str], shared: set[str], sizes: Mapping[str, int]
) -> tuple[int, int]:
    """The ZeRO stage of a parameter, and the number of devices that share it."""
    for stage, layout in ((3, parameter.value), (2, parameter.gradient), (1, parameter.optimizer)):
        if (_axes(layout) - read) & shared:
            finest = (_axes(parameter.optimizer) - read) & shared
            # experts have fewer replicas: sharding over all of them is the finest possible
            over = shared if finest == shared - read else finest
            return stage, prod(sizes[axis] for axis in over)
    return 0, 1


def _axes(layout: Layout | None) -> set[str]:
    if layout is None:
        return set()
    return {str(axis) for dim in layout.dims for part in dim.parts for axis in part.axes}


def _uneven_cut(layout: Layout, sizes: Mapping[str, int], padded: frozenset[int]) -> str | None:
    """The uneven cut of a layout, or None; launchers cut into equal parts.

    padded: sizes that are padded.
    """
    for number, dim in enumerate(layout.dims):
        for part in dim.parts:
            ways = prod(sizes[axis] for axis in part.axes)
            if (part.chunks or part.size % ways) and part.size not in padded:
                return f"dim {number} of {dim.size} is cut unevenly over {ways} devices"
    return None


def _layers(plan: Plan) -> tuple[int, ...] | None:
    """Layers of each stage; () without numbered layers, None where a stage cuts a layer."""
    numbered = [
        {_layer(op.op) for op in stage.ops if op.kind != "receive"} - {None}
        for stage in plan.stages
    ]
    count = sum(map(len, numbered))
    if not count:
        return ()
    if len(set().union(*numbered)) < count:
        return None
    return tuple(map(len, numbered))


def _layer(op: str) -> str | None:
    """The name of an op up to its first number, e.g. `model.layers.3`; None where it has none."""
    path = op.split(".")
    place = next((k for k, word in enumerate(path[:-1]) if word.isdecimal()), None)
    return None if place is None else ".".join(path[: place + 1])


def _repeats_communication(stage: Stage) -> bool:
    """Whether at least half of the redistributions of recomputed values are repeated."""
    segments = stage.recompute.segments if stage.recompute is not None else ()
    again = {op for segment in segments for op in segment.again}
    flags = [
        edge.again
        for edge in stage.redistributions
        if edge.traffic == "activation" and edge.forward and edge.op in again
    ]
    return 2 * sum(flags) >= len(flags)


def _gradient_buckets(stage: Stage) -> int | None:
    gradients = [
        bucket
        for bucket in stage.buckets
        if bucket.collective in ("all_reduce", "reduce_scatter") and bucket.direction != "forward"
    ]
    return len(gradients) or None


def _recomputed_layers(plan: Plan) -> tuple[int | None, list[tuple[str, str]]]:
    """The layers of each stage that are recomputed, None for all, and what differs from that."""
    policies = [stage.recompute.policy if stage.recompute else "none" for stage in plan.stages]
    if len(set(policies)) > 1:
        return None, [("recompute", f"the stages have the policies {', '.join(policies)}")]
    saved: list[list[str]] = []
    counts: list[tuple[int, int]] = []  # recomputed layers, all layers
    for stage in plan.stages:
        segments = stage.recompute.segments if stage.recompute is not None else ()
        if not segments:
            return None, []
        recomputed = {_layer(op) for segment in segments for op in segment.again}
        layers = dict.fromkeys(_layer(op.op) for op in stage.ops if op.kind != "receive")
        names = [name for name in layers if name is not None]
        flags = [name in recomputed for name in names]
        saved.append([name for name in names if name not in recomputed])
        is_prefix = flags == sorted(flags, reverse=True)
        counts.append((sum(flags) if is_prefix else -1, len(flags)))
    most = max(count for count, _ in counts)
    if all(count == min(most, layers) for count, layers in counts) and policies[0] == "full":
        return (most if any(saved) else None), []
    return None, [
        (name, "nothing of it is recomputed") for names in saved for name in sorted(names)
    ]


def _grouped_differences(differences: Iterable[tuple[str, str]]) -> Iterator[Difference]:
    counts = Counter((pattern(name), what) for name, what in differences)
    for (name, what), count in counts.items():
        yield Difference(name=name, count=count, what=what)
