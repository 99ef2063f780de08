"""Waste: how many devices of a plan do distinct work, and what is said of the rest."""

from __future__ import annotations

import pytest

from meshwright.render import plan_text
from meshwright.reports.overview import overview_of
from meshwright.schema import (
    Degrees,
    Graph,
    Layout,
    LayoutPair,
    Pin,
    Pipeline,
    Plan,
    Request,
    Setup,
    SubDim,
    Topology,
)
from meshwright.schema.layout import Dim
from meshwright.schema.waste import Waste, waste_of
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from tests.solver.layered import layered
from tests.solver.small_graphs import toy_calibration

EIGHT = layered(4, batch=8)
SAID = (
    "99,992 of 100,000 devices repeat the work of others: the batch of 8 cannot be cut further. "
    "Use at most 8 devices, or a larger batch."
)


def planned(topology: str, graph: Graph = EIGHT, **wishes: object) -> tuple[Plan, Topology]:
    cluster = preset(topology)
    request = {"graph": graph, "topology": cluster, "setup": Setup(global_batch=8), **wishes}
    found = plan(Request.model_validate(request)).plan
    assert found is not None
    return found, cluster


def test_devices_beyond_the_batch_repeat_work() -> None:
    found, cluster = planned("h100-12500x8")
    setup = Setup(global_batch=8)
    waste = waste_of(found, EIGHT, setup)
    assert waste == Waste(devices=100_000, distinct=8, batch=8)
    assert waste.headline == SAID
    assert plan_text(found, graph=EIGHT, setup=setup).splitlines()[0] == SAID
    overview = overview_of(found, EIGHT, cluster, setup, toy_calibration())
    assert overview.waste == SAID
    # the plan alone does not say the batch
    assert waste_of(found).headline == (
        "99,992 of 100,000 devices repeat the work of others. Use at most 8 devices."
    )


def test_a_plan_that_uses_its_devices_has_no_headline() -> None:
    for topology in ("h100-1x8", "h100-2x8"):  # of 16, half repeat, and not most
        found, _ = planned(topology)
        assert waste_of(found, EIGHT, Setup(global_batch=8)).headline == ""
    assert not plan_text(found, graph=EIGHT).startswith("8 of")
    assert waste_of(found).distinct == 8


def test_a_pipeline_counts_the_devices_of_each_rank() -> None:
    """Of two ranks with 16 devices each, 4 sequences a microbatch keep 4 busy in each."""
    setup = Setup(global_batch=8, microbatches=2)
    found, _ = planned(
        "h100-4x8", setup=setup, pipeline=Pipeline(ranks=2), degrees=Degrees(dp=4, tp=4)
    )
    waste = waste_of(found, EIGHT, setup)
    assert waste.devices == 32
    assert waste.distinct > 8  # tp cuts the products
    assert waste.batch == 4


def test_ranks_that_wait_for_most_of_the_step_are_named() -> None:
    """One microbatch in 4 pipeline ranks: each computes for a quarter of the step."""
    found, _ = planned(
        "h100-1x4", setup=Setup(global_batch=8, microbatches=1), pipeline=Pipeline(ranks=4)
    )
    waste = waste_of(found)
    assert waste.waiting > 0.5
    assert waste.headline.endswith("Use more microbatches or fewer pipeline ranks.")


@pytest.mark.parametrize(
    ("part", "distinct"),
    [({}, 2), ({"span": 10}, 2), ({"chunks": (9, 0)}, 1), ({"chunks": (1, 8)}, 2)],
    ids=str,
)
def test_empty_chunks_are_no_work(part: dict[str, object], distinct: int) -> None:
    """A batch of 9 in two chunks; of those that a user says, one may be empty."""
    found, _ = planned(
        "h100-1x2",
        graph=layered(4, batch=9),
        setup=Setup(uneven="chunk", global_batch=9),
        pins=(Pin(op="*", data_parallel=True),),
    )
    stage = found.stages[0]
    (cut,) = {axes for op in stage.ops for axes in op.strategy.values()}
    own = SubDim.model_validate({"size": 9, "axes": cut, **part})
    layout = Layout(dims=(Dim(parts=(own,)),))
    tensors = tuple(
        tensor.like(rest=LayoutPair(value=layout), read=None) for tensor in stage.tensors
    )
    changed = found.model_copy(update={"stages": (stage.like(tensors=tensors),)})
    assert waste_of(changed).distinct == distinct
