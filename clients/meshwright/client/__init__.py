"""The Python clients of the service: Client blocks, AsyncClient awaits; both ask the same."""

from __future__ import annotations

from meshwright.client.awaiting import AsyncClient
from meshwright.client.blocking import Client
from meshwright.client.endpoint import Endpoint, Listing, Shelf
from meshwright.client.exchange import Call, Exchange, asked, got, posted, segment
from meshwright.client.jobs import SearchCancelled

__all__ = [
    "AsyncClient",
    "Call",
    "Client",
    "Endpoint",
    "Exchange",
    "Listing",
    "SearchCancelled",
    "Shelf",
    "asked",
    "got",
    "posted",
    "segment",
]
