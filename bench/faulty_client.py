"""Who asks a service that is being killed, for one tenant, and tries to see what another has."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from bench.small_net import asked
from meshwright_service.common.tenant import Tenant

AT_ONCE = 2  # jobs that a client has open
ENDS = ("succeeded", "failed", "cancelled")


@dataclass
class Client:
    """Submits jobs one after another, each until it is accepted, and follows them to their ends.

    Every second request is for a net of a name that all tenants ask for, so that what they ask is
    the same to the byte; the others are the tenant's own.
    """

    url: str
    tenant: Tenant
    secret: str
    others: list[Client] = field(default_factory=list)
    accepted: dict[str, str] = field(default_factory=dict)  # job: the name of its graph
    ended: dict[str, dict[str, Any]] = field(default_factory=dict)
    plans: dict[str, str] = field(default_factory=dict)  # plan: the name of its graph
    longest_s: float = 0.0  # without an answer
    refused: int = 0  # questions about what others have, answered with: there is no such thing
    shown: list[str] = field(default_factory=list)  # and those answered in another way
    wanted: bool = True

    def run(self) -> None:
        """Until nothing more is wanted and all has ended."""
        open_jobs: set[str] = set()
        number = 0
        random = Random(self.tenant)
        with httpx.Client(base_url=self.url, timeout=20, headers=self._bearing()) as http:
            while self.wanted or open_jobs:
                if self.wanted and len(open_jobs) < AT_ONCE:
                    number += 1
                    name = f"net {number}" if number % 2 else f"net {number} of {self.tenant}"
                    job = self._ask(http, "POST", "/v1/plan?fresh=false", asked(name))
                    self.accepted[job["id"]] = name
                    open_jobs.add(job["id"])
                for id_ in sorted(open_jobs):
                    job = self._ask(http, "GET", f"/v1/jobs/{id_}")
                    if job["state"] in ENDS:
                        self.ended[id_] = job
                        open_jobs.discard(id_)
                        if job["state"] == "succeeded":
                            self.plans[job["plan"]] = self.accepted[id_]
                self._spy(http, random)
                time.sleep(0.05)

    def own(self, name: str) -> bool:
        """Whether nobody else asks for a net of this name."""
        return name.endswith(f" of {self.tenant}")

    def _bearing(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"}

    def _ask(
        self, http: httpx.Client, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        began = time.monotonic()
        while True:
            try:
                answer = http.request(method, path, json=body)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code in (200, 202):
                self.longest_s = max(self.longest_s, time.monotonic() - began)
                found: dict[str, Any] = answer.json()
                if "stages" in found:  # accepted before an answer was lost, and done since
                    return self._ask(http, "GET", answer.headers["location"])
                return found
            if answer is not None and answer.status_code < 500:
                raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
            time.sleep(0.05)

    def _spy(self, http: httpx.Client, random: Random) -> None:
        """Ask once for something of another tenant, by its id or in a list."""
        for other in self.others:
            jobs = set(other.accepted)
            plans = {plan for plan, name in other.plans.copy().items() if other.own(name)}
            asking = [(f"/v1/{kind}?page_size=200", {}) for kind in ("jobs", "plans")]
            asking += [(f"/v1/jobs/{id_}", {}) for id_ in sorted(jobs)[-3:]]
            asking += [(f"/v1/jobs/{id_}/events", {}) for id_ in sorted(jobs)[-1:]]
            for plan in sorted(plans)[-3:]:
                tag = {"If-None-Match": f'"{plan}"'}
                asking += [(f"/v1/plans/{plan}", tag), (f"/v1/plans/{plan}", {})]
            path, headers = random.choice(asking)
            try:
                answer = http.get(path, headers=headers)
            except httpx.TransportError:
                continue
            listing = "?" in path
            if answer.status_code >= 500:
                continue
            if answer.status_code != (200 if listing else 404):
                self.shown.append(f"{path}: {answer.status_code}")
            elif listing and any(id_ in answer.text for id_ in jobs | plans):
                self.shown.append(path)
            else:
                self.refused += 1
