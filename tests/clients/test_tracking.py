"""Plans in MLflow and Weights & Biases: in the trackers if they are installed, and in fakes.

The fakes have the documented functions that `meshwright.tracking` calls, and no others.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meshwright.common.files import read_document
from meshwright.planfile import PlanFile
from meshwright.plugins import find_planner, preset
from meshwright.schema import Graph, Request, Unavailable
from meshwright.tracking import LONGEST, log_plan, plan_metrics, plan_parameters
from tests.one_stage import ONE_STAGE

GRAPH = Path(__file__).resolve().parents[2] / "examples" / "graphs" / "face-head.json.gz"


@pytest.fixture(scope="module")
def plan() -> PlanFile:
    graph, topology = read_document(GRAPH, Graph), preset("h100-1x8")
    found = find_planner()(Request(graph=graph, topology=topology, **ONE_STAGE)).plan
    assert found is not None
    return PlanFile(plan=found, graph=graph, topology=topology)


class FakeMlflow(SimpleNamespace):
    """What `mlflow` is called for."""

    def __init__(self) -> None:
        super().__init__(params={}, metrics={}, texts={})

    def log_params(self, params: dict[str, Any]) -> None:
        assert not self.params.keys() & params.keys()  # MLflow refuses another value
        self.params |= params

    def log_metrics(self, metrics: dict[str, float]) -> None:
        self.metrics |= metrics

    def log_text(self, text: str, artifact_file: str) -> None:
        self.texts[artifact_file] = text


def test_a_fake_of_mlflow_gets_parameters_metrics_and_the_file(
    plan: PlanFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeMlflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    log_plan(plan, tracker="mlflow")
    assert fake.params["meshwright/plan"] == plan.plan.id
    assert fake.params["meshwright/topology name"] == "h100-1x8"
    assert fake.metrics["meshwright/predicted_step_ms"] == plan.plan.cost.step_ns / 1e6
    assert PlanFile.from_json(fake.texts["meshwright/plan.json"]) == plan


def test_without_a_run_of_weights_and_biases_the_error_says_so(
    plan: PlanFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=None))
    with pytest.raises(Unavailable, match=r"Call wandb\.init"):
        log_plan(plan, tracker="wandb")


@pytest.mark.parametrize("tracker", ["mlflow", "wandb"])
def test_without_the_tracker_the_error_says_how_to_get_it(
    plan: PlanFile, tracker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, tracker, None)
    with pytest.raises(Unavailable, match=f"pip install {tracker}"):
        log_plan(plan, tracker=tracker)


def test_a_plan_without_its_documents_has_the_figures_of_the_plan_alone(plan: PlanFile) -> None:
    bare = PlanFile(plan=plan.plan)
    assert plan_metrics(bare).items() <= plan_metrics(plan).items()
    assert plan_parameters(bare).items() <= plan_parameters(plan).items()
    assert "degrees" in plan_parameters(plan)
    assert all(len(value) <= LONGEST for value in plan_parameters(plan).values())


@pytest.mark.skipif(find_spec("mlflow") is None, reason="MLflow is not installed")
@pytest.mark.filterwarnings("ignore")
def test_mlflow_keeps_the_plan_in_a_local_store(
    plan: PlanFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        log_plan(plan, tracker="mlflow")
    kept = mlflow.get_run(run.info.run_id).data
    names = {f"meshwright/{name}": value for name, value in plan_parameters(plan).items()}
    assert kept.params == names
    assert kept.metrics == pytest.approx(
        {f"meshwright/{name}": value for name, value in plan_metrics(plan).items()}
    )
    (file,) = (tmp_path / "runs").rglob("plan.json")
    assert PlanFile.from_json(file.read_text()) == plan


@pytest.mark.skipif(find_spec("wandb") is None, reason="Weights & Biases is not installed")
@pytest.mark.filterwarnings("ignore")
def test_weights_and_biases_keeps_the_plan_offline(plan: PlanFile, tmp_path: Path) -> None:
    import wandb

    with wandb.init(mode="offline", dir=str(tmp_path), project="plans") as run:
        log_plan(plan, tracker="wandb")
        assert dict(run.config)["meshwright"] == plan_parameters(plan)
        assert run.summary["meshwright/gap"] == plan.plan.search.gap
    assert list(tmp_path.rglob("*.wandb"))
