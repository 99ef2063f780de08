"""The Prometheus metrics of all tenants together."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Operator

router = APIRouter(tags=["health"])


@router.get("/metrics", summary="Read the metrics", response_class=Response, responses={
    200: {"content": {"text/plain": {"example": "meshwright_store_up 1.0\n"}}}
})  # fmt: skip
def get_metrics(service: Service, by: Operator) -> Response:
    """Metrics of this process and of the store, in the text format of Prometheus."""
    del by
    text = generate_latest(service.metrics.registry)
    return Response(text, media_type=CONTENT_TYPE_LATEST, headers={"Cache-Control": "no-store"})
