"""`meshwright plan`: search, in this process or at a service."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, get_args

import typer

from meshwright.cli.consoles import notices, results
from meshwright.cli.pins import parse_pin
from meshwright.cli.progress import ProgressLine
from meshwright.cli.wishes import (
    Wishes,
    budget_of,
    constraints_of,
    one_of,
    optimizer_parallel_of,
    pipeline_of,
    setup_of,
)
from meshwright.client import Client
from meshwright.files import read_document
from meshwright.planfile import PlanFile
from meshwright.planner import certificate_of, find_planner, find_verifier, preset
from meshwright.schema import (
    Answer,
    Graph,
    Infeasible,
    Progress,
    Request,
    ScheduleKind,
    Setup,
    Topology,
)
from meshwright.schema.request import Rest, Solver
from meshwright.show import render_plan, render_summary
from meshwright.stopping import StopSignal
from meshwright.units import show_bytes

INTERRUPTED = 130  # the exit code of shells for what Ctrl-C ended


def plan(
    graph: Annotated[Path, typer.Argument(help="Graph file: .json, .json.gz or .json.zst.")],
    topology: Annotated[str, typer.Option(help="Preset such as h100-8x8, or a topology file.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Plan file.")] = None,
    server: Annotated[str | None, typer.Option(help="URL of a service that searches.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Global batch.")] = None,
    seq: Annotated[int | None, typer.Option(min=1, help="Sequence length.")] = None,
    microbatches: Annotated[int | None, typer.Option(min=1, help="Microbatches of a step.")] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            help="op-glob:factor=axis,…; or :((8,1),(1,tp))->((8,tp),), the cuts of inputs and "
            "outputs; or :data_parallel."
        ),
    ] = None,
    module: Annotated[
        str | None, typer.Option(help="Search only ops of this glob; others are data parallel.")
    ] = None,
    solver: Annotated[str, typer.Option(help=f"One of {', '.join(get_args(Solver))}.")] = "auto",
    rest: Annotated[
        str, typer.Option(help="Ops without pins in semi_auto: data_parallel or propagate.")
    ] = "data_parallel",
    budget: Annotated[float | None, typer.Option(help="Seconds to search at most.")] = None,
    axes: Annotated[int | None, typer.Option(help="Axes of the mesh at most.")] = None,
    simplicity: Annotated[
        float | None,
        typer.Option(help="Take the simplest plan at most this share above the best."),
    ] = None,
    fully_use_devices: Annotated[
        bool, typer.Option("--fully-use-devices", help="An op is cut over all devices or whole.")
    ] = False,
    elementwise_follow: Annotated[
        bool, typer.Option("--elementwise-follow", help="No redistribution for element-wise ops.")
    ] = False,
    slice_alignment: Annotated[
        int | None, typer.Option(help="Parts of matrix products' last dims are multiples of it.")
    ] = None,
    optimizer_level: Annotated[
        int | None,
        typer.Option(
            help="Shard 0 nothing, 1 optimizer state, 2 gradients, 3 parameters too; "
            "else the search chooses."
        ),
    ] = None,
    optimizer_shard_size: Annotated[
        int | None, typer.Option(help="Over so many devices at most.")
    ] = None,
    optimizer_threshold: Annotated[
        int | None, typer.Option(help="Parameters of so many KiB stay whole; 64 by default.")
    ] = None,
    gradient_accumulation_shard: Annotated[
        bool | None,
        typer.Option(
            "--gradient-accumulation-shard/--no-gradient-accumulation-shard",
            help="Sum gradients of microbatches in shards.",
        ),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(help="Pipeline ranks: a number, or auto to search; none by default."),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(help=f"Of the pipeline: one of {', '.join(get_args(ScheduleKind))}."),
    ] = None,
    stages_per_rank: Annotated[
        int | None, typer.Option(min=1, help="Virtual stages of a pipeline rank.")
    ] = None,
    cut: Annotated[
        list[str] | None, typer.Option(help="Op with which the next stage begins; in their order.")
    ] = None,
    setup: Annotated[Path | None, typer.Option(help="Setup file.")] = None,
    phase: Annotated[str | None, typer.Option(help="training or inference.")] = None,
    gradients: Annotated[str | None, typer.Option(help="Over the batch: mean or sum.")] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="How inputs are loaded: any, full_batch, data_parallel, or their cuts ((8,1),_)."
        ),
    ] = None,
    all_to_all: Annotated[
        bool | None,
        typer.Option("--all-to-all/--no-all-to-all", help="Else all-gather and slice."),
    ] = None,
    uneven: Annotated[
        str | None, typer.Option(help="Sizes that do not divide: refuse, chunk or pad.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Execute the plan too.")] = False,
) -> None:
    """Find how to shard a graph over a cluster."""
    document = read_document(graph, Graph)
    run = setup_of(
        setup,
        seq=seq,
        dataset=dataset,
        global_batch=batch,
        microbatches=microbatches,
        uneven=uneven,
        phase=phase,
        gradients=gradients,
        allow_all_to_all=all_to_all,
    )
    document.instantiate(run.symbols)
    wishes: Wishes = {
        "pins": tuple(parse_pin(text) for text in pin or ()),
        "solver": one_of("--solver", solver, get_args(Solver)),
        "rest": one_of("--rest", rest, get_args(Rest)),
        "constraints": constraints_of(
            fully_use_devices=fully_use_devices,
            elementwise_follow=elementwise_follow,
            slice_alignment=slice_alignment,
            optimizer_parallel=optimizer_parallel_of(
                optimizer_level,
                optimizer_shard_size,
                optimizer_threshold,
                gradient_accumulation_shard,
            ),
        ),
        "pipeline": pipeline_of(pipeline, schedule, stages_per_rank, cut or ()),
        "module": module,
        "budget": budget_of(budget, axes, simplicity),
    }
    cluster: Topology | None
    if server is None:
        cluster = local = _topology(topology)
        request = Request(graph=document, topology=local, setup=run, **wishes)
        answer = _searched(request)
        if verify:
            answer = _verified(answer, request)
    else:
        with Client(server) as client, ProgressLine() as line:
            answer = client.plan(
                document,
                _topology(topology) if _is_file(topology) else topology,
                setup=run,
                **wishes,
                on_progress=line,
                verify=verify,
            )
            cluster = _fetched(client, answer)
    _tell(answer, document, cluster, run, output)


def _searched(request: Request) -> Answer:
    """The planner's answer; the first Ctrl-C asks it for the best plan so far."""
    planner = find_planner()
    with StopSignal(signal.SIGINT) as stop, ProgressLine(stop) as line:
        answer = planner(request, line, stop)
    return answer.model_copy(update={"ended_early": stop.heeded})


