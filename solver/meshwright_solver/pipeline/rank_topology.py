"""The split of a topology into equal parts of neighboring devices, one for each pipeline rank."""

from __future__ import annotations

from meshwright.schema import InvalidInput, Level, Link, Topology
from meshwright_costmodel.link_kinds import part_of_level


def split(topology: Topology, ranks: int) -> tuple[Topology, Link]:
    """The part of one pipeline rank, and the slowest link between two of them.

    Parts are cut from the slowest level inwards: a whole level, or a divisor of its size. Raises
    InvalidInput if no such cut makes `ranks` parts.
    """
    remaining = ranks
    levels: list[Level] = []
    link: Link | None = None
    for level in topology.levels:
        taken = level.size if remaining % level.size == 0 else remaining
        if level.size % taken:
            sizes = " × ".join(f"{each.size} {each.name}" for each in topology.levels)
            raise InvalidInput(
                f"{ranks} pipeline ranks cannot be cut from {sizes}: each is a whole number of "
                f"units of one level. Use {', '.join(map(str, rank_counts(topology)))}",
                pointer="/pipeline/ranks",
            )
        remaining //= taken
        if taken > 1 and link is None:
            link = level.link
        levels.append(part_of_level(level, level.size // taken))
    if remaining > 1 or link is None:
        raise InvalidInput(
            f"{ranks} pipeline ranks need as many devices, there are {topology.device_count}",
            pointer="/pipeline/ranks",
        )
    levels_of_part = [level for level in levels if level.size > 1] or levels[-1:]
    return topology.model_copy(update={"levels": tuple(levels_of_part)}), link


def rank_counts(topology: Topology) -> tuple[int, ...]:
    """Every number of pipeline ranks that `split` can make, 1 included."""
    counts = {1}
    whole = 1
    for level in topology.levels:
        counts.update(whole * d for d in range(1, level.size + 1) if level.size % d == 0)
        whole *= level.size
    return tuple(sorted(counts))
