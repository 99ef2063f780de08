"""Communication fusion: a tensor's share of the latency of its bucket, and the buckets of a plan.

    mode    share of a collective's latency
    auto    min(1, bytes / 25 MiB); a value that is too small for the optimizer to shard pays all
    size    min(1, bytes / size)
    index   groups / gradients: all groups together pay one latency each

The bandwidth term counts all bytes of a bucket. Buckets fill in the order in which their tensors
become ready: values as ops read them, gradients in reverse.
"""

from __future__ import annotations

from collections import Counter
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
from meshwright.schema.stage import Direction
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
    """Share of a collective's latency that a tensor pays, by kind.

    is_alone: the tensor is in no bucket of `auto`. gradients: number of the whole graph.
    """
    auto = 1.0 if is_alone else min(1.0, size_bytes / BUCKET_BYTES)
    shares = dict.fromkeys(("all_to_all", "permute", "broadcast"), auto)
    for kind in Fusion.model_fields:
        settings: CollectiveFusion = getattr(fusion, kind)
        if settings.mode == "index":
            groups = 1 + sum(number < gradients for number in settings.index)
            shares[kind] = groups / max(1, gradients)
        elif settings.size_mb is not None:
            shares[kind] = (
                min(1.0, size_bytes / (settings.size_mb * MIB)) if settings.size_mb else 1.0
            )
        else:
            shares[kind] = auto
    return tuple(shares.items())


def buckets_of(stage: Stage, graph: Graph, fusion: Fusion, least_bytes: int) -> tuple[Bucket, ...]:
    """Buckets of a stage's parameters and gradients, those of two or more collectives.

    least_bytes: minimum size of a value in a bucket of `auto`.
    """
    buckets: dict[tuple[Hashable, int], list[tuple[str, Direction, Step]]] = {}
    filled: dict[Hashable, tuple[int, int]] = {}  # number and bytes of the open bucket
    ready: Counter[str] = Counter()  # collectives so far, by kind
    small = _small_names(stage.parameters, graph, least_bytes)
    for moved, direction, step in _collectives(stage, graph):
        settings: CollectiveFusion = getattr(fusion, step.kind)
        key = (_type(moved, graph), step.kind, step.axes, direction)
        number, held = filled.get(key, (0, 0))
        if settings.mode == "index":
            number = sum(last <= ready[step.kind] for last in settings.index)
        elif settings.mode == "auto" and moved.traffic == "parameter" and moved.tensor in small:
            continue
        elif held and held + step.payload_bytes > _cap(settings):
            number, held = number + 1, 0
        ready[step.kind] += 1
        filled[key] = number, held + step.payload_bytes
        buckets.setdefault((key, number), []).append((moved.tensor, direction, step))
    return tuple(_bucket(members) for members in buckets.values() if len(members) > 1)


def _type(moved: Redistribution, graph: Graph) -> Hashable:
    """Data type of a bucket's buffer; all gradients have the type of the setup."""
    return "gradient" if moved.traffic == "gradient" else graph.tensor(moved.tensor).dtype


def _bucket(members: list[tuple[str, Direction, Step]]) -> Bucket:
    _, direction, step = members[0]
    return Bucket(
        collective=step.kind,
        axes=step.axes,
        direction=direction,
        tensors=tuple(name for name, _, _ in members),
        payload_bytes=sum(step.payload_bytes for _, _, step in members),
    )


def _small_names(parameters: Sequence[ParameterPlan], graph: Graph, least_bytes: int) -> set[str]:
    """Names of the parameters whose whole values have fewer than `least_bytes` bytes."""
    key_of = IdentityKeys()
    elements: dict[IdentityKey, int] = {}  # by layout, which many parameters share
    names = set()
    for parameter in parameters:
        value = parameter.value
        key = key_of(value)
        if key not in elements:
            elements[key] = prod(part.size for dim in value.dims for part in dim.parts)
        if elements[key] * DTYPE_BYTES[graph.tensor(parameter.tensor).dtype] < least_bytes:
            names.add(parameter.tensor)
    return names


def _cap(settings: CollectiveFusion) -> int:
    return BUCKET_BYTES if settings.size_mb is None else settings.size_mb * MIB


def _collectives(stage: Stage, graph: Graph) -> Iterator[tuple[Redistribution, Direction, Step]]:
    """Collectives of parameters and gradients that can be fused, in the order of their start."""
    first: dict[str, int] = {}
    for position, op in enumerate(graph.topological_order()):
        for name in op.inputs:
            first.setdefault(name, position)
    moved = [
        redistribution
        for redistribution in stage.redistributions
        if redistribution.traffic != "activation"
    ]
    moved.sort(key=lambda redistribution: first.get(redistribution.tensor, 0))
    gradients = [
        redistribution for redistribution in reversed(moved) if redistribution.traffic == "gradient"
    ]
    values = [redistribution for redistribution in moved if redistribution.traffic == "parameter"]
    kinds = frozenset(Fusion.model_fields)
    moved = [*values, *gradients]
    for direction, steps_of in _STEPS:
        for redistribution, steps in [
            (redistribution, steps)
            for redistribution in moved
            if (steps := steps_of(redistribution))
        ]:
            for step in steps:
                if step.kind in kinds:
                    yield redistribution, direction, step
