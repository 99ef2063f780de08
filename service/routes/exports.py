"""Exports: a plan in the words of PyTorch, JAX, MindSpore and launchers. Made when asked for."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import APIRouter, Query, Response

from meshwright.convert import TARGETS, export_plan, network_of
from meshwright.exports import EveryTarget
from meshwright.launch import LAUNCHERS, launch_of
from meshwright.schema import Graph, Plan, Setup
from meshwright.schema.canonical import canonical_json
from service import documents, immutable
from service.errors import CannotExport
from service.principals import Reader
from service.state import Service

router = APIRouter(prefix="/v1/plans/{plan}", tags=["exports"])
NAMED = 20  # refusals that a problem names; chosen
# a newer version of the service may have more words
HEADERS = {"Cache-Control": "private, no-cache"}


@router.get("/exports/{target}", summary="A plan for another system")
def get_export(
    service: Service,
    by: Reader,
    plan: str,
    target: EveryTarget,
    partial: Annotated[bool, Query(description="What cannot be said is left out")] = False,
) -> Response:
    """Layouts and strategies as `meshwright export` writes them, or a launcher's options.

    409 where the target has no words for something, unless that may be left out. Launchers have
    words for degrees alone: what else is lost, the answer lists.
    """
    with service.database.reading() as connection:
        found = documents.parsed(connection, by.tenant, Plan, plan)
        graph = documents.parsed(connection, by.tenant, Graph, found.graph)
        setup = documents.parsed(connection, by.tenant, Setup, found.setup)
    written, refused = _exported(target, found, graph, setup)
    if refused and not partial:
        more = f"; and {len(refused) - NAMED} more" if len(refused) > NAMED else ""
        raise CannotExport(
            f"{target} cannot express all of {plan}: {'; '.join(refused[:NAMED])}{more}; "
            "?partial=true leaves these out"
        )
    return Response(canonical_json(written), media_type=immutable.MEDIA_TYPE, headers=HEADERS)


def _exported(
    target: EveryTarget, plan: Plan, graph: Graph, setup: Setup
) -> tuple[dict[str, Any], list[str]]:
    """The export as JSON, and why what is missing from it is."""
    if target in TARGETS:
        made = export_plan(plan, target, graph=graph)
        return _json(made), [own.reason for own in made.refused]
    if target in LAUNCHERS:
        return _json(launch_of(plan, target, graph=graph, setup=setup)), []
    network = network_of(plan, graph, setup)
    refused = [own.reason for own in network.refused]
    if target == "mindspore-network":
        return _json(network), refused
    return network.strategy_file(), refused


def _json(made: Any) -> dict[str, Any]:
    return cast(dict[str, Any], made.model_dump(mode="json", exclude_defaults=True))
