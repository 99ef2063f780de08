"""Principals: the tenant, the key and the scopes of a request.

- `read`: reads.
- `plan`: stores documents, requests plans and reports steps.
- `agent`: measures.
- `admin`: includes the scopes above and manages the keys of the tenant.
- `metrics`: reads the metrics of the service. It belongs to no tenant; only
  `meshwright-server keys create` grants it.

No scope except `admin` includes another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, cast

from fastapi import Depends, Request

from meshwright.schema import Forbidden
from meshwright_service.common.tenant import DEFAULT_TENANT, Tenant

TenantScope = Literal["read", "plan", "agent", "admin"]
Scope = Literal[TenantScope, "metrics"]
SCOPES: tuple[Scope, ...] = ("read", "plan", "agent", "admin", "metrics")


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity of a request. key: the id of its key; None in a store without keys."""

    tenant: Tenant
    key: str | None
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or (scope != "metrics" and "admin" in self.scopes)


ANYBODY = Principal(DEFAULT_TENANT, None, frozenset(SCOPES))


@dataclass(frozen=True, slots=True)
class Needs:
    """An endpoint dependency that returns the principal; raises Forbidden without the scope."""

    scope: Scope

    async def __call__(self, request: Request) -> Principal:
        principal = cast(Principal, request.state.principal)
        if not principal.may(self.scope):
            raise Forbidden(
                f"the request needs a key with the scope {self.scope!r}, yours has "
                f"{_scope_names(principal)}. "
                + (
                    "Create one on the server: meshwright-server keys create"
                    if self.scope == "metrics"
                    else "Ask an admin of your tenant for such a key"
                )
            )
        return principal


Reader = Annotated[Principal, Depends(Needs("read"))]
Planner = Annotated[Principal, Depends(Needs("plan"))]
Measurer = Annotated[Principal, Depends(Needs("agent"))]
Admin = Annotated[Principal, Depends(Needs("admin"))]
Operator = Annotated[Principal, Depends(Needs("metrics"))]


def scopes_of(names: Iterable[str]) -> frozenset[Scope]:
    """The scopes with these names; raises ValueError for an unknown name or no name."""
    scopes = set(names)
    wrong = sorted(scopes.difference(SCOPES))
    if wrong or not scopes:
        raise ValueError(
            f"scopes are some of {', '.join(SCOPES)}, got {', '.join(wrong) or 'none'}"
        )
    return frozenset(scope for scope in SCOPES if scope in scopes)


def _scope_names(principal: Principal) -> str:
    return ", ".join(scope for scope in SCOPES if scope in principal.scopes)
