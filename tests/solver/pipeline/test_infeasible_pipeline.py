"""Why no pipeline fits: the configuration that comes nearest, where, when and by how much."""

from __future__ import annotations

from math import ceil

from meshwright.schema import Pipeline, Request, Setup
from meshwright_solver.planning.planner import plan
from tests.solver.layered import layered
from tests.solver.requests import refused, toy_request
from tests.solver.small_graphs import topology


def asked(memory_bytes: int) -> Request:
    return toy_request(
        graph=layered(4),
        topology=topology(4, memory_bytes=memory_bytes),
        setup=Setup(),
        pipeline=Pipeline(ranks=2),
    )


def test_the_nearest_is_named_with_its_stage_its_moment_and_what_may_do() -> None:
    why = refused(asked(100_000))
    assert why.constraint == "memory"
    assert why.detail.startswith("no configuration found fits; closest: 1f1b, 2 pipeline ranks, ")
    for said in (
        ": stage 0: no plan that fits was found; the closest needs",
        "at its fullest moment (backward of 1.linear)",
        "parameters and their states split finer",
    ):
        assert said in why.detail, said
    assert why.needed_bytes is not None
    assert why.available_bytes == 90_000
    assert why.needed_bytes > 90_000


def test_memory_as_it_is_said_to_be_needed_soon_is_enough() -> None:
    """What is needed is that of the nearest, which is another where there is more; a tenth is kept
    free."""
    memory_bytes = 100_000
    for _ in range(3):
        found = plan(asked(memory_bytes))
        if found.infeasible is None:
            break
        assert found.infeasible.needed_bytes is not None
        more = ceil(found.infeasible.needed_bytes / 0.9)
        assert more > memory_bytes
        memory_bytes = more
    assert found.plan is not None
    assert memory_bytes < 130_000


def test_where_no_draft_fits_the_one_that_misses_by_least_is_said() -> None:
    """Eight samples: with as many microbatches least is saved. Two devices a rank, of 2 ranks'
    memory: what is there is 2 x 0.9 x 91,500."""
    why = refused(asked(91_500))
    said = "no configuration found fits; closest: 2 pipeline ranks, 8 microbatches: with the memory"
    assert why.detail.startswith(said)
    assert why.available_bytes == 2 * 82_350
    assert why.needed_bytes is not None
    assert 1 < why.needed_bytes / why.available_bytes < 1.05


def test_a_configuration_that_was_refused_needs_more_than_a_device_has() -> None:
    """What is refused for want of memory was estimated to fit."""
    for memory_bytes in (120_000, 126_000, 180_000):
        found = plan(asked(memory_bytes)).plan
        assert found is not None
        refused_ = [own for own in found.search.considered if "no plan that fits" in own.why]
        assert refused_
        for own in refused_:
            assert own.cost_ns is None
            assert own.memory_bytes is not None
            assert own.memory_bytes > found.cost.memory_bytes.capacity == memory_bytes
            assert not own.on_front
