"""The protocol of an authentication scheme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.datastructures import Headers

from meshwright_service.auth.api_keys import Keys
from meshwright_service.auth.principals import Principal


class Scheme(Protocol):
    """How a request says who asks. Safe to share between threads.

    name: of the security scheme in the OpenAPI document. challenge: for WWW-Authenticate, of a
    request without credentials. example: what a request has to say, for messages.
    """

    name: str
    challenge: str
    example: str

    @property
    def security(self) -> Mapping[str, Any]:
        """The Security Scheme Object of OpenAPI."""
        ...

    def secret(self, headers: Headers) -> str | None:
        """The credentials in the headers of a request, None where there are none of this scheme.

        Raises Unauthorized of credentials that are malformed. Runs in the event loop.
        """
        ...

    def principal(self, keys: Keys, secret: str) -> Principal:
        """Whom credentials speak for; raises Unauthorized. May ask the database."""
        ...


@dataclass(frozen=True, slots=True)
class Credential:
    """The credentials of a request, and the scheme that reads them."""

    scheme: Scheme
    secret: str
