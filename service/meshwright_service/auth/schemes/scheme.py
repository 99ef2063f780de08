"""The protocol of an authentication scheme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.datastructures import Headers

from meshwright_service.auth.api_keys import Keys
from meshwright_service.auth.principals import Principal


class Scheme(Protocol):
    """Reads credentials from a request. Safe to share between threads.

    name: of the security scheme in the OpenAPI document. challenge: its WWW-Authenticate challenge.
    example: a header for error messages.
    """

    name: str
    challenge: str
    example: str

    @property
    def security(self) -> Mapping[str, Any]:
        """The Security Scheme Object of OpenAPI."""
        ...

    def secret(self, headers: Headers) -> str | None:
        """The credentials in the headers of a request; None without credentials of this scheme.

        The first scheme of `SCHEMES` that returns credentials is used.

        Raises Unauthorized for malformed credentials. Runs in the event loop.
        """
        ...

    def principal(self, keys: Keys, secret: str) -> Principal:
        """The principal of credentials; raises Unauthorized. May read the database."""
        ...


@dataclass(frozen=True, slots=True)
class Credential:
    """The credentials of a request, and the scheme that reads them."""

    scheme: Scheme
    secret: str
