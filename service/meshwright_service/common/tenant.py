"""Tenants: whose jobs and documents these are."""

from __future__ import annotations

from typing import NewType

Tenant = NewType("Tenant", str)
DEFAULT_TENANT = Tenant("default")  # of a store without keys
