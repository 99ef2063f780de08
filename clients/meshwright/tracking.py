"""Plans in experiment trackers: the plan of a run beside its losses.

A run gets the request and the parallel degrees as parameters, the predictions as metrics, and the
plan file as an artifact. The trackers are imported at the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

from meshwright.planfile import PlanFile
from meshwright.reports.plan_figures import figures_of
from meshwright.reports.stated_options import stated_options
from meshwright.schema import Request, Setup, Unavailable
from meshwright.schema.plan_figures import PlanFigures

Tracker = Literal["mlflow", "wandb"]
PREFIX = "meshwright"
LONGEST = 500  # characters of a parameter; the limit of MLflow's oldest stores
FILE = "plan.json"


def log_plan(plan: PlanFile, *, tracker: Tracker) -> None:
    """Log a plan to the active run of MLflow or Weights & Biases. Call it on the first rank.

    MLflow starts a run if none is active. Raises Unavailable if the tracker is not installed, or if
    Weights & Biases has no run.
    """
    parameters = {name: value[:LONGEST] for name, value in plan_parameters(plan).items()}
    if tracker == "mlflow":
        _log_to_mlflow(plan, parameters, plan_metrics(plan))
    elif tracker == "wandb":
        _log_to_wandb(plan, parameters, plan_metrics(plan))
    else:
        raise Unavailable(f"there is no tracker {tracker!r}. Use mlflow or wandb")


def plan_parameters(plan: PlanFile) -> dict[str, str]:
    """The documents, the stated options and the degrees of a plan, as text."""
    own = plan.plan
    parameters = {
        "plan": own.id,
        "graph": own.graph,
        "topology": own.topology,
        "target": own.wishes.target or "any strategy",
        "microbatches": str(own.microbatches),
        "stages": str(len(own.stages)),
        "outcome": own.search.outcome,
    }
    parameters |= {f"option {name}": text for name, text in stated_options(own, plan.setup).items()}
    for field in ("graph", "topology"):
        if document := getattr(plan, field):
            parameters[f"{field} name"] = document.name
    if figures := _figures(plan):
        parameters["degrees"] = figures.degrees
        parameters["recompute"] = figures.recompute
        parameters["devices"] = str(figures.devices)
    return parameters


def plan_metrics(plan: PlanFile) -> dict[str, float]:
    """The predictions of a plan, with their units in the names."""
    own = plan.plan
    memory = own.cost.memory_bytes
    metrics: dict[str, float | None] = {
        "predicted_step_ms": own.cost.step_ns / 1e6,
        "predicted_memory_gib": memory.total / 2**30,
        "gap": own.search.gap,
    }
    if figures := _figures(plan):
        metrics["predicted_samples_per_s"] = figures.samples_per_s
        metrics["predicted_tokens_per_s"] = figures.tokens_per_s
        metrics["predicted_utilization"] = figures.utilization
    return {name: float(value) for name, value in metrics.items() if value is not None}


def _figures(plan: PlanFile) -> PlanFigures | None:
    """The figures of a plan, if its file has the graph and the topology."""
    if plan.graph is None or plan.topology is None:
        return None
    request = Request(
        graph=plan.graph,
        topology=plan.topology,
        setup=plan.setup or Setup(),
        calibration=plan.calibration,
    )
    return figures_of(plan.plan, request)


def _log_to_mlflow(
    plan: PlanFile, parameters: Mapping[str, str], metrics: Mapping[str, float]
) -> None:
    mlflow = _imported("mlflow")
    mlflow.log_params({f"{PREFIX}/{name}": value for name, value in parameters.items()})
    mlflow.log_metrics({f"{PREFIX}/{name}": value for name, value in metrics.items()})
    mlflow.log_text(plan.to_json(), f"{PREFIX}/{FILE}")


def _log_to_wandb(
    plan: PlanFile, parameters: Mapping[str, str], metrics: Mapping[str, float]
) -> None:
    wandb = _imported("wandb")
    if wandb.run is None:
        raise Unavailable("Weights & Biases has no run. Call wandb.init before log_plan")
    wandb.run.config.update({PREFIX: dict(parameters)})
    wandb.run.summary.update({f"{PREFIX}/{name}": value for name, value in metrics.items()})
    artifact = wandb.Artifact(f"plan-{plan.plan.id.partition('_')[2][:16]}", type="plan")
    with artifact.new_file(FILE) as file:
        file.write(plan.to_json())
    wandb.run.log_artifact(artifact)


def _imported(name: Tracker) -> Any:
    """The module of a tracker; raises Unavailable."""
    try:
        return import_module(name)
    except ImportError:
        raise Unavailable(f"{name} is not installed. Install it: pip install {name}") from None
