"""Requests that are odd or cannot be met: what is wrong is said, what can be is planned."""

from __future__ import annotations

import pytest

from meshwright.schema import (
    Graph,
    InvalidInput,
    Pin,
    Pipeline,
    Plan,
    PlanError,
    Request,
    RequestError,
    Setup,
    Tensor,
)
from meshwright_solver.planning.planner import check, plan
from meshwright_solver.verification.verify import verify_documents
from tests.solver.layered import layered
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import GraphMaker, topology, toy_calibration

DEVICES = topology(4, 2)


def asked(graph: Graph, setup: Setup | None = None, **wanted: object) -> Request:
    pipeline = Pipeline.model_validate({"ranks": 2, **wanted})
    return toy_request(graph=graph, topology=DEVICES, setup=setup or Setup(), pipeline=pipeline)


def widening(layers: int) -> Graph:
    """Every later cut sends more."""
    maker, width = GraphMaker(batch=8), 16
    x = maker.input("x", "batch", width)
    for layer in range(layers):
        weight = maker.parameter(f"w{layer}", 2 * width, width)
        x = maker.op("linear", [x, weight], ["batch", 2 * width], f"l{layer}")
        width *= 2
    return maker.graph(x)


def test_a_graph_whose_cuts_send_more_and_more_is_cut_all_the_same() -> None:
    plan = planned(asked(widening(6), Setup(microbatches=4), ranks=4))
    assert len(plan.stages) >= 4


@pytest.mark.parametrize(
    ("wanted", "setup", "message"),
    [
        ({"ranks": 8}, Setup(), "8 stages need as many ops; the graph has 6"),
        (
            {"schedule": "1f1b", "stages_per_rank": 2},
            Setup(),
            "1f1b needs stages_per_rank 1, got 2",
        ),
        ({"schedule": "interleaved_1f1b"}, Setup(global_batch=5), "cannot divide 5 microbatches"),
        ({"ranks": None, "cuts": ("0.act", "logits")}, Setup(), "2 cuts make 3 stages"),
    ],
)
def test_what_no_schedule_has_is_no_matter_of_memory(
    wanted: dict[str, object], setup: Setup, message: str
) -> None:
    for ask in (plan, check):
        with pytest.raises(InvalidInput, match=message):
            ask(asked(layered(1), setup, **wanted))


@pytest.mark.parametrize("ranks", [2, None])
@pytest.mark.parametrize(
    ("pin", "message"),
    [
        (Pin(op="nowhere", data_parallel=True), "matches no op"),
        (Pin(op="1.linear", strategy={"q": ("node",)}), "has no factor 'q'"),
        (Pin(op="1.linear", strategy={"n": ("none",)}), "there is no axis 'none'"),
    ],
)
def test_a_wrong_pin_is_said_though_microbatches_are_open(
    pin: Pin, message: str, ranks: int | None
) -> None:
    request = asked(layered(2), ranks=ranks).model_copy(update={"pins": (pin,)})
    with pytest.raises(RequestError, match=message):
        plan(request)


def test_pins_may_name_axes_of_finer_meshes() -> None:
    pin = Pin(op="1.linear", strategy={"n": ("gpu0",)})
    request = asked(layered(2), Setup(microbatches=4), schedule="1f1b").model_copy(
        update={"pins": (pin,), "topology": topology(2, 4)}
    )
    ops = [op for stage in planned(request).stages for op in stage.ops]
    assert next(op.strategy for op in ops if op.op == "1.linear") == {"n": ("gpu0",)}


def test_ranks_that_cannot_keep_a_pin_do_not_end_the_search() -> None:
    """With 4 ranks no device of a rank lies along `node`."""
    pin = Pin(op="1.linear", strategy={"n": ("node",)})
    request = asked(layered(2), Setup(microbatches=4), ranks=None)
    found = planned(request.model_copy(update={"pins": (pin,)}))
    ops = [op for stage in found.stages for op in stage.ops]
    strategy = next(op.strategy for op in ops if op.op == "1.linear")
    assert [axis[:4] for axis in strategy["n"]] in (["node"], ["node", "node"])


