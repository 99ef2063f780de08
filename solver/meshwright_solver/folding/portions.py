"""Portions: a plan of the whole graph in shares of assignments of the folded graph.

Copies with equal choices share one portion, which is renamed for each of them. A *window* describes
a middle copy of a run. It is the choice of the folded graph in which the kept middle copy has the
states of that copy, and the next kept copy those of the copy after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.evaluation.accounting.assignment import Assignment, assignment_of_choice
from meshwright_solver.evaluation.accounting.ledger import AssignmentShare
from meshwright_solver.folding.fold import MIDDLE, FoldedRun, Folding
from meshwright_solver.folding.kept_copies import Place, RunPositions
from meshwright_solver.folding.unroll import Unrolled
from meshwright_solver.lowering.lower import Lowered


@dataclass(frozen=True)
class Copy:
    """Copy of a run of the graph, and the corresponding run of the folded graph.

    Both runs are None for parts outside of middle copies, which keep their names.
    """

    like: FoldedRun | None = None
    run: FoldedRun | None = None
    number: int = 0

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Names of the kept middle copy and of the next one -> names of this copy."""
        if self.like is None or self.run is None:
            return {}
        return {
            **self.like.renamed(MIDDLE + 1, self.number + 1, self.run),
            **self.like.renamed(MIDDLE, self.number, self.run),
        }


@dataclass(frozen=True, slots=True)
class Portion:
    """Share of a folded assignment for all copies with equal choices.

    place: the runs whose middle copies contain it.
    """

    assignment: Assignment
    share: AssignmentShare
    place: Place = ()
    copies: list[Copy] = field(default_factory=lambda: [Copy()])


def portions_of(
    folding: Folding, lowered: Lowered, levels: Sequence[Unrolled], choice: IntArray
) -> list[Portion]:
    """Portions of a choice of the whole graph; the portion outside of all middle copies first."""
    windows = _Windows(folding, levels, choice)
    shares = windows.places.shares(lowered)
    portions: dict[tuple[Place, bytes], Portion] = {}
    for place, states, copies in windows.all():
        key = (place, states.tobytes())
        if key in portions:
            portions[key].copies.extend(copies)
        else:
            assignment = assignment_of_choice(lowered, states)
            share = shares.get(place, AssignmentShare((), ()))
            portions[key] = Portion(assignment, share, place, copies)
    return list(portions.values())


class _Windows:
    """Windows of all copies."""

    def __init__(self, folding: Folding, levels: Sequence[Unrolled], choice: IntArray) -> None:
        self.levels = levels
        self.places = RunPositions(folding)
        # by level: the choice of its graph
        self.ends = [choice]
        for level in levels:
            self.ends.append(self.ends[-1][level.kept_at])
        # by level: name of op -> run, copy and place in it
        self._copy_of = [
            {
                name: (number, copy, place)
                for number, run in enumerate(level.runs)
                for copy, names in enumerate(run.ops)
                for place, name in enumerate(names)
            }
            for level in levels
        ]

    def all(self) -> Iterator[tuple[Place, IntArray, list[Copy]]]:
        """Place, choice of the folded graph, and the copies that have it."""
        yield (None,) * len(self.levels), self.ends[-1], [Copy()]
        for depth, level in enumerate(self.levels):
            for number, run in enumerate(level.runs):
                alike: dict[bytes, list[int]] = {}
                states, places = self.ends[depth], level.places[number]
                for copy in run.middle:
                    key = states[places[copy]].tobytes() + states[places[copy + 1]].tobytes()
                    alike.setdefault(key, []).append(copy)
                for copies in alike.values():
                    place, like, window = self._window(depth, number, copies[0])
                    yield place, window, [Copy(like, run, copy) for copy in copies]

    def _window(self, depth: int, number: int, copy: int) -> tuple[Place, FoldedRun, IntArray]:
        """Place of a copy of a run, the corresponding folded run, and its window."""
        first = self.levels[depth].runs[number].ops[MIDDLE][0]
        at: tuple[int, int] | None = (number, copy)
        states = self.ends[depth]
        for level in self.levels[depth:]:
            folded = states[level.kept_at]
            if at is not None:
                for kept_copy in (MIDDLE, MIDDLE + 1):
                    nodes = level.places[at[0]][at[1] + kept_copy - MIDDLE]
                    folded[level.slots[at[0]][kept_copy]] = states[nodes]
            states = folded
            # position of the middle copy on the next level
            at, depth = None, depth + 1
            position = self._copy_of[depth].get(first) if depth < len(self.levels) else None
            if position is not None:
                run = self.levels[depth].runs[position[0]]
                if position[1] in run.middle:
                    at, first = position[:2], run.ops[MIDDLE][position[2]]
        place = self.places.of(("op", first))
        lowest = next(k for k, run_number in enumerate(place) if run_number is not None)
        like = place[lowest]
        assert like is not None
        return place, self.levels[lowest].runs[like], states
