"""`meshwright estimate`: what a stated strategy costs, in this process or at a service."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, get_args

import typer

from meshwright.cli.asking import ask, topology_of
from meshwright.cli.option_types import (
    CalibrationFile,
    Copies,
    Cuts,
    ExpertDispatch,
    ExpertImbalance,
    ExpertNodes,
    FirstStageLayers,
    GlobalBatch,
    JsonResult,
    LastStageLayers,
    Microbatches,
    OptionalGraphFile,
    OptionalTopology,
    OutputFile,
    PrecisionOption,
    RecomputeBlocks,
    RecomputeCommunication,
    RecomputeOps,
    Schedule,
    SequenceLength,
    SequenceOrder,
    ServerOption,
    SetupFile,
    SparseGradients,
    StackOption,
    StageLayers,
    Uneven,
    UnshardedParameters,
    Verify,
    Workers,
)
from meshwright.cli.pins import parse_pin
from meshwright.cli.wishes import (
    AUTO,
    NONE,
    copies_of,
    degrees_of,
    one_of,
    recompute_of,
    setup_of,
    stage_layers_of,
)
from meshwright.common.files import read_document
from meshwright.common.process_pool import usual_processes
from meshwright.schema import (
    Calibration,
    Constraints,
    Degrees,
    Graph,
    OptimizerParallel,
    Pipeline,
    RequestError,
    ScheduleKind,
    Setup,
    Wishes,
)
from meshwright.schema.setup import Precision, check_symbols
from meshwright.schema.stack import Stack


def estimate(
    context: typer.Context,
    graph: OptionalGraphFile = None,
    topology: OptionalTopology = None,
    output: OutputFile = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="Table of runs (CSV) in place of GRAPH and --topology: `-o` gets a CSV with the "
            "predicted step, its interval, memory, or the reason why there is none."
        ),
    ] = None,
    workers: Workers = None,
    server: ServerOption = None,
    dp: Annotated[
        int | None,
        typer.Option(
            min=1, help="Data-parallel size; the devices that the other degrees leave by default."
        ),
    ] = None,
    tp: Annotated[
        int,
        typer.Option(min=1, help="Tensor-parallel size: columns, rows, heads."),
    ] = 1,
    pp: Annotated[int, typer.Option(min=1, help="Pipeline ranks.")] = 1,
    vpp: Annotated[
        int,
        typer.Option(min=1, help="Virtual stages of a pipeline rank."),
    ] = 1,
    cp: Annotated[
        int,
        typer.Option(min=1, help="Context-parallel size: the sequence."),
    ] = 1,
    ep: Annotated[
        int,
        typer.Option(min=1, help="Expert-parallel size, a divisor of dp."),
    ] = 1,
    zero: Annotated[
        int,
        typer.Option(help="ZeRO over dp and cp: 1 optimizer state, 2 gradients, 3 parameters too."),
    ] = 0,
    zero_size: Annotated[
        int | None,
        typer.Option(min=1, help="Devices that ZeRO shards over, at most (HSDP)."),
    ] = None,
    sequence_parallel: Annotated[
        bool,
        typer.Option("--sequence-parallel", help="Megatron sequence parallelism over tp."),
    ] = False,
    batch: GlobalBatch = None,
    seq: SequenceLength = None,
    microbatches: Microbatches = None,
    microbatch_size: Annotated[
        int | None,
        typer.Option(min=1, help="Sequences of a microbatch on a data-parallel rank."),
    ] = None,
    schedule: Schedule = None,
    cut: Cuts = None,
    stage_layers: StageLayers = None,
    first_stage_layers: FirstStageLayers = None,
    last_stage_layers: LastStageLayers = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(help="Strategy of ops, as in `plan`; axes are dp, tp, cp and ep. Repeatable."),
    ] = None,
    recompute: Annotated[
        str | None,
        typer.Option(
            help="Activation recomputation: none (the default), selective, cheap, full, ops (op by "
            "op), or auto."
        ),
    ] = None,
    recompute_blocks: RecomputeBlocks = None,
    recompute_ops: RecomputeOps = None,
    recompute_communication: RecomputeCommunication = None,
    optimizer_unsharded: UnshardedParameters = None,
    sparse_gradients: SparseGradients = None,
    setup: SetupFile = None,
    calibration: CalibrationFile = None,
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
) -> None:
    """Predict the step time and memory of a stated strategy."""
    if table is not None:
        _check_alone(context)
        # slow to import, and no other command needs it
        from meshwright.cli.estimate_table import estimate_table

        estimate_table(table, output, workers or usual_processes())
        return
    if graph is None or topology is None:
        raise RequestError("estimate needs GRAPH and --topology, or --table")
    document = read_document(graph, Graph)
    run = setup_of(
        setup,
        seq=seq,
        dataset=None,
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
    )
    check_symbols(document, run)
    degrees = degrees_of(dp=dp, tp=tp, cp=cp, ep=ep, zero=zero, sequence_parallel=sequence_parallel)
    if microbatch_size is not None:
        run = _with_size(run, document, degrees, microbatch_size, pp, topology)
    wishes = Wishes(
        pins=tuple(parse_pin(text) for text in pin or ()),
        constraints=Constraints(
            optimizer_parallel=(
                OptimizerParallel(shard_size=zero_size, unsharded=tuple(optimizer_unsharded or ()))
                if zero_size is not None or optimizer_unsharded
                else None
            ),
            sparse_gradients=tuple(sparse_gradients or ()),
        ),
        pipeline=_pipeline(
            pp,
            vpp,
            schedule,
            tuple(cut or ()),
            partial(stage_layers_of, stage_layers, first_stage_layers, last_stage_layers),
        ),
        recompute=recompute_of(
            recompute or ("stated" if recompute_ops else _policy(recompute_blocks)),
            recompute_blocks,
            ops=recompute_ops or (),
            communication=recompute_communication,
        ),
        degrees=degrees,
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
        calibration=None if calibration is None else read_document(calibration, Calibration),
    )


def _check_alone(context: typer.Context) -> None:
    """RequestError for anything that the rows of a table say themselves."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        is_given = source is not None and source.name == "COMMANDLINE"
        if is_given and parameter.name not in ("table", "output", "workers"):
            raise RequestError(
                "--table has the model, the devices and the strategy of each row. Leave out "
                f"{max(parameter.opts, key=len).replace('graph', 'GRAPH')}"
            )