def test_a_module_of_one_stage_leaves_the_others_data_parallel() -> None:
    request = asked(layered(2), Setup(microbatches=4), schedule="1f1b", cuts=("1.linear",))
    found = planned(request.model_copy(update={"module": "1.*"}))
    assert verify_documents(found, request.graph, DEVICES, request.setup).outcome == "verified"
    first = next(op for op in found.stages[0].ops if op.op == "0.linear")
    assert set(first.strategy) == {"b0"}


def test_cuts_of_the_user_are_kept_where_ranks_are_open() -> None:
    found = planned(asked(layered(), ranks=None, cuts=("2.linear",)))
    assert [len(found.stages), found.stages[1].ops[0].op] == [2, "receive 1.add:out"]


def test_stages_of_frozen_parameters_are_executed_forward() -> None:
    graph = layered()
    for trained in ("w2", None):
        frozen = graph.model_copy(
            update={"tensors": tuple(_frozen(own, trained) for own in graph.tensors)}
        )
        setup = Setup(microbatches=4)
        found = planned(asked(frozen, setup, schedule="1f1b", cuts=("1.linear",)))
        certificate = verify_documents(found, frozen, DEVICES, setup)
        assert certificate.outcome == "verified", certificate.detail
        assert certificate.tensors > 0
        assert (certificate.gradients > 0) == (trained is not None)


def _frozen(tensor: Tensor, trained: str | None) -> Tensor:
    trainable = tensor.role != "parameter" or tensor.name == trained
    return tensor.model_copy(update={"trainable": trainable})


def test_a_search_that_is_stopped_begins_little_more() -> None:
    """The plan without a pipeline is there first; of the rest, as much as was begun."""
    slow = topology(4, 2, flops_per_s=1e11, bytes_per_s=1e9)
    graph = layered(6, batch=64, width=512)
    request = asked(graph, ranks=None).model_copy(update={"topology": slow})
    told: list[str] = []

    def phases(limit: float) -> int:
        told.clear()
        answer = plan(request, lambda own: told.append(own.phase), lambda: len(told) >= limit)
        assert answer.plan is not None
        return len(told)

    assert phases(3) <= 6
    assert phases(float("inf")) > 9


def test_a_parameter_of_several_stages_is_reduced_once_by_each_rank() -> None:
    """64 x 64 float32 gradients, of 4 stages on 2 ranks of one device, go once each way."""
    maker = GraphMaker(batch=8)
    x = maker.input("x", "batch", 64)
    weight = maker.parameter("w", 64, 64)
    for layer in range(4):
        x = maker.op("linear", [x, weight], ["batch", 64], f"l{layer}")
    devices = topology(2)
    cuts = ("l1", "l2", "l3")
    wanted = {"schedule": "interleaved_1f1b", "stages_per_rank": 2, "cuts": cuts}
    request = asked(maker.graph(x), Setup(microbatches=4), **wanted)
    found = planned(request.model_copy(update={"topology": devices}))
    link = devices.levels[0].link
    ns = 64 * 64 * 4 / (link.bytes_per_s * toy_calibration().link_efficiency) * 1e9
    assert found.cost.communication_ns["gradient"] == pytest.approx(ns + 2 * link.latency_ns)


