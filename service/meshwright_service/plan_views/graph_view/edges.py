"""Arrows: tensors from the op that makes them to an op that reads them, between drawn ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from meshwright.reports.ops import OpShare, received
from meshwright.schema import Redistribution
from meshwright_service.plan_views.graph_view.modules import Key, Tree


@dataclass(frozen=True, slots=True)
class Arrow:
    """A tensor from the op that makes it to an op that reads it.

    moves: the redistributions between them.
    """

    maker: Key
    reader: Key
    tensor: str
    moves: tuple[Redistribution, ...]


def arrows_of(shares: Sequence[OpShare], tree: Tree) -> Iterator[Arrow]:
    """All arrows between drawn ops; of folded copies only those of the first."""
    makers: dict[tuple[int, str], tuple[Key, int]] = {}
    anywhere: dict[str, tuple[Key, int]] = {}
    for share in shares:
        for port, lying in enumerate(share.outputs):
            output = (share.stage, share.own.op), port
            makers[share.stage, lying.tensor] = anywhere[lying.tensor] = output
    for share in shares:
        received_tensor = received(share.own)
        if received_tensor is not None:
            makers[share.stage, received_tensor] = (share.stage, share.own.op), 0
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
        received_tensor = received(share.own)
        inputs = [lying.root or lying.tensor for lying in share.inputs]
        for tensor in [received_tensor] if received_tensor else inputs:
            here = None if received_tensor else makers.get((share.stage, tensor))
            output_of_maker = here or anywhere.get(tensor)
            if output_of_maker is None or output_of_maker[0] == reader:
                continue
            maker, port = output_of_maker
            ends = stands.get(maker, maker), stands.get(reader, reader)
            if (*ends, port) in seen or _goes_round(tree, maker, reader):
                continue
            seen.add((*ends, port))
            moves = [m for m in share.moves if m.op == share.own.op and m.tensor == tensor]
            together = shared.get((share.stage, tensor))
            yield Arrow(*ends, tensor, tuple(moves if together is None else [together, *moves]))


def _goes_round(tree: Tree, maker: Key, reader: Key) -> bool:
    """Whether a tensor goes from one folded copy of a module to the next."""
    makers, readers = tree.copy_of.get(maker, ()), tree.copy_of.get(reader, ())
    if makers == readers or not makers or not readers:
        return False
    ends = tree.stands_for.get(maker, maker), tree.stands_for.get(reader, reader)
    rows = [{path.rpartition(".")[0] for path in side} for side in (makers, readers)]
    return bool(rows[0] & rows[1]) and ends != (maker, reader)
