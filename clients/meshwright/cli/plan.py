"""`meshwright plan`: search, in this process or at a service."""

from __future__ import annotations

from functools import partial
from typing import Annotated, get_args

import typer

from meshwright.cli.asking import ask
from meshwright.cli.imported_pins import imported_pins
from meshwright.cli.option_types import (
    CalibrationFile,
    Copies,
    Cuts,
    ExpertDispatch,
    ExpertImbalance,
    ExpertNodes,
    FirstStageLayers,
    Fresh,
    FromPlan,
    GlobalBatch,
    GraphFile,
    JsonResult,
    Keep,
    LastStageLayers,
    MaxAge,
    Microbatches,
    OutputFile,
    Pins,
    PipelineRanks,
    PrecisionOption,
    Recompute,
    RecomputeBlocks,
    RecomputeCommunication,
    RecomputeOps,
    Schedule,
    SearchSeconds,
    SequenceLength,
    SequenceOrder,
    ServerOption,
    SetupFile,
    SparseGradients,
    StackOption,
    StageLayers,
    Strategies,
    StrategyNames,
    TargetOption,
    TopologyOption,
    Uneven,
    UnshardedParameters,
    Verify,
    Workers,
)
from meshwright.cli.pins import parse_pin
from meshwright.cli.stored_answers import stored_answers
from meshwright.cli.wishes import (
    budget_of,
    constraints_of,
    copies_of,
    one_of,
    optimizer_parallel_of,
    pipeline_of,
    recompute_of,
    setup_of,
    stage_layers_of,
)
from meshwright.common.files import read_document
from meshwright.common.process_pool import usual_processes
from meshwright.schema import Calibration, Graph, Wishes
from meshwright.schema.constraints import Offload
from meshwright.schema.request_options import Rest, Solver
from meshwright.schema.setup import Precision, check_symbols
from meshwright.schema.stack import Stack
from meshwright.schema.target import TARGETS


