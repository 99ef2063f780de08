"""Summaries of documents for lists, which do not parse the documents."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from meshwright.schema import DTYPE_BYTES, Calibration, Document, Graph, Plan, Topology
from meshwright.schema.cost_graph import CostGraphFile, CostGraphSolution
from meshwright.schema.overview import PlanWarning
from meshwright.schema.plan_figures import PlanFigures
from meshwright.schema.samples import Samples

INDEX = re.compile(r"(?:^|\.)(\d+)(?=\.|$)")


def summary_of(document: Document) -> dict[str, Any]:
    """The summary of a document, by its kind."""
    if isinstance(document, Graph):
        return graph_summary(document)
    if isinstance(document, Topology):
        return topology_summary(document)
    if isinstance(document, Calibration):
        return calibration_summary(document)
    if isinstance(document, Samples):
        return samples_summary(document)
    if isinstance(document, CostGraphFile):
        return cost_graph_summary(document)
    if isinstance(document, CostGraphSolution):
        return solution_summary(document)
    return {}


def calibration_summary(calibration: Calibration) -> dict[str, Any]:
    """The source of a calibration, and the error of its fit."""
    fitted = calibration.fitted
    return {
        "source": calibration.source,
        "samples": fitted and fitted.samples,
        "median_error": fitted and fitted.median_error,
        "anchored": calibration.anchored and calibration.anchored.ratio,
        "observations": calibration.anchored and calibration.anchored.observations,
        "devices": len(calibration.curves),
    }


def samples_summary(samples: Samples) -> dict[str, Any]:
    """The device of samples, and the counts of their measurements."""
    return {
        "device": samples.topology.device.name,
        "devices": samples.topology.device_count,
        "backend": samples.backend,
        "measured_at": samples.measured_at,
        "kernels": len(samples.kernels),
        "collectives": len(samples.collectives),
        "complete": samples.complete,
        "notes": list(samples.notes),
    }


def cost_graph_summary(file: CostGraphFile) -> dict[str, Any]:
    """The counts and the usage limit of a cost graph."""
    nodes, edges = file.problem.nodes, file.problem.edges
    return {
        "nodes": len(nodes.costs),
        "edges": len(edges.nodes),
        "strategies": sum(map(len, nodes.costs)),
        "usage_limit": file.problem.usage_limit,
    }


def solution_summary(solution: CostGraphSolution) -> dict[str, Any]:
    """The status, the cost and the lower bound of a solution."""
    return {
        "status": solution.status,
        "cost": solution.cost,
        "lower_bound": solution.lower_bound,
        "gap": solution.gap,
        "peak_usage": solution.peak_usage,
        "usage_limit": solution.usage_limit,
        "engines": list(solution.engines),
        "notes": list(solution.notes),
    }


def graph_summary(graph: Graph) -> dict[str, Any]:
    """The counts, parameters and repeated blocks of a graph."""
    parameters = [tensor for tensor in graph.tensors if tensor.role == "parameter"]
    elements = [math.prod(tensor.dims(graph.symbols)) for tensor in parameters]
    return {
        "ops": len(graph.ops),
        "tensors": len(graph.tensors),
        "parameters": len(parameters),
        "parameter_elements": sum(elements),
        "parameter_bytes": sum(
            count * DTYPE_BYTES[tensor.dtype]
            for count, tensor in zip(elements, parameters, strict=True)
        ),
        "symbols": dict(graph.symbols),
        "kinds": dict(Counter(op.kind for op in graph.ops).most_common()),
        "blocks": repeated_blocks(graph),
    }


def repeated_blocks(graph: Graph) -> list[dict[str, Any]]:
    """Rows of numbered modules, such as `model.layers.*`; only the outermost rows."""
    ops: dict[str, Counter[str]] = {}
    for op in graph.ops:
        index = INDEX.search(op.module)
        if index:
            row = op.module[: index.start(1)] + "*"
            ops.setdefault(row, Counter())[index.group(1)] += 1
    return [
        {"module": row, "repeats": len(count), "ops": sum(count.values())}
        for row, count in ops.items()
        if len(count) > 1
    ]


def topology_summary(topology: Topology) -> dict[str, Any]:
    """The size of a cluster; of a heterogeneous one also its groups and the least memory."""
    groups = topology.groups
    summary = {
        "device": " + ".join(dict.fromkeys(group.device.name for group in groups)),
        "devices": topology.device_count,
        "memory_bytes": min(group.device.memory_bytes for group in groups),
        "levels": {level.name: level.size for level in topology.levels},
    }
    if topology.beside:
        summary["groups"] = [topology_summary(group) for group in groups]
    return summary


def plan_numbers(plan: Plan, figures: PlanFigures | None) -> dict[str, float | None]:
    """The figures of a plan that lists are sorted and filtered by."""
    memory = plan.cost.memory_bytes
    return {
        "step_ns": plan.cost.step_ns,
        "headroom": 1 - memory.total / memory.capacity if memory.capacity else None,
        "devices": figures.devices if figures else None,
        "batch": figures.batch if figures else None,
        "units_per_s": figures.units_per_s if figures else None,
        "device_rate": figures.device_rate if figures else None,
        "utilization": figures.utilization if figures else None,
    }


def plan_summary(
    plan: Plan, warnings: Sequence[PlanWarning] = (), figures: PlanFigures | None = None
) -> dict[str, Any]:
    """The numbers of a plan for comparison in lists."""
    memory = plan.cost.memory_bytes
    return {
        "name": plan.name,
        "graph": plan.graph,
        "topology": plan.topology,
        "setup": plan.setup,
        "meshes": [{axis.name: axis.size for axis in stage.mesh.axes} for stage in plan.stages],
        "step_ns": plan.cost.step_ns,
        "compute_ns": plan.cost.compute_ns,
        "memory_bytes": memory.total,
        "capacity_bytes": memory.capacity,
        "outcome": plan.search.outcome,
        "solver": plan.wishes.solver,
        "lower_bound_ns": plan.search.lower_bound_ns,
        "gap": plan.search.gap,
        "step_gap": plan.step_gap,
        "warnings": [warning.code for warning in warnings],
        "target": plan.wishes.target,
        "figures": figures.model_dump(mode="json") if figures else None,
    }
