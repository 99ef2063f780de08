"""The planner of stated degrees: it searches only the decisions that the degrees leave open.

    one rank    the stage planner on the one mesh of the degrees
    pipelines   cuts at whole layers, or the user's; the stage planner for every stage; the
                evaluator of pipelines for their cost together

A strategy that exceeds the memory has a plan too: the leanest, with a note on the shortfall.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from meshwright.schedules.kinds import schedule
from meshwright.schema import (
    Answer,
    Constraints,
    Degrees,
    Infeasible,
    InvalidInput,
    MemoryUse,
    OptimizerParallel,
    Plan,
    Request,
    RequestError,
    step_batch,
)
from meshwright.schema.pipeline import NO_PIPELINE
from meshwright_costmodel.calibrations import calibration_for
from meshwright_solver.common.deadline import Deadline, Stop, never
from meshwright_solver.constraints.degrees_filter import stated_strategies, uncut_products
from meshwright_solver.constraints.degrees_mesh import stated_mesh
from meshwright_solver.constraints.meshes import shard_size_of
from meshwright_solver.constraints.pins import matching_pins
from meshwright_solver.evaluation.memory_shortfall import GIB, PARTS
from meshwright_solver.evaluation.notes import once
from meshwright_solver.folding.folding_cache import Foldings
from meshwright_solver.pipeline.anatomy_cache import anatomy_of
from meshwright_solver.pipeline.configurations import Configuration, configurations
from meshwright_solver.pipeline.pipeline_document import document
from meshwright_solver.pipeline.rank_topology import split
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.pipeline.stage_plans import StagePlanner
from meshwright_solver.pipeline.stage_problems import Staged
from meshwright_solver.planning.degrees.layer_cuts import equal_cuts
from meshwright_solver.planning.degrees.least_memory import plan_anyway
from meshwright_solver.planning.degrees.stage_shares import plan_shared
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.problem.uneven import Uneven
from meshwright_solver.stage.engines.registry import portfolio_of
from meshwright_solver.stage.request_check import check
from meshwright_solver.stage.search_progress import Report
from meshwright_solver.stage.stage_planner import plan_stage
from meshwright_solver.stage.stage_position import ALONE
from meshwright_solver.strategies.mesh_models import Models


def plan_stated(
    request: Request,
    report: Report | None = None,
    stop: Stop = never,
    planned: StagePlanner = plan_anyway,
    shares: tuple[float, ...] = (),
) -> Answer:
    """The plan of the request's degrees, or the reason for none; MeshwrightError if invalid.

    planned: the planner of stages; `plan_stage` finds only plans that fit. shares: see
    `plan_shared`.
    """
    resolved, notes = _resolve(request, anatomy_of(request.graph).foldings)
    if resolved.pipeline.ranks == 1:
        answer = _one_rank(resolved, report, stop, planned)
    else:
        answer = _pipeline(resolved, stop, planned, shares)
    if answer.plan is None:
        return answer
    return answer.model_copy(update={"plan": _with_notes(request, resolved, answer.plan, notes)})


def check_stated(request: Request) -> None:
    """Raise the errors of `plan_stated` for bad input, without a search."""
    resolved, _ = _resolve(request, Foldings(request.graph))
    check(_on_rank(resolved))
    if resolved.pipeline.ranks != 1:
        _configuration(_with_microbatches(resolved), Anatomy(resolved.graph))


def _resolve(request: Request, foldings: Foldings) -> tuple[Request, tuple[str, ...]]:
    """The request with its degree of data parallelism, and notes on uncut products.

    Raises MeshwrightError for degrees that do not fit the graph or the devices.
    """
    ranks = request.pipeline.ranks
    assert ranks is not None
    if request.topology.beside:
        raise InvalidInput(
            "degrees are stated for devices of one kind, and the topology has several. Name one of "
            "its groups as the topology, or leave the degrees to the pipeline search",
            pointer="/topology",
        )
    if ranks > 1 and request.setup.phase != "training":
        raise InvalidInput("pipelines are planned for training only", pointer="/pipeline")
    resolved = with_stated_terms(request)
    count = (
        _microbatches(resolved)
        if ranks > 1
        else request.setup.microbatches or request.setup.least_copies
    )
    names = _uncut_names(_on_rank(resolved), count, foldings)
    return resolved, once(f"tp cuts nothing of {name!r}: its devices repeat it" for name in names)


def with_stated_terms(request: Request) -> Request:
    """The request with the wishes that its degrees imply.

    These are the ZeRO level, the search, and the data parallelism on the devices of a pipeline
    rank.
    """
    degrees = request.degrees
    assert degrees is not None
    return request.model_copy(
        update={
            "degrees": _on_devices(degrees, _on_rank(request).topology.device_count),
            "constraints": _with_zero(request.constraints, degrees),
            "solver": portfolio_of(request.solver).first.name,
        }
    )


def _on_devices(degrees: Degrees, count: int) -> Degrees:
    try:
        return degrees.of_devices(count)
    except RequestError as error:
        raise error.within("/degrees") from None


def _with_zero(constraints: Constraints, degrees: Degrees) -> Constraints:
    wish = constraints.optimizer_parallel or OptimizerParallel()
    stage = wish.model_copy(update={"level": degrees.zero})
    return constraints.model_copy(update={"optimizer_parallel": stage})


def _on_rank(request: Request) -> Request:
    """The request for the whole graph on the devices of one pipeline rank."""
    ranks = request.pipeline.ranks
    assert ranks is not None
    part = request.topology if ranks == 1 else split(request.topology, ranks)[0]
    return request.model_copy(update={"topology": part, "pipeline": NO_PIPELINE})


def uncut_names(request: Request, microbatches: int, foldings: Foldings) -> list[str]:
    """The products that the tp of a request with degrees cannot cut evenly."""
    return _uncut_names(_on_rank(with_stated_terms(request)), microbatches, foldings)


def _uncut_names(request: Request, microbatches: int, foldings: Foldings) -> list[str]:
    """The products that tp cuts evenly neither with nor without uneven cuts of other sizes."""
    degrees, topology = request.degrees, request.topology
    assert degrees is not None
    graph = next(foldings.of(matching_pins(request.graph, request.pins))).graph
    calibration, sizes = calibration_for(request), foldings.sized
    problem = build_problem(graph, topology, request.setup, calibration, microbatches, sizes=sizes)
    values, mesh = foldings.values(problem), stated_mesh(topology, degrees, shard_size_of(request))
    variants = [replace(problem, uneven=Uneven())]
    if problem.uneven.has_spans(tuple(axis.size for axis in mesh.axes)):
        variants.append(problem)
    found: list[list[str]] = []
    for number, variant in enumerate(variants):
        allowed = stated_strategies(variant, degrees, mesh, values.views)
        try:
            found.append(uncut_products(Models(variant, values, mesh), degrees, allowed))
        except InvalidInput:
            if number == len(variants) - 1 and not found:
                raise
    return [name for name in found[0] if all(name in names for names in found)]


def _microbatches(request: Request) -> int:
    """The stated count, or that of microbatches of one sequence for each device of dp."""
    if request.setup.microbatches is not None:
        return request.setup.microbatches
    assert request.degrees is not None
    return max(1, (step_batch(request.graph, request.setup) or 1) // (request.degrees.dp or 1))


def _with_microbatches(request: Request) -> Request:
    setup = request.setup.model_copy(update={"microbatches": _microbatches(request)})
    return request.model_copy(update={"setup": setup})


def _one_rank(request: Request, report: Report | None, stop: Stop, planned: StagePlanner) -> Answer:
    """The plan of one rank; an open number of microbatches becomes the least that fits."""
    if request.setup.microbatches is None:
        answer = plan_stage(request, report, stop)
        if answer.plan is not None:
            return answer
    return planned(_with_microbatches(request), report, stop, ALONE)


def _pipeline(
    request: Request, stop: Stop, planned: StagePlanner, shares: tuple[float, ...]
) -> Answer:
    anatomy = anatomy_of(request.graph)
    configuration = _configuration(_with_microbatches(request), anatomy)
    order = schedule(*configuration.schedule_terms)
    calibration = calibration_for(request)
    cuts = configuration.cuts or equal_cuts(anatomy, request.setup, order.stages)
    staged = Staged(anatomy, request.topology, request.setup, calibration, order, cuts)
    deadline = Deadline.after(request.budget.seconds, stop)
    plans = plan_shared(request, configuration, staged, deadline, planned, shares)
    if isinstance(plans, Infeasible):
        return Answer(infeasible=plans)
    axes = max(len(stage.mesh.axes) for stage in plans.priced.stages)
    budget = request.budget.model_copy(update={"max_axes": axes})
    return Answer(
        plan=document(request.model_copy(update={"budget": budget}), staged, plans, (), ())
    )


def _configuration(request: Request, anatomy: Anatomy) -> Configuration:
    pipeline = request.pipeline
    count = pipeline.stages_per_rank or (2 if pipeline.schedule == "zb_v" else 1)
    kind = pipeline.schedule or ("interleaved_1f1b" if count > 1 else "1f1b")
    update = {"schedule": kind, "stages_per_rank": count}
    wanted = request.model_copy(update={"pipeline": pipeline.model_copy(update=update)})
    return next(iter(configurations(wanted, anatomy)))


def _with_notes(request: Request, resolved: Request, plan: Plan, notes: tuple[str, ...]) -> Plan:
    """The plan with the request's documents and device memory, and with its notes."""
    device, reserve = request.topology.device, request.setup.memory_reserve
    memory = plan.cost.memory_bytes.model_copy(
        update={
            "capacity": device.memory_bytes,
            "reserved": round(device.memory_bytes * reserve),
        }
    )
    stated = _stated_note(resolved, plan)
    notes = (stated, *_misfit(memory), *notes, *plan.notes)
    return plan.model_copy(
        update={
            "topology": request.topology.id,
            "setup": request.setup.id,
            "cost": plan.cost.model_copy(update={"memory_bytes": memory}),
            "notes": notes,
        }
    )


