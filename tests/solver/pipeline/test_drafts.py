"""Groups of configurations that are left out without a draft could not have been worth one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from meshwright.schema import Pipeline, Recompute
from meshwright_solver.common.deadline import ENDLESS
from meshwright_solver.pipeline.configurations import configurations
from meshwright_solver.pipeline.draft_group import FINER, DraftGroup
from meshwright_solver.pipeline.drafts import LEAST_GAIN, Drafts
from meshwright_solver.pipeline.optimistic_step import outlook_ns
from meshwright_solver.pipeline.shared_context import Searches, SharedContext
from meshwright_solver.pipeline.stage_graph import Anatomy
from tests.solver.layered import layered
from tests.solver.requests import toy_request
from tests.solver.small_graphs import topology


def _looked(beaten_ns: float) -> list[DraftGroup]:
    request = toy_request(
        graph=layered(6, batch=64),
        topology=topology(4, 2, latency_ns=20_000),
        pipeline=Pipeline(ranks=None),
        recompute=Recompute(policy="auto"),
    )
    anatomy = Anatomy(request.graph)
    drafts = Drafts(Searches(SharedContext(request, anatomy), None), lambda *_: None)
    return drafts.look(drafts.groups(configurations(request, anatomy)), ENDLESS, lambda: beaten_ns)


@pytest.fixture(scope="module")
def every() -> list[DraftGroup]:
    return _looked(float("inf"))


def test_groups_come_in_the_order_of_their_optimistic_steps(every: list[DraftGroup]) -> None:
    steps = [group.at_best_ns for group in every]
    assert steps == sorted(steps)
    assert len({group.ranks for group in every}) > 1


@pytest.mark.parametrize("share", [0.8, 1.2])
def test_a_known_step_leaves_out_only_groups_that_are_behind(
    every: list[DraftGroup], share: float
) -> None:
    beaten_ns = share * every[0].at_best_ns
    looked = {(group.ranks, group.microbatches) for group in _looked(beaten_ns)}
    left_out = [group for group in every if (group.ranks, group.microbatches) not in looked]
    assert left_out
    assert not any(group.may_take((1 - LEAST_GAIN) * beaten_ns) for group in left_out)


def test_configurations_that_cannot_win_are_left_out_of_a_group() -> None:
    group = max(_looked(float("inf")), key=lambda group: len(group.configurations))
    steps = {own: outlook_ns(own, group.free[0]) for own in group.configurations}
    floors = group.floors_ns
    ns = 1.001 * min(max(floors[own], steps[own] / FINER) for own in steps)
    group.keep(ns)
    assert 0 < len(group.configurations) < len(steps)
    assert set(group.left_out) | set(group.configurations) == set(steps)
    assert all(floors[own] >= ns or steps[own] >= FINER * ns for own in group.left_out)


def test_no_plan_is_faster_than_the_least_step_of_equal_stages(every: list[DraftGroup]) -> None:
    for group in every:
        for own, floor_ns in group.floors_ns.items():
            assert floor_ns <= outlook_ns(own, group.free[0]) * (1 + 1e-9)


class _OutOfTime(Drafts):
    """One configuration of each group does not fit, and the time ends before any other draft."""

    def estimate(self, groups: Sequence[DraftGroup]) -> None:
        super().estimate(groups)
        for group in groups:
            group.options = group.options[:-1]

    def _add(self, *_: object) -> None:
        pass


def test_estimates_stay_where_the_time_ends_before_drafts_within_memory() -> None:
    request = toy_request(graph=layered(8), topology=topology(4, 2), pipeline=Pipeline(ranks=None))
    anatomy = Anatomy(request.graph)
    drafts = _OutOfTime(Searches(SharedContext(request, anatomy), None), lambda *_: None)
    groups = drafts.look(drafts.groups(configurations(request, anatomy)), ENDLESS)
    done = drafts.begin(groups, ENDLESS)
    assert any(group.options for group in done)
    assert all(group.is_drafted for group in done if group.options)
    drafts.sharpen(done, ENDLESS)
    assert any(group.options for group in done)
