"""Layouts of one tensor of a plan, computed on request and not stored."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from meshwright.reports.ops import roots_of
from meshwright.reports.tensor_layouts import layouts_of
from meshwright.schema.tensor_layouts import TensorLayouts
from meshwright_service.api import etags
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader

router = APIRouter(prefix="/v1/plans/{plan}", tags=["plans"])
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": TensorLayouts},
    304: etags.NOT_MODIFIED,
}


@router.get("/tensor-layouts", responses=ANSWERS, summary="Read the layouts of a tensor of a plan")
def get_tensor_layouts(
    request: Request,
    service: Service,
    by: Reader,
    plan: str,
    tensor: Annotated[str, Query(max_length=1000, description="The name of the tensor")],
    stage: Annotated[
        int | None, Query(ge=0, description="The number of the stage; the first with the tensor")
    ] = None,
) -> Response:
    """The blocks of a tensor with the ranks that hold them, at rest and after each collective of
    its redistributions. A view has the layouts of its source."""
    inspected = service.inspected.of(by.tenant, plan)
    roots = roots_of(inspected.graph, {share.own.op for share in inspected.shares})
    return etags.recent(request, layouts_of(inspected.plan, roots.get(tensor, tensor), stage))
