"""Keys for tests of a running app."""

from __future__ import annotations

from starlette.testclient import TestClient

from meshwright_service.api.state import State
from meshwright_service.auth.principals import SCOPES, Scope
from meshwright_service.common.tenant import Tenant


def state_of(http: TestClient) -> State:
    """What the endpoints of the app share."""
    found: State = http.app.state.service  # type: ignore[attr-defined]  # any ASGI app has a type
    return found


def secret_of(
    http: TestClient, *scopes: Scope, tenant: str = "default", expires_s: float | None = None
) -> str:
    """A new key of the app; with all scopes but admin where none is named."""
    state = state_of(http)
    given = scopes or tuple(scope for scope in SCOPES if scope != "admin")
    _, secret = state.keys.create(Tenant(tenant), name="test", scopes=given, expires_s=expires_s)
    state.authentication.forget()
    return secret


def bearing(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def key_of(http: TestClient, *scopes: Scope, tenant: str = "default") -> dict[str, str]:
    """The header with a new key of the app."""
    return bearing(secret_of(http, *scopes, tenant=tenant))
