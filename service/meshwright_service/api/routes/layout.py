"""The layout of the graph view: the visible boxes and edges with positions."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, StringConstraints

from meshwright.schema.mesh import Axis
from meshwright_service.api import etags
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader
from meshwright_service.common.errors import ParameterError
from meshwright_service.plan_views.graph_view.graph_arrays import DIRECTIONS, GraphArrays
from meshwright_service.plan_views.graph_view.op_details import (
    Moved,
    OpFacts,
    OpTensor,
    ParameterLayouts,
)
from meshwright_service.plan_views.graph_view.visible_part import (
    GraphBox,
    GraphEdge,
    TooMuch,
    VisiblePart,
    visible_part_of,
)

router = APIRouter(prefix="/v1/plans/{plan}", tags=["plans"])
MOST_FOUND = 100  # matches of a search in an answer; chosen
MOST_OPENED = 3  # modules opened for a number of boxes; chosen
SUMMED = ("compute_ns", "communication_ns", "saved_bytes", "parameter_bytes")
Id = Annotated[str, StringConstraints(max_length=1024)]


class DrawnBox(BaseModel):
    """A box of a module or an op; x and y are its upper left corner.

    parent: the enclosing box; None for an outermost box. times: the number of copies that it stands
    for. can_open: it has hidden content. Times and bytes are of its content, over all copies. axes:
    mesh axes that shard an output in it.
    """

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
    read: tuple[OpTensor, ...] = ()
    made: tuple[OpTensor, ...] = ()
    parameters: tuple[ParameterLayouts, ...] = ()


class DrawnEdge(BaseModel):
    """An edge: tensors from one box to another. tensors: the first hundred; more_tensors: the count
    of the others. moved: the hundred longest collectives, longest first; more_moved: the count of
    the others. ns: of all redistributions over a step. up: from a later box to an earlier one."""

    source: str
    target: str
    tensors: tuple[str, ...]
    more_tensors: int = 0
    moved: tuple[Moved, ...] = ()
    more_moved: int = 0
    ns: float = 0.0
    up: bool = False
    points: tuple[tuple[float, float], ...]


class OpMatch(BaseModel):
    """An op that matches a search: its box, and the modules to open to show it."""

    op: str
    box: str
    open: tuple[str, ...]


class PlanLayout(BaseModel):
    """A layout. open: the open modules. found: at most a hundred of the `matches`."""

    plan: str
    open: tuple[str, ...]
    width: float
    height: float
    boxes: tuple[DrawnBox, ...]
    edges: tuple[DrawnEdge, ...]
    found: tuple[OpMatch, ...] = ()
    matches: int = 0


ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": PlanLayout},
    304: etags.NOT_MODIFIED,
}


@router.get("/layout", responses=ANSWERS, summary="Draw a plan")
def get_layout(
    request: Request,
    service: Service,
    by: Reader,
    plan: str,
    open_: Annotated[
        list[Id], Query(alias="open", max_length=500, description="Ids of modules: open=a&open=b")
    ] = [],  # noqa: B006  # FastAPI's default of a list, never modified
    boxes: Annotated[
        int, Query(ge=0, le=100, description="The largest modules are opened for so many boxes")
    ] = 0,
    search: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
) -> Response:
    """Visible boxes and edges. open: ids of modules; other ids are ignored. boxes: while fewer are
    visible, the largest module is opened, at most three in all. search: a substring of the names of
    ops, or a glob (`*`, `?`); case-insensitive."""
    drawing = service.drawings.of(by.tenant, plan)
    try:
        visible = _opened(drawing, open_, boxes)
    except TooMuch as error:
        raise ParameterError(f"parameter 'open': {error}") from None
    shown = [box.op for box in visible.boxes if box.op is not None]
    facts = service.drawings.facts(by.tenant, plan, shown)
    matches = _matches(drawing, search) if search is not None else []
    layout = PlanLayout(
        plan=plan,
        open=tuple(box.id for box in visible.boxes if box.is_open),
        width=visible.root.width,
        height=visible.root.height,
        boxes=tuple(_box(drawing, box, facts) for box in visible.boxes),
        edges=tuple(_edge(drawing, line) for line in visible.lines),
        found=tuple(_place(drawing, at) for at in matches[:MOST_FOUND]),
        matches=len(matches),
    )
    return etags.recent_text(
        request, layout.model_dump_json(exclude_none=True, exclude_defaults=True)
    )


def _opened(drawing: GraphArrays, open_: list[str], boxes: int) -> VisiblePart:
    """The visible part; the largest modules in it are opened until it has so many boxes."""
    visible = visible_part_of(drawing, open_)
    for _ in range(MOST_OPENED):
        closed = [box for box in visible.boxes if not box.is_open]
        modules = [box for box in closed if box.module is not None]
        if len(closed) >= boxes or not modules:
            break
        largest = max(modules, key=lambda box: int(drawing.ops[box.module]) * box.times)
        opened = [box.id for box in visible.boxes if box.is_open]
        try:
            visible = visible_part_of(drawing, [*opened, largest.id])
        except TooMuch:
            break
    return visible


def _box(drawing: GraphArrays, box: GraphBox, facts: Mapping[int, OpFacts]) -> DrawnBox:
    drawn = DrawnBox.model_construct(
        id=box.id,
        kind="module",
        label=box.title,
        parent=box.parent or None,
        x=round(box.x, 1),
        y=round(box.y, 1),
        width=round(box.width, 1),
        height=round(box.height, 1),
        times=box.times,
        is_open=box.is_open,
    )
    if box.module is None:
        assert box.op is not None
        op_facts = facts[box.op]
        more = {name: value for name, value in op_facts if name not in SUMMED}
        sums = {name: getattr(op_facts, name) * box.times for name in SUMMED}
        return drawn.model_copy(update={"kind": "op", "ops": 1, **more, **sums})
    return drawn.model_copy(
        update={
            "can_open": not box.is_open,
            "ops": int(drawing.ops[box.module]) * box.times,
            "axes": tuple(drawing.texts.axes[drawing.axes[box.module]]),
            **{name: getattr(drawing, name)[box.module].item() * box.times for name in SUMMED},
        }
    )


def _edge(drawing: GraphArrays, line: GraphEdge) -> DrawnEdge:
    a, b = line.source, line.target
    up = b.y < a.y + a.height
    ends = (
        (a.x + a.width / 2, a.y if up else a.y + a.height),
        (b.x + b.width / 2, b.y + b.height if up else b.y),
    )
    return DrawnEdge.model_construct(
        source=a.id,
        target=b.id,
        tensors=tuple(drawing.texts.tensors[tensor] for tensor in line.tensors),
        more_tensors=line.more_tensors,
        moved=tuple(_collective(drawing, step) for step in line.steps),
        more_moved=line.more_steps,
        ns=line.ns,
        up=up,
        points=tuple((round(x, 1), round(y, 1)) for x, y in ends),
    )


def _collective(drawing: GraphArrays, step: int) -> Moved:
    texts = drawing.texts
    return Moved.model_construct(
        tensor=texts.tensors[drawing.step_tensor[step]],
        collective=texts.collectives[drawing.step_collective[step]],
        axes=tuple(texts.axes[drawing.step_axes[step]]),
        direction=DIRECTIONS[drawing.step_direction[step]],
        payload_bytes=drawing.step_bytes[step].item(),
        ns=drawing.step_ns[step].item(),
    )


def _matches(drawing: GraphArrays, text: str) -> list[int]:
    """The ops of the plan whose names match a substring or a glob."""
    sought = text.lower()
    names = enumerate(drawing.texts.ops)
    if {"*", "?"} & set(sought):
        wanted = re.compile(fnmatch.translate(sought))
        return [at for at, name in names if wanted.match(name.lower())]
    return [at for at, name in names if sought in name.lower()]


def _place(drawing: GraphArrays, at: int) -> OpMatch:
    op = int(drawing.stands[at])
    return OpMatch(op=drawing.texts.ops[at], box=drawing.op_id(op), open=drawing.above(op))
