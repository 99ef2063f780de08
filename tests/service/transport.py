"""The client, wired to a service under test without a socket between them."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
from starlette.testclient import TestClient

from meshwright.client import Client

ORIGIN = "http://127.0.0.1"
OWN = {"accept-encoding", "content-encoding", "content-length"}  # each client's own affair


def client_of(service: TestClient) -> Client:
    def answer(asked: httpx.Request) -> httpx.Response:
        url = str(asked.url).removeprefix(ORIGIN)
        found = service.request(
            asked.method, url, content=asked.content, headers=_passed_on(asked.headers)
        )
        return httpx.Response(
            found.status_code, content=found.content, headers=_passed_on(found.headers)
        )

    return Client(ORIGIN, transport=httpx.MockTransport(answer))


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in OWN}
