"""The first plans of a pipeline search: early, with any time, and none left that seems faster."""

from __future__ import annotations

import pytest

from meshwright.schema import Budget, Pipeline, Recompute, Request, Setup, Topology
from meshwright_solver.pipeline.candidates import CutEstimate
from meshwright_solver.pipeline.configurations import Configuration, configurations
from meshwright_solver.pipeline.drafts import LEAST_GAIN
from meshwright_solver.pipeline.estimates import EstimateTask, Estimator
from meshwright_solver.pipeline.stage_graph import Anatomy
from tests.solver.layered import layered
from tests.solver.requests import offered, planned, toy_request
from tests.solver.small_graphs import topology


@pytest.fixture(scope="module")
def only_pipelines() -> Request:
    """Odd sizes, which no dim divides, in memory for three quarters of the parameters."""
    graph = layered(6, width=255, batch=4)
    whole = planned(toy_request(graph=graph, topology=topology(1), setup=Setup(microbatches=4)))
    memory = whole.cost.memory_bytes
    small = topology(2, memory_bytes=int((memory.total - memory.reserved) * 0.75))
    return toy_request(graph=graph, topology=small, pipeline=Pipeline(ranks=None))


def test_the_plan_without_a_pipeline_is_offered_first() -> None:
    request = toy_request(graph=layered(4), topology=topology(4, 2), pipeline=Pipeline(ranks=None))
    first, *_ = offered(request)[1]
    assert first.schedule is None


def test_a_pipeline_is_offered_before_the_search_ends_where_one_stage_does_not_fit(
    only_pipelines: Request,
) -> None:
    first, *more = offered(only_pipelines)[1]
    assert first.schedule is not None
    assert more


@pytest.mark.parametrize("policy", ["none", "auto"])
def test_a_search_without_time_still_has_a_plan(only_pipelines: Request, policy: str) -> None:
    request = only_pipelines.model_copy(
        update={
            "budget": Budget(seconds=1e-3),
            "recompute": Recompute.model_validate({"policy": policy}),
        }
    )
    assert planned(request).schedule is not None


@pytest.mark.parametrize("devices", [topology(4, 2), topology(4, flops_per_s=1e12)])
def test_no_considered_configuration_seems_faster_than_the_plan(devices: Topology) -> None:
    request = toy_request(
        graph=layered(6),
        topology=devices,
        pipeline=Pipeline(ranks=None),
        recompute=Recompute(policy="auto"),
    )
    answer = planned(request)
    ratios = [
        float(entry.why.split()[-2])
        for entry in answer.search.considered
        if entry.why.endswith(" times")
    ]
    assert ratios
    # what gains less than half a per cent is not searched for
    assert min(ratios) >= 1 - LEAST_GAIN


def test_a_search_without_time_has_the_plan_without_a_pipeline_if_it_fits() -> None:
    request = toy_request(
        graph=layered(4),
        topology=topology(4, 2),
        pipeline=Pipeline(ranks=None),
        budget=Budget(seconds=1e-3),
    )
    found = planned(request)
    assert found.schedule is None
    assert "the search ended after 0.001 s: a longer budget may find a faster plan" in found.notes


def test_the_note_counts_every_configuration_without_an_estimate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    estimated: set[Configuration] = set()
    cuts = Estimator.cuts

    def noted(self: Estimator, task: EstimateTask) -> list[CutEstimate | None]:
        estimated.update(task.configurations)
        return cuts(self, task)

    monkeypatch.setattr(Estimator, "cuts", noted)
    request = toy_request(
        graph=layered(6, batch=64, width=512),
        topology=topology(4, 2, flops_per_s=1e11, bytes_per_s=1e9),
        pipeline=Pipeline(ranks=None),
    )
    found = planned(request)
    every = set(configurations(request, Anatomy(request.graph)))
    (note,) = [note for note in found.notes if "not estimated" in note]
    assert estimated < every
    assert int(note.split()[0]) == len(every - estimated)
