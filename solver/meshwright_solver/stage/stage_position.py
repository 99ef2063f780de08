"""The position of a stage in a pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from meshwright.schema import Link, Mesh
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.search.core.outcome import MOST_LABELS
from meshwright_solver.stage.recompute.blocks import BlockNames


@dataclass(frozen=True, slots=True)
class StagePosition:
    """A stage's neighbors, its microbatches in flight, and the limits of the search for its plan.

    in_flight: microbatches whose saved activations it holds; not a whole number if other bytes
    stand for some of them. link: to its neighbors. sent: tensors that go to the next stage and
    have a gradient that comes back.
    tolerance: the gap at which the search ends. max_labels: of the last step of a search
    (`SearchBudget`). spare_bytes: the first reserve for transient memory. meshes: those to search,
    all by default; a bound holds for these meshes. blocks: of the whole graph, for recomputation.
    """

    in_flight: float = 1
    link: Link | None = None
    tolerance: float = TOLERANCE
    sent: frozenset[str] = frozenset()
    spare_bytes: float = 0.0
    max_labels: int = MOST_LABELS
    meshes: tuple[Mesh, ...] = ()
    blocks: BlockNames | None = None


ALONE = StagePosition()
