"""What of a drawing is open, laid out: boxes with positions, lines with what moves on them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from meshwright_service.plan_views.graph_view.graph_arrays import GraphArrays, Ints
from meshwright_service.plan_views.graph_view.layered_layout import lay

LETTER, LINE = 7.0, 36.0  # pixels; chosen: of a letter, and of a box without content
INSIDE, HEAD = 14.0, 26.0  # pixels between a box and its content; of its title
MOST_BOXES = 4000  # chosen: twice what a browser draws at once
MOST_NAMED = 100  # of tensors and steps on one line; chosen


class TooMuch(ValueError):
    """What is open has more boxes than are drawn."""


@dataclass(slots=True)
class GraphBox:
    """A module or an op, by number. x, y: of the left upper corner, in the whole drawing. times: so
    many it stands for, with those around it."""

    id: str
    title: str
    parent: str | None
    module: int | None
    op: int | None
    times: int
    boxes: list[GraphBox] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = LINE

    @property
    def is_open(self) -> bool:
        return bool(self.boxes)


@dataclass(slots=True)
class GraphEdge:
    """From one box to another. tensors: numbers of the first ones; steps: of those that take
    longest; more_tensors, more_steps: so many further ones. ns: of all, over a step."""

    source: GraphBox
    target: GraphBox
    tensors: list[int]
    more_tensors: int
    steps: list[int]
    more_steps: int
    ns: float


@dataclass(slots=True)
class Sight:
    """boxes: each before what is in it; root: the one around all, itself not among them."""

    root: GraphBox
    boxes: list[GraphBox]
    lines: list[GraphEdge]


def sight_of(drawing: GraphArrays, opened: Collection[str]) -> Sight:
    """What is to be seen where these modules are open; raises TooMuch."""
    root = GraphBox("", "", None, 0, None, 1)
    at = np.zeros(len(drawing.module), np.int64)  # op -> the box that shows it
    boxes: list[GraphBox] = []
    _open(drawing, root, frozenset(opened), boxes, at)
    lines = _lines(drawing, boxes, at)
    _lay(root, lines)
    return Sight(root, boxes, lines)


def walk(box: GraphBox) -> Iterator[GraphBox]:
    """A box and all within, each before what is in it."""
    yield box
    for own in box.boxes:
        yield from walk(own)


def _open(
    drawing: GraphArrays, box: GraphBox, opened: frozenset[str], boxes: list[GraphBox], at: Ints
) -> None:
    assert box.module is not None
    for part in drawing.parts.row(box.module):
        if len(boxes) == MOST_BOXES:
            raise TooMuch(f"what is open has more than {MOST_BOXES} boxes; open less")
        number = len(boxes)
        if part >= 0:
            title = drawing.texts.ops[drawing.drawn[part]].rpartition(".")[2]
            made = GraphBox(drawing.op_id(part), title, box.id, None, part, box.times)
            boxes.append(made)
            at[part] = number
        else:
            module = -1 - part
            copies = int(drawing.copies[module])
            title = drawing.label(module) + (f" ×{copies}" if copies > 1 else "")
            made = GraphBox(
                drawing.texts.modules[module], title, box.id, module, None, box.times * copies
            )
            boxes.append(made)
            at[drawing.first[module] : drawing.last[module]] = number
            if made.id in opened:
                _open(drawing, made, opened, boxes, at)
        box.boxes.append(made)


def _lines(drawing: GraphArrays, boxes: list[GraphBox], at: Ints) -> list[GraphEdge]:
    """Arrows between boxes that are not the same, those between the same two together."""
    source, target = at[drawing.maker], at[drawing.reader]
    apart = np.flatnonzero(source != target)
    pairs, of = _numbered(source[apart] * len(boxes) + target[apart])
    count = len(pairs)
    tensors, tensor_line = _each_once(drawing.tensor[apart], of)
    moves, owner = drawing.moves.rows(apart)
    moves, move_line = _each_once(moves, of[owner])
    ns = np.bincount(move_line, drawing.move_ns[moves], count)
    steps, owner = drawing.steps.rows(moves)
    step_line = move_line[owner]
    longest = np.lexsort((-drawing.step_ns[steps], step_line))
    named, more_tensors = _first_of_each(tensors, tensor_line, count)
    moved, more_steps = _first_of_each(steps[longest], step_line[longest], count)
    return [
        GraphEdge(
            boxes[pair // len(boxes)],
            boxes[pair % len(boxes)],
            named[k],
            more_tensors[k],
            moved[k],
            more_steps[k],
            float(ns[k]),
        )
        for k, pair in enumerate(pairs.tolist())
    ]


def _numbered(values: Ints) -> tuple[Ints, Ints]:
    """Different values in the order in which they come, and the number of each value."""
    found, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(found), np.int64)
    number[order] = np.arange(len(found))
    return found[order], number[inverse]


def _each_once(values: Ints, lines: Ints) -> tuple[Ints, Ints]:
    """Every value once for every line, by line and then as they come; and the line of each."""
    width = int(values.max(initial=0)) + 1
    _, first = np.unique(lines * width + values, return_index=True)
    first = first[np.lexsort((first, lines[first]))]
    return values[first], lines[first]


def _first_of_each(values: Ints, lines: Ints, count: int) -> tuple[list[list[int]], list[int]]:
    """Of every line the first values, and how many there are more; sorted by line."""
    lengths = np.bincount(lines, minlength=count)
    ends = np.cumsum(lengths)
    given = values.tolist()
    found = [
        given[end - length : end - length + min(length, MOST_NAMED)]
        for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)
    ]
    return found, np.maximum(0, lengths - MOST_NAMED).tolist()


def _lay(root: GraphBox, lines: list[GraphEdge]) -> None:
    """Sizes from the inside out, then positions from the outside in."""
    all_ = list(walk(root))
    parents = {own.id: box for box in all_ for own in box.boxes}
    siblings: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        met = _meeting(line.source, line.target, parents)
        if met is not None:
            siblings.setdefault(met[0].id, []).append((met[1].id, met[2].id))
    for box in reversed(all_):
        if not box.is_open:
            box.width = 2 * INSIDE + LETTER * len(box.title)
            continue
        numbers = {own.id: k for k, own in enumerate(box.boxes)}
        edges = [(numbers[a], numbers[b]) for a, b in siblings.get(box.id, ())]
        # a module may read what one behind it makes: such lines go up
        laid = lay(
            [(own.width, own.height) for own in box.boxes], [(a, b) for a, b in edges if a < b]
        )
        for own, (x, y) in zip(box.boxes, laid.at, strict=True):
            own.x, own.y = x + INSIDE, y + HEAD
        box.width = max(laid.width, LETTER * len(box.title)) + 2 * INSIDE
        box.height = laid.height + HEAD + INSIDE
    for box in all_:
        for own in box.boxes:
            own.x += box.x
            own.y += box.y


def _meeting(
    one: GraphBox, other: GraphBox, parents: dict[str, GraphBox]
) -> tuple[GraphBox, GraphBox, GraphBox] | None:
    """The box in which both are, and which of its own boxes they are in."""
    path: dict[str, GraphBox] = {}
    box: GraphBox | None = one
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
