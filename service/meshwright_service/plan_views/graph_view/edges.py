"""Which op makes what another reads, both as they are drawn, and what moves on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from meshwright.reports.ops import OpShare, received
from meshwright.schema import Redistribution
from meshwright_service.plan_views.graph_view.modules import Key, Tree


@dataclass(frozen=True, slots=True)
class Arrow:
    """A tensor from the op that makes it to one that reads it. moves: the redistributions on the
    way."""

    maker: Key
    reader: Key
    tensor: str
    moves: tuple[Redistribution, ...]


def arrows_of(shares: Sequence[OpShare], tree: Tree) -> Iterator[Arrow]:
    """All arrows between ops that are drawn; of folded copies those of the first."""
    made: dict[tuple[int, str], tuple[Key, int]] = {}
    anywhere: dict[str, tuple[Key, int]] = {}
    for share in shares:
        for port, lying in enumerate(share.outputs):
            own = (share.stage, share.own.op), port
            made[share.stage, lying.tensor] = anywhere[lying.tensor] = own
    for share in shares:
        given = received(share.own)
        if given is not None:
            made[share.stage, given] = (share.stage, share.own.op), 0
    shared = {
        (share.stage, move.tensor): move
        for share in shares
        for move in share.moves
        if move.op is None and move.traffic == "activation"
    }
    stands = tree.stands_for
    seen: set[tuple[Key, Key, int]] = set()
    for share in shares:
        reader = share.stage, share.own.op
        given = received(share.own)
        for tensor in [given] if given else [own.root or own.tensor for own in share.inputs]:
            here = None if given else made.get((share.stage, tensor))
            found = here or anywhere.get(tensor)
            if found is None or found[0] == reader:
                continue
            maker, port = found
            ends = stands.get(maker, maker), stands.get(reader, reader)
            if (*ends, port) in seen or _goes_round(tree, maker, reader):
                continue
            seen.add((*ends, port))
            moves = [m for m in share.moves if m.op == share.own.op and m.tensor == tensor]
            together = shared.get((share.stage, tensor))
            yield Arrow(*ends, tensor, tuple(moves if together is None else [together, *moves]))


def _goes_round(tree: Tree, maker: Key, reader: Key) -> bool:
    """Whether a tensor goes from one copy of what is folded to the next."""
    makers, readers = tree.copy_of.get(maker, ()), tree.copy_of.get(reader, ())
    if makers == readers or not makers or not readers:
        return False
    ends = tree.stands_for.get(maker, maker), tree.stands_for.get(reader, reader)
    rows = [{own.rpartition(".")[0] for own in side} for side in (makers, readers)]
    return bool(rows[0] & rows[1]) and ends != (maker, reader)
