"""`meshwright plan`: search, in this process or at a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer

from meshwright.cli.asking import ask
from meshwright.cli.pins import parse_pin
from meshwright.cli.stored import SERVER
from meshwright.cli.wishes import (
    budget_of,
    constraints_of,
    copies_of,
    one_of,
    optimizer_parallel_of,
    pipeline_of,
    recompute_of,
    setup_of,
)
from meshwright.files import read_document
from meshwright.processes import MAX_PROCESSES, usual_processes
from meshwright.schema import Calibration, Graph, ScheduleKind, Wishes
from meshwright.schema.constraints import Offload
from meshwright.schema.wishes import Rest, Solver

INTERRUPTED = 130  # the exit code of shells for what Ctrl-C ended


def plan(
    graph: Annotated[Path, typer.Argument(help="Graph file: .json, .json.gz or .json.zst.")],
    topology: Annotated[str, typer.Option(help="Preset such as h100-8x8, or a topology file.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Plan file.")] = None,
    server: Annotated[
        str | None, typer.Option(help="URL of a service that searches.", envvar=SERVER)
    ] = None,
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
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_PROCESSES,
            help="Processes that search pipelines; the plan is the same. One a core, 8 at most.",
        ),
    ] = None,
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
    optimizer_whole_parameters: Annotated[
        bool,
        typer.Option(
            "--optimizer-whole-parameters",
            help="Where no dim divides, deal whole parameters' optimizer state out to devices.",
        ),
    ] = False,
    offload: Annotated[
        str | None,
        typer.Option(help="What hosts may keep: none, optimizer, embeddings or auto."),
    ] = None,
    sparse_gradients: Annotated[
        list[str] | None,
        typer.Option(
            help="Tables, by glob, whose gradients may be ids and rows of what was looked up. "
            "Updates then leave all other rows as they are (SparseAdam, LazyAdam): not what Adam "
            "does, so off by default."
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
    recompute: Annotated[
        str | None,
        typer.Option(
            help="What is done again in the backward pass: none, selective, cheap, full, ops "
            "(op by op), or auto."
        ),
    ] = None,
    recompute_blocks: Annotated[
        int | None, typer.Option(min=0, help="Only in so many blocks, the first of each stage.")
    ] = None,
    setup: Annotated[Path | None, typer.Option(help="Setup file.")] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="Calibration file, as `meshwright fit` writes it.")
    ] = None,
    phase: Annotated[str | None, typer.Option(help="training or inference.")] = None,
    cache: Annotated[
        int | None, typer.Option(min=1, help="Positions in the cache of keys, for inference.")
    ] = None,
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
    fusion: Annotated[
        list[str] | None,
        typer.Option(
            help="Of collectives of parameters: all_reduce=auto, all_gather=size:MB, "
            "reduce_scatter=.., all_reduce=index:20,35."
        ),
    ] = None,
    uneven: Annotated[
        str | None, typer.Option(help="Sizes that do not divide: refuse, chunk or pad.")
    ] = None,
    sequence_order: Annotated[
        str | None,
        typer.Option(help="contiguous, or zigzag: even work of causal attention over parts."),
    ] = None,
    expert_imbalance: Annotated[
        float | None,
        typer.Option(min=1, help="Tokens of the busiest expert over the mean of all."),
    ] = None,
    copies: Annotated[
        str | None,
        typer.Option(
            help="2: microbatches take turns in pairs, computing and sending; auto: if faster."
        ),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Execute the plan too.")] = False,
) -> None:
    """Find how to shard a graph over a cluster."""
    document = read_document(graph, Graph)
    run = setup_of(
        setup,
        seq=seq,
        dataset=dataset,
        fusion=fusion or (),
        global_batch=batch,
        microbatches=microbatches,
        uneven=uneven,
        sequence_order=sequence_order,
        expert_imbalance=expert_imbalance,
        copies=copies_of(copies),
        phase=phase,
        cache=cache,
        gradients=gradients,
        allow_all_to_all=all_to_all,
    )
    document.instantiate(run.symbols)
    wishes = Wishes(
        pins=tuple(parse_pin(text) for text in pin or ()),
        solver=one_of("--solver", solver, get_args(Solver)),
        rest=one_of("--rest", rest, get_args(Rest)),
        constraints=constraints_of(
            fully_use_devices=fully_use_devices,
            elementwise_follow=elementwise_follow,
            slice_alignment=slice_alignment,
            optimizer_parallel=optimizer_parallel_of(
                optimizer_level,
                optimizer_shard_size,
                optimizer_threshold,
                gradient_accumulation_shard,
                whole_parameters=optimizer_whole_parameters,
            ),
            offload=offload and one_of("--offload", offload, get_args(Offload)),
            sparse_gradients=tuple(sparse_gradients or ()),
        ),
        pipeline=pipeline_of(pipeline, schedule, stages_per_rank, cut or ()),
        recompute=recompute_of(recompute, recompute_blocks),
        module=module,
        budget=budget_of(budget, axes, simplicity),
    )
    if server is not None and (workers or 1) > 1:
        raise typer.BadParameter(
            "is for searches in this process; a service has MESHWRIGHT_SEARCH_PROCESSES",
            param_hint="--workers",
        )
    ask(
        document,
        topology,
        run,
        wishes,
        server=server,
        verify=verify,
        output=output,
        workers=workers or (1 if wishes.pipeline.ranks == 1 else usual_processes()),
        calibration=None if calibration is None else read_document(calibration, Calibration),
    )
