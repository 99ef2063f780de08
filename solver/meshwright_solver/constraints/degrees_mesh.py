"""The mesh of stated degrees: axes named after their kind of parallelism.

Ranks are in Megatron-LM's order tp-cp-ep-dp, the fastest first (parallel_state.py, `order`): tensor
parallelism has the fastest links. An axis lies inside one level of the topology. A degree that
spans several levels becomes one axis for each, `dp0` on the slowest. With states sharded over N
devices (HSDP), the degree that N divides becomes two axes; the faster one is sharded.
"""

from __future__ import annotations

from meshwright.schema import Axis, Mesh, MeshAxis, RequestError, Topology
from meshwright.schema.degrees import Degrees

TP, CP, EP, DP = "tp", "cp", "ep", "dp"


def stated_mesh(topology: Topology, degrees: Degrees, shard_size: int | None = None) -> Mesh:
    """The mesh of the devices of one pipeline rank.

    shard_size: the most devices over which states are sharded; None for all.

    Raises RequestError if the degrees do not make as many devices, or cut a level unevenly.
    """
    resolved = degrees.of_devices(topology.device_count)
    assert resolved.dp is not None
    room = [level.size for level in topology.levels]
    pieces: dict[str, list[tuple[int, int]]] = {}  # role -> (level, size), the fastest first
    for role, degree in (
        (TP, resolved.tp),
        (CP, resolved.cp),
        (EP, resolved.ep),
        (DP, resolved.dp // resolved.ep),
    ):
        remaining = degree
        for level in reversed(range(len(room))):
            taken = room[level] if remaining % room[level] == 0 else remaining
            if room[level] % taken:
                sizes = " × ".join(f"{each.size} {each.name}" for each in topology.levels)
                raise RequestError(
                    f"{role} {degree} cannot be made of {sizes}: it lies on whole units of a "
                    f"level, and {room[level]} of {topology.levels[level].name!r} are left",
                    pointer="/degrees",
                )
            if taken > 1:
                pieces.setdefault(role, []).append((level, taken))
                room[level] //= taken
                remaining //= taken
    if shard_size is not None:
        _split_for_shards(pieces, shard_size)
    axes = []
    for level, each in enumerate(topology.levels):
        for role in (DP, EP, CP, TP):
            lying = pieces.get(role, [])
            for place, (at, size) in enumerate(reversed(lying)):
                if at == level:
                    name = role if len(lying) == 1 else f"{role}{place}"
                    axes.append(MeshAxis(name=Axis(name), size=size, level=each.name))
    if not axes:
        axes = [MeshAxis(name=Axis(DP), size=1, level=topology.levels[-1].name)]
    return Mesh(axes=tuple(axes))


def _split_for_shards(pieces: dict[str, list[tuple[int, int]]], shard_size: int) -> None:
    """Split the piece at which a shard group ends, so that whole axes make up the group.

    The group has `shard_size` devices, or the most that divide the piece.
    """
    remaining = shard_size
    for role in (CP, EP, DP):
        for place, (level, size) in enumerate(pieces.get(role, [])):
            taken = max(ways for ways in range(1, min(remaining, size) + 1) if size % ways == 0)
            if taken < size:
                if taken > 1:
                    pieces[role][place : place + 1] = [(level, taken), (level, size // taken)]
                return
            remaining //= size


def role_of(axis: MeshAxis) -> str:
    """The degree of an axis of a stated mesh: tp, cp, ep or dp."""
    return axis.name.rstrip("0123456789")


def shared_axes(mesh: Mesh) -> tuple[bool, ...]:
    """Flags of the axes over which ZeRO shards persistent state: all but those of tp."""
    return tuple(role_of(axis) != TP for axis in mesh.axes)