def _policy(blocks: int | None) -> str:
    """The default policy. blocks: where only their number is stated, the search chooses it."""
    return NONE if blocks is None else AUTO


def _pipeline(
    ranks: int,
    virtual: int,
    schedule: str | None,
    cuts: tuple[str, ...],
    layers: Callable[[int], tuple[int | None, ...]],
) -> Pipeline:
    """layers: of the stages, by their number."""
    kind = None if schedule is None else one_of("--schedule", schedule, get_args(ScheduleKind))
    if ranks == 1 and (virtual > 1 or kind is not None or cuts or layers(1)):
        raise RequestError(
            "--vpp, --schedule, --cut and --stage-layers are of a pipeline; say --pp too"
        )
    stages = virtual if virtual > 1 or ranks > 1 else None
    if kind == "zb_v" and virtual == 1:
        stages = 2
    return Pipeline(
        ranks=ranks,
        stages_per_rank=stages,
        schedule=kind,
        cuts=cuts,
        layers=layers(ranks * (stages or 1)),
    )


def _with_size(
    setup: Setup, graph: Graph, degrees: Degrees, size: int, ranks: int, topology: str
) -> Setup:
    """The setup with as many microbatches as have this size on every device of dp."""
    if setup.microbatches is not None:
        raise RequestError("--microbatches and --microbatch-size say the same; give one of them")
    batch = setup.global_batch or setup.symbols.get("batch") or graph.symbols.get("batch")
    if batch is None:
        raise RequestError("--microbatch-size needs a graph with the symbol 'batch'")
    dp = degrees.dp or topology_of(topology).device_count // (degrees.tp * degrees.cp * ranks)
    if dp < 1 or batch % (dp * size):
        raise RequestError(
            f"--microbatch-size {size}: a global batch of {batch} over dp {dp} is no whole number "
            f"of microbatches of {size} sequences"
        )
    return setup.model_copy(update={"microbatches": batch // (dp * size)})
