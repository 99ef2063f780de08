"""Random small problems: op graphs of many kinds, and legal random choices of their cost graphs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import strategies as st

from meshwright.schema import Cost, Graph, Mesh, MeshAxis, Pin, Plan, Search, Setup, Topology
from meshwright.schema.setup import Precision
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.constraints.pins import allowed_strategies, pinned_ops
from meshwright_solver.evaluation.accounting.assignment import Assignment, assignment_of_choice
from meshwright_solver.evaluation.accounting.ledger import ledger_of
from meshwright_solver.evaluation.evaluate import cost_of_all, evaluate
from meshwright_solver.evaluation.plan_document import stage_document
from meshwright_solver.lowering.lower import Lowered, lower
from meshwright_solver.problem.recomputed_ops import NOTHING, RecomputedOps
from meshwright_solver.problem.values import find_values
from meshwright_solver.search.core.cost_graph import (
    CostEdge,
    CostGraph,
    CostNode,
    Projection,
    evaluate_choice,
)
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.strategies.mesh_models import Models
from tests.solver.small_graphs import GraphMaker, problem, topology


@dataclass(frozen=True)
class Case:
    """A problem on one mesh, lowered."""

    models: Models
    lowered: Lowered


@st.composite
def graphs(draw: st.DrawFn, most: int = 6, dtype: str = "float32") -> Graph:
    """A few ops on [batch, 8] activations: chains with branches, views, shared parameters."""
    maker = GraphMaker(dtype, batch=draw(st.sampled_from([16, 60])))
    rows, width, long = "batch", 8, draw(st.sampled_from([4096, 4095]))
    weight = maker.parameter("w", width, width)
    big = maker.parameter("big", long, width)
    ids = maker.input("ids", rows, dtype="int64")
    live = [
        maker.op("embedding", [big, ids], [rows, width])
        if draw(st.booleans())
        else maker.op("linear", [maker.input("x", rows, width), weight], [rows, width])
    ]
    fresh = 0
    for _ in range(draw(st.integers(1, most))):
        given = draw(st.sampled_from(live[-3:]))
        other = draw(st.sampled_from(live[-3:]))
        kind = draw(
            st.sampled_from(
                ["linear", "shared", "gelu", "add", "mul", "softmax", "layer_norm", "heads",
                 "halves", "unheard", "constant", "tied", "attention"]
            )
        )  # fmt: skip
        match kind:
            case "linear":
                fresh += 1
                w = maker.parameter(f"w{fresh}", width, width)
                live.append(maker.op("linear", [given, w], [rows, width]))
            case "shared":
                live.append(maker.op("linear", [given, weight], [rows, width]))
            case "gelu" | "softmax":
                live.append(maker.op(kind, [given], [rows, width]))
            case "add" | "mul":
                live.append(maker.op(kind, [given, other], [rows, width]))
            case "layer_norm":
                fresh += 1
                w = maker.parameter(f"w{fresh}", width)
                live.append(maker.op("layer_norm", [given, w], [rows, width]))
            case "heads":
                split = maker.op("reshape", [given], [rows, 2, 4])
                turned = maker.op("transpose", [split], [2, rows, 4], attrs={"dims": [1, 0, 2]})
                soft = maker.op("softmax", [turned], [2, rows, 4])
                back = maker.op("transpose", [soft], [rows, 2, 4], attrs={"dims": [1, 0, 2]})
                live.append(maker.op("reshape", [back], [rows, width]))
            case "halves":
                fresh += 1
                parts = maker.split(given, [[rows, 2], [rows, 6]], 1, f"split{fresh}")
                live.append(maker.op("concat", parts[::-1], [rows, width], attrs={"dim": 1}))
            case "attention":
                three = [
                    maker.op("reshape", [own], [1, 2, rows, 4]) for own in (given, other, other)
                ]
                mixed = maker.op("attention", three, [1, 2, rows, 4], attrs={"causal": True})
                live.append(maker.op("reshape", [mixed], [rows, width]))
            case "unheard":
                live.append(maker.op("zzz", [given], [rows, width]))
            case "constant":
                fresh += 1
                table = maker.tensor(f"c{fresh}", [rows, width], "constant")
                live.append(maker.op("mul", [given, table], [rows, width]))
            case "tied":
                logits = maker.op("linear", [given, big], [rows, long])
                live.append(
                    maker.op("linear", [logits, maker.parameter(f"u{len(live)}", width, long)],
                             [rows, width])
                )  # fmt: skip
    label = maker.tensor("label", [rows], "label", dtype="int64")
    loss = maker.op("cross_entropy", [live[-1], label], [])
    return maker.graph(loss, loss=loss)


@st.composite
def setups(draw: st.DrawFn, precision: Precision = "graph") -> Setup:
    return Setup(
        microbatches=draw(st.sampled_from([1, 4])),
        phase=draw(st.sampled_from(["training", "training", "training", "inference"])),
        gradient_dtype=draw(st.sampled_from(["float32", "bfloat16"])),
        execution=draw(st.sampled_from(["compiled", "eager", "graphs"])),
        uneven=draw(st.sampled_from(["refuse", "chunk", "pad"])),
        precision=precision,
    )


MESHES = [((2,), (0,)), ((4,), (1,)), ((2, 2), (0, 1)), ((2, 3), (0, 1)), ((2, 2, 2), (0, 1, 1))]


@st.composite
def cases(draw: st.DrawFn, most: int = 6, precision: Precision = "graph") -> Case:
    """A graph, a setup, a mesh, and sometimes pins. The graph of a precision recipe is bfloat16."""
    graph = draw(graphs(most, "float32" if precision == "graph" else "bfloat16"))
    sizes, levels = draw(st.sampled_from(MESHES))
    extents = [1, 1]
    for size, level in zip(sizes, levels, strict=True):
        extents[level] *= size
    devices = topology(*extents, eight_bit=precision != "graph")
    names = ("node", "gpu")
    mesh = Mesh(
        axes=tuple(
            MeshAxis(name=f"a{k}", size=size, level=names[level])  # type: ignore[arg-type]  # a name
            for k, (size, level) in enumerate(zip(sizes, levels, strict=True))
        )
    )
    pins = draw(st.sampled_from([(), (), (Pin(op="linear*", strategy={"b0": ("a0",)}),)]))
    setup = draw(setups(precision))
    remade = draw(again(graph)) if setup.phase == "training" else NOTHING
    return lowered_case(graph, devices, mesh, setup, pins, remade)


@st.composite
def again(draw: st.DrawFn, graph: Graph) -> RecomputedOps:
    """Sometimes some ops of a stretch of the graph."""
    names = [op.name for op in graph.topological_order()]
    if draw(st.integers(0, 2)):
        return NOTHING
    ends = sorted((draw(st.integers(0, len(names))), draw(st.integers(0, len(names)))))
    stretch = names[slice(*ends)]
    chosen = frozenset(name for name in stretch if draw(st.booleans()))
    return RecomputedOps("full", chosen, dict.fromkeys(stretch, 0)) if chosen else NOTHING


def lowered_case(
    graph: Graph,
    devices: Topology,
    mesh: Mesh,
    setup: Setup,
    pins: tuple[Pin, ...] = (),
    remade: RecomputedOps = NOTHING,
) -> Case:
    built = replace(problem(graph, devices, setup), remade=remade)
    models = Models(built, find_values(built), mesh)
    if not any(op.kind == "linear" for op in graph.ops):
        pins = ()
    pinned = pinned_ops(built, pins, models.values.views)
    allowed = {
        position: allowed_strategies(pin, built.ops[position], mesh)
        for position, pin in pinned.items()
    }
    allowed = {
        position: keep
        for position, keep in allowed.items()
        if keep(models.ops.model(position), models.ops.model(position).choices).any()
    }
    return Case(models, lower(models, allowed, None))


def random_choice(graph: CostGraph, seed: int) -> IntArray | None:
    """A random choice that takes nothing forbidden: the best under random prices."""
    random = np.random.default_rng(seed)
    nodes = tuple(
        CostNode(node.name, np.where(np.isinf(node.cost), np.inf, random.random(len(node.cost))))
        for node in graph.nodes
    )
    edges = tuple(
        edge
        if isinstance(edge, Projection)
        else CostEdge(
            edge.tail,
            edge.head,
            np.where(np.isinf(edge.cost), np.inf, random.random(edge.cost.shape)),
        )
        for edge in graph.edges
    )
    return dynamic_programming(CostGraph(nodes, edges), SearchBudget()).choice


def plan_of(case: Case, choice: IntArray) -> Plan:
    """The plan document of a choice."""
    return plan_of_assignment(case.models, assignment_of_choice(case.lowered, choice))


def checked_plan(case: Case, choice: IntArray) -> Plan:
    """The plan of a choice, read back from JSON; it costs what the cost graph says."""
    said = evaluate_choice(case.lowered.graph, choice)
    read = Plan.from_json(plan_of(case, choice).to_json())
    cost = evaluate(case.models.problem, read)
    assert cost.objective_ns == pytest.approx(said.cost_ns, rel=1e-9)
    memory = cost.memory_bytes
    held = memory.parameters + memory.gradients + memory.optimizer + memory.activations
    assert held == pytest.approx(said.memory_bytes, abs=5)  # five rounded sums
    assert cost == read.cost
    return read


def plan_of_assignment(models: Models, assignment: Assignment) -> Plan:
    ledger = ledger_of(models, assignment)
    stage = stage_document(models, assignment, ledger)
    again = models.problem.remade.document([op.op for op in stage.ops])
    cost: Cost = cost_of_all(models, assignment)
    built = models.problem
    return Plan(
        graph=built.graph.id,
        topology=built.topology.id,
        setup=built.setup.id,
        calibration=built.calibration.id,
        microbatches=built.microbatches,
        stages=(stage.model_copy(update={"recompute": again}),),
        cost=cost,
        search=Search(
            found_by="none",
            outcome="feasible",
            cost_ns=cost.objective_ns,
            lower_bound_ns=0,
            gap=1,
            meshes=("one",),
        ),
    )
