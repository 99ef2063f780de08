"""A mesh between the two rounds of a search: its floor and its remaining engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, nan

from meshwright_solver.common.deadline import OutOfTime
from meshwright_solver.folding.mesh_outcome import NOT_SEARCHED, TOO_LARGE, MeshOutcome
from meshwright_solver.search.core.outcome import Outcome, SearchBudget, TableTooLarge
from meshwright_solver.stage.engines.engine import Engine
from meshwright_solver.stage.mesh_space import MeshSpace
from meshwright_solver.stage.search_progress import SearchProgress
from meshwright_solver.strategies.mesh_models import Models

# chosen: meshes whose tables are kept between the two rounds; some 100 MB each at the most
HELD = 8


@dataclass(slots=True)
class MeshCandidate:
    """A mesh between the two rounds.

    floor_ns: no plan on the mesh has a smaller objective; inf, which sorts it last, if the tables
    of the engine that computes floors would be too large. engines: the remaining ones. outcome: of
    the mesh, if the first round decides it.
    """

    space: MeshSpace
    engines: tuple[Engine, ...]
    floor_ns: float = -inf
    outcome: MeshOutcome | None = None

    @property
    def models(self) -> Models:
        return self.space.models

    def find_floor(self, budget: SearchBudget, progress: SearchProgress) -> None:
        """Run the first engine's first step. Raises OutOfTime."""
        engine, *later = self.engines
        assert engine.floor is not None
        if later and engine.is_slow_on(self.space.unfolding.graph):
            self._skip_engine()
            return
        try:
            self.floor_ns = engine.floor(self.space, budget, progress)
        except TableTooLarge:
            self._skip_engine()

    def search(self, budget: SearchBudget, progress: SearchProgress) -> MeshOutcome:
        """The outcome under the memory limit."""
        if self.outcome is not None:
            return self.outcome
        if budget.cutoff_ns <= self.floor_ns < inf:
            note = "no plan here costs less than one of another mesh"
            beaten = Outcome("unknown", None, inf, nan, self.floor_ns, None, (note,))
            return MeshOutcome(beaten, self.models)
        for engine in self.engines:
            try:
                return engine.search(self.space, budget, progress)
            except TableTooLarge:
                continue
            except OutOfTime:
                return late(self.models)
        return _unsearched(self.models, TOO_LARGE)

    def unfinished(self) -> MeshOutcome:
        """The outcome of a mesh that the second round does not reach."""
        if self.outcome is not None:
            return self.outcome
        if not isfinite(self.floor_ns):
            return _unsearched(self.models, "the search had not come to it")
        return MeshOutcome(replace(NOT_SEARCHED, lower_bound_ns=self.floor_ns), self.models)

    def _skip_engine(self) -> None:
        """Leave the mesh to the next engine."""
        self.engines = self.engines[1:]
        self.floor_ns = inf
        if not self.engines:
            self.outcome = _unsearched(self.models, TOO_LARGE)


def release_worst(candidates: Sequence[MeshCandidate]) -> None:
    """Free the tables of the least promising mesh where too many meshes hold theirs."""
    holders = [candidate for candidate in candidates if candidate.space.elimination is not None]
    if len(holders) > HELD:
        max(holders, key=lambda candidate: candidate.floor_ns).space.release()


def _unsearched(models: Models, reason: str) -> MeshOutcome:
    return MeshOutcome(NOT_SEARCHED, models, left_out=reason)


def late(models: Models) -> MeshOutcome:
    return _unsearched(models, "the time was over")
