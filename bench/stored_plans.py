"""Large plans in a store, for what is measured of a service that has them."""

from __future__ import annotations

from pathlib import Path

from meshwright.common.files import read_document
from meshwright.schema import Graph, Pipeline, Request, Setup
from meshwright.schema.recompute import Recompute
from meshwright_costmodel.calibrations import shipped_calibration
from meshwright_costmodel.presets import preset
from meshwright_service.common.tenant import DEFAULT_TENANT
from meshwright_service.plan_views.views import views_of
from meshwright_service.store import documents
from meshwright_service.store.database import Database
from meshwright_service.store.encoded_documents import stored_plan
from meshwright_solver.planning.planner import plan as planned

GPT = Path(__file__).resolve().parents[1] / "examples" / "graphs" / "gpt3-175b.json.gz"


def store_plan(store: str, request: Request) -> str:
    """Search a plan and put it into a store; its id."""
    found = planned(request).plan
    assert found is not None
    calibration = shipped_calibration(found.calibration)
    assert calibration is not None
    parts = request.graph, request.topology, request.setup
    views = views_of(found, *parts, calibration)
    database = Database(store)
    database.upgrade()
    with database.writing() as connection:
        for document in parts:
            documents.put(connection, DEFAULT_TENANT, document, now=database.now)
        documents.put_plan(connection, DEFAULT_TENANT, stored_plan(found, views), now=database.now)
    database.close()
    return found.id


def gpt3() -> Request:
    """GPT-3 175B (96 layers) in pipeline stages on 1,024 A100."""
    setup = Setup.from_dict({"global_batch": 1536, "symbols": {"seq": 2048}})
    return Request(
        graph=read_document(GPT, Graph), topology=preset("a100-80g-128x8"), setup=setup,
        pipeline=Pipeline(ranks=16), recompute=Recompute(policy="auto"),
    )  # fmt: skip
