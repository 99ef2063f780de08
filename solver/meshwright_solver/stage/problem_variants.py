"""The problems of one stage: by number of microbatches, recomputed ops and memory reserve."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from meshwright.schema import Graph, RecomputePolicy, Request
from meshwright_costmodel.calibrations import calibration_for
from meshwright_solver.folding.folding_cache import FoldingCursor, Foldings
from meshwright_solver.problem.problem import Problem, build_problem
from meshwright_solver.problem.recomputed_ops import NOTHING, RecomputedOps
from meshwright_solver.problem.values import Values, find_values
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

    def recompute(self, policy: RecomputePolicy, count: int) -> RecomputedOps:
        """The ops that a policy recomputes in `count` microbatches."""
        setup = self._request.setup
        if policy == "none" or setup.phase != "training":
            return NOTHING
        device = self._request.topology.device.model_dump_json(exclude={"memory_bytes"})
        blocks = self._request.recompute.blocks
        numbers: Hashable = (
            count, setup.id, self._calibration.id, device, self._position.sent
        )  # fmt: skip

        def make() -> RecomputedOps:
            original = self._foldings.original(numbers, lambda: self.original(count))
            return remade(*original, policy, blocks)

        return self._foldings.remade((policy, blocks, numbers), make)

    def original(self, count: int) -> tuple[Problem, Values]:
        """The problem of the whole graph, and its values, without recomputation."""
        if self._original is None or self._original[0] != count:
            problem = self.problem(self._request.graph, count, NOTHING, Room())
            self._original = count, problem, find_values(problem)
        return self._original[1:]

    def problem(self, graph: Graph, count: int, recompute: RecomputedOps, room: Room) -> Problem:
        """The problem of a graph, the request's or a folded one."""
        position = self._position
        problem = build_problem(
            graph,
            self._request.topology,
            self._request.setup,
            self._calibration,
            count,
            in_flight=position.in_flight,
            stage_link=position.link,
            sent=position.sent,
            remade=recompute,
        )
        return replace(
            problem,
            whole=self._request.graph,
            spare_bytes=room.spare_bytes,
            moved_bytes=room.moved_bytes,
        )
