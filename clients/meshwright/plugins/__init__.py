"""Plugins: planner, verifier and others, which meshwright-server registers as entry points."""

from meshwright.plugins.cost_graph_solver import CostGraphSolver, find_cost_graph_solver
from meshwright.plugins.explainer import Explainer, find_explainer
from meshwright.plugins.planner import (
    Fitter,
    Planner,
    Verifier,
    certificate_of,
    find_fitter,
    find_planner,
    find_verifier,
    preset,
    preset_devices,
)
from meshwright.plugins.simulator import Simulator, Tracer, find_simulator, find_tracer
from meshwright.plugins.transfers import PlanTransfer, find_transfer

__all__ = [
    "CostGraphSolver",
    "Explainer",
    "Fitter",
    "PlanTransfer",
    "Planner",
    "Simulator",
    "Tracer",
    "Verifier",
    "certificate_of",
    "find_cost_graph_solver",
    "find_explainer",
    "find_fitter",
    "find_planner",
    "find_simulator",
    "find_tracer",
    "find_transfer",
    "find_verifier",
    "preset",
    "preset_devices",
]
