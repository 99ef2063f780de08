"""The Python clients of the service: Client blocks, AsyncClient awaits; both ask the same."""

from __future__ import annotations

from meshwright.client.async_client import AsyncClient
from meshwright.client.exchange import ApiCall, Exchange, asked, got, posted, segment
from meshwright.client.jobs import SearchCancelled
from meshwright.client.method_descriptor import Endpoint, Listing, Shelf
from meshwright.client.sync_client import Client

__all__ = [
    "ApiCall",
    "AsyncClient",
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
