"""API keys as bearer tokens (RFC 6750): `Authorization: Bearer mw_…`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers

from meshwright.schema import Unauthorized
from meshwright_service.auth.api_keys import MARK, Keys
from meshwright_service.auth.principals import Principal

MAX_SECRET = 200  # characters


class BearerKeys:
    """The bearer token scheme, which all Meshwright clients use."""

    name = "key"
    challenge = 'Bearer realm="meshwright"'
    example = "Authorization: Bearer mw_…"

    @property
    def security(self) -> Mapping[str, Any]:
        """The Security Scheme Object of OpenAPI."""
        return {"type": "http", "scheme": "bearer", "description": "An API key, mw_…"}

    def secret(self, headers: Headers) -> str | None:
        """The API key; None for another scheme. Raises Unauthorized for a malformed key."""
        values = headers.getlist("authorization")
        scheme, _, secret = (values or [""])[0].partition(" ")
        if scheme.lower() != "bearer":
            return None
        secret = secret.strip()
        is_key = secret.startswith(MARK) and secret.isascii() and len(secret) <= MAX_SECRET
        if len(values) > 1 or not is_key:
            raise Unauthorized("the Authorization header is malformed. Send one: Bearer mw_…")
        return secret

    def principal(self, keys: Keys, secret: str) -> Principal:
        """The principal of the key; raises Unauthorized."""
        return keys.principal(secret)
