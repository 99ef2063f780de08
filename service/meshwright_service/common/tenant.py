"""Tenants: the owners of jobs and documents."""

from __future__ import annotations

from typing import NewType

Tenant = NewType("Tenant", str)
DEFAULT_TENANT = Tenant("default")  # the tenant of a store without keys