def plan(
    graph: GraphFile,
    topology: TopologyOption,
    output: OutputFile = None,
    server: ServerOption = None,
    target: TargetOption = None,
    batch: GlobalBatch = None,
    seq: SequenceLength = None,
    microbatches: Microbatches = None,
    pin: Pins = None,
    from_plan: FromPlan = None,
    keep: Keep = None,
    strategies: Strategies = None,
    strategy_names: StrategyNames = None,
    module: Annotated[
        str | None,
        typer.Option(help="Search only the ops of this glob; all other ops are data parallel."),
    ] = None,
    solver: Annotated[
        str,
        typer.Option(help=f"One of {', '.join(get_args(Solver))}."),
    ] = "auto",
    rest: Annotated[
        str,
        typer.Option(help="Ops without pins in semi_auto: data_parallel or propagate."),
    ] = "data_parallel",
    budget: SearchSeconds = None,
    axes: Annotated[
        int | None, typer.Option(help="Maximum number of mesh axes. Default: 3.")
    ] = None,
    workers: Workers = None,
    simplicity: Annotated[
        float | None,
        typer.Option(
            help="Take the simplest plan whose step time is at most this share above the best."
        ),
    ] = None,
    unrestricted: Annotated[
        bool | None,
        typer.Option(
            "--unrestricted/--no-unrestricted",
            help="With a target: search also without it in the time that is left, and report what "
            "the restriction costs. On by default.",
        ),
    ] = None,
    fully_use_devices: Annotated[
        bool,
        typer.Option(
            "--fully-use-devices", help="Every op is sharded over all devices or replicated."
        ),
    ] = False,
    elementwise_follow: Annotated[
        bool,
        typer.Option("--elementwise-follow", help="No redistribution for element-wise ops."),
    ] = False,
    slice_alignment: Annotated[
        int | None,
        typer.Option(help="Shards of matrix products' last dims are multiples of this number."),
    ] = None,
    optimizer_level: Annotated[
        int | None,
        typer.Option(
            help="ZeRO level: 0 shards nothing, 1 optimizer state, 2 gradients, 3 parameters too. "
            "Default: the search chooses."
        ),
    ] = None,
    optimizer_shard_size: Annotated[
        int | None,
        typer.Option(help="Maximum number of devices that ZeRO shards over (HSDP)."),
    ] = None,
    optimizer_threshold: Annotated[
        int | None,
        typer.Option(help="Do not shard parameters of at most this many KiB. Default: 64."),
    ] = None,
    gradient_accumulation_shard: Annotated[
        bool | None,
        typer.Option(
            "--gradient-accumulation-shard/--no-gradient-accumulation-shard",
            help="Accumulate the gradients of microbatches in shards.",
        ),
    ] = None,
    optimizer_whole_parameters: Annotated[
        bool,
        typer.Option(
            "--optimizer-whole-parameters",
            help="If no dim of a parameter divides, assign its optimizer state to one device.",
        ),
    ] = False,
    optimizer_unsharded: UnshardedParameters = None,
    offload: Annotated[
        str | None,
        typer.Option(help="Offload to host memory: none, optimizer, embeddings or auto."),
    ] = None,
    sparse_gradients: SparseGradients = None,
    pipeline: PipelineRanks = None,
    schedule: Schedule = None,
    stages_per_rank: Annotated[
        int | None,
        typer.Option(min=1, help="Virtual stages of a pipeline rank."),
    ] = None,
    cut: Cuts = None,
    stage_layers: StageLayers = None,
    first_stage_layers: FirstStageLayers = None,
    last_stage_layers: LastStageLayers = None,
    recompute: Recompute = None,
    recompute_blocks: RecomputeBlocks = None,
    recompute_ops: RecomputeOps = None,
    recompute_communication: RecomputeCommunication = None,
    setup: SetupFile = None,
    calibration: CalibrationFile = None,
    phase: Annotated[str | None, typer.Option(help="training or inference.")] = None,
    cache: Annotated[
        int | None,
        typer.Option(min=1, help="Positions of the key-value cache, for inference."),
    ] = None,
    gradients: Annotated[
        str | None,
        typer.Option(help="Gradients over the batch: mean or sum."),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Sharding of the loaded inputs: any, full_batch, data_parallel, or their splits "
            "((8,1),_)."
        ),
    ] = None,
    all_to_all: Annotated[
        bool | None,
        typer.Option(
            "--all-to-all/--no-all-to-all",
            help="Allow all-to-all; without it, all-gather and slice.",
        ),
    ] = None,
    fusion: Annotated[
        list[str] | None,
        typer.Option(
            help="Buckets of parameter collectives: all_reduce=auto, all_gather=size:MB, "
            "reduce_scatter=.., all_reduce=index:20,35. Repeatable. mindspore: its default, 64 MB."
        ),
    ] = None,
    uneven: Uneven = None,
    sequence_order: SequenceOrder = None,
    expert_imbalance: ExpertImbalance = None,
    expert_dispatch: ExpertDispatch = None,
    expert_nodes: ExpertNodes = None,
    precision: PrecisionOption = None,
    stack: StackOption = None,
    copies: Copies = None,
    verify: Verify = False,
    as_json: JsonResult = False,
    fresh: Fresh = False,
    max_age: MaxAge = None,
) -> None:
    """Plan a graph on a cluster."""
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
        expert_dispatch=expert_dispatch
        and one_of("--expert-dispatch", expert_dispatch, ("expert", "node")),
        expert_nodes=expert_nodes,
        precision=precision and one_of("--precision", precision, get_args(Precision)),
        stack=stack and one_of("--stack", stack, get_args(Stack)),
        copies=copies_of(copies),
        phase=phase,
        cache=cache,
        gradients=gradients,
        allow_all_to_all=all_to_all,
    )
    check_symbols(document, run)
    imported = imported_pins(
        document,
        run,
        from_plan=from_plan,
        strategies=strategies,
        strategy_names=strategy_names,
        keep=keep or (),
        server=server,
    )
    wishes = Wishes(
        pins=(*imported, *(parse_pin(text) for text in pin or ())),
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
                unsharded=optimizer_unsharded or (),
            ),
            offload=offload and one_of("--offload", offload, get_args(Offload)),
            sparse_gradients=tuple(sparse_gradients or ()),
        ),
        pipeline=pipeline_of(
            pipeline,
            schedule,
            stages_per_rank,
            cut or (),
            partial(stage_layers_of, stage_layers, first_stage_layers, last_stage_layers),
        ),
        recompute=recompute_of(
            recompute,
            recompute_blocks,
            ops=recompute_ops or (),
            communication=recompute_communication,
        ),
        module=module,
        target=None if target is None else one_of("--target", target, TARGETS),
        budget=budget_of(budget, axes, simplicity, unrestricted=unrestricted),
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
        as_json=as_json,
        workers=workers or usual_processes(),
        calibration=None if calibration is None else read_document(calibration, Calibration),
        stored=stored_answers(fresh=fresh, max_age=max_age, server=server),
    )
