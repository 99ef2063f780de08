"""Mesh outcomes: search results and bounds on single meshes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import inf, nan

from meshwright.schema import Finding, Mesh
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.search.core.outcome import Outcome
from meshwright_solver.strategies.mesh_models import Models

# chosen: the search stops at a gap below the accuracy of any cost model
TOLERANCE = 1e-3

NOT_SEARCHED = Outcome("unknown", None, inf, nan, -inf, None)

TOO_LARGE = "its tables would be too large"


@dataclass(frozen=True, slots=True)
class MeshOutcome:
    """Result of a search on one mesh.

    outcome.lower_bound_ns holds for every plan on the mesh. `infeasible` holds for all plans.
    broken_pin: the op whose pin is unsatisfiable. short_bytes: the least memory of the strategies
    that a search found, if it exceeds the capacity. left_out: the reason for an unknown result.
    faster_ns: additional cost over the cheapest choice of all meshes, for a shorter step.
    simplicity_ns: additional cost over the choice found here, for a simpler plan.
    """

    outcome: Outcome
    models: Models
    found_by: str = ""
    unfolding: Unfolding | None = None
    broken_pin: str | None = None
    left_out: str = ""
    short_bytes: float | None = None
    notes: tuple[str, ...] = ()
    faster_ns: float = 0.0
    simplicity_ns: float = 0.0

    @property
    def mesh(self) -> Mesh:
        return self.models.mesh


@dataclass(slots=True)
class History:
    """Incumbents: plans of decreasing cost, with the seconds from the start to each."""

    started: float = field(default_factory=time.monotonic)
    findings: list[Finding] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, search: str, mesh: Mesh, cost_ns: float) -> None:
        if self.findings and cost_ns >= self.findings[-1].cost_ns:
            return
        self.findings.append(Finding(search=search, mesh=shown(mesh), cost_ns=cost_ns))
        self.seconds.append(time.monotonic() - self.started)

    def forget(self, mesh: Mesh) -> None:
        """Remove the incumbents of a mesh, which turned out to be no plans."""
        name = shown(mesh)
        positions = [k for k, finding in enumerate(self.findings) if finding.mesh != name]
        self.findings[:] = [self.findings[k] for k in positions]
        self.seconds[:] = [self.seconds[k] for k in positions]


def shown(mesh: Mesh) -> str:
    """Text of a mesh."""
    return " × ".join(f"{axis.name} {axis.size}" for axis in mesh.axes)
