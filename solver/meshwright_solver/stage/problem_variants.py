"""The problems of one stage: by number of microbatches, recomputed ops and memory reserve."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from meshwright.schema import Graph, RecomputePolicy, Request
from meshwright_costmodel.calibrations import calibration_for
from meshwright_solver.folding.folding_cache import FoldingCursor, Foldings
from meshwright_solver.problem.problem import Problem, build_problem
from meshwright_solver.problem.recomputed_ops import NOTHING, RecomputedOps
from meshwright_solver.problem.values import Values
from meshwright_solver.stage.memory_retries import Room
from meshwright_solver.stage.op_marks import marked, marks_of
from meshwright_solver.stage.recompute import remade
from meshwright_solver.stage.stage_position import StagePosition


class ProblemVariants:
    """Problems of a request's graph, folded or whole. Raises InvalidInput like `build_problem`."""

    def __init__(self, request: Request, position: StagePosition, foldings: Foldings) -> None:
        """foldings: of the request's graph."""
        self._request = request
        self._position = position
        self._foldings = foldings
        self._calibration = calibration_for(request)
        self._marks = marks_of(request)
        self._original: tuple[int, Problem, Values] | None = None
        self._cursors: list[FoldingCursor] = []

    def folding(self, recompute: RecomputedOps) -> FoldingCursor:
        """The folding of the graph with these ops recomputed, for every number of microbatches."""
        marks = marked(self._marks, recompute)
        for cursor in self._cursors:
            if cursor.marks == marks:
                return cursor
        self._cursors.append(FoldingCursor(self._foldings, marks))
        return self._cursors[-1]

    def recompute(
        self, policy: RecomputePolicy, count: int, blocks: int | None = None
    ) -> RecomputedOps:
        """The ops that a policy recomputes in `count` microbatches.

        blocks: the number of blocks that recompute, None for those of the request.
        """
        setup = self._request.setup
        if policy == "none" or setup.phase != "training":
            return NOTHING
        device = self._request.topology.device.model_dump_json(exclude={"memory_bytes"})
        blocks = self._request.recompute.blocks if blocks is None else blocks
        position = self._position
        stated = self._request.recompute.ops, self._request.recompute.communication
        numbers: Hashable = (self._terms(count), device, position.sent, position.blocks)

        def make() -> RecomputedOps:
            wish = self._request.recompute
            return remade(*self.original(count), policy, blocks, position.blocks, wish=wish)

        return self._foldings.remade((policy, blocks, numbers, *stated), make)

    def original(self, count: int) -> tuple[Problem, Values]:
        """The problem of the whole graph, and its values, without recomputation."""
        if self._original is None or self._original[0] != count:
            problem = self.problem(self._request.graph, count, NOTHING, Room())
            self._original = count, problem, self.values(problem)
        return self._original[1:]

    def problem(self, graph: Graph, count: int, recompute: RecomputedOps, room: Room) -> Problem:
        """The problem of a graph, the request's or a folded one."""
        position, request = self._position, self._request
        problem = build_problem(
            graph,
            request.topology,
            request.setup,
            self._calibration,
            count,
            in_flight=position.in_flight,
            stage_link=position.link,
            sent=position.sent,
            remade=recompute,
            sizes=self._foldings.sized,
        )
        return replace(
            problem,
            whole=request.graph,
            spare_bytes=room.spare_bytes,
            moved_bytes=room.moved_bytes,
        )

    def values(self, problem: Problem) -> Values:
        """The values of a problem of these variants."""
        return self._foldings.values(problem)

    def _terms(self, count: int) -> Hashable:
        return count, self._request.setup.id, self._calibration.id