def _verified(answer: Answer, request: Request) -> Answer:
    if answer.plan is None:
        return answer
    with ProgressLine() as line:
        line(Progress(phase="verifying", done=0, total=1))
        certificate = certificate_of(find_verifier(), answer.plan, request)
    return answer.model_copy(update={"certificate": certificate})


def _tell(
    answer: Answer, graph: Graph, topology: Topology | None, setup: Setup, output: Path | None
) -> None:
    if answer.plan is None:
        assert answer.infeasible is not None
        if answer.ended_early and answer.infeasible.constraint == "time":
            _notice("meshwright: the search was ended before it had found a plan")
            raise typer.Exit(INTERRUPTED)
        _notice(f"meshwright: no plan fits: {_binding(answer.infeasible)}")
        raise typer.Exit(1)
    plan, certificate = answer.plan, answer.certificate
    if output is not None:
        PlanFile(
            plan=plan,
            graph=graph,
            topology=topology,
            setup=setup,
            certificate=certificate,
            seconds=answer.seconds,
        ).write(output)
    render = render_plan if output is None else render_summary
    results().print(
        render(
            plan,
            graph=graph,
            topology=topology,
            setup=setup,
            certificate=certificate,
            seconds=answer.seconds,
        )
    )
    if answer.ended_early:
        _notice("meshwright: the search was ended early; this is the best plan until then")
    if output is not None:
        _notice(f"wrote {output}; meshwright show {output} prints all of it")
    if certificate is not None and certificate.outcome != "verified":
        raise typer.Exit(1)


def _notice(text: str) -> None:
    notices().print(text, markup=False, soft_wrap=True)


def _binding(infeasible: Infeasible) -> str:
    needed, available = infeasible.needed_bytes, infeasible.available_bytes
    numbers = (
        f" (needed {show_bytes(needed)}, available {show_bytes(available)} a device)"
        if needed is not None and available is not None
        else ""
    )
    largest = ", ".join(
        f"{own.tensor} ({_together(own.count)}{show_bytes(own.bytes)})"
        for own in infeasible.largest
    )
    most = f"\nmost of it: {largest}" if largest else ""
    return f"{infeasible.constraint}: {infeasible.detail}{numbers}{most}"


def _together(count: int) -> str:
    return f"{count} of them, together " if count > 1 else ""


def _is_file(topology: str) -> bool:
    return topology.endswith((".json", ".gz", ".zst")) or Path(topology).is_file()


def _topology(topology: str) -> Topology:
    return read_document(Path(topology), Topology) if _is_file(topology) else preset(topology)


def _fetched(client: Client, answer: Answer) -> Topology | None:
    return client.get_topology(answer.plan.topology) if answer.plan else None