def test_stages_of_a_rank_may_need_unequal_memory() -> None:
    """An embedding of most of a device's memory, and little else on its rank."""
    graph = layered(8, width=512)
    # 32 MiB of values, 128 MiB with gradient and optimizer state, 32 MiB of a microbatch's gradient
    rows = 1 << 14
    tensors = [
        own.model_copy(update={"shape": (rows, 512)}) if own.name == "words" else own
        for own in graph.tensors
    ]
    large = graph.model_copy(update={"tensors": tuple(tensors)})
    wanted = {"schedule": "interleaved_1f1b", "stages_per_rank": 2}
    request = asked(large, Setup(microbatches=4), **wanted)
    small = topology(2, memory_bytes=220 << 20)
    memory = planned(request.model_copy(update={"topology": small})).cost.memory_bytes
    assert 0.75 * memory.capacity < memory.total <= memory.capacity


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ({"in_flight": 3}, "stage 0 of the plan says in_flight 3, the schedule has 2"),
        ({"pipeline_rank": 1}, "says pipeline_rank 1"),
        ({"ranks_from": 2}, "says ranks_from 2"),
        ({"memory_bytes": None}, "says stage 0 memory_bytes None"),
        ({"receives": ()}, r"the plan says stage 1 receives \[\], not"),
    ],
)
def test_stages_cannot_lie_about_their_place(lie: dict[str, object], message: str) -> None:
    setup = Setup(microbatches=4)
    request = asked(layered(2), setup, schedule="1f1b")
    found = planned(request)
    stages = tuple(stage.model_copy(update=lie) for stage in found.stages)
    with pytest.raises(PlanError, match=message):
        verify_documents(found.model_copy(update={"stages": stages}), request.graph, DEVICES, setup)


def test_a_pipeline_s_plan_is_of_its_own_documents() -> None:
    setup = Setup(microbatches=4)
    request = asked(layered(2), setup, schedule="1f1b")
    found = Plan.from_json(planned(request).to_json())
    assert verify_documents(found, request.graph, DEVICES, setup).outcome == "verified"
    for documents in (
        (layered(3), DEVICES, setup),
        (request.graph, topology(2, 4), setup),
        (request.graph, DEVICES, Setup(microbatches=2)),
    ):
        with pytest.raises(PlanError, match="the plan is for"):
            verify_documents(found, *documents)


def test_a_pin_on_a_level_that_the_ranks_use_up_is_named_with_the_ranks() -> None:
    pin = Pin(op="1.linear", strategy={"n": ("node",)})
    request = asked(layered(), Setup(microbatches=4), ranks=4)
    message = "pin '1.linear': .* 'node'.*; 4 pipeline ranks use up level 'node'"
    with pytest.raises(RequestError, match=message):
        plan(request.model_copy(update={"pins": (pin,)}))
    # where the ranks are open, fewer are taken
    free = asked(layered(), Setup(microbatches=4), ranks=None)
    found = plan(free.model_copy(update={"pins": (pin,)})).plan
    assert found is not None
    assert found.schedule is None or found.schedule.ranks < 4


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved_1f1b"])
def test_every_stage_loads_its_own_inputs_as_the_dataset_says(schedule: str) -> None:
    """ids go to the first stage, labels to the last, each cut in its own way."""
    setup = Setup(microbatches=4, dataset=((("gpu",), 1), (("gpu",),)))
    request = asked(layered(), setup, schedule=schedule)
    found = planned(request)
    assert verify_documents(found, request.graph, DEVICES, setup).outcome == "verified"
    loads = [
        [(op.op, *op.strategy.values()) for op in stage.ops if op.op.startswith("load ")]
        for stage in found.stages
    ]
    assert loads[0] == [("load ids", ("gpu",))]
    assert loads[-1] == [("load label", ("gpu",))]
    assert not any(loads[1:-1])


def test_a_pin_to_a_level_leaves_out_ranks_that_use_it_up() -> None:
    """Two devices: on one each the pin would say nothing."""
    pin = Pin(op="*.linear", strategy={"n": ("gpu",)})
    devices = topology(2, latency_ns=100_000)
    request = toy_request(
        graph=layered(4), topology=devices, pipeline=Pipeline(ranks=None), pins=(pin,)
    )
    plan = planned(request)
    assert len(plan.stages) == 1
    pinned = [op for op in plan.stages[0].ops if op.op.endswith(".linear")]
    assert [op.strategy for op in pinned] == [{"n": ("gpu",)}] * 4
