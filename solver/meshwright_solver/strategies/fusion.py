"""Communication fusion: what a tensor pays of a bucket's latency, and which tensors share one.

    mode    share of a collective's latency
    auto    min(1, bytes / 25 MiB); a value that is too small for the optimizer to shard pays all
    size    min(1, bytes / size)
    index   groups / gradients: all groups together pay one latency each

All bytes of a bucket pay their bandwidth. Buckets fill in the order in which their tensors come
about: values as ops read them, gradients the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from math import prod
from operator import attrgetter

from meshwright.schema import (
    DTYPE_BYTES,
    Bucket,
    Fusion,
    Graph,
    ParameterPlan,
    Redistribution,
    Stage,
    Step,
)
from meshwright.schema.fusion import CollectiveFusion
from meshwright.schema.plan import Direction
from meshwright_solver.common.identity_keys import IdentityKey, IdentityKeys

MIB = 1 << 20
_STEPS: tuple[tuple[Direction, Callable[[Redistribution], tuple[Step, ...]]], ...] = (
    ("forward", attrgetter("forward")),
    ("backward", attrgetter("backward")),
    ("step", attrgetter("per_step")),
)
# PyTorch DistributedDataParallel's default, bucket_cap_mb = 25
BUCKET_BYTES = 25 * MIB


def latency_shares(
    fusion: Fusion, size_bytes: int, *, is_alone: bool, gradients: int
) -> tuple[tuple[str, float], ...]:
    """By kind of collective. is_alone: in no bucket of `auto`. gradients: of the whole graph."""
    auto = 1.0 if is_alone else min(1.0, size_bytes / BUCKET_BYTES)
    found = dict.fromkeys(("all_to_all", "permute", "broadcast"), auto)
    for kind in Fusion.model_fields:
        own: CollectiveFusion = getattr(fusion, kind)
        if own.mode == "index":
            groups = 1 + sum(number < gradients for number in own.index)
            found[kind] = groups / max(1, gradients)
        elif own.size_mb is not None:
            found[kind] = min(1.0, size_bytes / (own.size_mb * MIB)) if own.size_mb else 1.0
        else:
            found[kind] = auto
    return tuple(found.items())


def buckets_of(stage: Stage, graph: Graph, fusion: Fusion, least_bytes: int) -> tuple[Bucket, ...]:
    """The buckets of several tensors of a stage's parameters and gradients.

    least_bytes: of a value that is in a bucket of `auto`.
    """
    buckets: dict[tuple[Hashable, int], list[tuple[str, Direction, Step]]] = {}
    filled: dict[Hashable, tuple[int, int]] = {}  # of the open bucket, its number and bytes
    reduced = 0
    small = _small(stage.parameters, graph, least_bytes)
    for moved, direction, step in _collectives(stage, graph):
        own: CollectiveFusion = getattr(fusion, step.kind)
        key = (_type(moved, graph), step.kind, step.axes, direction)
        number, held = filled.get(key, (0, 0))
        if own.mode == "index":
            number = sum(last <= reduced for last in own.index)
        elif own.mode == "auto" and moved.traffic == "parameter" and moved.tensor in small:
            continue
        elif held and held + step.payload_bytes > _cap(own):
            number, held = number + 1, 0
        reduced += step.kind == "all_reduce"
        filled[key] = number, held + step.payload_bytes
        buckets.setdefault((key, number), []).append((moved.tensor, direction, step))
    return tuple(_bucket(own) for own in buckets.values() if len(own) > 1)


def _type(moved: Redistribution, graph: Graph) -> Hashable:
    """What has to be equal in a buffer: gradients are all of the setup's type."""
    return "gradient" if moved.traffic == "gradient" else graph.tensor(moved.tensor).dtype


def _bucket(own: list[tuple[str, Direction, Step]]) -> Bucket:
    _, direction, step = own[0]
    return Bucket(
        collective=step.kind,
        axes=step.axes,
        direction=direction,
        tensors=tuple(name for name, _, _ in own),
        payload_bytes=sum(step.payload_bytes for _, _, step in own),
    )


def _small(parameters: Sequence[ParameterPlan], graph: Graph, least_bytes: int) -> set[str]:
    """Those whose whole values have fewer bytes."""
    key_of = IdentityKeys()
    elements: dict[IdentityKey, int] = {}  # by layout, which many parameters share
    found = set()
    for own in parameters:
        value = own.value
        key = key_of(value)
        if key not in elements:
            elements[key] = prod(part.size for dim in value.dims for part in dim.parts)
        if elements[key] * DTYPE_BYTES[graph.tensor(own.tensor).dtype] < least_bytes:
            found.add(own.tensor)
    return found


def _cap(own: CollectiveFusion) -> int:
    return BUCKET_BYTES if own.size_mb is None else own.size_mb * MIB


def _collectives(stage: Stage, graph: Graph) -> Iterator[tuple[Redistribution, Direction, Step]]:
    """Of parameters and gradients that can be fused, in the order in which they come about."""
    first: dict[str, int] = {}
    for position, op in enumerate(graph.topological_order()):
        for name in op.inputs:
            first.setdefault(name, position)
    moved = [own for own in stage.redistributions if own.traffic != "activation"]
    moved.sort(key=lambda own: first.get(own.tensor, 0))
    gradients = [own for own in reversed(moved) if own.traffic == "gradient"]
    values = [own for own in moved if own.traffic == "parameter"]
    kinds = frozenset(Fusion.model_fields)
    moved = [*values, *gradients]
    for direction, steps_of in _STEPS:
        for own, steps in [(own, steps) for own in moved if (steps := steps_of(own))]:
            for step in steps:
                if step.kind in kinds:
                    yield own, direction, step
