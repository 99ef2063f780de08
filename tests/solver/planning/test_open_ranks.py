"""The default request searches everything, and one stage where pipelines are not planned."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.schema import (
    Constraints,
    Degrees,
    InvalidInput,
    Pipeline,
    Recompute,
    Request,
    RequestError,
    Setup,
)
from meshwright.schema.pipeline import NO_PIPELINE
from meshwright_solver.planning.open_ranks import with_ranks
from meshwright_solver.planning.planner import check
from tests.solver.layered import layered
from tests.solver.mixed import beside, kind
from tests.solver.requests import planned
from tests.solver.small_graphs import topology, toy_calibration

OFFLOAD = Constraints(offload="optimizer")
MIXED = beside(kind("slow", 2), kind("fast", 2))
SLOW_LINK = topology(4, 2, flops_per_s=1e11, bytes_per_s=1e9)


def default_request(**fields: Any) -> Request:
    """A request that says nothing of pipelines and recomputation."""
    documents = {"graph": layered(6, batch=64, width=512), "topology": SLOW_LINK}
    return Request(**{"calibration": toy_calibration(), **documents, **fields})


def test_the_default_leaves_pipelines_and_recomputation_to_the_search() -> None:
    request = default_request()
    assert request.pipeline == Pipeline(ranks=None)
    assert request.recompute == Recompute(policy="auto")
    assert with_ranks(request) is request
    assert request.to_dict().keys().isdisjoint({"pipeline", "recompute", "budget"})


def test_the_default_finds_a_pipeline_where_links_are_slow() -> None:
    found, alone = planned(default_request()), planned(default_request(pipeline=NO_PIPELINE))
    assert found.schedule is not None
    assert found.cost.step_ns < alone.cost.step_ns
    assert found.wishes.pipeline == Pipeline()


@pytest.mark.parametrize(
    "fields",
    [
        {"degrees": Degrees(tp=2)},
        {"setup": Setup(phase="inference")},
        {"setup": Setup(copies=2)},
        {"topology": MIXED, "constraints": OFFLOAD},
    ],
)
def test_there_is_one_stage_where_pipelines_are_not_planned(fields: dict[str, Any]) -> None:
    request = default_request(**fields)
    assert with_ranks(request).pipeline == NO_PIPELINE
    check(request)


@pytest.mark.parametrize(
    "fields", [{"setup": Setup(phase="inference")}, {"setup": Setup(copies=2)}]
)
def test_pipelines_that_are_asked_for_there_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="pipeline"):
        check(default_request(pipeline=Pipeline(ranks=2), **fields))


def test_degrees_with_a_schedule_need_a_number_of_ranks() -> None:
    with pytest.raises(RequestError, match="need a number of pipeline ranks"):
        default_request(degrees=Degrees(tp=2), pipeline=Pipeline(schedule="1f1b"))
