"""Labels: what people call a plan. The document never changes, its labels do."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import AfterValidator, Field

from meshwright.schema import RequestError
from meshwright.schema.model import Document
from service import shelf
from service.body import Body, read_body
from service.principals import Planner, Reader
from service.resources import Labels
from service.state import Service

router = APIRouter(prefix="/v1/plans/{plan}", tags=["plans"])


def _label(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("a label is printable, without blanks at its ends")
    return text


Label = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_label)]


class LabelChange(Document):
    """Labels that a plan gets, and those that it loses; what is in both it has."""

    prefix = "labels"
    error = RequestError

    add: tuple[Label, ...] = Field(default=(), max_length=shelf.MOST_LABELS)
    remove: tuple[Label, ...] = Field(default=(), max_length=shelf.MOST_LABELS)


@router.get("/labels", summary="List a plan's labels")
def get_labels(service: Service, by: Reader, plan: str) -> Labels:
    """What people call the plan."""
    with service.database.reading() as connection:
        return Labels(plan=plan, labels=shelf.labels_of(connection, by.tenant, plan))


@router.patch("/labels", summary="Change a plan's labels")
def patch_labels(
    service: Service, by: Planner, plan: str, body: Annotated[Body, Depends(read_body)]
) -> Labels:
    """Add labels and take some away; once more changes nothing more."""
    change = LabelChange.from_dict(body.json())
    with service.database.writing() as connection:
        found = shelf.label(connection, by.tenant, plan, add={*change.add}, remove={*change.remove})
    return Labels(plan=plan, labels=found)
