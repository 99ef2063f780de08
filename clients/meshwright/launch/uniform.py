"""The uniform part of a plan: degrees for the whole model, and what differs from them.

Degrees are read off the layouts themselves: which axes lie on what (`launch.roles`), how finely
most bytes of the parameters lie, which stages there are. So a plan that was searched has them too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from meshwright.folding import pattern
from meshwright.launch.roles import OpRoles, axis_roles, op_roles
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
from meshwright.schema.uniform import Difference, Role, Uniform

_PRODUCTS = frozenset({"linear", "matmul", "attention", "expert_matmul", "conv"})
_STAGES: tuple[ZeroStage, ...] = (0, 1, 2, 3)
_NORMS = frozenset({"layer_norm", "rms_norm"})
# so many or fewer stay whole whatever the stage: the default threshold of MindSpore, and ours
_SMALL_BYTES = 64 * 1024


def uniform_of(plan: Plan, graph: Graph, setup: Setup | None = None) -> Uniform:
    """The degrees of a plan; PlanError where the graph is another one than the plan's."""
    if graph.id != plan.graph:
        raise PlanError(f"the plan was made for the graph {plan.graph}, got {graph.id}")
    weighted = _weighted(graph)
    stages = [_read(stage, graph, weighted) for stage in plan.stages]
    # the stage with most of the arithmetic speaks for all
    most = max(stages, key=lambda own: sum(op.planned.compute_ns for op in own.ops))
    symbols = {**graph.symbols, **(setup.symbols if setup is not None else {})}
    if setup is not None and setup.global_batch is not None:
        symbols["batch"] = setup.global_batch
    differing = [own for stage in stages for own in stage.differing(most)]
    layers = _layers(plan)
    if layers is None:
        differing.append(("layers", "stages begin within layers"))
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
        recompute=most.stage.recompute.policy if most.stage.recompute is not None else "none",
        copies=plan.copies or (setup.least_copies if setup is not None else 1),
        differing=tuple(_alike(differing)),
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """A stage, read."""

    stage: Stage
    ops: list[OpRoles]
    weighted: frozenset[str]  # ops that depend on a parameter
    roles: Mapping[str, Role | None]
    degrees: Degrees
    zero_size: int
    zero_of: Mapping[str, tuple[int, int]]  # parameter -> stage of ZeRO, over so many devices

    def differing(self, most: _Read) -> Iterator[tuple[str, str]]:
        """Names, and what they do that the degrees do not say."""
        sizes = {str(axis.name): axis.size for axis in self.stage.mesh.axes}
        for axis, role in self.roles.items():
            if role is None:
                yield f"axis {axis}", f"its {sizes[axis]} devices repeat each other's work"
        if self.degrees != most.degrees:
            yield f"stage of {self.stage.ops[0].op}", f"it has {self.degrees}"
        for own in self.ops:
            if own.planned.op not in self.weighted:
                continue  # masks, rotary tables, labels: every device makes what it needs
            if what := _otherwise(own, self.roles, most.degrees):
                yield own.planned.op, what
        for parameter in self.stage.parameters:
            if parameter.sparse_gradient:
                yield parameter.tensor, "its gradient is rows that were looked up"
            if parameter.owner:
                yield parameter.tensor, "its optimizer state lies whole on one device of a group"
            zero = self.zero_of.get(parameter.tensor)
            wanted = (most.degrees.zero, most.zero_size if most.degrees.zero else 1)
            if zero is not None and zero != wanted:
                stage, ways = zero
                yield (
                    parameter.tensor,
                    f"it lies as in ZeRO-{stage} over {ways} devices" if stage else "it is whole",
                )


def _otherwise(own: OpRoles, roles: Mapping[str, Role | None], degrees: Degrees) -> str:
    on = own.on
    is_product = own.op.kind in _PRODUCTS
    said = []
    for axis, role in roles.items():
        lies = on.get(axis)
        wanted = role
        if role == "ep" and not own.has("ep"):
            wanted = "dp"
        if role == "ep" and own.op.kind in ("moe_dispatch", "moe_combine"):
            wanted = "dp"  # tokens are sent from here
        if wanted is None or lies == wanted:
            continue
        if lies is None:
            may_rest = wanted == "tp" and not is_product
            if not may_rest and own.has(wanted):
                said.append(f"{axis} does not cut it")
            continue
        if role == "ep" and lies == "tp" and not is_product:
            continue  # between the products of experts
        if wanted == "tp" and lies == "cp" and degrees.sequence_parallel and not is_product:
            continue
        what = {"dp": "the batch", "cp": "the sequence", "ep": "experts", "tp": "other dims"}[lies]
        said.append(f"{axis} cuts {what} of it")
    return "; ".join(said)


