"""What of a plan is open, laid out: boxes with positions, edges with what moves on them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from meshwright.inspecting.ops import OpShare, received
from meshwright.schema import Redistribution
from service.drawing.layers import lay
from service.drawing.modules import Module, Tree, tree_of

Key = tuple[int, str]  # a stage and the name of an op in it
LETTER, LINE = 7.0, 36.0  # pixels; chosen: of a letter, and of a box without content
INSIDE, HEAD = 14.0, 26.0  # pixels between a box and its content; of its title


@dataclass(slots=True)
class Box:
    """A module or an op. share: of the op. x, y: of the left upper corner, in the whole drawing."""

    id: str
    parent: str | None
    module: Module | None
    share: OpShare | None
    boxes: list[Box] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = LINE

    @property
    def is_open(self) -> bool:
        return bool(self.boxes)


@dataclass(slots=True)
class Line:
    """Tensors that go from one box to another. moves: the redistributions on the way; received: the
    ops that get them from another stage."""

    source: str
    target: str
    tensors: dict[str, None] = field(default_factory=dict)
    moves: list[Redistribution] = field(default_factory=list)
    received: list[OpShare] = field(default_factory=list)


class Drawn:
    """A plan that can be drawn. What does not depend on what is open is worked out once."""

    def __init__(self, shares: tuple[OpShare, ...]) -> None:
        self.shares = shares
        self.tree: Tree = tree_of(shares)
        self.arrows = tuple(self._arrows())
        self.receives = {
            (share.stage, share.own.op): share for share in shares if received(share.own)
        }

    def _arrows(self) -> Iterator[tuple[Key, Key, str, tuple[Redistribution, ...]]]:
        """From the op that makes a tensor to one that reads it, both as they are drawn."""
        made: dict[tuple[int, str], tuple[Key, int]] = {}
        anywhere: dict[str, tuple[Key, int]] = {}
        for share in self.shares:
            for port, lying in enumerate(share.outputs):
                own = (share.stage, share.own.op), port
                made[share.stage, lying.tensor] = anywhere[lying.tensor] = own
        for share in self.shares:
            given = received(share.own)
            if given is not None:
                made[share.stage, given] = (share.stage, share.own.op), 0
        shared = {
            (share.stage, move.tensor): move
            for share in self.shares
            for move in share.moves
            if move.op is None and move.traffic == "activation"
        }
        stands, copies = self.tree.stands_for, self.tree.copy_of
        seen: set[tuple[Key, Key, int]] = set()  # of copies the first is drawn
        for share in self.shares:
            reader = share.stage, share.own.op
            given = received(share.own)
            for tensor in [given] if given else [own.root or own.tensor for own in share.inputs]:
                here = None if given else made.get((share.stage, tensor))
                found = here or anywhere.get(tensor)
                if found is None or found[0] == reader:
                    continue
                maker, port = found
                ends = stands.get(maker, maker), stands.get(reader, reader)
                if self._goes_round(copies.get(maker, ()), copies.get(reader, ()), maker, reader):
                    continue
                if (*ends, port) in seen:
                    continue
                seen.add((*ends, port))
                moves = [m for m in share.moves if m.op == share.own.op and m.tensor == tensor]
                together = shared.get((share.stage, tensor))
                yield (*ends, tensor, tuple(moves if together is None else [together, *moves]))

    def _goes_round(
        self, makers: tuple[str, ...], readers: tuple[str, ...], maker: Key, reader: Key
    ) -> bool:
        """Whether a tensor goes from one copy of what is folded to the next."""
        folded = self.tree.stands_for
        if makers == readers or not makers or not readers:
            return False
        ends = folded.get(maker, maker), folded.get(reader, reader)
        rows = [{own.rpartition(".")[0] for own in side} for side in (makers, readers)]
        return bool(rows[0] & rows[1]) and ends != (maker, reader)

    def draw(self, opened: Collection[str]) -> tuple[Box, list[Line]]:
        """The box of all, and the lines between boxes; opened: ids of modules."""
        root = Box("", None, self.tree.root, None)
        shown: dict[Key, Box] = {}
        self._open(root, frozenset(opened), shown)
        lines: dict[tuple[str, str], Line] = {}
        for maker, reader, tensor, moves in self.arrows:
            a, b = shown[maker], shown[reader]
            if a is b:
                continue
            line = lines.setdefault((a.id, b.id), Line(a.id, b.id))
            line.tensors[tensor] = None
            line.moves.extend(moves)
            if reader in self.receives:
                line.received.append(self.receives[reader])
        found = list(lines.values())
        self._lay(root, found)
        return root, found

    def _open(self, box: Box, opened: frozenset[str], shown: dict[Key, Box]) -> None:
        assert box.module is not None
        for part in box.module.parts:
            if isinstance(part, OpShare):
                made = Box(f"{part.stage}:{part.own.op}", box.id, None, part)
                shown[part.stage, part.own.op] = made
            else:
                made = Box(part.id, box.id, part, None)
                if part.id in opened:
                    self._open(made, opened, shown)
                else:
                    _hide(part, made, shown)
            box.boxes.append(made)

    def _lay(self, root: Box, lines: list[Line]) -> None:
        """Sizes from the inside out, then positions from the outside in."""
        parents: dict[str, Box] = {}
        boxes: dict[str, Box] = {}
        for box in walk(root):
            boxes[box.id] = box
            for own in box.boxes:
                parents[own.id] = box
        siblings: dict[str, list[tuple[str, str]]] = {}
        for line in lines:
            met = _meeting(boxes[line.source], boxes[line.target], parents)
            if met is not None:
                siblings.setdefault(met[0].id, []).append((met[1].id, met[2].id))
        for box in reversed(list(walk(root))):
            if not box.is_open:
                box.width = 2 * INSIDE + LETTER * len(title(box))
                continue
            numbers = {own.id: k for k, own in enumerate(box.boxes)}
            edges = [(numbers[a], numbers[b]) for a, b in siblings.get(box.id, ())]
            # a module may read what one behind it makes: such lines go up
            laid = lay(
                [(own.width, own.height) for own in box.boxes], [(a, b) for a, b in edges if a < b]
            )
            for own, (x, y) in zip(box.boxes, laid.at, strict=True):
                own.x, own.y = x + INSIDE, y + HEAD
            box.width = max(laid.width, LETTER * len(title(box))) + 2 * INSIDE
            box.height = laid.height + HEAD + INSIDE
        for box in walk(root):
            for own in box.boxes:
                own.x += box.x
                own.y += box.y


def walk(box: Box) -> Iterator[Box]:
    """A box and all within, each before what is in it."""
    yield box
    for own in box.boxes:
        yield from walk(own)


def title(box: Box) -> str:
    """What stands on a box."""
    if box.share is not None:
        return box.share.own.op.rpartition(".")[2]
    assert box.module is not None
    times = len(box.module.copies)
    return box.module.label + (f" ×{times}" if times > 1 else "")


def _hide(module: Module, box: Box, shown: dict[Key, Box]) -> None:
    stack: list[Module] = [module]
    while stack:
        for part in stack.pop().parts:
            if isinstance(part, Module):
                stack.append(part)
            else:
                shown[part.stage, part.own.op] = box


def _meeting(one: Box, other: Box, parents: dict[str, Box]) -> tuple[Box, Box, Box] | None:
    """The box in which both are, and which of its own boxes they are in."""
    path: dict[str, Box] = {}
    box: Box | None = one
    while box is not None and box.id in parents:
        parent = parents[box.id]
        path[parent.id] = box
        box = parent
    box = other
    while box is not None and box.id in parents:
        parent = parents[box.id]
        if parent.id in path:
            return (parent, path[parent.id], box) if path[parent.id] is not box else None
        box = parent
    return None
