"""What searches find and prove on meshes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import inf, nan

from meshwright.schema import Finding, Mesh
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.search.core.outcome import Outcome
from meshwright_solver.strategies.mesh_models import Models

# chosen: a gap below what any cost model can tell apart; the search stops there
TOLERANCE = 1e-3

NOT_SEARCHED = Outcome("unknown", None, inf, nan, -inf, None)

TOO_LARGE = "its tables would be too large"


@dataclass(frozen=True, slots=True)
class MeshOutcome:
    """What was found and proved on one mesh.

    outcome.lower_bound_ns holds for every plan on the mesh; `infeasible` is only said of all plans.
    broken_pin: the op that can keep its pin in no way. short_bytes: the least memory of the
    strategies that a search found, where that is too much. left_out: why nothing is known.
    faster_ns: what it costs more than the cheapest choice of all meshes, for a shorter step;
    simplicity_ns: and more than the choice that was found here, for being simpler.
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
    """Cheaper and cheaper plans, and how many seconds after the start each was found."""

    started: float = field(default_factory=time.monotonic)
    findings: list[Finding] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, search: str, mesh: Mesh, cost_ns: float) -> None:
        if self.findings and cost_ns >= self.findings[-1].cost_ns:
            return
        self.findings.append(Finding(search=search, mesh=shown(mesh), cost_ns=cost_ns))
        self.seconds.append(time.monotonic() - self.started)

    def forget(self, mesh: Mesh) -> None:
        """What was found there was no plan after all."""
        name = shown(mesh)
        positions = [k for k, finding in enumerate(self.findings) if finding.mesh != name]
        self.findings[:] = [self.findings[k] for k in positions]
        self.seconds[:] = [self.seconds[k] for k in positions]


def shown(mesh: Mesh) -> str:
    """A mesh in words."""
    return " × ".join(f"{axis.name} {axis.size}" for axis in mesh.axes)
