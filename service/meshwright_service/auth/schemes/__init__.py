"""Authentication schemes: one file each, and a line in SCHEMES."""

from __future__ import annotations

from meshwright_service.auth.schemes.bearer import BearerKeys
from meshwright_service.auth.schemes.scheme import Credential, Scheme

SCHEMES: tuple[Scheme, ...] = (BearerKeys(),)

__all__ = ["SCHEMES", "Credential", "Scheme"]
