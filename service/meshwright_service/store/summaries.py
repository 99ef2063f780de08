"""Summaries of documents: what lists show without opening the document."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

from meshwright.schema import DTYPE_BYTES, Calibration, Document, Graph, Plan, Topology
from meshwright.schema.cost_graph import CostGraphFile, CostGraphSolution
from meshwright.schema.samples import Samples

INDEX = re.compile(r"(?:^|\.)(\d+)(?=\.|$)")


def summary_of(document: Document) -> dict[str, Any]:
    """What a list shows of a document, by its kind."""
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
    """Where it is from, and how well it tells what was measured."""
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
    """What was measured, and on what."""
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
    """Counts, and the limit."""
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
    """Counts, parameters and repeated blocks of a graph."""
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
    """Modules that stand in a numbered row, such as `model.layers.*`, outermost rows only."""
    ops: dict[str, Counter[str]] = {}
    for op in graph.ops:
        found = INDEX.search(op.module)
        if found:
            row = op.module[: found.start(1)] + "*"
            ops.setdefault(row, Counter())[found.group(1)] += 1
    return [
        {"module": row, "repeats": len(count), "ops": sum(count.values())}
        for row, count in ops.items()
        if len(count) > 1
    ]


def topology_summary(topology: Topology) -> dict[str, Any]:
    """The size of a cluster; of a mixed one the least memory, and every group."""
    groups = topology.groups
    found = {
        "device": " + ".join(dict.fromkeys(group.device.name for group in groups)),
        "devices": topology.device_count,
        "memory_bytes": min(group.device.memory_bytes for group in groups),
        "levels": {level.name: level.size for level in topology.levels},
    }
    if topology.beside:
        found["groups"] = [topology_summary(group) for group in groups]
    return found


def plan_summary(plan: Plan) -> dict[str, Any]:
    """The numbers by which people compare plans."""
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
    }
