"""Parameters that a request excludes from optimizer parallelism."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.capture.decoder import Decoder, decoder_graph
from meshwright.schema import (
    Budget,
    Constraints,
    Degrees,
    Layout,
    OptimizerParallel,
    Plan,
    PlanError,
    Recompute,
    Request,
    RequestError,
    Setup,
)
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import check
from meshwright_solver.verification.verify import verify_documents
from tests.one_stage import one_stage_request
from tests.solver.requests import planned

GRAPH = decoder_graph(
    Decoder(layers=4, hidden=256, heads=4, vocabulary=512, ffn=512), batch=16, seq=64
)
GLOBS = ("*.q_proj.weight", "*.mlp.*", "model.layers.2.*", "lm_head.weight", "*embed*", "*norm*")


def request(unsharded: tuple[str, ...], level: int | None, **more: object) -> Request:
    parallel = OptimizerParallel(level=level, threshold_kb=0, unsharded=unsharded)
    return one_stage_request(
        graph=GRAPH,
        topology=preset("h100-1x4"),
        setup=Setup(microbatches=2),
        constraints=Constraints(optimizer_parallel=parallel),
        recompute=Recompute(policy="none"),
        budget=Budget(max_axes=2),
        **more,
    )


def states(plan: Plan) -> dict[str, tuple[Layout | None, ...]]:
    return {
        parameter.tensor: (parameter.value, parameter.gradient, parameter.optimizer)
        for stage in plan.stages
        for parameter in stage.parameters
    }


@settings(max_examples=5)
@given(
    globs=st.lists(st.sampled_from(GLOBS), min_size=1, max_size=3, unique=True),
    level=st.sampled_from((None, 1, 2, 3)),
)
def test_named_parameters_are_stored_as_their_readers_need_them(
    globs: list[str], level: int | None
) -> None:
    asked = request(tuple(globs), level)
    plan = planned(asked)
    sharded = 0
    for name, layouts in states(plan).items():
        named = any(fnmatchcase(name, glob) for glob in globs)
        finer = any(layout not in (None, layouts[0]) for layout in layouts)
        assert not (named and finer), name
        sharded += finer
    assert sharded or level in (None, 3)
    certificate = verify_documents(plan, GRAPH, asked.topology, asked.setup, asked.calibration, 0)
    assert certificate.outcome == "verified", certificate.detail


def test_a_plan_that_shards_a_named_parameter_is_refused() -> None:
    asked = request((), 2)
    plan = planned(asked)
    parallel = OptimizerParallel(level=2, threshold_kb=0, unsharded=("*.o_proj.weight",))
    wishes = plan.wishes.like(constraints=Constraints(optimizer_parallel=parallel))
    with pytest.raises(PlanError, match=r"o_proj\.weight"):
        verify_documents(
            plan.model_copy(update={"wishes": wishes}),
            GRAPH, asked.topology, asked.setup, asked.calibration, 0,
        )  # fmt: skip


def test_stated_degrees_keep_named_parameters_whole_over_data_parallel_devices() -> None:
    parallel = OptimizerParallel(unsharded=("model.layers.1.*",))
    asked = Request(
        graph=GRAPH,
        topology=preset("h100-1x4"),
        setup=Setup(microbatches=2),
        constraints=Constraints(optimizer_parallel=parallel),
        degrees=Degrees(tp=2, zero=1),
        recompute=Recompute(policy="none"),
    )
    of = states(planned(asked))
    for name, (value, _, optimizer) in of.items():
        if name.endswith("q_proj.weight"):
            assert (optimizer == value) == ("layers.1." in name), name


def test_a_glob_without_a_parameter_is_refused_by_name() -> None:
    with pytest.raises(RequestError, match=r"unsharded '\*\.qproj' matches no parameter; .*q_proj"):
        check(request(("*.qproj",), 1))
