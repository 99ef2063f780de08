"""The layout of a plan's drawing: what is open, with positions; the page only paints."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, StringConstraints

from meshwright.inspecting.ops import Lying, OpShare, received
from meshwright.schema import Redistribution, Step
from meshwright.schema.mesh import Axis
from meshwright.schema.plan import Direction
from service import immutable
from service.drawing.drawing import Box, Drawn, Line, title, walk
from service.drawing.modules import Module, ops_in
from service.errors import ParameterError
from service.principals import Reader
from service.state import Service

router = APIRouter(prefix="/v1/plans/{plan}", tags=["plans"])
MOST_FOUND = 100  # ops that a search names; chosen
Id = Annotated[str, StringConstraints(max_length=1024)]
MOST_BOXES = 4000  # chosen: twice what a browser draws at once


class AtRest(BaseModel):
    """A parameter of an op, with the layouts of its value, gradient and optimizer state."""

    tensor: str
    value: str
    gradient: str | None = None
    optimizer: str | None = None
    resting_bytes: int


class Made(BaseModel):
    """A tensor that an op makes or reads, and the axes on each of its dims; none where any device
    can make or load any part."""

    tensor: str
    axes: tuple[tuple[str, ...], ...] | None = None
    partial: tuple[str, ...] = ()


class DrawnBox(BaseModel):
    """A module or an op, x and y of its left upper corner. parent: the box it is in; none of the
    outermost ones. times: so many it stands for. can_open: it has content that is not shown. Times
    and bytes are of all that is in it, `times` over; axes: that shard something made in it."""

    id: str
    kind: Literal["module", "op"]
    label: str
    parent: str | None = None
    x: float
    y: float
    width: float
    height: float
    times: int = 1
    is_open: bool = False
    can_open: bool = False
    ops: int
    compute_ns: float
    communication_ns: float
    saved_bytes: int
    parameter_bytes: int
    axes: tuple[str, ...] = ()
    op: str | None = None
    op_kind: str | None = None
    stage: int | None = None
    strategy: dict[str, tuple[Axis, ...]] | None = None
    read: tuple[Made, ...] = ()
    made: tuple[Made, ...] = ()
    parameters: tuple[AtRest, ...] = ()


class Moved(BaseModel):
    """A collective on an edge: forward, backward or once a step. payload_bytes: of one; ns: of one,
    and of what is sent between stages of all in a step."""

    tensor: str
    collective: str
    axes: tuple[str, ...]
    direction: Direction
    payload_bytes: int
    ns: float


class DrawnEdge(BaseModel):
    """Tensors that go from one box to another. ns: of all redistributions on the way over a step.
    up: from a later box to an earlier one."""

    source: str
    target: str
    tensors: tuple[str, ...]
    moved: tuple[Moved, ...] = ()
    ns: float = 0.0
    up: bool = False
    points: tuple[tuple[float, float], ...]


class Found(BaseModel):
    """An op that a search found: its box, and the modules that have to be open to see it."""

    op: str
    box: str
    open: tuple[str, ...]


class PlanLayout(BaseModel):
    """A drawing. open: the modules that are. found: at most a hundred of `matches`."""

    plan: str
    open: tuple[str, ...]
    width: float
    height: float
    boxes: tuple[DrawnBox, ...]
    edges: tuple[DrawnEdge, ...]
    found: tuple[Found, ...] = ()
    matches: int = 0


ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": PlanLayout},
    304: immutable.NOT_MODIFIED,
}


@router.get("/layout", responses=ANSWERS, summary="Draw a plan")
def get_layout(
    request: Request,
    service: Service,
    by: Reader,
    plan: str,
    open_: Annotated[
        list[Id], Query(alias="open", max_length=500, description="Ids of modules: open=a&open=b")
    ] = [],  # noqa: B006  # FastAPI's default of a list, which nobody changes
    search: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
) -> Response:
    """Boxes and edges of what is open. Ids that are no modules open nothing. search: a part of a
    name, or a glob of one (`*`, `?`), upper or lower case alike."""
    drawn = service.inspected.of(by.tenant, plan).drawn
    root, lines = drawn.draw(frozenset(open_))
    boxes = list(walk(root))[1:]
    if len(boxes) > MOST_BOXES:
        raise ParameterError(
            f"parameter 'open': what is open has {len(boxes)} boxes, and {MOST_BOXES} are the "
            "most that are drawn; open less"
        )
    times = _times(boxes)
    found = _found(drawn, search) if search is not None else []
    made = PlanLayout(
        plan=plan,
        open=tuple(own.id for own in boxes if own.is_open),
        width=root.width,
        height=root.height,
        boxes=tuple(_box(own, times[own.id]) for own in boxes),
        edges=tuple(_edges(boxes, lines)),
        found=tuple(found[:MOST_FOUND]),
        matches=len(found),
    )
    return immutable.recent_text(
        request, made.model_dump_json(exclude_none=True, exclude_defaults=True)
    )


def _times(boxes: list[Box]) -> dict[str, int]:
    """How often what is in each box is there: folded modules within folded ones."""
    found: dict[str, int] = {"": 1}
    for box in boxes:
        copies = len(box.module.copies) if box.module is not None else 0
        found[box.id] = found[box.parent or ""] * max(1, copies)
    return found


def _box(box: Box, times: int) -> DrawnBox:
    shares = [box.share] if box.share is not None else list(ops_in(_module(box)))
    within = [(share, times * again) for share, again in _with_times(box, shares)]
    own = box.share
    return DrawnBox(
        id=box.id,
        kind="op" if own is not None else "module",
        label=title(box),
        parent=box.parent or None,
        x=round(box.x, 1),
        y=round(box.y, 1),
        width=round(box.width, 1),
        height=round(box.height, 1),
        times=times,
        is_open=box.is_open,
        can_open=own is None and not box.is_open,
        ops=1 if own is not None else _module(box).ops * times,
        compute_ns=sum(share.own.compute_ns * n for share, n in within),
        communication_ns=sum(share.communication_ns * n for share, n in within),
        saved_bytes=sum(share.saved_bytes * n for share, n in within),
        parameter_bytes=sum(share.parameter_bytes * n for share, n in within),
        axes=tuple(sorted({axis for share in shares for axis in _axes(share)})),
        op=own.own.op if own is not None else None,
        op_kind=own.own.kind if own is not None else None,
        stage=own.stage if own is not None else None,
        strategy=None if own is None else {f: on for f, on in own.own.strategy.items() if on},
        read=() if own is None else _lying(own.inputs),
        made=() if own is None else _lying(own.outputs),
        parameters=() if own is None else _at_rest(own),
    )


def _module(box: Box) -> Module:
    assert box.module is not None
    return box.module


def _with_times(box: Box, shares: list[OpShare]) -> list[tuple[OpShare, int]]:
    """What is in a box, and how often within it."""
    if box.module is None:
        return [(share, 1) for share in shares]
    found: list[tuple[OpShare, int]] = []
    stack: list[tuple[Module, int]] = [(box.module, 1)]
    while stack:
        module, times = stack.pop()
        for part in module.parts:
            if isinstance(part, Module):
                stack.append((part, times * max(1, len(part.copies))))
            else:
                found.append((part, times))
    return found


def _axes(share: OpShare) -> set[str]:
    return {axis for lying in share.outputs for dim in lying.axes or () for axis in dim}


def _lying(tensors: tuple[Lying, ...]) -> tuple[Made, ...]:
    return tuple(
        Made(
            tensor=lying.tensor,
            axes=lying.axes,
            partial=() if lying.layout is None else tuple(sorted(lying.layout.partial)),
        )
        for lying in tensors
    )


def _at_rest(share: OpShare) -> tuple[AtRest, ...]:
    return tuple(
        AtRest(
            tensor=own.tensor,
            value=str(own.value),
            gradient=None if own.gradient is None else str(own.gradient),
            optimizer=None if own.optimizer is None else str(own.optimizer),
            resting_bytes=own.value_bytes + own.gradient_bytes + own.optimizer_bytes,
        )
        for own in share.parameters
    )


def _edges(boxes: list[Box], lines: list[Line]) -> list[DrawnEdge]:
    known = {box.id: box for box in boxes}
    found = []
    for line in lines:
        a, b = known[line.source], known[line.target]
        up = b.y < a.y + a.height
        ends = (
            (a.x + a.width / 2, a.y if up else a.y + a.height),
            (b.x + b.width / 2, b.y + b.height if up else b.y),
        )
        moves = list({id(move): move for move in line.moves}.values())
        moved = [
            *(own for move in moves for own in _moved(move, "forward", move.forward)),
            *(own for move in moves for own in _moved(move, "backward", move.backward)),
            *(own for move in moves for own in _moved(move, "step", move.per_step)),
            *(own for share in line.received for own in _sent(share)),
        ]
        found.append(
            DrawnEdge(
                source=line.source,
                target=line.target,
                tensors=tuple(line.tensors),
                moved=tuple(moved),
                ns=sum(move.ns for move in moves)
                + sum(share.own.communication_ns for share in line.received),
                up=up,
                points=tuple((round(x, 1), round(y, 1)) for x, y in ends),
            )
        )
    return found


def _moved(move: Redistribution, direction: Direction, steps: tuple[Step, ...]) -> Iterator[Moved]:
    for step in steps:
        yield Moved(
            tensor=move.tensor,
            collective=step.kind,
            axes=step.axes,
            direction=direction,
            payload_bytes=step.payload_bytes,
            ns=step.ns,
        )


def _sent(share: OpShare) -> Iterator[Moved]:
    """What another stage sends, and the gradient that it gets back."""
    for own in share.own.own_steps:
        if own.what in ("receive", "return"):
            yield Moved(
                tensor=received(share.own) or "",
                collective="send",
                axes=own.axes,
                direction=own.direction,
                payload_bytes=own.payload_bytes,
                ns=own.ns,
            )


def _found(drawn: Drawn, text: str) -> list[Found]:
    """Ops by a part of their names, or a glob of them, each as it is drawn."""
    sought = text.lower()
    wanted = re.compile(fnmatch.translate(sought)) if {"*", "?"} & set(sought) else None
    places: dict[tuple[int, str], tuple[str, ...]] = {}
    stack: list[tuple[Module, tuple[str, ...]]] = [(drawn.tree.root, ())]
    while stack:
        module, above = stack.pop()
        for part in module.parts:
            if isinstance(part, Module):
                stack.append((part, (*above, part.id)))
            else:
                places[part.stage, part.own.op] = above
    found = []
    for share in drawn.shares:
        name = share.own.op.lower()
        if wanted.match(name) if wanted is not None else sought in name:
            key = share.stage, share.own.op
            key = drawn.tree.stands_for.get(key, key)
            found.append(Found(op=share.own.op, box=f"{key[0]}:{key[1]}", open=places[key]))
    return found
