"""The progress of a search over meshes: its phase, its incumbent and its history of plans."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite

from meshwright.schema import Mesh, Progress
from meshwright_solver.folding.mesh_outcome import History
from meshwright_solver.search.core.incumbent import Report as StepReport
from meshwright_solver.search.core.incumbent import SearchStep as Step

Report = Callable[[Progress], None]


class SearchProgress:
    """Reports of one search. history: of all plans that the engines find, shared by searches."""

    def __init__(self, history: History, report: Report) -> None:
        self.history = history
        self._report = report
        self._phase = Progress(phase="starting", done=0, total=1)

    @property
    def best_ns(self) -> float:
        """The objective of the best plan so far; inf without any."""
        return self.history.findings[-1].cost_ns if self.history.findings else inf

    def start_phase(
        self, phase: str, *, done: int, total: int, incumbent_ns: float | None = None
    ) -> None:
        """Report the phase that starts, after `done` of `total` steps."""
        self._phase = Progress(phase=phase, done=done, total=total, incumbent_ns=incumbent_ns)
        self._report(self._phase)

    def reporter(self, engine: str, mesh: Mesh) -> StepReport:
        """The callback of an engine on a mesh: adds plans to the history, and reports them."""

        def report(step: Step) -> None:
            if step.cost_ns is not None:
                self.history.add(engine, mesh, step.cost_ns)
            best_ns = self.history.findings[-1].cost_ns if self.history.findings else None
            bound_ns = step.lower_bound_ns if isfinite(step.lower_bound_ns) else None
            update = {"incumbent_ns": best_ns, "lower_bound_ns": bound_ns}
            self._report(self._phase.model_copy(update=update))

        return report
