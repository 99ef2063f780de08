"""What a job is told when plan and module do not fit, before any process waits for another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

import meshwright
from meshwright.planfile import PlanFile, read_plan
from meshwright.runtime import rank_strategy
from meshwright.runtime.torch.collective_log import Record
from meshwright.runtime.torch.collectives import TorchCollectives
from meshwright.runtime.torch.parameters import Parameters
from meshwright.schema import Axis, InvalidInput, PlanError, SequenceOrder, Setup
from meshwright.stages.planned_stage import PlannedStage
from meshwright_solver.planning.planner import plan
from tests.runtime.models import MODELS, Llama
from tests.solver.requests import toy_request
from tests.solver.small_graphs import topology


@pytest.fixture(scope="module", autouse=True)
def _alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A world of this process."""
    store = dist.FileStore(str(tmp_path_factory.mktemp("alone") / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planned(tmp_path_factory.mktemp("plan") / "plan.json", 1)


def planned(path: Path, ranks: int) -> Path:
    graph, devices = MODELS["llama"].graph(4), topology(ranks)
    setup = Setup(global_batch=8, microbatches=2)
    found = plan(toy_request(graph=graph, topology=devices, setup=setup)).plan
    assert found is not None
    PlanFile(plan=found, graph=graph, topology=devices, setup=setup).write(path)
    return path


def test_a_module_without_a_planned_parameter_is_named(file: Path) -> None:
    module = Llama()
    del module.norm
    with pytest.raises(
        PlanError, match=r"graph_\w+ has the parameter 'norm.weight' of shape \[32\], .* none"
    ):
        meshwright.parallelize(module, file)


def test_a_parameter_of_another_shape_is_named(file: Path) -> None:
    module = Llama()
    module.head = nn.Linear(32, 65, bias=False)
    with pytest.raises(
        PlanError, match=r"'head.weight' has the shape \[64, 32\] .* and \[65, 32\]"
    ):
        meshwright.parallelize(module, file)


def test_a_plan_for_more_ranks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="is for 2 ranks, this job has 1"):
        meshwright.parallelize(Llama(), planned(tmp_path / "plan.json", 2))


def test_an_input_that_is_missing_or_of_another_share_is_named(file: Path) -> None:
    with meshwright.parallelize(Llama().double(), file) as trained:
        batch = MODELS["llama"].batch(8)
        with pytest.raises(InvalidInput, match="the batch has no 'labels'"):
            trained.slice({"ids": batch["ids"]})
        with pytest.raises(InvalidInput, match="step got no 'ids'"):
            trained.step(labels=batch["labels"])
        with pytest.raises(InvalidInput, match=r"'ids' has the shape \[3, 8\] .* is \[4, 8\]"):
            trained.step(ids=batch["ids"][:6], labels=batch["labels"])
        with pytest.raises(InvalidInput, match="7 rows cannot be cut into 2 equal microbatches"):
            trained.step(ids=batch["ids"][:7], labels=batch["labels"])


def test_what_is_not_carried_out_is_refused_by_name(file: Path, tmp_path: Path) -> None:
    plan_ = read_plan(file).plan
    (stage,) = plan_.stages
    own, *others = stage.parameters

    def with_parameter(**changes: object) -> dict[str, object]:
        parameters = (own.model_copy(update=changes), *others)
        return {"stages": (stage.model_copy(update={"parameters": parameters}),)}

    padded = own.value.model_copy(update={"padded": True})
    refused = {
        f"{own.tensor!r} has a sparse gradient, .* Plan without --sparse-gradients": (
            with_parameter(sparse_gradient=True)
        ),
        f"{own.tensor!r} is offloaded to the host, .* Plan without --offload": (
            with_parameter(on_host=("optimizer",))
        ),
        f"{own.tensor!r} is stored whole .* Plan without --optimizer-whole-parameters": (
            with_parameter(owner={Axis("dp"): 0})
        ),
        f"{own.tensor!r} has unequal chunks .* Plan with --uneven refuse": (
            with_parameter(value=padded)
        ),
        "op 'slice' uses true positions, and the plan of an older planner": {
            "order": (SequenceOrder(size=8, chunks=4, by_position=("slice",)),)
        },
    }
    for said, changes in refused.items():
        changed = PlanFile(
            plan=plan_.model_copy(update=changes),
            graph=read_plan(file).graph,
            setup=read_plan(file).setup,
        )
        changed.write(tmp_path / "plan.json")
        with pytest.raises(PlanError, match=said):
            meshwright.parallelize(Llama(), tmp_path / "plan.json")


def test_a_plan_for_inference_trains_nothing(file: Path) -> None:
    held = read_plan(file)
    assert held.graph is not None
    setup = Setup(phase="inference")
    changed = held.plan.model_copy(update={"setup": setup.id})
    with pytest.raises(PlanError, match="is for the phase inference"):
        rank_strategy(changed, held.graph, setup, 0)


def test_a_gradient_that_the_plan_does_not_state_is_refused(tmp_path: Path) -> None:
    file = read_plan(planned(tmp_path / "plan.json", 2))
    assert file.graph is not None
    assert file.setup is not None
    strategy = rank_strategy(file.plan, file.graph, file.setup, 0, file.topology)
    stage = PlannedStage(file.graph, strategy.stages[0].planned, strategy.symbols)
    name = "head.weight"
    stage.parameters[name] = stage.parameters[name].model_copy(update={"gradient": None})
    groups = {frozenset((axis,)): None for axis in stage.mesh.names}
    collectives = TorchCollectives(strategy.stages[0], groups, Record())
    parameters = Parameters(stage, collectives, "cpu")
    with pytest.raises(PlanError, match=r"'head\.weight' gets a gradient from op 'head', and"):
        parameters.take(name, ("head", 1), torch.zeros(64, 32), stage.parameters[name].value)
