"""The visible part of the graph view, laid out: boxes with positions, edges with their moves."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from meshwright_service.plan_views.graph_view.graph_arrays import GraphArrays, Ints
from meshwright_service.plan_views.graph_view.layered_layout import lay

LETTER, LINE = 7.0, 36.0  # pixels; chosen: width of a letter, height of a closed box
INSIDE, HEAD = 14.0, 26.0  # pixels; chosen: padding of a box, height of its title
MOST_BOXES = 4000  # chosen: twice the number that a browser draws smoothly
MOST_NAMED = 100  # named tensors and steps of one edge; chosen


class TooMuch(ValueError):
    """The open modules have more than MOST_BOXES boxes."""


@dataclass(slots=True)
class GraphBox:
    """A box of a module or an op. x, y: upper left corner in the whole drawing. times: number of
    copies that it stands for, including those of the modules around it."""

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
    """An edge from one box to another. tensors: numbers of the first tensors. steps: numbers of the
    longest steps. more_tensors, more_steps: counts of the others. ns: of all moves over a step."""

    source: GraphBox
    target: GraphBox
    tensors: list[int]
    more_tensors: int
    steps: list[int]
    more_steps: int
    ns: float


@dataclass(slots=True)
class VisiblePart:
    """The visible boxes and edges. boxes: each before its content, without the root."""

    root: GraphBox
    boxes: list[GraphBox]
    lines: list[GraphEdge]


def visible_part_of(drawing: GraphArrays, opened: Collection[str]) -> VisiblePart:
    """The visible part with these modules open; raises TooMuch."""
    root = GraphBox("", "", None, 0, None, 1)
    at = np.zeros(len(drawing.module), np.int64)  # op -> the box that shows it
    boxes: list[GraphBox] = []
    _open(drawing, root, frozenset(opened), boxes, at)
    lines = _lines(drawing, boxes, at)
    _lay(root, lines)
    return VisiblePart(root, boxes, lines)


def walk(box: GraphBox) -> Iterator[GraphBox]:
    """A box and all boxes in it, each before its content."""
    yield box
    for child in box.boxes:
        yield from walk(child)


def _open(
    drawing: GraphArrays, box: GraphBox, opened: frozenset[str], boxes: list[GraphBox], at: Ints
) -> None:
    assert box.module is not None
    for part in drawing.parts.row(box.module):
        if len(boxes) == MOST_BOXES:
            raise TooMuch(f"the open modules have more than {MOST_BOXES} boxes. Open fewer modules")
        number = len(boxes)
        if part >= 0:
            title = drawing.texts.ops[drawing.drawn[part]].rpartition(".")[2]
            child = GraphBox(drawing.op_id(part), title, box.id, None, part, box.times)
            boxes.append(child)
            at[part] = number
        else:
            module = -1 - part
            copies = int(drawing.copies[module])
            title = drawing.label(module) + (f" ×{copies}" if copies > 1 else "")
            child = GraphBox(
                drawing.texts.modules[module], title, box.id, module, None, box.times * copies
            )
            boxes.append(child)
            at[drawing.first[module] : drawing.last[module]] = number
            if child.id in opened:
                _open(drawing, child, opened, boxes, at)
        box.boxes.append(child)


def _lines(drawing: GraphArrays, boxes: list[GraphBox], at: Ints) -> list[GraphEdge]:
    """The edges between visible boxes; arrows between the same two boxes are merged."""
    source, target = at[drawing.maker], at[drawing.reader]
    apart = np.flatnonzero(source != target)
    pairs, of = _distinct(source[apart] * len(boxes) + target[apart])
    count = len(pairs)
    tensors, tensor_line = _distinct_per_edge(drawing.tensor[apart], of)
    moves, owner = drawing.moves.rows(apart)
    moves, move_line = _distinct_per_edge(moves, of[owner])
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


def _distinct(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values in order of first occurrence, and the index of each value in them."""
    distinct, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(distinct), np.int64)
    number[order] = np.arange(len(distinct))
    return distinct[order], number[inverse]


def _distinct_per_edge(values: Ints, lines: Ints) -> tuple[Ints, Ints]:
    """The distinct values of each edge, ordered by edge and first occurrence; and their edges."""
    width = int(values.max(initial=0)) + 1
    _, first = np.unique(lines * width + values, return_index=True)
    first = first[np.lexsort((first, lines[first]))]
    return values[first], lines[first]


def _first_of_each(values: Ints, lines: Ints, count: int) -> tuple[list[list[int]], list[int]]:
    """The first MOST_NAMED values of each edge, and the count of the others. lines: sorted."""
    lengths = np.bincount(lines, minlength=count)
    ends = np.cumsum(lengths)
    numbers = values.tolist()
    first_values = [
        numbers[end - length : end - length + min(length, MOST_NAMED)]
        for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)
    ]
    return first_values, np.maximum(0, lengths - MOST_NAMED).tolist()


def _lay(root: GraphBox, lines: list[GraphEdge]) -> None:
    """Set sizes from the innermost boxes outward, then positions from the root inward."""
    all_ = list(walk(root))
    parents = {child.id: box for box in all_ for child in box.boxes}
    siblings: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        met = _common_box(line.source, line.target, parents)
        if met is not None:
            siblings.setdefault(met[0].id, []).append((met[1].id, met[2].id))
    for box in reversed(all_):
        if not box.is_open:
            box.width = 2 * INSIDE + LETTER * len(box.title)
            continue
        numbers = {child.id: k for k, child in enumerate(box.boxes)}
        edges = [(numbers[a], numbers[b]) for a, b in siblings.get(box.id, ())]
        # edges to an earlier box exist and are drawn upward
        laid = lay(
            [(child.width, child.height) for child in box.boxes],
            [(a, b) for a, b in edges if a < b],
        )
        for child, (x, y) in zip(box.boxes, laid.at, strict=True):
            child.x, child.y = x + INSIDE, y + HEAD
        box.width = max(laid.width, LETTER * len(box.title)) + 2 * INSIDE
        box.height = laid.height + HEAD + INSIDE
    for box in all_:
        for child in box.boxes:
            child.x += box.x
            child.y += box.y


def _common_box(
    one: GraphBox, other: GraphBox, parents: dict[str, GraphBox]
) -> tuple[GraphBox, GraphBox, GraphBox] | None:
    """The innermost common box, and its two child boxes that contain the two boxes."""
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