def _stated_note(request: Request, plan: Plan) -> str:
    strategy = f"the strategy is stated: {request.degrees}"
    if plan.schedule is not None:
        order = plan.schedule
        strategy += f", {order.ranks} pipeline ranks"
        strategy += f" of {order.stages_per_rank} stages" if order.stages_per_rank > 1 else ""
    return f"{strategy}; the search settled what it leaves open, and its bound is for plans like it"


def _misfit(memory: MemoryUse) -> Iterator[str]:
    if memory.total <= memory.capacity:
        return
    needed, there = memory.total - memory.reserved, memory.capacity - memory.reserved
    parts = {name: getattr(memory, name) for name in PARTS}
    most = max(parts, key=lambda name: parts[name])
    when = f" at its fullest moment ({memory.moment})" if memory.moment else ""
    yield (
        f"this does not fit: it needs {needed / GIB:.1f} GiB on a device{when}, there are "
        f"{there / GIB:.1f} GiB after the reserve; most of it are {PARTS[most]}, "
        f"{parts[most] / GIB:.1f} GiB: {_REMEDIES.get(most, _SMALLER)} would make them fewer"
    )


_SMALLER = "smaller microbatches, more tp with sequence parallelism, or more cp"
_REMEDIES = {
    "parameters": "zero 3, more tp or more pipeline ranks",
    "gradients": "zero 2 or 3, more tp or more pipeline ranks",
    "optimizer": "zero 1 to 3, more tp or more pipeline ranks",
    "cache": "fewer sequences, more tp",
    "gathered": "more tp, or zero 2 and less",
}
