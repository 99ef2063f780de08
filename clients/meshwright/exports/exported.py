"""Exports: plans in the formats of other systems, for the command line and the service.

Graphs and topologies are exported as graph files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from meshwright.convert import TARGETS, Export, MindSporeNetwork, export_plan, network_of
from meshwright.launch_options import Launch, launch_of
from meshwright.schema import Graph, Model, Plan, PlanError, Setup, Topology
from meshwright.schema.errors import CannotExport
from meshwright.schema.target import TARGETS as LAUNCHERS

if TYPE_CHECKING:
    import networkx as nx

GraphFormat = Literal["graphml", "dot"]
GRAPH_FORMATS: tuple[GraphFormat, ...] = get_args(GraphFormat)
EveryTarget = Literal[
    "dtensor", "jax", "mindspore", "mindspore-network", "mindspore-strategies", "megatron-core",
    "torchtitan", "fsdp2", "accelerate", "deepspeed", "mindformers", "graphml", "dot", "megatron",
]  # fmt: skip
_FORMER: Mapping[EveryTarget, EveryTarget] = {"megatron": "megatron-core"}  # still accepted
NAMED = 20  # chosen: the parts of a plan that an error lists


@dataclass(frozen=True, slots=True)
class Exported:
    """A plan in the format of a target.

    document  the export as JSON
    text      the content of a file: the format of a launcher or of a graph file, otherwise JSON
    missing   the parts of the plan that the export does not state, or states differently
    remarks   the differences of the target under the same strategy
    summary   one line
    """

    target: EveryTarget
    document: Mapping[str, Any]
    text: str
    summary: str
    missing: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def require_whole(self, remedy: str) -> None:
        """Raise CannotExport, with the remedy, if a part of the plan is missing."""
        if self.missing:
            more = len(self.missing) - NAMED
            parts = "; ".join(self.missing[:NAMED]) + (f"; and {more} more" if more > 0 else "")
            raise CannotExport(f"{self.target} does not describe this plan: {parts}. {remedy}")


def exported(
    plan: Plan, target: EveryTarget, *, graph: Graph | None, setup: Setup | None
) -> Exported:
    """The export of a plan; raises PlanError if the target needs a document that is None."""
    target = _FORMER.get(target, target)
    if target in TARGETS:
        return _of_layouts(export_plan(plan, target, graph=graph))
    if graph is None or (setup is None and target not in (*LAUNCHERS, *GRAPH_FORMATS)):
        raise PlanError(
            f"{target} needs the graph and the setup of the plan. Use a plan file of "
            "`meshwright plan -o` or `estimate -o`"
        )
    if target in LAUNCHERS:
        return _of_launch(launch_of(plan, target, graph=graph, setup=setup))
    if target in GRAPH_FORMATS:
        from meshwright.reports.plan_graph import plan_graph  # not at start-up

        return _of_graph(plan, plan_graph(plan, graph), target)
    assert setup is not None
    return _of_network(network_of(plan, graph, setup), target)


def exported_graph(document: Graph | Topology, target: GraphFormat) -> Exported:
    """The export of a graph or a topology as a graph file.

    Raises Unavailable if networkx is not installed.
    """
    return _of_graph(document, document.to_networkx(), target)


def _of_layouts(export: Export) -> Exported:
    layouts = sum(len(roles) for stage in export.stages for roles in stage.layouts.values())
    strategies = sum(len(stage.strategies) for stage in export.stages)
    ops = f" and {strategies} strategies" if export.target == "mindspore" else ""
    return Exported(
        target=export.target,
        document=(document := _json(export)),
        text=_line(document),
        summary=(
            f"{layouts} layouts{ops} for {export.target}; {len(export.refused)} cannot be expressed"
        ),
        missing=tuple(refusal.reason for refusal in export.refused),
    )


def _of_launch(launch: Launch) -> Exported:
    return Exported(
        target=launch.launcher,
        document=_json(launch),
        text=launch.text,
        summary=(
            f"{launch.uniform.degrees}, {launch.uniform.pipeline_ranks} pipeline rank(s) for "
            f"{launch.launcher}; lost: {len(launch.lost) or 'nothing'}"
        ),
        missing=launch.lost,
        remarks=tuple(f"for {launch.launcher}: {remark}" for remark in launch.remarks),
    )


def _of_graph(document: Plan | Graph | Topology, graph: nx.Graph, target: GraphFormat) -> Exported:
    from meshwright.reports.graph_text import dot_text, graphml_text  # not at start-up

    text = graphml_text(graph) if target == "graphml" else dot_text(graph)
    nodes, edges = graph.number_of_nodes(), graph.number_of_edges()
    return Exported(
        target=target,
        document={
            "document": document.id,
            "format": target,
            "nodes": nodes,
            "edges": edges,
            "text": text,
        },
        text=text,
        summary=f"{nodes:,} nodes and {edges:,} edges for {target}",
    )


def _of_network(network: MindSporeNetwork, target: EveryTarget) -> Exported:
    document = _json(network) if target == "mindspore-network" else network.strategy_file()
    return Exported(
        target=target,
        document=document,
        text=_line(document),
        summary=(
            f"{len(network.primitives)} primitives for mindspore; {len(network.refused)} ops "
            f"cannot be expressed, {len(network.otherwise)} tensors are moved otherwise"
        ),
        missing=tuple(refusal.reason for refusal in network.refused),
        remarks=tuple(_remarks(network)),
    )


def _remarks(network: MindSporeNetwork) -> Iterator[str]:
    for edge in network.otherwise:
        planned, done = (", ".join(kinds) or "nothing" for kinds in (edge.planned, edge.done))
        yield f"otherwise in mindspore: tensor {edge.tensor!r}: {done} for {planned}: {edge.reason}"


def _json(model: Model) -> dict[str, Any]:
    return model.model_dump(mode="json", exclude_defaults=True)


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False) + "\n"
