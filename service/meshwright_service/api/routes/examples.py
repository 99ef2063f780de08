"""Example graphs: decoders of published dimensions, which a client may store and plan."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from meshwright.capture.published_decoders import PUBLISHED
from meshwright.schema import Graph, NotFound
from meshwright_service.api import etags
from meshwright_service.auth.principals import Reader

router = APIRouter(prefix="/v1/examples", tags=["graphs"])
ONE: dict[int | str, dict[str, Any]] = {200: {"model": Graph}, 304: etags.NOT_MODIFIED}


class ExampleGraph(BaseModel):
    """An example graph in a list."""

    name: str = Field(description="The name of the model.")
    symbols: dict[str, int] = Field(description="The sizes of the graph's symbols.")
    source: str = Field(description="The source of the dimensions.")


class ExampleList(BaseModel):
    """The example graphs."""

    examples: tuple[ExampleGraph, ...]


@router.get("", summary="List example graphs")
def list_examples(by: Reader) -> ExampleList:
    """Decoders of published dimensions, smallest first."""
    del by
    return ExampleList(
        examples=tuple(
            ExampleGraph(name=name, symbols={"batch": own.batch, "seq": own.seq}, source=own.source)
            for name, own in PUBLISHED.items()
        )
    )


@router.get("/{example}", responses=ONE, summary="Read an example graph")
def get_example(request: Request, by: Reader, example: str) -> Response:
    """An example graph in canonical form. POST /v1/graphs stores it."""
    del by
    if example not in PUBLISHED:
        raise NotFound(f"there is no example {example[:80]!r}. Use one of {', '.join(PUBLISHED)}")
    return etags.recent(request, PUBLISHED[example].graph(example))
