"""Plans of a target: the framework's options state all of them, and no other strategy is faster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.capture.decoder import Decoder, decoder_graph
from meshwright.launch_options import launch_of
from meshwright.schema import (
    Budget,
    Degrees,
    Graph,
    InvalidInput,
    Pipeline,
    Plan,
    PlanError,
    Recompute,
    Request,
    RequestError,
    Setup,
)
from meshwright.schema.target import TARGETS, Target, setup_for
from meshwright_costmodel.presets import preset
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.planning.degrees.degrees_planner import plan_stated
from meshwright_solver.planning.planner import check, plan
from meshwright_solver.planning.target.strategies import StrategySpace, with_schedule
from meshwright_solver.verification.verify import verify_documents

LARGE = Decoder(layers=8, hidden=2048, heads=16, vocabulary=32_000, ffn=5632, gated=True)
# estimates decide what is planned: they miss the plan's step by more on tiny graphs
NEARLY = 1.03


def request(graph: Graph, topology: str, batch: int, target: Target, **more: object) -> Request:
    fields = {
        "pipeline": Pipeline(),
        "recompute": Recompute(),
        "budget": Budget(seconds=300),
        **more,
    }
    setup = setup_for(target, Setup(global_batch=batch))
    return Request(graph=graph, topology=preset(topology), setup=setup, target=target, **fields)


def planned(own: Request) -> Plan:
    answer = plan(own)
    assert answer.plan is not None, answer.infeasible
    return answer.plan


def random_case(seed: int) -> tuple[Graph, str, int]:
    """A small decoder, a cluster and a batch."""
    rng = np.random.default_rng(seed)
    heads = int(rng.choice([4, 6, 8, 12]))
    has_experts = bool(rng.integers(2))
    decoder = Decoder(
        layers=int(rng.integers(4, 10)),
        hidden=heads * int(rng.choice([64, 128])),
        heads=heads,
        vocabulary=int(rng.choice([32_000, 50_257])),
        ffn=1024,
        gated=bool(rng.integers(2)) or has_experts,
    )
    if has_experts:
        decoder = replace(decoder, experts=4, top_k=2, expert_ffn=1024)
    topology = str(rng.choice(["h100-1x4", "a100-80g-1x8", "h100-2x4", "910b-2x8", "h100-1x6"]))
    batch = int(rng.choice([24, 48, 64]))
    return decoder_graph(decoder, batch=batch, seq=512), topology, batch


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.long)])
def test_the_options_state_the_plan_and_it_is_verified(target: Target, seed: int) -> None:
    graph, topology, batch = random_case(17 * seed + TARGETS.index(target))
    own = request(graph, topology, batch, target)
    try:
        check(own)
    except InvalidInput:
        pytest.skip("no strategy divides this batch")
    found = plan(own).plan
    if found is None:
        pytest.skip("tensor parallelism of 3, which the batch needs, cuts no power of two")
    launch = launch_of(found, target, graph=graph, setup=own.setup)
    assert not launch.lost
    assert found.wishes.target == target
    assert found.search.step_bound_ns is not None
    assert found.search.step_bound_ns <= found.cost.step_ns
    assert found.search.unrestricted_ns is not None
    assert found.search.unrestricted_ns <= found.cost.step_ns
    certificate = verify_documents(found, graph, own.topology, own.setup, None)
    assert certificate.outcome == "verified"


@pytest.mark.parametrize(
    ("target", "ranks"),
    [
        ("megatron-core", 1),
        ("deepspeed", 1),
        pytest.param("megatron-core", None, marks=pytest.mark.long),
        pytest.param("torchtitan", 1, marks=pytest.mark.long),
        pytest.param("torchtitan", 2, marks=pytest.mark.long),
    ],
)
def test_no_strategy_of_the_target_is_faster(target: Target, ranks: int | None) -> None:
    """Every strategy planned as stated, against the one that the search found."""
    graph, _, batch = random_case(40 + TARGETS.index(target))
    pipeline = Pipeline(ranks=ranks, schedule="1f1b" if ranks == 2 else None)
    own = request(graph, "h100-1x4", batch, target, pipeline=pipeline)
    found = planned(own)
    best_ns = np.inf
    for strategy, configurations in StrategySpace(own, Anatomy(graph)).strategies.items():
        if strategy.policy != "none":
            continue  # there is memory enough
        for configuration in configurations:
            try:
                other = plan_stated(with_schedule(strategy.request(own), configuration))
            except InvalidInput:
                continue
            assert other.plan is not None
            use = other.plan.cost.memory_bytes
            lost = launch_of(other.plan, target, graph=graph, setup=own.setup).lost
            if use.total <= use.capacity and not lost:
                best_ns = min(best_ns, other.plan.cost.step_ns)
    assert found.cost.step_ns <= NEARLY * best_ns


def test_as_few_layers_are_recomputed_as_memory_needs() -> None:
    """A device with less memory recomputes a part of the layers, and Megatron-LM can be told so."""
    decoder = replace(LARGE, layers=16, hidden=4096, heads=32, ffn=11_008)
    graph = decoder_graph(decoder, batch=64, seq=4096)
    own = request(graph, "h100-1x8", 64, "megatron-core", pipeline=Pipeline(ranks=1))
    own = own.model_copy(update={"setup": own.setup.like(microbatches=2)})
    roomy = planned(own).cost.memory_bytes
    found = None
    for share in (0.7, 0.6, 0.5):
        memory = round(roomy.total * share)
        device = own.topology.device.model_copy(update={"memory_bytes": memory})
        less = own.topology.model_copy(update={"device": device})
        answer = plan(own.model_copy(update={"topology": less})).plan
        assert answer is not None
        uniform = launch_of(answer, "megatron-core", graph=graph, setup=own.setup).uniform
        if uniform.recomputed_layers is not None:
            found = answer, less, uniform
    assert found is not None
    answer, less, uniform = found
    launch = launch_of(answer, "megatron-core", graph=graph, setup=own.setup)
    assert not launch.lost
    assert "--recompute-method block" in launch.text
    assert f"--recompute-num-layers {uniform.recomputed_layers}\n" in launch.text
    assert 0 < (uniform.recomputed_layers or 0) < 16
    certificate = verify_documents(answer, graph, less, own.setup, None)
    assert certificate.outcome == "verified"


def test_a_vocabulary_that_nothing_divides_is_padded_for_megatron() -> None:
    decoder = replace(LARGE, vocabulary=50_257)
    graph = decoder_graph(decoder, batch=8, seq=2048)
    own = request(graph, "h100-1x8", 8, "megatron-core")
    space = StrategySpace(own, Anatomy(graph))
    strategy = next(s for s in space.strategies if s.degrees.tp == 8 and s.ranks == 1)
    found = plan_stated(strategy.request(own)).plan
    assert found is not None
    launch = launch_of(found, "megatron-core", graph=graph, setup=own.setup)
    assert not launch.lost
    divisor = (launch.uniform.padded_vocabulary or 0) // 8
    assert divisor * 8 >= 50_257
    assert f"--make-vocab-size-divisible-by {divisor} " in launch.text


def test_options_restrict_the_search() -> None:
    graph = decoder_graph(LARGE, batch=32, seq=1024)
    own = request(
        graph, "h100-1x8", 32, "megatron-core",
        pipeline=Pipeline(ranks=2, schedule="1f1b"), recompute=Recompute(policy="full"),
    )  # fmt: skip
    found = planned(own)
    assert found.schedule is not None
    assert (found.schedule.ranks, found.schedule.kind) == (2, "1f1b")
    recompute = found.stages[0].recompute
    assert recompute is not None
    assert recompute.policy == "full"


def test_a_plan_that_the_options_do_not_state_is_refused() -> None:
    graph = decoder_graph(LARGE, batch=32, seq=1024)
    own = request(graph, "h100-1x8", 32, "megatron-core", pipeline=Pipeline(ranks=2))
    found = planned(own)
    for target in ("deepspeed", "accelerate"):
        other = found.model_copy(update={"wishes": found.wishes.like(target=target)})
        with pytest.raises(PlanError, match="whose options do not state it"):
            verify_documents(other, graph, own.topology, own.setup, None)


def test_what_a_target_cannot_have_is_refused() -> None:
    graph = decoder_graph(LARGE, batch=32, seq=1024)
    own = request(graph, "h100-1x8", 32, "megatron-core")
    with pytest.raises(InvalidInput, match="for training"):
        check(own.model_copy(update={"setup": own.setup.like(phase="inference")}))
    with pytest.raises(InvalidInput, match="devices of one kind"):
        check(own.model_copy(update={"topology": preset("h100-1x8+a100-80g-1x8")}))
    with pytest.raises(InvalidInput, match="no strategy of deepspeed divides a batch of 33"):
        check(request(graph, "h100-1x8", 33, "deepspeed"))
    with pytest.raises(RequestError, match="which degrees does not restrict"):
        request(graph, "h100-1x8", 32, "megatron-core", degrees={"tp": 2})


def test_nothing_fits() -> None:
    decoder = replace(LARGE, layers=64, hidden=8192, heads=64, ffn=28_672)
    graph = decoder_graph(decoder, batch=64, seq=8192)
    answer = plan(request(graph, "h100-1x8", 64, "deepspeed"))
    assert answer.plan is None
    assert answer.infeasible is not None
    assert answer.infeasible.constraint == "memory"


@pytest.mark.parametrize("seed", range(6))
def test_sequence_parallelism_is_that_of_all_layers(seed: int) -> None:
    """Layers whose norms and residuals stay whole over tp beside others are no framework's."""
    rng = np.random.default_rng(seed)
    tp = int(rng.choice([2, 4, 8]))
    graph = decoder_graph(
        replace(LARGE, layers=int(rng.integers(4, 12)), gated=bool(rng.integers(2))),
        batch=64,
        seq=int(rng.choice([1024, 2048, 8192])),
    )
    device = str(rng.choice(["h100", "h200", "b200", "a100-80g"]))
    nodes = int(rng.choice([1, 2, 4]))
    target: Target = "megatron-core"
    setup = setup_for(target, Setup(global_batch=64, microbatches=int(rng.choice([2, 4]))))
    stated = Degrees(dp=nodes * 8 // tp, tp=tp, zero=1, sequence_parallel=True)
    own = Request(
        graph=graph,
        topology=preset(f"{device}-{nodes}x8"),
        setup=setup,
        degrees=stated,
        recompute=Recompute(policy="none"),
    )
    made = planned(own)
    launch = launch_of(made, target, graph=graph, setup=setup)
    assert launch.lost == ()
    assert "--sequence-parallel" in launch.text