def _read(stage: Stage, graph: Graph, weighted: frozenset[str]) -> _Read:
    ops = op_roles(stage, graph)
    roles = axis_roles(stage, ops)
    sizes = {str(axis.name): axis.size for axis in stage.mesh.axes}
    ways = {
        kind: prod(sizes[axis] for axis, role in roles.items() if role == kind)
        for kind in ("dp", "tp", "cp", "ep")
    }
    shared = {axis for axis, role in roles.items() if role != "tp"}
    read_over = _read_over(ops)
    dtypes = {tensor.name: tensor.dtype for tensor in graph.tensors}
    whole = {
        own.tensor: prod(dim.size for dim in own.value.dims) * DTYPE_BYTES[dtypes[own.tensor]]
        for own in stage.parameters
        if own.gradient is not None
    }
    zero_of = {
        own.tensor: _zero(own, read_over.get(own.tensor, frozenset()), shared, sizes)
        for own in stage.parameters
        if whole.get(own.tensor, 0) > _SMALL_BYTES
    }
    bytes_of: Counter[tuple[int, int]] = Counter()
    for own in stage.parameters:
        if own.tensor in zero_of:
            bytes_of[zero_of[own.tensor]] += whole[own.tensor]
    zero, zero_size = max(bytes_of, key=lambda key: bytes_of[key]) if bytes_of else (0, 1)
    degrees = Degrees(
        dp=ways["dp"] * ways["ep"],
        tp=ways["tp"],
        cp=ways["cp"],
        ep=ways["ep"],
        zero=_stage_of_zero(zero),
        sequence_parallel=ways["tp"] > 1 and _norms_on_sequence(ops, roles),
    )
    return _Read(stage, ops, weighted, roles, degrees, zero_size, zero_of)


def _weighted(graph: Graph) -> frozenset[str]:
    """Names of the ops that depend on a parameter."""
    live = {tensor.name for tensor in graph.tensors if tensor.role == "parameter"}
    found = set()
    for op in graph.topological_order():
        if not live.isdisjoint(op.inputs):
            live.update(op.outputs)
            found.add(op.name)
    return frozenset(found)


def _stage_of_zero(zero: int) -> ZeroStage:
    return next(stage for stage in _STAGES if stage == zero)


def _norms_on_sequence(ops: Iterable[OpRoles], roles: Mapping[str, Role | None]) -> bool:
    tensor = {axis for axis, role in roles.items() if role == "tp"}
    norms = [own for own in ops if own.op.kind in _NORMS]
    split = [own for own in norms if tensor & {a for a, role in own.on.items() if role == "cp"}]
    return 2 * len(split) > len(norms)


def _read_over(ops: Iterable[OpRoles]) -> dict[str, frozenset[str]]:
    """By tensor: the axes over which any reader has it cut."""
    found: dict[str, frozenset[str]] = {}
    for own in ops:
        for place, name in enumerate(own.op.inputs):
            axes = own.axes_of_input(place)
            found[name] = found.get(name, frozenset()) | axes
    return found


def _zero(
    own: ParameterPlan, read: frozenset[str], shared: set[str], sizes: Mapping[str, int]
) -> tuple[int, int]:
    """The stage, and over how many devices."""
    for stage, layout in ((3, own.value), (2, own.gradient), (1, own.optimizer)):
        if (_axes(layout) - read) & shared:
            finest = (_axes(own.optimizer) - read) & shared
            # experts have fewer copies: over all of these is as fine as can be
            over = shared if finest == shared - read else finest
            return stage, prod(sizes[axis] for axis in over)
    return 0, 1


def _axes(layout: Layout | None) -> set[str]:
    if layout is None:
        return set()
    return {str(axis) for dim in layout.dims for part in dim.parts for axis in part.axes}


def _layers(plan: Plan) -> tuple[int, ...] | None:
    """How many layers each stage has; () where nothing is numbered, None where a cut is in one."""
    numbered: list[dict[str, int]] = []
    for stage in plan.stages:
        layers: dict[str, int] = {}
        for op in stage.ops:
            path = op.op.split(".")
            place = next((k for k, word in enumerate(path[:-1]) if word.isdecimal()), None)
            if place is not None and op.kind != "receive":
                layers[".".join(path[: place + 1])] = 1
        numbered.append(layers)
    names = [name for layers in numbered for name in layers]
    if not names:
        return ()
    if len(set(names)) < len(names):
        return None
    return tuple(len(layers) for layers in numbered)


def _alike(differing: Iterable[tuple[str, str]]) -> Iterator[Difference]:
    counts = Counter((pattern(name), what) for name, what in differing)
    for (name, what), count in counts.items():
        yield Difference(name=name, count=count, what=what)
