"""Labels of plans, which can change, unlike the document of a plan."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import AfterValidator, Field

from meshwright.schema import RequestError
from meshwright.schema.model import Document
from meshwright_service.api.request_body import JsonBody
from meshwright_service.api.resources import PlanLabels
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Planner, Reader
from meshwright_service.store import plan_index

router = APIRouter(prefix="/v1/plans/{plan}", tags=["plans"])


def _label(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("a label is printable, without blanks at its ends")
    return text


Label = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_label)]


class LabelChange(Document):
    """Labels to add to a plan and labels to remove; a label in both is added."""

    prefix = "labels"
    error = RequestError

    add: tuple[Label, ...] = Field(default=(), max_length=plan_index.MOST_LABELS)
    remove: tuple[Label, ...] = Field(default=(), max_length=plan_index.MOST_LABELS)


@router.get("/labels", summary="List a plan's labels")
def get_labels(service: Service, by: Reader, plan: str) -> PlanLabels:
    """The labels of the plan."""
    with service.database.reading() as connection:
        return PlanLabels(plan=plan, labels=plan_index.labels_of(connection, by.tenant, plan))


@router.patch("/labels", summary="Change a plan's labels")
def patch_labels(service: Service, by: Planner, plan: str, body: JsonBody) -> PlanLabels:
    """Add and remove labels; idempotent."""
    change = LabelChange.from_dict(body.json())
    with service.database.writing() as connection:
        labels = plan_index.label(
            connection, by.tenant, plan, add={*change.add}, remove={*change.remove}
        )
    return PlanLabels(plan=plan, labels=labels)
